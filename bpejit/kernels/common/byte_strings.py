"""Copies of byte strings that are packed end to end."""

from __future__ import annotations

from bpejit.jit.dispatch import kernel


@kernel
def copy_strings(pool, starts, places, out, out_starts):
    """Copy strings in any order.

    Parameters
    ----------
    pool, starts : uint8[:], int64[:], in
        String `i` is `pool[starts[i]:starts[i + 1]]`.
    places : int64[n], in
        The indexes of the strings.
    out : uint8[:], out
        At least the bytes of the copies.
    out_starts : int64[n + 1], out

    Notes
    -----
    Linear in the result. Nothing is checked.
    """
    at = 0
    out_starts[0] = at
    for i in range(places.size):
        begin = starts[places[i]]
        length = starts[places[i] + 1] - begin
        for offset in range(length):
            out[at + offset] = pool[begin + offset]
        at += length
        out_starts[i + 1] = at
