"""Encoding a text in memory on one thread, first with a fresh cache, then again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .context import Context, add_ratios, first_line, interleaved
from .corpora import Corpus, cut
from .processes import ONE_PROCESSOR, JobError, run_job
from .tools import get_tool
from .vocabularies import Vocabulary

ONE_THREAD = {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", ONE_PROCESSOR: "1"}

PASS_SECONDS = 0.3
"""A slow tool gets so much text that a pass takes about so long: it has no cache, and its speed does not depend on it."""

LATER_PASSES = 6
"""In the first of them caches may still grow."""

FAST = 1e8
"""Bytes a second: a faster tool gets the whole text."""


def run(context: Context) -> None:
    names = context.options.vocabularies or context.vocabularies.names()
    for name in names:
        for corpus in context.corpora_named():
            measure(context, context.vocabulary(name), corpus, context.options.rounds)


def part_for(tool: str, data: bytes) -> int:
    """How many bytes of the text a tool gets."""
    rate = get_tool(tool).bytes_a_second
    return len(data) if rate >= FAST else len(cut(data, max(1_000_000, int(rate * PASS_SECONDS))))


def measure(context: Context, vocabulary: Vocabulary, corpus: Corpus, rounds: int) -> None:
    case = {"vocabulary": vocabulary.name, "corpus": corpus.record()}
    context.say(f"encode {corpus.name} ({corpus.n_bytes / 1e6:.1f} MB) with {vocabulary.name}")
    data = corpus.read()
    parts = {name: part_for(name, data) for name in context.encoders}

    def job(tool: str, later: int, **more: Any) -> dict[str, Any]:
        params = {"tool": tool, "vocabulary": vocabulary.params(), "path": str(corpus.path), "n_bytes": parts[tool]}
        options = {name: more.pop(name) for name in ("parts", "save") if name in more}
        return run_job(
            "encode",
            {**params, "later_passes": later, **options},
            environment=ONE_THREAD,
            timeout=context.options.timeout,
            **more,
        )

    smaller = sorted({size for size in parts.values() if size < len(data)})
    ids_file = context.folder / "ids.npy"
    checked = {"bpejit": job("bpejit", 0, parts=smaller, save=str(ids_file), memory=True)}
    digests = {**{int(size): value for size, value in checked["bpejit"].get("parts", {}).items()}}
    digests[len(data)] = checked["bpejit"]["sha256"]
    equal: dict[str, Any] = {"bpejit": True}
    refused = {}
    begun = len(context.results)
    for name in context.encoders[1:]:
        saved = context.folder / f"ids-{name}.npy"
        try:
            found = job(name, 0, save=str(saved), memory=True)
        except JobError as error:
            refused[name] = first_line(error)
            continue
        if "cannot" in found:
            refused[name] = found["cannot"]
        elif found["sha256"] != digests[parts[name]]:
            refused[name] = f"not timed: {difference(ids_file, saved)}"
        else:
            equal[name] = True
            checked[name] = found
    if len(checked) == 1 and refused:
        context.say("  no other tool gives these ids: bpejit's are not confirmed")
        equal["bpejit"] = "not confirmed by another tool"

    fast = {name: get_tool(name).bytes_a_second >= FAST for name in checked}
    runs = {name: lambda name=name: job(name, LATER_PASSES if fast[name] else 1) for name in checked}
    planned = {name: rounds if fast[name] else max(1, rounds // 2) for name in checked}
    for name, found in interleaved(runs, planned).items():
        if any(one["sha256"] != checked[name]["sha256"] for one in found):
            equal[name] = "its ids change from run to run"
        n_bytes = parts[name]
        context.record(
            "encode",
            case,
            name,
            {
                "first_mb_s": [n_bytes / one["first_seconds"] / 1e6 for one in found],
                "later_mb_s": [n_bytes / seconds / 1e6 for one in found for seconds in one["later_seconds"]],
                "load_seconds": [one["load_seconds"] for one in found],
                "peak_mb": [checked[name]["peak_mb"]] if checked[name].get("peak_mb") else [],
                "maxrss_mb": [checked[name]["maxrss_mb"]],
            },
            equal=equal[name],
            threads=1,
            n_bytes=n_bytes,
            n_tokens=checked[name]["n_tokens"],
            form=get_tool(name).encode_note,
        )
    for name, reason in refused.items():
        context.refuse("encode", case, name, reason)
    for metric in ("first_mb_s", "later_mb_s"):
        add_ratios(context.results[begun:], metric, more_is_better=True)


def difference(ours: Path, theirs: Path) -> str:
    """Where ids part; those of a tool that got a part of the text are compared as far as they go."""
    one, other = np.load(ours), np.load(theirs)
    length = min(one.size, other.size)
    places = np.flatnonzero(one[:length] != other[:length])
    if places.size == 0:
        return f"{other.size:,} ids, bpejit {one.size:,}, equal as far as both go"
    place = int(places[0])
    return (
        f"ids differ from number {place + 1:,} on (bpejit {one[place : place + 3].tolist()}, "
        f"here {other[place : place + 3].tolist()})"
    )
