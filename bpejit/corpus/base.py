"""The interface of input formats, formats that consist of lines, and the chunks of documents that formats produce."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np

from bpejit.arrays import Array, lengths_of
from bpejit.corpus.blocks import NOTHING_SKIPPED, AnyChunk, Block, ChunkReader, Skipped
from bpejit.corpus.input_streams import InputStream, open_input, read_bytes
from bpejit.corpus.kept_columns import no_columns
from bpejit.corpus.reading_options import InputOptions
from bpejit.corpus.sources import Source, not_in_order

_READ_ON = 1 << 16
"""Bytes that are read at a time to find the end of the last line of a range."""

_MOST_READ = 1 << 26
"""Bytes of a stream that are read at a time, at most."""


class InputFormat:
    """A kind of input that consists of records, each of which has the text of a document.

    Attributes
    ----------
    suffixes : tuple of str
        Ends of the names of such files, before that of a compressed file.
    likely_suffixes : tuple of str
        Ends of names for which the content decides.
    starts : tuple of bytes, optional
        The beginnings, after white space, of contents for which `recognizes`, `refuses` or `resembles` may return something,
        which saves calls for 10,000 files of text; None for any.
    indexed : bytes
        The first bytes of files with an index at their end, which are not read from their start to their end: they are not
        compressed as a whole, and remote ones are read by `chunks`, at any position, whatever their storage is.
    is_text : bool
        Whether such files are text, which may be divided at any line. Files that look binary are then refused, a sample takes
        ranges of them, and remote ones are read at any position if their storage allows it.
    resemblance : str
        What is said of plain text that `resembles` such records.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    likely_suffixes: ClassVar[tuple[str, ...]] = ()
    starts: ClassVar[tuple[bytes, ...] | None] = None
    indexed: ClassVar[bytes] = b""
    is_text: ClassVar[bool] = False
    resemblance: ClassVar[str] = ""

    def recognizes(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        """Return True if an input has this format, although its name does not end like one.

        Parameters
        ----------
        name : str
            In lower case; `-` is standard input.
        head : bytes
            The first bytes.
        """
        return False

    def refuses(self, name: str, head: bytes, *, chosen: bool) -> tuple[str, str] | None:  # noqa: ARG002
        """Return what an input of text contains instead of such records, and how to convert it; None if it is not refused.

        Parameters
        ----------
        name, head
            As for `recognizes`.
        chosen : bool
            Whether the input is to be read in this format, and not as plain text.
        """
        return None

    def resembles(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        """Return True if an input that is read as plain text begins like such records, which deserves a warning."""
        return False

    def chunks(self, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield the chunks of a file that can be read at any position.

        Parameters
        ----------
        source : Source
        chunk_bytes : int
            Target size of a chunk, in bytes of text.
        """
        raise NotImplementedError

    def stream_chunks(
        self,
        stream: InputStream,  # noqa: ARG002
        source: Source,
        chunk_bytes: int,  # noqa: ARG002
    ) -> Iterator[AnyChunk]:
        """Yield the chunks of an input that is read from its start to its end: a pipe, or a compressed file."""
        raise not_in_order(source.path)

    def text_size(self, source: Source) -> int:
        """Return an estimate of the size of the texts of a file in bytes."""
        return source.length or 0

    def column_schema(self, source: Source) -> Any:
        """Return the schema of the columns to keep (`Source.options.keep_columns`), as a pyarrow.Schema.

        Raises
        ------
        CorpusError
            If a file has no such column, or the format has none.
        """
        raise no_columns(source.path)

    def first_records(self, source: Source) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """Yield the records at the start of a file, if these tell whether it has the columns to keep."""
        return iter(())

    def is_empty(self, source: Source) -> bool:
        """Return True if an input is known to have no records, so that it does not matter to the types of columns."""
        return source.size == 0

    def ranges(self, source: Source, unit_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Divide a file into ranges of records.

        Parameters
        ----------
        source : Source
        unit_bytes : int
            Target size of a range, in bytes of the file.

        Yields
        ------
        start, stop, size
            Values for the fields `start` and `stop` of a Source, and the number of bytes of the file.
        """
        raise NotImplementedError


class LineFormat(InputFormat):
    """A kind of text in which each line is a record."""

    is_text = True

    def parse(
        self, data: bytes, options: InputOptions, path: str, line_number: Callable[[int], int]
    ) -> tuple[bytes, Array, Skipped, bytes | None]:
        """Turn lines into documents.

        Parameters
        ----------
        data : bytes
            The lines.
        options : InputOptions
        path : str
            The input, for messages.
        line_number : callable
            Returns the number of the line at a position in `data`.

        Returns
        -------
        texts : bytes
        ends : int64 [documents]
        skipped : Skipped
        columns : bytes, optional
        """
        raise NotImplementedError

    def limit(self, options: InputOptions) -> int | None:
        """Return the most bytes of a line."""
        return options.max_record

    def has_specials(self, options: InputOptions) -> bool:
        """Return whether special tokens are found in the documents."""
        return options.allow_special

    def chunks(self, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield ranges of a file, no byte of which is read here."""
        stop = (source.size or 0) if source.stop is None else source.stop
        start = source.start
        at_line = True
        while start < stop:
            end = min(start + chunk_bytes, stop)
            if stop - end < chunk_bytes // 2:
                end = stop
            yield LinesChunk(self, source.options, source.path, start, end, at_line, n_read=end - start)
            start = end
            at_line = False

    def stream_chunks(self, stream: InputStream, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield lines in memory."""
        options = source.options
        limit = self.limit(options)
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
                yield LinesChunk(self, options, stream.path, 0, 0, data=data, first_line=line, n_read=stream.n_raw - n_raw)
                n_raw = stream.n_raw
                line += data.count(b"\n")
            if ended:
                return

    def ranges(self, source: Source, unit_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Divide a file at the ends of lines."""
        size = source.size or 0
        start = source.start
        with source.open() as file:
            while start < size:
                stop = find_line(file, min(start + unit_bytes, size), size)
                yield start, stop, stop - start
                start = stop


def find_line(file: BinaryIO, position: int, size: int) -> int:
    """Return the first position from `position` on where a line of a file starts, or its size."""
    file.seek(position - 1)
    while position < size and (data := file.read(1 << 14)):
        end = data.find(b"\n")
        if end >= 0:
            return position + end
        position += len(data)
    return size


class PlainText(LineFormat):
    """Plain text with a document in each line. Text whose documents are longer is divided by `bpejit.corpus.chunks`."""

    def parse(
        self,
        data: bytes,
        options: InputOptions,
        path: str,  # noqa: ARG002
        line_number: Callable[[int], int],  # noqa: ARG002
    ) -> tuple[bytes, Array, Skipped, None]:
        """Return the lines without their ends, LF or CR LF, unless the options keep these."""
        if options.documents == "line-with-end":
            ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0x0A) + 1
            if data and not data.endswith(b"\n"):
                ends = np.append(ends, len(data))
            return data, ends, NOTHING_SKIPPED, None
        if b"\r\n" in data:
            data = data.replace(b"\r\n", b"\n")
        found = np.flatnonzero(np.frombuffer(data, np.uint8) == 0x0A)
        ends = found - np.arange(found.size)
        if data and not data.endswith(b"\n"):
            ends = np.append(ends, len(data) - found.size)
        return data.replace(b"\n", b""), ends, NOTHING_SKIPPED, None

    def limit(self, options: InputOptions) -> None:  # noqa: ARG002
        """Return None: plain text has no limit."""
        return

    def has_specials(self, options: InputOptions) -> bool:
        """Return True unless lines keep their ends and special tokens are not asked for."""
        return options.documents == "line" or options.allow_special


class LinesChunk(NamedTuple):
    """The lines that start in a range of a file, or lines in memory.

    Parameters
    ----------
    form : LineFormat
    options : InputOptions
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

    form: LineFormat
    options: InputOptions
    path: str
    start: int
    stop: int
    at_line: bool = False
    data: bytes | None = None
    first_line: int = 1
    n_read: int = 0

    def read(self, reader: ChunkReader) -> Block:
        """Return the documents in the buffer of a reader."""
        lines, offset = self._read_lines() if self.data is None else (self.data, 0)

        def line_number(position: int) -> int:
            if self.data is not None:
                return self.first_line + lines.count(b"\n", 0, position)
            return reader.line_number(self.path, offset + position)

        texts, ends, skipped, columns = self.form.parse(lines, self.options, self.path, line_number)
        lines = b""  # freed before the texts are copied
        specials = self.form.has_specials(self.options)
        return DocumentsChunk(texts, ends, specials, self.n_read, skipped, columns).read(reader)

    def _read_lines(self) -> tuple[bytes, int]:
        """Return the lines of the range, and the position of the first one in the file."""
        before = 0 if self.at_line else 1
        begin = self.start - before
        limit = self.form.limit(self.options)
        with open_input(self.path) as file:
            file.seek(begin)
            data = read_bytes(file, self.path, self.stop - begin)
            skip = 0
            if before:
                skip = data.find(b"\n") + 1
                if not skip:
                    return b"", self.stop
            if data and not data.endswith(b"\n"):
                parts = [data]
                length = len(data) - (data.rfind(b"\n") + 1)
                while more := read_bytes(file, self.path, _READ_ON, partly=True):
                    end = more.find(b"\n") + 1
                    length += end or len(more)
                    # Of a line that is too large, no more is kept than shows it.
                    if limit is None or length <= limit + _READ_ON:
                        parts.append(more[:end] if end else more)
                    elif not self.options.skip_large_records:
                        break
                    if end:
                        break
                data = b"".join(parts)
        return data[skip:] if skip else data, begin + skip


class DocumentsChunk(NamedTuple):
    """Documents in memory.

    Parameters
    ----------
    data : bytes, or uint8 [n]
        The texts of the documents, adjacent.
    ends : int64 [documents]
    specials : bool
        Whether special tokens are found in them.
    n_read : int
        Bytes of the input.
    skipped : Skipped
    columns : bytes, optional
        A row for each document.
    separated : bool
        Whether the separator also ends documents.
    """

    data: bytes | Array
    ends: Array
    specials: bool = False
    n_read: int = 0
    skipped: Skipped = NOTHING_SKIPPED
    columns: bytes | None = None
    separated: bool = False

    def read(self, reader: ChunkReader) -> Block:
        """Return the documents in the buffer of a reader."""
        data, ends, specials, n_read, skipped, columns, separated = self
        if reader.normalize_newlines:
            data, ends = normalize_documents(bytes(data), ends)
        size = len(data)
        text = reader.buffer(size)
        text[:size] = np.frombuffer(data, np.uint8)
        return Block(text, size, size, True, ends, specials, separated, len(self.data), n_read, skipped, columns)


def normalize_newlines(data: bytes) -> bytes:
    """Convert CR LF and CR to LF."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def normalize_documents(data: bytes, ends: Array) -> tuple[bytes, Array]:
    """Convert CR LF and CR to LF in each document; return the texts and their new ends."""
    if b"\r" not in data:
        return data, ends
    bounds = [0, *ends.tolist()]
    return join_documents([normalize_newlines(data[start:stop]) for start, stop in pairwise(bounds)])


def join_documents(texts: list[bytes]) -> tuple[bytes, Array]:
    """Return texts in one string, and the end of each as int64 [documents]."""
    return b"".join(texts), np.cumsum(lengths_of(texts))


def divide_documents(data: Array, ends: Array, chunk_bytes: int) -> Iterator[tuple[Array, Array]]:
    """Yield groups of adjacent documents of about `chunk_bytes`, as views: their texts and their ends.

    Parameters
    ----------
    data : uint8 [n]
    ends : int64 [documents]
        The last one is n.
    chunk_bytes : int
    """
    first = start = 0
    while first < ends.size:
        last = max(int(np.searchsorted(ends, start + chunk_bytes, side="right")), first + 1)
        stop = int(ends[last - 1])
        yield data[start:stop], ends[first:last] - start
        first, start = last, stop


def share(size: int | None, done: float, total: float) -> int:
    """Return the part `done / total` of the size of an input, rounded down; 0 if the size is unknown."""
    if not size or not total:
        return size or 0
    return int(size * min(done / total, 1.0))
