from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..corpora import OWN, cut
from ..timing import timed
from ..tools import Tool
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work, text_label
from .train import digests

if TYPE_CHECKING:
    from ..measure import Context

LABELS = {
    "train": "training",
    "first": "encoding without a cache; bpejit's first pass",
    "cached": "encoding with a cache, first pass",
    "later": "encoding with a cache, second pass",
}


class PlainPython(Work):
    name = "plain_python"
    section = "Against plain Python"
    unit = "seconds"
    about = """Seconds on one core, against [textbook BPE in plain Python](compare/tools/_plain_python.py), with equal merges
    and ids."""
    metrics = (Metric("seconds", "seconds"),)
    only: ClassVar[tuple[str, ...]] = ("bpejit", "bpejit-avx2", "plain-python")

    def cases(self, context: Context) -> Iterable[Case]:
        settings = context.settings
        corpus = context.corpora.prefix(next(iter(context.corpora.given), OWN[0]), settings.plain_bytes)
        vocabulary = context.vocabulary()
        params = {"path": str(corpus.path), "vocab_size": 257 + settings.plain_merges, "vocabulary": vocabulary.params()}
        for what in LABELS:
            detail = {"merges": settings.plain_merges} if what == "train" else {"vocabulary": vocabulary.name}
            yield Case({"what": what, "corpus": corpus.record(), **detail}, {**params, "what": what})

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        path = Path(params["path"])
        if params["what"] == "train":
            with tempfile.TemporaryDirectory() as folder:
                options = {"workers": 1, "rule": "greatest-bytes", "folder": Path(folder)}
                result, seconds = timed(lambda: tool.train(path, params["vocab_size"], **options))
            return {"seconds": seconds}, digests(tool.trained(result).merges or [])
        vocabulary = Vocabulary(**params["vocabulary"])
        encoder = tool.load(vocabulary)
        if params["what"] == "first" and tool.name == "plain-python":
            encoder["cache"] = None
        text = tool.text_of(cut(path.read_bytes(), path.stat().st_size))
        if params["what"] == "later":
            tool.encode(encoder, text)
        result, seconds = timed(lambda: tool.encode(encoder, text))
        return {"seconds": seconds}, tool.ids_of(result, vocabulary)

    def label(self, key: Record) -> str:
        detail = f"{key['merges']:,} merges" if "merges" in key else key["vocabulary"]
        return f"{LABELS[key['what']]} ({text_label(key['corpus'])}, {detail})"
