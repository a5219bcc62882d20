"""Encoding from file to file, with one worker and with several."""

from __future__ import annotations

from typing import Any

from .context import Context, add_ratios, first_line, interleaved, planned_rounds
from .processes import JobError, run_job

TOOLS = ("bpejit", "gigatoken")

FORMS = {
    "bpejit": "file to tokens.bin",
    "gigatoken": "file to an array in memory, then written by NumPy",
}


def run(context: Context) -> None:
    options = context.options
    vocabulary = context.vocabulary((options.vocabularies or context.vocabularies.names())[0])
    corpus = context.corpora.repeated((options.corpora or context.corpora.names())[0], options.file_bytes)
    context.say(f"encode-file {corpus.name} with {vocabulary.name}")
    tools = [name for name in TOOLS if name in context.tools]

    def job(tool: str, workers: int, **more: Any) -> dict[str, Any]:
        params = {"tool": tool, "vocabulary": vocabulary.params(), "path": str(corpus.path), "workers": workers}
        return run_job("encode-file", params, environment={"RAYON_NUM_THREADS": str(workers)}, timeout=options.timeout, **more)

    checked: dict[str, dict[str, Any]] = {}
    refused = {}
    numbers = sorted({1, options.workers})
    cases = {workers: {"vocabulary": vocabulary.name, "corpus": corpus.record(), "workers": workers} for workers in numbers}
    for tool in tools:
        for workers in numbers:
            try:
                found = job(tool, workers, memory=True)
            except JobError as error:
                refused[f"{tool} {workers}"] = first_line(error)
                continue
            if found["sha256"] != checked.get("bpejit 1", found)["sha256"]:
                refused[f"{tool} {workers}"] = "not timed: its ids differ from bpejit's"
            else:
                checked[f"{tool} {workers}"] = found
    runs = {key: lambda key=key: job(key.split()[0], int(key.split()[1])) for key in checked}
    planned = {key: planned_rounds(found["process_seconds"], min(3, options.rounds)) for key, found in checked.items()}
    measured = interleaved(runs, planned)
    begun = len(context.results)
    for key, found in checked.items():
        tool, workers = key.split()
        repeated = measured[key] or [found]
        context.record(
            "encode-file",
            cases[int(workers)],
            tool,
            {
                "seconds": [one["seconds"] for one in repeated],
                "mb_s": [corpus.n_bytes / one["seconds"] / 1e6 for one in repeated],
                "peak_mb": [found["peak_mb"]] if found.get("peak_mb") else [],
                "maxrss_mb": [found["maxrss_mb"]],
            },
            equal=True,
            threads=int(workers),
            form=FORMS[tool],
        )
    for key, reason in refused.items():
        context.refuse("encode-file", cases[int(key.split()[1])], key.split()[0], reason)
    for workers in numbers:
        same = [result for result in context.results[begun:] if result["case"]["workers"] == workers]
        add_ratios(same, "mb_s", more_is_better=True)
