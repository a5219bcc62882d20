"""The command line of bpejit: thin commands around the library, installed as `bpejit_cli`.

Nothing heavy is imported before a command runs, so `bpejit --help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
import time

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after Ctrl-C and after SIGTERM: 128 and the number of the signal, as in shells."""

_AGAIN = 2.0
"""Seconds for which further SIGTERMs are ignored, so that they do not interrupt the removal of temporary files."""


def _terminate_by_exception() -> None:
    """Have SIGTERM, with which schedulers and containers end a job, raise SystemExit, so that temporary files are removed."""
    last = -_AGAIN

    def terminate(_number: int, _frame: object) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _AGAIN:
            last = now
            sys.exit(TERMINATED)

    signal.signal(signal.SIGTERM, terminate)


def main() -> None:
    """Run the `bpejit` command with the arguments of the process."""
    from . import streams

    streams.prepare()
    try:
        _terminate_by_exception()
        # NumPy's OpenBLAS starts a thread for each processor, at import and after each fork, that waits busily for a tenth of
        # a second: a fifth of the CPU time of a training on 30 MB. Nothing here multiplies large matrices.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from .app import program

        program.main(prog_name="bpejit")
    except KeyboardInterrupt:
        sys.stderr.write("bpejit: interrupted\n")
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        if end.code == TERMINATED:
            # Python restores the default action of handled signals before it ends: one more SIGTERM would change the exit code.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            sys.stderr.write("bpejit: terminated\n")
        raise


__all__ = ["main"]
