from __future__ import annotations

import gc
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..timing import timed
from ..tools import Tool
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work, threads_label

if TYPE_CHECKING:
    from ..measure import Context

PASSES = 3
"""The first has a fresh cache; the fastest counts."""

CHARACTERS = (10, 96)
"""Lengths of the texts are uniformly distributed: 53 bytes on average."""


class Batch(Work):
    name = "batch"
    section = "Other ways to encode, decode and split"
    unit = "MB/s"
    about = """A list of short strings goes through the batch call, the best of three passes; tiktoken returns lists,
    tokenizers objects, and all others arrays of all ids with the start of each text."""
    metrics = (Metric("mb_s", "MB/s", True),)
    method = "encode_batch"

    def cases(self, context: Context) -> Iterable[Case]:
        texts = short_texts(context.corpus().read().decode(), context.settings.batch_texts)
        path = context.folder / "texts.json"
        path.write_text(json.dumps(texts))
        n_bytes = sum(len(text.encode()) for text in texts)
        for name in context.vocabulary_names():
            vocabulary = context.vocabulary(name)
            for threads in sorted({1, context.settings.workers}):
                key = {"vocabulary": name, "corpus": context.corpus().name, "texts": len(texts), "bytes": n_bytes}
                params = {"vocabulary": vocabulary.params(), "path": str(path), "threads": threads}
                yield Case({**key, "threads": threads}, params, threads)

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        encoder = tool.load(Vocabulary(**params["vocabulary"]))
        texts = json.loads(Path(params["path"]).read_text())
        n_bytes = sum(len(text.encode()) for text in texts)
        best = float("inf")
        for _ in range(PASSES):
            gc.collect()
            result, seconds = timed(lambda: tool.encode_batch(encoder, texts, params["threads"]))
            best = min(best, seconds)
        return {"mb_s": n_bytes / best / 1e6, "texts_per_second": len(texts) / best}, tool.batch_ids(result)

    def label(self, key: Record) -> str:
        mean = key["bytes"] / key["texts"]
        return f"list of {key['texts']:,} strings of {mean:.0f} bytes, {threads_label(key['threads'])}, {key['vocabulary']}"

    def page_label(self, key: Record) -> str:
        return self.label(key).rpartition(", ")[0]

    def in_summary(self, key: Record) -> bool:
        return key["vocabulary"] in ("gpt2", "trained")


def short_texts(text: str, count: int) -> list[str]:
    """Cut a text into strings of random length; it is repeated if it is too short."""
    choose = random.Random(1)
    low, high = CHARACTERS
    texts: list[str] = []
    start = 0
    while len(texts) < count:
        length = choose.randint(low, high)
        texts.append(text[start : start + length].replace("<|", "< |"))
        start = start + length if start + length < len(text) else 0
    return texts
