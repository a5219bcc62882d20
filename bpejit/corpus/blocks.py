"""Blocks: text in memory, with the ends of its documents and the records that were skipped; and what reads chunks to blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.input_streams import open_input
from bpejit.corpus.reading_options import CHUNK_BYTES
from bpejit.errors import CorpusError
from bpejit.kernels.constants import TEXT_PADDING

MOST_SHOWN = 5
"""Number of skipped records that are described; the others are only counted."""


@dataclass(frozen=True)
class SkippedRecord:
    """A record of an input that has no text.

    Parameters
    ----------
    path : str
        The input.
    place : str
        Where the record is, such as `line 12`.
    reason : str
        Such as "it is not valid JSON".
    """

    path: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"`{self.path}`, {self.place}: {self.reason}"


@dataclass(frozen=True)
class Skipped:
    """Records that were skipped.

    Parameters
    ----------
    count : int
    first : tuple of SkippedRecord
        The first few of them.
    """

    count: int = 0
    first: tuple[SkippedRecord, ...] = ()

    def __bool__(self) -> bool:
        return self.count > 0

    def __add__(self, other: Skipped) -> Skipped:
        if not other.count:
            return self
        return Skipped(self.count + other.count, (self.first + other.first)[:MOST_SHOWN])


NOTHING_SKIPPED = Skipped()


def refuse(record: SkippedRecord) -> CorpusError:
    """Return the error for a record without text, when these are not skipped."""
    return CorpusError(
        f"a record has no text: {record}; expected a text in each: correct it, or leave out `strict=` to skip it"
    )


def too_large(record: SkippedRecord) -> CorpusError:
    """Return the error for a record that is too large, when these are not skipped."""
    return CorpusError(
        f"a record is too large: {record}; expected smaller ones, since reading one takes several times its size in memory: "
        "allow it with `max_record=`, or give `skip_large_records=` to skip it"
    )


def large_reason(n_bytes: int, limit: int, more: str = "") -> str:
    """Return why a record is too large."""
    return f"it has {more}{n_bytes:,} bytes, and the limit is {limit:,}"


def no_texts(skipped: Skipped) -> CorpusError:
    """Return the error for a corpus in which no record has a text."""
    return CorpusError(
        f"none of the {skipped.count} records has a text; the first is {skipped.first[0]}; expected a text in each: choose it "
        "with `text_field=` for JSON, or `text_column=` for Parquet and Arrow"
    )


def check_texts(n_bytes: int, skipped: Skipped, paths: Sequence[str]) -> None:
    """Raise CorpusError if there is no text in inputs.

    Parameters
    ----------
    n_bytes : int
        The number of bytes of text, or another amount that is 0 if there is none.
    skipped : Skipped
    paths : sequence of str
        The inputs, for the message.
    """
    if n_bytes:
        return
    if skipped:
        raise no_texts(skipped)
    names = ", ".join(f"`{path}`" for path in paths[:3])
    raise CorpusError(f"the corpus ({names or 'no input'}) contains no text; expected some text: check the inputs")


def skipped_note(count: int, first: Sequence[object]) -> str:
    """Return a message about the number of skipped records, which describes the first three of `first`."""
    plural, have = ("", "has") if count == 1 else ("s", "have")
    shown = "; ".join(map(str, first[:3]))
    why = "" if "the limit is" in shown else f" that {have} no text"
    return f"skipped {count:,} record{plural}{why}: {shown}{'; ...' if count > 3 else ''}"


class Block(NamedTuple):
    """Text in memory: a range of a text, or several documents.

    Parameters
    ----------
    text : uint8 [at least stop + 16]
        A buffer that is reused: valid until its reader reads the next chunk.
    cut : int
        The block is the bytes `:cut`. The bytes up to `stop` complete its last pre-token.
    stop : int
    final : bool
        True if the text ends at `cut`.
    ends : int64 [documents], optional
        The ends of the documents. They are adjacent, the first one starts at byte 0, the last one ends at `cut`, and each is
        complete: `stop` equals `cut`, and `final` is True. None for a range of a text.
    specials : bool
        True if special tokens are found in the text, False if their texts are ordinary text.
    separated : bool
        True if the separator, a special token, also ends documents.
    n_bytes : int
        Bytes of text, before newlines are normalized.
    n_read : int
        Number of bytes of the input that the block stands for. The sum over an input is the input's size, if it is known.
    skipped : Skipped
        The records of the chunk that are not in the block.
    columns : bytes, optional
        The values of the columns to keep, a row for each document (see `bpejit.corpus.kept_columns.pack_rows`).
    """

    text: Array
    cut: int
    stop: int
    final: bool
    ends: Array | None = None
    specials: bool = True
    separated: bool = True
    n_bytes: int = 0
    n_read: int = 0
    skipped: Skipped = NOTHING_SKIPPED
    columns: bytes | None = None

    def documents(self) -> list[bytes]:
        """Return the bytes of each document, or of the range of a text."""
        data = self.text[: self.cut].tobytes()
        return [data[start:stop] for start, stop in pairwise([0, *self.stops.tolist()])]

    @property
    def stops(self) -> Array:
        """The ends of the documents, or, for a range, of the bytes that are available: int64 [texts]."""
        return np.full(1, self.cut if self.final else self.stop) if self.ends is None else self.ends


CUT_WINDOW = 1 << 13
"""Size of the window that is first searched for a cut after the target position; doubled until one is found."""

_COUNTED_AT_ONCE = 1 << 20


class AnyChunk(Protocol):
    """Description of work for one worker, which can be pickled; its `data`, if it has any, cannot be read again."""

    def read(self, reader: ChunkReader) -> Block:
        """Return the text of the chunk, in the buffer of a reader: it is valid until the next chunk is read.

        Raises
        ------
        CorpusError
            If the file cannot be read, or became shorter after it was divided.
        """


class ChunkReader:
    """The buffer that chunks are read into, so that new memory pages are touched only once.

    Parameters
    ----------
    normalize_newlines : bool
        Convert CR LF and CR to LF.
    """

    def __init__(self, *, normalize_newlines: bool = False) -> None:
        self.normalize_newlines = normalize_newlines
        self._text: Array = np.empty(CHUNK_BYTES + CUT_WINDOW + TEXT_PADDING, np.uint8)
        self._opened: tuple[str, Any] | None = None
        self._counted = ("", 0, 0)

    def buffer(self, length: int) -> Array:
        """Return the buffer of the reader, for a text of `length` bytes."""
        if self._text.size < length + TEXT_PADDING:
            self._text = np.empty(length + length // 4 + TEXT_PADDING, np.uint8)
        return self._text

    def opened(self, path: str, open_file: Callable[[str], Any]) -> Any:
        """Return a file that `open_file` has opened, the same one as for the last chunk if it has the same path."""
        if self._opened is None or self._opened[0] != path:
            self._opened = path, open_file(path)
        return self._opened[1]

    def line_number(self, path: str, position: int) -> int:
        """Return the number of the line that starts at a position of a file, from 1.

        The lines before it are counted, from the last position that was asked for: once per reader, and only for messages.
        """
        counted, start, lines = self._counted
        if counted != path or start > position:
            start = lines = 0
        with open_input(path, start) as file:
            while start < position and (data := file.read(min(_COUNTED_AT_ONCE, position - start))):
                lines += data.count(b"\n")
                start += len(data)
        self._counted = path, position, lines
        return lines + 1
