"""Headerless token files, as nanoGPT reads them: little-endian uint16 or uint32 ids, and nothing else.

Everything else is in `<file>.json` beside the file (see `bpejit.tokenfiles.description`), and with `document_index` the borders
of documents are in `<file>.docs.npy` (see `bpejit.tokenfiles.document_index`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
import numpy.typing as npt

from bpejit import arguments
from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath, read_error
from bpejit.tokenfiles.base import BLOCK_TOKENS, choose_dtype
from bpejit.tokenfiles.description import (
    BIN_FORMAT,
    DTYPES,
    described_format,
    description_path,
    known_dtype,
    read_description,
)
from bpejit.tokenfiles.document_index import find_document_index
from bpejit.tokenfiles.indexed_writer import IndexedFormat, IndexedWriter
from bpejit.tokenfiles.mapped_tokens import MappedTokens, check_description, checked_tokens
from bpejit.tokenfiles.mapping import map_ids, regular_size


class BinFormat(IndexedFormat):
    """The format of headerless token files."""

    name = BIN_FORMAT
    suffix = ".bin"
    dtypes: ClassVar[Mapping[str, np.dtype[Any]]] = DTYPES
    ids_position = 0

    def writer(
        self,
        path: StrPath | BinaryIO,
        *,
        dtype: str = "auto",
        vocab_size: int,
        tokenizer_sha256: str | None,
        overwrite: bool = False,
        document_index: bool = False,
    ) -> BinWriter:
        """Return a writer; a stream, a device, a pipe or standard output receives the ids alone, without a description."""
        return BinWriter(
            path,
            dtype=dtype,
            vocab_size=vocab_size,
            tokenizer_sha256=tokenizer_sha256,
            overwrite=overwrite,
            document_index=document_index,
        )

    def open(
        self, path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
    ) -> MappedTokens:
        """Open a token file, checked against its description."""
        return open_bin(path, dtype=dtype, tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size)

    def open_stream(self, stream: BinaryIO, *, dtype: str | None = None) -> TokenStream:
        """Return the ids of a stream, which needs a `dtype`."""
        if dtype is None:
            raise TokenFileError(
                "the dtype of the ids on standard input is not known; expected uint16 or uint32: "
                'pass `dtype="uint16"` or `dtype="uint32"`'
            )
        known_dtype(dtype)
        return TokenStream(stream, dtype)

    def recognizes(self, path: StrPath) -> bool:
        """Return True if a file has a description of this format."""
        return described_format(path) == BIN_FORMAT


class BinWriter(IndexedWriter):
    """Write a headerless token file. It appears with its description when the context exits without an exception.

    Parameters
    ----------
    path : path or binary stream
        A stream, a device, a pipe or standard output (`-`) receives the ids alone, without a description.
    dtype : str
        `uint16`, `uint32`, or `auto` for the smaller one that holds every id.
    vocab_size : int
        One more than the largest id of the tokenizer.
    tokenizer_sha256 : str, optional
        `Model.sha256` of the tokenizer; None if it is not known.
    overwrite : bool
        Replace existing files. Otherwise they are an error.
    document_index : bool
        Write the borders of documents to `<path>.docs.npy`.

    Raises
    ------
    TokenFileError
        If `dtype` cannot hold the ids. Nothing is written then.
    OutputError
        If the file cannot be written, or exists and `overwrite` is false. Existing files are unchanged then.

    Examples
    --------
    >>> with BinWriter("tokens.bin", vocab_size=50257, tokenizer_sha256="...") as writer:  # doctest: +SKIP
    ...     writer.write(np.array([15496, 995], dtype=np.uint32), n_bytes=11)
    """

    def __init__(
        self,
        path: StrPath | BinaryIO,
        *,
        dtype: str = "auto",
        vocab_size: int,
        tokenizer_sha256: str | None,
        overwrite: bool = False,
        document_index: bool = False,
    ) -> None:
        super().__init__(
            path,
            file_format=BIN_FORMAT,
            dtype=choose_dtype(DTYPES, dtype, vocab_size),
            vocab_size=vocab_size,
            tokenizer_sha256=tokenizer_sha256,
            overwrite=overwrite,
            document_index=document_index,
            streams=True,
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


def open_bin(
    path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
) -> MappedTokens:
    """Open a headerless token file; the parameters and errors are the same as for `bpejit.open_tokens`."""
    path = Path(arguments.path("path", path, error=TokenFileError))
    dtype = None if dtype is None else arguments.choice("dtype", dtype, DTYPES, error=TokenFileError)
    fields = read_description(path)  # first, because it may complete or undo an interrupted run
    size = regular_size(path)
    if fields is not None:
        check_description(
            path, fields, file_format=BIN_FORMAT, dtype=dtype, tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size
        )
        dtype = fields.dtype
    elif dtype is None:
        raise TokenFileError(
            f"the dtype of `{path}` is not known: there is no `{description_path(path)}`; "
            'expected that file or the dtype: pass `dtype="uint16"` or `dtype="uint32"`'
        )
    ids = map_ids(path, size, DTYPES[dtype])
    return checked_tokens(MappedTokens(path, ids, fields, find_document_index(path, fields, ids.size)))
