"""The ordinary tokens of a `tokenizer.json`, and the symbols that pre-tokens begin as (see `bpejit.normalization.symbols`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array, ByteStrings
from bpejit.errors import shorten
from bpejit.model import NEVER_IN_UTF8, special_bytes
from bpejit.normalization.byte_characters import decoded_or_none
from bpejit.normalization.json_fields import AGAIN, refused
from bpejit.normalization.symbols import Symbols, byte_text
from bpejit.packed_tokens import PackedTokens


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
    texts = list(texts)
    joined = "\0".join(texts)
    if joined.count("\0") != max(len(texts) - 1, 0):
        found: list[bytes | None] = [(text.replace(space, " ") if space else text).encode() for text in texts]
    else:  # a few passes in C
        found = [*(joined.replace(space, " ") if space else joined).encode().split(b"\0")]
    for index, text in enumerate(texts):
        if not text or (space and " " in text):
            found[index] = None
    return found


def token_strings(texts: Iterable[str], symbols: Symbols) -> dict[str, bytes]:
    """Return the bytes of the texts of ordinary tokens of a model with symbols."""
    texts = list(texts)
    found = character_strings(texts, symbols.space) if symbols.characters else byte_strings(texts, symbols.word_end)
    return {text: token for text, token in zip(texts, found, strict=True) if token is not None}


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
    # Distinct, as the texts of a dict are.
    tokens = PackedTokens(ByteStrings.from_list([strings[index] or b"" for index in places.tolist()]), numbers[places])
    missing = {*range(256)} - tokens.single_bytes() - {*NEVER_IN_UTF8}
    if level and not missing and not unused and not settings.word_end:
        return tokens, None
    unknown = None
    if not byte_ids and settings.unknown is not None:
        if settings.unknown not in vocab:
            raise refused("model.unk_token", f"is {shorten(settings.unknown)}, which is not in model.vocab", AGAIN)
        unknown = vocab[settings.unknown]
    return tokens, Symbols(
        characters=not level,
        byte_ids=byte_ids,
        unknown=unknown,
        fuses_unknown=settings.fuses_unknown and unknown is not None,
        word_end=settings.word_end,
        space=space,
        unused=unused,
    )


def _byte_ids(vocab: dict[str, int], needed: Array) -> tuple[int, ...]:
    """Return the ids of the tokens of bytes, or none if there are none."""
    found = [text for text in map(byte_text, range(256)) if text in vocab]
    if not found:
        return ()
    if len(found) < 256:
        missing = next(text for text in map(byte_text, range(256)) if text not in vocab)
        raise refused("model.byte_fallback", f"is true, but {missing} is not in model.vocab; expected all 256 bytes", AGAIN)
    fallback = {*found}
    merged = [text for text, is_needed in zip(vocab, needed.tolist(), strict=True) if is_needed and text in fallback]
    if merged:
        raise refused("model.merges", f"have {min(merged)}; expected no merges of the bytes of fallback", AGAIN)
    return tuple(map(vocab.__getitem__, found))
