"""The command line of bpejit: thin commands around the library, installed as `bpejit_cli`.

Nothing heavy is imported before a command runs, so `bpejit --help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Run the `bpejit` command with the arguments of the process."""
    from .app import program

    # As an exception, so that temporary files are removed; a scheduler ends a job this way.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    # NumPy's OpenBLAS starts a thread for each processor, at import and after each fork, that waits busily for a tenth of a
    # second: a fifth of the CPU time of a training on 30 MB. Nothing here multiplies large matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    program.main(prog_name="bpejit")


__all__ = ["main"]
