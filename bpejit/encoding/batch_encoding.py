"""Encode many documents with few calls of the kernel.

A call takes about three microseconds in Python, ten times as long as encoding a line of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from bpejit.arrays import Array, EncodedBatch
from bpejit.encoding.encode_stream import trimmed
from bpejit.encoding.kernel_runner import AnySplitter, KernelRunner
from bpejit.encoding.utf8 import join_strings
from bpejit.encoding.workspace import MAX_DOCUMENTS, Workspace
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.kernels.encoding import pretoken_cache

LONGEST_CHARACTER = 4
"""Bytes of the longest character in UTF-8."""

_FULL_OUTPUT_BYTES = 1 << 24
"""Batches up to this length get an output array for one id per byte, as in `encode_stream`."""

_MEASURED_AT_ONCE = 1 << 10
"""Number of texts that are in the processor's cache together."""

_LEAST_PER_THREAD = 1 << 20
"""Characters or bytes for which a further thread is worth its start and the creation of its workspace."""


def encode_documents(
    runner: KernelRunner, splitter: AnySplitter, documents: Sequence[str | bytes], lengths: Array, workspace: Workspace
) -> tuple[Array, Array]:
    """Encode documents of at most `Workspace.text_bytes` characters or bytes.

    Parameters
    ----------
    runner : KernelRunner
    splitter : Splitter or TextPipeline
        Has an automaton.
    documents : sequence of str, or sequence of bytes
        Not empty. A pipeline would change none of them.
    lengths : int64 [documents]
        In characters or bytes.
    workspace : Workspace

    Returns
    -------
    ids : uint32 [tokens]
    stops : int64 [documents]
        End of the ids of each document.
    """
    n_documents = len(documents)
    bounds = np.zeros(n_documents + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    total = int(bounds[-1])
    out: Array = np.empty(max(total // 3, min(total, _FULL_OUTPUT_BYTES)) + 64, dtype=np.uint32)
    stops = np.empty(n_documents, dtype=np.int64)
    capacity = workspace.text_bytes
    text = np.empty(LONGEST_CHARACTER * min(total, capacity) + TEXT_PADDING, dtype=np.uint8)
    view = memoryview(text)  # type: ignore[arg-type]
    workspace.progress[pretoken_cache.N_OUT] = 0
    start = 0
    while start < n_documents:
        if start:
            workspace.grow_cache()
        end = int(np.searchsorted(bounds, bounds[start] + capacity, side="right")) - 1
        end = min(end, start + MAX_DOCUMENTS)
        data, ends = _joined(documents[start:end], bounds[start + 1 : end + 1] - bounds[start])
        view[: len(data)] = data
        arrays = workspace.arrays
        arrays.document_stops[: end - start] = ends
        out = runner.run_documents(workspace, splitter.addresses, text, end - start, out)
        stops[start:end] = arrays.id_stops[: end - start]
        start = end
    return runner.check_ids(trimmed(out, int(workspace.progress[pretoken_cache.N_OUT]))), stops


def encode_adjacent(
    runner: KernelRunner, splitter: AnySplitter, text: Array, stops: Array, workspace: Workspace
) -> tuple[Array, Array]:
    """Encode documents that are adjacent in a text, whatever their lengths.

    Parameters
    ----------
    runner : KernelRunner
    splitter : Splitter or TextPipeline
        Has an automaton. A pipeline would change none of the documents.
    text : uint8 [at least the last stop + 16]
    stops : int64 [documents]
        The end of each document. The first one starts at byte 0.
    workspace : Workspace

    Returns
    -------
    ids : uint32 [tokens]
        A view into the workspace, valid until its next use.
    id_stops : int64 [documents]
        End of the ids of each document.
    """
    out = workspace.chunk_out
    id_stops = np.empty(stops.size, dtype=np.int64)
    workspace.progress[pretoken_cache.N_OUT] = 0
    start = 0
    for first in range(0, stops.size, MAX_DOCUMENTS):
        workspace.grow_cache()
        some = stops[first : first + MAX_DOCUMENTS]
        arrays = workspace.arrays
        np.subtract(some, start, out=arrays.document_stops[: some.size])
        out = runner.run_documents(workspace, splitter.addresses, text[start:], some.size, out)
        id_stops[first : first + some.size] = workspace.arrays.id_stops[: some.size]
        start = int(some[-1])
    workspace.chunk_out = out
    return runner.check_ids(out[: workspace.progress[pretoken_cache.N_OUT]]), id_stops


def measure_texts(texts: Sequence[Any]) -> tuple[set[type], Array]:
    """Return the types of texts, and their lengths in characters or bytes as int64 [texts].

    Both are read in one pass, group by group: each pass over 200,000 strings costs cache misses that take 5 ms.
    """
    types: set[type] = set()
    lengths = np.empty(len(texts), dtype=np.int64)
    for start in range(0, len(texts), _MEASURED_AT_ONCE):
        group = texts[start : start + _MEASURED_AT_ONCE]
        types.update(map(type, group))
        if not types <= {str, bytes}:
            break
        lengths[start : start + len(group)] = np.fromiter(map(len, group), dtype=np.int64, count=len(group))
    return types, lengths


def divide(lengths: Array, n_threads: int) -> list[slice]:
    """Divide a batch into at most `n_threads` parts of equal length that are worth a thread each.

    Parameters
    ----------
    lengths : int64 [texts]
    n_threads : int
    """
    if n_threads == 1 or not lengths.size:
        return [slice(0, lengths.size)]
    stops = np.cumsum(lengths)
    n_parts = max(1, min(n_threads, int(stops[-1]) // _LEAST_PER_THREAD))
    cuts = np.searchsorted(stops, stops[-1] * np.arange(1, n_parts) // n_parts).tolist()
    return [slice(start, stop) for start, stop in pairwise([0, *cuts, lengths.size])]


def join_batches(batches: Sequence[EncodedBatch]) -> EncodedBatch:
    """Join the results of all parts of a batch."""
    offsets = accumulate((batch.ids.size for batch in batches), initial=0)
    starts = [batch.starts[:-1] + offset for batch, offset in zip(batches, offsets, strict=False)]
    ids = np.concatenate([batch.ids for batch in batches])
    return EncodedBatch(ids, np.concatenate([*starts, np.array([ids.size], dtype=np.int64)]))


def _joined(documents: Sequence[str | bytes], ends: Array) -> tuple[bytes, Array]:
    """Return the bytes of documents in one string, and the end of each in bytes.

    Parameters
    ----------
    documents : sequence of str, or sequence of bytes
        Not empty.
    ends : int64 [documents]
        The end of each, in characters or bytes.
    """
    if not isinstance(documents[0], str):
        return b"".join(documents), ends  # type: ignore[arg-type]
    return join_strings(documents, ends)  # type: ignore[arg-type]
