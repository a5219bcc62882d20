"""The tokens of a text, one row each, and its pre-tokens."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from bpejit.arrays import padded_text
from bpejit.encoding.codec import Codec
from bpejit.encoding.utf8 import encode_utf8
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.model import Model
from bpejit.splitting import Splitter


class TokenRow(NamedTuple):
    """One token of a text.

    Parameters
    ----------
    id : int
    data : bytes
        The bytes of the token.
    start, end : int
        Position in the bytes of the text.
    char_start, char_end : int
        Position in the characters of the text (see `bpejit.encoding.offsets.TokenOffsets`).
    special : bool
    """

    id: int
    data: bytes
    start: int
    end: int
    char_start: int
    char_end: int
    special: bool


def token_rows(codec: Codec, text: str | bytes) -> list[TokenRow]:
    """Return the tokens of a text; special tokens are found, as in `encode`."""
    found, _ = codec.locate(text)
    columns = (found.ids, found.byte_starts, found.byte_ends, found.char_starts, found.char_ends)
    model = codec.model
    special = model.special_vocab
    return [
        TokenRow(number, token_bytes(model, number), start, end, char_start, char_end, number in special)
        for number, start, end, char_start, char_end in zip(*(column.tolist() for column in columns), strict=True)
    ]


def token_bytes(model: Model, number: int) -> bytes:
    """Return the bytes of the token with an id, ordinary or special; empty for an id that is not in use."""
    found = model.tokens.get(number)
    return found if found is not None else model.special_vocab.get(number, b"")


def pretokens(codec: Codec, text: str | bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the pre-tokens of a text, after normalization, and whether each is a special token."""
    data = encode_utf8(text) if isinstance(text, str) else text
    splitter = codec.encoder.splitter
    if isinstance(splitter, Splitter):
        prepared, n_bytes = padded_text(data)
        ends = splitter.split(prepared, n_bytes)
    else:
        prepared, ends = splitter.run(data)
    stops = (ends & POSITION_MASK).tolist()
    flags = (ends >= SPECIAL_FLAG).tolist()
    for (start, stop), special in zip(pairwise([0, *stops]), flags, strict=True):
        yield prepared[start:stop].tobytes(), special
