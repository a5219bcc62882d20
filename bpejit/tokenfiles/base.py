"""The interface of token file formats."""

from __future__ import annotations

import hashlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, overload

import numpy as np
import numpy.typing as npt

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.progress_bar import Progress, showing_progress
from bpejit.storage.files import StrPath, read_error
from bpejit.tokenfiles.description import END_DTYPE, Description, Dtypes, description_path

if TYPE_CHECKING:
    from bpejit.tokenfiles.file_writer import TokenFileWriter

BLOCK_TOKENS = 1 << 20
"""Default number of tokens per block."""


@dataclass(frozen=True)
class TokenStream:
    """Ids that are read once, in order, from a stream such as standard input.

    Parameters
    ----------
    dtype : str
    read : callable
        `read(size)` yields the ids as arrays, from about `size` ids read at a time.
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
                yield from (ids[start : start + size].astype(np.uint32) for start in range(0, ids.size, size))
        except OSError as cause:
            raise read_error("-", cause, error=TokenFileError, what="stream of token ids") from cause


class TokenReader(ABC):
    """One or several open token files: a read-only sequence of ids, and of documents if their borders are stored.

    Properties that the files do not store are None.

    Attributes
    ----------
    path : Path
        The main file, or what names several files.
    description : Description or None
    dtype : str
        The name of the dtype of the ids.
    format : str
        The name of the format.
    """

    path: Path
    description: Description | None
    dtype: str
    format: str

    @property
    def files(self) -> Sequence[tuple[Path, Description | None]]:
        """The main files, in order, each with its description."""
        return [(self.path, self.description)]

    def _described(self, name: str, combine: Callable[[list[Any]], Any]) -> Any:
        """Return what `combine` makes of a field of all descriptions, or None if it is not known for a file."""
        values = [getattr(description, name, None) for _, description in self.files]
        return None if None in values else combine(values)

    @property
    @abstractmethod
    def ids(self) -> npt.NDArray[Any]:
        """All ids as a read-only array, mapped into memory if the format allows it, and otherwise read."""

    @property
    @abstractmethod
    def n_tokens(self) -> int:
        """The number of ids."""

    @property
    @abstractmethod
    def n_documents(self) -> int | None:
        """The number of documents; None if the borders of documents are not stored."""

    @property
    def bytes_read(self) -> int | None:
        """The number of bytes of text that the ids encode."""
        return self._described("bytes_read", sum)  # type: ignore[no-any-return]

    @property
    def vocab_size(self) -> int | None:
        """One more than the largest id of the tokenizer."""
        return self._described("vocab_size", max)  # type: ignore[no-any-return]

    @property
    def tokenizer_sha256(self) -> str | None:
        """The hash of the tokenizer (`Model.sha256`)."""
        return self._described("tokenizer_sha256", max)  # type: ignore[no-any-return]

    @property
    def ids_sha256(self) -> str | None:
        """The hash of the ids, as little-endian integers of `dtype`; None for several files, which have one each."""
        return self._described("ids_sha256", lambda hashes: hashes[0] if len(hashes) == 1 else None)  # type: ignore[no-any-return]

    @property
    def has_hashes(self) -> bool:
        """Whether the ids of all files can be verified."""
        return self._described("ids_sha256", len) is not None

    def __len__(self) -> int:
        """Return the number of ids."""
        return self.n_tokens

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Array: ...

    def __getitem__(self, index: int | slice) -> int | Array:
        """Return one id, or a read-only array of consecutive ids."""
        if isinstance(index, slice):
            return self._slice(index)
        number = operator.index(index)
        n_tokens = self.n_tokens
        if not -n_tokens <= number < n_tokens:
            raise IndexError(f"there is no id at {number}; expected -{n_tokens} to {n_tokens - 1}: check `n_tokens`")
        number %= n_tokens
        return int(self._slice(slice(number, number + 1))[0])

    @abstractmethod
    def _slice(self, index: slice) -> Array:
        """Return some ids as a read-only array."""

    @abstractmethod
    def document(self, number: int) -> Array:
        """Return the ids of a document as a read-only array.

        Raises
        ------
        IndexError
            If there is no document with this number; negative numbers count from the end.
        TokenFileError
            If the borders of documents are not stored, or are wrong.
        """

    @abstractmethod
    def document_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[tuple[Array, Array | None]]:
        """Yield all ids in order, in blocks of about `size`, each with the ends of the documents that end in it.

        Yields
        ------
        ids : array of `dtype`
        ends : int64 [documents], optional
            Positions in `ids`; None if the borders of documents are not stored.

        Raises
        ------
        TokenFileError
            If the file cannot be read, became shorter after it was opened, or the borders of documents are wrong.
        """

    def _hashed_blocks(self) -> Iterator[tuple[Array, Array | None]]:
        """Yield all ids like `document_blocks`, with the ends of which the description has a hash."""
        return self.document_blocks()

    @abstractmethod
    def stored_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[Array]:
        """Yield all ids like `blocks`, but without a conversion, as arrays that are valid until the next one."""

    def blocks(self, size: int = BLOCK_TOKENS) -> Iterator[npt.NDArray[np.uint32]]:
        """Yield all ids in order as new arrays, uint32 [up to `size`], holding one block in memory at a time.

        Raises
        ------
        TokenFileError
            If the file cannot be read, or became shorter after it was opened.
        """
        for ids in self.stored_blocks(size):
            yield as_uint32(ids, self.path)

    @showing_progress
    def verify(self, *, progress: Progress | bool | None = None) -> None:
        """Read the whole file and compare it with its description. `progress` is as for `bpejit.train`.

        Raises
        ------
        TokenFileError
            If the SHA-256 of the ids or of the borders of documents, or the range of the ids differs from the description, the
            description has no hash of the ids, or the borders are wrong.
        """
        report = arguments.progress(progress)
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
        smallest = done = 0
        report("verify", done, self.n_tokens, "tokens")
        for ids, ends in self._hashed_blocks():
            of_ids.update(ids.data)
            if ends is not None:
                of_ends.update((ends + done).astype(END_DTYPE, copy=False).data)
            largest = max(largest, int(ids.max(initial=-1 if ids.dtype.kind == "i" else 0)))
            smallest = min(smallest, int(ids.min(initial=0)))
            done += ids.size
            report("verify", done, self.n_tokens, "tokens")
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

    def check(self, expected: Mapping[str, Any], source: str, action: str = "copy it again, or encode the text again") -> None:
        """Raise TokenFileError if attributes differ from what `source` states, unless a number of documents is not known."""
        for name, wanted in expected.items():
            found = getattr(self, name)
            if found != wanted and (name != "n_documents" or None not in (found, wanted)):
                raise TokenFileError(f"`{self.path}`: {name} is {found}; expected {wanted}, as in {source}: {action}")

    def _check_description(self) -> None:
        """Compare dtype and numbers with the description."""
        fields = self.description
        if fields is not None:
            expected = {"dtype": fields.dtype, "n_tokens": fields.tokens, "n_documents": fields.documents}
            self.check(expected, f"`{description_path(self.path)}`")


TokenSource = TokenReader | TokenStream
"""Token ids that are read in order, by `blocks`."""


TokenPaths = StrPath | Sequence[StrPath]
"""A token file, a glob, the manifest of a job, or a list of these."""


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
    dtypes: ClassVar[Dtypes]
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
    ) -> TokenFileWriter:
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
