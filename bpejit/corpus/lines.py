"""Chunks of inputs that are divided at the ends of lines: JSON lines, and plain text with a document in each line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.base import documents_block
from bpejit.corpus.blocks import NOTHING_SKIPPED, Block, Skipped
from bpejit.corpus.chunk_reader import ChunkReader
from bpejit.corpus.input_options import InputOptions
from bpejit.corpus.input_streams import InputStream
from bpejit.corpus.sources import Source

if TYPE_CHECKING:
    from bpejit.corpus.kept_columns import KeptColumns

_READ_ON = 1 << 16
"""Bytes that are read at a time to find the end of the last line of a range."""

_MOST_READ = 1 << 26
"""Bytes of a stream that are read at a time, at most."""

Parse = Callable[[bytes, InputOptions, str, Callable[[int], int]], "tuple[bytes, Array, Skipped, KeptColumns | None]"]
"""Function that turns lines into documents: `parse(data, options, path, line_number)` returns their texts, their ends, the
records that were skipped, and the columns to keep; `line_number(offset)` is the number of the line at a position in `data`.
"""


class LinesChunk(NamedTuple):
    """The lines that start in a range of a file, or lines in memory.

    Parameters
    ----------
    parse : callable
        See `Parse`.
    options : InputOptions
    specials : bool
        Whether special tokens are found in the documents.
    path : str
    start, stop : int
        The range of the file. It includes a line that starts before `stop` and ends later, and not the end of a line that
        starts before `start`.
    at_line : bool
        Whether `start` is known to be the start of a line.
    data : bytes, optional
        The lines, if they cannot be read again.
    first_line : int
        Number of the first line of `data`.
    n_read : int
        Bytes of the input.
    """

    parse: Parse
    options: InputOptions
    specials: bool
    path: str
    start: int
    stop: int
    at_line: bool = False
    data: bytes | None = None
    first_line: int = 1
    n_read: int = 0

    @property
    def limit(self) -> int | None:
        """The most bytes of a line; None for plain text."""
        return _limit(self.parse, self.options)

    def read(self, reader: ChunkReader) -> Block:
        """Return the documents in the buffer of a reader."""
        lines, offset = self._read_lines(reader) if self.data is None else (self.data, 0)

        def line_number(position: int) -> int:
            if self.data is not None:
                return self.first_line + lines.count(b"\n", 0, position)
            return reader.line_number(self.path, offset + position)

        texts, ends, skipped, columns = self.parse(lines, self.options, self.path, line_number)
        lines = b""  # freed before the texts are copied
        return documents_block(
            reader, texts, ends, specials=self.specials, n_read=self.n_read, skipped=skipped, columns=columns
        )

    def _read_lines(self, reader: ChunkReader) -> tuple[bytes, int]:
        """Return the lines of the range, and the position of the first one in the file."""
        before = 0 if self.at_line else 1
        begin = self.start - before
        with reader.open(self.path) as file:
            file.seek(begin)
            data = reader.read_bytes(file, self.path, self.stop - begin)
            skip = 0
            if before:
                skip = data.find(b"\n") + 1
                if not skip:
                    return b"", self.stop
            if data and not data.endswith(b"\n"):
                parts = [data]
                length = len(data) - (data.rfind(b"\n") + 1)
                while more := reader.read_bytes(file, self.path, _READ_ON, partly=True):
                    end = more.find(b"\n") + 1
                    length += end or len(more)
                    # Of a line that is too large, no more is kept than shows it.
                    if self.limit is None or length <= self.limit + _READ_ON:
                        parts.append(more[:end] if end else more)
                    elif not self.options.skip_large_records:
                        break
                    if end:
                        break
                data = b"".join(parts)
        return data[skip:] if skip else data, begin + skip


def file_lines(source: Source, chunk_bytes: int, parse: Parse, specials: bool) -> Iterator[LinesChunk]:
    """Yield the chunks of a file; no byte of it is read here."""
    stop = (source.size or 0) if source.stop is None else source.stop
    start = source.start
    at_line = True
    while start < stop:
        end = min(start + chunk_bytes, stop)
        if stop - end < chunk_bytes // 2:
            end = stop
        yield LinesChunk(parse, source.options, specials, source.path, start, end, at_line, n_read=end - start)
        start = end
        at_line = False


def stream_lines(
    stream: InputStream, chunk_bytes: int, parse: Parse, options: InputOptions, specials: bool
) -> Iterator[LinesChunk]:
    """Yield the chunks of an input that is read from its start to its end."""
    limit = _limit(parse, options)
    rest = b""
    line = 1
    n_raw = 0
    too_large = False  # whether the rest of a line is left out
    while True:
        data = stream.read_fully(max(chunk_bytes, min(len(rest), _MOST_READ)))
        ended = not data
        if too_large:
            end = data.find(b"\n")
            if end < 0 and not ended:
                continue
            data, too_large = data[max(end, 0) :], False
        data = rest + data
        cut = len(data) if ended else data.rfind(b"\n") + 1
        if limit is not None and len(data) - cut > limit:
            too_large = True
            data = data[: cut + limit + 1]
            if not options.skip_large_records:
                cut, ended = len(data), True  # reading it ends in an error
        rest = data[cut:]
        if cut:
            data = data[:cut]
            yield LinesChunk(
                *(parse, options, specials, stream.path, 0, 0),
                data=data,
                first_line=line,
                n_read=stream.n_raw - n_raw,
            )
            n_raw = stream.n_raw
            line += data.count(b"\n")
        if ended:
            return


def _limit(parse: Parse, options: InputOptions) -> int | None:
    return None if parse is parse_plain_lines else options.max_record


def parse_plain_lines(
    data: bytes, options: InputOptions, _path: str, _line_number: Callable[[int], int]
) -> tuple[bytes, Array, Skipped, None]:
    """Return the texts of lines as documents (see `Parse`), without their ends, LF or CR LF, unless the options keep these."""
    if options.documents == "line-with-end":
        ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 0x0A) + 1
        if data and not data.endswith(b"\n"):
            ends = np.append(ends, len(data))
        return data, ends, NOTHING_SKIPPED, None
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    found = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 0x0A)
    ends = found - np.arange(found.size)
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data) - found.size)
    return data.replace(b"\n", b""), ends, NOTHING_SKIPPED, None
