"""Compile all kernels in two processes, before tests: the processes of these would compile the same ones twice.

What a process has compiled also stays in its memory, some 300 MB of Numba's objects, which slow down each garbage collection.
"""

from __future__ import annotations

import subprocess
import sys

PARTS = ("training",), ("encoding", "others")
"""The parts of `bpejit.warmup.warmup` for each process, which take about the same time."""

CODE = "import sys; from bpejit.warmup import warmup; [warmup(part) for part in sys.argv[1:]]"


def main() -> int:
    """Start the processes, and wait for them."""
    running = [subprocess.Popen([sys.executable, "-c", CODE, *parts]) for parts in PARTS]
    return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(main())
