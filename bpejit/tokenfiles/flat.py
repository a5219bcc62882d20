"""Flat token files, as nanoGPT reads them: the ids, little-endian uint16 or uint32, and nothing else.

What the file does not say is in `<file>.json` beside it:

format, format_version
    What it is.
dtype
    `uint16` or `uint32`.
tokens
    How many there are.
bytes_read
    Of how many bytes of text.
tokenizer_sha256, vocab_size
    By which tokenizer (`Model.sha256`), and one more than its largest id.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from bpejit import arguments
from bpejit.errors import TokenFileError
from bpejit.files import OutputFile, StrPath, parse_json, read_error, read_file, replacing_all

FORMAT = "bpejit token file"

FORMAT_VERSION = 1

BLOCK_TOKENS = 1 << 20
"""Tokens that `TokenFile.blocks` reads at a time."""

DTYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
"""Types of an id, by name."""


def sidecar_path(path: StrPath) -> Path:
    """Return the path of the file that describes the token file `path`."""
    return Path(f"{os.fspath(path)}.json")


def token_dtype(dtype: str, vocab_size: int) -> np.dtype[Any]:
    """Return the dtype of a token file.

    Parameters
    ----------
    dtype : str
        `uint16`, `uint32`, or `auto` for the smaller one that holds every id.
    vocab_size : int
        One more than the largest id.

    Raises
    ------
    TokenFileError
        If the ids do not fit.
    """
    if dtype == "auto":
        dtype = "uint16" if vocab_size <= 1 << 16 else "uint32"
    chosen = _known_dtype(dtype)
    if vocab_size > 1 << 8 * chosen.itemsize:
        raise TokenFileError(
            f"the vocabulary has ids up to {vocab_size - 1}, and {dtype} holds only up to {(1 << 8 * chosen.itemsize) - 1}; "
            "expected a dtype that holds every id: use `uint32` or `auto`"
        )
    return chosen


def _known_dtype(dtype: str) -> np.dtype[Any]:
    return DTYPES[arguments.choice("dtype", dtype, DTYPES, error=TokenFileError)]


class TokenFileWriter:
    """Write a token file piece by piece; it appears with its description when the block ends without an exception.

    Parameters
    ----------
    path : path
    dtype : str
        As for `token_dtype`.
    vocab_size : int
        One more than the largest id of the tokenizer.
    tokenizer_sha256 : str
        `Model.sha256` of the tokenizer.

    Raises
    ------
    TokenFileError
        If `dtype` cannot hold the ids; nothing is written then.
    OutputError
        If the file cannot be written; what was there is unchanged.

    Examples
    --------
    >>> with TokenFileWriter("tokens.bin", vocab_size=50257, tokenizer_sha256="...") as writer:  # doctest: +SKIP
    ...     writer.write(np.array([15496, 995], dtype=np.uint32), n_bytes=11)
    """

    def __init__(self, path: StrPath, *, dtype: str = "auto", vocab_size: int, tokenizer_sha256: str) -> None:
        self.path = Path(path)
        self.dtype = token_dtype(dtype, vocab_size)
        self.n_tokens = 0
        self.n_bytes = 0
        self._vocab_size = vocab_size
        self._tokenizer_sha256 = tokenizer_sha256
        self._files: AbstractContextManager[list[OutputFile]] = replacing_all([self.path, sidecar_path(self.path)])
        self._data, self._sidecar = self._files.__enter__()
        self._open = True

    def write(self, ids: npt.NDArray[np.unsignedinteger[Any]], *, n_bytes: int = 0) -> None:
        """Append ids.

        Parameters
        ----------
        ids : uint16 or uint32 [tokens]
        n_bytes : int
            How many bytes of text they stand for.

        Raises
        ------
        TokenFileError
            If an id is not below `vocab_size`.
        """
        if not self._open:
            raise ValueError("the token file is closed")
        if ids.size:
            largest = int(ids.max())
            if largest >= self._vocab_size or int(ids.min()) < 0:
                raise TokenFileError(
                    f"`{self.path}`: an id is {largest if largest >= self._vocab_size else int(ids.min())}; "
                    f"expected 0 to {self._vocab_size - 1}, as the tokenizer has them: encode with that tokenizer"
                )
            self._data.write(np.ascontiguousarray(ids, dtype=self.dtype).data)
        self.n_tokens += int(ids.size)
        self.n_bytes += n_bytes

    def close(self) -> None:
        """Finish the file and its description, and give both their names."""
        self.__exit__(None, None, None)

    def __enter__(self) -> TokenFileWriter:  # noqa: PYI034 - typing has Self from Python 3.11 on
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._open:
            return
        self._open = False
        if kind is None:
            try:
                self._sidecar.write(self._description())
            except BaseException as failure:
                self._files.__exit__(type(failure), failure, failure.__traceback__)
                raise
        self._files.__exit__(kind, error, trace)

    def _description(self) -> bytes:
        fields = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "dtype": self.dtype.name,
            "byte_order": "little",
            "tokens": self.n_tokens,
            "bytes_read": self.n_bytes,
            "vocab_size": self._vocab_size,
            "tokenizer_sha256": self._tokenizer_sha256,
        }
        return (json.dumps(fields, indent=2) + "\n").encode()


@dataclass(frozen=True, eq=False)
class TokenFile:
    """A token file that `open_tokens` has checked.

    Parameters
    ----------
    path : Path
    ids : uint16 or uint32 [n_tokens]
        Mapped into memory, read-only.
    bytes_read, vocab_size, tokenizer_sha256
        What the description says; None where there is none.
    """

    path: Path
    ids: npt.NDArray[np.unsignedinteger[Any]]
    bytes_read: int | None
    vocab_size: int | None
    tokenizer_sha256: str | None

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
                    yield np.frombuffer(data, dtype=self.ids.dtype).astype(np.uint32)
        except OSError as cause:
            raise read_error(self.path, cause, error=TokenFileError, what="token file") from cause


def open_tokens(path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None) -> TokenFile:
    """Open a token file, checked against its description `<path>.json`.

    Parameters
    ----------
    path : path
    dtype : str, optional
        `uint16` or `uint32`; needed where there is no description.
    tokenizer_sha256 : str, optional
        `Model.sha256` of the tokenizer that is expected to have written it. A file without description passes, since it
        does not say.

    Raises
    ------
    TokenFileError
        If the file is missing or broken, is of another tokenizer, or does not say its dtype.
    """
    path = Path(arguments.path("path", path, error=TokenFileError))
    dtype = None if dtype is None else arguments.choice("dtype", dtype, DTYPES, error=TokenFileError)
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
    fields = _read_sidecar(path)
    if fields is None:
        if dtype is None:
            raise TokenFileError(
                f"`{path}` does not say what its ids are: there is no `{sidecar_path(path)}` beside it; "
                "expected that file or the dtype: say `--dtype uint16` or `--dtype uint32` (in Python `dtype=`)"
            )
        return TokenFile(path, _map(path, size, dtype), None, None, None)
    if dtype is not None and dtype != fields["dtype"]:
        raise TokenFileError(
            f"`{path}` was asked for as {dtype}, but `{sidecar_path(path)}` says that it is {fields['dtype']}; "
            "expected the same: leave the dtype out, or remove that file if it is wrong"
        )
    found = fields["tokenizer_sha256"]
    if tokenizer_sha256 is not None and found != tokenizer_sha256:
        raise TokenFileError(
            f"`{path}` was written by another tokenizer: its SHA-256 is {found}, this one's is {tokenizer_sha256}; "
            "expected the same: give the tokenizer it was encoded with (`--tokenizer`), or encode the text again"
        )
    ids = _map(path, size, fields["dtype"])
    if ids.size != fields["tokens"]:
        raise TokenFileError(
            f"`{path}` has {ids.size} tokens of {fields['dtype']}, but `{sidecar_path(path)}` says {fields['tokens']}; "
            "expected the same: the file was cut or changed: copy it again, or encode the text again"
        )
    return TokenFile(path, ids, fields["bytes_read"], fields["vocab_size"], found)


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


def _read_sidecar(path: Path) -> dict[str, Any] | None:
    described = sidecar_path(path)
    if not described.exists():
        return None
    fields = parse_json(
        read_file(described, error=TokenFileError, what="description of a token file"), described, error=TokenFileError
    )
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise TokenFileError(
            f"`{described}` is not the description of a token file; expected `format` to be {FORMAT!r}: "
            "move it away and give the dtype (`--dtype`, in Python `dtype=`)"
        )
    version = fields.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        raise TokenFileError(
            f"`{described}` has format version {version}, and this bpejit reads up to {FORMAT_VERSION}; "
            "expected an older one: install a later bpejit (`pip install --upgrade bpejit`)"
        )
    for key, valid, expected in (
        ("format_version", type(version) is int and version == 1, "1"),
        ("dtype", fields.get("dtype") in tuple(DTYPES), "'uint16' or 'uint32'"),
        ("tokens", _is_size(fields.get("tokens")), "a number of tokens"),
        ("bytes_read", _is_size(fields.get("bytes_read")), "a number of bytes"),
        ("vocab_size", _is_size(fields.get("vocab_size")), "a number of tokens"),
        ("tokenizer_sha256", isinstance(fields.get("tokenizer_sha256"), str), "a SHA-256"),
    ):
        if not valid:
            raise TokenFileError(
                f"`{described}`: {key} is {fields.get(key)!r}; expected {expected}: encode the text again, "
                "or move the file away and give the dtype (`--dtype`, in Python `dtype=`)"
            )
    return fields


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 0
