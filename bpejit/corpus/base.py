"""The interface of input formats, and the chunks of documents that they produce."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.blocks import NOTHING_SKIPPED, Block, Skipped
from bpejit.corpus.chunk_reader import AnyChunk, ChunkReader
from bpejit.corpus.input_streams import InputStream
from bpejit.corpus.kept_columns import no_columns
from bpejit.corpus.sources import Source

if TYPE_CHECKING:
    from bpejit.corpus.kept_columns import KeptColumns


class InputFormat:
    """A kind of input that consists of records, each of which has the text of a document.

    Attributes
    ----------
    suffixes : tuple of str
        Ends of the names of such files, before that of a compressed file.
    starts : bytes, optional
        The first bytes of contents that `recognizes` may accept, which saves calls for 10,000 files of text; None for any.
    remote : bool
        Whether remote files are read by `chunks`, at any position, instead of from their start to their end.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    starts: ClassVar[bytes | None] = None
    remote: ClassVar[bool] = False

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

    def chunks(self, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield the chunks of a file that can be read at any position.

        Parameters
        ----------
        source : Source
        chunk_bytes : int
            Target size of a chunk, in bytes of text.
        """
        raise NotImplementedError

    def stream_chunks(self, stream: InputStream, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield the chunks of an input that is read from its start to its end: a pipe, or a compressed file.

        Parameters
        ----------
        stream : InputStream
        source : Source
        chunk_bytes : int
        """
        raise NotImplementedError

    def text_size(self, source: Source) -> int:
        """Return an estimate of the size of the texts of a file in bytes."""
        return source.length or 0

    def column_schema(self, source: Source) -> Any:
        """Return the schema of the columns to keep (`Source.options.keep_columns`), as a pyarrow.Schema.

        None if it is not known before all of the input is read.

        Raises
        ------
        CorpusError
            If a file has no such column, or the format has none.
        """
        raise no_columns(source.path)

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


class DocumentsChunk(NamedTuple):
    """Documents in memory.

    Parameters
    ----------
    data : uint8 [n]
        The texts of the documents, adjacent.
    ends : int64 [documents]
    specials : bool
        Whether special tokens are found in them.
    n_read : int
        Bytes of the input.
    skipped : Skipped
    columns : KeptColumns, optional
        A row for each document.
    """

    data: Array
    ends: Array
    specials: bool = False
    n_read: int = 0
    skipped: Skipped = NOTHING_SKIPPED
    columns: KeptColumns | None = None

    def read(self, reader: ChunkReader) -> Block:
        """Return the documents in the buffer of a reader."""
        return documents_block(
            reader,
            self.data,
            self.ends,
            specials=self.specials,
            n_read=self.n_read,
            skipped=self.skipped,
            columns=self.columns,
        )


def documents_block(
    reader: ChunkReader,
    data: bytes | Array,
    ends: Array,
    *,
    specials: bool,
    n_read: int,
    skipped: Skipped = NOTHING_SKIPPED,
    separated: bool = False,
    columns: KeptColumns | None = None,
) -> Block:
    """Copy documents to the buffer of a reader, and return them as a block; the other parameters are those of `Block`."""
    n_bytes = len(data)
    if reader.normalize_newlines:
        data, ends = normalize_documents(bytes(data), ends)
    size = len(data)
    text = reader.buffer(size)
    text[:size] = np.frombuffer(data, dtype=np.uint8)
    return Block(text, size, size, True, ends, specials, separated, n_bytes, n_read, skipped, columns)


def normalize_newlines(data: bytes) -> bytes:
    """Convert CR LF and CR to LF."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def normalize_documents(data: bytes, ends: Array) -> tuple[bytes, Array]:
    """Convert CR LF and CR to LF in each document; return the texts and their new ends."""
    if b"\r" not in data:
        return data, ends
    bounds = [0, *ends.tolist()]
    texts = [normalize_newlines(data[start:stop]) for start, stop in pairwise(bounds)]
    return join_documents(texts)


def join_documents(texts: list[bytes]) -> tuple[bytes, Array]:
    """Return texts in one string, and the end of each as int64 [documents]."""
    return b"".join(texts), np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))


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
    return 0 if not size else int(size * min(done / total, 1.0)) if total else size
