"""Splitting alone, every preset, on one core, beside the `regex` package."""

from __future__ import annotations

from .context import Context, add_ratios
from .corpora import cut
from .processes import run_job

REGEX_BYTES = 2_000_000
"""The regex package gets the beginning of the text: it is a hundred times slower, and its speed does not depend on it."""


def run(context: Context) -> None:
    from bpejit.splitting import PRESETS

    for corpus in context.corpora_named():
        data = corpus.read()
        part = len(cut(data, REGEX_BYTES))
        for pattern in PRESETS:
            case = {"pattern": pattern, "corpus": corpus.record()}
            context.say(f"split {corpus.name} by {pattern}")
            params = {"path": str(corpus.path), "pattern": pattern, "passes": 7, "check_bytes": part}
            ours = run_job("split", {**params, "tool": "bpejit", "n_bytes": len(data)})
            if not ours.get("equal"):
                reason = ours.get("cannot", "not shown: it splits otherwise than the regex package")
                context.refuse("split", case, "bpejit", reason)
                continue
            begun = len(context.results)
            for tool, one in (
                ("bpejit", ours),
                ("regex", run_job("split", {**params, "tool": "regex", "n_bytes": part})),
            ):
                rates = [one["n_bytes"] / seconds / 1e6 for seconds in one["seconds"]]
                context.record("split", case, tool, {"mb_s": rates}, equal=True, threads=1, n_bytes=one["n_bytes"])
            add_ratios(context.results[begun:], "mb_s", more_is_better=True)
