"""The table of targets: `python -m benchmarks.compare --targets` measures its cases in one run.

A row names a figure of a case, the figures of the first measurements, and a target: an absolute one, or a ratio to another tool
in the same run. The results are stored apart from the others, so that all figures of the table are of one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .markdown import number, table
from .results import Record, read
from .works import Work, get_work

TARGET_TOOLS = ["bpejit", "bpejit-avx2", "bpejit-earlier", "gigatoken", "rustbpe"]
"""The tools of the table."""

NO_TARGETS = "No results yet: `python -m benchmarks.compare --targets` measures them."


class Row(NamedTuple):
    """A row of the table."""

    label: str
    work: str
    case: dict[str, Any]
    """Fields of the case; a text is given by its name."""
    metric: str
    unit: str
    target: float
    """The least ratio to the reference, or the limit of the figure itself."""
    begun: str
    """The first measurement: bpejit / the reference."""
    reference: str = ""
    """The tool of the ratio; empty if the target is absolute, and the table shows gigatoken's figure all the same."""
    tool: str = "bpejit"
    more_is_better: bool = True
    times_bytes: bool = False
    """True if the figure is seconds, and the row shows MB/s."""


def _batch(threads: int, begun: str) -> Row:
    words = "one thread" if threads == 1 else f"{threads} threads"
    case = {"vocabulary": "gpt2", "threads": threads}
    return Row(f"a list of 200,000 texts of 53 bytes, {words}", "batch", case, "mb_s", "MB/s", 1.5, begun, "gigatoken")


def _load(vocabulary: str, begun: str) -> Row:
    case = {"vocabulary": vocabulary}
    return Row(f"loading {vocabulary}", "load", case, "seconds", "s", 1.0, begun, "gigatoken", more_is_better=False)


def _train(corpus: str, ratio: float, begun: str, tool: str = "gigatoken", metric: str = "seconds", unit: str = "s") -> Row:
    label = f"training on {corpus}" + (", peak memory" if unit == "MB" else "")
    return Row(label, "train", {"corpus": corpus}, metric, unit, ratio, begun, tool, more_is_better=False)


def _encode(corpus: str, metric: str, ratio: float, begun: str, work: str = "encode") -> Row:
    passes = "first pass" if metric == "first_mb_s" else "later passes"
    case = {"corpus": corpus, **({"vocabulary": "gpt2"} if work == "encode" else {})}
    own = "gpt2" if work == "encode" else "own vocabulary"
    return Row(f"{passes}, {own}, {corpus}", work, case, metric, "MB/s", ratio, begun, "gigatoken")


ROWS = (
    _batch(1, "10 to 13 / 93 to 96"),
    _batch(2, "- / 152"),
    Row(
        "a text of 65 bytes by itself, gpt2, the same again and again",
        "line",
        {"vocabulary": "gpt2", "kind": "line"},
        "same_us",
        "µs",
        2.5,
        "5.1 to 6.0",
        more_is_better=False,
    ),
    Row(
        "the same, different texts",
        "line",
        {"vocabulary": "gpt2", "kind": "line"},
        "different_us",
        "µs",
        2.5,
        "-",
        more_is_better=False,
    ),
    Row(
        "the 200,000 texts of 53 bytes one by one, the first time",
        "line",
        {"vocabulary": "gpt2", "kind": "batch"},
        "different_us",
        "µs",
        2.5,
        "5.1 to 6.0 / 1.4 to 1.5",
        more_is_better=False,
    ),
    _load("gpt2", "0.22 / 0.056"),
    _load("cl100k", "0.47 / 0.11"),
    _load("o200k", "1.02 / 0.26"),
    Row(
        "a process that imports, loads gpt2 and encodes a line",
        "start",
        {"vocabulary": "gpt2"},
        "seconds",
        "s",
        0.25,
        "0.46",
        more_is_better=False,
    ),
    _encode("japanese-large", "first_mb_s", 3.0, "16 to 20 / 17 to 20", "encode_own"),
    _encode("chinese-large", "first_mb_s", 3.0, "23 to 39 / 21 to 22", "encode_own"),
    Row(
        "`bpejit encode` of japanese-large, own vocabulary, all cores",
        "commands",
        {"what": "large", "corpus": "japanese-large"},
        "seconds",
        "MB/s",
        3.0,
        "39",
        "bpejit-earlier",
        times_bytes=True,
    ),
    _train("japanese-large", 15.0, "24 to 39 / 163 to 175"),
    _train("japanese-large", 4.0, "1,270 / 5,400", metric="peak_mb", unit="MB"),
    _train("chinese-large", 20.0, "7.2 to 8.8 / 90 to 93"),
    _train("chinese-large", 20.0, "7.2 to 8.8 / 83", "rustbpe"),
    _train("english-large", 7.0, "2.0 to 2.5 / 8.7 to 10.1"),
    _train("english-large", 20.0, "2.0 to 2.5 / 31.7", "rustbpe"),
    _encode("english", "first_mb_s", 1.3, "0.86 to 0.98 of it"),
    _encode("code", "first_mb_s", 1.3, "0.86 to 0.98 of it"),
    _encode("chinese", "later_mb_s", 2.0, "1.02 to 1.24 times"),
    _encode("japanese", "later_mb_s", 2.0, "1.45 to 1.6 times"),
    Row("decoding a file, one worker", "decode_file", {"vocabulary": "gpt2"}, "mb_s", "MB/s", 1000.0, "210 to 440"),
    Row(
        "splitting english with AVX2 instead of AVX-512, gpt2",
        "split",
        {"pattern": "gpt2", "corpus": "english"},
        "mb_s",
        "MB/s",
        0.5,
        "0.2 to 0.6 of it",
        "bpejit",
        "bpejit-avx2",
    ),
    Row(
        "later passes with AVX2 instead of AVX-512, gpt2, english",
        "encode",
        {"vocabulary": "gpt2", "corpus": "english"},
        "later_mb_s",
        "MB/s",
        0.85,
        "0.6 to 0.75 of it",
        "bpejit",
        "bpejit-avx2",
    ),
    Row("`encode_iterable` over lines", "stream", {"pieces": "lines", "vocabulary": "gpt2"}, "mb_s", "MB/s", 60.0, "6.4"),
)


def target_works() -> list[str]:
    """Return the works of the table, in order."""
    return list(dict.fromkeys(row.work for row in ROWS))


def is_target(work: str, key: Record) -> bool:
    """Return True if a case is in the table."""
    return any(row.work == work and _fits(row, key) for row in ROWS)


def _fits(row: Row, key: Record) -> bool:
    fields = {name: value["name"] if isinstance(value, dict) else value for name, value in key.items()}
    return all(fields.get(name) == value for name, value in row.case.items())


def targets_block(folder: Path) -> str:
    """Return the tables from the latest results of each machine in a folder, the latest first."""
    files = [records for path in sorted(folder.glob("*.jsonl")) if len(records := read(path)) > 1]
    files.sort(key=lambda records: records[-1]["date"], reverse=True)
    return "\n\n".join(targets_table(machine, results) for machine, *results in files) or NO_TARGETS


def targets_table(machine: Record, results: list[Record], works: Sequence[str] | None = None) -> str:
    """Return the table of one run, or its rows of some works."""
    heading = ["work", "first measured", "now", "other tool", "ratio", "target", "met"]
    lines = []
    for row in ROWS:
        if works is not None and row.work not in works:
            continue
        ours, theirs = (_figure(row, results, tool) for tool in (row.tool, row.reference or "gigatoken"))
        ratio = ours / theirs if ours and theirs else None
        if ratio and not row.more_is_better:
            ratio = 1 / ratio
        value = ratio if row.reference else ours
        met = value and (value >= row.target if row.reference or row.more_is_better else value <= row.target)
        aim = f"{row.target:g} times {row.reference}" if row.reference else f"{row.target:g} {row.unit}"
        shown = [number(figure) if figure else "-" for figure in (ours, theirs, ratio)]
        lines.append([f"{row.label}, {row.unit}", row.begun, *shown, aim, "-" if value is None else "yes" if met else "no"])
    last = results[-1]
    commit = last["commit"] + ("+" if last["dirty"] else "")
    measured = f"{machine['name']}, {machine['instructions']}; {last['date'][:10]}, commit {commit}, one run."
    return f"{measured}\n\n{table(heading, lines)}"


def _figure(row: Row, results: list[Record], tool: str) -> float | None:
    """Return the median of a tool in a row, or None."""
    work: Work = get_work(row.work)
    for result in results:
        if result["work"] == work.name and result["tool"] == tool and _fits(row, result["case"]):
            figure = result["metrics"].get(row.metric)
            if figure and row.times_bytes:
                return float(result["case"]["corpus"]["bytes"] / figure["median"] / 1e6)
            return float(figure["median"]) if figure else None
    return None
