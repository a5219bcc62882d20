"""Writing token files: the ids, little-endian uint16 or uint32, with a description beside them."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath, replacing_all
from bpejit.storage.outputs import check_outputs, is_device, is_standard_output
from bpejit.tokenfiles.description import Description, known_dtype, sidecar_path, write_description

_HASH_ALONGSIDE_BYTES = 1 << 16
"""From this size on a block is hashed by a second thread while it is written; below, handing it over takes longer."""


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
    chosen = known_dtype(dtype)
    if vocab_size > 1 << 8 * chosen.itemsize:
        raise TokenFileError(
            f"the vocabulary has ids up to {vocab_size - 1}, and {dtype} holds only up to {(1 << 8 * chosen.itemsize) - 1}; "
            "expected a dtype that holds every id: use `uint32` or `auto`"
        )
    return chosen


def check_token_outputs(path: StrPath | BinaryIO, *, inputs: Iterable[StrPath] = (), overwrite: bool = False) -> None:
    """Raise what `check_outputs` raises for a token file and its description; a stream always passes."""
    if not isinstance(path, (str, os.PathLike)):
        return
    alone = is_standard_output(path) or is_device(path)
    check_outputs([path] if alone else [path, sidecar_path(path)], inputs=inputs, overwrite=overwrite)


class TokenFileWriter:
    """Write a token file piece by piece; it appears with its description when the block ends without an exception.

    Parameters
    ----------
    path : path or binary stream
        A stream, a device, a pipe or standard output (`-`) receives the ids alone, without a description.
    dtype : str
        As for `token_dtype`.
    vocab_size : int
        One more than the largest id of the tokenizer.
    tokenizer_sha256 : str
        `Model.sha256` of the tokenizer.
    overwrite : bool
        Whether existing files are replaced.

    Raises
    ------
    TokenFileError
        If `dtype` cannot hold the ids; nothing is written then.
    OutputError
        If the file cannot be written, or exists and `overwrite` is false; what was there is unchanged.

    Examples
    --------
    >>> with TokenFileWriter("tokens.bin", vocab_size=50257, tokenizer_sha256="...") as writer:  # doctest: +SKIP
    ...     writer.write(np.array([15496, 995], dtype=np.uint32), n_bytes=11)
    """

    def __init__(
        self,
        path: StrPath | BinaryIO,
        *,
        dtype: str = "auto",
        vocab_size: int,
        tokenizer_sha256: str,
        overwrite: bool = False,
    ) -> None:
        self.dtype = token_dtype(dtype, vocab_size)
        self.path: Path | None = None
        self.n_tokens = 0
        self.n_bytes = 0
        self._name = "the output"
        self._vocab_size = vocab_size
        self._tokenizer_sha256 = tokenizer_sha256
        self._hash = hashlib.sha256()
        self._second_thread: ThreadPoolExecutor | None = None
        self._files = self._outputs(path, overwrite=overwrite)
        self._data, *self._sidecar = self._files.__enter__()
        self._open = True

    def _outputs(self, path: StrPath | BinaryIO, *, overwrite: bool) -> AbstractContextManager[Any]:
        """Return what opens the file, and its description if it has one."""
        if not isinstance(path, (str, os.PathLike)):
            return nullcontext([path])
        check_token_outputs(path, overwrite=overwrite)
        self._name = os.fspath(path)
        if is_standard_output(path):
            return nullcontext([sys.stdout.buffer])
        if is_device(path):
            return replacing_all([path])
        self.path = Path(path)
        return replacing_all([self.path, sidecar_path(self.path)])

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
                    f"`{self._name}`: an id is {largest if largest >= self._vocab_size else int(ids.min())}; "
                    f"expected 0 to {self._vocab_size - 1}, as the tokenizer has them: encode with that tokenizer"
                )
            self._write(np.ascontiguousarray(ids, dtype=self.dtype).data)
        self.n_tokens += int(ids.size)
        self.n_bytes += n_bytes

    def _write(self, data: memoryview) -> None:
        if not self._sidecar:
            self._data.write(data)
            return
        if data.nbytes < _HASH_ALONGSIDE_BYTES:
            self._hash.update(data)
            self._data.write(data)
            return
        if self._second_thread is None:  # not earlier: a process that has threads cannot fork its workers
            self._second_thread = ThreadPoolExecutor(1)
        try:
            hashed = self._second_thread.submit(self._hash.update, data)
        except RuntimeError:  # no room for a thread
            self._second_thread.shutdown(cancel_futures=True)
            self._second_thread = None
            self._hash.update(data)
            self._data.write(data)
            return
        try:
            self._data.write(data)
        finally:
            hashed.result()

    def close(self) -> None:
        """Finish the file and its description, and give both their names."""
        self.__exit__(None, None, None)

    def __enter__(self) -> TokenFileWriter:  # noqa: PYI034 - typing has Self from Python 3.11 on
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._open:
            return
        self._open = False
        if self._second_thread is not None:
            self._second_thread.shutdown()
        if kind is None:
            try:
                if self.path is None and hasattr(self._data, "flush"):
                    self._data.flush()  # an error must not be lost when the interpreter exits
                for sidecar in self._sidecar:
                    sidecar.write(self._description())
            except BaseException as failure:
                self._files.__exit__(type(failure), failure, failure.__traceback__)
                raise
        self._files.__exit__(kind, error, trace)

    def _description(self) -> bytes:
        return write_description(
            Description(
                dtype=self.dtype.name,
                tokens=self.n_tokens,
                bytes_read=self.n_bytes,
                vocab_size=self._vocab_size,
                tokenizer_sha256=self._tokenizer_sha256,
                ids_sha256=self._hash.hexdigest(),
            )
        )
