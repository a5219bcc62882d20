"""Encode many documents with few calls of the kernel.

A call takes about three microseconds in Python, ten times as long as encoding a line of text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, EncodedBatch, lengths_of, starts_of
from bpejit.encoding.encode_stream import trimmed
from bpejit.encoding.kernel_runner import AnySplitter, KernelRunner
from bpejit.encoding.workspace import MAX_DOCUMENTS, Workspace
from bpejit.errors import OptionError
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.kernels.encoding import pretoken_cache
from bpejit.splitting import Splitter
from bpejit.splitting.automaton import SEPARATOR
from bpejit.utf8 import encode_joined, encode_utf8

GROUP = 1 << 8
"""Number of texts that are joined together: their strings are then read from memory only once. UTF-8 takes longer for a group
with a character that is not ASCII, so groups are small.
"""

_LONG_TEXT = 1 << 9
"""Mean length of texts, in characters or bytes, up to which separators are used. Longer texts save little time."""

_SEPARATOR = SEPARATOR.decode()

BUFFER_BYTES = 1 << 18
"""Length of joined documents above which they are encoded. With several threads, each call of the kernel is followed by waiting
for the GIL, which takes as long as encoding 20 KB.
"""

_FULL_OUTPUT_BYTES = 1 << 24
"""Batches up to this length get an output array for one id per byte, as in `encode_stream`."""

_SAMPLE = 1 << 10
"""Number of texts whose lengths are read to estimate the length of a batch. Reading those of 200,000 takes 7 ms."""

_LEAST_PER_THREAD = 1 << 20
"""Characters or bytes for which a further thread is worth its start and the creation of its workspace."""

_MANY = 1 << 14
"""Number of texts from which on long ones are only searched for if the mean length is above that of a paragraph."""

_PARTS_PER_THREAD = 4
"""A thread that has finished a part takes the next one, so the parts may differ in length."""


class DocumentBuffer:
    """Encode documents of at most `Workspace.text_bytes` characters or bytes: join as many as one call of the kernel takes.

    Parameters
    ----------
    runner : KernelRunner
    splitter : Splitter or TextPipeline
        Has an automaton, if any documents are appended. A pipeline would change none of them.
    workspace : Workspace
    n_documents : int
        Number of documents, those that are encoded by themselves included.
    estimate : int
        Estimated length of all documents together, in characters or bytes.
    separator : int
        The id of the byte SEPARATOR, which no other text has; -1 if there is none.
    use_ids : callable, optional
        Gets the ids of each call of the kernel, which are then overwritten; `finish_starts` is then the result.
    """

    def __init__(
        self,
        runner: KernelRunner,
        splitter: AnySplitter,
        workspace: Workspace,
        n_documents: int,
        estimate: int,
        separator: int,
        use_ids: Callable[[Array], object] | None = None,
    ) -> None:
        self._runner = runner
        self._splitter = splitter
        self._workspace = workspace
        self.use_ids = use_ids
        n_ids = max(estimate // 3, min(estimate, _FULL_OUTPUT_BYTES)) if use_ids is None else min(estimate, BUFFER_BYTES)
        self._out: Array = np.empty(n_ids + 64, np.uint32)
        self._starts = np.zeros(n_documents + 1, np.int64)
        self._text = workspace.text
        self._lengths: list[Array] = []
        self._first = 0
        self._n_joined = 0
        self._n_bytes = 0
        self._n_ids = 0
        self._n_used = 0
        self._separator = separator
        self._separated = None
        if separator >= 0 and isinstance(splitter, Splitter) and estimate <= _LONG_TEXT * n_documents:
            self._separated = splitter.separated
        self._with_separators: list[Sequence[Any]] = []

    def append_separated(self, documents: Sequence[Any], first: int) -> bool:
        """Append at most MAX_DOCUMENTS documents with separators between them.

        The number of the first is for the message about an object of another type. Return False if they have to be appended
        without separators: they are long, or the pattern has no separators.
        """
        if self._separated is None:
            return False
        try:
            data = _SEPARATOR.join(documents).encode()
        except (TypeError, UnicodeEncodeError):  # bytes, or half of a surrogate pair
            data = SEPARATOR.join(as_utf8(documents, first))
        if len(data) >= BUFFER_BYTES:
            return False
        if self._lengths or self._n_bytes + len(data) >= BUFFER_BYTES or self._n_joined + len(documents) > MAX_DOCUMENTS:
            self.flush()
        self._reserve(len(data) + 1)
        stop = self._n_bytes + len(data)
        memoryview(self._text)[self._n_bytes : stop] = data  # type: ignore[arg-type]
        self._text[stop] = SEPARATOR[0]
        self._with_separators.append(documents)
        self._n_bytes = stop + 1
        self._n_joined += len(documents)
        return True

    def append(self, documents: Sequence[str] | Sequence[bytes], lengths: Array) -> None:
        """Append documents with these lengths in characters or bytes, int64 [documents]."""
        bounds = np.zeros(len(documents) + 1, np.int64)
        np.cumsum(lengths, out=bounds[1:])
        start = 0
        while start < len(documents):
            end = int(np.searchsorted(bounds, bounds[start] + max(BUFFER_BYTES, self._workspace.text_bytes), side="right")) - 1
            end = min(end, start + MAX_DOCUMENTS)
            some = documents if end - start == len(documents) else documents[start:end]
            joined = b"".join(some) if isinstance(some[0], bytes) else "".join(some)  # type: ignore[arg-type]
            self.append_joined(some, joined, lengths[start:end])
            start = end

    def append_joined(self, documents: Sequence[str] | Sequence[bytes], text: str | bytes, lengths: Array) -> None:
        """Append at most MAX_DOCUMENTS documents, of which `text` is all joined."""
        # NumPy releases the GIL for operations on more than 500 numbers, and taking it back from another thread that joins
        # strings takes longer than the operation. So there is none here for ASCII text.
        data, lengths = encode_joined(documents, text, lengths) if isinstance(text, str) else (text, lengths)  # type: ignore[arg-type]
        if self._with_separators or self._n_bytes + len(data) > BUFFER_BYTES or self._n_joined + len(documents) > MAX_DOCUMENTS:
            self.flush()
        self._reserve(len(data))
        memoryview(self._text)[self._n_bytes : self._n_bytes + len(data)] = data  # type: ignore[arg-type]
        self._lengths.append(lengths)
        self._n_bytes += len(data)
        self._n_joined += len(documents)

    def append_encoded(self, blocks: Iterable[Array]) -> None:
        """Append the ids of a document that is encoded by itself, block by block, after a call of `flush`."""
        for ids in blocks:
            self._append(ids)
        self._first += 1
        self._starts[self._first] = self._n_used + self._n_ids

    def _append(self, ids: Array) -> None:
        if self.use_ids is not None:
            self.use_ids(ids)
            self._n_used += ids.size
            return
        n_ids = self._n_ids + ids.size
        if n_ids > self._out.size:
            larger = np.empty(n_ids + self._out.size // 2, np.uint32)
            larger[: self._n_ids] = self._out[: self._n_ids]
            self._out = larger
        self._out[self._n_ids : n_ids] = ids
        self._n_ids = n_ids

    def flush(self) -> None:
        """Encode the documents in the buffer."""
        if not self._n_joined:
            return
        workspace = self._workspace
        if self._first:
            workspace.grow_cache()
        progress = workspace.progress
        progress[pretoken_cache.N_OUT] = self._n_ids
        if self._with_separators:
            groups, self._with_separators = self._with_separators, []
            assert self._separated is not None
            self._out = self._runner.run_separated(
                workspace, self._separated.addresses, self._text, self._n_bytes, self._separator, self._out
            )
            if progress[pretoken_cache.N_SEPARATED] != self._n_joined:
                self._append_again(groups)
                return
        else:
            np.cumsum(np.concatenate(self._lengths), out=workspace.arrays.document_stops[: self._n_joined])
            self._out = self._runner.run_documents(workspace, self._splitter.addresses, self._text, self._n_joined, self._out)
        stop = self._first + self._n_joined
        self._starts[self._first + 1 : stop + 1] = workspace.arrays.id_stops[: self._n_joined] + self._n_used
        self._first = stop
        self._n_ids = int(workspace.progress[pretoken_cache.N_OUT])
        if self.use_ids is not None:
            self.use_ids(self._runner.check_ids(self._out[: self._n_ids]))
            self._n_used += self._n_ids
            self._n_ids = 0
        self._lengths.clear()
        self._n_joined = self._n_bytes = 0

    def _append_again(self, groups: Sequence[Sequence[Any]]) -> None:
        """Append documents without separators, since some of them contain one."""
        self._n_joined = self._n_bytes = 0
        for documents in groups:
            texts = as_utf8(documents, 0)
            self.append(texts, lengths_of(texts))
        self.flush()

    def finish(self) -> EncodedBatch:
        """Return the ids of all documents. Raise OptionError if there were fewer than announced."""
        starts = self.finish_starts()
        return EncodedBatch(self._runner.check_ids(trimmed(self._out, self._n_ids)), starts)

    def finish_starts(self) -> Array:
        """Return the starts of the ids of the documents, and the number of ids, as int64 [documents + 1], as `finish` does."""
        self.flush()
        if self._first + 1 != self._starts.size:
            raise OptionError(
                f"texts has fewer texts than at the start of the call: {self._first} instead of {self._starts.size - 1} were "
                "encoded; expected a list that does not change: pass a copy of it"
            )
        return self._starts

    def _reserve(self, n_bytes: int) -> None:
        """Make room for `n_bytes` more bytes."""
        needed = self._n_bytes + n_bytes + TEXT_PADDING
        if needed > self._text.size:
            larger = np.empty(max(needed, BUFFER_BYTES + TEXT_PADDING), np.uint8)
            larger[: self._n_bytes] = self._text[: self._n_bytes]
            self._text = larger


def as_texts(texts: Sequence[Any], first: int) -> Sequence[Any]:
    """Return texts, or other bytes-like objects, as `str` and `bytes`; a message about another type counts from `first`."""
    if set(map(type, texts)) <= {str, bytes}:
        return texts
    return [arguments.as_bytes(f"texts[{index}]", text) for index, text in enumerate(texts, first)]


def as_utf8(texts: Sequence[Any], first: int) -> list[bytes]:
    """Return texts as a list of `bytes`; the parameters are those of `as_texts`."""
    return [encode_utf8(text) if isinstance(text, str) else text for text in as_texts(texts, first)]


def estimate_length(texts: Sequence[Any], part: range) -> int:
    """Return the approximate length of some texts together, in characters or bytes."""
    sample = texts[part.start : part.stop : max(1, len(part) // _SAMPLE)]
    lengths = sum(len(text) for text in sample if isinstance(text, (str, bytes)))
    return lengths * len(part) // max(1, len(sample))


def threads_for(length: int, n_threads: int) -> int:
    """Return how many of `n_threads` threads texts of a length are worth."""
    return max(1, min(n_threads, length // _LEAST_PER_THREAD))


def long_texts(texts: Sequence[Any], n_threads: int) -> list[int]:
    """Return the texts that are long enough to be encoded by several threads each; none for one thread.

    They are not searched for among many short texts, since visiting each of these takes as long as encoding some of it.
    """
    if n_threads == 1 or (len(texts) > _MANY and estimate_length(texts, range(len(texts))) < _LONG_TEXT * len(texts)):
        return []
    return [
        index for index, text in enumerate(texts) if isinstance(text, (str, bytes)) and threads_for(len(text), n_threads) > 1
    ]


def divide(texts: Sequence[Any], n_threads: int, long: Sequence[int]) -> tuple[list[range], int]:
    """Divide a batch without its long texts into ranges, several for each thread; return the number of threads as well."""
    every = range(len(texts))
    n_threads = threads_for(estimate_length(texts, every), n_threads) if n_threads > 1 else 1
    size = max(1, len(texts) if n_threads == 1 else -(-len(texts) // (_PARTS_PER_THREAD * n_threads)))
    stretches = [range(first + 1, stop) for first, stop in pairwise([-1, *long, len(texts)])]
    parts = [some[start - some.start :][:size] for some in stretches for start in some[::size]]
    return parts if parts or long else [every], n_threads


def join_batches(batches: Sequence[EncodedBatch]) -> EncodedBatch:
    """Join the results of all parts of a batch."""
    lengths = np.concatenate([np.diff(batch.starts) for batch in batches])
    return EncodedBatch(np.concatenate([batch.ids for batch in batches]), starts_of(lengths))
