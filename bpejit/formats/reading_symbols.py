"""The ordinary tokens of a `tokenizer.json`, and the symbols that pre-tokens begin as (see `bpejit.normalization.symbols`)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array, ByteStrings
from bpejit.errors import shorten
from bpejit.model import NEVER_IN_UTF8, special_bytes
from bpejit.normalization.byte_characters import decoded_or_none
from bpejit.normalization.json_fields import AGAIN, refused
from bpejit.normalization.symbols import Symbols, byte_text
from bpejit.packed_tokens import PackedTokens

_ASCII = 0x80

_MOST_SHARED, _LONGEST_SHARED = 10_000, 64
"""The number of merges of a vocabulary in which several tokens share an id, and the length of their results."""


class BpeSettings(NamedTuple):
    """The settings of the section `model`.

    Parameters
    ----------
    word_end : str
        The suffix of the last symbol of a pre-token.
    unknown : str, optional
        The token of symbols that are not in the vocabulary.
    fuses_unknown, byte_fallback, ignore_merges : bool
    """

    word_end: str
    unknown: str | None
    fuses_unknown: bool
    byte_fallback: bool
    ignore_merges: bool

    @property
    def divides(self) -> bool:
        """True if a text without pre-tokens may be divided where no token can cross."""
        fuses = self.fuses_unknown and self.unknown is not None and not self.byte_fallback
        return not (self.word_end or self.ignore_merges or fuses)


def byte_strings(texts: Iterable[str], suffix: str) -> list[bytes | None]:
    """Return the bytes of texts in byte characters, and None for other texts and the empty one."""
    found: list[bytes | None] = []
    for text in texts:
        at_end = suffix != "" and text.endswith(suffix) and text != suffix
        token = decoded_or_none(text.removesuffix(suffix) if at_end else text)
        found.append(token + suffix.encode() if token and at_end else token or None)
    return found


def character_strings(texts: Iterable[str], space: str) -> list[bytes | None]:
    """Return the bytes of texts, in which `space` is a space, and None for texts that no text becomes."""
    if not space:
        return [text.encode() or None for text in texts]
    return [None if " " in text else text.replace(space, " ").encode() or None for text in texts]


def token_strings(texts: Iterable[str], symbols: Symbols) -> dict[str, bytes]:
    """Return the bytes of the texts of ordinary tokens of a model with symbols."""
    texts = list(texts)
    found = character_strings(texts, symbols.space) if symbols.characters else byte_strings(texts, symbols.word_end)
    return {text: token for text, token in zip(texts, found, strict=True) if token is not None}


def share_merges(vocab: dict[str, int], merges: Array) -> tuple[dict[str, int], Array]:
    """Return a vocabulary and its merges, which are repeated for all tokens that have the ids of theirs.

    Hugging Face tokenizers merge ids, so if `a` and `ä` have the same id, a merge of `a` and `i` applies to `ä` and `i` too.
    """
    if len({*vocab.values()}) == len(vocab):
        return vocab, merges
    numbers = [*vocab.values()]
    rules = {(numbers[left], numbers[right]): numbers[made] for left, right, made in merges.T[::-1].tolist()}
    rules = dict(reversed(rules.items()))  # of pairs that are the same by id, the last counts
    texts: dict[int, dict[str, None]] = {}
    for text, number in vocab.items():
        texts.setdefault(number, {})[text] = None
    found: dict[tuple[str, str], int] = {}
    before = -1
    while before < len(found):
        before = len(found)
        for rank, ((left, right), made) in enumerate(rules.items()):
            for pair in product([*texts[left]], [*texts[right]]):
                text = "".join(pair)
                found[pair] = rank
                texts[made][text] = None
                grows = len(text) > _LONGEST_SHARED or len(found) > _MOST_SHARED
                if grows or (left == right and len(texts[left]) > 1) or vocab.get(text, made) != made:
                    problem = f"has several tokens with the id {left}, which merges use in more ways than are supported"
                    raise refused("model.vocab", problem, "encode with `tokenizers`")
    vocab = {**{text: number for number, some in texts.items() for text in some}, **vocab}
    index = {text: number for number, text in enumerate(vocab)}
    rows = [[index[left], index[right], index[left + right]] for left, right in sorted(found, key=found.__getitem__)]
    return vocab, np.array(rows, np.int32).reshape(-1, 3).T


def read_symbols(
    vocab: dict[str, int],
    strings: list[bytes | None],
    merges: Array,
    added: dict[str, int],
    settings: BpeSettings,
    *,
    level: bool,
    space: str,
) -> tuple[PackedTokens, Symbols | None]:
    """Return the ordinary tokens, and the symbols unless these are all bytes.

    Added tokens are among the tokens only if a merge needs them, they are a symbol, or pre-tokens are kept whole.

    Parameters
    ----------
    vocab : dict of str to int
    strings : list of bytes or None
        The bytes of each text of `vocab`.
    merges : int32 [3, merges]
        The indexes in `vocab` of the left and the right token of each merge, and of the result.
    added : dict of str to int
    settings : BpeSettings
    level : bool
        Whether the texts are in byte characters.
    space : str
        The character that stands for a space.
    """
    needed = np.zeros(len(vocab), np.bool_)
    needed[merges] = True
    _check_settings(vocab, merges, needed, settings)
    byte_ids = () if level or not settings.byte_fallback else _byte_ids(vocab, needed)
    numbers = np.fromiter(vocab.values(), np.int64, len(vocab))
    kept = ~np.isin(numbers, byte_ids)
    unused: dict[int, bytes] = {}
    for index, (text, number) in enumerate(vocab.items()) if None in strings else ():
        if strings[index] is None:
            kept[index] = False
            if text not in added:
                unused[number] = text.encode("utf-8", "surrogatepass")
    indexes = {text: index for index, text in enumerate(vocab) if text in added}
    for text in added:
        index = indexes.get(text, -1)
        token = None if index < 0 else strings[index]
        if token is None or not kept[index]:
            continue
        wanted = needed[index] or len(text.removesuffix(settings.word_end)) == 1
        plain = token == (special_bytes(text).replace(space.encode(), b" ") if space else special_bytes(text))
        if wanted and not plain:
            raise refused(
                "added_tokens",
                f"have {shorten(text)}, which model.vocab has for the bytes {shorten(token)}",
                "rename the added token",
            )
        if not (wanted or (settings.ignore_merges and plain)):
            kept[index] = False
    places = np.flatnonzero(kept)
    places = places[np.argsort(numbers[places], kind="stable")]
    first = np.diff(numbers[places], prepend=-1) > 0  # of the tokens with an id
    shared = {strings[index] or b"": int(numbers[index]) for index in places[~first].tolist()}
    places = places[first]
    # Distinct, as the texts of a dict are.
    tokens = PackedTokens(ByteStrings.from_list([strings[index] or b"" for index in places.tolist()]), numbers[places])
    missing = {*range(256)} - tokens.single_bytes() - {*NEVER_IN_UTF8}
    if level and not (missing or unused or shared or settings.word_end):
        return tokens, None
    named = None if byte_ids or (level and not missing and not settings.word_end) else settings.unknown
    unknown = None if named is None else vocab.get(named)
    symbols = Symbols(
        characters=not level,
        byte_ids=byte_ids,
        unknown=unknown,
        unknown_token=named if named is not None and unknown is None else "",
        fuses_unknown=settings.fuses_unknown and unknown is not None,
        word_end=settings.word_end,
        space=space,
        unused={number: token for number, token in unused.items() if number not in tokens},
        shared=shared,
    )
    if unknown is not None and (len(settings.unknown or "") == 1 or unknown in shared.values()):
        found = f"is {shorten(settings.unknown)}, whose id stands for known characters as well"
        raise refused("model.unk_token", found, "encode with `tokenizers`")
    if settings.ignore_merges and symbols.removes_unknown:
        single = {text for text in vocab if len(text) == 1}
        whole = next((text for text, token in zip(vocab, strings, strict=True) if token and not single.issuperset(text)), None)
        if whole is not None:
            found = f"is true, and {shorten(whole)} has a character that is not in model.vocab"
            raise refused("model.ignore_merges", found, "encode with `tokenizers`")
    return tokens, symbols


def _check_settings(vocab: dict[str, int], merges: Array, needed: Array, settings: BpeSettings) -> None:
    """Raise if the merges treat the unknown token or the suffix as text, or the suffix could become bytes."""
    suffix, action = settings.word_end, "encode with `tokenizers`"
    if settings.ignore_merges and settings.byte_fallback:
        raise refused("model.ignore_merges", "is true beside byte_fallback, whose tokens could be texts", action)
    if settings.unknown in vocab and needed[[*vocab].index(settings.unknown)]:
        raise refused("model.merges", f"have the unknown token {shorten(settings.unknown)}", action)
    if not suffix:
        return
    if settings.ignore_merges:
        raise refused("model.ignore_merges", "is true beside an end_of_word_suffix", action)
    if settings.byte_fallback:
        raise refused("model.byte_fallback", "is true beside an end_of_word_suffix, which could become bytes too", action)
    texts = [*vocab]
    for right, made in merges[1:].T.tolist():
        if texts[right] == suffix or (texts[made].endswith(suffix) and not texts[right].endswith(suffix)):
            raise refused("model.merges", f"make the suffix {shorten(suffix)} from others", action)


def _byte_ids(vocab: dict[str, int], needed: Array) -> tuple[int, ...]:
    """Return the ids of the tokens of bytes, or none if there are none; -1 for an ASCII character that is a token itself."""
    texts = [*map(byte_text, range(256))]
    fallback = {text for text in texts if text in vocab}
    if not fallback:
        return ()
    for byte, text in enumerate(texts):
        if text not in fallback and not (byte < _ASCII and chr(byte) in vocab):
            raise refused("model.byte_fallback", f"is true, but {text} is not in model.vocab; expected all 256 bytes", AGAIN)
    if len({*vocab.values()}) < len(vocab):
        raise refused("model.vocab", "has several tokens with one id beside byte_fallback", "encode with `tokenizers`")
    merged = [text for text, is_needed in zip(vocab, needed.tolist(), strict=True) if is_needed and text in fallback]
    if merged:
        raise refused("model.merges", f"have {min(merged)}; expected no merges of the bytes of fallback", AGAIN)
    return tuple(vocab.get(text, -1) for text in texts)
