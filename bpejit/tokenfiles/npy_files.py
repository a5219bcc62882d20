"""Token files that `numpy.load` reads: one array of ids in NumPy's format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bpejit import arguments
from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath
from bpejit.tokenfiles.description import ALL_DTYPES, Description, is_format, read_description
from bpejit.tokenfiles.document_index import find_document_index
from bpejit.tokenfiles.indexed_writer import IndexedFormat, IndexedWriter
from bpejit.tokenfiles.mapped_tokens import MappedTokens, check_description, checked_tokens
from bpejit.tokenfiles.mapping import map_ids, regular_size
from bpejit.tokenfiles.npy_header import HEADER_BYTES, NPY_MAGIC, npy_header, read_npy_header

_NAME = "npy"


class NpyWriter(IndexedWriter):
    """Write a NumPy file of ids."""

    def _begin(self) -> None:
        super()._begin()
        self._data.write(npy_header(self.dtype, 0))

    def _finish(self) -> None:
        super()._finish()
        self._data.write_at_start(npy_header(self.dtype, self.n_tokens))


class NpyFormat(IndexedFormat):
    """The format of NumPy files."""

    name = _NAME
    suffix = ".npy"
    dtypes: ClassVar[Mapping[str, np.dtype[Any]]] = {name: ALL_DTYPES[name] for name in ("uint16", "uint32", "int32", "int64")}
    writer_type = NpyWriter
    ids_position = HEADER_BYTES

    def header(self, fields: Description) -> bytes:
        """Return NumPy's header."""
        return npy_header(ALL_DTYPES[fields.dtype], fields.tokens)

    def open(
        self, path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
    ) -> MappedTokens:
        """Open a token file, checked against its description if there is one."""
        path = Path(arguments.path("path", path, error=TokenFileError))
        fields = read_description(path)
        size = regular_size(path)
        found, _, offset = read_npy_header(path)
        if found not in ALL_DTYPES.values() or dtype not in (None, found.name):
            expected = f"integers of one of {', '.join(ALL_DTYPES)}, little-endian" if dtype is None else dtype
            raise TokenFileError(
                f"`{path}` contains {found.str} ({found.name}); expected {expected}: omit the dtype, or convert the array"
            )
        if fields is not None:
            check_description(
                path, fields, file_format=_NAME, dtype=None, tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size
            )
        ids = map_ids(path, size, found, offset=offset)
        return checked_tokens(MappedTokens(path, ids, fields, find_document_index(path, fields, ids.size), offset))

    def recognizes(self, path: StrPath) -> bool:
        """Return True if a file is described as one of this format, or begins like one."""
        return is_format(path, _NAME, NPY_MAGIC)
