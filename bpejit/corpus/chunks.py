"""Divide sources into chunks that can be split into pre-tokens independently, with the same result as the whole.

A chunk ends at the end of its source, or at a safe cut (see `bpejit.splitting`): a position before a character `y` that is a
pre-token boundary in every context. The last pre-token before a cut ends because `y` is *read*, not because the text ends, so a
chunk includes a few bytes after its cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bpejit.arrays import Array, padded_text
from bpejit.corpus.blocks import Block
from bpejit.corpus.sources import Source
from bpejit.errors import CorpusError
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.splitting import Splitter

if TYPE_CHECKING:
    from bpejit.normalization import TextPipeline

CHUNK_BYTES = 1 << 20
"""Default size of a chunk: large compared to the cost of dispatching it, and small enough that the text is still in the
processor's cache when it is encoded, and the ids when they are written. 4 MiB took 10% more processor time.
"""

CUT_WINDOW = 1 << 13
"""Size of the window that is first searched for a cut after the target position; doubled until one is found."""


@dataclass(frozen=True)
class Chunk:
    """A range of a file, or bytes that were read from a pipe.

    Parameters
    ----------
    path : str
        The file, or `-`.
    start, cut, stop : int
        The chunk is the bytes `start:cut`; the bytes up to `stop` end its last pre-token.
    final : bool
        True if the source ends at `cut`.
    data : bytes, optional
        The bytes `start:stop`, if they cannot be read again.
    """

    path: str
    start: int
    cut: int
    stop: int
    final: bool
    data: bytes | None = None


class Chunker:
    """Divides sources into chunks for one splitter.

    Parameters
    ----------
    splitter : Splitter or TextPipeline
        Finds the safe cuts.
    chunk_bytes : int
        Target size. The sizes of chunks never change the result.
    normalize_newlines : bool
        True if readers convert CR LF and CR to LF. Then no cut is made next to a CR.

    Attributes
    ----------
    splitter : Splitter or TextPipeline
    ahead : int
        Number of bytes after a cut that a chunk contains: one character, and enough to see that no special token begins there.
    """

    def __init__(
        self, splitter: Splitter | TextPipeline, *, chunk_bytes: int = CHUNK_BYTES, normalize_newlines: bool = False
    ) -> None:
        if chunk_bytes < 1:
            raise ValueError(f"chunk_bytes is {chunk_bytes}; expected at least 1")
        self.splitter = splitter
        self._chunk_bytes = chunk_bytes
        self._normalize_newlines = normalize_newlines
        self._longest_special = max((len(token) for token in splitter.special_tokens), default=0)
        self.ahead = max(4, self._longest_special)

    def chunks(self, sources: Iterable[Source]) -> Iterator[Chunk]:
        """Yield the chunks of sources, in order. An empty source has no chunks, and no chunk spans two sources."""
        for source in sources:
            yield from self._pipe_chunks(source) if source.size is None else self._file_chunks(source, source.size)

    def _file_chunks(self, source: Source, size: int) -> Iterator[Chunk]:
        # Only windows around the target positions are read here; the workers read the rest.
        end = size if source.stop is None else source.stop
        with source.open() as file:
            start = source.start
            while start < end:
                cut = end
                target = start + self._chunk_bytes
                window = CUT_WINDOW
                while target < end:
                    before = min(self._longest_special + 4, target - start)
                    file.seek(target - before)
                    data = file.read(before + window + self.ahead)
                    found = self.find_cut(data, before, min(before + window, len(data)))
                    if found >= 0:
                        cut = min(target - before + found, end)
                        break
                    target += window
                    window *= 2
                yield Chunk(source.path, start, cut, min(cut + self.ahead, size), cut == size)
                start = cut

    def _pipe_chunks(self, source: Source) -> Iterator[Chunk]:
        data = bytearray()
        start = 0
        searched = self._chunk_bytes
        with source.open() as file:
            # One system call at a time: a signal between two calls within `read` would wait for more input.
            read = getattr(file, "read1", file.read)
            while True:
                wanted = searched + CUT_WINDOW + self.ahead
                while len(data) < wanted and (block := read(wanted - len(data))):
                    data += block
                ended = len(data) < wanted
                if ended and len(data) <= self._chunk_bytes:
                    break
                cut = self.find_cut(data, searched, len(data) - self.ahead) if len(data) - self.ahead > searched else -1
                if cut >= 0:
                    stop = cut + self.ahead
                    yield Chunk(source.path, start, start + cut, start + stop, False, bytes(data[:stop]))
                    del data[:cut]
                    start += cut
                    searched = self._chunk_bytes
                elif ended:
                    break
                else:
                    # Without a cut the chunk grows; doubling keeps the search linear.
                    searched = 2 * len(data)
        if data:
            yield Chunk(source.path, start, start + len(data), start + len(data), True, bytes(data))

    def find_cut(self, data: bytes | bytearray, low: int, high: int) -> int:
        """Return the first position in `low:high + 1` where a text may be cut, or -1 (see `Splitter.find_cut`)."""
        text, stop = padded_text(data)
        while low < high:
            cut = self.splitter.find_cut(text, low, high, stop)
            if cut < 0 or not self._normalize_newlines:
                return cut
            if text[cut - 1] != 0x0D and text[cut] != 0x0D:
                return cut
            low = cut + 1
        return -1


class ChunkReader:
    """Reads chunks into one buffer, so that new memory pages are touched only once.

    Parameters
    ----------
    normalize_newlines : bool
        Convert CR LF and CR to LF.
    """

    def __init__(self, *, normalize_newlines: bool = False) -> None:
        self._normalize_newlines = normalize_newlines
        self._text, _ = padded_text(bytes(CHUNK_BYTES + CUT_WINDOW))

    def read(self, chunk: Chunk) -> Block:
        """Return the text of a chunk, which is valid until the next call.

        Raises
        ------
        CorpusError
            If the file cannot be read, or became shorter after it was divided.
        """
        length = chunk.stop - chunk.start
        text = self._buffer(length)
        if chunk.data is not None:
            text[:length] = np.frombuffer(chunk.data, dtype=np.uint8)
        else:
            self._read_file(chunk, text[:length].data)
        cut = chunk.cut - chunk.start
        if not self._normalize_newlines:
            return Block(text, cut, length, chunk.final, n_bytes=cut, n_read=cut)
        body, ahead = (_normalize(text[a:b].tobytes()) for a, b in ((0, cut), (cut, length)))
        text[: len(body) + len(ahead)] = np.frombuffer(body + ahead, dtype=np.uint8)
        return Block(text, len(body), len(body) + len(ahead), chunk.final, n_bytes=cut, n_read=cut)

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
                    f"cannot read the input `{chunk.path}`: {error.strerror or error}; expected a readable "
                    "file: check the disk, and run again"
                ) from error
        if done < len(target):
            raise CorpusError(
                f"the input `{chunk.path}` became shorter while it was read: it ends at byte {chunk.start + done}; "
                f"expected at least {chunk.stop} bytes: run again when the file is complete"
            )


def _normalize(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
