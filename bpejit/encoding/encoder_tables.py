"""Build the tables of the encoding and decoding kernels from a model.

The tables are described in `kernels.encoding.encoder_arrays.EncoderTables`. The kernels number tokens in their own way: an
internal token below 256 is a byte, and the others follow in the order of merges or ranks. The table `ids` maps them to the ids
of the model.
"""

from __future__ import annotations

import json
import re
import string

import numpy as np

from bpejit.arrays import Array, ByteStrings, distinct
from bpejit.encoding.symbol_tables import internal_ids, internal_rules
from bpejit.errors import TokenizerFormatError
from bpejit.formats.ranked_merges import MergeRules, find_places, make_rule_tables
from bpejit.jit.simd import CONTEXT_BEFORE, CONTEXT_SIZE
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.kernels.decoding import decoding
from bpejit.kernels.encoding import (
    boundary_filter,
    character_joins,
    merge_rules,
    span_encoding as kernels,
    superword_pieces,
    token_derivations,
)
from bpejit.kernels.encoding.encoder_arrays import EncoderTables
from bpejit.kernels.encoding.merge_rules import RuleTables
from bpejit.model import Model, special_bytes
from bpejit.packed_tokens import pack_tokens
from bpejit.splitting.automaton import group_rules

LEAST_CHARACTERS = 512
"""Number of three-byte characters that have to be tokens for merging from characters (see `character_merging`).

GPT-2's vocabulary has 143: without this limit, a first pass over Japanese took 1.15 times as long.
"""

_LEAST_WORDS, _LEAST_SHARE = 256, 16
"""A vocabulary has superwords if at least so many merges, and at least one in so many, come before the first of them."""

_KINDS = (
    string.ascii_lowercase.encode(),
    string.ascii_uppercase.encode(),
    string.digits.encode(),
    b" ",
    b"\n\r",
    b"\t\v\f",
    b"'",
    string.punctuation.replace("'", "").encode(),
)
"""The ASCII characters that split patterns treat alike, but for control characters."""

LEAST_SENTENCE_TOKENS = 0.5
"""Share of the tokens that have to contain several three-byte characters for merging sentences together.

With cl100k and o200k, which have few, a first pass over Japanese and Chinese took 1.3 times as long.
"""


def check_ids(model: Model) -> None:
    """Raise TokenizerFormatError if an id is too large for the tables."""
    largest = model.vocab_size - 1
    if largest > kernels.MAX_ID:
        raise TokenizerFormatError(
            f"the vocabulary has the token id {largest}; expected at most {kernels.MAX_ID}: renumber the vocabulary"
        )


def make_tables(model: Model, specials: dict[bytes, int]) -> EncoderTables:
    """Return the tables of a model, with an empty `whole_tokens` (see `make_whole_tokens`).

    Parameters
    ----------
    model : Model
    specials : dict of bytes to int
        Id of each special token by its bytes.

    Raises
    ------
    TokenizerFormatError
        If there are too many ids or merges for the tables.
    """
    check_ids(model)
    every, all_rules = internal_rules(model)
    first = _first_superword(model, every, all_rules)
    strings, listed = every, all_rules
    if first is not None:
        strings = every.take(np.arange(256 + first))
        listed = all_rules[0][:first], all_rules[1][:first], all_rules[2][:first], all_rules[3][:first]
    n_ranks = int(listed[-1].max(initial=-1)) + 1
    if n_ranks > min(merge_rules.MAX_RANKS, merge_rules.MAX_TOKENS - 256):
        raise TokenizerFormatError(
            f"the vocabulary has {n_ranks} merges; expected at most {merge_rules.MAX_TOKENS - 256}: leave out the last"
        )
    byte_pairs = np.full(1 << 16, merge_rules.NEVER_ADJACENT, np.uint32)
    byte_pairs[_inner_byte_pairs(strings)] = merge_rules.NO_RANK
    rules = make_rule_tables(listed, byte_pairs)
    splits, increasing = _find_splits(strings, rules)
    if splits is not None:
        # The other pairs are never adjacent in a text: more than half of those of a ranked model. Lookups read less memory.
        merges, displacements = find_places(splits[(splits != 0) & (splits != token_derivations.UNREACHABLE)])
        rules = rules._replace(merges=merges, displacements=displacements)
    ids, *parts = internal_ids(model, every, splits)
    joins = _make_joins(strings, splits if increasing else None)
    nothing = np.zeros(0, np.uint64), np.zeros(TEXT_PADDING, np.uint8)
    kinds = (1, np.uint64), (1, np.uint8), (0, np.uint32), (0, np.uint16), (0, np.uint8), (1, np.uint64)
    superwords: tuple[Array, ...] = tuple(np.zeros(n, dtype) for n, dtype in kinds)
    if first is not None:
        *later, joins_of_ids = _later_rules(all_rules, first, ids)
        superwords = *later, *_kinds_of_bytes(rules.byte_pairs), joins_of_ids
        ids = ids[: len(strings)]
    return EncoderTables(
        *rules,
        ids,
        make_inner_pairs(strings),
        *joins,
        _make_specials(specials),
        *nothing,
        *parts,
        *superwords,
    )


def first_superword(model: Model) -> int | None:
    """Return the rank of the merge with which encoding across words begins; None if the general encoder runs."""
    return _first_superword(model, *internal_rules(model)) if _is_plain_list(model) else None


def _is_plain_list(model: Model) -> bool:
    """Return True if a list of merges of bytes alone says how text is encoded."""
    return model.symbols is None and not (model.ranked or model.keeps_whole or model.missing_bytes)


def _first_superword(model: Model, strings: ByteStrings, rules: MergeRules) -> int | None:
    """Return the rank of the first merge that joins words, for a vocabulary of superwords; otherwise None.

    Any division of merges that each make another token is exact (see `superword_merging`). It takes less time if the merges
    before are those of words, and so at least a part of all.
    """
    n = rules[3].size
    numbers = np.arange(n)
    # Each merge makes another token, of tokens that were made before.
    if not _is_plain_list(model) or not ((rules[3] == numbers).all() and (rules[2] == numbers + 256).all()):
        return None
    if max(model.tokens) > superword_pieces.MAX_ID or not (np.maximum(rules[0], rules[1]) < rules[2]).all():
        return None
    before, after = strings.pool[:-1], strings.pool[1:]
    joined = (before > ord(" ")) & (after == ord(" "))
    joined[strings.starts[1:-1] - 1] = False  # the last byte of a token
    for token in distinct(np.searchsorted(strings.starts, np.flatnonzero(joined), side="right") - 1).tolist():
        # Not within white space, as in a no-break space before others.
        data = strings.pool[strings.starts[token] : strings.starts[token + 1]].tobytes()
        if re.search(r"\S ", data.decode(errors="replace")):
            return token - 256 if token - 256 >= max(_LEAST_WORDS, n // _LEAST_SHARE) else None
    return None


def _later_rules(rules: MergeRules, first: int, ids: Array) -> tuple[Array, Array, Array, Array]:
    """Return the tables of the merges of ids from a rank on, which becomes the rank 0."""
    left, right, made, ranks = (column[first:] for column in rules)
    unused = np.full(1 << 16, merge_rules.NO_RANK, np.uint32)
    left_ids, right_ids, made_ids = (ids[column].astype(np.int32) for column in (left, right, made))
    tables = make_rule_tables((left_ids, right_ids, made_ids, ranks - first), unused)
    # The first and the last token of each superword, of those that the first merges make.
    begins, ends = list(range(256 + first)), list(range(256 + first))
    pairs = []
    for before, after in zip(left.tolist(), right.tolist(), strict=True):
        pairs.append((ends[before], begins[after]))
        begins.append(begins[before])
        ends.append(ends[after])
    joins = np.zeros(1 << max(left.size // 4 - 1, 0).bit_length(), np.uint64)  # sixteen bits for each
    before_joins, after_joins = ids[np.array(pairs).T].astype(np.uint64)
    superword_pieces.set_joins(before_joins, after_joins, joins)
    return tables.merges, tables.displacements, tables.merged, joins


def _kinds_of_bytes(byte_pairs: Array) -> tuple[Array, Array]:
    """Return `super_kinds` and `super_groups`. The bytes of characters that are not ASCII are of no kind."""
    kinds = np.zeros(256, np.uint16)
    never = (byte_pairs == merge_rules.NEVER_ADJACENT).reshape(256, 256)
    members = [list(text) for text in _KINDS]
    for before in members:
        follow = [never[np.ix_(before, after)].all() for after in members]
        kinds[before] |= np.packbits(follow, bitorder="little")
    for number, after in enumerate(members):
        kinds[after] |= 1 << 8 + number
    contexts = np.full((2, CONTEXT_SIZE, 128), 0xFF, np.uint8)
    contexts[:, CONTEXT_BEFORE - 1], contexts[:, CONTEXT_BEFORE] = kinds[:128] & 0xFF, kinds[:128] >> 8
    return kinds, group_rules(contexts.reshape(-1))


def make_whole_tokens(model: Model, unreachable: list[bytes]) -> tuple[Array, Array]:
    """Return the hash table and the pool of tokens that are kept whole although their merges produce others."""
    strings = ByteStrings.from_list(unreachable)
    pool = padded(strings.pool)
    hashes = np.zeros(len(strings), np.uint64)
    kernels.hash_strings(pool, strings.starts, hashes)
    rows = [
        hashes,
        (strings.starts[:-1] << 32 | np.diff(strings.starts)).astype(np.uint64),
        np.fromiter(map(model.ids.__getitem__, unreachable), np.uint64, len(unreachable)),
    ]
    return _hash_table(np.stack(rows, axis=1)), pool


def _hash_table(rows: Array) -> Array:
    """Return a flat hash table of rows of words: the first word of a row is its hash, the second is distinct and not 0.

    The number of slots is a power of two, at least half of them are free, and the second word of a free slot is 0.
    """
    n_slots = 2 << len(rows).bit_length()
    words = np.zeros((n_slots, rows.shape[1]), np.uint64)
    # Insert all rows at once: of the rows that probe the same free slot the first is inserted, and all others probe the next.
    waiting = np.arange(len(rows))
    slots = (rows[:, 0] & np.uint64(n_slots - 1)).astype(np.int64)
    while waiting.size:
        tried = slots[waiting]
        free = waiting[words[tried, 1] == 0]
        words[slots[free[::-1]]] = rows[free[::-1]]
        waiting = waiting[words[tried, 1] != rows[waiting, 1]]
        slots[waiting] = (slots[waiting] + 1) % n_slots
    return words.ravel()


def make_inner_pairs(tokens: ByteStrings) -> Array:
    """Return the bit sets of the pairs that occur inside a token (see `boundary_filter`)."""
    pool = padded(tokens.pool)
    n = boundary_filter.build_inner_pairs(pool, tokens.starts, np.zeros(boundary_filter.BYTE_PAIR_WORDS + 1, np.uint64))
    # Sixteen bits per pair: at most one boundary in sixteen is missed because its bit is set by another pair.
    inner_pairs = np.zeros(boundary_filter.BYTE_PAIR_WORDS + (1 << max(n // 4 - 1, 0).bit_length()), np.uint64)
    boundary_filter.build_inner_pairs(pool, tokens.starts, inner_pairs)
    return inner_pairs


def _find_splits(strings: ByteStrings, rules: RuleTables) -> tuple[Array | None, bool]:
    """Return the last merge of each token, None if that takes too long, and whether ranks increase within every token."""
    longest = int(np.diff(strings.starts).max())
    if longest > token_derivations.MAX_TOKEN_BYTES:
        return None, False
    splits = np.zeros(len(strings), np.uint64)
    scratch = np.zeros(2 * longest, np.uint32)
    return splits, bool(token_derivations.derive_tokens(padded(strings.pool), strings.starts, rules, False, scratch, splits))


def _make_joins(strings: ByteStrings, splits: Array | None) -> tuple[Array, Array, Array, Array]:
    """Return the tables of `character_merging`, from `joins` to `merges_sentences`.

    There are no characters if merging from them is not exact, for which `splits` is None, or if too few are tokens.
    """
    nothing = np.zeros(1, np.uint64), np.zeros(0, np.uint32), np.zeros(2, np.uint64), np.zeros(1, np.uint8)
    if splits is None or splits.size > int(character_joins.NO_CHARACTER):
        return nothing
    pool = padded(strings.pool)
    characters = np.full(character_joins.N_CODES, character_joins.NO_CHARACTER, np.uint32)
    neighbors = np.zeros(2 * character_joins.N_CODES, np.uint64)
    one_word = np.zeros(1, np.uint64)
    n = character_joins.build_joins(pool, strings.starts, splits, one_word, characters, neighbors)
    if np.count_nonzero(characters != character_joins.NO_CHARACTER) < LEAST_CHARACTERS:
        return nothing
    # Sixteen bits for each join.
    joins = np.zeros(1 << max(n // 4 - 1, 0).bit_length(), np.uint64)
    character_joins.build_joins(pool, strings.starts, splits, joins, characters, neighbors)
    merges_sentences = np.array([n >= splits.size * LEAST_SENTENCE_TOKENS], np.uint8)
    kinds, neighbors = number_kinds(neighbors)
    return joins, characters | kinds << np.uint32(character_joins.KIND_SHIFT), neighbors, merges_sentences


def number_kinds(neighbors: Array) -> tuple[Array, Array]:
    """Return the kind of each character, uint32, and the two sets of each kind (see `character_joins`).

    If there are more than MAX_KINDS, all further characters are of a kind with full sets.
    """
    sets = neighbors.reshape(-1, 2)
    kinds = np.zeros(len(sets), np.uint32)
    numbers = {bytes(16): 0}
    for code in np.flatnonzero(sets.any(axis=1)).tolist():
        kinds[code] = numbers.setdefault(sets[code].tobytes(), len(numbers))
    last = character_joins.MAX_KINDS - 1
    distinct_sets = np.frombuffer(b"".join(numbers), np.uint64)
    if len(numbers) > last:
        distinct_sets = np.append(distinct_sets[: 2 * last], np.full(2, character_joins.ALL_NEIGHBORS))
    return np.minimum(kinds, np.uint32(last)), distinct_sets.copy()


def _inner_byte_pairs(tokens: ByteStrings) -> Array:
    """Return all pairs of bytes inside tokens, as `a << 8 | b`, with repetitions."""
    pairs: Array = tokens.pool[:-1].astype(np.uint16) << 8 | tokens.pool[1:]
    inner = np.ones(pairs.size, bool)
    inner[tokens.starts[1:-1] - 1] = False  # the last byte of one token and the first of the next
    return pairs[inner]


def _make_specials(specials: dict[bytes, int]) -> Array:
    """Return the hash table of special tokens (see `EncoderTables`)."""
    strings = ByteStrings.from_list(list(specials))
    hashes = np.zeros(len(strings), np.uint64)
    kernels.hash_strings(padded(strings.pool), strings.starts, hashes)
    if distinct(hashes).size < hashes.size:
        raise TokenizerFormatError("two special tokens have the same 64-bit hash; expected different ones: rename one of them")
    numbers = np.fromiter(specials.values(), np.uint64, len(specials))
    return _hash_table(np.stack([hashes, numbers + np.uint64(1)], axis=1))


def make_decoder(model: Model) -> tuple[Array, Array, Array, int]:
    """Return the tables of a decoder. Pages of memory for unused ids only are never touched.

    Returns
    -------
    pool : uint8
        Concatenated bytes of all tokens, padded.
    slots : uint64 [2 * number of slots]
        See `kernels.decoding.decoding`.
    lengths : int64 [vocabulary size]
        Length of each token in bytes; 0 for an unused id.
    longest : int
        The greatest length.
    """
    # `model.vocab` takes longer to build than all of this. A special token that is also a token has the same bytes.
    strings, numbers = pack_tokens(model.tokens)
    texts = [*map(special_bytes, decoded_specials(model))]
    unused = model.unused_tokens
    others = [*unused, *model.special_tokens.values()]  # the last of several with one id counts
    texts = [*unused.values(), *texts]
    if model.symbols is not None and model.symbols.space:
        texts = [text.replace(model.symbols.space.encode(), b" ") for text in texts]
    strings = strings.joined(ByteStrings.from_list(texts))
    pool = padded(strings.pool)
    ids = np.concatenate([numbers, np.array(others, np.int64)])
    slots = np.zeros(2 << (model.vocab_size - 1).bit_length(), np.uint64)
    lengths = np.zeros(model.vocab_size, np.int64)
    decoding.fill_slots(pool, strings.starts, ids, slots, lengths)
    return pool, slots, lengths, int(np.diff(strings.starts).max(initial=0))


def decoded_specials(model: Model) -> list[str]:
    """Return what the special tokens are decoded to: as in Hugging Face tokenizers, some to their normalized text."""
    flags = model.token_flags
    if not model.decoder or model.has_scores or model.pipeline is None or not any(found.normalized for found in flags.values()):
        return [*model.special_tokens]
    from bpejit.normalization.alignment import AlignedText
    from bpejit.normalization.normalizers import make_normalizer  # not at the top: few models have such tokens

    change = make_normalizer(json.loads(model.pipeline.normalizer), unicode=model.unicode)
    return [
        change(AlignedText(text)).text if text in flags and flags[text].normalized else text for text in model.special_tokens
    ]


def padded(pool: Array) -> Array:
    """Return bytes followed by the padding that kernels may read."""
    return np.concatenate([pool, np.zeros(TEXT_PADDING, np.uint8)])
