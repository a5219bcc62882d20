"""Token files as text: decimal numbers separated by spaces, with one document per line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import BinaryIO, ClassVar

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import TokenFileError, shorten
from bpejit.storage.files import StrPath, read_error
from bpejit.tokenfiles.base import TokenFileFormat
from bpejit.tokenfiles.description import DTYPES, Description, Dtypes
from bpejit.tokenfiles.file_writer import TokenFileWriter
from bpejit.tokenfiles.mapping import Borders, MappedTokens
from bpejit.tokenfiles.readers import TokenStream

_BYTES = 1 << 20
"""Number of bytes that are read at a time."""

_DTYPE = "uint32"

_ALLOWED = b"0123456789 \t\r\n\v\f"


class TextWriter(TokenFileWriter):
    """Write ids as numbers, with a line for each document."""

    def _begin(self, stack: ExitStack) -> None:  # noqa: ARG002
        self._position = 0
        self._in_line = False

    def _append(self, ids: Array, ends: Array | None) -> None:
        documents = np.split(ids, [] if ends is None else ends - self._position)
        lines = [" ".join(map(str, document.tolist())) for document in documents]
        self._hash.update(ids.data)
        self._data.write(((" " if self._in_line and lines[0] else "") + "\n".join(lines)).encode())
        self._position += int(ids.size)
        self._in_line = bool(lines[-1]) or (self._in_line and len(lines) == 1)


class TextFormat(TokenFileFormat):
    """The format of numbers as text; a stream, a device or a pipe receives the numbers alone, without a description."""

    name = "text"
    suffix = ".ids"
    other_suffixes = (".txt",)
    dtypes: ClassVar[Dtypes] = {_DTYPE: DTYPES[_DTYPE]}
    stores_documents = True
    streams = True
    writer_type = TextWriter

    def read(self, path: Path, fields: Description | None, dtype: str | None) -> MappedTokens:  # noqa: ARG002
        """Return an open token file, whose ids are read into memory."""
        try:
            with path.open("rb") as file:
                blocks = list(_numbers(file, str(path)))
        except OSError as cause:
            raise read_error(path, cause, error=TokenFileError, what="token file") from cause
        ids = np.concatenate([np.empty(0, DTYPES[_DTYPE]), *(block for block, _ in blocks)])
        ids.flags.writeable = False
        ends = np.concatenate([np.empty(0, np.int64), *(some for _, some in blocks)])
        return MappedTokens(path, ids, fields, Borders(path, ids.size, ends))

    def open_stream(self, stream: BinaryIO, *, dtype: str | None = None) -> TokenStream:  # noqa: ARG002 - numbers have no dtype
        """Return the ids of a stream of numbers."""
        return TokenStream(_DTYPE, lambda _: (ids for ids, _ in _numbers(stream, "standard input")))

    def is_like(self, path: StrPath) -> bool:
        """Return True if a file has the suffix of the format."""
        return Path(path).suffix == self.suffix and Path(path).is_file()


def _numbers(file: BinaryIO, name: str) -> Iterator[tuple[Array, Array]]:
    """Yield the ids of a file in blocks, each with the ends of the lines that end in it, as positions in all ids."""
    rest = b""
    line = 1
    done = 0
    ended = True
    while data := file.read(_BYTES) or (b"\n" if rest or not ended else b""):  # the end of the last line may be missing
        data = rest + data
        cut = max(data.rfind(b" "), data.rfind(b"\n")) + 1
        if len(rest) > _BYTES:  # no number is that long
            cut = len(data)
        rest = data[cut:]
        if cut:
            ids, ends = _parse(data[:cut], name, line)
            yield ids, ends + done
            done += ids.size
            line += data.count(b"\n", 0, cut)
            ended = data[cut - 1 : cut] == b"\n"


def _parse(data: bytes, name: str, first_line: int) -> tuple[Array, Array]:
    lines = [line.split() for line in data.split(b"\n")]
    try:
        ids = np.array(list(map(int, chain.from_iterable(lines))), np.int64)
        if data.translate(None, _ALLOWED) or (ids >> 32).any():  # such as the sign and the underscore that int() accepts
            raise ValueError
    except (ValueError, OverflowError):
        words = ((number, word) for number, line in enumerate(lines, first_line) for word in line)
        number, wrong = next((number, word) for number, word in words if not _is_id(word))
        raise TokenFileError(
            f"{name}, line {number}: {shorten(wrong.decode('utf-8', 'backslashreplace'))} is not a token id; expected numbers "
            f"from 0 to {2**32 - 1}, separated by spaces: check the input, or name its format with `format=`"
        ) from None
    return ids.astype(DTYPES[_DTYPE]), np.cumsum(list(map(len, lines[:-1])), dtype=np.int64)


def _is_id(word: bytes) -> bool:
    digits = word.lstrip(b"0")
    return word.isdigit() and len(word) < 1000 and len(digits) <= 10 and int(digits or b"0") < 1 << 32
