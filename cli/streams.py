"""Standard streams of a process that may have been started without some of them, as with `2>&-`."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

from bpejit.errors import BpejitError, CorpusError, OutputError


class _Lenient(io.FileIO):
    """File that discards data that cannot be written, instead of raising an exception."""

    def write(self, data: Any) -> int:
        """Write bytes, and return their number."""
        with suppress(OSError):
            super().write(data)
        return memoryview(data).nbytes


class _Closed(io.RawIOBase):
    """Stream that was closed when the process started. Reading and writing raise an exception."""

    def __init__(self, number: int, error: BpejitError) -> None:
        self._number = number
        self._error = error

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._number

    def readable(self) -> bool:
        """Return True for standard input."""
        return self._number == 0

    def writable(self) -> bool:
        """Return True for standard output."""
        return self._number == 1

    def readinto(self, _buffer: Any) -> NoReturn:
        """Raise the exception of the stream."""
        raise self._error

    def write(self, _data: Any) -> NoReturn:
        """Raise the exception of the stream."""
        raise self._error


def prepare() -> None:
    """Open missing standard streams, and discard messages that cannot be written.

    A file that is opened while a stream is closed gets the descriptor of that stream, and messages would end up in the file.
    The null device is therefore opened in place of closed streams.
    """
    for number in range(3):
        if not _is_open(number):
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        missing = CorpusError("standard input is closed; expected text there: connect it (`< FILE`), or name a file")
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Closed(0, missing)), encoding="utf-8")
    if sys.stdout is None:
        lost = OutputError("standard output is closed, so the result would be lost: redirect it, or name a file with `--out`")
        sys.stdout = io.TextIOWrapper(_Closed(1, lost), encoding="utf-8", write_through=True)  # type: ignore[type-var]
    encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
    buffer = io.BufferedWriter(_Lenient(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(buffer, encoding=encoding, errors="backslashreplace", line_buffering=True)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
