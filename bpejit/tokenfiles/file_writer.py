"""The writer of token files: checks and counts the ids, hashes them, and writes their description."""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from bpejit.arrays import Array
from bpejit.errors import OutputError, TokenFileError
from bpejit.storage.files import StrPath, naming_output, replacing_all
from bpejit.storage.outputs import check_not_stream, check_outputs, is_device, is_standard_output
from bpejit.tokenfiles.description import END_DTYPE, Description, description_path, write_description
from bpejit.tokenfiles.mapping import read_ends


class TokenFileWriter:
    """Write a token file, block by block. It appears with its description when the context exits without an exception.

    This writes formats with one array of ids; the others have a subclass with the methods `_begin`, `_append` and `_finish`.

    Parameters
    ----------
    form : TokenFileFormat
    path : path or binary stream
        None as an attribute for a stream or a device, which receives what the main file would contain, without a description.
    dtype : np.dtype
    vocab_size, tokenizer_sha256, overwrite, document_index
        See `TokenFileFormat.writer`.

    Raises
    ------
    OutputError
        See `TokenFileFormat.writer`.
    """

    def __init__(
        self,
        form: Any,
        path: StrPath | BinaryIO,
        *,
        dtype: np.dtype[Any],
        vocab_size: int,
        tokenizer_sha256: str | None,
        overwrite: bool = False,
        document_index: bool = False,
    ) -> None:
        self.form = form
        self.dtype = dtype
        self.path: Path | None = None
        self.n_tokens = 0
        self.n_bytes = 0
        self.n_documents = 0
        self._last_end = 0
        self._name = "the output"
        self._ends_file: BinaryIO | None = None
        self._has_documents = document_index or form.stores_documents
        self._vocab_size = vocab_size
        self._tokenizer_sha256 = tokenizer_sha256
        self._hash = hashlib.sha256()
        self._documents_hash = hashlib.sha256()
        with ExitStack() as stack:
            self._data, *self._others = stack.enter_context(self._outputs(path, overwrite=overwrite))
            self._begin(stack)
            self._stack = stack.pop_all()
        self._open = True

    def _outputs(self, path: StrPath | BinaryIO, *, overwrite: bool) -> AbstractContextManager[Any]:
        """Return a context manager that opens the files, and the description last unless the output is a stream."""
        streams = self.form.streams and (self.form.stores_documents or not self._has_documents)
        if not isinstance(path, (str, os.PathLike)):
            if not streams:
                raise OutputError(
                    f"the format {self.form.name} cannot be written to a stream: it consists of several files, or its first "
                    "bytes are written last; expected a path: write a file"
                )
            return nullcontext([path])
        path = path if is_standard_output(path) or is_device(path) else self.form.main_file(path)
        self._name = os.fspath(path)
        borders = self.form.border_files(path)
        outputs = [path, *(borders if self._has_documents else []), description_path(path)]
        removed = [] if self._has_documents else borders  # these would not fit the new ids
        if not streams:
            check_not_stream(path, [os.fspath(file) for file in outputs])
        elif is_standard_output(path):
            return nullcontext([sys.stdout.buffer])
        elif is_device(path):
            return replacing_all([path])
        check_outputs([*outputs, *removed], overwrite=overwrite)
        self.path = Path(path)
        return replacing_all(outputs, remove=removed)

    def write(self, ids: npt.NDArray[np.integer[Any]], *, n_bytes: int = 0, ends: Array | None = None) -> None:
        """Append ids.

        Parameters
        ----------
        ids : integers [tokens]
        n_bytes : int
            The number of bytes of text that they encode.
        ends : int64 [documents], optional
            Positions in `ids` at which documents end, in ascending order. The last document may continue in the next call.
            Ids after the last end belong to one more document, which ends with the file. Formats that store documents store
            a file that is written without ends as one document.

        Raises
        ------
        TokenFileError
            If an id is not below the size of the vocabulary.
        ValueError
            If `ends` is not in ascending order, or the file is closed.
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
        if ends is None or not ends.size:
            ends = None
        else:
            _check_ends(ends, ids.size)
            ends = ends.astype(np.int64) + self.n_tokens
            self.n_documents += int(ends.size)
            self._last_end = int(ends[-1])
            self._hash_documents(ends)
        self.n_tokens += int(ids.size)
        self.n_bytes += n_bytes
        self._append(np.ascontiguousarray(ids, self.dtype), ends)

    def _begin(self, stack: ExitStack) -> None:
        """Write what precedes the ids; `stack` closes what the format opens, before the files are complete or abandoned."""
        self._data.write(bytes(self.form.ids_position))
        if self._has_documents:
            import tempfile  # not at the top: it takes 2 ms, and jobs have files of their own for the ends

            with naming_output(self._name, always=True):
                folder = Path(self._name).absolute().parent
                self._ends_file = file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed at the end
            stack.callback(_close, file)

    def _append(self, ids: Array, ends: Array | None) -> None:
        """Write ids of `dtype`, and the ends of documents, int64 [documents], as positions in the file."""
        if ids.size:
            if self._others:  # a stream has no description
                self._hash.update(ids.data)
            self._data.write(ids.data)
        if self._ends_file is not None and ends is not None:
            with naming_output(self._name, always=True):
                self._ends_file.write(ends.astype(END_DTYPE, copy=False).data)

    def _finish(self) -> None:
        """Write what follows the ids."""
        fields = self._fields()
        if self._ends_file is not None:
            with naming_output(self._name, always=True):
                self.form.write_borders(self._others[:-1], fields, partial(read_ends, self._ends_file))
        if self.form.ids_position:
            self._data.write_at_start(self.form.header(fields))

    def _hash_documents(self, ends: Array) -> None:
        """Hash the ends of documents, int64 [documents], as positions in the file."""
        self._documents_hash.update(ends.astype(END_DTYPE, copy=False).data)

    def close(self) -> None:
        """Complete the files, and rename them to their final names."""
        self.__exit__(None, None, None)

    def __enter__(self) -> TokenFileWriter:  # noqa: PYI034 - typing has Self from Python 3.11 on
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._open:
            return
        self._open = False
        try:
            if kind is None:
                self._complete()
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise
        self._stack.__exit__(kind, error, trace)

    def _complete(self) -> None:
        if self._has_documents and self._last_end < self.n_tokens:
            self.n_documents += 1
            ends = np.array([self.n_tokens], np.int64)
            self._hash_documents(ends)
            self._append(np.empty(0, self.dtype), ends)
        self._finish()
        if self._others:
            self._others[-1].write(write_description(self._fields()))
        elif hasattr(self._data, "flush"):
            self._data.flush()  # an error must not be lost when the interpreter exits

    def _fields(self) -> Description:
        """Return the description of what has been written."""
        return Description(
            dtype=self.dtype.name,
            tokens=self.n_tokens,
            bytes_read=None if self._tokenizer_sha256 is None else self.n_bytes,
            vocab_size=self._vocab_size,
            tokenizer_sha256=self._tokenizer_sha256,
            ids_sha256=self._hash.hexdigest(),
            documents=self.n_documents if self._has_documents else None,
            file_format=self.form.name,
            documents_sha256=self._documents_hash.hexdigest() if self._has_documents else None,
        )


def _close(file: BinaryIO) -> None:
    with suppress(OSError):  # a full disk, which an exception reports
        file.close()


def _check_ends(ends: Array, n_tokens: int) -> None:
    if ends.ndim != 1 or ends.dtype.kind not in "iu":
        raise ValueError(f"the ends of documents are {ends.dtype} [{ends.shape}]; expected integers with one dimension")
    if int(ends[0]) < 0 or int(ends[-1]) > n_tokens or (ends[1:] < ends[:-1]).any():
        raise ValueError(f"the ends of documents are not in ascending order from 0 to {n_tokens}, the number of ids")
