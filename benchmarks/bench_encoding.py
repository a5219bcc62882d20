"""Encoding and decoding: bpejit against the plain-Python baseline, with one vocabulary, on the same text, on one thread.

    python benchmarks/bench_encoding.py [--file FILE] [--bytes N] [--vocab vocab.json --merges merges.txt] [--runs N]

First the ids of both are compared, and that they decode to the text; times are printed only if they are equal. Without
`--vocab` and `--merges`, GPT-2's pair of files, a vocabulary of `--vocab-size` tokens is trained on the text itself.

"First pass" is with a cache that holds what a fresh one holds (bpejit: the vocabulary; the baseline: nothing), "later
passes" is over the same text again: what a long corpus tends to, since most of its pre-tokens have been seen. The baseline
gets the text as a string and gives a list; bpejit gets bytes and gives an array. Without its cache, the baseline is what a
first assignment on the subject comes to; that row is bpejit's first pass against it. Of several runs the median is shown, with
the fastest and the slowest; the baseline runs once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import baseline
from setting import machine

HERE = Path(__file__).resolve().parent
SPECIAL = "<|endoftext|>"
UNCACHED = 1_000_000
"""Characters that the baseline encodes without its cache: more would take minutes."""


def timed(job: Callable[[], Any], n_runs: int) -> tuple[Any, list[float]]:
    """Result of the last run, and the seconds of each."""
    seconds = []
    for _ in range(n_runs):
        begun = time.perf_counter()
        result = job()
        seconds.append(time.perf_counter() - begun)
    return result, seconds


def make_tokenizer(text: bytes, options: argparse.Namespace) -> Any:
    import bpejit

    if options.vocab:
        return bpejit.Tokenizer.from_files(options.vocab, options.merges, [SPECIAL])
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.txt"
        corpus.write_bytes(text)
        return bpejit.train([corpus], vocab_size=options.vocab_size, special_tokens=[SPECIAL], engine="serial")


def row(what: str, n_bytes: int, old: list[float] | None, new: list[float]) -> str:
    def speed(seconds: list[float]) -> str:
        rates = sorted(n_bytes / second / 1e6 for second in seconds)
        shown = f"{median(rates):,.{0 if rates[0] > 10 else 2}f} MB/s"
        return shown if len(rates) == 1 else f"{shown} ({rates[0]:,.0f} to {rates[-1]:,.0f})"

    ratio = f"{median(old) / median(new):,.0f}" if old else ""
    return f"| {what} | {speed(old) if old else ''} | {speed(new)} | {ratio} |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare bpejit's encoding with the plain-Python baseline.")
    parser.add_argument("--file", type=Path, default=HERE.parent / "tests" / "data" / "prose.txt")
    parser.add_argument("--bytes", type=int, default=None, help="use only the first N bytes")
    parser.add_argument("--vocab", type=Path, default=None, help="GPT-2's vocab.json")
    parser.add_argument("--merges", type=Path, default=None, help="GPT-2's merges.txt")
    parser.add_argument("--vocab-size", type=int, default=8_000, help="without --vocab: of the vocabulary to train")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args(arguments)
    if (options.vocab is None) != (options.merges is None):
        parser.error("--vocab and --merges belong together: give both or none")

    # Cut at a character, so that both see the same text.
    string = options.file.read_bytes()[: options.bytes].decode("utf-8", "ignore")
    text = string.encode()
    begun = time.perf_counter()
    tokenizer = make_tokenizer(text, options)
    from bpejit.encoding.encoder import Encoder

    encoder = Encoder(tokenizer.model)
    workspace = encoder.new_workspace()
    preparing = time.perf_counter() - begun

    vocab = tokenizer.vocab
    ids = {token: number for number, token in vocab.items()}
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    cache: dict[bytes, list[int]] = {}
    theirs, their_first = timed(lambda: baseline.encode(string, ids, ranks, [SPECIAL], cache=cache), 1)
    _, their_later = timed(lambda: baseline.encode(string, ids, ranks, [SPECIAL], cache=cache), 1)
    few = string[:UNCACHED]
    _, their_uncached = timed(lambda: baseline.encode(few, ids, ranks, [SPECIAL]), 1)
    decoded, their_decoding = timed(lambda: b"".join([vocab[number] for number in theirs]), 1)

    our_first = []
    for _ in range(options.runs):
        workspace = encoder.new_workspace()
        ours, seconds = timed(lambda space=workspace: encoder.encode(text, space), 1)
        our_first += seconds
    _, our_later = timed(lambda: encoder.encode(text, workspace), options.runs)
    back, our_decoding = timed(lambda: encoder.decode(ours), options.runs)
    if ours.tolist() != theirs or back != text or decoded != text:
        sys.exit("the ids are not equal, or do not decode to the text: there is nothing to compare")

    print(machine("numpy", "numba", "regex"), end="\n\n")
    print(f"`python benchmarks/bench_encoding.py {' '.join(sys.argv[1:] if arguments is None else arguments)}`\n")
    print(
        f"{options.file.name}, {len(text):,} bytes, {len(theirs):,} tokens ({len(text) / len(theirs):.2f} bytes per token), "
        f"{len(vocab):,} in the vocabulary; one thread; equal ids."
    )
    print(f"Vocabulary, tables and kernels ready after {preparing:.1f} s, not counted below.\n")
    print("| | baseline | bpejit | times faster |\n| --- | ---: | ---: | ---: |")
    uncached = [second * len(text) / len(few.encode()) for second in their_uncached]
    print(row("encode, the baseline without its cache", len(text), uncached, our_first))
    print(row("encode, first pass", len(text), their_first, our_first))
    print(row("encode, later passes", len(text), their_later, our_later))
    print(row("decode", len(text), their_decoding, our_decoding))
    run = (b"abcdefghijklmnopqrstuvwxyz" * (1_000_000 // 26 + 1))[:1_000_000]
    letters = bytes(byte for byte in text if chr(byte).isalpha() and byte < 128)[:1_000_000] or run
    _, seconds = timed(lambda: encoder.encode(letters, workspace), 1)
    print(row(f"encode {len(letters):,} letters without a space", len(letters), None, seconds))
    short = text[:80]
    _, seconds = timed(lambda: [encoder.encode(short, workspace) for _ in range(1000)], options.runs)
    print(f"\nA call for {len(short)} bytes takes {median(seconds) * 1e3:.1f} microseconds.")


if __name__ == "__main__":
    main()
