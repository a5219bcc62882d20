"""Write flat token files: the ids as little-endian uint16 or uint32, with a description beside them."""

from __future__ import annotations

import hashlib
import os
import sys
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
from bpejit.tokenfiles.base import choose_dtype
from bpejit.tokenfiles.flat_description import DTYPES, Description, description_path, write_description

_HASH_ALONGSIDE_BYTES = 1 << 16
"""Blocks of at least this size are hashed by a second thread while they are written; for smaller ones it takes longer."""


class FlatWriter:
    """Write a flat token file, block by block. It appears with its description when the context exits without an exception.

    Parameters
    ----------
    path : path or binary stream
        A stream, a device, a pipe or standard output (`-`) receives the ids alone, without a description.
    dtype : str
        `uint16`, `uint32`, or `auto` for the smaller one that holds every id.
    vocab_size : int
        One more than the largest id of the tokenizer.
    tokenizer_sha256 : str
        `Model.sha256` of the tokenizer.
    overwrite : bool
        Replace existing files. Otherwise they are an error.

    Raises
    ------
    TokenFileError
        If `dtype` cannot hold the ids. Nothing is written then.
    OutputError
        If the file cannot be written, or exists and `overwrite` is false. Existing files are unchanged then.

    Examples
    --------
    >>> with FlatWriter("tokens.bin", vocab_size=50257, tokenizer_sha256="...") as writer:  # doctest: +SKIP
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
        self.dtype = choose_dtype(DTYPES, dtype, vocab_size)
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
        """Return a context manager that opens the file, and its description unless the output is a stream."""
        if not isinstance(path, (str, os.PathLike)):
            return nullcontext([path])
        self._name = os.fspath(path)
        if is_standard_output(path):
            return nullcontext([sys.stdout.buffer])
        outputs: list[StrPath] = [path] if is_device(path) else [path, description_path(path)]
        check_outputs(outputs, overwrite=overwrite)
        self.path = Path(path) if len(outputs) > 1 else None
        return replacing_all(outputs)

    def write(self, ids: npt.NDArray[np.unsignedinteger[Any]], *, n_bytes: int = 0) -> None:
        """Append ids.

        Parameters
        ----------
        ids : uint16 or uint32 [tokens]
        n_bytes : int
            The number of bytes of text that they encode.

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
                wrong = largest if largest >= self._vocab_size else int(ids.min())
                raise TokenFileError(
                    f"cannot write the id {wrong} to `{self._name}`; "
                    f"expected ids from 0 to {self._vocab_size - 1}, those in the vocabulary: encode with that tokenizer"
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
        if self._second_thread is None:  # not earlier: the engine forks its workers before they send ids
            self._second_thread = ThreadPoolExecutor(1)
        try:
            hashed = self._second_thread.submit(self._hash.update, data)
        except RuntimeError:  # no thread can be started
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
        """Complete the file and its description, and rename both to their final names."""
        self.__exit__(None, None, None)

    def __enter__(self) -> FlatWriter:  # noqa: PYI034 - typing has Self from Python 3.11 on
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
