"""Training: bpejit against the plain-Python baseline on the same text, on one core.

    python benchmarks/bench_training.py [--file FILE] [--bytes N] [--vocab-size N] [--large-vocab-size N] [--runs N]

First the merges of both are compared; times are printed only if they are equal. Each run is a process of its own, and the
file is read outside the timer. Compiling the kernels, or loading them from numba's cache, is timed separately: it happens
once per machine, or once per process. The baseline runs once, since it takes minutes; of bpejit's runs the median is
shown, with the fastest and the slowest.

The last row is for bpejit alone, at the vocabulary size that people use: the baseline recounts all pairs at every merge,
and would take hours.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import baseline
from setting import machine

HERE = Path(__file__).resolve().parent
SPECIAL = "<|endoftext|>"


class Run(NamedTuple):
    merges: list[baseline.Pair]
    pretokens: int
    preparing: float  # seconds to compile or to load kernels
    counting: float
    merging: float
    megabytes: float  # peak memory of the process: Python, the libraries, the text, the work


def peak_megabytes() -> float:
    import resource

    # bytes on macOS, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def run_baseline(text: bytes, n_merges: int) -> Run:
    string = text.decode("utf-8", "replace")
    begun = time.perf_counter()
    counts = baseline.count_pretokens(string, [SPECIAL])
    counted = time.perf_counter()
    merges = baseline.learn_merges(counts, n_merges)
    done = time.perf_counter()
    return Run(merges, len(counts), 0.0, counted - begun, done - counted, peak_megabytes())


def run_bpejit(text: bytes, n_merges: int) -> Run:
    from bpejit.arrays import padded_text
    from bpejit.splitting import Splitter
    from bpejit.training.counting import PretokenCounter
    from bpejit.training.merge_learner import learn_merges
    from bpejit.warmup import warmup

    begun = time.perf_counter()
    warmup()
    preparing = time.perf_counter() - begun
    padded, n_bytes = padded_text(text)
    begun = time.perf_counter()
    counter = PretokenCounter()
    counter.add_text(Splitter("gpt2", [SPECIAL.encode()]), padded, n_bytes, n_bytes, True)
    table = counter.table()
    counted = time.perf_counter()
    merges = learn_merges(table, n_merges)
    done = time.perf_counter()

    megabytes = peak_megabytes()
    tokens = merges.token_bytes()
    pairs = [(tokens[left], tokens[right]) for left, right in zip(merges.left.tolist(), merges.right.tolist(), strict=True)]
    return Run(pairs, len(table), preparing, counted - begun, done - counted, megabytes)


def runs_of(job, text: bytes, n_merges: int, n_runs: int) -> list[Run]:
    """Run a job in fresh processes, one after the other."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return [pool.apply(job, (text, n_merges)) for _ in range(n_runs)]


def spread(seconds: list[float]) -> str:
    if len(seconds) == 1:
        return f"{seconds[0]:.3f} s"
    return f"{median(seconds):.3f} s ({min(seconds):.3f} to {max(seconds):.3f})"


def row(what: str, old: list[float], new: list[float]) -> str:
    return f"| {what} | {spread(old)} | {spread(new)} | {median(old) / median(new):,.0f} |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare bpejit's training with the plain-Python baseline.")
    parser.add_argument("--file", type=Path, default=HERE.parent / "tests" / "data" / "prose.txt")
    parser.add_argument("--bytes", type=int, default=None, help="use only the first N bytes")
    parser.add_argument("--vocab-size", type=int, default=1000, help="of both, special token included")
    parser.add_argument("--large-vocab-size", type=int, default=32_000, help="of bpejit alone; 0 to leave it out")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args(arguments)

    # Cut at a character, so that both see the same text.
    text = options.file.read_bytes()[: options.bytes].decode("utf-8", "ignore").encode()
    n_merges = options.vocab_size - 257
    ours = runs_of(run_bpejit, text, n_merges, options.runs)
    theirs = runs_of(run_baseline, text, n_merges, 1)
    if any(run.merges != theirs[0].merges for run in ours):
        sys.exit("the merges are not equal: there is nothing to compare")

    print(machine("numpy", "numba", "regex"), end="\n\n")
    print(f"`python benchmarks/bench_training.py {' '.join(sys.argv[1:] if arguments is None else arguments)}`\n")
    print(f"{options.file.name}, {len(text):,} bytes, {ours[0].pretokens:,} distinct pre-tokens; one core; equal merges.")
    print(f"Kernels ready after {spread([run.preparing for run in ours])}, not counted below.\n")
    print("| | baseline | bpejit | times faster |\n| --- | ---: | ---: | ---: |")
    print(row("count pre-tokens", [run.counting for run in theirs], [run.counting for run in ours]))
    print(row(f"{len(theirs[0].merges):,} merges", [run.merging for run in theirs], [run.merging for run in ours]))
    print(
        row("together", [run.counting + run.merging for run in theirs], [run.counting + run.merging for run in ours]),
    )
    print(f"| peak memory of the process | {theirs[0].megabytes:,.0f} MB | {median(run.megabytes for run in ours):,.0f} MB | |")
    if options.large_vocab_size:
        large = runs_of(run_bpejit, text, options.large_vocab_size - 257, options.runs)
        seconds = [run.merging for run in large]
        n = len(large[0].merges)
        print(f"| {n:,} merges | | {spread(seconds)}, {n / median(seconds):,.0f} a second | |")


if __name__ == "__main__":
    main()
