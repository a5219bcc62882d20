"""The command line of bpejit: thin commands around the library, installed as `bpejit_cli`.

Heavy modules are imported only when a command runs, so that `bpejit --help` is fast.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after Ctrl-C and SIGTERM: 128 plus the signal number, as in shells."""

_IGNORE_SECONDS = 2.0
"""Period in which further SIGTERMs are ignored, so that they do not interrupt the removal of temporary files."""


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
    from . import streams

    streams.prepare()
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
