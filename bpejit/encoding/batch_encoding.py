"""Encode many documents with few calls of the kernel.

A call takes about three microseconds in Python, ten times as long as encoding a line of text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, EncodedBatch, starts_of
from bpejit.encoding.encode_stream import EncodeStream, trimmed
from bpejit.encoding.kernel_runner import AnySplitter, BytesLike, KernelRunner
from bpejit.encoding.workspace import MAX_DOCUMENTS, Workspace
from bpejit.errors import OptionError
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.kernels.encoding import pretoken_cache
from bpejit.splitting import Splitter
from bpejit.splitting.automaton import SEPARATOR
from bpejit.utf8 import TextBuffer, encode_utf8

_LONG_TEXT = 1 << 9
"""Mean length of texts, in characters or bytes, up to which separators are used. Longer texts save little time."""

BUFFER_BYTES = 1 << 18
"""Length up to which texts are joined. With several threads, each call of the kernel is followed by waiting for the GIL, which
takes as long as encoding 20 KB.
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
    """Encode texts: join as many as one call of the kernel takes, and encode long ones by themselves.

    Parameters
    ----------
    runner : KernelRunner
    splitter : Splitter or TextPipeline
        A pipeline would change none of the texts.
    workspace : Workspace
    n_documents : int
        Number of texts.
    estimate : int
        Estimated length of all texts together, in characters or bytes.
    separator : int
        The id of the byte SEPARATOR, which no other text has; -1 if there is none.
    encode_alone : callable
        Returns the ids of a text with a splitter, block by block.
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
        encode_alone: Callable[[BytesLike, AnySplitter], Iterable[Array]],
        use_ids: Callable[[Array], object] | None = None,
    ) -> None:
        self._runner = runner
        self._splitter = splitter
        self._workspace = workspace
        self._encode_alone = encode_alone
        self._use_ids = use_ids
        n_ids = max(estimate // 3, min(estimate, _FULL_OUTPUT_BYTES)) if use_ids is None else min(estimate, BUFFER_BYTES)
        self._out: Array = np.empty(n_ids + 64, np.uint32)
        self._starts = np.zeros(n_documents + 1, np.int64)
        self._first = 0
        self._n_ids = 0
        self._n_used = 0
        self._separator = separator
        self._separated = None
        if separator >= 0 and isinstance(splitter, Splitter) and estimate <= _LONG_TEXT * n_documents:
            self._separated = splitter.separated
        self._joined: list[tuple[list[Any], int, int]] = []
        if workspace.text_buffer is None:
            text = np.empty(BUFFER_BYTES + TEXT_PADDING, np.uint8)
            workspace.text_buffer = TextBuffer(text, workspace.arrays.document_stops[:MAX_DOCUMENTS])
        self._buffer: TextBuffer = workspace.text_buffer
        self._buffer.clear()
        self._longest = workspace.text_bytes if splitter.automaton is not None else -1

    def append(self, texts: list[Any], first: int, stop: int) -> None:
        """Append `texts[first:stop]`: str, bytes or other bytes-like objects."""
        buffer = self._buffer
        while first < min(stop, len(texts)):
            following = buffer.append(texts, first, stop, self._longest, SEPARATOR if self._separated else b"")
            if self._separated is not None:
                self._joined.append((texts, first, following))
            if following < stop and buffer.n_texts:
                self.flush()
            elif following < min(stop, len(texts)):
                self._append_long(arguments.as_bytes(f"texts[{following}]", texts[following]))
                following += 1
            first = following

    def _append_long(self, text: str | BytesLike) -> None:
        """Append a text that does not fit into the buffer, or whose splitter has no automaton."""
        if self._use_ids is not None or len(text) <= self._workspace.text_bytes:
            self.append_alone(encode_utf8(text) if isinstance(text, str) else text, self._splitter)
            return
        self.flush()
        stream = EncodeStream(self._runner, self._splitter, self._workspace, grows=True)
        self._out = stream.append_rest(text, self._out, self._n_ids)
        self._n_ids = int(self._workspace.progress[pretoken_cache.N_OUT])
        self._end_text()

    def append_alone(self, text: BytesLike, splitter: AnySplitter) -> None:
        """Append a text that is encoded by itself, with any splitter."""
        self.flush()
        for ids in self._encode_alone(text, splitter):
            self._append(ids)
        self._end_text()

    def _end_text(self) -> None:
        self._first += 1
        self._starts[self._first] = self._n_used + self._n_ids

    def _append(self, ids: Array) -> None:
        if self._use_ids is not None:
            self._use_ids(ids)
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
        """Encode the texts in the buffer."""
        buffer, workspace = self._buffer, self._workspace
        n_texts = buffer.n_texts
        n_bytes = buffer.n_bytes
        joined = self._joined
        self._joined = []
        buffer.clear()
        if not n_texts:
            return
        if self._first:
            workspace.grow_cache()
        progress = workspace.progress
        progress[pretoken_cache.N_OUT] = self._n_ids
        separated = self._separated
        if separated is not None:
            addresses = separated.addresses
            self._out = self._runner.run_texts(workspace, addresses, buffer.text, n_bytes, self._out, separator=self._separator)
            if progress[pretoken_cache.N_SEPARATED] != n_texts:  # a text contains a separator
                self._separated = None
                for texts, first, stop in joined:
                    self.append(texts, first, stop)
                self.flush()
                self._separated = separated
                return
        else:
            addresses = self._splitter.addresses
            self._out = self._runner.run_texts(workspace, addresses, buffer.text, n_bytes, self._out, n=n_texts)
        stop = self._first + n_texts
        self._starts[self._first + 1 : stop + 1] = workspace.arrays.id_stops[:n_texts] + self._n_used
        self._first = stop
        self._n_ids = int(progress[pretoken_cache.N_OUT])
        if self._use_ids is not None:
            self._use_ids(self._runner.check_ids(self._out[: self._n_ids]))
            self._n_used += self._n_ids
            self._n_ids = 0

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
