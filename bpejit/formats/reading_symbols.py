"""Vocabulary and merges of a `tokenizer.json`, the ordinary tokens, and the symbols that pre-tokens begin as (`Symbols`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise, product
from typing import Any, NamedTuple

import numpy as np

from bpejit.arrays import Array, ByteStrings, distinct
from bpejit.errors import TokenizerFormatError, shorten
from bpejit.formats import vocabulary_arrays
from bpejit.formats.packed_vocabulary import MOST_ID, PackedVocabulary, ends_with, pack_texts
from bpejit.model import NEVER_IN_UTF8, special_bytes
from bpejit.normalization.json_fields import AGAIN, refused
from bpejit.normalization.symbols import Symbols, byte_text
from bpejit.packed_tokens import PackedMerges, PackedTokens, ReadOnlyDict

_ASCII = 0x80

_MOST_SHARED, _LONGEST_SHARED = 10_000, 64
"""The number of merges of a vocabulary in which several tokens share an id, and the length of their results."""


def checked_vocab(vocab: Mapping[str, Any]) -> PackedVocabulary:
    """Return a vocabulary as arrays, after checking its ids."""
    if isinstance(vocab, PackedVocabulary):
        return vocab
    for text, number in vocab.items():
        if type(number) is not int or not 0 <= number <= MOST_ID:
            found = f"has the id {shorten(number)} for {shorten(text)}; expected a whole number from 0"
            raise refused("model.vocab", found, AGAIN)
    return PackedVocabulary.from_dict(vocab)


def checked_merges(listed: list[Any] | ByteStrings, vocab: PackedVocabulary) -> Array:
    """Return the merges, written as lists or strings, or packed (see `parse_large`), as `read_symbols` takes them."""
    pairs: dict[int, list[str]] = {}
    for number, merge in enumerate(listed if isinstance(listed, list) else ()):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if isinstance(merge, str) and merge.startswith("#version"):
            continue
        if not isinstance(pair, list) or [*map(type, pair)] != [str, str]:
            raise _refused_merge(number, merge, "; expected two tokens, as a list or with a space between", AGAIN)
        pairs[number] = pair
    sides = pack_texts([*chain.from_iterable(pairs.values())]) if isinstance(listed, list) else listed
    found = vocab.index.find(sides)
    merges = np.stack([found[::2], found[1::2], vocab.index.find(sides, 2)])
    if not (merges < 0).any():
        return merges
    if isinstance(listed, ByteStrings):  # its error is not shown
        raise TokenizerFormatError("a merge is not in the vocabulary; expected tokens of it: correct the file")
    number, (left, right) = list(pairs.items())[int(np.argmin(merges.min(axis=0)))]
    token = next(token for token in (left, right, left + right) if token not in vocab)
    raise _refused_merge(number, listed[number], f", but {shorten(token)} is not in model.vocab; expected tokens of it", AGAIN)


def _refused_merge(number: int, merge: Any, found: str, action: str) -> TokenizerFormatError:
    return refused(f"model.merges[{number}]", f"is {shorten(merge)}{found}", action)


def tokens_and_merges(
    tokens: PackedTokens, vocab: PackedVocabulary, strings: ByteStrings, merges: Array, symbols: Symbols | None
) -> tuple[Mapping[int, bytes], Sequence[tuple[bytes, bytes]]]:
    """Return the tokens and the merges of a model, as arrays if there are many; the parameters are those of `read_symbols`."""
    if symbols is not None and symbols.shared:  # ids do not tell which tokens they are
        return ReadOnlyDict(tokens.items()), PackedMerges(strings, merges[0], merges[1]).pairs
    places = np.searchsorted(tokens.numbers, vocab.numbers).astype(np.int32)
    packed = PackedMerges(tokens.strings, places[merges[0]], places[merges[1]])
    is_large = len(tokens) >= vocabulary_arrays.LEAST_TOKENS
    return (tokens, packed) if is_large else (ReadOnlyDict(tokens.items()), packed.pairs)


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


def share_merges(packed: PackedVocabulary, merges: Array) -> tuple[PackedVocabulary, Array]:
    """Return a vocabulary and its merges, which are repeated for all tokens that have the ids of theirs.

    Hugging Face tokenizers merge ids, so if `a` and `ä` have the same id, a merge of `a` and `i` applies to `ä` and `i` too.
    """
    if distinct(packed.numbers).size == len(packed):
        return packed, merges
    numbers = packed.numbers.tolist()
    vocab = dict(zip(packed, numbers, strict=True))
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
    return PackedVocabulary.from_dict(vocab), np.array(rows, np.int32).reshape(-1, 3).T


def read_symbols(
    vocab: PackedVocabulary,
    strings: ByteStrings,
    exists: Array,
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
    vocab : PackedVocabulary
    strings : ByteStrings
    exists : bool [texts]
        The bytes of each text of `vocab`, and whether any text becomes it (see `token_strings`).
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
    numbers = vocab.numbers
    kept = ~np.isin(numbers, byte_ids) & exists
    indexes = vocab.find(*added).tolist()
    others = ~exists
    others[[index for index in indexes if index >= 0]] = False
    unused = {int(numbers[index]): vocab.texts[index] for index in np.flatnonzero(others).tolist()}
    for text, index in zip(added, indexes, strict=True):
        if index < 0 or not kept[index]:
            continue
        wanted = needed[index] or len(text.removesuffix(settings.word_end)) == 1
        if not (wanted or settings.ignore_merges):
            kept[index] = False
            continue
        plain = special_bytes(text).replace(space.encode(), b" ") if space else special_bytes(text)
        kept[index] = plain == strings[index]
        if wanted and not kept[index]:
            raise refused(
                "added_tokens",
                f"have {shorten(text)}, which model.vocab has for the bytes {shorten(strings[index])}",
                "rename the added token",
            )
    places = np.flatnonzero(kept)
    places = places[np.argsort(numbers[places], kind="stable")]
    first = np.diff(numbers[places], prepend=-1) > 0  # of the tokens with an id
    shared = {strings[index]: int(numbers[index]) for index in places[~first].tolist()}
    places_shared = places[np.isin(numbers[places], [*shared.values()])].tolist() if shared else ()
    alike = {(int(numbers[index]), strings[index].removesuffix(settings.word_end.encode())) for index in places_shared}
    for (number, token), (other, longer) in pairwise(sorted(alike)):
        if number == other and longer.startswith(token):  # an id does not tell where a token ends
            found = f"has {shorten(token)} and {shorten(longer)} with the id {number}, and one begins with the other"
            raise refused("model.vocab", found, "encode with `tokenizers`")
    places = places[first]
    # Distinct, as the texts of a vocabulary are.
    tokens = PackedTokens(strings.take(places), numbers[places])
    missing = {*range(256)} - tokens.single_bytes() - {*NEVER_IN_UTF8}
    if level and missing and settings.byte_fallback and any(f"<0x{byte:02X}>" in vocab for byte in range(256)):
        found = f"is true, and {len(missing)} bytes without tokens would become those of their byte characters"
        raise refused("model.byte_fallback", found, "encode with `tokenizers`")
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
    if symbols.removes_unknown and named == "":
        raise refused("model.unk_token", "is '', which is not in model.vocab; expected null or a token of it", AGAIN)
    if unknown is not None and (len(settings.unknown or "") == 1 or unknown in shared.values()):
        found = f"is {shorten(settings.unknown)}, whose id stands for known characters as well"
        raise refused("model.unk_token", found, "encode with `tokenizers`")
    if settings.ignore_merges and symbols.removes_unknown:
        single = {text for text in vocab if len(text) == 1}
        whole = next((text for text, found in zip(vocab, exists, strict=True) if found and not single.issuperset(text)), None)
        if whole is not None:
            found = f"is true, and {shorten(whole)} has a character that is not in model.vocab"
            raise refused("model.ignore_merges", found, "encode with `tokenizers`")
    return tokens, symbols


def _check_settings(vocab: PackedVocabulary, merges: Array, needed: Array, settings: BpeSettings) -> None:
    """Raise if the merges treat the unknown token or the suffix as text, or the suffix could become bytes."""
    suffix, action = settings.word_end, "encode with `tokenizers`"
    if settings.ignore_merges and settings.byte_fallback:
        raise refused("model.ignore_merges", "is true beside byte_fallback, whose tokens could be texts", action)
    unknown, end = vocab.find(settings.unknown or "", suffix).tolist()
    if settings.unknown is not None and unknown >= 0 and needed[unknown]:
        raise refused("model.merges", f"have the unknown token {shorten(settings.unknown)}", action)
    if not suffix:
        return
    if settings.ignore_merges:
        raise refused("model.ignore_merges", "is true beside an end_of_word_suffix", action)
    if settings.byte_fallback:
        raise refused("model.byte_fallback", "is true beside an end_of_word_suffix, which could become bytes too", action)
    ended = ends_with(vocab.texts, suffix.encode("utf-8", "surrogatepass"))
    if ((merges[1] == end) | (ended[merges[2]] & ~ended[merges[1]])).any():
        raise refused("model.merges", f"make the suffix {shorten(suffix)} from others", action)


def _byte_ids(vocab: PackedVocabulary, needed: Array) -> tuple[int, ...]:
    """Return the ids of the tokens of bytes, or none if there are none; -1 for an ASCII character that is a token itself."""
    texts = [*map(byte_text, range(256))]
    indexes = vocab.find(*texts)
    if (indexes < 0).all():
        return ()
    plain = vocab.find(*map(chr, range(_ASCII)))
    for byte in np.flatnonzero(indexes < 0).tolist():
        if not (byte < _ASCII and plain[byte] >= 0):
            found = f"is true, but {texts[byte]} is not in model.vocab; expected all 256 bytes"
            raise refused("model.byte_fallback", found, AGAIN)
    if distinct(vocab.numbers).size < len(vocab):
        raise refused("model.vocab", "has several tokens with one id beside byte_fallback", "encode with `tokenizers`")
    merged = [text for text, index in zip(texts, indexes.tolist(), strict=True) if index >= 0 and needed[index]]
    if merged:
        raise refused("model.merges", f"have {merged[0]}; expected no merges of the bytes of fallback", AGAIN)
    return tuple(np.where(indexes < 0, -1, vocab.numbers[indexes]).tolist())
