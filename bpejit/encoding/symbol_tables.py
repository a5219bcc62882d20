"""The merge rules and ids of models with `symbols`, whose pre-tokens do not begin as bytes with a token each.

Merging begins with bytes in every model. Here the merges that make characters come first, byte after byte, so that each
character of the vocabulary is one internal token before a merge of the model occurs. The mark of the last symbol of a
pre-token, which files write as a suffix such as `</w>`, is the byte WORD_END, and belongs to the character before it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bpejit.arrays import Array, ByteStrings, ranges_of, starts_of
from bpejit.formats.ranked_merges import MergeRules
from bpejit.formats.vocabulary_arrays import index_strings, merge_indexes
from bpejit.kernels.encoding import symbol_parts
from bpejit.kernels.encoding.span_encoding import NO_ID
from bpejit.model import NEVER_IN_UTF8, Model
from bpejit.normalization.symbols import WORD_END
from bpejit.packed_tokens import PackedMerges, pack_tokens
from bpejit.utf8 import code_points, widths

_WORD_END = bytes([WORD_END])

_N_BYTES = 256

_N_CODES = 0x110000

_ASCII = 0x80

_LEADS = 0xC0
"""The first byte that begins a character of several."""

_WIDTHS = np.repeat([1, 0, 2, 3, 4], [0x80, 0x42, 0x1E, 0x10, 0x10])
"""The length of a character by its first byte; 0 if none begins with it."""


def symbol_rules(model: Model) -> tuple[ByteStrings, MergeRules]:
    """Return the internal tokens of a model with symbols, and its rules."""
    assert model.symbols is not None
    internal = {bytes([byte]): byte for byte in range(_N_BYTES)}
    rules: list[tuple[int, int, int, int]] = []
    for character in _characters(model):
        for size in range(1, len(character)):
            left, right = character[:size], character[size : size + 1]
            if left + right not in internal:
                made = internal[left + right] = len(internal)
                rules.append((internal[left], internal[right], made, len(rules)))
    if model.ranked:
        _add_splits(model, internal, rules)
        strings, listed = ByteStrings.from_list(list(internal)), np.zeros((4, 0), np.int32)
    else:
        strings, listed = _listed_merges(model, ByteStrings.from_list(list(internal)), len(rules))
    columns = np.concatenate([np.array(rules, np.int32).reshape(-1, 4).T, listed], axis=1)
    return strings, (columns[0], columns[1], columns[2], columns[3])


def _listed_merges(model: Model, internal: ByteStrings, first: int) -> tuple[ByteStrings, Array]:
    """Return the internal tokens with the results of a list of merges, and left, right, result and rank of each, int32."""
    suffix = model.symbols.word_end.encode() if model.symbols is not None else b""
    strings, _ = pack_tokens(model.tokens)
    lefts, rights = merge_indexes(model.merges, strings)
    if suffix:
        strings = ByteStrings.from_list([marked(token, suffix) for token in strings])
    made = index_strings(strings, PackedMerges(strings, lefts, rights).made(), 1)
    numbers = np.full(len(strings), -1, np.int32)
    known = index_strings(strings, internal, 1)
    numbers[known[known >= 0]] = np.flatnonzero(known >= 0)
    first_at = np.full(len(strings), made.size)
    first_at[made[::-1]] = np.arange(made.size)[::-1]
    new = np.flatnonzero((first_at < made.size) & (numbers < 0))
    new = new[np.argsort(first_at[new])]
    numbers[new] = np.arange(len(internal), len(internal) + new.size)
    lengths = np.diff(strings.starts)[new]
    pool = np.concatenate([internal.pool, strings.pool[ranges_of(strings.starts[new], lengths)]])
    starts = np.concatenate([internal.starts, internal.starts[-1] + starts_of(lengths)[1:]])
    ranks = np.arange(first, first + made.size, dtype=np.int32)
    rules = np.stack([numbers[lefts], numbers[rights], numbers[made], ranks])
    # A token that no merge produces never occurs.
    return ByteStrings(pool, starts), rules[:, (rules[:2] >= 0).all(axis=0)]


def _add_splits(model: Model, internal: dict[bytes, int], rules: list[tuple[int, int, int, int]]) -> None:
    """Add all ways to form each token of a ranked model from two others, all with the rank of the token."""
    assert model.symbols is not None
    numbers = model.symbols.order or sorted(model.tokens)
    # Tokens with several symbols, in order of rank; those of one symbol are there already.
    made = [token for token in map(model.tokens.__getitem__, numbers) if token not in internal]
    first = len(rules)
    known = {*internal, *made}
    for token in made:
        internal[token] = len(internal)
    for rank, token in enumerate(made, first):
        for size in range(1, len(token)):
            left, right = token[:size], token[size:]
            if left in known and right in known:
                rules.append((internal[left], internal[right], internal[token], rank))


def marked(token: bytes, suffix: bytes) -> bytes:
    """Return a token with the mark in place of the suffix of the last symbol."""
    return token[: -len(suffix)] + _WORD_END if suffix and token.endswith(suffix) and token != suffix else token


def _characters(model: Model) -> list[bytes]:
    """Return the characters of the vocabulary with several bytes, and all characters with the mark."""
    assert model.symbols is not None
    suffix = model.symbols.word_end.encode()
    strings, _ = pack_tokens(model.tokens)
    if suffix:
        strings = ByteStrings.from_list([marked(token, suffix).removesuffix(_WORD_END) for token in strings])
    lengths = np.diff(strings.starts)
    widths_of = _WIDTHS if model.symbols.characters else np.ones(_N_BYTES, np.int64)
    leads = strings.pool[np.minimum(strings.starts[:-1], strings.pool.size - 1)]
    found = {strings[index] for index in np.flatnonzero((lengths > 0) & (lengths == widths_of[leads])).tolist()}
    if suffix:
        found |= {symbol + _WORD_END for symbol in found}
    return sorted(one for one in found if len(one) > 1)


def symbol_ids(model: Model, internal: ByteStrings) -> tuple[Array, Array, Array]:
    """Return the id of each internal token, and `parts` and `part_limits` (see `symbol_parts`).

    Parameters
    ----------
    model : Model
    internal : ByteStrings
        As from `symbol_rules`.

    Returns
    -------
    ids : uint32 [tokens]
    parts : uint32 [4 * tokens without an id]
    part_limits : uint32 [3]
    """
    symbols = model.symbols
    assert symbols is not None
    suffix = symbols.word_end.encode()
    strings, numbers = pack_tokens(model.tokens)
    if suffix:
        strings = ByteStrings.from_list([marked(token, suffix) for token in strings])
    found = index_strings(strings, internal, 1)
    ids = np.where(found < 0, -1, numbers[found])
    if symbols.byte_ids:
        ids[:_N_BYTES] = np.where(found[:_N_BYTES] < 0, symbols.byte_ids, ids[:_N_BYTES])
    first = model.vocab_size
    without = np.flatnonzero(ids < 0)
    ids[without] = np.arange(first, first + without.size)
    parts = [
        _parts_of(internal[index], symbols.byte_ids, symbols.unknown, characters=symbols.characters)
        for index in without.tolist()
    ]
    padded = [[*part, 0, 0][:4] for part in parts]
    fuses = symbols.fuses_unknown and symbols.unknown is not None
    fused = symbols.unknown if fuses else symbol_parts.NOT_FUSED
    limits = np.array([first, fused, (ids[:_ASCII] < first).all()], np.uint32)
    return ids.astype(np.uint32), np.array(padded, np.uint32).ravel(), limits


def _parts_of(token: bytes, byte_ids: tuple[int, ...], unknown: int | None, *, characters: bool) -> list[int]:
    """Return the number of the ids that stand for an internal token without an id, and the ids."""
    if byte_ids:
        return [len(token), *(byte_ids[byte] for byte in token)]
    continues = characters and (_ASCII <= token[0] < _LEADS or token == _WORD_END)
    return [0 if continues else 1, int(NO_ID) if unknown is None else unknown]


def find_symbols(model: Model) -> Callable[[bytes], Array] | None:
    """Return a function that tells which bytes of a text belong to symbols, if others are removed; it returns bool [bytes].

    Bytes that are not UTF-8 count as known, so that encoding them is an error.
    """
    symbols = model.symbols
    if symbols is None or not symbols.removes_unknown:
        return None
    if not symbols.characters:
        has_symbol = np.ones(_N_BYTES, np.bool_)
        has_symbol[[byte for byte in range(_N_BYTES) if bytes([byte]) not in model.ids and byte not in NEVER_IN_UTF8]] = False
        return lambda data: has_symbol[np.frombuffer(data, np.uint8)]
    known = np.zeros(_N_CODES, np.bool_)
    known[0xDC80:0xDD00] = True  # bytes that are not UTF-8
    suffix = symbols.word_end.encode()
    for token in model.tokens.values():
        text = marked(token, suffix).removesuffix(_WORD_END).decode("utf-8", "replace")
        if len(text) == 1:
            known[ord(text)] = True

    def find(data: bytes) -> Array:
        text = data.decode("utf-8", "surrogateescape")
        return np.repeat(known[code_points(text)], widths(text))

    return find
