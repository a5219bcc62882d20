"""The template of formats whose ids are one array in a file, which is mapped into memory.

A format states where the ids begin, its header, what it reads before the ids, and how the borders of documents are stored; the
template writes, opens and checks its files. A job writes ids into a file with space for the header, and `write_others` makes
a token file of it, so that ids are written once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import OutputFile, StrPath, read_error, replacing
from bpejit.tokenfiles.base import BLOCK_TOKENS, TokenReader, document_number
from bpejit.tokenfiles.borders import Borders, DocumentIndexWriter, EndReader, document_index_path, read_document_index
from bpejit.tokenfiles.described_format import DescribedFormat
from bpejit.tokenfiles.description import ALL_DTYPES, Description, description_path, write_description
from bpejit.tokenfiles.file_writer import TokenFileWriter
from bpejit.tokenfiles.mapping import map_ids


class MappedTokens(TokenReader):
    """An open token file whose ids are one array.

    Parameters
    ----------
    path : Path
        The file that contains the ids.
    ids : integers [n_tokens]
        Mapped into memory, read-only.
    description : Description, optional
        The content of the description; None if there is none.
    borders : Borders, optional
        The borders of documents; None if they are not stored.
    offset : int
        The position of the first id in the file, in bytes.

    Raises
    ------
    TokenFileError
        If the dtype, the number of ids or the number of documents differs from the description.
    """

    def __init__(
        self,
        path: Path,
        ids: npt.NDArray[Any],
        description: Description | None = None,
        borders: Borders | None = None,
        offset: int = 0,
    ) -> None:
        self.path = path
        self.description = description
        self.dtype = str(ids.dtype.name)
        self.borders = borders
        self._ids = ids
        self._offset = offset
        self._check_counts(self.dtype, self.n_tokens, self.n_documents)

    @property
    def ids(self) -> npt.NDArray[Any]:
        """All ids, mapped into memory."""
        return self._ids

    @property
    def n_tokens(self) -> int:
        """The number of ids."""
        return int(self._ids.size)

    @property
    def n_documents(self) -> int | None:
        """The number of documents."""
        return None if self.borders is None else len(self.borders)

    def _id(self, number: int) -> int:
        return int(self._ids[number])

    def _slice(self, index: slice) -> Array:
        part: Array = self._ids[index]
        return part

    def document(self, number: int) -> Array:
        """Return the ids of a document."""
        if self.borders is None:
            raise TokenFileError(
                f"`{self.path}` does not contain the borders of documents: there is no `{document_index_path(self.path)}`; "
                "expected that file: encode the text again with `document_index=True`"
            )
        start, end = self.borders.span(document_number(number, len(self.borders)))
        part: Array = self.ids[start:end]
        return part

    def stored_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[Array]:
        """Yield all ids, in arrays that are valid until the next one."""
        # Read, not mapped: pages of a mapping would count as this process's memory until the system needs them.
        item = self._ids.dtype.itemsize
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                buffer = np.empty(min(size, self.n_tokens) * item, np.uint8).data
                for start in range(0, self.n_tokens, size):
                    data = buffer[: min(size, self.n_tokens - start) * item]
                    n_bytes = file.readinto(data)
                    if n_bytes != data.nbytes:
                        raise TokenFileError(
                            f"`{self.path}` ends after {self._offset + start * item + n_bytes} bytes; expected "
                            f"{self._offset + self.n_tokens * item}, its size when it was opened: do not change the file while "
                            "it is read"
                        )
                    yield np.frombuffer(data, self._ids.dtype)
        except OSError as cause:
            raise read_error(self.path, cause, error=TokenFileError, what="token file") from cause

    def document_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[tuple[Array, Array | None]]:
        """Yield blocks of `size` ids, each with the ends of documents."""
        done = 0
        for ids, ends in self._blocks_with_ends(size):
            yield ids.copy(), None if ends is None else ends - done
            done += ids.size

    def _blocks_with_ends(self, size: int = BLOCK_TOKENS) -> Iterator[tuple[Array, Array | None]]:
        """Yield blocks that are valid until the next one, with the ends of documents as positions in the file."""
        done = 0
        ends = None if self.borders is None else EndReader(self.borders.blocks())
        for ids in self.stored_blocks(size):
            done += ids.size
            # A document that ends where a block ends belongs to that block.
            yield ids, None if ends is None else ends.up_to(done)
        if ends is not None and done == 0:  # an empty file with empty documents
            yield np.empty(0, self._ids.dtype), ends.up_to(0)


class FileLayout(NamedTuple):
    """What a file contains besides ids.

    Parameters
    ----------
    dtype : np.dtype
        Of the ids.
    position : int
        Of the first id in the file, in bytes.
    n_tokens : int, optional
        The number of ids that the file states.
    stated_in : str
        Where the dtype and the number are stated, for messages.
    borders : Borders, optional
        The borders of documents, if they were read for the dtype.
    """

    dtype: np.dtype[Any]
    position: int = 0
    n_tokens: int | None = None
    stated_in: str = "its header"
    borders: Borders | None = None


class BorderWriter(Protocol):
    """Writes the files with the borders of documents."""

    def write(self, ends: Array) -> None:
        """Append the ends of documents, int64 [documents], as positions in the token file."""

    def finish(self, fields: Description) -> None:
        """Write what follows the last end, or precedes the first."""


class MappedWriter(TokenFileWriter):
    """Write a token file in a format with one array of ids."""

    form: MappedFormat
    _borders: BorderWriter | None = None

    def _begin(self) -> None:
        self._data.write(bytes(self.form.ids_position))
        if self._has_documents:
            self._borders = self.form.border_writer(self._others[:-1], self.dtype)

    def _append(self, ids: Array, ends: Array | None) -> None:
        self.form.check_size(self.n_tokens)
        super()._append(ids, ends)
        if self._borders is not None and ends is not None:
            self._borders.write(ends)

    def _finish(self) -> None:
        fields = self._fields()
        if self._borders is not None:
            self._borders.finish(fields)
        if self.form.ids_position:
            self._data.write_at_start(self.form.header(fields))


class MappedFormat(DescribedFormat):
    """A format whose ids are one array; by default without a header, and with a document index beside the file.

    Attributes
    ----------
    ids_position : int
        Bytes before the ids that the format writes.
    states_dtype : bool
        Whether the files tell the dtype of the ids. Otherwise it is in the description, or has to be given.
    """

    ids_position: ClassVar[int] = 0
    states_dtype: ClassVar[bool] = True
    writer_type = MappedWriter

    @abstractmethod
    def layout(self, path: Path, size: int, dtype: str | None) -> FileLayout:
        """Read what a file contains besides ids.

        Parameters
        ----------
        path : Path
        size : int
            Of the file, in bytes.
        dtype : str, optional
            That of the description, or the one that was given.

        Raises
        ------
        TokenFileError
        """

    def header(self, fields: Description) -> bytes:  # noqa: ARG002
        """Return the first `ids_position` bytes of a file.

        Raises
        ------
        TokenFileError
            If the format cannot store so many ids.
        """
        return b""

    def check_size(self, n_tokens: int) -> None:
        """Raise TokenFileError if the format cannot store so many ids; called while they are written."""

    def border_files(self, path: StrPath) -> list[Path]:
        """Return the files with the borders of documents."""
        return [document_index_path(path)]

    def border_writer(self, files: Sequence[OutputFile], dtype: np.dtype[Any]) -> BorderWriter:  # noqa: ARG002
        """Return what writes the borders of documents to empty files."""
        return DocumentIndexWriter(files[0])

    def find_borders(self, path: Path, fields: Description | None, n_tokens: int) -> Borders | None:
        """Return the borders of documents; None if they are not stored.

        A file with a description has a document index if the description has the number of documents.
        """
        index = document_index_path(path)
        exists = index.exists() if fields is None else fields.documents is not None
        return read_document_index(index, n_tokens) if exists else None

    def read(self, path: Path, size: int, fields: Description | None, dtype: str | None) -> MappedTokens:
        """Return an open token file."""
        known = dtype if fields is None else fields.dtype
        found = self.layout(path, size, known)
        wanted = dtype if self.states_dtype else known
        if wanted not in (None, found.dtype.name):
            raise TokenFileError(
                f"`{path}` contains ids of {found.dtype.name} according to {found.stated_in}; expected {wanted}: omit the dtype"
            )
        ids = map_ids(path, size, found.dtype, offset=found.position)
        if found.n_tokens not in (None, ids.size):
            raise TokenFileError(
                f"`{path}` has {ids.size} ids; expected {found.n_tokens}, the number in {found.stated_in}: copy all files of "
                "the token file again, or encode the text again"
            )
        borders = found.borders
        if borders is None:
            borders = self.find_borders(path, fields, int(ids.size))
        return MappedTokens(path, ids, fields, borders, found.position)

    def write_others(self, path: Path, fields: Description, ends: Iterator[Array]) -> None:
        """Write the files of a token file except that with the ids, and flush them to disk.

        Parameters
        ----------
        path : Path
            The token file.
        fields : Description
        ends : iterator of int64 [documents]
            The ends of documents as positions in the file, if `fields` has their number. The last is the number of ids.

        Raises
        ------
        TokenFileError, OutputError
        """
        main = self.main_file(path)
        if fields.documents is not None:
            with ExitStack() as stack:
                files = [stack.enter_context(replacing(file)) for file in self.border_files(main)]
                borders = self.border_writer(files, ALL_DTYPES[fields.dtype])
                for some in ends:
                    borders.write(some)
                borders.finish(fields)
        with replacing(description_path(main)) as file:
            file.write(write_description(fields))
