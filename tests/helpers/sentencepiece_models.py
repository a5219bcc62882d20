"""Models of SentencePiece as bytes, made by hand or trained, and strategies of them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

UNK = ("<unk>", 0.0, UNKNOWN)

ALL_BYTES = [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]

CHARACTERS = "ab c,\n\u2581\u00e9\u4e2d\U0001f642\u0301"


def varint(number: int) -> bytes:
    """Return a number of variable length."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: int | bytes) -> bytes:
    """Return a field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def model_bytes(
    pieces: Iterable[tuple[str, float, int]], *, kind: int = 2, charsmap: bytes = b"", surface: str | None = None, **flags: bool
) -> bytes:
    """Return a model. The flags are fields of its settings, and default to true, true, true, false and false."""
    out = b""
    for text, score, piece in pieces:
        out += field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + field(3, piece))
    trainer = field(3, kind) + field(35, flags.get("fallback", False)) + field(24, flags.get("suffix", False))
    trainer += b"" if surface is None else field(44, surface.encode())
    normalizer = field(2, charsmap) if charsmap else b""
    for number, name in ((3, "prefix"), (4, "removes"), (5, "escapes")):
        normalizer += field(number, flags.get(name, True))
    return out + field(2, trainer) + field(3, normalizer)


@st.composite
def models(draw: Any) -> bytes:
    """Return a model with random pieces."""
    fallback = draw(st.booleans())
    alphabet = draw(st.lists(st.sampled_from(CHARACTERS.replace(" ", "")), min_size=1, max_size=6, unique=True))
    made = list(alphabet)
    for _ in range(draw(st.integers(0, 14))):
        made.append(draw(st.sampled_from(made)) + draw(st.sampled_from(made)))
    texts = dict.fromkeys(text for text in made if 1 < len(text) < 9)
    kinds = st.sampled_from([NORMAL] * 12 + [UNUSED, USER_DEFINED])
    pieces = [UNK, ("<s>", 0.0, CONTROL), *(ALL_BYTES if fallback else ())]
    pieces += [(text, -float(rank), draw(kinds)) for rank, text in enumerate(draw(st.permutations([*texts])))]
    pieces += [(text, -100.0, draw(st.sampled_from([NORMAL] * 6 + [USER_DEFINED]))) for text in alphabet]
    flags = {name: draw(st.booleans()) for name in ("prefix", "removes", "escapes")}
    return model_bytes(pieces, fallback=fallback, **flags)
