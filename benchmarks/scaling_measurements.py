"""Measure what `benchmarks.scaling_plan` computes with.

    python -m benchmarks.scaling_measurements all FOLDER

takes all measurements, each in a process of its own; `growth`, `rates`, `tables`, `ray` or `training` instead of `all` repeats
one. FOLDER has english.txt, code.txt, chinese.txt and japanese.txt. The results go to `benchmarks/results/scaling.json`.

growth
    Numbers of distinct pre-tokens of prefixes of each text. The text is cut into `BLOCKS` pieces, and the growth is that of
    random orders of random halves of them, so that it has a spread.
rates
    Seconds to count and to encode files of several sizes with one worker, and the largest with 1, 2 and 4 workers, to merge
    counts, and to join parts.
tables
    Seconds to sort and write a table, and to count and encode English text.
ray
    Seconds to count and to encode on a local cluster.
training
    Seconds and memory to learn merges from the counts of each text.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import bpejit

RESULTS = Path(__file__).parent / "results" / "scaling.json"

TEXTS = ("english", "code", "chinese", "japanese")

PATTERN = "cl100k"

BLOCKS = 64

ORDERS = 40

SMALL, LARGE = (8 << 20, 24 << 20, 64 << 20), 128 << 20
"""Sizes of the files from which unit times are computed, and of the file whose times are predicted."""

WORKERS = {SMALL[0]: (1,), SMALL[1]: (1,), SMALL[2]: (1, 2), LARGE: (1, 2, 4)}

ENGLISH = (8 << 20, 24 << 20)
"""Sizes of English text, most of whose pre-tokens repeat: so the times of a byte and of a new pre-token can be told apart."""

VOCABULARY = 32_000

MEASUREMENTS = ("rates", "tables", "ray", "growth", "training")
"""Times that predictions use come first, close to each other."""


def measure_growth(text: bytes) -> dict[str, Any]:
    """Return sizes in bytes, and the numbers of distinct pre-tokens and of their bytes in each order."""
    numbers: dict[bytes, int] = {}
    ids, blocks, sizes, lengths = [], [], [], []
    step = -(-len(text) // BLOCKS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "block.txt"
        for block in range(BLOCKS):
            piece = text[block * step : (block + 1) * step]
            path.write_bytes(piece)
            sizes.append(len(piece))
            table = bpejit.count(path, pattern=PATTERN, engine="serial").table
            pool, ends = table.pool.tobytes(), table.starts.tolist()
            for start, stop in pairwise(ends):
                pretoken = pool[start:stop]
                number = numbers.setdefault(pretoken, len(numbers))
                if number == len(lengths):
                    lengths.append(len(pretoken))
                ids.append(number)
                blocks.append(block)
    found, where = np.array(ids), np.array(blocks)
    order = np.argsort(found, kind="stable")
    where, starts = where[order], np.flatnonzero(np.diff(found[order], prepend=-1))
    length = np.array(lengths)
    random = np.random.default_rng(1)
    curves = []
    for number in range(ORDERS + 1):
        places = np.full(BLOCKS, BLOCKS)
        chosen = random.permutation(BLOCKS)[: BLOCKS // 2] if number else random.permutation(BLOCKS)
        places[chosen] = np.arange(chosen.size)
        first = np.minimum.reduceat(places[where], starts)
        inside = first < BLOCKS
        distinct = np.cumsum(np.bincount(first[inside], minlength=chosen.size))
        pool = np.cumsum(np.bincount(first[inside], weights=length[inside], minlength=chosen.size))
        at = [chosen.size >> shift for shift in range(5, -1, -1)] if chosen.size >= 32 else [chosen.size]
        n_bytes = np.cumsum(np.array(sizes)[chosen])
        curves.append([[int(n_bytes[n - 1]), int(distinct[n - 1]), int(pool[n - 1])] for n in at])
    return {"bytes": len(text), "distinct": len(numbers), "all": curves[0], "halves": curves[1:]}


def timed(run: Callable[[], Any], repeats: int = 3, clock: Callable[[], float] = time.perf_counter) -> dict[str, Any]:
    """Return the seconds of several runs, after one whose memory the system may still have to provide."""
    run()
    seconds = []
    for _ in range(repeats):
        begun = clock()
        run()
        seconds.append(round(clock() - begun, 4))
    return {"seconds": seconds, "median": statistics.median(seconds)}


def mixed_text(folder: Path, size: int) -> bytes:
    """Return pieces of all texts in turns, without repetitions, of `size` bytes together."""
    texts = {name: (folder / f"{name}.txt").read_bytes() for name in TEXTS}
    total = sum(map(len, texts.values()))
    pieces = []
    for turn in range(64):
        for text in texts.values():
            begin, end = (len(text) * n // 64 for n in (turn, turn + 1))
            pieces.append(text[begin:end])
    data = b"".join(pieces)
    assert total >= size
    return data[:size]


def measure_rates(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"count": {}, "encode": {}}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        data = mixed_text(folder, LARGE)
        files = {size: work / f"{size >> 20}.txt" for size in (*SMALL, LARGE)}
        for size, path in files.items():
            path.write_bytes(data[-size:])  # a part of the large text that another one begins with would be in the page cache
        tokenizer = bpejit.train(files[SMALL[1]], vocab_size=VOCABULARY, pattern=PATTERN)
        tokenizer.encode_files(files[SMALL[1]], work / "warm.bin")
        bpejit.count(files[SMALL[1]], pattern=PATTERN)
        found["distinct"] = {str(size): len(bpejit.count(path, pattern=PATTERN)) for size, path in files.items()}
        for size, path in files.items():
            for workers in WORKERS[size]:
                out = work / "tokens.bin"
                found["count"][f"{size} {workers}"] = timed(
                    partial(bpejit.count, path, pattern=PATTERN, workers=workers, engine="processes")
                )
                found["encode"][f"{size} {workers}"] = timed(
                    partial(tokenizer.encode_files, path, out, workers=workers, engine="threads", overwrite=True)
                )
        found["ids_per_byte"] = (work / "tokens.bin").stat().st_size / 2 / LARGE
        found["id_bytes"] = 2
        half = SMALL[-1] // 2  # less text than the predicted runs read
        for part, piece in enumerate((data[:half], data[half : 2 * half])):
            (work / f"{part}.txt").write_bytes(piece)
            bpejit.count(work / f"{part}.txt", pattern=PATTERN, out=work / f"{part}.counts")
        merged = work / "merged.counts"
        paths = [work / "0.counts", work / "1.counts"]
        found["merge"] = timed(lambda: bpejit.merge_counts(paths, merged, overwrite=True))
        found["merge"]["entries"] = sum(len(bpejit.Counts.load(path)) for path in paths)
        found["merge"]["bytes"] = sum(path.stat().st_size for path in paths)
        seconds = []
        for turn in range(3):
            for part in range(2):
                report = tokenizer.encode_files(files[LARGE], work / f"parts{turn}.bin", shard=f"{part}/2")
            seconds.append(round(report.stages["finish"], 4))
        found["join"] = {
            "seconds": seconds,
            "median": statistics.median(seconds),
            "bytes": (work / "parts0.bin").stat().st_size,
        }
    return found


def measure_ray(folder: Path) -> dict[str, Any]:
    """Return the times on a local cluster that is running, with one and two processors."""
    import ray

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        data = mixed_text(folder, LARGE)
        paths = {size: work / f"{size >> 20}.txt" for size in (SMALL[0], LARGE)}
        for size, path in paths.items():
            path.write_bytes(data[-size:])
        tokenizer = bpejit.train(paths[SMALL[0]], vocab_size=VOCABULARY, pattern=PATTERN)
        for slots in (1, 2):
            ray.init(num_cpus=slots, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            for size, path in paths.items():
                found[f"encode {size} {slots}"] = timed(
                    partial(tokenizer.encode_files, path, work / "out.bin", engine="ray", overwrite=True)
                )
                found[f"count {size} {slots}"] = timed(
                    partial(bpejit.count, path, pattern=PATTERN, engine="ray", out=work / "c", overwrite=True)
                )
            ray.shutdown()
    return found


def measure_tables(folder: Path) -> dict[str, Any]:
    """Return processor times of sorting and writing a table, and of counting and encoding English text."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        data = mixed_text(folder, LARGE)
        (work / "part.txt").write_bytes(data[: SMALL[-1] // 2])
        counts = bpejit.count(work / "part.txt", pattern=PATTERN)

        def write() -> None:
            bpejit.Counts(counts.header, counts.any_order, in_order=False).save(work / "c", overwrite=True)

        english = {}
        text = (folder / "english.txt").read_bytes()
        (work / "all.txt").write_bytes(text)
        tokenizer = bpejit.train(work / "all.txt", vocab_size=VOCABULARY, pattern=PATTERN)
        for size in ENGLISH:
            (work / "part.txt").write_bytes(text[:size])
            english[str(size)] = {
                "distinct": len(bpejit.count(work / "part.txt", pattern=PATTERN)),
                "count": timed(
                    partial(bpejit.count, work / "part.txt", pattern=PATTERN, workers=1, engine="serial"), 5, time.process_time
                ),
                "encode": timed(
                    partial(
                        *(tokenizer.encode_files, work / "part.txt", work / "out.bin"),
                        workers=1,
                        engine="serial",
                        overwrite=True,
                    ),
                    5,
                    time.process_time,
                ),
            }
        return {
            "write": timed(write, 5, time.process_time) | {"entries": len(counts)},
            "english": english,
        }


LEARN = """
import json, sys, time
import bpejit
counts = bpejit.Counts.load(sys.argv[1])
begun = time.perf_counter()
bpejit.train_from_counts(counts, vocab_size=int(sys.argv[2]))
seconds = time.perf_counter() - begun
lines = open("/proc/self/status").read().splitlines()  # ru_maxrss would include the process that forked
peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
print(json.dumps({"seconds": seconds, "peak": peak * 1024}))
"""


def measure_training(folder: Path) -> dict[str, Any]:
    found = {}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for text in TEXTS:
            data = (folder / f"{text}.txt").read_bytes()
            for share in (4, 1):
                (work / "text.txt").write_bytes(data[: len(data) // share])
                counts = bpejit.count(work / "text.txt", pattern=PATTERN, out=work / "c", overwrite=True)
                command = [sys.executable, "-c", LEARN, str(work / "c"), str(VOCABULARY)]
                runs = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(2)]
                best = min(runs, key=lambda one: one["seconds"])
                found[f"{text}/{share}"] = {
                    "distinct": len(counts),
                    "file_bytes": (work / "c").stat().st_size,
                    "seconds": round(best["seconds"], 3),
                    "peak": best["peak"],
                }
    return found


def processor() -> str:
    """Return the model of the processor."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def measure_all(folder: Path) -> None:
    """Run each measurement in a new process: what one leaves in memory slows down the next."""
    for what in MEASUREMENTS:
        subprocess.run([sys.executable, "-m", "benchmarks.scaling_measurements", what, str(folder)], check=True)


def main(what: str, folder: Path) -> None:
    if what == "all":
        measure_all(folder)
        return
    if what not in MEASUREMENTS:
        sys.exit(f"`{what}` is not a measurement; expected all, {', '.join(MEASUREMENTS)}")
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    stored |= {"processor": processor(), "cores": len(os.sched_getaffinity(0)), "pattern": PATTERN, "vocabulary": VOCABULARY}
    if what == "growth":
        stored["growth"] = {name: measure_growth((folder / f"{name}.txt").read_bytes()) for name in TEXTS}
    elif what == "tables":
        stored["tables"] = measure_tables(folder)
    elif what == "ray":
        stored["ray"] = measure_ray(folder)
    elif what == "rates":
        stored["rates"] = measure_rates(folder)
    else:
        stored["training"] = measure_training(folder)
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in stored.items())
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(what, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
