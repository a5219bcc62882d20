"""The tables that the encoding kernels read, made of a model: merge rules, ids, special tokens, and the bytes of tokens."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from bpejit.arrays import Array, ByteStrings, distinct
from bpejit.errors import TokenizerFormatError
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.kernels.encoding import boundary_filter, merge_rules
from bpejit.kernels.encoding import span_encoding as kernels
from bpejit.kernels.encoding.records import EncoderTables
from bpejit.model import Model, in_order, special_bytes


def make_tables(model: Model, specials: dict[bytes, int]) -> EncoderTables:
    """Return the tables of a model, without `whole` (see `make_whole`).

    Parameters
    ----------
    model : Model
    specials : dict of bytes to int
        Bytes and id of each special token.

    Raises
    ------
    TokenizerFormatError
        If the ids or merges are too many for the tables.
    """
    largest = model.vocab_size - 1
    if largest > kernels.MAX_ID:
        raise TokenizerFormatError(
            f"the vocabulary has the token id {largest}; expected at most {kernels.MAX_ID}: renumber the vocabulary"
        )
    internal, strings, (lefts, rights, made, ranks) = ranked_rules(model.tokens) if model.ranked else _listed_rules(model)
    n_ranks = int(ranks.max(initial=-1)) + 1
    if n_ranks > min(merge_rules.MAX_RANKS, merge_rules.MAX_TOKENS - 256):
        raise TokenizerFormatError(
            f"the vocabulary has {n_ranks} merges; expected at most {merge_rules.MAX_TOKENS - 256}: leave out the last"
        )
    slots = 4
    while slots < 2 * lefts.size:
        slots *= 2
    pairs = np.full(slots, merge_rules.FREE, dtype=np.uint64)
    byte_pairs = np.full(1 << 16, merge_rules.APART, dtype=np.uint32)
    byte_pairs[_inner_pairs(strings)] = merge_rules.NO_RANK
    merged = np.zeros(n_ranks, dtype=np.uint32)
    merge_rules.build_pairs(lefts, rights, made, ranks, pairs, byte_pairs, merged)
    ids = np.array([model.ids.get(token, kernels.NO_ID) for token in internal[:256]], dtype=np.uint32)
    ids = np.concatenate([ids, np.fromiter(map(model.ids.__getitem__, internal[256:]), np.uint32, len(internal) - 256)])
    nothing = np.zeros(0, np.uint64), np.zeros(TEXT_PADDING, np.uint8)
    return EncoderTables(pairs, byte_pairs, merged, ids, make_joints(strings), _make_specials(specials), *nothing)


_Rules: TypeAlias = "tuple[Array, Array, Array, Array]"
"""Left, right and resulting internal token, and rank, of each pair that merges: int32 each."""


def _listed_rules(model: Model) -> tuple[list[bytes], ByteStrings, _Rules]:
    """Return the internal tokens, the same packed, and the rules of a model with a list of merges."""
    # One internal token per distinct result: two merges may make the same bytes.
    internal = {bytes([byte]): byte for byte in range(256)}
    merged = [left + right for left, right in model.merges]
    for token in merged:
        internal.setdefault(token, len(internal))
    n = len(merged)
    # A part that no merge makes never occurs, nor does its pair.
    lefts = np.fromiter((internal.get(left, -1) for left, _ in model.merges), np.int32, n)
    rights = np.fromiter((internal.get(right, -1) for _, right in model.merges), np.int32, n)
    made = np.fromiter(map(internal.__getitem__, merged), np.int32, n)
    known = (lefts >= 0) & (rights >= 0)
    ranks = np.flatnonzero(known).astype(np.int32)
    tokens = list(internal)
    return tokens, ByteStrings.from_list(tokens), (lefts[known], rights[known], made[known], ranks)


def ranked_rules(tokens: dict[int, bytes]) -> tuple[list[bytes], ByteStrings, _Rules]:
    """Return the internal tokens, the same packed, and the rules of a ranked model: all ways to make a token of two have its
    rank.
    """
    internal = [bytes([byte]) for byte in range(256)]
    internal += [token for token in in_order(tokens) if len(token) > 1]
    strings = ByteStrings.from_list(internal)
    slots = np.zeros(4 << len(internal).bit_length(), dtype=np.int32)
    room = strings.pool.size
    lefts, rights, made = (np.empty(room, dtype=np.int32) for _ in range(3))
    n = merge_rules.list_splits(padded(strings.pool), strings.starts, slots, lefts, rights, made)
    made = made[:n].copy()
    return internal, strings, (lefts[:n].copy(), rights[:n].copy(), made, made - 256)


def make_whole(model: Model, unreachable: list[bytes]) -> tuple[Array, Array]:
    """Return the table of tokens that a pre-token becomes as a whole though its merges give others (see `EncoderTables`)."""
    strings = ByteStrings.from_list(unreachable)
    pool = padded(strings.pool)
    hashes = np.zeros(len(strings), dtype=np.uint64)
    kernels.hash_strings(pool, strings.starts, hashes)
    rows = [
        hashes,
        (strings.starts[:-1] << 32 | np.diff(strings.starts)).astype(np.uint64),
        np.fromiter(map(model.ids.__getitem__, unreachable), np.uint64, len(unreachable)),
    ]
    return _hash_table(np.stack(rows, axis=1)), pool


def _hash_table(rows: Array) -> Array:
    """Return a hash table of rows of words, flat: the first word of each is its hash, the second differs and is not 0.

    It has a power of two of slots, at least half of them free, and a slot whose second word is 0 is free.
    """
    n_slots = 2 << len(rows).bit_length()
    words = np.zeros((n_slots, rows.shape[1]), dtype=np.uint64)
    # All at once, slot by slot: of those that meet in a free slot the first stays, and all others try the next.
    waiting = np.arange(len(rows))
    slots = (rows[:, 0] & np.uint64(n_slots - 1)).astype(np.int64)
    while waiting.size:
        tried = slots[waiting]
        free = waiting[words[tried, 1] == 0]
        words[slots[free[::-1]]] = rows[free[::-1]]
        waiting = waiting[words[tried, 1] != rows[waiting, 1]]
        slots[waiting] = (slots[waiting] + 1) % n_slots
    return words.ravel()


def make_joints(tokens: ByteStrings) -> Array:
    """Return the places that merges may cross (see `kernels.parts`)."""
    pool = padded(tokens.pool)
    n = boundary_filter.build_joints(pool, tokens.starts, np.zeros(boundary_filter.PIECE_WORDS + 1, dtype=np.uint64))
    # Sixteen bits for each pair: one place in sixteen, or fewer, is taken for another that is no border.
    joints = np.zeros(boundary_filter.PIECE_WORDS + (1 << max(n // 4 - 1, 0).bit_length()), dtype=np.uint64)
    boundary_filter.build_joints(pool, tokens.starts, joints)
    return joints


def _inner_pairs(tokens: ByteStrings) -> Array:
    """Return each pair of bytes, as `a << 8 | b`, that stands side by side in some token, some of them often."""
    pairs: Array = tokens.pool[:-1].astype(np.uint16) << 8 | tokens.pool[1:]
    inner = np.ones(pairs.size, dtype=bool)
    inner[tokens.starts[1:-1] - 1] = False  # the last byte of one token and the first of the next
    return pairs[inner]


def _make_specials(specials: dict[bytes, int]) -> Array:
    """Return the hash table of special tokens (see `EncoderTables`)."""
    strings = ByteStrings.from_list(list(specials))
    hashes = np.zeros(len(strings), dtype=np.uint64)
    kernels.hash_strings(padded(strings.pool), strings.starts, hashes)
    if distinct(hashes).size < hashes.size:
        raise TokenizerFormatError("two special tokens have the same 64-bit hash; expected different ones: rename one of them")
    return _hash_table(np.stack([hashes, np.fromiter(specials.values(), np.uint64, len(specials)) + np.uint64(1)], axis=1))


def make_decoder(model: Model) -> tuple[Array, Array, Array]:
    """Return the bytes of all tokens, and start and length of each id; the length of an id without a token is -1."""
    # Not of `model.vocab`, which takes longer to make than all of this. A special token that is a token, too, has its bytes.
    strings = ByteStrings.from_list([*model.tokens.values(), *map(special_bytes, model.special_tokens)])
    numbers = np.array([*model.tokens, *model.special_tokens.values()], dtype=np.int64)
    starts = np.zeros(model.vocab_size, dtype=np.int64)
    lengths = np.full(model.vocab_size, -1, dtype=np.int64)
    starts[numbers] = strings.starts[:-1]
    lengths[numbers] = np.diff(strings.starts)
    return padded(strings.pool), starts, lengths


def padded(pool: Array) -> Array:
    """Return bytes with what kernels may read behind them."""
    return np.concatenate([pool, np.zeros(TEXT_PADDING, dtype=np.uint8)])
