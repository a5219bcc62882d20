"""Token files of llm.c and modded-nanogpt: a header of 256 int32 numbers, then uint16 or uint32 ids.

The first three numbers are 20240520, 1 and the number of ids for uint16 (GPT-2), or 20240801, 7 and the number of ids for
uint32 (Llama 3); the others are 0. All are little-endian. The number of ids is below 2^31.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath, read_file
from bpejit.tokenfiles.description import DTYPES, Description
from bpejit.tokenfiles.mapped_format import FileLayout, MappedFormat

_HEADER = np.dtype("<i4")

_HEADER_BYTES = 1024

_VERSIONS = {"uint16": (20240520, 1), "uint32": (20240801, 7)}

_LIMIT = 1 << 31


class LlmcFormat(MappedFormat):
    """The format of llm.c."""

    name = "llmc"
    suffix = ".bin"
    dtypes: ClassVar[Mapping[str, np.dtype[Any]]] = DTYPES
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

    def layout(self, path: Path, size: int, dtype: str | None) -> FileLayout:  # noqa: ARG002
        """Read the header."""
        found, n_tokens = _read_header(path)
        return FileLayout(DTYPES[found], _HEADER_BYTES, n_tokens)

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
