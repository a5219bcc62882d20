"""The merge rules and ids of the internal tokens of a model.

Merging begins with bytes in every model. If pre-tokens begin as characters, the merges that make these come first, byte after
byte, so that each character of the vocabulary is one internal token before a merge of the model occurs. The mark of the last
symbol of a pre-token, which files write as a suffix such as `</w>`, is the byte WORD_END, and follows the character before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bpejit.arrays import Array, ByteStrings, starts_of
from bpejit.errors import TokenizerFormatError, shorten
from bpejit.formats.packed_vocabulary import StringIndex
from bpejit.formats.ranked_merges import MergeRules, all_splits, ranked_rules
from bpejit.formats.vocabulary_arrays import every_token, merge_indexes
from bpejit.kernels.constants import POSITION_MASK
from bpejit.kernels.encoding import symbol_parts
from bpejit.kernels.encoding.merge_rules import LEFT_SHIFT, RIGHT_SHIFT, TOKEN_MASK
from bpejit.kernels.encoding.span_encoding import NO_ID
from bpejit.kernels.encoding.token_derivations import UNREACHABLE
from bpejit.model import NEVER_IN_UTF8, Model
from bpejit.normalization.symbols import WORD_END, Symbols
from bpejit.packed_tokens import PackedMerges
from bpejit.utf8 import code_points, widths

if TYPE_CHECKING:
    from bpejit.normalization.alignment import PreTokenizedText

FindSymbols: TypeAlias = Callable[[bytes, Array | None], Array]

_WORD_END = bytes([WORD_END])

_N_BYTES = 256

_N_CODES = 0x110000

_ASCII = 0x80

_LEADS = 0xC0
"""The first byte that begins a character of several."""

_MOST_PARTS = 3
"""The number of ids that an internal token may stand for."""

_WIDTHS = np.repeat([1, 0, 2, 3, 4], [0x80, 0x42, 0x1E, 0x10, 0x10])
"""The length of a character by its first byte; 0 if none begins with it."""


def internal_rules(model: Model) -> tuple[ByteStrings, MergeRules]:
    """Return the internal tokens of a model, and its rules."""
    if model.ranked and not model.has_scores:
        return ranked_rules(model.tokens)
    internal = {bytes([byte]): byte for byte in range(_N_BYTES)}
    rules: list[tuple[int, int, int, int]] = []
    for character in _characters(model, model.symbols) if model.symbols is not None else ():
        for size in range(1, len(character)):
            left, right = character[:size], character[size : size + 1]
            if left + right not in internal:
                made = internal[left + right] = len(internal)
                rules.append((internal[left], internal[right], made, len(rules)))
    if model.has_scores:
        first = len(internal)
        strings = ByteStrings.from_list([*internal, *(token for token in ranked_tokens(model) if token not in internal)])
        splits = all_splits(strings)
        splits = splits[:, splits[2] >= first]
        listed = np.concatenate([splits, splits[2:] - first + len(rules)])
    else:
        strings, listed = _listed_merges(model, ByteStrings.from_list(list(internal)), len(rules))
    columns = np.concatenate([np.array(rules, np.int32).reshape(-1, 4).T, listed], axis=1)
    return strings, (columns[0], columns[1], columns[2], columns[3])


def _listed_merges(model: Model, internal: ByteStrings, first: int) -> tuple[ByteStrings, Array]:
    """Return the internal tokens with the results of a list of merges, and left, right, result and rank of each, int32."""
    strings, _ = every_token(model)
    lefts, rights = merge_indexes(model.merges, strings)
    strings = marked_tokens(strings, model.symbols)
    index = StringIndex(strings)
    made = index.find(PackedMerges(strings, lefts, rights).sides(), 2)
    numbers = np.full(len(strings), -1, np.int32)
    known = index.find(internal)
    numbers[known[known >= 0]] = np.flatnonzero(known >= 0)
    first_at = np.full(len(strings), made.size)
    first_at[made[::-1]] = np.arange(made.size)[::-1]
    new = np.flatnonzero((first_at < made.size) & (numbers < 0))
    new = new[np.argsort(first_at[new])]
    numbers[new] = np.arange(len(internal), len(internal) + new.size)
    ranks = np.arange(first, first + made.size, dtype=np.int32)
    rules = np.stack([numbers[lefts], numbers[rights], numbers[made], ranks])
    # A token that no merge produces never occurs.
    return internal.joined(strings.take(new)), rules[:, (rules[:2] >= 0).all(axis=0)]


def ranked_tokens(model: Model) -> list[bytes]:
    """Return the tokens of a model with scores in order of rank, also those that are divided again."""
    assert model.symbols is not None
    space = model.symbols.space.encode()
    unused = {number: token.replace(space, b" ") if space else token for number, token in model.symbols.unused.items()}
    return [model.tokens.get(number) or unused[number] for number in model.symbols.order or sorted(model.tokens)]


def marked(token: bytes, suffix: bytes) -> bytes:
    """Return a token with the mark in place of the suffix of the last symbol."""
    return token[: -len(suffix)] + _WORD_END if suffix and token.endswith(suffix) and token != suffix else token


def marked_tokens(strings: ByteStrings, symbols: Symbols | None) -> ByteStrings:
    """Return tokens with the mark in place of the suffix."""
    if symbols is None or not symbols.word_end:
        return strings
    suffix = symbols.word_end.encode()
    return ByteStrings.from_list([marked(token, suffix) for token in strings])


def _characters(model: Model, symbols: Symbols) -> list[bytes]:
    """Return the characters of the vocabulary with several bytes, and all characters with the mark."""
    if model.has_scores:  # also those in tokens of several, which need not be tokens
        text = b"".join([*ranked_tokens(model), *model.tokens.values()]).decode()
        return sorted(one.encode() for one in {*text} if not one.isascii())
    strings = marked_tokens(every_token(model)[0], symbols)
    if symbols.word_end:
        strings = ByteStrings.from_list([token.removesuffix(_WORD_END) for token in strings])
    lengths = np.diff(strings.starts)
    widths_of = _WIDTHS if symbols.characters else np.ones(_N_BYTES, np.int64)
    leads = strings.pool[np.minimum(strings.starts[:-1], strings.pool.size - 1)]
    found = {*strings.take(np.flatnonzero((lengths > 0) & (lengths == widths_of[leads])))}
    if symbols.word_end:
        found |= {symbol + _WORD_END for symbol in found}
    return sorted(one for one in found if len(one) > 1)


def internal_ids(model: Model, internal: ByteStrings, splits: Array | None) -> tuple[Array, Array, Array]:
    """Return the id of each internal token, and `parts` and `part_limits` (see `symbol_parts`).

    Parameters
    ----------
    model : Model
    internal : ByteStrings
        As from `internal_rules`.
    splits : uint64 [tokens], optional
        The last merge of each token (see `token_derivations`).

    Returns
    -------
    ids : uint32 [tokens]
    parts : uint32 [4 * tokens without an id]
    part_limits : uint32 [3]

    Raises
    ------
    TokenizerFormatError
        If a token stands for more ids than `parts` can hold.
    """
    symbols = model.symbols
    strings, numbers = every_token(model)
    found = StringIndex(marked_tokens(strings, symbols)).find(internal)
    ids = np.where(found < 0, -1, numbers[found])
    if symbols is None:
        limits = np.array([NO_ID, symbol_parts.NOT_FUSED, True], np.uint32)
        return np.where(ids < 0, NO_ID, ids).astype(np.uint32), np.zeros(0, np.uint32), limits
    if symbols.byte_ids:
        ids[:_N_BYTES] = np.where(found[:_N_BYTES] < 0, symbols.byte_ids, ids[:_N_BYTES])
    if symbols.word_end:
        ids[WORD_END] = -1  # not the token of this byte, which no text has
    first = model.vocab_size
    without = np.flatnonzero(ids < 0)
    ids[without] = np.arange(first, first + without.size)
    merged = {*ranked_tokens(model)} - {*strings} if model.has_scores and symbols.unused else set()

    def divided(index: int) -> list[int]:
        """Return the ids of a part of a token that is not used; too many if they are not known."""
        if ids[index] < first:
            return [int(ids[index])]
        if internal[index] in merged and splits is not None:
            sides = () if splits[index] == UNREACHABLE else (LEFT_SHIFT, RIGHT_SHIFT)
            return [one for side in sides for one in divided(int(splits[index] >> side & TOKEN_MASK))]
        is_symbol = internal[index] not in merged and symbols.byte_ids
        return _parts_of(internal[index], symbols, index)[1:] if is_symbol else [0] * (_MOST_PARTS + 1)

    parts = [
        [len(some := divided(index)), *some] if internal[index] in merged else _parts_of(internal[index], symbols, index)
        for index in without.tolist()
    ]
    wrong = next((index for index, part in zip(without.tolist(), parts, strict=True) if len(part) > _MOST_PARTS + 1), None)
    if wrong is not None:
        raise TokenizerFormatError(
            f"{shorten(internal[wrong])} is made by a merge, and then stands for more than {_MOST_PARTS} tokens, or for "
            "unknown ones; expected a token: encode with `sentencepiece`"
        )
    padded = [[*part, 0, 0, 0][: _MOST_PARTS + 1] for part in parts]
    fuses = symbols.fuses_unknown and symbols.unknown is not None
    fused = symbols.unknown if fuses else symbol_parts.NOT_FUSED
    limits = np.array([first, fused, not merged and (ids[:_ASCII] < first).all()], np.uint32)
    return ids.astype(np.uint32), np.array(padded, np.uint32).ravel(), limits


def _parts_of(token: bytes, symbols: Symbols, index: int) -> list[int]:
    """Return the number of the ids that stand for an internal token without an id, and the ids; its index tells bytes."""
    if symbols.byte_ids:
        return [len(token), *(symbols.byte_ids[byte] for byte in token)]
    continues = (symbols.characters and _ASCII <= token[0] < _LEADS) or (symbols.word_end != "" and index == WORD_END)
    return [0 if continues else 1, int(NO_ID) if symbols.unknown is None else symbols.unknown]


def find_symbols(model: Model) -> FindSymbols:
    """Return a function that tells which bytes of a text belong to symbols of the vocabulary.

    It takes the bytes, and the ends of the pre-tokens, whose last symbols have the suffix; it returns bool [bytes]. Bytes that
    are not UTF-8 count as known, so that encoding them is an error.
    """
    symbols = model.symbols
    assert symbols is not None
    suffix = symbols.word_end.encode()
    by_character = symbols.characters
    known = np.zeros((2, _N_CODES if by_character else _N_BYTES), np.bool_)  # within a pre-token, and at its end
    known[:, slice(0xDC80, 0xDD00) if by_character else [*NEVER_IN_UTF8]] = True
    for token in model.ids:
        plain = marked(token, suffix)
        is_last = plain.endswith(_WORD_END) and plain != token
        symbol: Sequence[int] = plain[:-1] if is_last else plain
        if by_character:
            symbol = [*map(ord, bytes(symbol).decode("utf-8", "replace"))]
        if len(symbol) == 1:
            known[int(is_last), symbol[0]] = True

    def find(data: bytes, ends: Array | None) -> Array:
        starts = None
        if by_character:
            text = data.decode("utf-8", "surrogateescape")
            points = code_points(text)
            starts = None if points.size == len(data) else starts_of(widths(text))
        else:
            points = np.frombuffer(data, np.uint8)
        found = known[0, points]
        if suffix and ends is not None:
            last = (ends if starts is None else np.searchsorted(starts, ends)).astype(np.int64) - 1
            found[last] = known[1, points[last]]
        return found if starts is None else np.repeat(found, np.diff(starts))

    return find


def find_lengths(model: Model, ids: Array, lengths: Array, prepared: PreTokenizedText, known_symbols: FindSymbols) -> Array:
    """Return the number of bytes of a prepared text that each of its ids covers, as int64 [ids].

    `lengths` are those of the decoded ids. A suffix is one byte in the text, an added token has the length of its span, an
    unknown id covers one symbol, or all adjacent ones of a pre-token, and an id with several tokens the one that the text has.
    """
    if model.symbols is None and not model.decoder:
        return lengths
    symbols = model.symbols or Symbols(characters=False)
    suffix = symbols.word_end.encode()
    if suffix:
        met = {number: model.tokens.get(number, b"") for number in {*ids.tolist()}}
        ended = [number for number, token in met.items() if marked(token, suffix) != token]
        lengths = lengths - (len(suffix) - 1) * np.isin(ids, ended)
    ends = (prepared.ends & np.uint32(POSITION_MASK)).astype(np.int64)
    is_special = ends != prepared.ends
    spans = dict(zip(starts_of(np.diff(ends, prepend=0))[:-1][is_special].tolist(), ends[is_special].tolist(), strict=True))
    watched = [*model.special_tokens.values(), *symbols.shared.values()]
    watched += [] if symbols.unknown is None else [symbols.unknown]
    places = np.flatnonzero(np.isin(ids, watched))
    if not places.size:
        return lengths
    data = prepared.text[: int(ends[-1])].tobytes()
    is_mark = np.frombuffer(data, np.uint8) == (WORD_END if suffix else -1)
    without = np.flatnonzero(~is_mark)
    known = np.ones(len(data) + 1, np.bool_)
    if symbols.unknown is not None:
        within = np.cumsum(~is_mark)[ends - 1]
        known[without] = known_symbols(np.frombuffer(data, np.uint8)[without].tobytes(), within)
        known[:-1][is_mark] = True
    several = {number: [marked(model.tokens[number], suffix)] for number in {*ids[places].tolist()} if number in model.tokens}
    for token, number in symbols.shared.items():
        several.setdefault(number, []).append(marked(token, suffix))

    def continues(at: int) -> bool:
        if symbols.fuses_unknown:
            return not known[at]
        return symbols.characters and data[at] & 0xC0 == 0x80

    lengths = lengths.copy()
    starts = starts_of(lengths)
    shift = 0
    for place in places.tolist():
        start = int(starts[place]) + shift
        stop = spans.get(start)
        if stop is None and ids[place] == symbols.unknown and not known[start]:
            stop = start + 1
            span = int(np.searchsorted(ends, start, side="right"))
            end = int(ends[span])
            is_whole = model.ignore_merges and start == (ends[span - 1] if span else 0)
            if is_whole and data[start:end] == model.tokens.get(int(ids[place])):
                stop = end
            while stop < end and continues(stop):
                stop += 1
            stop += stop < end and bool(is_mark[stop])
        elif stop is None and ids[place] in several:
            tokens = several[ids[place]]
            stop = start + max(len(token) for token in tokens if data.startswith(token, start))
        if stop is not None:
            shift += stop - start - int(lengths[place])
            lengths[place] = stop - start
    return lengths
