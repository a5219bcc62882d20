"""The merge rules and ids of models with `symbols`, whose pre-tokens do not begin as bytes with a token each.

Merging begins with bytes in every model. Here the merges that make characters come first, byte after byte, so that each
character of the vocabulary is one internal token before a merge of the model occurs. The mark of the last symbol of a
pre-token, which files write as a suffix such as `</w>`, is the byte WORD_END, and belongs to the character before it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bpejit.arrays import Array, ByteStrings
from bpejit.formats.ranked_merges import MergeRules
from bpejit.kernels.encoding import symbol_parts
from bpejit.kernels.encoding.span_encoding import NO_ID
from bpejit.model import NEVER_IN_UTF8, Model
from bpejit.normalization.symbols import WORD_END
from bpejit.utf8 import code_points, widths

_WORD_END = bytes([WORD_END])

_N_BYTES = 256

_N_CODES = 0x110000

_ASCII = 0x80

_LEADS = 0xC0
"""The first byte that begins a character of several."""


def symbol_rules(model: Model) -> tuple[list[bytes], ByteStrings, MergeRules]:
    """Return the internal tokens of a model with symbols, as a list and packed, and its rules."""
    assert model.symbols is not None
    suffix = model.symbols.word_end.encode()
    internal = {bytes([byte]): byte for byte in range(_N_BYTES)}
    rules: list[tuple[int, int, int, int]] = []

    def add(left: bytes, right: bytes, rank: int) -> None:
        made = internal.setdefault(left + right, len(internal))
        rules.append((internal[left], internal[right], made, rank))

    for character in _characters(model):
        for size in range(1, len(character)):
            if character[: size + 1] not in internal:
                add(character[:size], character[size : size + 1], len(rules))
    first = len(rules)
    if model.ranked:
        _add_splits(model, internal, rules)
    else:
        pairs = [(marked(left, suffix), marked(right, suffix)) for left, right in model.merges]
        for left, right in pairs:
            internal.setdefault(left + right, len(internal))
        for rank, (left, right) in enumerate(pairs, first):
            if left in internal and right in internal:  # a token that no merge produces never occurs
                add(left, right, rank)
    tokens = list(internal)
    columns = np.array(rules, np.int32).reshape(-1, 4).T.copy()
    return tokens, ByteStrings.from_list(tokens), (columns[0], columns[1], columns[2], columns[3])


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
    found: set[bytes] = set()
    for token in model.tokens.values():
        plain = marked(token, suffix)
        symbol = token if plain == token else plain[:-1]
        if len(symbol) == 1 or (model.symbols.characters and _is_character(symbol)):
            found.add(symbol)
    if suffix:
        found |= {symbol + _WORD_END for symbol in found}
    return sorted(one for one in found if len(one) > 1)


def _is_character(token: bytes) -> bool:
    """Return True if bytes are one character of UTF-8."""
    if not 2 <= len(token) <= 4 or token[0] < _LEADS:
        return False
    try:
        return len(token.decode()) == 1
    except UnicodeDecodeError:
        return False


def symbol_ids(model: Model, internal: list[bytes]) -> tuple[Array, Array, Array]:
    """Return the id of each internal token, and `parts` and `part_limits` (see `symbol_parts`).

    Parameters
    ----------
    model : Model
    internal : list of bytes
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
    by_token = {marked(token, suffix): number for token, number in model.ids.items()}
    first = model.vocab_size
    parts: list[list[int]] = []
    ids: list[int] = []
    for number, token in enumerate(internal):
        token_id = by_token.get(token)
        if token_id is None and symbols.byte_ids and number < _N_BYTES:
            token_id = symbols.byte_ids[number]
        if token_id is None:
            token_id = first + len(parts)
            parts.append(_parts_of(token, symbols.byte_ids, symbols.unknown, characters=symbols.characters))
        ids.append(token_id)
    padded = [[*part, 0, 0][:4] for part in parts]
    ascii_known = all(number < first for number in ids[:_ASCII])
    fuses = symbols.fuses_unknown and symbols.unknown is not None
    fused = symbols.unknown if fuses else symbol_parts.NOT_FUSED
    limits = np.array([first, fused, ascii_known], np.uint32)
    return np.array(ids, np.uint32), np.array(padded, np.uint32).ravel(), limits


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
