"""How time and memory of training and encoding grow with the size of the text and of the vocabulary; bpejit alone."""

from __future__ import annotations

from typing import Any

from .context import Context, interleaved, planned_rounds
from .corpora import Corpus
from .processes import run_job
from .vocabularies import Vocabulary
from .work_encode import ONE_THREAD


def run(context: Context) -> None:
    options = context.options
    corpora = context.corpora.mixed(options.scaling_sizes, options.corpora)
    middle = corpora[min(1, len(corpora) - 1)]
    for corpus in corpora:
        measure(context, corpus, options.vocab_size, "corpus")
    for vocab_size in options.scaling_vocabularies:
        measure(context, middle, vocab_size, "vocabulary")


def measure(context: Context, corpus: Corpus, vocab_size: int, against: str) -> None:
    options = context.options
    context.say(f"scaling: {corpus.name}, vocabulary {vocab_size:,}")
    case = {"against": against, "corpus": corpus.record(), "vocab_size": vocab_size}
    params = {"tool": "bpejit", "path": str(corpus.path), "vocab_size": vocab_size, "rule": "greatest-bytes"}

    def train(folder: str | None = None, **more: Any) -> dict[str, Any]:
        job = {**params, "workers": options.workers, "folder": folder}
        return run_job("train", job, timeout=options.timeout, **more)

    folder = context.folder / f"scaling-{against}-{corpus.name}-{vocab_size}"
    folder.mkdir()
    checked = train(str(folder), memory=True)
    rounds = planned_rounds(checked["process_seconds"], min(2, options.rounds))
    trained = interleaved({"bpejit": train}, {"bpejit": rounds})["bpejit"] or [checked]
    metrics = {
        "train_seconds": [one["seconds"] for one in trained],
        "train_peak_mb": [checked["peak_mb"]] if checked.get("peak_mb") else [checked["maxrss_mb"]],
    }
    vocabulary = Vocabulary(folder.name, str(folder), "gpt2", {}, checked["n_merges"] + 256, 0)

    def encode(later_passes: int, **more: Any) -> dict[str, Any]:
        again = {"tool": "bpejit", "vocabulary": vocabulary.params(), "path": str(corpus.path), "n_bytes": corpus.n_bytes}
        return run_job(
            "encode", {**again, "later_passes": later_passes}, environment=ONE_THREAD, timeout=options.timeout, **more
        )

    held = encode(0, memory=True)
    found = [encode(2) for _ in range(min(2, options.rounds))]
    metrics |= {
        "first_seconds": [one["first_seconds"] for one in found],
        "later_seconds": [seconds for one in found for seconds in one["later_seconds"]],
        "encode_peak_mb": [held["peak_mb"]] if held.get("peak_mb") else [held["maxrss_mb"]],
    }
    more = {"n_merges": checked["n_merges"], "n_tokens": held["n_tokens"], "threads": options.workers}
    context.record("scaling", case, "bpejit", metrics, **more)
