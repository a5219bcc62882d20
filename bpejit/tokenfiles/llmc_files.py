"""Token files of llm.c and modded-nanogpt: a header of 256 int32 numbers, then uint16 or uint32 ids.

The first three numbers are 20240520, 1 and the number of ids for uint16 (GPT-2), or 20240801, 7 and the number of ids for
uint32 (Llama 3); the others are 0. All are little-endian. The number of ids is below 2^31.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath, read_error
from bpejit.tokenfiles.description import DTYPES, Description, described_format, read_description
from bpejit.tokenfiles.document_index import find_document_index
from bpejit.tokenfiles.indexed_writer import IndexedFormat, IndexedWriter
from bpejit.tokenfiles.mapped_tokens import MappedTokens, check_description, checked_tokens
from bpejit.tokenfiles.mapping import map_ids, regular_size

_NAME = "llmc"

_HEADER = np.dtype("<i4")

_HEADER_BYTES = 1024

_VERSIONS = {"uint16": (20240520, 1), "uint32": (20240801, 7)}

_LIMIT = 1 << 31


class LlmcWriter(IndexedWriter):
    """Write a token file of llm.c."""

    def _begin(self) -> None:
        super()._begin()
        self._data.write(bytes(_HEADER_BYTES))

    def _append(self, ids: Array, ends: Array | None) -> None:
        _check_number(self.n_tokens)
        super()._append(ids, ends)

    def _finish(self) -> None:
        super()._finish()
        self._data.write_at_start(_header(self.dtype.name, self.n_tokens))


def _header(dtype: str, n_tokens: int) -> bytes:
    _check_number(n_tokens)
    header = np.zeros(_HEADER_BYTES // 4, dtype=_HEADER)
    header[:3] = (*_VERSIONS[dtype], n_tokens)
    return header.tobytes()


def _check_number(n_tokens: int) -> None:
    if n_tokens >= _LIMIT:
        raise TokenFileError(
            f"cannot write more than {_LIMIT - 1} ids to a file, since the format llmc counts them with 31 bits; expected "
            "fewer: divide the output into several files with `shard_tokens=`"
        )


class LlmcFormat(IndexedFormat):
    """The format of llm.c."""

    name = _NAME
    suffix = ".bin"
    dtypes: ClassVar[Mapping[str, np.dtype[Any]]] = DTYPES
    writer_type = LlmcWriter
    ids_position = _HEADER_BYTES

    def header(self, fields: Description) -> bytes:
        """Return the header with the number of ids."""
        return _header(fields.dtype, fields.tokens)

    def open(
        self, path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
    ) -> MappedTokens:
        """Open a token file, checked against its description if there is one."""
        path = Path(arguments.path("path", path, error=TokenFileError))
        fields = read_description(path)
        size = regular_size(path)
        found, n_tokens = _read_header(path)
        if dtype not in (None, found):
            raise TokenFileError(f"`{path}` contains ids of {found}; expected {dtype}: omit the dtype")
        if fields is not None:
            check_description(
                path, fields, file_format=_NAME, dtype=None, tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size
            )
        ids = map_ids(path, size, DTYPES[found], offset=_HEADER_BYTES)
        if ids.size != n_tokens:
            raise TokenFileError(
                f"`{path}` contains {ids.size} ids; expected {n_tokens}, the number in its header: copy the file again, or "
                "encode the text again"
            )
        return checked_tokens(MappedTokens(path, ids, fields, find_document_index(path, fields, ids.size), _HEADER_BYTES))

    def recognizes(self, path: StrPath) -> bool:
        """Return True if a file is described as one of this format, or begins like one."""
        found = described_format(path)
        if found is not None:
            return found == _NAME
        try:
            _read_header(Path(path))
        except TokenFileError:
            return False
        return True


def _read_header(path: Path) -> tuple[str, int]:
    """Return the dtype and the number of ids in the header of a file."""
    try:
        with path.open("rb") as file:
            data = file.read(_HEADER_BYTES)
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what="token file") from cause
    header = np.frombuffer(data[: len(data) // 4 * 4], dtype=_HEADER).tolist()
    for dtype, version in _VERSIONS.items():
        if len(data) == _HEADER_BYTES and tuple(header[:2]) == version and header[2] >= 0:
            return dtype, header[2]
    known = " or ".join(f"{magic}, {version} ({dtype})" for dtype, (magic, version) in _VERSIONS.items())
    raise TokenFileError(
        f"`{path}` is not a token file of llm.c: it begins with the numbers {', '.join(map(str, header[:2])) or 'none'}; "
        f"expected {known} in a header of {_HEADER_BYTES} bytes: check the path and the format"
    )
