"""Chunks: pieces of a source that are split into pre-tokens on their own, with the same result as the whole.

A chunk ends at the end of its source, or at a safe cut (see `bpejit.splitting`): a place before a character `y` where the
pre-token boundary is certain whatever comes before and after. The part before a cut is finished by *reading* `y`, not by
the end of the text, so a chunk carries a few bytes past its cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bpejit.arrays import Array, padded_text
from bpejit.corpus.sources import Source
from bpejit.errors import CorpusError
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.normalization import Preparer
from bpejit.splitting import Splitter

CHUNK_BYTES = 1 << 20
"""Usual size of a chunk: large against the cost of handing it out, and small enough that it is still in the processor's cache
when what was read is encoded, and what was encoded is written: with 4 MiB that took 10% more of both processors.
"""

CUT_WINDOW = 1 << 13
"""How far past the wished place a cut is first looked for; doubled until one is found."""


@dataclass(frozen=True)
class Chunk:
    """A piece of a source: a range of a file, or bytes that were read from a pipe.

    Parameters
    ----------
    path : str
        The file, or `-`.
    start, cut, stop : int
        The chunk is the bytes `start:cut`; those up to `stop` are there to finish its last pre-token.
    final : bool
        Whether the source ends at `cut`.
    data : bytes, optional
        The bytes `start:stop`, where they cannot be read again.
    """

    path: str
    start: int
    cut: int
    stop: int
    final: bool
    data: bytes | None = None


@dataclass(frozen=True)
class ChunkText:
    """A chunk in memory: the text in a padded buffer, its cut, and its end (see `Chunk`)."""

    text: Array
    cut: int
    stop: int
    final: bool


class Chunker:
    """Cuts sources into chunks for one splitter.

    Parameters
    ----------
    splitter : Splitter or Preparer
        Decides where a cut is safe.
    chunk_bytes : int
        The size to aim at. The chunks' sizes never change a result.
    normalize_newlines : bool
        Whether readers will turn CR LF and CR into LF: then no cut is made next to a CR.
    """

    def __init__(
        self, splitter: Splitter | Preparer, *, chunk_bytes: int = CHUNK_BYTES, normalize_newlines: bool = False
    ) -> None:
        if chunk_bytes < 1:
            raise ValueError(f"chunk_bytes is {chunk_bytes}, expected at least 1")
        self._splitter = splitter
        self._chunk_bytes = chunk_bytes
        self._normalize_newlines = normalize_newlines
        self._longest_special = max((len(token) for token in splitter.special_tokens), default=0)
        # After the cut: one whole character, and enough to see that no special token begins there.
        self._ahead = max(4, self._longest_special)

    def chunks(self, sources: Iterable[Source]) -> Iterator[Chunk]:
        """Divide sources, one after the other; an empty one has no chunks, and no chunk goes over a border of two."""
        for source in sources:
            yield from self._pipe_chunks(source) if source.size is None else self._file_chunks(source, source.size)

    def _file_chunks(self, source: Source, size: int) -> Iterator[Chunk]:
        # Only windows around the wished cuts are read here; the workers read the rest.
        with source.open() as file:
            start = source.start
            while start < size:
                cut = size
                wished = start + self._chunk_bytes
                window = CUT_WINDOW
                while wished < size:
                    before = min(self._longest_special + 4, wished - start)
                    file.seek(wished - before)
                    data = file.read(before + window + self._ahead)
                    found = self._find_cut(data, before, min(before + window, len(data)))
                    if found >= 0:
                        cut = wished - before + found
                        break
                    wished += window
                    window *= 2
                yield Chunk(source.path, start, cut, min(cut + self._ahead, size), cut == size)
                start = cut

    def _pipe_chunks(self, source: Source) -> Iterator[Chunk]:
        data = bytearray()
        start = 0
        searched = self._chunk_bytes
        with source.open() as file:
            # One system call at a time: a signal that comes between two of them within `read` would wait for more input.
            read = getattr(file, "read1", file.read)
            while True:
                wanted = searched + CUT_WINDOW + self._ahead
                while len(data) < wanted and (block := read(wanted - len(data))):
                    data += block
                ended = len(data) < wanted
                if ended and len(data) <= self._chunk_bytes:
                    break
                cut = self._find_cut(data, searched, len(data) - self._ahead) if len(data) - self._ahead > searched else -1
                if cut >= 0:
                    stop = cut + self._ahead
                    yield Chunk(source.path, start, start + cut, start + stop, False, bytes(data[:stop]))
                    del data[:cut]
                    start += cut
                    searched = self._chunk_bytes
                elif ended:
                    break
                else:
                    # Without a place to cut the chunk grows; doubling keeps the search linear.
                    searched = 2 * len(data)
        if data:
            yield Chunk(source.path, start, start + len(data), start + len(data), True, bytes(data))

    def _find_cut(self, data: bytes | bytearray, low: int, high: int) -> int:
        text, stop = padded_text(data)
        while low < high:
            cut = self._splitter.find_cut(text, low, high, stop)
            if cut < 0 or not self._normalize_newlines:
                return cut
            if text[cut - 1] != 0x0D and text[cut] != 0x0D:
                return cut
            low = cut + 1
        return -1


class ChunkReader:
    """Reads chunks into a buffer that is used again for each: the memory is touched for the first time only once.

    Parameters
    ----------
    normalize_newlines : bool
        Turn CR LF and CR into LF.
    """

    def __init__(self, *, normalize_newlines: bool = False) -> None:
        self._normalize_newlines = normalize_newlines
        self._text, _ = padded_text(bytes(CHUNK_BYTES + CUT_WINDOW))

    def read(self, chunk: Chunk) -> ChunkText:
        """Return the chunk's text; it is valid until the next call.

        Raises
        ------
        CorpusError
            If the file cannot be read, or is shorter than when the chunks were made.
        """
        length = chunk.stop - chunk.start
        text = self._buffer(length)
        if chunk.data is not None:
            text[:length] = np.frombuffer(chunk.data, dtype=np.uint8)
        else:
            self._read_file(chunk, text[:length].data)
        cut = chunk.cut - chunk.start
        if not self._normalize_newlines:
            return ChunkText(text, cut, length, chunk.final)
        body, ahead = (_normalize(text[a:b].tobytes()) for a, b in ((0, cut), (cut, length)))
        text[: len(body) + len(ahead)] = np.frombuffer(body + ahead, dtype=np.uint8)
        return ChunkText(text, len(body), len(body) + len(ahead), chunk.final)

    def _buffer(self, length: int) -> Array:
        if self._text.size < length + TEXT_PADDING:
            self._text, _ = padded_text(bytes(length + length // 4))
        return self._text

    def _read_file(self, chunk: Chunk, target: memoryview) -> None:
        done = 0
        with Source(chunk.path, None).open() as file:
            try:
                file.seek(chunk.start)
                while done < len(target) and (count := file.readinto(target[done:])):  # type: ignore[attr-defined]
                    done += count
            except OSError as error:
                raise CorpusError(
                    f"cannot read the input `{chunk.path}`: {error.strerror or error}; check the disk, and start again"
                ) from error
        if done < len(target):
            raise CorpusError(
                f"the input `{chunk.path}` ended at byte {chunk.start + done}, expected at least {chunk.stop} bytes: "
                "it became shorter while it was read; start again when it is complete"
            )


def _normalize(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
