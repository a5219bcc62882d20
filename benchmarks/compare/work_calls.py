"""Two ends of encoding: one very long pre-token, and short strings one by one."""

from __future__ import annotations

import random
from typing import Any

from .context import Context, add_ratios, first_line, interleaved
from .corpora import documents_of, label
from .processes import JobError, run_job
from .work_encode import ONE_THREAD
from .worker import LONG_KINDS

LONG_LIMIT = 3.0
"""Seconds: a tool that needs longer for one size does not get the next, ten times larger."""

SHORT_BYTES = 100


def run_long(context: Context) -> None:
    options = context.options
    vocabulary = context.vocabulary((options.vocabularies or context.vocabularies.names())[0])
    for kind in LONG_KINDS:
        context.say(f"long: {kind}, {vocabulary.name}")
        params = {"vocabulary": vocabulary.params(), "kind": kind, "sizes": options.long_sizes, "limit": LONG_LIMIT}

        def job(tool: str, params: dict[str, Any] = params) -> dict[str, Any]:
            try:
                return run_job("long", {**params, "tool": tool}, environment=ONE_THREAD, timeout=options.timeout)
            except JobError as error:
                return {"cannot": first_line(error)}

        checked = {tool: job(tool) for tool in context.encoders}
        runs = {tool: lambda tool=tool, job=job: job(tool) for tool, found in checked.items() if "cannot" not in found}
        seconds = {tool: sum(one["seconds"] for one in checked[tool]["found"]) for tool in runs}
        planned = {tool: 0 if seconds[tool] > LONG_LIMIT else options.rounds for tool in runs}
        measured = {tool: found or [checked[tool]] for tool, found in interleaved(runs, planned).items()}
        digests = {one["size"]: one["sha256"] for one in checked["bpejit"]["found"]}
        for number, size in enumerate(options.long_sizes):
            case = {"kind": kind, "size": size, "vocabulary": vocabulary.name}
            begun = len(context.results)
            for tool, found in checked.items():
                if "cannot" in found:
                    context.refuse("long", case, tool, found["cannot"])
                elif number >= len(found["found"]):
                    before = found["found"][-1]
                    context.refuse("long", case, tool, f"not tried: {label(before['size'])} took {before['seconds']:.1f} s")
                elif found["found"][number]["sha256"] != digests.get(size):
                    context.refuse("long", case, tool, "not timed: its ids differ from bpejit's")
                else:
                    times = [one["found"][number]["seconds"] for one in measured[tool] if number < len(one["found"])]
                    context.record("long", case, tool, {"mb_s": [size / t / 1e6 for t in times]}, equal=True, threads=1)
            add_ratios(context.results[begun:], "mb_s", more_is_better=True)


def short_lines(context: Context) -> list[str]:
    """Different lines of the first text that are shorter than 100 bytes, in random order."""
    text = documents_of(context.corpora.get((context.options.corpora or context.corpora.names())[0]).read()[:20_000_000])
    lines = {line for document in text for line in document.splitlines() if 20 <= len(line.encode()) < SHORT_BYTES}
    return random.Random(1).sample(sorted(lines), min(2_000, len(lines)))


def run_short(context: Context) -> None:
    options = context.options
    vocabulary = context.vocabulary((options.vocabularies or context.vocabularies.names())[0])
    lines = short_lines(context)
    mean = sum(len(line.encode()) for line in lines) / len(lines)
    case = {"vocabulary": vocabulary.name, "lines": len(lines), "mean_bytes": round(mean), "same_bytes": len(lines[0].encode())}
    context.say(f"short: {len(lines)} strings of {mean:.0f} bytes, {vocabulary.name}")
    params = {"vocabulary": vocabulary.params(), "lines": lines, "repeats": 5_000}

    def job(tool: str) -> dict[str, Any]:
        try:
            return run_job("short", {**params, "tool": tool}, environment=ONE_THREAD, timeout=options.timeout)
        except JobError as error:
            return {"cannot": first_line(error)}

    checked = {tool: job(tool) for tool in context.encoders}
    begun = len(context.results)
    ours = checked["bpejit"]["sha256"]
    allowed = {tool for tool, found in checked.items() if found.get("sha256") == ours}
    runs = {tool: lambda tool=tool: job(tool) for tool in context.encoders if tool in allowed}
    measured = interleaved(runs, dict.fromkeys(runs, options.rounds))
    for tool, found in checked.items():
        if tool not in allowed:
            context.refuse("short", case, tool, found.get("cannot", "not timed: its ids differ from bpejit's"))
            continue
        metrics = {name: [one[name] for one in measured[tool]] for name in ("same_us", "lines_us")}
        context.record("short", case, tool, metrics, equal=True, threads=1)
    for metric in ("same_us", "lines_us"):
        add_ratios(context.results[begun:], metric)
