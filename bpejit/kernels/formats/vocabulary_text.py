"""Write vocabularies and merges as JSON, one token or merge per line."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel

INDENT = 6
"""Spaces at the start of a line."""

MOST_DIGITS = 19
"""Maximum number of digits of an id."""

_COMMA, _NEWLINE, _SPACE, _COLON, _OPEN, _CLOSE, _ZERO = (np.uint8(ord(sign)) for sign in ",\n :[]0")


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
        Tokens as JSON strings, end to end.
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
        Tokens as JSON strings, end to end.
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
