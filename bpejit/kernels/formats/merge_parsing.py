"""Read the vocabulary and the list of merges of a `tokenizer.json`."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel

UNUSUAL = -1
"""Result if there is something else than texts with ids, or merges of two strings, or no valid JSON."""

_QUOTE, _COMMA, _SPACE, _OPEN, _CLOSE, _ESCAPE, _U, _COLON, _END = (np.uint8(ord(sign)) for sign in '", []\\u:}')

_MOST_DIGITS = 10

_LAST_SPACE = np.uint8(32)

_PLAIN = np.frombuffer(b'"\\/\b\f\n\r\t', np.uint8).copy()
"""The characters of the escapes in `_ESCAPES`."""

_ESCAPES = np.frombuffer(b'"\\/bfnrt', np.uint8).copy()


@inline
def _skip_space(data, at):
    while data[at] == 32 or (9 <= data[at] <= 13 and data[at] != 11 and data[at] != 12):
        at += 1
    return at


@inline
def _hex_value(data, at):
    """Return the number of four hexadecimal digits, or -1."""
    value = 0
    for i in range(4):
        digit = np.int64(data[at + i])
        if 48 <= digit <= 57:
            digit -= 48
        elif 97 <= digit | 32 <= 102:
            digit = (digit | 32) - 87
        else:
            return -1
        value = value << 4 | digit
    return value


@inline
def _write_code(code, pool, n):
    """Append a code point as UTF-8; return the new position."""
    if code < 0x80:
        pool[n] = code
        return n + 1
    if code < 0x800:
        pool[n] = 0xC0 | code >> 6
        pool[n + 1] = 0x80 | code & 0x3F
        return n + 2
    if code < 0x10000:
        pool[n] = 0xE0 | code >> 12
        pool[n + 1] = 0x80 | code >> 6 & 0x3F
        pool[n + 2] = 0x80 | code & 0x3F
        return n + 3
    pool[n] = 0xF0 | code >> 18
    pool[n + 1] = 0x80 | code >> 12 & 0x3F
    pool[n + 2] = 0x80 | code >> 6 & 0x3F
    pool[n + 3] = 0x80 | code & 0x3F
    return n + 4


@inline
def _read_escape(data, at, pool, n):
    """Append what the escape at `at` stands for; return the positions after it in both, the first UNUSUAL if it is none."""
    sign = data[at + 1]
    if sign == _U:
        code = _hex_value(data, at + 2)
        at += 6
        if 0xD800 <= code < 0xDC00 and data[at] == _ESCAPE and data[at + 1] == _U:
            low = _hex_value(data, at + 2)
            code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00 if 0xDC00 <= low < 0xE000 else -1
            at += 6
        if code < 0 or 0xD800 <= code < 0xE000:
            return UNUSUAL, n
        return at, _write_code(code, pool, n)
    for i in range(_ESCAPES.size):
        if sign == _ESCAPES[i]:
            pool[n] = _PLAIN[i]
            return at + 2, n + 1
    return UNUSUAL, n


@inline
def _read_string(data, at, pool, n):
    """Append the string at `at`; return the positions after it in both, the first UNUSUAL if there is none."""
    if data[at] != _QUOTE:
        return UNUSUAL, n
    at += 1
    while at != UNUSUAL and data[at] != _QUOTE:
        sign = data[at]
        if sign == _ESCAPE:
            at, n = _read_escape(data, at, pool, n)
        elif sign < _LAST_SPACE:
            at = UNUSUAL
        else:
            pool[n] = sign
            n += 1
            at += 1
    return (UNUSUAL, n) if at == UNUSUAL else (at + 1, n)


@inline
def _skip_comma(data, at, close):
    """Return the position of the item after a comma, or of the bracket that closes; UNUSUAL if there is neither."""
    at = _skip_space(data, at)
    if data[at] == close:
        return at
    if data[at] != _COMMA:
        return UNUSUAL
    at = _skip_space(data, at + 1)
    return UNUSUAL if data[at] == close else at


@inline
def _cut_space(pool, begin, n):
    """Remove the only space of `pool[begin:n]`; return where it was, or UNUSUAL if there is none or another."""
    place = UNUSUAL
    for i in range(begin, n):
        if pool[i] == _SPACE:
            if place != UNUSUAL:
                return UNUSUAL
            place = i
        elif place != UNUSUAL:
            pool[i - 1] = pool[i]
    return place


@kernel
def parse_merges(data, begin, pool, starts, state):
    """Read the list of merges at a position: each two strings in a list, or one string with a space between two tokens.

    Parameters
    ----------
    data : uint8[:], in
        JSON in UTF-8; readable 16 bytes past its end, where zeros are.
    begin : int
        The position of the bracket that opens the list.
    pool : uint8[:], out
        Receives the tokens, left and right in turn; as large as `data`.
    starts : int64[:], out
        Where each starts, and where the last one ends; at least half as many as the bytes of `data`, and 8 more.
    state : int64[1], out
        The position after the bracket that closes the list.

    Returns
    -------
    int
        The number of tokens, or UNUSUAL.

    Notes
    -----
    Linear. That strings are UTF-8 is not checked.
    """
    at = _skip_space(data, begin + 1)
    n = 0
    count = 0
    starts[0] = 0
    while data[at] != _CLOSE:
        is_list = data[at] == _OPEN
        if is_list:
            at = _skip_space(data, at + 1)
        at, n = _read_string(data, at, pool, n)
        if at == UNUSUAL:
            return UNUSUAL
        if is_list:
            starts[count + 1] = n
            at = _skip_space(data, at)
            if data[at] != _COMMA:
                return UNUSUAL
            at = _skip_space(data, at + 1)
            at, n = _read_string(data, at, pool, n)
            if at == UNUSUAL:
                return UNUSUAL
            at = _skip_space(data, at)
            if data[at] != _CLOSE:
                return UNUSUAL
            at += 1
        else:
            starts[count + 1] = _cut_space(pool, starts[count], n)
            n -= 1
            if starts[count + 1] == UNUSUAL:
                return UNUSUAL
        count += 2
        starts[count] = n
        at = _skip_comma(data, at, _CLOSE)
        if at == UNUSUAL:
            return UNUSUAL
    state[0] = at + 1
    return count


@kernel
def parse_vocabulary(data, begin, pool, starts, numbers, state):
    """Read the object at a position: texts, and an id from 0 to 9,999,999,999 for each.

    Parameters
    ----------
    data, begin, pool, state
        As for `parse_merges`; brackets are braces.
    starts, numbers : int64[:], out
        Where each text starts, and where the last one ends, and the ids; as `starts` of `parse_merges`.

    Returns
    -------
    int
        The number of texts, or UNUSUAL.

    Notes
    -----
    Linear. That texts are distinct and UTF-8 is not checked.
    """
    at = _skip_space(data, begin + 1)
    n = 0
    count = 0
    starts[0] = 0
    while data[at] != _END:
        at, n = _read_string(data, at, pool, n)
        if at == UNUSUAL:
            return UNUSUAL
        at = _skip_space(data, at)
        if data[at] != _COLON:
            return UNUSUAL
        at = _skip_space(data, at + 1)
        number = np.int64(0)
        first = at
        while 48 <= data[at] <= 57 and at - first < _MOST_DIGITS:
            number = 10 * number + np.int64(data[at]) - 48
            at += 1
        if at == first or (data[first] == 48 and at > first + 1):
            return UNUSUAL
        numbers[count] = number
        count += 1
        starts[count] = n
        at = _skip_comma(data, at, _END)
        if at == UNUSUAL:
            return UNUSUAL
    state[0] = at + 1
    return count
