"""The number of bytes of each token as an array, which is written beside every saved tokenizer, for bits per byte."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from bpejit.model import Model
from bpejit.packed_tokens import PackedTokens
from bpejit.storage.files import StrPath

TOKEN_BYTES_FILE = "token_bytes.npy"
"""int32 [ids]: the number of bytes of each token; 0 for special tokens and ids that are not used."""


def token_bytes_path(path: StrPath) -> Path:
    """Return the path of the array beside a tokenizer that is a single file: `NAME.token_bytes.npy`."""
    return Path(path).with_suffix(f".{TOKEN_BYTES_FILE}")


def token_bytes_npy(model: Model) -> bytes | None:
    """Return the content of the file, or None if few of the ids are used, so that it would be large."""
    lengths = token_lengths(model)
    if lengths is None:
        return None
    data = io.BytesIO()
    np.lib.format.write_array(data, np.array(lengths, dtype="<i4"), version=(1, 0))
    return data.getvalue()


def token_lengths(model: Model) -> list[int] | None:
    """Return the number of bytes of each id, or None if few of the ids are used."""
    size = model.vocab_size
    specials = model.special_tokens.values()
    if size > 2 * (len(model.tokens) + sum(token_id not in model.tokens for token_id in specials)) + 65536:
        return None
    if isinstance(model.tokens, PackedTokens):
        found = np.zeros(size, np.int64)
        found[model.tokens.numbers] = model.tokens.lengths()
        found[list(specials)] = 0
        return found.tolist()  # type: ignore[no-any-return]
    lengths = [0] * size
    for token_id, token in model.tokens.items():
        lengths[token_id] = len(token)
    for token_id in specials:
        lengths[token_id] = 0
    return lengths
