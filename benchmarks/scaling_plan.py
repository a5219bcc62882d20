"""Plan jobs on clusters from measured unit times: write the tables and the plot of docs/scaling.md.

    python -m benchmarks.scaling_plan

Everything is computed from `benchmarks/results/scaling.json` (see `benchmarks.scaling_measurements`) and the constants below.

Time of counting or encoding S bytes with W workers: a + (b S + c W D(S / W)) / min(W, processors). a is the fixed time, b the
time of a byte, c the additional time of a pre-token that a worker meets for the first time, and D(n) the number of distinct
pre-tokens of n bytes. a, b and c follow from runs with one worker on the smaller files.
"""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scaling_measurements import LARGE, RESULTS, SMALL, TEXTS

ROOT = Path(__file__).resolve().parent.parent

PAGE = ROOT / "docs" / "scaling.md"

PICTURE = ROOT / "docs" / "pictures" / "scaling.svg"

NODES = (10, 100, 1000)

SIZES = (10**12, 10**13, 10**14)

PROCESSORS = 16
"""Processors of a node, as fast as the measured one."""

NODE_RATE = 1e9
"""Bytes per second between a node and the storage."""

STORAGE_RATE = 100e9
"""Bytes per second of the storage, for all nodes together."""

ID_BYTES = 4
"""Bytes of an id: vocabularies for this much text have more than 65,536 tokens."""

DOUBLINGS = 3
"""The slopes of the growth are those of the last doublings of the text."""


@dataclass(frozen=True)
class Growth:
    """Distinct pre-tokens of a kind of text: `distinct` for `size` bytes, with slopes in the logarithms of both.

    Parameters
    ----------
    size, distinct, pool : int
        Bytes of text, distinct pre-tokens, and their bytes.
    slopes : tuple of float
        The 5th, 50th and 95th percentile of the slopes of random halves of the text; at most 1.
    """

    size: int
    distinct: int
    pool: int
    slopes: tuple[float, float, float]

    def at(self, size: float, quantile: int = 1) -> float:
        """Return the distinct pre-tokens of more text."""
        return float(self.distinct * (size / self.size) ** self.slopes[quantile])


def fit_growth(measured: dict[str, Any]) -> Growth:
    """Return the growth curve of a text."""
    slopes = [
        math.log(after[1] / before[1]) / math.log(after[0] / before[0])
        for half in measured["halves"]
        for before, after in pairwise(half[-DOUBLINGS - 1 :])
    ]
    low, middle, high = (min(float(slope), 1.0) for slope in np.percentile(slopes, (5, 50, 95)))
    size, distinct, pool = measured["all"][-1]
    return Growth(size, distinct, pool, (low, middle, high))


@dataclass(frozen=True)
class UnitTimes:
    """Seconds: fixed, of a byte, and of a pre-token that a worker meets for the first time."""

    fixed: float
    byte: float
    distinct: float


def fit_times(stored: dict[str, Any], stage: str) -> UnitTimes:
    """Return the unit times of a stage: least squares of relative errors, none of them negative."""
    rates = stored["rates"]
    english = stored["tables"]["english"]
    measured = [(size, rates["distinct"][str(size)], rates[stage][f"{size} 1"]["median"]) for size in SMALL]
    measured += [(int(size), found["distinct"], found[stage]["median"]) for size, found in english.items()]
    rows = np.array([[1.0, size, distinct] for size, distinct, _ in measured])
    seconds = np.array([time for _, _, time in measured])
    best: tuple[float, Any] = (math.inf, None)
    for chosen in (used for n in (1, 2, 3) for used in combinations(range(3), n)):
        columns = rows[:, chosen] / seconds[:, None]
        found = np.linalg.lstsq(columns, np.ones(len(measured)), rcond=None)[0]
        error = float(np.square(columns @ found - 1).sum())
        if found.min() >= 0 and error < best[0] - 1e-12:
            full = np.zeros(3)
            full[list(chosen)] = found
            best = error, full
    return UnitTimes(*map(float, best[1]))


def mixed_distinct(stored: dict[str, Any], size: float) -> float:
    """Return the distinct pre-tokens of `size` bytes of the mixed text, by power laws between the small files and beyond."""
    known = [(math.log(key), math.log(stored["rates"]["distinct"][str(key)])) for key in SMALL]
    upper = next((index for index in range(1, len(known) - 1) if math.log(size) < known[index][0]), len(known) - 1)
    (x0, y0), (x1, y1) = known[upper - 1], known[upper]
    return math.exp(y0 + (math.log(size) - x0) * (y1 - y0) / (x1 - x0))


def entry_seconds(stored: dict[str, Any], step: str) -> float:
    """Return the seconds to merge or write an entry of a table."""
    found = stored["rates"]["merge"] if step == "merge" else stored["tables"][step]
    return float(found["median"] / found["entries"])


def adding_seconds(stored: dict[str, Any]) -> float:
    """Return the seconds for an entry of a table of one of several workers, which takes its own memory, and is added up."""
    size, times = SMALL[-1], fit_times(stored, "count")
    entries = 2 * mixed_distinct(stored, size / 2)
    counting = times.fixed + (times.byte * size + times.distinct * entries) / min(2, stored["cores"])
    return max(float(stored["rates"]["count"][f"{size} 2"]["median"]) - counting, 0.0) / entries


def predictions(stored: dict[str, Any]) -> list[tuple[str, int, float, float]]:
    """Return stage, workers, predicted and measured seconds for the large file."""
    rows = []
    for stage in ("count", "encode"):
        times = fit_times(stored, stage)
        for workers in (1, 2, 4):
            used = min(workers, stored["cores"])
            entries = workers * mixed_distinct(stored, LARGE / workers)
            seconds = times.fixed + (times.byte * LARGE + times.distinct * entries) / used
            if stage == "count" and workers > 1:
                seconds += adding_seconds(stored) * entries
            rows.append((stage, workers, seconds, stored["rates"][stage][f"{LARGE} {workers}"]["median"]))
    for stage in ("count", "encode") if "ray" in stored else ():
        times = fit_times(stored, stage)
        for workers in (1, 2):
            small = stored["ray"][f"{stage} {SMALL[0]} {workers}"]["median"]
            distinct = [mixed_distinct(stored, size / workers) * workers for size in (SMALL[0], LARGE)]
            work = times.byte * (LARGE - SMALL[0]) + times.distinct * (distinct[1] - distinct[0])
            if stage == "count":  # each task sorts and writes its table, tasks merge them, and one writes the file
                work += (entry_seconds(stored, "write") + entry_seconds(stored, "merge")) * (distinct[1] - distinct[0])
                small += entry_seconds(stored, "merge") * (mixed_distinct(stored, LARGE) - mixed_distinct(stored, SMALL[0]))
            measured = stored["ray"][f"{stage} {LARGE} {workers}"]["median"]
            rows.append((f"{stage}, Ray", workers, small + work / min(workers, stored["cores"]), measured))
    return rows


@dataclass(frozen=True)
class Plan:
    """Hours of the stages of a job on a cluster, and what limits the longest one."""

    count: float
    train: float
    encode: float
    join: float
    memory: float
    traffic: float
    bottleneck: str

    @property
    def total(self) -> float:
        """Hours of all stages."""
        return self.count + self.train + self.encode + self.join


def entry_bytes(stored: dict[str, Any], text: str) -> float:
    """Return the bytes of a distinct pre-token in a counts file."""
    found = stored["training"][f"{text}/1"]
    return float(found["file_bytes"] / found["distinct"])


def memory_of_training(stored: dict[str, Any], text: str) -> float:
    """Return the bytes of memory for each distinct pre-token while merges are learned."""
    small, large = (stored["training"][f"{text}/{share}"] for share in (4, 1))
    return float((large["peak"] - small["peak"]) / (large["distinct"] - small["distinct"]))


def seconds_of_training(stored: dict[str, Any], text: str) -> tuple[float, float]:
    """Return the fixed seconds of learning merges, and those for each distinct pre-token."""
    small, large = (stored["training"][f"{text}/{share}"] for share in (4, 1))
    each = max((large["seconds"] - small["seconds"]) / (large["distinct"] - small["distinct"]), 0.0)
    return max(large["seconds"] - each * large["distinct"], 0.0), each


def byte_seconds(stored: dict[str, Any], text: str, stage: str) -> float:
    """Return the seconds for a byte of a text, from the largest run with one worker: more of a larger text repeats."""
    if text in ("english", "code"):
        size, found = list(stored["tables"]["english"].items())[-1]
        return float(found[stage]["median"]) / int(size)
    return float(stored["rates"][stage][f"{LARGE} 1"]["median"]) / LARGE


def plan_job(stored: dict[str, Any], text: str, size: float, nodes: int, quantile: int = 1) -> Plan:
    """Return the plan for `size` bytes of a kind of text on a number of nodes."""
    growth = fit_growth(stored["growth"][text])
    workers = nodes * PROCESSORS
    rate = min(nodes * NODE_RATE, STORAGE_RATE)
    first = growth.at(size / workers, quantile)  # distinct pre-tokens that each worker meets
    distinct = growth.at(size, quantile)
    join = stored["rates"]["join"]
    entry = entry_bytes(stored, text)
    count_byte, encode_byte = (byte_seconds(stored, text, stage) for stage in ("count", "encode"))
    ids = size * stored["rates"]["ids_per_byte"] * ID_BYTES
    fixed, each = seconds_of_training(stored, text)
    tables = workers * first * entry
    parts = {
        "processors, counting": count_byte * size / workers
        + first * (entry_seconds(stored, "write") + entry_seconds(stored, "merge")),
        "storage, counting": size / rate + 2 * tables / rate,
        "one node, learning merges": fixed + each * distinct + distinct * entry / NODE_RATE,
        "processors, encoding": encode_byte * size / workers,
        "storage, encoding": (size + ids) / rate,
        "one node, joining": max(2 * ids / NODE_RATE, ids * join["median"] / join["bytes"]),
    }
    hours = {name: seconds / 3600 for name, seconds in parts.items()}
    return Plan(
        max(hours["processors, counting"], hours["storage, counting"]),
        hours["one node, learning merges"],
        max(hours["processors, encoding"], hours["storage, encoding"]),
        hours["one node, joining"],
        distinct * memory_of_training(stored, text),
        2 * size + 2 * tables + distinct * entry + 3 * ids,
        max(hours, key=lambda name: hours[name]),
    )


def short(number: float) -> str:
    """Return a number with two digits and a unit of a thousand."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit * 0.995:
            return f"{_two_digits(number / limit)} {unit}"
    return _two_digits(number)


def _two_digits(number: float) -> str:
    if number == 0:
        return "0"
    digits = max(0, 1 - math.floor(math.log10(abs(number))))
    return f"{round(number, digits):.{digits}f}" if digits else f"{round(number, 1 - math.floor(math.log10(abs(number)))):.0f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown; all columns but the first are aligned to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def make_tables(stored: dict[str, Any]) -> dict[str, str]:
    """Return the parts of the page that are computed, by name."""
    checked = predictions(stored)
    growth = {text: fit_growth(stored["growth"][text]) for text in TEXTS}
    join = stored["rates"]["join"]
    units = [
        *(
            [f"{what}, {kind}, a byte", f"{1e9 * each:.1f} ns", f"{1e-6 / each:.0f} MB/s"]
            for what, stage in (("counting", "count"), ("encoding", "encode"))
            for kind, text in (("English", "english"), ("mixed text", "chinese"))
            for each in [byte_seconds(stored, text, stage)]
        ),
        *(
            [f"{what}, a pre-token that is new to a worker", f"{1e9 * fit_times(stored, stage).distinct:.0f} ns", ""]
            for what, stage in (("counting", "count"), ("encoding", "encode"))
        ),
        *(
            [f"{what}, an entry of a table", f"{1e9 * seconds:.0f} ns", ""]
            for what, seconds in (
                ("adding up tables of workers", adding_seconds(stored)),
                ("sorting and writing counts", entry_seconds(stored, "write")),
                ("merging counts files", entry_seconds(stored, "merge")),
            )
        ),
        [
            "joining parts, a byte of ids",
            f"{1e9 * join['median'] / join['bytes']:.2f} ns",
            f"{1e-6 * join['bytes'] / join['median']:.0f} MB/s",
        ],
    ]
    distinct = []
    memory = []
    for text in TEXTS:
        curve = growth[text]
        row = [
            text,
            f"{short(curve.size)}B",
            short(curve.distinct),
            f"{curve.slopes[1]:.2f} ({curve.slopes[0]:.2f} to {curve.slopes[2]:.2f})",
        ]
        each = memory_of_training(stored, text)
        distinct.append(
            [*row, *(f"{short(curve.at(size))} ({short(curve.at(size, 0))} to {short(curve.at(size, 2))})" for size in SIZES)]
        )
        memory.append(
            [
                text,
                f"{entry_bytes(stored, text):.0f} B",
                f"{each:.0f} B",
                f"{1e9 * seconds_of_training(stored, text)[1]:.0f} ns",
            ]
            + [
                f"{short(curve.at(size) * each)}B ({short(curve.at(size, 0) * each)}B to {short(curve.at(size, 2) * each)}B)"
                for size in SIZES
            ]
        )
    plans = []
    for text in ("english", "chinese"):
        for size in SIZES:
            for nodes in NODES:
                plan = plan_job(stored, text, size, nodes)
                stages = [_two_digits(hours) for hours in (plan.count, plan.train, plan.encode, plan.join)]
                plans.append([f"{text}, {short(size)}B", str(nodes), *stages, f"{short(plan.traffic)}B", plan.bottleneck])
    return {
        "units": table(["unit", "time", "rate"], units),
        "predictions": table(
            ["job", "workers", "predicted", "measured", "predicted / measured"],
            [[stage, str(n), f"{a:.2f} s", f"{b:.2f} s", f"{a / b:.2f}"] for stage, n, a, b in checked],
        ),
        "distinct": table(["text", "measured on", "distinct", "slope", *(f"{short(size)}B" for size in SIZES)], distinct),
        "memory": table(["text", "in a file", "in memory", "learning", *(f"memory, {short(size)}B" for size in SIZES)], memory),
        "plans": table(
            ["text and size", "nodes", "count, h", "train, h", "encode, h", "join, h", "traffic", "bottleneck"], plans
        ),
    }


def fill_page(page: str, tables: dict[str, str]) -> str:
    """Return the page with its computed parts replaced."""
    for name, text in tables.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        page, found = pattern.subn(lambda match, text=text: f"{match[1]}{text}{match[2]}", page)  # type: ignore[misc]
        assert found == 1, name
    return page


def draw(stored: dict[str, Any], path: Path) -> None:
    """Write the plot."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "bpejit"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    sizes = np.logspace(6, 14, 60)
    for text, color in zip(TEXTS, ("tab:blue", "tab:green", "tab:red", "tab:orange"), strict=True):
        curve = fit_growth(stored["growth"][text])
        after = sizes[sizes >= curve.size]
        points = np.array(stored["growth"][text]["all"])
        left.plot(points[:, 0], points[:, 1], "o", color=color, markersize=3, label=text)
        left.plot(after, [curve.at(size) for size in after], "--", color=color, linewidth=1)
        bounds = [[curve.at(size, quantile) for size in after] for quantile in (0, 2)]
        left.fill_between(after, *bounds, color=color, alpha=0.15, linewidth=0)
    left.set(xscale="log", yscale="log", xlabel="bytes of text", ylabel="distinct pre-tokens")
    left.set_title("measured (points), extrapolated (lines), interval", fontsize=10)
    left.legend(frameon=False)
    nodes = np.unique(np.logspace(0, 3, 40).astype(int))
    for size, color in zip(SIZES, ("tab:blue", "tab:orange", "tab:red"), strict=True):
        plans = [plan_job(stored, "english", size, int(number)) for number in nodes]
        right.plot(nodes, [plan.count + plan.encode for plan in plans], color=color, label=f"{short(size)}B, count and encode")
        right.plot(nodes, [plan.train + plan.join for plan in plans], ":", color=color, label=f"{short(size)}B, one node")
    right.set(xscale="log", yscale="log", xlabel=f"nodes of {PROCESSORS} processors", ylabel="hours")
    right.set_title("English text, extrapolated", fontsize=10)
    right.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    stored = json.loads(RESULTS.read_text())
    PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8"), make_tables(stored)), encoding="utf-8")
    draw(stored, PICTURE)


if __name__ == "__main__":
    sys.exit(main())
