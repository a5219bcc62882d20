"""Replace internal tokens that have no id of their own by the ids that stand for them.

If a vocabulary begins with characters, merging still begins with bytes: the merges that make a character have lower ranks than
all others, so each character is one token before another merge occurs. Bytes of a character that is not in the vocabulary are
left as internal tokens that have no id:

- With byte fallback, some first bytes of a character may have become one token, the beginning of another character. It has the
  ids of its bytes, two or three.
- Otherwise the first bytes stand for the character, and have the unknown id; each byte after them has none.
- A token that is not used, but of which others are made, has the ids of those that it was made of.

`parts` has four words for each such token: the number of its ids, and up to three ids. The tokens are numbered from the size
of the vocabulary on, so ids show whether any of them occurs. All other numbers stay, also the placeholder of a byte without an
id, which is greater: the ids of fragments are replaced twice.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.kernels.constants import FOUR, ONE, ZERO

FIRST_PART = 0
"""Field of `part_limits`: the number of the first token without an id."""

FUSED = 1
"""Field of `part_limits`: the unknown id if several in a row become one; otherwise NOT_FUSED."""

DEFERS = 2
"""Field of `part_limits`: whether text of ASCII needs no replacement, so that short pre-tokens may be merged together."""

NOT_FUSED = (1 << 32) - 1


@inline
def replace_parts(tables, out, begin, end):
    """Replace the numbers of tokens without an id in `out[begin:end]`, which belong to one pre-token; return the new end.

    Parameters
    ----------
    tables : EncoderTables, in
        With `parts`.
    out : uint32[:], in-out
        With space for one id per byte of the pre-token.
    begin, end : uint64
    """
    parts = tables.parts
    first = np.uint64(tables.part_limits[FIRST_PART])
    n_parts = np.uint64(parts.size) // FOUR
    fused = np.uint64(tables.part_limits[FUSED])
    n_more = ZERO  # ids of tokens that become several
    at = begin
    i = begin
    within = False  # a character that is not in the vocabulary
    while i < end:
        number = np.uint64(out[i])
        i += ONE
        part = number - first if number >= first else n_parts
        is_part = part < n_parts
        size = np.uint64(parts[part * FOUR]) if is_part else ONE
        if size > ONE:
            n_more += size - ONE
        elif is_part:
            if size == ZERO and within:
                continue
            number = np.uint64(parts[part * FOUR + ONE])
        within = is_part
        if number == fused and at > begin and out[at - ONE] == number:
            continue
        out[at] = np.uint32(number)
        at += ONE
    end = at + n_more
    i, at = at, end
    while i < at:  # from the end
        i -= ONE
        number = np.uint64(out[i])
        part = number - first if number >= first else n_parts
        size = np.uint64(parts[part * FOUR]) if part < n_parts else ONE
        at -= size
        for k in range(size if size > ONE else ZERO):
            out[at + np.uint64(k)] = parts[part * FOUR + ONE + np.uint64(k)]
        if size == ONE:
            out[at] = np.uint32(number)
    return end
