"""Pack the tokens of a vocabulary for the page of `bpejit report`: arrays in one compressed block, and their directory."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.encoding.codec import Codec
from bpejit.inspection.merge_parts import MergeParts
from bpejit.inspection.suspicious_tokens import SuspiciousTokens
from bpejit.inspection.token_properties import TokenProperties
from bpejit.inspection.token_rows import token_bytes
from bpejit.model import Model

KINDS = ("special", "partial", "unreachable", "mojibake", "long", "private", "control")
"""Kinds of tokens: bits of their flags, from the lowest."""

TITLES = {
    "special": "special token",
    "partial": "starts or ends inside a character",
    "unreachable": "never produced: its text is encoded as other tokens",
    "mojibake": "damaged text (mojibake or replacement characters)",
    "long": "very long: 32 bytes or more",
    "private": "like private data: an address, a number or a key",
    "control": "control or invisible characters",
}

_ALIGNMENT = 8


def token_flags(properties: TokenProperties, suspicious: SuspiciousTokens) -> Array:
    """Return the kinds of all tokens, as uint8 [vocab_size] of bits."""
    flags = np.zeros(properties.lengths.size, dtype=np.uint8)
    for bit, kind in enumerate(KINDS):
        chosen = getattr(properties, kind) if kind in ("special", "partial") else getattr(suspicious, kind)
        flags[chosen] |= np.uint8(1 << bit)
    return flags


def pack_arrays(
    model: Model, flags: Array, parts: MergeParts, counts: Array | None, others: Sequence[Codec]
) -> tuple[dict[str, tuple[str, int, int]], str]:
    """Pack the arrays of the table of tokens.

    Returns
    -------
    directory : dict of str to (str, int, int)
        For each array, its type, the position of its first byte, and its length.
    block : str
        The arrays, little-endian, compressed by zlib, in base64.
    """
    tokens = [token_bytes(model, number) for number in range(model.vocab_size)]
    lengths = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
    arrays: dict[str, tuple[str, Array]] = {
        "pool": ("u1", np.frombuffer(b"".join(tokens), dtype=np.uint8)),
        "lengths": ("u2" if int(lengths.max(initial=0)) < 1 << 16 else "u4", lengths),
        "flags": ("u1", flags),
        "left": ("i4", parts.left),
        "right": ("i4", parts.right),
    }
    if counts is not None:
        arrays["counts"] = ("u4" if int(counts.max(initial=0)) < 1 << 32 else "f8", counts)
    for index, other in enumerate(others):
        ids = {**other.model.ids, **other.model.special_ids}
        arrays[f"other{index}"] = ("i4", np.array([ids.get(token, -1) for token in tokens]))
    directory: dict[str, tuple[str, int, int]] = {}
    block = bytearray()
    for name, (dtype, values) in arrays.items():
        block.extend(bytes(-len(block) % _ALIGNMENT))
        directory[name] = dtype, len(block), int(values.size)
        block += values.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    return directory, base64.b64encode(zlib.compress(bytes(block), 6)).decode("ascii")


def script_json(value: Mapping[str, Any]) -> str:
    """Return JSON that is safe inside a script element: it has no `<`, `>` or `&`."""
    text = json.dumps(value, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
