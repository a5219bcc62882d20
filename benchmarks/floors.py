"""Measure what no tokenizer with these interfaces can avoid: `python -m benchmarks.floors [FILE.txt]`.

Each floor is the best of several runs of the unavoidable work alone, without any tokenization, beside the whole work of bpejit
in the same process. FILE.txt is an English text; the default is the one of the benchmarks.
"""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.utf8 import encode_slices

from .compare.corpora import Corpora, cut, documents_of
from .compare.vocabularies import Vocabularies
from .compare.works.batch import short_texts

N_TEXTS = 200_000
STREAM_BYTES = 5_000_000
STRING_BYTES = 4_000_000
SHORT_ARRAYS = {53: 200_000, 614: 40_000}
"""The number of texts by their characters."""

GROUP = 1 << 8
BLOCK_IDS = 1 << 16
BLOCK_BYTES = 1 << 18
RUNS = 7


def best(work: Callable[[], Any], runs: int = RUNS) -> float:
    """Return the shortest wall time in seconds."""
    times = []
    for _ in range(runs):
        gc.collect()
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def show(label: str, seconds: float, n_bytes: int = 0) -> None:
    """Print a line."""
    rate = f"{n_bytes / seconds / 1e6:8,.0f} MB/s" if n_bytes else ""
    shown = f"{seconds * 1e3:9.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:9.2f} µs"
    print(f"{label:66}{shown}{rate}", flush=True)


def batches(tokenizer: Any, text: str) -> None:
    """A list of short texts: joining the strings, splitting each text by itself, and lists of lists."""
    from bpejit.arrays import padded_text
    from bpejit.kernels.splitting.spans import split_adjacent
    from bpejit.splitting.automaton import SEPARATOR

    texts = short_texts(text, N_TEXTS)
    n_bytes = sum(len(one.encode()) for one in texts)

    def join() -> None:
        for start in range(0, len(texts), GROUP):
            group = texts[start : start + GROUP]
            SEPARATOR.decode().join(group).encode()

    splitter = tokenizer._codec.encoder.splitter
    data, length = padded_text("".join(texts).encode())
    stops = np.cumsum([len(one.encode()) for one in texts])
    ends = np.empty(1 << 16, dtype=np.uint32)

    separated, n_separated = padded_text(b"".join(one.encode() + SEPARATOR for one in texts))

    def split_texts(data: Any, stops: Any, automaton: Any) -> None:
        first, state = np.zeros(1, dtype=np.int64), splitter.new_state()
        while first[0] < stops.size:
            split_adjacent(data, stops, first, True, automaton, state, ends)

    def split_one_by_one() -> None:
        split_texts(data, stops, splitter.automaton)

    def split_separated() -> None:
        split_texts(separated, np.array([n_separated]), splitter.separated.automaton)

    joined = "".join(texts).encode()
    batch = tokenizer.encode_batch(texts)
    show("batch of short texts: encode_batch, one thread", best(lambda: tokenizer.encode_batch(texts)), n_bytes)
    show("  encode_batch, two threads", best(lambda: tokenizer.encode_batch(texts, num_threads=2)), n_bytes)
    show("  floor: join and encode the strings, with the GIL", best(join), n_bytes)
    show("  splitting each text by itself", best(split_one_by_one), n_bytes)
    show("  splitting them with separators", best(split_separated), n_bytes)
    show("  splitting all of them as one text", best(lambda: splitter.split(data, length)), n_bytes)
    show("  encoding all of them as one text", best(lambda: tokenizer.encode_array(joined)), n_bytes)
    show("  ids as lists of lists, for interfaces that return them", best(batch.tolist), n_bytes)


def one_text(tokenizer: Any, text: str) -> None:
    """A short text in a call: conversion of the text, a call into compiled code, a list of ids."""
    import array
    import ctypes

    line = text[:65]
    n_ids = len(tokenizer.encode(line))
    ids = array.array("I", bytes(4 * 1024))
    call = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(("getpid", ctypes.CDLL(None)))
    view = memoryview(bytearray(1024))
    repeats = 20_000

    def floor() -> None:
        for _ in range(repeats):
            data = line.encode()
            view[: len(data)] = data
            call(None)
            ids[:n_ids].tolist()

    def whole() -> None:
        for _ in range(repeats):
            tokenizer.encode(line)

    show(f"a text of 65 characters, {n_ids} ids: encode", best(whole) / repeats)
    show("  floor: UTF-8, copy, an empty call of the system, list of ids", best(floor) / repeats)


def documents(tokenizer: Any, text: str) -> None:
    """Documents, or one string, in later passes: the kernel for their bytes as one text, and the conversion of the strings."""
    for label, texts, encode in (
        ("documents", documents_of(text.encode()), tokenizer.encode_batch),
        ("one string of 4 MB", [cut(text.encode(), STRING_BYTES).decode()], lambda texts: tokenizer.encode_array(texts[0])),
    ):
        data = "".join(texts).encode()

        def whole(encode: Callable[[Any], Any] = encode, texts: list[str] = texts) -> None:
            encode(texts)

        def convert(texts: list[str] = texts) -> None:
            for one in texts:
                one.encode()

        def convert_in_slices(texts: list[str] = texts) -> None:
            for one in texts:
                for _ in encode_slices(one):
                    pass

        def as_one(data: bytes = data) -> None:
            tokenizer.encode_array(data)

        times = {work: [] for work in (whole, as_one, convert, convert_in_slices)}
        for _ in range(RUNS):
            for work, found in times.items():
                found.append(best(work, 1))
        took, kernel, *conversions = (statistics.median(found) for found in times.values())
        converting = min(conversions)
        show(f"{label}: encoded as str", took, len(data))
        show("  floor: their bytes as one text", kernel, len(data))
        show("  floor: the conversion of the strings alone", converting, len(data))
        print(f"  {(kernel + converting) / took:.0%} of both floors", flush=True)


def arrays(tokenizer: Any, text: str) -> None:
    """Different short texts in a call each, in later passes: the kernel for their batch, a call, and an array of NumPy."""

    class Nothing:
        def method(self, text: str, *, num_threads: int = 1, allowed: None = None, disallowed: None = None) -> str:
            return text

    call = Nothing().method
    for size, most in SHORT_ARRAYS.items():
        texts = [text[begin : begin + size] for begin in range(0, min(len(text) - size, most * size), size)]
        n_ids = len(tokenizer.encode_array(texts[0]))

        def whole(texts: list[str] = texts) -> None:
            for one in texts:
                tokenizer.encode_array(one)

        def together(texts: list[str] = texts) -> None:
            tokenizer.encode_batch(texts)

        def calls(texts: list[str] = texts) -> None:
            for one in texts:
                call(one)

        def made(texts: list[str] = texts, n_ids: int = n_ids) -> None:
            for _ in texts:
                np.empty(n_ids, np.uint32)

        times = {work: [] for work in (whole, together, calls, made)}
        for _ in range(RUNS):
            for work, found in times.items():
                found.append(best(work, 1) / len(texts))
        took, *floors = (statistics.median(found) for found in times.values())
        show(f"an array for each of {len(texts):,} texts of {size} characters, a text", took)
        for label, seconds in zip(("all in one batch", "an empty method", "an empty array"), floors, strict=True):
            show(f"  floor: {label}", seconds)
        print(f"  {sum(floors) / took:.0%} of the three floors", flush=True)


def stream(tokenizer: Any, text: str) -> None:
    """`encode_iterable`: a Python integer for each id, from memoryviews, which is faster than lists or a generator."""
    data = cut(text.encode(), STREAM_BYTES).decode()
    lines = data.splitlines(keepends=True)
    ids = tokenizer.encode_array(data)

    n_bytes = len(data.encode())
    show("stream of lines: list(encode_iterable)", best(lambda: list(tokenizer.encode_iterable(lines))), n_bytes)
    show("  floor: ids as Python integers, in one list", best(lambda: list(ids.data)), n_bytes)
    show("  floor: the lines joined and encoded as UTF-8", best(lambda: "".join(iter(lines)).encode()), n_bytes)
    show("  encoding as one array", best(lambda: tokenizer.encode_array(data)), n_bytes)


def decoding(tokenizer: Any, text: str) -> None:
    """Decode a file: read the ids, write the bytes, and have them written to the disk."""
    from bpejit.storage.files import SYNC_BYTES
    from bpejit.storage.temporary import start_sync

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, tokens, out = folder / "text.txt", folder / "tokens.bin", folder / "out.txt"
        data = text.encode()
        source.write_bytes(data)
        tokenizer.encode_files([source], tokens, dtype="uint16", workers=1)
        ids = np.fromfile(tokens, dtype=np.uint16)
        tokens_bytes = ids.nbytes

        def copy(flushed: bool, early: bool = False) -> None:
            with tokens.open("rb") as given, out.open("wb", buffering=0) as made:
                begun = 0
                for start in range(0, len(data), BLOCK_BYTES):
                    given.read(BLOCK_BYTES * tokens_bytes // len(data))
                    made.write(memoryview(data)[start : start + BLOCK_BYTES])
                    if early and start - begun >= SYNC_BYTES:
                        start_sync(made.fileno(), begun, start - begun)
                        begun = start
                if flushed:
                    os.fsync(made.fileno())
            out.unlink()

        def decode() -> None:
            tokenizer.decode_file(tokens, out)
            out.unlink()

        show("decoding a file: decode_file", best(decode), len(data))
        show("  floor: read the ids and write the bytes", best(lambda: copy(False)), len(data))
        show("  floor: the same, and flush the file to the disk", best(lambda: copy(True)), len(data))
        show("  floor: the same, with the flush started early", best(lambda: copy(True, True)), len(data))
        show("  decoding an array", best(lambda: tokenizer.decode_bytes(ids)), len(data))


def processes(path: Path) -> None:
    """Start a process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run(code: str) -> Callable[[], Any]:
        return lambda: subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.DEVNULL)

    for label, code in (
        (
            "a process that imports, loads gpt2 and encodes a line",
            f"import bpejit; bpejit.load({str(path)!r}).encode('A line')",
        ),
        ("  floor: Python", "pass"),
        ("  floor: Python and NumPy", "import numpy"),
        ("  Python, NumPy and llvmlite, which links compiled kernels", "import numpy, llvmlite.binding"),
        ("  Python and all modules that loading needs", "import bpejit.tokenizer"),
    ):
        run(code)()
        show(label, best(run(code)))


def loading(path: Path) -> None:
    """Load a vocabulary: read the file, decode its lines, check them."""
    import base64
    import hashlib

    import bpejit

    def parse() -> None:
        words = path.read_bytes().split()
        dict(zip(map(base64.b64decode, words[::2]), map(int, words[1::2]), strict=True))

    show("loading gpt2 in a process that has loaded it before", best(lambda: bpejit.load(path)))
    show("  floor: a dictionary of tokens and ranks", best(parse))
    show("  the hash of the file", best(lambda: hashlib.sha256(path.read_bytes())))


def main() -> None:
    """Run the command."""
    import bpejit

    with tempfile.TemporaryDirectory() as name:
        given = {"english": Path(sys.argv[1])} if len(sys.argv) > 1 else {}
        corpora = Corpora(Path(name), given)
        corpus = corpora.get("english")
        vocabulary = Vocabularies(Path(name)).get("gpt2")
        text = corpus.read().decode()
        tokenizer = bpejit.load(vocabulary.path)
        batches(tokenizer, text)
        one_text(tokenizer, text)
        arrays(tokenizer, text)
        documents(tokenizer, text)
        stream(tokenizer, text)
        decoding(tokenizer, text)
        loading(vocabulary.path)
        processes(vocabulary.path)


if __name__ == "__main__":
    main()
