"""The template of token file formats, and that of formats whose ids are one array in a file.

A format of the second kind, whose files are mapped into memory, states where the ids begin, its header, what it reads before
the ids, and how the borders of documents are stored; the template writes, opens and checks its files. A job writes ids into a
file with space for the header, and `write_others` makes a token file of it, so that ids are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath
from bpejit.storage.temporary import sync_file
from bpejit.tokenfiles.description import (
    BIN_FORMAT,
    DTYPES,
    END_DTYPE,
    Description,
    Dtypes,
    check_description,
    description_path,
    document_index_path,
    read_description,
    write_description,
)
from bpejit.tokenfiles.file_writer import TokenFileWriter
from bpejit.tokenfiles.mapping import (
    Borders,
    MappedTokens,
    Output,
    check_regular,
    map_npy,
    npy_header,
    read_ends,
)
from bpejit.tokenfiles.readers import TokenReader, TokenSource


class TokenFileFormat:
    """A format of token files.

    It has a `writer_type`, which writes files with a description, and `read`, or `writer` and `open` of its own.

    Attributes
    ----------
    name : str
        The name under which it is registered.
    suffix : str
        The usual suffix of its files, with the dot.
    other_suffixes : tuple of str
        Further suffixes that an output in this format may have.
    dtypes : mapping of str to np.dtype
        The dtypes that it stores, in the order in which `auto` tries them, each little-endian.
    own_columns : tuple of str
        The names of the columns of its files, if these have rows. Its writers then take `pack`, the number of ids of each row,
        and `columns`, the rows of further columns.
    stores_documents : bool
        True if its files always contain the borders of documents. Otherwise `document_index` adds a file with them.
    writer_type : type
    ids_position : int
        Bytes before the ids that the format writes.
    magic : bytes, or tuple of bytes
        The first bytes of the files, by which they are recognized, or several of which a file has one; at most 16. Without,
        they are recognized by their suffix.
    states_dtype : bool
        Whether the files tell the dtype of the ids. Otherwise it is in the description, or has to be given.
    streams : bool
        Whether ids can be written to a stream, without a description.
    """

    name: ClassVar[str]
    suffix: ClassVar[str]
    other_suffixes: ClassVar[tuple[str, ...]] = ()
    dtypes: ClassVar[Dtypes]
    stores_documents: ClassVar[bool] = False
    own_columns: ClassVar[tuple[str, ...]] = ()
    writer_type: ClassVar[type[TokenFileWriter]] = TokenFileWriter
    ids_position: ClassVar[int] = 0
    magic: ClassVar[bytes | tuple[bytes, ...]] = b""
    states_dtype: ClassVar[bool] = False
    streams: ClassVar[bool] = False

    def writer(self, path: StrPath | BinaryIO, *, dtype: str = "auto", vocab_size: int, **options: Any) -> TokenFileWriter:
        """Return a writer; formats with rows have more options (see `own_columns`).

        Parameters
        ----------
        path : path or binary stream
            `-` is standard output. A format that needs several files, or has to seek, raises OutputError for streams.
        dtype : str
            One of `dtypes`, or `auto` for the first that holds every id (see `choose_dtype`).
        vocab_size : int
            One more than the largest id of the tokenizer.
        tokenizer_sha256 : str, optional
            `Model.sha256` of the tokenizer; None if it is not known.
        overwrite : bool
            Replace existing files. Otherwise they are an error.
        document_index : bool
            Store the borders of documents. It makes no difference to formats that always do.

        Raises
        ------
        TokenFileError
            If `dtype` cannot hold the ids. Nothing is written then.
        OutputError
            If a file cannot be written, or exists and `overwrite` is false. Existing files are unchanged then.
        """
        return self.writer_type(self, path, dtype=self.choose_dtype(dtype, vocab_size), vocab_size=vocab_size, **options)

    def choose_dtype(self, dtype: str, vocab_size: int) -> np.dtype[Any]:
        """Return the dtype of a new file (see `bpejit.tokenfiles.base.choose_dtype`)."""
        return choose_dtype(self.dtypes, dtype, vocab_size)

    def open(
        self, path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
    ) -> TokenReader:
        """Open a token file, checked against its description if it has one; see `open_tokens` for parameters and errors."""
        path = Path(self.main_file(arguments.path("path", path, error=TokenFileError)))
        if dtype is not None and not self.states_dtype:
            dtype = arguments.choice("dtype", dtype, DTYPES, error=TokenFileError)
        fields = read_description(path)  # first, because it may complete or undo an interrupted run
        check_regular(path)
        if fields is not None:
            check_description(
                path, fields, file_format=self.name, dtype=dtype, tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size
            )
            dtype = fields.dtype
        found = self.read(path, fields, dtype)
        if fields is not None:
            expected = {"dtype": fields.dtype, "n_tokens": fields.tokens, "n_documents": fields.documents}
            found.check(expected, f"`{description_path(path)}`")
        elif self.states_dtype and dtype not in (None, found.dtype):
            raise TokenFileError(f"`{path}` contains ids of {found.dtype}; expected {dtype}: omit the dtype")
        return found

    def read(self, path: Path, fields: Description | None, dtype: str | None) -> TokenReader:
        """Return an open token file, or raise TokenFileError.

        Parameters
        ----------
        path : Path
            The file with the ids.
        fields : Description, optional
            Its description.
        dtype : str, optional
            That of the description, or the one that was given.
        """
        raise NotImplementedError

    def open_stream(self, stream: BinaryIO, *, dtype: str | None = None) -> TokenSource:  # noqa: ARG002
        """Return the ids of a stream, which is read once and cannot seek.

        Raises
        ------
        TokenFileError
            If the format cannot be read from a stream, or needs a `dtype`.
        """
        raise TokenFileError(
            f"the format {self.name} cannot be read from standard input; expected the path of a file: write the ids to a file"
        )

    def main_file(self, path: StrPath) -> StrPath:
        """Return the file with the ids."""
        return path

    def border_files(self, path: StrPath) -> list[Path]:  # noqa: ARG002
        """Return further files, with the borders of documents."""
        return []

    def files(self, path: StrPath) -> list[StrPath]:
        """Return all files of the token file at `path`, which a writer creates or removes and a reader reads."""
        main = self.main_file(path)
        return [main, *self.border_files(main), description_path(main)]

    def check_columns(self, schema: Any) -> None:  # noqa: ARG002
        """Raise OptionError if the format cannot store columns of these types, a pyarrow.Schema."""
        return

    def recognizes(self, path: StrPath) -> bool:
        """Return True if a file is described as one of this format, or is like one and has no description."""
        try:
            fields = read_description(self.main_file(path))
        except TokenFileError:  # the reader of this format reports what is wrong
            return self.name == BIN_FORMAT or self.is_like(path)
        return self.is_like(path) if fields is None else fields.file_format == self.name

    def is_like(self, path: StrPath) -> bool:
        """Return True if a file without a description may be one of this format, judged without reading all of it."""
        if not self.magic:
            return Path(path).suffix == self.suffix
        try:
            with Path(path).open("rb") as file:
                return file.read(16).startswith(self.magic)
        except OSError:
            return False


def choose_dtype(dtypes: Dtypes, dtype: str, vocab_size: int) -> np.dtype[Any]:
    """Return the dtype of a token file.

    Parameters
    ----------
    dtypes : mapping of str to np.dtype
        The dtypes of the format, in the order in which `auto` tries them.
    dtype : str
        One of them, or `auto` for the first that holds every id.
    vocab_size : int
        One more than the largest id.

    Raises
    ------
    TokenFileError
        If `dtype` is none of them, or cannot hold every id.
    """
    largest = {name: int(np.iinfo(one).max) for name, one in dtypes.items()}
    if dtype == "auto":
        dtype = next((name for name, most in largest.items() if vocab_size <= most + 1), list(dtypes)[-1])
    chosen = dtypes[arguments.choice("dtype", dtype, dtypes, error=TokenFileError)]
    if vocab_size > largest[dtype] + 1:
        raise TokenFileError(
            f"the vocabulary has ids up to {vocab_size - 1}, but {dtype} holds ids up to {largest[dtype]}; "
            f"expected a dtype that holds every id: use `{list(dtypes)[-1]}` or `auto`"
        )
    return chosen


Ends = Callable[[], Iterator[Array]]
"""Yields the ends of all documents in blocks, int64, as positions in the token file; the last is the number of ids."""


class MappedFormat(TokenFileFormat):
    """A format whose ids are one array; by default without a header, and with a document index beside the file."""

    states_dtype = True

    def map(self, path: Path, dtype: str | None) -> Array:
        """Return the ids, mapped into memory, after checks of what precedes them; parameters and errors are those of `read`."""
        raise NotImplementedError

    def header(self, fields: Description) -> bytes:  # noqa: ARG002
        """Return the first `ids_position` bytes of a file.

        Raises
        ------
        TokenFileError
            If the format cannot store so many ids.
        """
        return b""

    def border_files(self, path: StrPath) -> list[Path]:
        """Return the files with the borders of documents."""
        return [document_index_path(path)]

    def write_borders(self, files: Sequence[Output], fields: Description, ends: Ends) -> None:
        """Write the borders of documents into empty files."""
        (index,) = files
        index.write(npy_header(END_DTYPE, (fields.documents or 0) + 1))
        index.write(bytes(END_DTYPE.itemsize))
        for some in ends():
            index.write(some.data)

    def find_borders(self, path: Path, fields: Description | None, n_tokens: int) -> Borders | None:
        """Return the borders of documents; None if they are not stored.

        A file with a description has a document index if the description has the number of documents.
        """
        index = document_index_path(path)
        if (fields is None and not index.exists()) or (fields is not None and fields.documents is None):
            return None
        starts = np.asarray(map_npy(index, what="document index"))  # no memmap, whose slices take longer
        borders = Borders(index, n_tokens, starts[1:])
        if starts.dtype != END_DTYPE or not starts.size:
            raise borders.broken(f"it has {starts.size} numbers of {starts.dtype}", "at least one of int64")
        if (starts[0], starts[-1]) != (0, n_tokens):
            found = f"its first and last number are {starts[0]} and {starts[-1]}"
            raise borders.broken(found, f"0 and {n_tokens}, the number of ids")
        return borders

    def read(self, path: Path, fields: Description | None, dtype: str | None) -> MappedTokens:
        """Return an open token file."""
        ids = self.map(path, dtype)
        return MappedTokens(path, ids, fields, self.find_borders(path, fields, int(ids.size)))

    def write_others(self, path: Path, fields: Description, ends: Path) -> None:
        """Write the files of a token file of a job except that with the ids, and flush them to disk.

        Parameters
        ----------
        path : Path
            The token file.
        fields : Description
        ends : Path
            The file with the ends of documents as int64 alone, which is read if `fields` has their number.

        Raises
        ------
        TokenFileError, OSError
        """
        main = self.main_file(path)
        with ExitStack() as stack:
            # Not `replacing`: nothing reads these files before they get other names, or after an interruption.
            borders = [] if fields.documents is None else self.border_files(main)
            files = [stack.enter_context(file.open("wb")) for file in (*borders, description_path(main))]
            if borders:
                self.write_borders(files[:-1], fields, partial(read_ends, stack.enter_context(ends.open("rb"))))
            files[-1].write(write_description(fields))
            for file in files:
                file.flush()
                sync_file(file.fileno())
