from __future__ import annotations

import gc
from pathlib import Path

import numpy as np

from ..corpora import documents_of
from ..timing import timed
from ..tools import Tool
from ..vocabularies import Vocabulary
from .base import Metric, Record, text_label, threads_label
from .documents import Documents
from .encode import LATER_PASSES


class Count(Documents):
    name = "count"
    section = "Counting tokens"
    unit = "MB/s, first pass / later passes / later passes with ids"
    about = """The tokens of each document of a list are counted, in a first pass and in later ones; the third figure is that
    of the batch call that returns ids, in later passes of the same process. tiktoken has no call that counts."""
    metrics = (
        Metric("first_mb_s", "MB/s, first pass", True),
        Metric("later_mb_s", "later passes", True),
        Metric("ids_mb_s", "later passes with ids", True),
    )
    method = "count_batch"

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        encoder = tool.load(Vocabulary(**params["vocabulary"]))
        data = Path(params["path"]).read_bytes()[: params["n_bytes"]]
        texts = documents_of(data)
        gc.collect()
        counts, first = timed(lambda: tool.count_batch(encoder, texts, params["threads"]))
        later, with_ids = [], []
        for _ in range(LATER_PASSES):  # in turn, since the speed of a machine changes
            _, seconds = timed(lambda: tool.count_batch(encoder, texts, params["threads"]))
            later.append(len(data) / seconds / 1e6)
            _, seconds = timed(lambda: tool.encode_batch(encoder, texts, params["threads"]))
            with_ids.append(len(data) / seconds / 1e6)
        return {"first_mb_s": len(data) / first / 1e6, "later_mb_s": later, "ids_mb_s": with_ids}, np.asarray(counts, np.uint32)

    def label(self, key: Record) -> str:
        return f"documents, {threads_label(key['threads'])}, {key['vocabulary']}, {text_label(key['corpus'])}"
