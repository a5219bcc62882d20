"""What all works share: the options, the inputs, the tools that are installed, and where results go."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from . import machine
from .corpora import Corpora, Corpus
from .processes import JobError
from .results import Record, summary
from .tools import TOOLS, get_tool
from .vocabularies import Vocabularies, Vocabulary

SLOW = 5.0
"""Seconds: a run that takes longer is made twice at most."""

VERY_SLOW = 10.0
"""Seconds: of a run that takes longer, the checked one is the only one."""


class Context:
    def __init__(self, options: argparse.Namespace, folder: Path, corpora: Corpora, vocabularies: Vocabularies) -> None:
        self.options = options
        self.folder = folder
        self.corpora = corpora
        self.vocabularies = vocabularies
        self.versions = machine.versions()
        self.tools = [name for name in TOOLS if name in self.versions and (not options.tools or name in options.tools)]
        if "bpejit" not in self.tools:
            self.tools.insert(0, "bpejit")
        self.encoders = [name for name in self.tools if get_tool(name).encodes]
        self.trainers = [name for name in self.tools if get_tool(name).trains]
        self.results: list[Record] = []
        self.run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def run_record(self, command: str) -> Record:
        return {
            "record": "run",
            "run": self.run,
            "commit": machine.commit(),
            "command": command,
            "machine": machine.machine(),
            "versions": self.versions,
            "workers": self.options.workers,
            "cannot": {
                "train": {name: get_tool(name).no_train for name in self.tools if name not in self.trainers},
                "encode": {name: get_tool(name).no_encode for name in self.tools if name not in self.encoders},
            },
            "missing": [name for name in TOOLS if name not in self.versions],
        }

    def vocabulary(self, name: str) -> Vocabulary:
        corpus = self.corpora.get(self.corpora.names()[0])
        return self.vocabularies.get(name, corpus=corpus.path, vocab_size=self.options.vocab_size)

    def record(self, work: str, case: Record, tool: str, metrics: dict[str, list[float]], **more: Any) -> None:
        """Keep a result; `metrics` are lists of values, one per run."""
        measured = {name: summary(values) for name, values in metrics.items() if values}
        package = get_tool(tool).package if tool in TOOLS else tool
        self.results.append(
            {
                "record": "result",
                "run": self.run,
                "work": work,
                "case": case,
                "tool": tool,
                "version": self.versions.get(tool) or self.versions.get(package) or "",
                "metrics": measured,
                **more,
            }
        )
        figures = ", ".join(f"{name} {value['median']:g}" for name, value in measured.items())
        self.say(
            f"  {tool}: {figures or more.get('status')}{'' if more.get('equal') in (None, True) else '; ' + str(more['equal'])}"
        )

    def refuse(self, work: str, case: Record, tool: str, reason: str) -> None:
        """Say why a tool has no figures in a case."""
        self.record(work, case, tool, {}, status=reason)

    def corpora_named(self) -> Iterable[Corpus]:
        for name in self.options.corpora or self.corpora.names():
            yield self.corpora.get(name)


def planned_rounds(checked_seconds: float, rounds: int) -> int:
    """How often to run what took so long when it was checked; 0: the checked run is what counts."""
    if checked_seconds > VERY_SLOW:
        return 0
    return min(rounds, 2) if checked_seconds > SLOW else rounds


def interleaved(runs: dict[str, Callable[[], Record]], planned: dict[str, int]) -> dict[str, list[Record]]:
    """Run each job as often as planned, taking turns, so that a change of the machine's speed meets all of them."""
    found: dict[str, list[Record]] = {name: [] for name in runs}
    for number in range(max(planned.values(), default=0)):
        for name, run in runs.items():
            if number < planned[name]:
                found[name].append(run())
    return found


def first_line(error: JobError) -> str:
    """The line of a failed job's output that says most: the last."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200]


def add_ratios(results: list[Record], metric: str, *, more_is_better: bool = False) -> None:
    """Add to each result how many times better bpejit was in that metric, by medians of the same run and case."""
    ours = next((result["metrics"].get(metric) for result in results if result["tool"] == "bpejit"), None)
    for result in results:
        theirs = result["metrics"].get(metric)
        if ours is None or theirs is None or result["tool"] == "bpejit":
            continue
        ratio = ours["median"] / theirs["median"] if more_is_better else theirs["median"] / ours["median"]
        result.setdefault("ratio", {})[metric] = float(f"{ratio:.3g}")
