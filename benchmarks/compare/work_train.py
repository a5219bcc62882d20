"""Training: file to vocabulary, all cores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .context import Context, add_ratios, first_line, interleaved, planned_rounds
from .corpora import Corpus
from .processes import JobError, run_job
from .tools import get_tool

RULES = ("hf", "smallest-ids")
"""bpejit is timed with the first; the others are run to compare merges with the tools that follow them."""


def run(context: Context) -> None:
    for corpus in context.corpora_named():
        measure(context, corpus, context.options.vocab_size)


def measure(context: Context, corpus: Corpus, vocab_size: int) -> None:
    case = {"corpus": corpus.record(), "vocab_size": vocab_size}
    context.say(f"train {vocab_size:,} on {corpus.name} ({corpus.n_bytes / 1e6:.1f} MB)")
    options = context.options

    def job(tool: str, rule: str, save: Path | None = None, **more: Any) -> dict[str, Any]:
        params = {"tool": tool, "path": str(corpus.path), "vocab_size": vocab_size, "workers": options.workers, "rule": rule}
        # rayon and OpenMP would take all cores of the machine otherwise
        threads = {"RAYON_NUM_THREADS": str(options.workers), "OMP_NUM_THREADS": str(options.workers)}
        return run_job("train", {**params, "save": save and str(save)}, environment=threads, timeout=options.timeout, **more)

    ours = {}
    for rule in RULES:
        saved = context.folder / f"merges-{rule}.json"
        found = job("bpejit", rule, saved, memory=rule == RULES[0])
        ours[rule] = json.loads(saved.read_text())
        if rule == RULES[0]:
            checked = {"bpejit": found}
    equal: dict[str, Any] = {"bpejit": True}
    rules = {"bpejit": RULES[0]}
    begun = len(context.results)
    refused = {}
    for name in context.trainers[1:]:
        tool = get_tool(name)
        saved = context.folder / f"merges-{name}.json"
        rules[name] = tool.tie_rule or ""
        try:
            checked[name] = job(name, rules[name], saved, memory=True)
        except JobError as error:
            refused[name] = first_line(error)
            continue
        if "cannot" in checked[name]:
            refused[name] = checked.pop(name)["cannot"]
        elif tool.tie_rule is None:
            equal[name] = "not comparable: another algorithm"
        else:
            equal[name] = compare(json.loads(saved.read_text()), ours[tool.tie_rule])

    runs = {name: lambda name=name: job(name, rules[name]) for name in checked}
    planned = {
        name: planned_rounds(found["process_seconds"], options.rounds if get_tool(name).tie_rule or name == "bpejit" else 1)
        for name, found in checked.items()
    }
    measured = interleaved(runs, planned)
    for name, found in checked.items():
        repeated = measured[name] or [found]
        if any(one["sha256"] != found["sha256"] for one in repeated):
            equal[name] = "its merges change from run to run"
        context.record(
            "train",
            case,
            name,
            {
                "seconds": [one["seconds"] for one in repeated],
                "process_seconds": [one["process_seconds"] for one in repeated],
                "prepare_seconds": [one["prepare_seconds"] for one in repeated],
                "peak_mb": [found["peak_mb"]] if found.get("peak_mb") else [],
                "maxrss_mb": [found["maxrss_mb"]],
            },
            equal=equal[name],
            tie_rule=rules[name],
            threads=options.workers,
            form=get_tool(name).train_note,
        )
    for name, reason in refused.items():
        context.refuse("train", case, name, reason)
    for metric in ("seconds", "peak_mb"):
        add_ratios(context.results[begun:], metric)


def compare(theirs: dict[str, Any], ours: dict[str, Any]) -> bool | str:
    """True, or where the merges part."""
    kind = "merges" if theirs["merges"] else "tokens"
    for number, (one, other) in enumerate(zip(theirs[kind], ours[kind], strict=False), start=1):
        if one != other:
            return f"merges differ from number {number:,} on"
    if len(theirs[kind]) != len(ours[kind]):
        return f"{len(theirs[kind]):,} merges, bpejit {len(ours[kind]):,}; equal as far as both go"
    return True
