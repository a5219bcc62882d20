from __future__ import annotations

import gc
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..corpora import cut, documents_of
from ..timing import timed
from ..tools import Tool
from ..tools.base import concatenate
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work, threads_label

if TYPE_CHECKING:
    from ..measure import Context

PASSES = 3
MAX_BYTES = 10_000_000


class Threads(Work):
    name = "threads"
    section = "Other ways to encode, decode and split"
    unit = "MB/s"
    about = "Python threads share one tokenizer and encode a document per call."
    metrics = (Metric("mb_s", "MB/s", True),)
    method = "encode_line"

    def cases(self, context: Context) -> Iterable[Case]:
        corpus = context.corpus()
        n_bytes = len(cut(corpus.read(), MAX_BYTES))
        vocabulary = context.vocabulary()
        params = {"vocabulary": vocabulary.params(), "path": str(corpus.path), "n_bytes": n_bytes}
        for threads in sorted({1, context.settings.workers}):
            key = {"vocabulary": vocabulary.name, "corpus": corpus.name, "bytes": n_bytes, "threads": threads}
            yield Case(key, {**params, "threads": threads}, threads)

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        encoder = tool.load(Vocabulary(**params["vocabulary"]))
        data = Path(params["path"]).read_bytes()[: params["n_bytes"]]
        documents = documents_of(data)
        best = float("inf")
        with ThreadPoolExecutor(params["threads"]) as pool:
            for _ in range(PASSES):
                gc.collect()
                found, seconds = timed(lambda: list(pool.map(lambda text: tool.encode_line(encoder, text), documents)))
                best = min(best, seconds)
        return {"mb_s": len(data) / best / 1e6}, concatenate(found)

    def label(self, key: Record) -> str:
        return f"documents from {threads_label(key['threads'])}, {key['vocabulary']}"

    def page_label(self, key: Record) -> str:
        return self.label(key).rpartition(", ")[0]
