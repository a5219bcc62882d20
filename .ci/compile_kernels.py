"""Compile all kernels in several processes, before tests: the processes of these would compile the same ones twice.

What a process has compiled also stays in its memory, some 300 MB of Numba's objects, which slow down each garbage collection.
"""

from __future__ import annotations

import subprocess
import sys
import time

from bpejit.jit.dispatch import BY_NUMBA

PARTS = "training", "encoding", "others"
"""The parts of `bpejit.warm_kernels.warmup`, which have few kernels in common."""

CODE = "import sys; from bpejit.warm_kernels import warmup; warmup(sys.argv[1])"

LINE_SECONDS = 10.0
"""Seconds between two lines."""


def compile_by_numba() -> int:
    """Compile what Numba itself stores, a part in each process; return the largest of their exit codes."""
    print("compiling all kernels with Numba's own dispatcher ...", flush=True)
    begun = time.monotonic()
    running = [subprocess.Popen([sys.executable, "-c", CODE, part]) for part in PARTS]
    for process in running:
        while True:
            try:
                process.wait(LINE_SECONDS)
                break
            except subprocess.TimeoutExpired:
                done = sum(one.poll() is not None for one in running)
                print(f"compiling: {done} of {len(PARTS)} parts, {time.monotonic() - begun:.0f} s", flush=True)
    print(f"compiled in {time.monotonic() - begun:.0f} s", flush=True)
    return max(process.returncode for process in running)


def main() -> int:
    """Compile, with a progress bar, or lines where the output is no terminal."""
    if BY_NUMBA:
        return compile_by_numba()
    return subprocess.run([sys.executable, "-m", "bpejit_cli", "warmup"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
