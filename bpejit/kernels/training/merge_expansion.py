"""The bytes of the tokens that merges make."""

from __future__ import annotations

from bpejit.jit.dispatch import kernel


@kernel
def expand_merges(left, right, starts, pool):
    """Write the bytes of all tokens: 256 bytes, and those that merges make.

    Parameters
    ----------
    left, right : int32[m], in
        The tokens of each merge; merge `i` makes token `256 + i` of earlier ones.
    starts : int64[256 + m + 1], out
        Token `i` is `pool[starts[i]:starts[i + 1]]`.
    pool : uint8[:], out
        Written only if it is large enough.

    Returns
    -------
    int
        Number of bytes of all tokens: if it exceeds the size of the pool, call again with a pool of this size.

    Notes
    -----
    Linear in the result. The tokens are not checked.
    """
    for token in range(257):
        starts[token] = token
    for n in range(left.size):
        a, b = left[n], right[n]
        starts[257 + n] = starts[256 + n] + starts[a + 1] - starts[a] + starts[b + 1] - starts[b]
    size = starts[256 + left.size]
    if size > pool.size:
        return size
    for token in range(256):
        pool[token] = token
    for n in range(left.size):
        at = starts[256 + n]
        a, b = left[n], right[n]
        length = starts[a + 1] - starts[a]
        for i in range(length):
            pool[at + i] = pool[starts[a] + i]
        for i in range(starts[b + 1] - starts[b]):
            pool[at + length + i] = pool[starts[b] + i]
    return size
