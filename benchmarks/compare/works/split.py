from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..corpora import cut
from ..timing import timed
from ..tools import Tool
from .base import Case, Metric, Record, Work, text_label

if TYPE_CHECKING:
    from ..measure import Context

REGEX_BYTES = 2_000_000
"""The regex package gets a prefix: it is a hundred times slower, and its speed does not depend on the length."""

PASSES = 7


class Split(Work):
    name = "split"
    section = "Other ways to encode, decode and split"
    unit = "MB/s"
    about = "Splitting is on one core, with all presets; `regex` iterates over a decoded string."
    metrics = (Metric("mb_s", "MB/s", True),)
    method = "split"
    max_rounds = 1
    reference: ClassVar[tuple[str, ...]] = ("regex",)

    def cases(self, context: Context) -> Iterable[Case]:
        from bpejit.splitting import PRESETS

        for corpus_name in context.corpus_names():
            corpus = context.corpus(corpus_name)
            for pattern in context.settings.patterns or PRESETS:
                key = {"pattern": pattern, "corpus": corpus.record()}
                yield Case(key, {"pattern": pattern, "path": str(corpus.path)})

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        data = Path(params["path"]).read_bytes()
        part = cut(data, REGEX_BYTES)
        run, ends = tool.split(params["pattern"], data if tool.name != "regex" else part)
        metrics = []
        for _ in range(PASSES if tool.name != "regex" else 1):
            _, seconds = timed(run)
            metrics.append((len(data) if tool.name != "regex" else len(part)) / seconds / 1e6)
        _, ends = tool.split(params["pattern"], part)
        return {"mb_s": metrics}, ends()

    def label(self, key: Record) -> str:
        return f"splitting {key['corpus']['name']}, {key['pattern']}"

    def page_label(self, key: Record) -> str:
        return f"splitting {text_label(key['corpus'])}"

    def in_summary(self, key: Record) -> bool:
        return key["pattern"] in ("gpt2", "cl100k", "o200k") and key["corpus"]["name"] == "english"
