"""Store the vocabularies that readers have parsed and checked as arrays in the cache (see `bpejit.jit.cache`).

Parsing and checking JSON with 32,000 tokens takes a tenth of a second; reading arrays takes 2 ms. Small vocabularies are not
stored.

A file is identified by a hash of the content that was parsed and of the sources that parse it. Like all files of the cache it
starts with a check of its content, so a damaged one is ignored and written again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bpejit.arrays import ByteStrings
from bpejit.jit import fingerprint
from bpejit.jit.stored_arrays import load_arrays, store_arrays
from bpejit.model import Model
from bpejit.packed_tokens import DIGEST_BYTES, PackedMerges, PackedTokens, digest_of_merges, digest_of_tokens, pack_tokens
from bpejit.splitting.pattern_cache import describe_engine

LEAST_TOKENS = 8192
"""Smaller vocabularies are not stored."""

_TYPES = ("u1", "i8", "i8", "i4", "i4", "i8", "u1", "u1")
"""The types of the bytes, starts and ids of tokens, the left and right tokens and the counts of merges, the hashes of tokens
and merges, and the notes.
"""

_MODULES = ("folder_reading.py", "vocabulary_cache.py", "../model.py", "../packed_tokens.py", "../jit/stored_arrays.py")


class StoredVocabulary(NamedTuple):
    """What is stored for a tokenizer.

    Parameters
    ----------
    tokens : PackedTokens
    merges : PackedMerges
    merge_counts : list of int
        Empty if the model has none.
    notes : dict
        What else the reader stored, in JSON.
    """

    tokens: PackedTokens
    merges: PackedMerges
    merge_counts: list[int]
    notes: dict[str, Any]


def load_stored(content: bytes) -> StoredVocabulary | None:
    """Return what is stored for the content of a file, or None."""
    name = _file_name(content)
    arrays = None if name is None else load_arrays(name, _TYPES)
    if arrays is None:
        return None
    pool, starts, numbers, lefts, rights, counts, digests, notes = arrays
    strings = ByteStrings(pool, starts)
    hashes = digests.tobytes()
    return StoredVocabulary(
        PackedTokens(strings, numbers, hashes[:DIGEST_BYTES]),
        PackedMerges(strings, lefts, rights, hashes[DIGEST_BYTES:]),
        counts.tolist(),
        json.loads(notes.tobytes()),
    )


def store_parsed(content: bytes, model: Model, notes: dict[str, Any]) -> None:
    """Store the tokens and merges of a model for the content of a file, if possible.

    Parameters
    ----------
    content : bytes
        The content that the result of `load_stored` will be found by.
    model : Model
    notes : dict
        What the reader needs besides tokens and merges; valid in JSON.
    """
    strings, numbers = pack_tokens(model.tokens)
    if len(strings) < LEAST_TOKENS or (np.diff(numbers) <= 0).any():
        return
    name = _file_name(content)
    if name is None:
        return
    indexes = {token: index for index, token in enumerate(model.tokens.values())}
    try:
        counts = np.array(model.merge_counts or (), dtype=np.int64)
    except OverflowError:
        return
    lefts, rights = (_indexes(indexes, [pair[side] for pair in model.merges]) for side in (0, 1))
    digests = np.frombuffer(digest_of_tokens(model.tokens) + digest_of_merges(model.merges), dtype=np.uint8)
    text = np.frombuffer(json.dumps(notes).encode(), dtype=np.uint8)
    store_arrays(name, [strings.pool, strings.starts, numbers, lefts, rights, counts, digests, text])


def _indexes(indexes: dict[bytes, int], tokens: Sequence[bytes]) -> Any:
    return np.fromiter(map(indexes.__getitem__, tokens), dtype=np.int32, count=len(tokens))


def _file_name(content: bytes) -> str | None:
    code = fingerprint.of_modules(Path(__file__).parent, _MODULES)
    if code is None:
        return None
    # The `regex` package limits the versions of Unicode.
    digest = hashlib.blake2b((code + describe_engine()).encode() + hashlib.sha256(content).digest(), digest_size=16)
    return f"vocabulary-{digest.hexdigest()}.tables"
