"""Token files that are one array of ids with a fixed header, or none: those of nanoGPT, NumPy, llm.c and modded-nanogpt.

`bin` has little-endian uint16 or uint32 ids and nothing else, as nanoGPT reads them, and `npy` what `numpy.load` reads.
`llmc` begins with a header of 256 little-endian int32 numbers: the first three are 20240520, 1 and the number of ids for uint16
(GPT-2), or 20240801, 7 and the number of ids for uint32 (Llama 3), and the others 0. The number of ids is below 2^31.

Everything else is in `<file>.json` beside the file (see `bpejit.tokenfiles.description`), and with `document_index` the borders
of documents are in `<file>.docs.npy` (see `bpejit.tokenfiles.mapping`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, ClassVar

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath, read_file
from bpejit.tokenfiles.base import MappedFormat
from bpejit.tokenfiles.description import ALL_DTYPES, BIN_FORMAT, DTYPES, Description, Dtypes, description_path
from bpejit.tokenfiles.mapping import HEADER_BYTES, NPY_MAGIC, MappedTokens, map_ids, map_npy, npy_header
from bpejit.tokenfiles.readers import TokenStream


class NpyFormat(MappedFormat):
    """The format of NumPy files."""

    name = "npy"
    suffix = ".npy"
    magic = NPY_MAGIC
    dtypes: ClassVar[Dtypes] = {name: ALL_DTYPES[name] for name in ("uint16", "uint32", "int32", "int64")}
    ids_position = HEADER_BYTES

    def header(self, fields: Description) -> bytes:
        """Return NumPy's header."""
        return npy_header(ALL_DTYPES[fields.dtype], fields.tokens)

    def map(self, path: Path, dtype: str | None) -> Array:  # noqa: ARG002
        """Return the array."""
        array = map_npy(path)
        found = array.dtype
        if found not in ALL_DTYPES.values():
            raise TokenFileError(
                f"`{path}` contains {found.str} ({found.name}); expected integers of one of {', '.join(ALL_DTYPES)}, "
                "little-endian: convert the array"
            )
        return array


class BinFormat(MappedFormat):
    """The format of headerless token files; a stream, a device or a pipe receives the ids alone, without a description."""

    name = BIN_FORMAT
    suffix = ".bin"
    dtypes: ClassVar[Dtypes] = DTYPES
    states_dtype = False
    streams = True

    def map(self, path: Path, dtype: str | None) -> Array:
        """Return the ids as numbers of the dtype of the description, or of the one that was given."""
        if dtype is None:
            raise TokenFileError(
                f"the dtype of `{path}` is not known: there is no `{description_path(path)}`; "
                'expected that file or the dtype: pass `dtype="uint16"` or `dtype="uint32"`'
            )
        return map_ids(path, DTYPES[dtype])

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
    done = 0
    while data := stream.read(size * little.itemsize):  # so many, unless the stream ends
        done += len(data)
        if done % little.itemsize:
            raise TokenFileError(
                f"standard input has {done} bytes, which is not a multiple of {little.itemsize}, the size of {dtype}; "
                "expected whole ids: check the dtype, and that the input is complete"
            )
        yield np.frombuffer(data, little)


_HEADER = np.dtype("<i4")

_HEADER_BYTES = 1024

_VERSIONS = {"uint16": (20240520, 1), "uint32": (20240801, 7)}

_LIMIT = 1 << 31


class LlmcFormat(MappedFormat):
    """The format of llm.c."""

    name = "llmc"
    suffix = ".bin"
    dtypes: ClassVar[Dtypes] = DTYPES
    ids_position = _HEADER_BYTES

    def check_size(self, n_tokens: int) -> None:
        """Raise TokenFileError if the header cannot store the number of ids."""
        if n_tokens >= _LIMIT:
            raise TokenFileError(
                f"cannot write more than {_LIMIT - 1} ids to a file, since the format llmc counts them with 31 bits; expected "
                "fewer: divide the output into several files with `shard_tokens=`"
            )

    def header(self, fields: Description) -> bytes:
        """Return the header with the number of ids."""
        self.check_size(fields.tokens)
        header = np.zeros(_HEADER_BYTES // 4, _HEADER)
        header[:3] = (*_VERSIONS[fields.dtype], fields.tokens)
        return header.tobytes()

    def map(self, path: Path, dtype: str | None) -> Array:  # noqa: ARG002
        """Return the ids after the header."""
        found, n_tokens = _read_header(path)
        ids = map_ids(path, DTYPES[found], offset=_HEADER_BYTES)
        MappedTokens(path, ids).check({"n_tokens": n_tokens}, "its header")
        return ids

    def is_like(self, path: StrPath) -> bool:
        """Return True if a file begins with a header."""
        try:
            _read_header(Path(path))
        except TokenFileError:
            return False
        return True


def _read_header(path: Path) -> tuple[str, int]:
    """Return the dtype and the number of ids in the header of a file."""
    data = read_file(path, error=TokenFileError, what="token file", most=_HEADER_BYTES)
    header = np.frombuffer(data[: len(data) // 4 * 4], _HEADER).tolist()
    for dtype, version in _VERSIONS.items():
        if len(data) == _HEADER_BYTES and tuple(header[:2]) == version and header[2] >= 0:
            return dtype, header[2]
    known = " or ".join(f"{magic}, {version} ({dtype})" for dtype, (magic, version) in _VERSIONS.items())
    raise TokenFileError(
        f"`{path}` is not a token file of llm.c: it begins with the numbers {', '.join(map(str, header[:2])) or 'none'}; "
        f"expected {known} in a header of {_HEADER_BYTES} bytes: check the path and the format"
    )
