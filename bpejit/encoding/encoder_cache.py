"""Store the tables of encoders, and pre-token caches seeded with their vocabulary, on disk (see `bpejit.jit.cache`).

Computing both takes a tenth of a second for 50,000 tokens and half a second for 200,000; reading them takes 2 to 6 ms. Files
have 7 to 15 MB. Small vocabularies are not stored, since theirs are computed as fast.

A file is identified by a hash of all that its content depends on: everything of the model that the tables are built from, the
sizes of the arrays, and the sources of the kernels and of the modules that build them. Like all files of the cache it starts
with a check of its content, so a damaged one is ignored and written again.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bpejit.arrays import HUGE_PAGE_BYTES, Array, ByteStrings
from bpejit.jit import cache, dispatch, fingerprint
from bpejit.kernels.encoding import pretoken_cache
from bpejit.kernels.encoding.encoder_arrays import EncoderTables
from bpejit.model import Model
from bpejit.packed_tokens import PackedTokens, pack_tokens

LEAST_TOKENS = 8192
"""Tables of smaller vocabularies are not stored."""

_TYPES = ("u8", "u4", "u4", "u4", "u8", "u8", "u8", "u4", "u8", "u8", "u1", "u8", "u1", "i8")
"""The types of the tables, the slots, the arena and the progress, in the order in which they are stored."""

_HEAD = 2 * len(_TYPES)

_ALIGNMENT = 64

_MODULES = ("encoder.py", "encoder_cache.py", "encoder_tables.py", "workspace.py", "../arrays.py", "../ranked_merges.py")


class StoredEncoder(NamedTuple):
    """What is stored for a model.

    Parameters
    ----------
    tables : EncoderTables
    slots : uint64
        The slots of a pre-token cache seeded with the vocabulary.
    arena : uint8
        Its records, up to the last one that was written.
    progress : int64
        The fields of `WorkspaceArrays.progress`.
    n_arena : int
        Size of the whole arena.
    """

    tables: EncoderTables
    slots: Array
    arena: Array
    progress: Array
    n_arena: int


def stored_name(model: Model, pool: Array, lengths: Array, cache_bytes: int) -> str | None:
    """Return the name of the file for a model, or None if its tables are not stored.

    Parameters
    ----------
    model : Model
    pool : uint8
        The bytes of all tokens in the order of the model, then those of special tokens (see `encoder_tables.make_decoder`).
    lengths : int64
        Number of bytes of each id.
    cache_bytes : int
        Size of the pre-token cache.
    """
    if len(model.tokens) < LEAST_TOKENS or not dispatch.JIT_ENABLED or dispatch.BY_NUMBA:
        return None
    code = _hash_of_code()
    if code is None:
        return None
    digest = hashlib.blake2b(code.encode(), digest_size=16)
    specials = [(text, token_id, token_id in model.tokens) for text, token_id in model.special_tokens.items()]
    head = (model.ranked, model.ignore_merges, cache_bytes, len(model.tokens), len(model.merges), specials)
    parts = [np.frombuffer(repr(head).encode("utf-8", "surrogatepass"), dtype=np.uint8)]
    if isinstance(model.tokens, PackedTokens):
        parts.append(np.frombuffer(model.tokens.digest, dtype=np.uint8))
    else:
        parts += [pool, pack_tokens(model.tokens)[1], lengths]
    merged = ByteStrings.from_list([token for pair in model.merges for token in pair])
    for part in (*parts, merged.pool, merged.starts):
        digest.update(b"%d\n" % part.nbytes)
        digest.update(part.data)
    return f"encoder-{digest.hexdigest()}.tables"


def load_encoder(name: str) -> StoredEncoder | None:
    """Return what is stored under a name, or None."""
    content = cache.read_into(_allocate, name, cache.ENCODERS)
    if content is None:
        return None
    data = np.frombuffer(content, dtype=np.uint8)
    head = data[: 8 * (_HEAD + 1)].view(np.int64).tolist()
    arrays: list[Array] = []
    for kind, begin, end in zip(_TYPES, head[: len(_TYPES)], head[len(_TYPES) : _HEAD], strict=True):
        arrays.append(data[begin:end].view(kind))
    *tables, slots, arena, progress = arrays
    return StoredEncoder(EncoderTables(*tables), slots, arena, progress, head[_HEAD])


def _allocate(n_bytes: int) -> memoryview:
    """Return memory for a file. The arrays in it are aligned to cache lines, and can be written to, as kernels require.

    The content begins at a huge page, since the first and largest table is read at random (see `huge_page_zeros`).
    """
    alignment = HUGE_PAGE_BYTES if n_bytes >= HUGE_PAGE_BYTES else _ALIGNMENT
    data = np.empty(n_bytes + 2 * alignment, dtype=np.uint8)
    begin = -(data.ctypes.data + cache.HEAD_BYTES) % alignment
    return memoryview(data[begin : begin + n_bytes])  # type: ignore[arg-type]


def store_encoder(name: str, tables: EncoderTables, slots: Array, arena: Array, progress: Array) -> None:
    """Store the tables of a model and a seeded pre-token cache, if possible."""
    written = int(progress[pretoken_cache.ARENA_WRITTEN])
    if written > arena.size:
        return  # the ring was filled more than once: no vocabulary of usual size does that
    parts: list[Array] = [*tables, slots, arena[:written], progress]
    begins, ends = [], []
    at = 8 * (_HEAD + 1)
    for part in parts:
        at += -at % _ALIGNMENT
        begins.append(at)
        at += part.nbytes
        ends.append(at)
    content = np.zeros(at, dtype=np.uint8)
    content[: 8 * (_HEAD + 1)] = np.array([*begins, *ends, arena.size], dtype=np.int64).view(np.uint8)
    for part, begin, end in zip(parts, begins, ends, strict=True):
        content[begin:end] = part.view(np.uint8)
    cache.write(name, content.tobytes(), cache.ENCODERS)


@functools.cache
def _hash_of_code() -> str | None:
    """Return a hash of the code that computes tables and seeds, and of the machine that runs it.

    The result is None if the sources cannot be read, as in a package that contains only bytecode.
    """
    digest = hashlib.blake2b(digest_size=12)
    folder = Path(__file__).parent
    try:
        for name in _MODULES:
            digest.update((folder / name).read_bytes())
    except OSError:
        return None
    digest.update((fingerprint.of_machine() + fingerprint.of_sources()).encode())
    return digest.hexdigest()
