"""Encode a pre-token of three-byte characters, as in Chinese, Japanese and Thai, from its characters instead of its bytes.

Most characters are tokens, and most merges that make them concern no other character. If both parts of each token are merged at
lower ranks than the token, all merges of a text occur in order of rank. The reason: a merge makes a token of the vocabulary in
the way in which the bytes of that token alone are merged (see `token_derivations`), so the ranks of the pairs that it makes,
if they are ever merged, are above its own. So the merges within characters can be made first, by a table from characters to
tokens, unless a merge crosses the boundary of a character that is not complete yet.

The table `joins` tells where this is so (see `character_joins`):

- Where no bit is set, the sides are encoded independently.
- Where the bit of both characters is set, and none of incomplete ones, both characters are tokens before a merge crosses.
- Anywhere else, and next to other characters than those of three bytes, merging starts from the bytes of both characters.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import load_u64, prefetch, store_u64
from bpejit.kernels.common.characters import decode_three
from bpejit.kernels.constants import EIGHT, LOW_BYTE, ONE, SIXTEEN, THREE, TWO, ZERO
from bpejit.kernels.encoding.bpe import merge_ranked
from bpejit.kernels.encoding.character_joins import (
    ANY_JOIN,
    CHARACTER_BITS,
    KIND_SHIFT,
    LEFT_BYTES,
    NO_CHARACTER,
    NO_JOIN,
    RIGHT_BYTES,
    find_join,
    is_character,
)
from bpejit.kernels.encoding.merge_rules import NO_RANK, find_rank, prefetch_place
from bpejit.kernels.encoding.pretoken_cache import COUNT_SHIFT, ID_PAIR_MASK

MAX_ELEMENTS = 256
"""Largest number of characters and bytes of a fragment that are merged here."""

CHARACTER_SCRATCH_WORDS = 2 * MAX_ELEMENTS
"""Words of scratch space required: the elements of a fragment, and their ranks."""

RANKS = np.uint64(MAX_ELEMENTS)
"""Where the ranks begin in the scratch space."""

_MAX_ELEMENTS = np.uint64(MAX_ELEMENTS)


@inline
def merge_scan(tables, scratch, n, out, n_out):
    """Merge up to MAX_ELEMENTS elements; return the new `n_out`. Ranks are written to the second half of `scratch`."""
    for j in range(n - ONE):
        i = np.uint64(j)
        rank = find_rank(tables, np.uint64(scratch[i]), np.uint64(scratch[i + ONE]))
        prefetch(tables.merged, min(np.uint64(rank), np.uint64(tables.merged.size)))
        scratch[RANKS + i] = rank
    return merge_ranked(tables, scratch, RANKS, n, out, n_out)


@inline
def _append(tables, scratch, n, token):
    """Append an element, and prefetch for the rank of its pair with the one before; return the new number of elements."""
    if n < _MAX_ELEMENTS:
        if n > ZERO:
            prefetch_place(tables, np.uint64(scratch[n - ONE]), token)
        scratch[n] = np.uint32(token)
    return n + ONE


@inline
def _encode_character(tables, scratch, character_ids, code, out, n_out):
    """Encode a character whose three bytes are the elements, by itself; return the new `n_out`.

    The ids of such characters are stored (see `boundary_filter`).
    """
    entry = code * TWO
    second = character_ids[entry + ONE]
    if second == ZERO:
        end = merge_scan(tables, scratch, THREE, out, n_out)
        second = (end - n_out) << COUNT_SHIFT | load_u64(out, n_out + TWO) & ID_PAIR_MASK
        character_ids[entry] = load_u64(out, n_out)
        character_ids[entry + ONE] = second
        return end
    store_u64(out, n_out, character_ids[entry])
    store_u64(out, n_out + TWO, second & ID_PAIR_MASK)
    return n_out + (second >> COUNT_SHIFT)


@inline
def encode_characters(text, start, stop, tables, workspace, out, n_out):
    """Encode a pre-token, or the beginning of it.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past `stop`.
    start, stop : uint64
    tables : EncoderTables, in
        With `characters`.
    workspace : WorkspaceArrays, in-out
        With scratch space of at least CHARACTER_SCRATCH_WORDS.
    out : uint32[:], out
        Ids are written to `out[n_out:]`, which must have space for one per byte, and three more.
    n_out : uint64

    Returns
    -------
    n_out : uint64
    start : uint64
        Where the ids end: `stop`, or the start of a fragment of more than MAX_ELEMENTS elements.
    """
    scratch = workspace.scratch
    at = start
    n = ZERO
    before = NO_JOIN  # at the boundary before the character
    while at < stop:
        word = load_u64(text, at)
        if is_character(word) and at + THREE <= stop:
            code = decode_three(word)
            entry = np.uint64(tables.characters[code])
            after = NO_JOIN
            if at + THREE < stop:
                after = ANY_JOIN
                if at + THREE + THREE <= stop and is_character(word >> CHARACTER_BITS):
                    following = decode_three(word >> CHARACTER_BITS)
                    next_kind = np.uint64(tables.characters[following]) >> KIND_SHIFT
                    after = find_join(tables, code, entry >> KIND_SHIFT, following, next_kind)
            token = entry & NO_CHARACTER
            if (before & RIGHT_BYTES) | (after & LEFT_BYTES) != ZERO or token == NO_CHARACTER:
                n = _append(tables, scratch, n, word & LOW_BYTE)
                n = _append(tables, scratch, n, word >> EIGHT & LOW_BYTE)
                n = _append(tables, scratch, n, word >> SIXTEEN & LOW_BYTE)
            else:
                n = _append(tables, scratch, n, token)
            at += THREE
        else:
            n = _append(tables, scratch, n, word & LOW_BYTE)
            at += ONE
            after = ANY_JOIN if at < stop else NO_JOIN
        before = after
        if after == NO_JOIN:
            if n == THREE and at - start == THREE and is_character(word):
                n_out = _encode_character(tables, scratch, workspace.character_ids, code, out, n_out)
            elif n == ONE:
                out[n_out] = tables.ids[scratch[ZERO]]
                n_out += ONE
            elif n == TWO:
                rank = find_rank(tables, np.uint64(scratch[ZERO]), np.uint64(scratch[ONE]))
                if rank < NO_RANK:
                    out[n_out] = tables.ids[tables.merged[rank]]
                    n_out += ONE
                else:
                    out[n_out] = tables.ids[scratch[ZERO]]
                    out[n_out + ONE] = tables.ids[scratch[ONE]]
                    n_out += TWO
            elif n <= _MAX_ELEMENTS:
                n_out = merge_scan(tables, scratch, n, out, n_out)
            else:
                break
            n = ZERO
            start = at
    return n_out, start
