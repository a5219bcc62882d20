"""The writer and the common methods of formats that consist of one file of ids, and optionally a document index."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from bpejit.arrays import Array
from bpejit.storage.files import StrPath, replacing
from bpejit.tokenfiles.base import TokenFileFormat, choose_dtype
from bpejit.tokenfiles.description import Description, description_path
from bpejit.tokenfiles.document_index import DocumentIndexWriter, document_index_path
from bpejit.tokenfiles.file_writer import TokenFileWriter


class IndexedWriter(TokenFileWriter):
    """Write one file of ids.

    Parameters
    ----------
    path : path or binary stream
    document_index : bool
        Write the borders of documents to `<path>.docs.npy`. Otherwise an existing file of this name is removed.
    streams : bool
        Allow streams and devices, without `document_index`.
    **options
        Further arguments of `TokenFileWriter`.
    """

    def __init__(self, path: StrPath | BinaryIO, *, document_index: bool, streams: bool = False, **options: Any) -> None:
        self.document_count = document_index
        self._index: DocumentIndexWriter | None = None
        files: list[StrPath] = []
        removed: list[StrPath] = []
        if isinstance(path, (str, os.PathLike)):
            files = [path]
            (files if document_index else removed).append(document_index_path(path))
        super().__init__(path, files=files, removed=removed, streams=streams and not document_index, **options)

    def _begin(self) -> None:
        if self.document_count:
            self._index = DocumentIndexWriter(self._others[0])

    def _append(self, ids: Array, ends: Array | None) -> None:
        super()._append(ids, ends)
        if self._index is not None and ends is not None:
            self._index.write(ends)

    def _finish(self) -> None:
        if self._index is not None:
            self._index.finish()


class IndexedFormat(TokenFileFormat):
    """A format with one file of ids, beside which a document index may be.

    Attributes
    ----------
    writer_type : type
    """

    writer_type: ClassVar[type[IndexedWriter]]

    def writer(
        self,
        path: StrPath | BinaryIO,
        *,
        dtype: str = "auto",
        vocab_size: int,
        tokenizer_sha256: str | None,
        overwrite: bool = False,
        document_index: bool = False,
    ) -> IndexedWriter:
        """Return a writer; streams are refused, because the header has the number of ids."""
        return self.writer_type(
            path,
            file_format=self.name,
            dtype=choose_dtype(self.dtypes, dtype, vocab_size),
            vocab_size=vocab_size,
            tokenizer_sha256=tokenizer_sha256,
            overwrite=overwrite,
            document_index=document_index,
        )

    def _write_borders(self, path: Path, fields: Description, ends: Iterator[Array]) -> None:  # noqa: ARG002
        with replacing(document_index_path(path)) as file:
            index = DocumentIndexWriter(file)
            for some in ends:
                index.write(some)
            index.finish()

    def files(self, path: StrPath) -> list[StrPath]:
        """Return the token file, its document index and its description."""
        return [path, document_index_path(path), description_path(path)]
