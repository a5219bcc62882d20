"""The ordinary tokens of a `tokenizer.json`, and the symbols that pre-tokens begin as (see `bpejit.normalization.symbols`)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from bpejit.errors import shorten
from bpejit.model import NEVER_IN_UTF8, special_bytes
from bpejit.normalization.byte_characters import decode_byte_characters
from bpejit.normalization.json_fields import AGAIN, refused
from bpejit.normalization.symbols import Symbols, byte_text


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


def byte_strings(texts: Iterable[str], *, suffix: str, space: str) -> dict[str, bytes]:  # noqa: ARG001
    """Return the bytes of texts in byte characters. Other texts, and the empty one, have no entry."""
    strings = {}
    for text in texts:
        try:
            if suffix and text.endswith(suffix) and text != suffix:
                strings[text] = decode_byte_characters(text.removesuffix(suffix)) + suffix.encode()
            elif text:
                strings[text] = decode_byte_characters(text)
        except UnicodeEncodeError:  # noqa: PERF203 (`suppress` takes twice the time)
            continue
    return strings


def character_strings(texts: Iterable[str], *, suffix: str, space: str) -> dict[str, bytes]:  # noqa: ARG001
    """Return the bytes of texts, in which `space` is a space. Texts that no text becomes have no entry."""
    if not space:
        return {text: text.encode() for text in texts if text}
    return {text: text.replace(space, " ").encode() for text in texts if text and " " not in text}


def read_symbols(
    vocab: dict[str, int],
    strings: dict[str, bytes],
    merges: list[tuple[str, str]],
    added: dict[str, int],
    options: BpeSettings,
    *,
    level: bool,
    space: str,
) -> tuple[dict[int, bytes], Symbols | None]:
    """Return the ordinary tokens, and the symbols unless these are all bytes.

    Added tokens are among the tokens only if a merge needs them, they are a symbol, or pre-tokens are kept whole.
    """
    needed = {*chain.from_iterable(merges), *map("".join, merges)}
    byte_ids = () if level or not options.byte_fallback else _byte_ids(vocab, needed)
    tokens: dict[int, bytes] = {}
    unused: dict[int, bytes] = {}
    fallback = {*byte_ids}
    for text, number in vocab.items():
        wanted = text in needed or len(text.removesuffix(options.word_end)) == 1
        token = strings.get(text)
        if number in fallback:
            continue
        if token is None:
            if text not in added:
                unused[number] = text.encode("utf-8", "surrogatepass")
            continue
        if text in added:
            plain = token == (special_bytes(text).replace(space.encode(), b" ") if space else special_bytes(text))
            if wanted and not plain:
                raise refused(
                    "added_tokens",
                    f"have {shorten(text)}, which model.vocab has for the bytes {shorten(token)}",
                    "rename the added token",
                )
            if not (wanted or (options.ignore_merges and plain)):
                continue
        tokens[number] = token
    single = {token for token in tokens.values() if len(token) == 1}
    missing = {byte for byte in range(256) if bytes([byte]) not in single} - {*NEVER_IN_UTF8}
    if level and not missing and not unused and not options.word_end:
        return tokens, None
    unknown = None
    if not byte_ids and options.unknown is not None:
        if options.unknown not in vocab:
            raise refused("model.unk_token", f"is {shorten(options.unknown)}, which is not in model.vocab", AGAIN)
        unknown = vocab[options.unknown]
    return tokens, Symbols(
        characters=not level,
        byte_ids=byte_ids,
        unknown=unknown,
        fuses_unknown=options.fuses_unknown and unknown is not None,
        word_end=options.word_end,
        space=space,
        unused=unused,
    )


def _byte_ids(vocab: dict[str, int], needed: set[str]) -> tuple[int, ...]:
    """Return the ids of the tokens of bytes, or none if there are none."""
    found = [text for text in map(byte_text, range(256)) if text in vocab]
    if not found:
        return ()
    if len(found) < 256:
        missing = next(text for text in map(byte_text, range(256)) if text not in vocab)
        raise refused("model.byte_fallback", f"is true, but {missing} is not in model.vocab; expected all 256 bytes", AGAIN)
    merged = needed.intersection(found)
    if merged:
        raise refused("model.merges", f"have {min(merged)}; expected no merges of the bytes of fallback", AGAIN)
    return tuple(map(vocab.__getitem__, found))
