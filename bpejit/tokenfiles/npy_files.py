"""Token files that `numpy.load` reads: one array of ids in NumPy's format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bpejit.errors import TokenFileError
from bpejit.tokenfiles.description import ALL_DTYPES, Description
from bpejit.tokenfiles.mapped_format import FileLayout, MappedFormat
from bpejit.tokenfiles.mapping import HEADER_BYTES, NPY_MAGIC, npy_header, read_npy_header


class NpyFormat(MappedFormat):
    """The format of NumPy files."""

    name = "npy"
    suffix = ".npy"
    magic = NPY_MAGIC
    dtypes: ClassVar[Mapping[str, np.dtype[Any]]] = {name: ALL_DTYPES[name] for name in ("uint16", "uint32", "int32", "int64")}
    ids_position = HEADER_BYTES

    def header(self, fields: Description) -> bytes:
        """Return NumPy's header."""
        return npy_header(ALL_DTYPES[fields.dtype], fields.tokens)

    def layout(self, path: Path, size: int, dtype: str | None) -> FileLayout:  # noqa: ARG002
        """Read the header."""
        found, _, position = read_npy_header(path)
        if found not in ALL_DTYPES.values():
            raise TokenFileError(
                f"`{path}` contains {found.str} ({found.name}); expected integers of one of {', '.join(ALL_DTYPES)}, "
                "little-endian: convert the array"
            )
        return FileLayout(found, position)
