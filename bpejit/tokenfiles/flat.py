"""Flat token files, as nanoGPT reads them: the ids, little-endian uint16 or uint32, and nothing else.

What the file does not say is in `<file>.json` beside it: see `bpejit.tokenfiles.description`.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from bpejit import arguments
from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath, read_error
from bpejit.tokenfiles.description import DTYPES, Description, known_dtype, read_description, sidecar_path

BLOCK_TOKENS = 1 << 20
"""Tokens that `TokenFile.blocks` reads at a time."""

STANDARD_INPUT = "-"


def token_inputs(path: StrPath) -> list[StrPath]:
    """Return the files that are read with a token file."""
    return [path] if os.fspath(path) == STANDARD_INPUT else [path, sidecar_path(path)]


@dataclass(frozen=True, eq=False)
class TokenFile:
    """A token file that `open_tokens` has checked.

    Parameters
    ----------
    path : Path
    ids : uint16 or uint32 [n_tokens]
        Mapped into memory, read-only.
    bytes_read, vocab_size, tokenizer_sha256, ids_sha256
        The fields of the description; None where there is none.
    """

    path: Path
    ids: npt.NDArray[np.unsignedinteger[Any]]
    bytes_read: int | None
    vocab_size: int | None
    tokenizer_sha256: str | None
    ids_sha256: str | None = None

    @property
    def n_tokens(self) -> int:
        """How many ids there are."""
        return int(self.ids.size)

    @property
    def dtype(self) -> str:
        """`uint16` or `uint32`."""
        return str(self.ids.dtype.name)

    def __len__(self) -> int:
        return self.n_tokens

    def blocks(self, size: int = BLOCK_TOKENS) -> Iterator[npt.NDArray[np.uint32]]:
        """Yield all ids in order as new arrays, uint32 [up to `size`], without keeping more than one block in memory.

        Raises
        ------
        TokenFileError
            If the file cannot be read, or has become shorter.
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
                            "as when it was opened: do not change it meanwhile"
                        )
                    yield data
        except OSError as cause:
            raise read_error(self.path, cause, error=TokenFileError, what="token file") from cause

    def verify(self) -> None:
        """Read the whole file, and compare it with its description.

        Raises
        ------
        TokenFileError
            If the SHA-256 of the ids or the range of the ids is not what the description says, or it says no hash.
        """
        described = sidecar_path(self.path)
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
                f"`{self.path}` does not hold the ids that `{described}` describes: its SHA-256 is {found_hash.hexdigest()}; "
                f"expected {self.ids_sha256}: copy both files again, or encode the text again"
            )
        if self.vocab_size is not None and largest >= self.vocab_size:
            raise TokenFileError(
                f"`{self.path}` holds the id {largest}, but `{described}` says that there are {self.vocab_size}; "
                "expected ids below that number: encode the text again"
            )


@dataclass(frozen=True)
class TokenStream:
    """Ids that are read once, in order, from a stream such as standard input.

    Parameters
    ----------
    stream : binary stream
    dtype : str
        `uint16` or `uint32`; a stream has no description.
    n_tokens : None
        Not known before the end.
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
            raise read_error(STANDARD_INPUT, cause, error=TokenFileError, what="stream of token ids") from cause
        if rest:
            raise TokenFileError(
                f"standard input has {done} bytes, which is not a multiple of the {little.itemsize} of {self.dtype}; "
                "expected whole ids: check the dtype, and that nothing was cut off"
            )


def read_tokens(
    path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
) -> TokenFile | TokenStream:
    """Open a token file to read it once, in blocks; `-` is standard input, which needs `dtype`.

    Parameters and errors are those of `open_tokens`.
    """
    if os.fspath(path) != STANDARD_INPUT:
        return open_tokens(path, dtype=dtype, tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size)
    if dtype is None:
        raise TokenFileError(
            'standard input does not say what its ids are; expected the dtype: give `dtype="uint16"` or `dtype="uint32"`'
        )
    known_dtype(dtype)
    return TokenStream(sys.stdin.buffer, dtype)


def open_tokens(
    path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
) -> TokenFile:
    """Open a token file, checked against its description `<path>.json`.

    The ids themselves are not read; `TokenFile.verify` compares them with the hash in the description.

    Parameters
    ----------
    path : path
    dtype : str, optional
        `uint16` or `uint32`; needed where there is no description.
    tokenizer_sha256 : str, optional
        `Model.sha256` of the tokenizer that is expected to have written it. A file without description passes, since it
        does not say.
    vocab_size : int, optional
        That of the same tokenizer.

    Raises
    ------
    TokenFileError
        If the file is missing or broken, is of another tokenizer, or does not say its dtype.
    """
    path = Path(arguments.path("path", path, error=TokenFileError))
    dtype = None if dtype is None else arguments.choice("dtype", dtype, DTYPES, error=TokenFileError)
    fields = read_description(path)  # first, since it may put in order what an interrupted run left
    try:
        status = path.stat()
        regular = stat.S_ISREG(status.st_mode)
        if regular or stat.S_ISDIR(status.st_mode):
            path.open("rb").close()  # tells now, not in the middle, that it may not be read
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what="token file") from cause
    if not regular:
        raise TokenFileError(f"`{path}` is a device or a pipe; expected a file, which can be mapped: write it to a file first")
    size = status.st_size
    if fields is None:
        if dtype is None:
            raise TokenFileError(
                f"`{path}` does not say what its ids are: there is no `{sidecar_path(path)}` beside it; "
                'expected that file or the dtype: give `dtype="uint16"` or `dtype="uint32"`'
            )
        return TokenFile(path, _map(path, size, dtype), None, None, None)
    if dtype is not None and dtype != fields.dtype:
        raise TokenFileError(
            f"`{path}` was asked for as {dtype}, but `{sidecar_path(path)}` says that it is {fields.dtype}; "
            "expected the same: leave the dtype out, or remove that file if it is wrong"
        )
    if tokenizer_sha256 is not None and fields.tokenizer_sha256 != tokenizer_sha256:
        raise TokenFileError(
            f"`{path}` was written by another tokenizer: its SHA-256 is {fields.tokenizer_sha256}, this one's is "
            f"{tokenizer_sha256}; expected the same: give the tokenizer it was encoded with, or encode the text again"
        )
    _check_vocab_size(path, fields, vocab_size)
    ids = _map(path, size, fields.dtype)
    if ids.size != fields.tokens:
        raise TokenFileError(
            f"`{path}` has {ids.size} tokens of {fields.dtype}, but `{sidecar_path(path)}` says {fields.tokens}; "
            "expected the same: the file was cut or changed: copy it again, or encode the text again"
        )
    return TokenFile(path, ids, fields.bytes_read, fields.vocab_size, fields.tokenizer_sha256, fields.ids_sha256)


def _check_vocab_size(path: Path, fields: Description, vocab_size: int | None) -> None:
    """Raise if the number of ids in the description cannot be, or is not that of the tokenizer."""
    limit = 1 << 8 * DTYPES[fields.dtype].itemsize
    expected = None
    if vocab_size is not None and fields.vocab_size != vocab_size:
        expected = f"{vocab_size}, as the tokenizer has"
    elif fields.vocab_size > limit:
        expected = f"at most {limit}, the ids of {fields.dtype}"
    elif fields.vocab_size == 0 and fields.tokens:
        expected = f"at least 1, since there are {fields.tokens} tokens"
    if expected is not None:
        raise TokenFileError(
            f"`{sidecar_path(path)}`: vocab_size is {fields.vocab_size}; expected {expected}: encode the text again, "
            "or restore the description"
        )


def _map(path: Path, size: int, dtype: str) -> npt.NDArray[np.unsignedinteger[Any]]:
    little = DTYPES[dtype]
    if size % little.itemsize:
        raise TokenFileError(
            f"`{path}` has {size} bytes, which is no multiple of the {little.itemsize} of {dtype}; "
            "expected whole ids: the file was cut or has another dtype: copy it again, or check the dtype"
        )
    if size == 0:  # nothing can be mapped
        empty = np.empty(0, dtype=little)
        empty.flags.writeable = False
        return empty
    try:
        return np.memmap(path, dtype=little, mode="r", shape=(size // little.itemsize,))
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what="token file") from cause
