"""The command line of bpejit: thin commands around the library, installed as `bpejit_cli`.

Nothing heavy is imported before a command runs, so `bpejit --help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def _terminate(number: int, _frame: object) -> NoReturn:
    """End with an exception, so that temporary files are removed: schedulers and containers end a job with SIGTERM."""
    signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt that
    sys.exit(128 + number)


def main() -> None:
    """Run the `bpejit` command with the arguments of the process."""
    from . import streams

    streams.prepare()
    signal.signal(signal.SIGTERM, _terminate)
    from .app import program

    # NumPy's OpenBLAS starts a thread for each processor, at import and after each fork, that waits busily for a tenth of a
    # second: a fifth of the CPU time of a training on 30 MB. Nothing here multiplies large matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    program.main(prog_name="bpejit")


__all__ = ["main"]
