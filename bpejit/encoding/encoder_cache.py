"""Store the tables of encoders, and pre-token caches seeded with their vocabulary, on disk (see `bpejit.jit.cache`).

Computing both takes a tenth of a second for 50,000 tokens and half a second for 200,000; reading them takes 2 to 6 ms. Files
have 7 to 15 MB. Small vocabularies are not stored, since theirs are computed as fast.

A file is identified by a hash of all that its content depends on: everything of the model that the tables are built from, the
sizes of the arrays, and the sources of the kernels and of the modules that build them. Like all files of the cache it starts
with a check of its content, so a damaged one is ignored and written again.
"""

from __future__ import annotations

import hashlib
import marshal
from pathlib import Path

import numpy as np

from bpejit.arrays import Array
from bpejit.jit import dispatch, fingerprint
from bpejit.jit.stored_arrays import CACHE_LINE_BYTES, load_arrays, store_arrays
from bpejit.kernels.encoding import pretoken_cache
from bpejit.kernels.encoding.encoder_arrays import EncoderTables
from bpejit.model import Model
from bpejit.packed_tokens import PackedTokens, pack_tokens
from bpejit.process_memory import HUGE_PAGE_BYTES

LEAST_TOKENS = 8192
"""Tables of smaller vocabularies are not stored."""

_MODULES = (
    "encoder.py",
    "encoder_cache.py",
    "encoder_tables.py",
    "symbol_tables.py",
    "workspace.py",
    "../arrays.py",
    "../jit/stored_arrays.py",
    "../model.py",
    "../packed_tokens.py",
    *(f"../formats/{name}.py" for name in ("packed_vocabulary", "ranked_merges", "vocabulary_arrays")),
)


def stored_name(model: Model, cache_bytes: int) -> str | None:
    """Return the name of the file for a model and a size of the pre-token cache, or None if its tables are not stored."""
    if len(model.tokens) < LEAST_TOKENS or not dispatch.JIT_ENABLED or dispatch.BY_NUMBA:
        return None
    code = fingerprint.of_modules(Path(__file__).parent, _MODULES)
    if code is None:
        return None
    source = model.tokens.source if isinstance(model.tokens, PackedTokens) and model.ranked else None
    is_token = np.isin(list(model.special_tokens.values()), pack_tokens(model.tokens)[1]).tolist()
    specials = list(zip(model.special_tokens, model.special_tokens.values(), is_token, strict=True))
    code += fingerprint.of_machine() + fingerprint.of_sources()
    parts = (code, source or model.sha256, model.ignore_merges, cache_bytes, specials)
    digest = hashlib.blake2b(marshal.dumps(parts, 2), digest_size=16)  # version 2: equal bytes for equal values
    return f"encoder-{digest.hexdigest()}.tables"


def load_encoder(name: str) -> tuple[EncoderTables, tuple[Array, Array, Array], int] | None:
    """Return what is stored under a name, or None.

    Returns
    -------
    tables : EncoderTables
    seeds : tuple of arrays
        The slots of a pre-token cache seeded with the vocabulary, its arena up to the last record, and its progress.
    n_arena : int
        Size of the whole arena.
    """
    # Content that begins at a huge page, since the first and largest table is read at random (see `huge_page_zeros`).
    arrays = load_arrays(name, alignment=lambda n_bytes: HUGE_PAGE_BYTES if n_bytes >= HUGE_PAGE_BYTES else CACHE_LINE_BYTES)
    if arrays is None:
        return None
    *tables, slots, arena, progress, n_arena = arrays
    return EncoderTables(*tables), (slots, arena, progress), int(n_arena[0])


def store_encoder(name: str, tables: EncoderTables, slots: Array, arena: Array, progress: Array) -> None:
    """Store the tables of a model and a seeded pre-token cache, if possible."""
    written = int(progress[pretoken_cache.ARENA_WRITTEN])
    if written > arena.size:
        return  # the ring was filled more than once: no vocabulary of usual size does that
    store_arrays(name, [*tables, slots, arena[:written], progress, np.array([arena.size], np.int64)])
