"""Headerless token files, as nanoGPT reads them: little-endian uint16 or uint32 ids, and nothing else.

Everything else is in `<file>.json` beside the file (see `bpejit.tokenfiles.description`), and with `document_index` the borders
of documents are in `<file>.docs.npy` (see `bpejit.tokenfiles.borders`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath
from bpejit.tokenfiles.base import TokenStream
from bpejit.tokenfiles.description import BIN_FORMAT, DTYPES, description_path
from bpejit.tokenfiles.mapped_format import FileLayout, MappedFormat


class BinFormat(MappedFormat):
    """The format of headerless token files; a stream, a device or a pipe receives the ids alone, without a description."""

    name = BIN_FORMAT
    suffix = ".bin"
    dtypes: ClassVar[Mapping[str, np.dtype[Any]]] = DTYPES
    states_dtype = False
    streams = True

    def layout(self, path: Path, size: int, dtype: str | None) -> FileLayout:  # noqa: ARG002
        """Return the dtype of the description, or the one that was given."""
        if dtype is None:
            raise TokenFileError(
                f"the dtype of `{path}` is not known: there is no `{description_path(path)}`; "
                'expected that file or the dtype: pass `dtype="uint16"` or `dtype="uint32"`'
            )
        return FileLayout(DTYPES[dtype])

    def open_stream(self, stream: BinaryIO, *, dtype: str | None = None) -> TokenStream:
        """Return the ids of a stream, which needs a `dtype`."""
        if dtype is None:
            raise TokenFileError(
                "the dtype of the ids on standard input is not known; expected uint16 or uint32: "
                'pass `dtype="uint16"` or `dtype="uint32"`'
            )
        dtype = arguments.choice("dtype", dtype, DTYPES, error=TokenFileError)
        return TokenStream(dtype, partial(_stream_ids, stream, dtype))

    def is_like(self, path: StrPath) -> bool:  # noqa: ARG002
        """Return False: ids alone may be anything."""
        return False


def _stream_ids(stream: BinaryIO, dtype: str, size: int) -> Iterator[Array]:
    """Yield the ids of a stream, [up to `size`], or raise TokenFileError if it ends within an id."""
    little = DTYPES[dtype]
    rest = b""
    done = 0
    while data := stream.read(size * little.itemsize - len(rest)):
        done += len(data)
        data = rest + data
        whole = len(data) - len(data) % little.itemsize
        rest = data[whole:]
        if whole:
            yield np.frombuffer(data[:whole], little)
    if rest:
        raise TokenFileError(
            f"standard input has {done} bytes, which is not a multiple of {little.itemsize}, the size of {dtype}; "
            "expected whole ids: check the dtype, and that the input is complete"
        )
