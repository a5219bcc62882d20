"""Write vocabularies and merges as JSON, one token or merge per line."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel

INDENT = 6
"""Spaces at the start of a line."""

MOST_DIGITS = 19
"""Maximum number of digits of an id."""

TWO_BYTES = np.uint32(1 << 16)
"""Bit of a form of two bytes (see `quote_tokens`)."""

_QUOTE, _COMMA, _NEWLINE, _SPACE, _COLON, _OPEN, _CLOSE, _ZERO = (np.uint8(ord(sign)) for sign in '",\n :[]0')


@kernel
def quote_tokens(pool, starts, forms, quoted, quoted_starts):
    """Write tokens as JSON strings, with a character for each byte.

    Parameters
    ----------
    pool : uint8[:], in
    starts : int64[n + 1], in
        Token `i` is `pool[starts[i]:starts[i + 1]]`.
    forms : uint32[256], in
        What represents each byte: one or two bytes, from the lowest on, with `TWO_BYTES` for two.
    quoted : uint8[:], out
        At least the bytes of all forms, and two for each token.
    quoted_starts : int64[n + 1], out

    Notes
    -----
    Linear in the pool. Starts are not checked.
    """
    at = 0
    quoted_starts[0] = at
    for n in range(starts.size - 1):
        quoted[at] = _QUOTE
        at += 1
        for i in range(starts[n], starts[n + 1]):
            form = forms[pool[i]]
            quoted[at] = np.uint8(form & np.uint32(0xFF))
            at += 1
            if form & TWO_BYTES:
                quoted[at] = np.uint8((form >> np.uint32(8)) & np.uint32(0xFF))
                at += 1
        quoted[at] = _QUOTE
        at += 1
        quoted_starts[n + 1] = at


@inline
def _copy(source, begin, end, out, at):
    """Append `source[begin:end]`; return the new position."""
    for i in range(end - begin):
        out[at + i] = source[begin + i]
    return at + end - begin


@inline
def _begin_line(number, out, at):
    """End the line before, if there is one, and indent the next one; return the new position."""
    if number > 0:
        out[at] = _COMMA
        out[at + 1] = _NEWLINE
        at += 2
    for i in range(INDENT):
        out[at + i] = _SPACE
    return at + INDENT


@kernel
def write_vocabulary(quoted, starts, order, numbers, out):
    """Write lines such as `"the": 262`, with a comma after all but the last one.

    Parameters
    ----------
    quoted, starts : in
        Tokens as JSON strings, as from `quote_tokens`.
    order : int64[n], in
        The indexes of the tokens, in the order of the lines.
    numbers : int64[:], in
        The id of each token, at least 0.
    out : uint8[:], out
        At least the bytes of the strings, and `INDENT + MOST_DIGITS + 4` for each line.

    Returns
    -------
    int
        Number of bytes.

    Notes
    -----
    Linear in the result. Nothing is checked.
    """
    at = 0
    for n in range(order.size):
        at = _begin_line(n, out, at)
        token = order[n]
        at = _copy(quoted, starts[token], starts[token + 1], out, at)
        out[at] = _COLON
        out[at + 1] = _SPACE
        at += 2
        number = numbers[token]
        width = 1
        rest = number // 10
        while rest > 0:
            width += 1
            rest //= 10
        for i in range(width):
            out[at + width - 1 - i] = _ZERO + np.uint8(number % 10)
            number //= 10
        at += width
    return at


@kernel
def write_merges(quoted, starts, lefts, rights, joined, out):
    """Write lines such as `["t", "he"]`, with a comma after all but the last one.

    Parameters
    ----------
    quoted, starts : in
        Tokens as JSON strings, as from `quote_tokens`.
    lefts, rights : int64[n], in
        The indexes of the tokens of each pair.
    joined : bool
        Write `"t he"` instead.
    out : uint8[:], out
        At least the bytes of the strings of all pairs, and `INDENT + 6` for each line.

    Returns
    -------
    int
        Number of bytes.

    Notes
    -----
    Linear in the result. Nothing is checked.
    """
    at = 0
    for n in range(lefts.size):
        at = _begin_line(n, out, at)
        left, right = lefts[n], rights[n]
        if joined:
            at = _copy(quoted, starts[left], starts[left + 1] - 1, out, at)
            out[at] = _SPACE
            at = _copy(quoted, starts[right] + 1, starts[right + 1], out, at + 1)
        else:
            out[at] = _OPEN
            at = _copy(quoted, starts[left], starts[left + 1], out, at + 1)
            out[at] = _COMMA
            out[at + 1] = _SPACE
            at = _copy(quoted, starts[right], starts[right + 1], out, at + 2)
            out[at] = _CLOSE
            at += 1
    return at
