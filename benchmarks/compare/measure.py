"""Compare each tool's result with bpejit's, then time the tools, interleaved."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import machine
from .corpora import Corpora, Corpus, MissingInputError
from .processes import JobError, thread_limits
from .results import Record, summary
from .settings import Settings
from .tools import TOOLS, get_tool
from .vocabularies import Vocabularies, Vocabulary
from .works.base import Case, Work

SLOW = 5.0
"""Seconds: a job that takes longer is timed at most twice."""

VERY_SLOW = 10.0
"""Seconds: a job that takes longer is not repeated; the run that checks its result counts."""


@dataclass
class Context:
    """The settings, the inputs and the tools of a run, and its results."""

    settings: Settings
    folder: Path
    corpora: Corpora
    vocabularies: Vocabularies
    tool_names: list[str]

    def __post_init__(self) -> None:
        versions = {name: get_tool(name).version() for name in TOOLS}
        self.versions = {name: version for name, version in versions.items() if version}
        wanted = self.tool_names or [name for name in TOOLS if not get_tool(name).only_by_name]
        self.tools = [name for name in self.versions if name in wanted or name == "bpejit"]
        self.libraries = machine.library_versions()
        self.commit, self.dirty = machine.commit()
        self.date = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime())
        self.results: list[Record] = []

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def corpus(self, name: str | None = None) -> Corpus:
        """Return a text, by default the first of the run."""
        return self.corpora.get(name or self.corpus_names()[0])

    def corpus_names(self) -> list[str]:
        return self.settings.corpora or list(self.corpora.names())

    def large_corpora(self, *names: str) -> list[Corpus]:
        """Return the large texts of these names that are available; none if the texts of the run are chosen by name."""
        found: list[Corpus] = []
        for name in () if self.settings.corpora or self.corpora.given else names:
            try:
                found.append(self.corpora.get(name))
            except MissingInputError as error:
                self.say(f"  skipped: {error}")
        return found

    def own_vocabulary(self, name: str) -> tuple[Corpus, Vocabulary]:
        """Return the beginning of a text, and a vocabulary that is trained on it."""
        corpus = self.corpora.prefix(name, self.settings.own_bytes)
        return corpus, self.vocabularies.get(f"own-{name}", corpus=corpus.path, vocab_size=self.settings.vocab_size)

    def vocabulary(self, name: str | None = None) -> Vocabulary:
        """Return a vocabulary, by default the first of the run."""
        size = self.settings.vocab_size
        return self.vocabularies.get(name or self.vocabulary_names()[0], corpus=self.corpus().path, vocab_size=size)

    def vocabulary_names(self) -> list[str]:
        return self.settings.vocabularies or list(self.vocabularies.names())

    def record(self, work: Work, case: Case, tool: str, **more: Any) -> None:
        """Add a result: figures, or the status of a tool that has none."""
        self.results.append(
            {
                "record": "result",
                "work": work.name,
                "case": case.key,
                "tool": tool,
                "version": self.versions.get(tool, ""),
                "commit": self.commit,
                "dirty": self.dirty,
                "date": self.date,
                "libraries": self.libraries,
                "threads": case.threads,
                **more,
            }
        )
        figures = ", ".join(f"{name} {value['median']:g}" for name, value in more.get("metrics", {}).items())
        self.say(f"  {tool}: {figures or more['status']}")


def measure(context: Context, work: Work, case: Case) -> None:
    """Measure one case with all tools that can do the work."""
    context.say(f"{work.name}: {work.label(case.key)}")
    tools = [name for name in context.tools if work.includes(get_tool(name))]
    jobs = {name: Job(context, work, case, name) for name in tools}
    checked: dict[str, Record] = {}
    refused: dict[str, str] = {}
    expected: dict[str, tuple[Record, Path]] = {}
    with tempfile.TemporaryDirectory(dir=context.folder) as folder:
        for name, job in jobs.items():
            saved = Path(folder) / f"{name}.npy"
            try:
                answer = job.run(saved, memory=work.memory)
            except JobError as error:
                answer = {"cannot": str(error)}
            if name == "bpejit" and "cannot" in answer:
                context.record(work, case, name, metrics={}, status=answer["cannot"])
                return
            if name == "bpejit":
                expected[job.key] = answer, saved
            if "cannot" not in answer and get_tool(name).comparable:
                if job.key not in expected:
                    own = Path(folder) / f"expected-{len(expected)}.npy"
                    expected[job.key] = Job(context, work, case, "bpejit", job.params).run(own), own
                if expected[job.key][0]["digest"] != answer["digest"]:
                    answer = {"cannot": f"not timed: {difference(expected[job.key][1], saved)}"}
            if "cannot" in answer:
                refused[name] = answer["cannot"]
            else:
                checked[name] = answer
    others = [name for name in checked if get_tool(name).package != "bpejit" and get_tool(name).comparable]
    runs = {name: (lambda job=jobs[name]: job.run(None)) for name in checked}
    rounds = min(context.settings.rounds, work.max_rounds)
    planned = {name: planned_rounds(answer["process_seconds"], rounds) for name, answer in checked.items()}
    for name, answers in interleaved(runs, planned).items():
        if errors := [answer["error"] for answer in answers if "error" in answer]:
            refused[name] = errors[0]
            continue
        if any(answer["digest"] != checked[name]["digest"] for answer in answers):
            refused[name] = "not shown: its results change from run to run"
            continue
        metrics = collect(answers or [checked[name]])
        if peak := checked[name].get("peak_mb"):
            metrics["peak_mb"] = [peak]
        equal: bool | str = True
        if not get_tool(name).comparable:
            equal = "not comparable: another algorithm"
        elif not others:
            equal = "not compared: no other tool does this"
        figures = {metric: summary(values) for metric, values in metrics.items()}
        context.record(work, case, name, metrics=figures, equal=equal, n_items=checked[name]["n_items"])
    for name, reason in refused.items():
        context.record(work, case, name, metrics={}, status=reason)


class Job:
    """A job of one tool in one case; `params` are by default those of the tool."""

    def __init__(self, context: Context, work: Work, case: Case, tool: str, params: Record | None = None) -> None:
        self.context, self.work, self.case, self.tool = context, work, case, get_tool(tool)
        self.params = work.params_for(self.tool, case) if params is None else params
        self.key = json.dumps(self.params, sort_keys=True)

    def run(self, save: Path | None, *, memory: bool = False) -> Record:
        environment = {**thread_limits(self.case.threads), **self.tool.environment}
        timeout = self.context.settings.timeout
        return self.work.run(self.tool, self.params, environment=environment, save=save, memory=memory, timeout=timeout)


def planned_rounds(seconds: float, rounds: int) -> int:
    """Return how often to repeat a job that took `seconds`; 0 if the run that checked it counts."""
    if seconds > VERY_SLOW:
        return 0
    return min(rounds, 2) if seconds > SLOW else rounds


def interleaved(runs: dict[str, Callable[[], Record]], planned: dict[str, int]) -> dict[str, list[Record]]:
    """Run each job as often as planned, interleaved, so that a change of the machine's speed affects all tools."""
    found: dict[str, list[Record]] = {name: [] for name in runs}
    for number in range(max(planned.values(), default=0)):
        for name, run in runs.items():
            if number < planned[name] and not any("error" in answer for answer in found[name]):
                try:
                    found[name].append(run())
                except JobError as error:
                    found[name].append({"error": str(error)})
    return found


def collect(answers: list[Record]) -> dict[str, list[float]]:
    """Return the values of each metric over several runs."""
    values: dict[str, list[float]] = {}
    for answer in answers:
        for metric, value in answer["metrics"].items():
            values.setdefault(metric, []).extend(value if isinstance(value, list) else [value])
    return values


def difference(ours: Path, theirs: Path) -> str:
    """Describe where two results differ."""
    one, other = np.load(ours).ravel(), np.load(theirs).ravel()
    length = min(one.size, other.size)
    positions = np.flatnonzero(one[:length] != other[:length])
    if positions.size == 0:
        return f"{other.size:,} items, bpejit {one.size:,}; the common prefix is equal"
    return f"results differ from item {positions[0] + 1:,} of {one.size:,} on"
