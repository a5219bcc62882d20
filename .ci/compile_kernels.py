"""Compile all kernels in several processes, before tests: the processes of these would compile the same ones twice.

What a process has compiled also stays in its memory, some 300 MB of Numba's objects, which slow down each garbage collection.
"""

from __future__ import annotations

import subprocess
import sys

PARTS = "training", "encoding", "others"
"""The parts of `bpejit.warmup.warmup`, which have few kernels in common."""

CODE = "import sys; from bpejit.warmup import warmup; warmup(sys.argv[1])"


def main() -> int:
    """Start the processes, and wait for them."""
    running = [subprocess.Popen([sys.executable, "-c", CODE, part]) for part in PARTS]
    return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(main())
