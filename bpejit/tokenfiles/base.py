"""The interface of token file formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, ClassVar, Protocol, overload

import numpy as np
import numpy.typing as npt

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath, read_error

BLOCK_TOKENS = 1 << 20
"""Default number of tokens per block."""


class TokenSource(Protocol):
    """Token ids that are read once, in order."""

    @property
    def dtype(self) -> str:
        """The name of the dtype of the ids."""

    @property
    def n_tokens(self) -> int | None:
        """The number of ids; None if it is known only at the end."""

    def blocks(self, size: int = BLOCK_TOKENS) -> Iterator[npt.NDArray[np.uint32]]:
        """Yield all ids in order as new arrays, uint32 [up to `size`], holding one block in memory at a time."""


@dataclass(frozen=True)
class TokenStream:
    """Ids that are read once, in order, from a stream such as standard input.

    Parameters
    ----------
    dtype : str
    read : callable
        `read(size)` yields the ids as arrays of up to `size`.
    n_tokens : None
        The number of ids is known only at the end.
    """

    dtype: str
    read: Callable[[int], Iterator[Array]]
    n_tokens: int | None = field(default=None, init=False)

    def blocks(self, size: int = BLOCK_TOKENS) -> Iterator[npt.NDArray[np.uint32]]:
        """Yield all ids in order as new arrays, uint32 [up to `size`].

        Raises
        ------
        TokenFileError
            If the stream cannot be read, or contains anything but whole ids.
        """
        try:
            for ids in self.read(size):
                yield ids.astype(np.uint32)
        except OSError as cause:
            raise read_error("-", cause, error=TokenFileError, what="stream of token ids") from cause


class TokenReader(TokenSource, Protocol):
    """An open token file: a read-only sequence of ids, and of documents if their borders are stored.

    Properties that the file does not store are None.
    """

    @property
    def path(self) -> Path:
        """The main file."""

    @property
    def ids(self) -> npt.NDArray[Any]:
        """All ids as a read-only array, mapped into memory if the format allows it, and otherwise read."""

    @property
    def n_documents(self) -> int | None:
        """The number of documents; None if the borders of documents are not stored."""

    @property
    def bytes_read(self) -> int | None:
        """The number of bytes of text that the ids encode."""

    @property
    def vocab_size(self) -> int | None:
        """One more than the largest id of the tokenizer."""

    @property
    def tokenizer_sha256(self) -> str | None:
        """The hash of the tokenizer (`Model.sha256`)."""

    @property
    def ids_sha256(self) -> str | None:
        """The hash of the ids, as little-endian integers of `dtype`."""

    def __len__(self) -> int:
        """Return the number of ids."""

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Array: ...

    def __getitem__(self, index: int | slice) -> int | Array:
        """Return one id, or a read-only array of consecutive ids."""

    def document(self, number: int) -> Array:
        """Return the ids of a document as a read-only array.

        Raises
        ------
        IndexError
            If there is no document with this number; negative numbers count from the end.
        TokenFileError
            If the borders of documents are not stored.
        """

    def document_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[tuple[Array, Array | None]]:
        """Yield all ids in order, in blocks of about `size`, each with the ends of the documents that end in it.

        Yields
        ------
        ids : array of `dtype`
        ends : int64 [documents], optional
            Positions in `ids`; None if the borders of documents are not stored.
        """

    def verify(self) -> None:
        """Read the whole file and raise TokenFileError if its ids differ from what was written, or that cannot be checked."""


class TokenWriter(Protocol):
    """A token file being written: a context manager, whose files appear when the block ends without an exception."""

    @property
    def path(self) -> Path | None:
        """The main file; None for a stream or a device."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the ids on disk."""

    @property
    def n_tokens(self) -> int:
        """The number of ids written so far."""

    def write(self, ids: npt.NDArray[np.integer[Any]], *, n_bytes: int = 0, ends: Array | None = None) -> None:
        """Append ids; raise TokenFileError if one is not below the vocabulary size.

        Parameters
        ----------
        ids : integers [tokens]
        n_bytes : int
            The number of bytes of text that they encode.
        ends : int64 [documents], optional
            Positions in `ids` at which documents end, in ascending order. The last document may continue in the next call.
            Ids after the last end belong to one more document, which ends with the file. Formats that store documents store
            a file that is written without ends as one document.
        """

    def __enter__(self) -> TokenWriter: ...  # noqa: PYI034 - typing has Self from Python 3.11 on

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class TokenFileFormat(ABC):
    """A format of token files.

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
        The names of the columns of its files, if these have rows; then its writers take `pack` and `columns`.
    stores_documents : bool
        True if its files always contain the borders of documents. Otherwise `document_index` adds a file with them.
    """

    name: ClassVar[str]
    suffix: ClassVar[str]
    other_suffixes: ClassVar[tuple[str, ...]] = ()
    dtypes: ClassVar[Mapping[str, np.dtype[Any]]]
    stores_documents: ClassVar[bool] = False
    own_columns: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def writer(
        self,
        path: StrPath | BinaryIO,
        *,
        dtype: str = "auto",
        vocab_size: int,
        tokenizer_sha256: str | None,
        overwrite: bool = False,
        document_index: bool = False,
    ) -> TokenWriter:
        """Return a writer.

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

    @abstractmethod
    def open(
        self, path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
    ) -> TokenReader:
        """Open a token file; the parameters and errors are the same as for `open_tokens`."""

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

    def files(self, path: StrPath) -> list[StrPath]:
        """Return all files of the token file at `path`, which a writer creates or removes and a reader reads."""
        return [path]

    def check_columns(self, schema: Any) -> None:  # noqa: ARG002
        """Raise OptionError if the format cannot store columns of these types, a pyarrow.Schema."""
        return

    def recognizes(self, path: StrPath) -> bool:
        """Return True if a file is in this format, judged without reading all of it."""
        return Path(path).suffix == self.suffix


def choose_dtype(dtypes: Mapping[str, np.dtype[Any]], dtype: str, vocab_size: int) -> np.dtype[Any]:
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
    if dtype == "auto":
        dtype = next((name for name in dtypes if vocab_size <= _capacity(dtypes[name])), list(dtypes)[-1])
    chosen = dtypes[arguments.choice("dtype", dtype, dtypes, error=TokenFileError)]
    if vocab_size > _capacity(chosen):
        raise TokenFileError(
            f"the vocabulary has ids up to {vocab_size - 1}, but {dtype} holds ids up to {_capacity(chosen) - 1}; "
            f"expected a dtype that holds every id: use `{list(dtypes)[-1]}` or `auto`"
        )
    return chosen


def _capacity(dtype: np.dtype[Any]) -> int:
    return int(np.iinfo(dtype).max) + 1
