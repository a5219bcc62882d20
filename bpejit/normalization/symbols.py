"""Symbols: what a pre-token is divided into before merging, if that is not all of its bytes.

A byte-level vocabulary has a token for each byte, so a pre-token begins as its bytes. Other vocabularies begin with characters,
and have to say what becomes of a character that is not a token: with *byte fallback* it becomes its bytes, which have tokens
of their own, such as `<0xE4>`; otherwise it becomes the *unknown* token, or nothing. Some mark the last character of a
pre-token by a suffix such as `</w>`, and many write the space as `▁`.

In the tokens of such a model a space is a space. Only files have the character that stands for it.

Importing this module imports neither NumPy nor regex.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bpejit.normalization.byte_characters import encode_byte_characters

WORD_END = 0xFF
"""The byte after a pre-token that stands for its suffix, which belongs to the last character. UTF-8 does not have it."""


@dataclass(frozen=True)
class Symbols:
    """How pre-tokens begin.

    Parameters
    ----------
    characters : bool
        Whether symbols are characters; otherwise they are bytes, of which some are missing.
    byte_ids : tuple of int
        The ids of the 256 bytes of characters that are not tokens, -1 for an ASCII character that is one; empty without byte
        fallback.
    unknown : int, optional
        The id of a symbol that is not in the vocabulary. If it is None and there is no byte fallback, the symbol is removed.
    unknown_token : str
        The text of the unknown token if it is not in the vocabulary; unknown symbols are then an error. Otherwise empty.
    fuses_unknown : bool
        Whether adjacent unknown symbols of a pre-token become one.
    word_end : str
        The suffix of the last symbol of a pre-token; empty if there is none.
    space : str
        The character that stands for a space in files; empty if the space stands for itself.
    unused : mapping of int to bytes
        Tokens that no text becomes, but that ids are decoded to, such as `<0x41>` beside the token `A`.
    shared : mapping of bytes to int
        Further tokens with the id of another token.
    order : tuple of int
        The ids of the tokens of a ranked model in order of rank, if that is not the order of the ids.
    """

    characters: bool = True
    byte_ids: tuple[int, ...] = ()
    unknown: int | None = None
    unknown_token: str = ""
    fuses_unknown: bool = False
    word_end: str = ""
    space: str = ""
    unused: Mapping[int, bytes] = field(default_factory=dict)
    shared: Mapping[bytes, int] = field(default_factory=dict)
    order: tuple[int, ...] = ()

    @property
    def removes_unknown(self) -> bool:
        """True if symbols that are not in the vocabulary are removed from a text."""
        return self.unknown is None and not (self.byte_ids or self.unknown_token)

    def renumbered(self, numbers: Mapping[int, int]) -> Symbols:
        """Return the symbols with other ids; tokens of `order` without one are left out."""
        return replace(
            self,
            byte_ids=tuple(numbers.get(number, -1) for number in self.byte_ids),
            unknown=None if self.unknown is None else numbers[self.unknown],
            unused={numbers[number]: token for number, token in self.unused.items()},
            shared={token: numbers[number] for token, number in self.shared.items()},
            order=tuple(numbers[number] for number in self.order if number in numbers),
        )

    def as_dict(self) -> dict[str, object]:
        """Return the fields that are not defaults, as values of JSON; bytes are in Latin-1."""
        values = {
            **vars(self),
            "unused": {str(number): token.decode("latin-1") for number, token in self.unused.items()},
            "shared": {token.decode("latin-1"): number for token, number in self.shared.items()},
        }
        defaults = vars(Symbols())
        return {name: value for name, value in values.items() if value != defaults[name]}


def file_text(token: bytes, symbols: Symbols | None) -> str:
    """Return the text of an ordinary token in a `tokenizer.json`."""
    if symbols is None or not symbols.characters:
        suffix = symbols.word_end if symbols is not None else ""
        ordinary = token.removesuffix(suffix.encode())
        return encode_byte_characters(ordinary) + (suffix if ordinary != token else "")
    text = token.decode("utf-8", "surrogateescape")
    return text.replace(" ", symbols.space) if symbols.space else text


def unused_texts(symbols: Symbols | None) -> dict[int, str]:
    """Return the texts of the tokens that are only decoded, and of those of byte fallback, in a `tokenizer.json`, by id."""
    if symbols is None:
        return {}
    texts = {number: token.decode("utf-8", "surrogateescape") for number, token in symbols.unused.items()}
    return {**texts, **{number: byte_text(byte) for byte, number in enumerate(symbols.byte_ids) if number >= 0}}


def byte_text(byte: int) -> str:
    """Return the text of the token of a byte in files with byte fallback.

    Examples
    --------
    >>> byte_text(10)
    '<0x0A>'
    """
    return f"<0x{byte:02X}>"
