"""Open token files whose ids are one array on disk, which is mapped into memory."""

from __future__ import annotations

import hashlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import read_error
from bpejit.tokenfiles.base import BLOCK_TOKENS
from bpejit.tokenfiles.borders import Borders, EndReader
from bpejit.tokenfiles.description import END_DTYPE, Description, description_path
from bpejit.tokenfiles.document_index import document_index_path


class DescribedTokens(ABC):
    """An open token file, which may have a description.

    Attributes
    ----------
    path : Path
    description : Description or None
    """

    path: Path
    description: Description | None

    @property
    def bytes_read(self) -> int | None:
        """The number of bytes of text that the ids encode; None without a description."""
        return None if self.description is None else self.description.bytes_read

    @property
    def vocab_size(self) -> int | None:
        """One more than the largest id of the tokenizer; None without a description."""
        return None if self.description is None else self.description.vocab_size

    @property
    def tokenizer_sha256(self) -> str | None:
        """The hash of the tokenizer; None without a description."""
        return None if self.description is None else self.description.tokenizer_sha256

    @property
    def ids_sha256(self) -> str | None:
        """The hash of the ids; None if the description lacks it."""
        return None if self.description is None else self.description.ids_sha256

    @abstractmethod
    def stored_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[Array]:
        """Yield all ids like `blocks`, but without a conversion, as arrays that are valid until the next one."""

    @abstractmethod
    def _blocks_with_ends(self) -> Iterator[tuple[Array, Array | None]]:
        """Yield blocks like `stored_blocks`, with the ends of documents, int64, as positions in the file."""

    def _check_counts(self, dtype: str, n_tokens: int, n_documents: int | None) -> None:
        """Raise TokenFileError if the dtype, the number of ids or the number of documents differs from the description."""
        fields = self.description
        described = description_path(self.path)
        problem = ""
        if fields is None:
            return
        if dtype != fields.dtype:
            problem = f"has ids of {dtype}; expected {fields.dtype}, the dtype in `{described}`"
        elif n_tokens != fields.tokens:
            problem = f"has {n_tokens} tokens of {dtype}; expected {fields.tokens}, the number in `{described}`"
        elif fields.documents is not None and n_documents is not None and n_documents != fields.documents:
            problem = f"has {n_documents} documents; expected {fields.documents}, the number in `{described}`"
        if problem:
            raise TokenFileError(
                f"`{self.path}` {problem}; the file was truncated or changed: copy it again, or encode the text again"
            )

    def blocks(self, size: int = BLOCK_TOKENS) -> Iterator[npt.NDArray[np.uint32]]:
        """Yield all ids in order as new arrays, uint32 [up to `size`], holding one block in memory at a time.

        Raises
        ------
        TokenFileError
            If the file cannot be read, or became shorter after it was opened.
        """
        for ids in self.stored_blocks(size):
            yield as_uint32(ids, self.path)

    def verify(self) -> None:
        """Read the whole file and compare it with its description.

        Raises
        ------
        TokenFileError
            If the SHA-256 of the ids or of the borders of documents, or the range of the ids differs from the description, the
            description has no hash of the ids, or the borders are wrong.
        """
        description = self.description
        described = description_path(self.path)
        if description is None or description.ids_sha256 is None:
            found = "does not exist" if description is None else "has no hash of the ids"
            raise TokenFileError(
                f"`{self.path}` cannot be verified: `{described}` {found}; expected `ids_sha256` in it: encode the text again"
            )
        of_ids = hashlib.sha256()
        of_ends = hashlib.sha256()
        largest = -1
        smallest = 0
        for ids, ends in self._blocks_with_ends():
            of_ids.update(ids.data)
            if ends is not None:
                of_ends.update(ends.astype(END_DTYPE, copy=False).data)
            largest = max(largest, int(ids.max(initial=-1 if ids.dtype.kind == "i" else 0)))
            smallest = min(smallest, int(ids.min(initial=0)))
        for what, found_hash, expected in (
            ("ids", of_ids.hexdigest(), description.ids_sha256),
            ("borders of documents", of_ends.hexdigest(), description.documents_sha256),
        ):
            if expected not in (None, found_hash):
                raise TokenFileError(
                    f"`{self.path}` does not match `{described}`: the SHA-256 of its {what} is {found_hash}; expected "
                    f"{expected}: copy all files of the token file again, or encode the text again"
                )
        if largest >= description.vocab_size or smallest < 0:
            raise TokenFileError(
                f"`{self.path}` contains the id {largest if smallest == 0 else smallest}, but the vocabulary size in "
                f"`{described}` is {description.vocab_size}; expected smaller ids: encode the text again"
            )


@dataclass(frozen=True, eq=False)
class MappedTokens(DescribedTokens):
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

    path: Path
    ids: npt.NDArray[Any]
    description: Description | None = None
    borders: Borders | None = None
    offset: int = 0

    def __post_init__(self) -> None:
        self._check_counts(self.dtype, self.n_tokens, self.n_documents)

    @property
    def n_tokens(self) -> int:
        """The number of ids."""
        return int(self.ids.size)

    @property
    def dtype(self) -> str:
        """The dtype of the ids, such as `uint16`."""
        return str(self.ids.dtype.name)

    @property
    def n_documents(self) -> int | None:
        """The number of documents; None if their borders are not stored."""
        return None if self.borders is None else len(self.borders)

    def __len__(self) -> int:
        return self.n_tokens

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Array: ...

    def __getitem__(self, index: int | slice) -> int | Array:
        if isinstance(index, slice):
            part: Array = self.ids[index]
            return part
        return int(self.ids[operator.index(index)])

    def document(self, number: int) -> Array:
        """Return the ids of a document as a read-only array.

        Raises
        ------
        IndexError
            If there is no document with this number; negative numbers count from the end.
        TokenFileError
            If the borders of documents are not stored, or are wrong.
        """
        if self.borders is None:
            raise TokenFileError(
                f"`{self.path}` does not contain the borders of documents: there is no `{document_index_path(self.path)}`; "
                "expected that file: encode the text again with `document_index=True`"
            )
        start, end = self.borders.span(document_number(number, len(self.borders)))
        part: Array = self.ids[start:end]
        return part

    def stored_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[Array]:
        """Yield all ids like `blocks`, but without a conversion, as arrays that are valid until the next one."""
        # Read, not mapped: pages of a mapping would count as this process's memory until the system needs them.
        item = self.ids.dtype.itemsize
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                buffer = np.empty(min(size, self.n_tokens) * item, dtype=np.uint8).data
                for start in range(0, self.n_tokens, size):
                    data = buffer[: min(size, self.n_tokens - start) * item]
                    n_bytes = file.readinto(data)
                    if n_bytes != data.nbytes:
                        raise TokenFileError(
                            f"`{self.path}` ends after {self.offset + start * item + n_bytes} bytes; expected "
                            f"{self.offset + self.n_tokens * item}, its size when it was opened: do not change the file while "
                            "it is read"
                        )
                    yield np.frombuffer(data, dtype=self.ids.dtype)
        except OSError as cause:
            raise read_error(self.path, cause, error=TokenFileError, what="token file") from cause

    def document_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[tuple[Array, Array | None]]:
        """Yield all ids in order, in blocks of `size`, each with the ends of the documents that end in it.

        Yields
        ------
        ids : array of the dtype of the file
        ends : int64 [documents], optional
            Positions in `ids`; None if the borders of documents are not stored.

        Raises
        ------
        TokenFileError
            If the file cannot be read, became shorter after it was opened, or the borders of documents are wrong.
        """
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
            yield np.empty(0, dtype=self.ids.dtype), ends.up_to(0)


def as_uint32(ids: Array, path: Path) -> npt.NDArray[np.uint32]:
    """Return ids as a new array of uint32.

    Raises
    ------
    TokenFileError
        If an id is negative, or too large.
    """
    signed = ids.dtype.kind == "i"
    if ids.size and ((signed and int(ids.min()) < 0) or (ids.dtype.itemsize == 8 and int(ids.max()) >> 32)):
        wrong = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
        raise TokenFileError(
            f"`{path}` contains the id {wrong}; expected ids from 0 to {2**32 - 1}: check that it is a token file"
        )
    return ids.astype(np.uint32)


def document_number(number: int, n_documents: int) -> int:
    """Return the number of a document from 0 up.

    Raises
    ------
    IndexError
        If there is no such document; negative numbers count from the end.
    """
    number = operator.index(number)
    if not -n_documents <= number < n_documents:
        raise IndexError(f"there is no document {number}; expected -{n_documents} to {n_documents - 1}: check `n_documents`")
    return number % n_documents
