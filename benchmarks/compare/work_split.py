"""Splitting alone, every preset, on one core, beside the `regex` package."""

from __future__ import annotations

from .context import Context, add_ratios, interleaved
from .corpora import cut
from .processes import run_job

REGEX_BYTES = 2_000_000
"""The regex package gets the beginning of the text: it is a hundred times slower, and its speed does not depend on it."""


def run(context: Context) -> None:
    from bpejit.split import PRESETS

    for corpus in context.corpora_named():
        data = corpus.read()
        part = len(cut(data, REGEX_BYTES))
        for pattern in PRESETS:
            case = {"pattern": pattern, "corpus": corpus.record()}
            context.say(f"split {corpus.name} by {pattern}")
            params = {"path": str(corpus.path), "pattern": pattern, "passes": 5}
            ours = {**params, "tool": "bpejit", "n_bytes": len(data)}
            begun = len(context.results)
            checked = run_job("split", {**ours, "n_bytes": part, "check": True})
            if "cannot" in checked:
                context.refuse("split", case, "bpejit", checked["cannot"])
                continue
            if not checked["equal"]:
                context.refuse("split", case, "bpejit", "not timed: it splits otherwise than the regex package")
                continue
            regex = {**params, "tool": "regex", "n_bytes": part}
            runs = {
                "bpejit": lambda ours=ours: run_job("split", ours),
                "regex": lambda regex=regex: run_job("split", regex),
            }
            found = interleaved(runs, {"bpejit": min(2, context.options.rounds), "regex": 1})
            if found["regex"][0]["n_pretokens"] != checked["n_pretokens"]:
                context.refuse("split", case, "bpejit", "not timed: other pre-tokens than the regex package")
                continue
            for tool, one in found.items():
                rates = [run["n_bytes"] / seconds / 1e6 for run in one for seconds in run["seconds"]]
                context.record("split", case, tool, {"mb_s": rates}, equal=True, threads=1, n_bytes=one[0]["n_bytes"])
            add_ratios(context.results[begun:], "mb_s", more_is_better=True)
