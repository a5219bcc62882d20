"""Divide sources into chunks that can be split into pre-tokens independently, with the same result as the whole.

A chunk ends at the end of its source, or at a safe cut (see `bpejit.splitting`): a position before a character `y` that is a
pre-token boundary in every context. The last pre-token before a cut ends because `y` is *read*, not because the text ends, so a
chunk includes a few bytes after its cut.

Texts that Python code provides (iterators of `str` or `bytes`, or of batches of them) are chunks in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from bpejit import arguments
from bpejit.arrays import padded_text
from bpejit.corpus.base import DocumentsChunk, join_documents, normalize_newlines
from bpejit.corpus.blocks import CUT_WINDOW, AnyChunk, Block, ChunkReader
from bpejit.corpus.columns import batch_chunks, is_text
from bpejit.corpus.input_streams import InputStream, read_range
from bpejit.corpus.kept_columns import no_columns
from bpejit.corpus.reading_options import CHUNK_BYTES, InputOptions
from bpejit.corpus.registry import TEXT, load_format
from bpejit.corpus.sources import TEXTS, Source
from bpejit.extras import import_extra
from bpejit.splitting import Splitter
from bpejit.storage.files import is_remote
from bpejit.utf8 import gather_texts

if TYPE_CHECKING:
    from bpejit.normalization.pipeline import TextPipeline


class FilesChunk(NamedTuple):
    """Text files, each of which is read from a position to its end.

    Parameters
    ----------
    files : tuple of (str, int, int, bytes or None)
        The path, the positions of the first byte and the end, and the content of a file that was kept in memory.
    separated : bool
        Whether the separator also ends documents.
    """

    files: tuple[tuple[str, int, int, bytes | None], ...]
    separated: bool

    def read(self, reader: ChunkReader) -> Block:
        """Return the files in the buffer of a reader, as documents."""
        texts = []
        for path, start, stop, data in self.files:
            texts.append(read_range(path, start, stop - start) if data is None else data[start:stop])
        joined, ends = join_documents(texts)
        return DocumentsChunk(joined, ends, True, len(joined), separated=self.separated).read(reader)


__all__ = ["CHUNK_BYTES", "CUT_WINDOW", "Chunk", "ChunkReader", "Chunker"]

SMALL_FILE = 1 << 18
"""Files up to this size are read in groups."""

REMOTE_FACTOR = 8
"""How much larger the chunks of remote files are: each takes two requests, of some 30 ms."""

MOST_FILES = 1 << 12
"""Largest number of files in a group."""


class Chunk(NamedTuple):
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
    separated : bool
        Whether the separator ends documents.
    n_read : int, optional
        Bytes of the input, if that is not the size of the chunk, because it was compressed.
    """

    path: str
    start: int
    cut: int
    stop: int
    final: bool
    data: bytes | None = None
    separated: bool = True
    n_read: int | None = None

    def read(self, reader: ChunkReader) -> Block:
        """Return the text of the chunk, in the buffer of a reader."""
        length = self.stop - self.start
        text = reader.buffer(length)
        data = read_range(self.path, self.start, length) if self.data is None else self.data
        text[:length] = np.frombuffer(data, np.uint8)
        cut = n_bytes = self.cut - self.start
        if reader.normalize_newlines:
            body = normalize_newlines(text[:cut].tobytes())
            both = body + normalize_newlines(text[cut:length].tobytes())
            cut = len(body)
            length = len(both)
            text[:length] = np.frombuffer(both, np.uint8)
        n_read = n_bytes if self.n_read is None else self.n_read
        return Block(text, cut, length, self.final, None, True, self.separated, n_bytes, n_read)


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
    group_files : bool
        Whether a chunk may consist of several small files.

    Attributes
    ----------
    ahead : int
        Number of bytes after a cut that a chunk contains: one character, and enough to see that no special token begins there.
    """

    def __init__(
        self,
        splitter: Splitter | TextPipeline,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        normalize_newlines: bool = False,
        group_files: bool = True,
    ) -> None:
        self.splitter = splitter
        self.chunk_bytes = chunk_bytes
        self.normalize_newlines = normalize_newlines
        self.group_files = group_files
        self.ahead = max([4, *map(len, splitter.special_tokens)])

    def chunks(self, sources: Iterable[Source]) -> Iterator[AnyChunk]:
        """Yield the chunks of sources, in order.

        A chunk of plain text is a range of one source, or several small files. An empty text has no chunks.
        """
        group: list[Source] = []
        size = 0
        for source in sources:
            small = self._is_small(source)
            length = (source.size or 0) - source.start if small else 0
            if group and (not small or size + length > self.chunk_bytes or len(group) >= MOST_FILES):
                yield from self._group_chunks(group)
                group, size = [], 0
            if small:
                group.append(source)
                size += length
            else:
                yield from self._source_chunks(source)
        if group:
            yield from self._group_chunks(group)

    def _is_small(self, source: Source) -> bool:
        """Return True if a file is to be read together with others."""
        size = source.size
        return (
            self.group_files
            and size is not None
            and size <= SMALL_FILE
            and not source.has_records
            and source.stop is None
            and source.compression is None
            and not source.streamed
        )

    def _group_chunks(self, group: list[Source]) -> Iterator[AnyChunk]:
        if len(group) == 1:
            yield from self._source_chunks(group[0])
            return
        separated = group[0].options.documents == "separator"
        if separated:
            group = [source for source in group if source.size != source.start]
        if group:
            files = [(source.path, source.start, source.size or 0, source.kept) for source in group]
            yield FilesChunk(tuple(files), separated)

    def _source_chunks(self, source: Source) -> Iterator[AnyChunk]:
        options = source.options
        if source.texts is not None:
            yield from text_chunks(source.texts, options, self.chunk_bytes)
        elif source.is_stream:
            with source.open_stream() as stream:
                if stream.input_format == TEXT and options.keep_columns:
                    raise no_columns(source.path)
                if stream.input_format != TEXT or options.by_lines:
                    yield from load_format(stream.input_format).stream_chunks(stream, source, self.chunk_bytes)
                else:
                    yield from self._stream_chunks(stream, options)
        elif source.has_records:
            yield from load_format(source.input_format).chunks(source, self._chunk_size(source))
        elif options.documents == "file" and not source.length:
            yield DocumentsChunk(b"", np.zeros(1, np.int64), True)
        else:
            yield from self._file_chunks(source, source.size or 0)

    def _chunk_size(self, source: Source) -> int:
        factor = REMOTE_FACTOR if is_remote(source.path) and load_format(source.input_format).is_text else 1
        return self.chunk_bytes * factor

    def _file_chunks(self, source: Source, size: int) -> Iterator[Chunk]:
        # Only windows around the target positions are read here; the workers read the rest.
        end = size if source.stop is None else source.stop
        separated = source.options.documents == "separator"
        chunk_bytes = self._chunk_size(source)
        with source.open() as file:
            start = source.start
            while start < end:
                cut = self.next_cut(file, start, start + chunk_bytes, end)
                yield Chunk(source.path, start, cut, min(cut + self.ahead, size), cut == size, None, separated)
                start = cut

    def next_cut(self, file: BinaryIO, start: int, position: int, end: int) -> int:
        """Return the first position from `position` on where a file may be cut, or `end`.

        Parameters
        ----------
        file : binary file
        start : int
            Start of the text, or a cut before `position`.
        position, end : int
        """
        cut = self.search(file, start, position, end, self.find_cut)
        return end if cut < 0 else min(cut, end)

    def search(self, file: BinaryIO, start: int, position: int, end: int, find: Callable[[bytes, int, int], int]) -> int:
        """Return the first position from `position` on that `find` returns for a window of a file, or -1.

        The other parameters are those of `next_cut`. The last window begins before `end`, and may be longer.
        """
        window = CUT_WINDOW
        while position < end:
            before = min(2 * self.ahead, position - start)
            file.seek(position - before)
            data = file.read(before + window + self.ahead)
            found = find(data, before, min(before + window, len(data)))
            if found >= 0:
                return position - before + found
            position += window
            window *= 2
        return -1

    def _stream_chunks(self, stream: InputStream, options: InputOptions) -> Iterator[AnyChunk]:
        separated = options.documents == "separator"
        data = bytearray()
        start = n_raw = 0
        searched = self.chunk_bytes
        while True:
            wanted = searched + CUT_WINDOW + self.ahead
            while len(data) < wanted and (block := stream.read(wanted - len(data))):
                data += block
            ended = len(data) < wanted
            if ended and len(data) <= self.chunk_bytes:
                break
            cut = self.find_cut(data, searched, len(data) - self.ahead) if len(data) - self.ahead > searched else -1
            if cut >= 0:
                stop = cut + self.ahead
                n_read = stream.n_raw - n_raw if stream.compression else cut
                n_raw = stream.n_raw
                yield Chunk(stream.path, start, start + cut, start + stop, False, bytes(data[:stop]), separated, n_read)
                del data[:cut]
                start += cut
                searched = self.chunk_bytes
            elif ended:
                break
            else:
                # Without a cut the chunk grows; doubling keeps the search linear.
                searched = 2 * len(data)
        if data:
            n_read = stream.n_raw - n_raw if stream.compression else len(data)
            yield Chunk(stream.path, start, start + len(data), start + len(data), True, bytes(data), separated, n_read)
        elif options.documents == "file" and not start:
            yield DocumentsChunk(b"", np.zeros(1, np.int64), True)

    def find_cut(self, data: bytes | bytearray, low: int, high: int) -> int:
        """Return the first position in `low:high + 1` where a text may be cut, or -1 (see `Splitter.find_cut`)."""
        text, stop = padded_text(data)
        while low < high:
            cut = self.splitter.find_cut(text, low, high, stop)
            if cut < 0 or not self.normalize_newlines:
                return cut
            if text[cut - 1] != 0x0D and text[cut] != 0x0D:
                return cut
            low = cut + 1
        return -1


def iterate_texts(texts: Any) -> Iterator[Any]:
    """Return an iterator of texts, or of batches of them.

    Parameters
    ----------
    texts : iterable
        Of `str` or `bytes`, or of lists of them; a column of pyarrow, as one batch.

    Raises
    ------
    ArgumentTypeError
        If it is not iterable, or is a single text, a mapping or a table.
    """
    if _is_column(texts):
        return iter([texts])
    return iter(arguments.texts("texts", texts))


def text_chunks(texts: Iterable[Any], options: InputOptions, chunk_bytes: int) -> Iterator[DocumentsChunk]:
    """Yield texts as chunks in memory, in order.

    Parameters
    ----------
    texts : iterable
        Of `str` or `bytes`, or of batches: iterables of them, or columns of pyarrow.
    options : InputOptions
    chunk_bytes : int

    Raises
    ------
    ArgumentTypeError
        If an item is something else.
    """
    group: list[Any] = []
    size = 0
    for index, item in enumerate(texts):
        is_text = type(item) is str or type(item) is bytes
        if group and (not is_text or size >= chunk_bytes):
            yield _chunk(group, options)
            group, size = [], 0
        if is_text:
            group.append(item)
            size += len(item)
        else:
            yield from _batch_chunks(item, index, options, chunk_bytes)
    if group:
        yield _chunk(group, options)


def _batch_chunks(item: Any, index: int, options: InputOptions, chunk_bytes: int) -> Iterator[DocumentsChunk]:
    if _is_column(item):
        if not is_text(item.type):
            name = f"texts[{index}]"
            raise arguments.wrong_type(
                name, item, f"a column of strings, and not of {item.type}", "give the column of the texts"
            )
        record_batch = import_extra("pyarrow", "a column of strings").record_batch
        batches = (record_batch([part], [options.text_column]) for part in getattr(item, "chunks", [item]))
        yield from batch_chunks(batches, TEXTS, options, chunk_bytes, n_bytes=0, n_rows=len(item))
        return
    if arguments.is_iterable(item):
        texts = [_as_text(f"texts[{index}][{number}]", text) for number, text in enumerate(item)]
        yield from text_chunks(texts, options, chunk_bytes)
        return
    yield from text_chunks([_as_text(f"texts[{index}]", item)], options, chunk_bytes)


def _as_text(name: str, value: Any) -> str | bytes:
    if isinstance(value, str):
        return str(value)
    return bytes(arguments.as_bytes(name, value))  # type: ignore[arg-type]


def _is_column(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pyarrow" and hasattr(value, "null_count")


def _chunk(group: list[Any], options: InputOptions) -> DocumentsChunk:
    return DocumentsChunk(*gather_texts(group), options.allow_special)
