"""Compare bpejit with plain Python, in a minute.

    python -m benchmarks

The baselines are a textbook trainer and encoder (`compare/tools/_plain_python.py`), and the usual optimized design of a trainer
(`indexed_python.py`). Merges, ids and bytes are compared before anything is printed; a difference is an error. For a comparison
with other tokenizers, see `python -m benchmarks.compare`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bpejit

from . import indexed_python
from .compare import machine
from .compare.corpora import END_OF_TEXT, ROOT
from .compare.tools import _plain_python as textbook

PROSE = ROOT / "tests" / "data" / "prose.txt"
SPECIAL_TOKENS = [END_OF_TEXT]
OUR_RUNS = 3
"""Runs of bpejit, of which the fastest counts; plain Python has one."""


class Row(NamedTuple):
    """A line of the table: a work, and the seconds of plain Python and of bpejit."""

    work: str
    plain: float
    ours: float


def timed(job: Callable[[], Any], runs: int) -> tuple[Any, float]:
    """Return the result of a call, and the seconds of the fastest of several.

    It is processor time: all works have one thread, and other programs disturb the wall time of long runs most.
    """
    seconds = []
    for _ in range(runs):
        begun = time.process_time()
        result = job()
        seconds.append(time.process_time() - begun)
    return result, min(seconds)


def compared(work: str, plain: Callable[[], Any], ours: Callable[[], Any]) -> tuple[Row, Any]:
    """Run both, and return their times and the result of bpejit; raise SystemExit if the results differ."""
    print(f"{work} ...", file=sys.stderr, flush=True)
    expected, plain_seconds = timed(plain, 1)
    found, our_seconds = timed(ours, OUR_RUNS)
    if expected != (found.tolist() if isinstance(found, np.ndarray) else found):
        raise SystemExit(f"{work}: the results of bpejit and plain Python differ; expected equal ones")
    return Row(work, plain_seconds, our_seconds), found


def size(data: bytes) -> str:
    """Return the size of a text, for readers."""
    n_bytes = len(data)
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"


def measure(text: str, n_merges: int, folder: Path) -> list[Row]:
    """Compare training, encoding and decoding; the textbook trainer learns a fifth of the merges."""
    rows = []
    path, data = folder / "text.txt", text.encode()
    path.write_bytes(data)

    def train(merges: int) -> Callable[[], list[tuple[bytes, bytes]]]:
        options: dict[str, Any] = {"vocab_size": 257 + merges, "special_tokens": SPECIAL_TOKENS, "workers": 1}
        return lambda: list(bpejit.train([path], **options).merges)

    few = max(1, n_merges // 5)
    label = f"training, {size(data)}, {few:,} merges, textbook"
    rows.append(compared(label, lambda: textbook.train(text, few, SPECIAL_TOKENS), train(few))[0])
    label = f"training, {size(data)}, {n_merges:,} merges, optimized design"
    row, merges = compared(
        label,
        lambda: indexed_python.learn_merges(textbook.count_pretokens(text, SPECIAL_TOKENS), n_merges),
        train(n_merges),
    )
    rows.append(row)
    tokens = [
        *(bytes([byte]) for byte in range(256)),
        *dict.fromkeys(left + right for left, right in merges),
        END_OF_TEXT.encode(),
    ]
    ids = {token: number for number, token in enumerate(tokens)}
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    vocabulary = dict(enumerate(tokens))
    empty = iter([bpejit.Tokenizer(vocabulary, merges, SPECIAL_TOKENS) for _ in range(OUR_RUNS)])  # no pre-token is cached
    row, encoded = compared(
        f"encoding, {size(data)}, with an empty cache",
        lambda: textbook.encode(text, ids, ranks, SPECIAL_TOKENS, cache={}),
        lambda: next(empty).encode_array(text),
    )
    rows.append(row)
    tokenizer, listed = bpejit.Tokenizer(vocabulary, merges, SPECIAL_TOKENS), encoded.tolist()
    row, _ = compared(
        f"decoding, {size(data)}",
        lambda: b"".join(map(vocabulary.__getitem__, listed)),
        lambda: tokenizer.decode_bytes(encoded),
    )
    return [*rows, row]


def seconds(number: float) -> str:
    """Return seconds with three digits that count."""
    return f"{number:.3g} s" if number >= 0.1 else f"{number * 1000:.3g} ms"


def print_table(rows: list[Row]) -> None:
    """Print the times, the ratios, and what was measured."""
    width = max(len(row.work) for row in rows)
    print(f"{'':<{width}}{'plain Python':>14}{'bpejit':>10}{'ratio':>8}")
    for row in rows:
        print(f"{row.work:<{width}}{seconds(row.plain):>14}{seconds(row.ours):>10}{row.plain / row.ours:>8,.0f}")
    commit, dirty = machine.commit()
    versions = ", ".join(f"{name} {number}" for name, number in machine.library_versions().items())
    print("\nMerges, ids and bytes are equal.")
    print(f"Processor time, without compilation; bpejit: the best of {OUR_RUNS} runs.")
    print(f"{machine.machine()['name']}, {machine.instructions()}; commit {commit}{' with changes' if dirty else ''}")
    print(versions)


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("text", nargs="?", type=Path, default=PROSE, help="a UTF-8 text (default: tests/data/prose.txt)")
    parser.add_argument("--bytes", type=int, default=1_000_000, help="how much of it (default: 1000000)")
    parser.add_argument("--merges", type=int, default=1_000, help="how many merges are learned (default: 1000)")
    options = parser.parse_args(arguments)
    text = options.text.read_bytes()[: options.bytes].decode("utf-8", "ignore")
    print("compiling or loading kernels ...", file=sys.stderr, flush=True)
    bpejit.warmup()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(text, options.merges, Path(folder))
    print_table(rows)


if __name__ == "__main__":
    main()
