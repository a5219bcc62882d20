"""bpejit beside `benchmarks/baseline.py`, the same computation as a textbook writes it in Python, on a text small enough."""

from __future__ import annotations

from typing import Any

from .context import Context, add_ratios, interleaved
from .corpora import OWN, cut
from .processes import run_job
from .work_encode import ONE_THREAD


def run(context: Context) -> None:
    options = context.options
    corpus = context.corpora.get(next(iter(context.corpora.given), OWN[0]))
    data = cut(corpus.read(), options.baseline_bytes)
    corpus_record = {**corpus.record(), "bytes": len(data)}
    train(context, data, corpus_record)
    encode(context, corpus.path, data, corpus_record)


def train(context: Context, data: bytes, corpus: dict[str, Any]) -> None:
    options = context.options
    n_merges = options.baseline_merges
    case = {"what": "train", "corpus": corpus, "merges": n_merges}
    context.say(f"baseline: train {n_merges} merges on {len(data) / 1e6:.1f} MB")
    part = context.folder / "baseline.txt"
    part.write_bytes(data)
    theirs = run_job("baseline-train", {"path": str(part), "n_bytes": len(data), "n_merges": n_merges})
    ours = {"tool": "bpejit", "path": str(part), "vocab_size": 257 + n_merges, "rule": "greatest-bytes"}
    found = interleaved(
        {
            "bpejit": lambda: run_job("train", {**ours, "workers": options.workers}),
            "one worker": lambda: run_job("train", {**ours, "workers": 1}),
        },
        {"bpejit": options.rounds, "one worker": options.rounds},
    )
    if any(one["sha256"] != theirs["sha256"] for runs in found.values() for one in runs):
        context.refuse("baseline", case, "bpejit", "not timed: its merges differ from the baseline's")
        return
    begun = len(context.results)
    seconds = [one["seconds"] for one in found["one worker"]]
    context.record("baseline", case, "bpejit", {"seconds": seconds}, equal=True, threads=1)
    context.record("baseline", case, "baseline", {"seconds": [theirs["seconds"]]}, equal=True, threads=1)
    add_ratios(context.results[begun:], "seconds")


def encode(context: Context, path: Any, data: bytes, corpus: dict[str, Any]) -> None:
    options = context.options
    vocabulary = context.vocabulary((options.vocabularies or context.vocabularies.names())[0])
    case = {"what": "encode", "corpus": corpus, "vocabulary": vocabulary.name}
    context.say(f"baseline: encode {len(data) / 1e6:.1f} MB with {vocabulary.name}")
    params = {"vocabulary": vocabulary.params(), "path": str(path), "n_bytes": len(data)}
    theirs = run_job("baseline-encode", params)
    found = [
        run_job("encode", {**params, "tool": "bpejit", "later_passes": 5}, environment=ONE_THREAD)
        for _ in range(options.rounds)
    ]
    if any(one["sha256"] != theirs["sha256"] for one in found):
        context.refuse("baseline", case, "bpejit", "not timed: its ids differ from the baseline's")
        return

    def rate(seconds: list[float]) -> list[float]:
        return [len(data) / one / 1e6 for one in seconds]

    begun = len(context.results)
    first = rate([one["first_seconds"] for one in found])
    later = rate([seconds for one in found for seconds in one["later_seconds"]])
    ours = {"first_mb_s": first, "later_mb_s": later, "uncached_mb_s": first}
    context.record("baseline", case, "bpejit", ours, equal=True, threads=1)
    context.record(
        "baseline",
        case,
        "baseline",
        {
            "first_mb_s": rate([theirs["first_seconds"]]),
            "later_mb_s": rate([theirs["later_seconds"]]),
            "uncached_mb_s": rate([theirs["seconds"]]),
        },
        equal=True,
        threads=1,
    )
    for metric in ("first_mb_s", "later_mb_s", "uncached_mb_s"):
        add_ratios(context.results[begun:], metric, more_is_better=True)
