"""How fast text is split into pre-tokens, per preset, next to the `regex` package.

    python benchmarks/bench_split.py [FILE...]            (default: the texts in tests/data)

Each file is split by both first, and the ends compared, every one; then it is timed on one core, in blocks of 64 KiB whose
ends go into a small buffer that is used again, as counting and encoding do it. MB/s are millions of bytes per second of
CPU time, the best of several runs; `regex` runs once, over already decoded text, and writes nothing down.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import regex

from bpejit.arrays import Array, padded_text
from bpejit.kernels.splitting import spans
from bpejit.splitting import PRESETS, Splitter, compile_pattern

BLOCK_BYTES = 1 << 16
TEXTS = Path(__file__).resolve().parent.parent / "tests" / "data"


def best_time(rounds: int, work: Callable[..., object], *arguments: Any) -> float:
    times = []
    for _ in range(rounds):
        start = time.thread_time()
        work(*arguments)
        times.append(time.thread_time() - start)
    return min(times)


def match_all(pattern: Any, text: str) -> int:
    return sum(1 for _ in pattern.finditer(text))


def split_blocks(splitter: Splitter, text: Array, n_bytes: int, ends: Array) -> int:
    """Split a whole text in blocks; return the number of pre-tokens."""
    state = splitter.new_state()
    total = position = 0
    while position < n_bytes:
        position = min(position + BLOCK_BYTES, n_bytes)
        state[spans.NEED_CALL] = 1
        while state[spans.NEED_CALL]:
            total += spans.split_spans(text, position, position == n_bytes, splitter.automaton, state, ends)
    return total


def machine() -> str:
    """The processor's name, as far as the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        default=[TEXTS / name for name in ("prose.txt", "code.txt", "cjk.txt")],
        help="texts to split",
    )
    parser.add_argument(
        "--pattern", action="append", help="preset or regular expression; may be repeated (default: all presets)"
    )
    parser.add_argument("--special-token", action="append", default=[], help="may be repeated (default: <|endoftext|>)")
    parser.add_argument("--rounds", type=int, default=7, help="runs of which the best counts (default: 7)")
    arguments = parser.parse_args()
    special_tokens = [token.encode() for token in arguments.special_token or ["<|endoftext|>"]]

    print(
        f"{machine()}, {platform.system()} {platform.machine()}, Python {platform.python_version()}, "
        f"numba {numba.__version__}, numpy {np.__version__}, regex {regex.__version__}"
    )
    print(f"{'pattern':10} {'file':24} {'MB':>6} {'pre-tokens':>11} {'regex MB/s':>11} {'bpejit MB/s':>12} {'ratio':>7}")
    ends = np.empty(BLOCK_BYTES + spans.MIN_ENDS, dtype=np.uint32)
    for pattern in arguments.pattern or PRESETS:
        compiled = compile_pattern(pattern)
        if compiled.tables is None:
            print(f"{pattern}: {compiled.reason}")
            continue
        splitter = Splitter(compiled, special_tokens)
        for file in arguments.files:
            data = file.read_bytes()
            text, n_bytes = padded_text(data)
            if n_bytes == 0:
                continue
            found = splitter.split(text, n_bytes)
            if not np.array_equal(found, splitter.split_by_regex(text, n_bytes)):
                print(f"{pattern} splits {file} otherwise than the regex package")
                return 1
            decoded = data.decode("utf-8", "surrogateescape")
            if len(compiled.stages) == 1:
                by_regex = best_time(1, match_all, compiled.stages[0], decoded)
            else:
                by_regex = best_time(1, splitter.split_by_regex, text, n_bytes)
            by_us = best_time(arguments.rounds, split_blocks, splitter, text, n_bytes, ends)
            print(
                f"{compiled.name or 'given':10} {file.name:24} {n_bytes / 1e6:6.1f} {found.size:11,} "
                f"{n_bytes / by_regex / 1e6:11.1f} {n_bytes / by_us / 1e6:12.0f} {by_regex / by_us:6.0f}x"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
