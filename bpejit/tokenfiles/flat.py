"""Flat token files, as nanoGPT reads them: little-endian uint16 or uint32 ids without a header.

Everything else is in `<file>.json` beside the file (see `bpejit.tokenfiles.flat_description`).
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
import numpy.typing as npt

from bpejit import arguments
from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath, read_error
from bpejit.tokenfiles.base import BLOCK_TOKENS, TokenFileFormat
from bpejit.tokenfiles.flat_description import DTYPES, Description, description_path, known_dtype, read_description
from bpejit.tokenfiles.flat_writer import FlatWriter


class FlatFormat(TokenFileFormat):
    """The format of flat token files."""

    name = "flat"
    suffix = ".bin"
    dtypes: ClassVar[Mapping[str, np.dtype[Any]]] = DTYPES

    def writer(
        self,
        path: StrPath | BinaryIO,
        *,
        dtype: str = "auto",
        vocab_size: int,
        tokenizer_sha256: str,
        overwrite: bool = False,
    ) -> FlatWriter:
        """Return a writer; a stream, a device, a pipe or standard output receives the ids alone, without a description."""
        return FlatWriter(path, dtype=dtype, vocab_size=vocab_size, tokenizer_sha256=tokenizer_sha256, overwrite=overwrite)

    def open(
        self, path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
    ) -> TokenFile:
        """Open a token file, checked against its description."""
        return open_flat(path, dtype=dtype, tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size)

    def open_stream(self, stream: BinaryIO, *, dtype: str | None = None) -> TokenStream:
        """Return the ids of a stream, which needs a `dtype`."""
        if dtype is None:
            raise TokenFileError(
                "the dtype of the ids on standard input is not known; expected uint16 or uint32: "
                'pass `dtype="uint16"` or `dtype="uint32"`'
            )
        known_dtype(dtype)
        return TokenStream(stream, dtype)

    def files(self, path: StrPath) -> list[StrPath]:
        """Return the token file and its description."""
        return [path, description_path(path)]

    def recognizes(self, path: StrPath) -> bool:
        """Return True if a file has a description."""
        return description_path(path).exists()


@dataclass(frozen=True, eq=False)
class TokenFile:
    """An open flat token file.

    Parameters
    ----------
    path : Path
    ids : uint16 or uint32 [n_tokens]
        Mapped into memory, read-only.
    bytes_read, vocab_size, tokenizer_sha256, ids_sha256
        The fields of the description; None if there is none.
    """

    path: Path
    ids: npt.NDArray[np.unsignedinteger[Any]]
    bytes_read: int | None
    vocab_size: int | None
    tokenizer_sha256: str | None
    ids_sha256: str | None = None

    @property
    def n_tokens(self) -> int:
        """The number of ids."""
        return int(self.ids.size)

    @property
    def dtype(self) -> str:
        """`uint16` or `uint32`."""
        return str(self.ids.dtype.name)

    def __len__(self) -> int:
        return self.n_tokens

    def blocks(self, size: int = BLOCK_TOKENS) -> Iterator[npt.NDArray[np.uint32]]:
        """Yield all ids in order as new arrays, uint32 [up to `size`], holding one block in memory at a time.

        Raises
        ------
        TokenFileError
            If the file cannot be read, or became shorter after it was opened.
        """
        for data in self._raw_blocks(size):
            yield np.frombuffer(data, dtype=self.ids.dtype).astype(np.uint32)

    def _raw_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[bytes]:
        # Read, not mapped: pages of a mapping would count as this process's memory until the system needs them.
        item = self.ids.dtype.itemsize
        try:
            with self.path.open("rb") as file:
                for start in range(0, self.n_tokens, size):
                    expected = min(size, self.n_tokens - start) * item
                    data = file.read(expected)
                    if len(data) != expected:
                        raise TokenFileError(
                            f"`{self.path}` ends after {start * item + len(data)} bytes; expected {self.n_tokens * item}, "
                            "its size when it was opened: do not change the file while it is read"
                        )
                    yield data
        except OSError as cause:
            raise read_error(self.path, cause, error=TokenFileError, what="token file") from cause

    def verify(self) -> None:
        """Read the whole file and compare it with its description.

        Raises
        ------
        TokenFileError
            If the SHA-256 of the ids or the range of the ids differs from the description, or the description has no hash.
        """
        described = description_path(self.path)
        if self.ids_sha256 is None:
            found = "has no hash of the ids" if described.exists() else "does not exist"
            raise TokenFileError(
                f"`{self.path}` cannot be verified: `{described}` {found}; expected `ids_sha256` in it: encode the text again"
            )
        found_hash = hashlib.sha256()
        largest = -1
        for data in self._raw_blocks():
            found_hash.update(data)
            largest = max(largest, int(np.frombuffer(data, dtype=self.ids.dtype).max()))
        if found_hash.hexdigest() != self.ids_sha256:
            raise TokenFileError(
                f"`{self.path}` does not match `{described}`: the SHA-256 of its ids is {found_hash.hexdigest()}; "
                f"expected {self.ids_sha256}: copy both files again, or encode the text again"
            )
        if self.vocab_size is not None and largest >= self.vocab_size:
            raise TokenFileError(
                f"`{self.path}` contains the id {largest}, but the vocabulary size in `{described}` is {self.vocab_size}; "
                "expected smaller ids: encode the text again"
            )


@dataclass(frozen=True)
class TokenStream:
    """Ids that are read once, in order, from a stream such as standard input.

    Parameters
    ----------
    stream : binary stream
    dtype : str
        `uint16` or `uint32`.
    n_tokens : None
        The number of ids is known only at the end.
    """

    stream: BinaryIO
    dtype: str
    n_tokens: int | None = field(default=None, init=False)

    def blocks(self, size: int = BLOCK_TOKENS) -> Iterator[npt.NDArray[np.uint32]]:
        """Yield all ids in order as new arrays, uint32 [up to `size`].

        Raises
        ------
        TokenFileError
            If the stream cannot be read, or ends within an id.
        """
        little = known_dtype(self.dtype)
        rest = b""
        done = 0
        try:
            while data := self.stream.read(size * little.itemsize - len(rest)):
                done += len(data)
                data = rest + data
                whole = len(data) - len(data) % little.itemsize
                rest = data[whole:]
                if whole:
                    yield np.frombuffer(data[:whole], dtype=little).astype(np.uint32)
        except OSError as cause:
            raise read_error("-", cause, error=TokenFileError, what="stream of token ids") from cause
        if rest:
            raise TokenFileError(
                f"standard input has {done} bytes, which is not a multiple of {little.itemsize}, the size of {self.dtype}; "
                "expected whole ids: check the dtype, and that the input is complete"
            )


def open_flat(
    path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
) -> TokenFile:
    """Open a flat token file; the parameters and errors are the same as for `bpejit.open_tokens`."""
    path = Path(arguments.path("path", path, error=TokenFileError))
    dtype = None if dtype is None else arguments.choice("dtype", dtype, DTYPES, error=TokenFileError)
    fields = read_description(path)  # first, because it may complete or undo an interrupted run
    try:
        status = path.stat()
        regular = stat.S_ISREG(status.st_mode)
        if regular or stat.S_ISDIR(status.st_mode):
            path.open("rb").close()  # raises now, not later, if the file cannot be read
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what="token file") from cause
    if not regular:
        raise TokenFileError(f"`{path}` is a device or a pipe; expected a regular file: write the ids to a file first")
    size = status.st_size
    if fields is None:
        if dtype is None:
            raise TokenFileError(
                f"the dtype of `{path}` is not known: there is no `{description_path(path)}`; "
                'expected that file or the dtype: pass `dtype="uint16"` or `dtype="uint32"`'
            )
        return TokenFile(path, _map(path, size, dtype), None, None, None)
    if dtype is not None and dtype != fields.dtype:
        raise TokenFileError(
            f"the dtype of `{path}` is {fields.dtype} according to `{description_path(path)}`, and {dtype} was passed; "
            "expected the same: omit the dtype, or remove that file if it is wrong"
        )
    if tokenizer_sha256 is not None and fields.tokenizer_sha256 != tokenizer_sha256:
        raise TokenFileError(
            f"`{path}` was written by another tokenizer: the SHA-256 of that tokenizer is {fields.tokenizer_sha256}; "
            f"expected {tokenizer_sha256}: use the tokenizer that wrote the file, or encode the text again"
        )
    _check_vocab_size(path, fields, vocab_size)
    ids = _map(path, size, fields.dtype)
    if ids.size != fields.tokens:
        raise TokenFileError(
            f"`{path}` has {ids.size} tokens of {fields.dtype}; expected {fields.tokens}, the number in "
            f"`{description_path(path)}`; the file was truncated or changed: copy it again, or encode the text again"
        )
    return TokenFile(path, ids, fields.bytes_read, fields.vocab_size, fields.tokenizer_sha256, fields.ids_sha256)


def _check_vocab_size(path: Path, fields: Description, vocab_size: int | None) -> None:
    """Raise if the vocabulary size in the description is impossible, or differs from the tokenizer's."""
    limit = 1 << 8 * DTYPES[fields.dtype].itemsize
    expected = None
    if vocab_size is not None and fields.vocab_size != vocab_size:
        expected = f"{vocab_size}, the size of the tokenizer's vocabulary"
    elif fields.vocab_size > limit:
        expected = f"at most {limit} for {fields.dtype}"
    elif fields.vocab_size == 0 and fields.tokens:
        expected = f"at least 1, because there are {fields.tokens} tokens"
    if expected is not None:
        raise TokenFileError(
            f"`{description_path(path)}`: vocab_size is {fields.vocab_size}; expected {expected}: encode the text again, "
            "or restore the description"
        )


def _map(path: Path, size: int, dtype: str) -> npt.NDArray[np.unsignedinteger[Any]]:
    little = DTYPES[dtype]
    if size % little.itemsize:
        raise TokenFileError(
            f"`{path}` has {size} bytes, which is not a multiple of {little.itemsize}, the size of {dtype}; "
            "expected whole ids; the file was truncated or has another dtype: copy it again, or check the dtype"
        )
    if size == 0:  # an empty file cannot be mapped
        empty = np.empty(0, dtype=little)
        empty.flags.writeable = False
        return empty
    try:
        return np.memmap(path, dtype=little, mode="r", shape=(size // little.itemsize,))
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what="token file") from cause
