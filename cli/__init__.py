"""The command line of bpejit: thin commands around the library, installed as `bpejit_cli`.

Heavy modules are imported only when a command runs, so that `bpejit --help` is fast.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from bpejit.errors import BpejitError, CorpusError, OutputError

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after Ctrl-C and SIGTERM: 128 plus the signal number, as in shells."""

_IGNORE_SECONDS = 2.0
"""Period in which further SIGTERMs are ignored, so that they do not interrupt the removal of temporary files."""


class _Lenient(io.FileIO):
    """File that discards data that cannot be written, instead of raising an exception."""

    def write(self, data: Any) -> int:
        """Write bytes, and return their number."""
        with suppress(OSError):
            super().write(data)
        return memoryview(data).nbytes


class _Closed(io.FileIO):
    """Stream that was closed when the process started. Reading and writing raise an exception."""

    def __init__(self, number: int, mode: str, error: BpejitError) -> None:
        super().__init__(number, mode, closefd=False)
        self._error = error

    def _fail(self, *_data: Any) -> NoReturn:
        raise self._error

    readinto = readall = write = _fail


def _prepare_streams() -> None:
    """Open missing standard streams, and discard messages that cannot be written.

    A file that is opened while a stream is closed gets the descriptor of that stream, and messages would end up in the file.
    The null device is therefore opened in place of closed streams.
    """
    for number in range(3):
        with suppress(OSError):
            os.fstat(number)
            continue
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        missing = CorpusError("standard input is closed; expected text there: connect it (`< FILE`), or name a file")
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Closed(0, "r", missing)), encoding="utf-8")
    if sys.stdout is None:
        lost = OutputError("standard output is closed, so the result would be lost: redirect it, or name a file with `--out`")
        sys.stdout = io.TextIOWrapper(_Closed(1, "w", lost), encoding="utf-8", write_through=True)
    encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
    buffer = io.BufferedWriter(_Lenient(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(buffer, encoding=encoding, errors="backslashreplace", line_buffering=True)


def _terminate_by_exception() -> None:
    """Raise SystemExit on SIGTERM, which schedulers and containers send, so that temporary files are removed."""
    last = -_IGNORE_SECONDS

    def terminate(_number: int, _frame: object) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _IGNORE_SECONDS:
            last = now
            sys.exit(TERMINATED)

    signal.signal(signal.SIGTERM, terminate)


def _use_utf8() -> None:
    """Start again in Python's UTF-8 mode if the locale is ASCII, in which arguments, names and output are not text."""
    mode = ["-X", "utf8"]
    if sys.getfilesystemencoding() == "ascii" and sys.executable and sys.orig_argv[1:3] != mode:
        os.execv(sys.executable, [sys.executable, *mode, *sys.orig_argv[1:]])


def main() -> None:
    """Run the `bpejit` command with the arguments of the process."""
    _use_utf8()
    # A command makes few reference cycles, but many objects at first. Collecting after every 700 new ones, and all of them
    # again at exit, took a fifth of the time of short commands.
    gc.set_threshold(100_000, 20, 20)
    _prepare_streams()
    try:
        _terminate_by_exception()
        # At import and after each fork, OpenBLAS in NumPy starts a thread per processor that busy-waits for 0.1 s:
        # a fifth of the CPU time of training on 30 MB. Nothing here multiplies large matrices.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from .app import program

        program.main(prog_name="bpejit")
    except KeyboardInterrupt:
        sys.stderr.write("bpejit: interrupted\n")
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        if end.code == TERMINATED:
            # Python restores the default signal handlers at exit, and another SIGTERM would then change the exit code.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            sys.stderr.write("bpejit: terminated\n")
        raise
    finally:
        gc.freeze()


__all__ = ["main"]
