"""Subword vocabularies: bpejit against the plain-Python twin of the tests, on the same text, by processor time on one core.

    python benchmarks/bench_subword.py [--file FILE] [--bytes N] [--vocab-size N] [--runs N]

First the vocabularies and the ids of both are compared; times are printed only if they are equal. Both count the tokens of
the text's lines, bisect over the threshold, and encode the lines. The twin is what `tests/naive.py` has: the published
algorithm with dicts and slices. It encodes once without and once with a cache of tokens such as the published code has; it
gets strings and gives lists, bpejit gets bytes and gives arrays. The twin runs once; of bpejit the median is shown. Kernels
are compiled before.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

import naive  # noqa: E402
from setting import machine  # noqa: E402


def timed(job: Callable[[], Any], n_runs: int = 1) -> tuple[Any, float]:
    """Result of the last run, and the median of the seconds of processor time."""
    seconds = []
    for _ in range(n_runs):
        begun = time.process_time()
        result = job()
        seconds.append(time.process_time() - begun)
    return result, median(seconds)


def count(lines: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(naive.drop_spaces(naive.split_words(line)))
    return counts


def encode(lines: list[str], vocabulary: list[str], alphabet: set[str], cache: dict[str, list[int]] | None) -> list[int]:
    numbers = naive.build_edges(vocabulary)
    longest = max(map(len, numbers))
    ids = []
    for line in lines:
        ids += naive.encode_split(naive.drop_spaces(naive.split_words(line)), numbers, longest, alphabet, cache)
    return ids


def row(what: str, old: float, new: float, n_bytes: int | None = None) -> str:
    def show(seconds: float) -> str:
        return f"{seconds:,.2f} s" + (f" ({n_bytes / seconds / 1e6:,.1f} MB/s)" if n_bytes else "")

    return f"| {what} | {show(old)} | {show(new)} | {old / new:,.0f} |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare bpejit's subword vocabularies with their plain-Python twin.")
    parser.add_argument("--file", type=Path, default=HERE.parent / "tests" / "data" / "prose.txt")
    parser.add_argument("--bytes", type=int, default=None, help="use only the first N bytes")
    parser.add_argument("--vocab-size", type=int, default=8192)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)

    # Cut at a character, so that both see the same text.
    string = options.file.read_bytes()[: options.bytes].decode("utf-8", "ignore")
    text = string.encode()
    lines = string.split("\n")

    import numpy as np

    from bpejit.t2t.subword_text_encoder import RESERVED_TOKENS, SubwordTextEncoder, TokenCounter

    SubwordTextEncoder.build_from_generator(["compile every kernel"], 40).encode("first")

    def our_count() -> dict[str, int]:
        counter = TokenCounter()
        counter.add_lines(text)
        return counter.counts()

    def our_build() -> SubwordTextEncoder:
        return SubwordTextEncoder.build_to_target_size(options.vocab_size, our_counts, 1, 1000)

    our_counts, our_counting = timed(our_count, options.runs)
    encoder, our_building = timed(our_build, options.runs)
    ours, our_encoding = timed(lambda: np.concatenate(list(encoder.encode_lines(text))), options.runs)

    counts, counting = timed(lambda: count(lines))
    vocabulary, building = timed(lambda: naive.bisect_subtokens(counts, options.vocab_size, 1, 1000, RESERVED_TOKENS))
    alphabet = {character for token in [*counts, *RESERVED_TOKENS] for character in token} | naive.ESCAPE_CHARACTERS
    theirs, encoding = timed(lambda: encode(lines, vocabulary, alphabet, None))
    _, cached = timed(lambda: encode(lines, vocabulary, alphabet, {}))
    if our_counts != counts or list(encoder.all_subtoken_strings) != vocabulary or ours.tolist() != theirs:
        sys.exit("counts, vocabularies or ids are not equal: there is nothing to compare")

    print(machine("numpy", "numba"), end="\n\n")
    print(f"`python benchmarks/bench_subword.py {' '.join(sys.argv[1:] if arguments is None else arguments)}`\n")
    print(
        f"{options.file.name}, {len(text):,} bytes, {len(counts):,} distinct tokens, {len(vocabulary):,} subtokens, "
        f"{len(theirs):,} ids; processor time on one core; equal counts, vocabularies and ids.\n"
    )
    print("| | twin | bpejit | times faster |\n| --- | ---: | ---: | ---: |")
    print(row("count the tokens", counting, our_counting, len(text)))
    print(row("build from the counts", building, our_building))
    print(row("text to vocabulary", counting + building, our_counting + our_building))
    print(row("encode", encoding, our_encoding, len(text)))
    print(row("encode, the twin with a cache of tokens", cached, our_encoding, len(text)))


if __name__ == "__main__":
    main()
