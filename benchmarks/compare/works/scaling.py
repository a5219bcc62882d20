from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..tools import Tool
from .base import Case, Metric, Record, Work, size_label
from .encode import Encode
from .train import Train

if TYPE_CHECKING:
    from ..measure import Context


class Scaling(Work):
    name = "scaling"
    section = "Growth with text and vocabulary"
    about = """Training on all cores and one encoding pass on one thread, by bytes of text and tokens of the vocabulary; each
    text is a prefix of the next."""
    metrics = (Metric("seconds", "seconds"),)
    only: ClassVar[tuple[str, ...]] = ("bpejit",)
    memory = True

    def cases(self, context: Context) -> Iterable[Case]:
        settings = context.settings
        corpora = context.corpora.mixed(list(settings.scaling_bytes), settings.corpora)
        middle = corpora[min(1, len(corpora) - 1)]
        pairs = [(corpus, settings.vocab_size) for corpus in corpora]
        pairs += [(middle, size) for size in settings.scaling_vocab_sizes if size != settings.vocab_size]
        for corpus, vocab_size in pairs:
            own = context.vocabularies.get(f"{corpus.name}-{vocab_size}", corpus=corpus.path, vocab_size=vocab_size)
            key = {"corpus": corpus.record(), "vocab_size": own.n_tokens + 1}
            train = {"path": str(corpus.path), "vocab_size": vocab_size, "workers": settings.workers}
            train = {"what": "train", **train, "rule": "greatest-bytes", "compare": "merges"}
            yield Case({"what": "train", **key}, train, settings.workers)
            encode = {"what": "encode", "vocabulary": own.params(), "path": str(corpus.path), "n_bytes": corpus.n_bytes}
            yield Case({"what": "encode", **key}, encode)

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        if params["what"] == "train":
            return Train().job(tool, params)
        metrics, ids = Encode().job(tool, params)
        return {"seconds": params["n_bytes"] / metrics["first_mb_s"] / 1e6}, ids

    def label(self, key: Record) -> str:
        return f"{key['what']}, {size_label(key['corpus']['bytes'])}, {key['vocab_size']:,} tokens"

    def in_summary(self, key: Record) -> bool:
        return False
