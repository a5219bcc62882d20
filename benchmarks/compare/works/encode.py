from __future__ import annotations

import gc
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..corpora import Corpus, cut
from ..timing import stop_sampling, timed
from ..tools import Tool
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work, text_label

if TYPE_CHECKING:
    from ..measure import Context

PASS_SECONDS = 0.3
"""A slow tool gets a prefix of the text that takes about this long: it has no cache, and its speed does not depend on it."""

LATER_PASSES = 6
"""In the first of them caches may still grow."""

FAST = 1e8
"""Bytes per second: a faster tool gets the whole text."""


class Encode(Work):
    name = "encode"
    section = "Encoding in memory"
    about = """The first pass over a text with a fresh cache, and later passes over the same text, on one thread. Each tool
    gets its preferred form of the text and returns its fastest result; tools without a cache get a prefix of the
    text."""
    metrics = (Metric("first_mb_s", "MB/s, first pass", True), Metric("later_mb_s", "later passes", True))
    memory = True
    shows_memory = False

    def cases(self, context: Context) -> Iterable[Case]:
        for name in context.vocabulary_names():
            for corpus_name in context.corpus_names():
                yield encode_case(context.vocabulary(name), context.corpus(corpus_name))

    def params_for(self, tool: Tool, case: Case) -> Record:
        n_bytes = case.key["corpus"]["bytes"]
        if tool.bytes_per_second < FAST:
            wanted = max(1_000_000, int(tool.bytes_per_second * PASS_SECONDS))
            n_bytes = len(cut(Path(case.params["path"]).read_bytes(), wanted))
        return {**case.params, "n_bytes": n_bytes}

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        vocabulary = Vocabulary(**params["vocabulary"])
        encoder = tool.load(vocabulary)
        data = Path(params["path"]).read_bytes()[: params["n_bytes"]]
        text = tool.text_of(data)
        gc.collect()
        result, first = timed(lambda: tool.encode(encoder, text))
        stop_sampling()
        ids = tool.ids_of(result, vocabulary)
        del result
        later = []
        for _ in range(LATER_PASSES if tool.bytes_per_second >= FAST else 1):
            result, seconds = timed(lambda: tool.encode(encoder, text))
            later.append(len(data) / seconds / 1e6)
            if not np.array_equal(tool.ids_of(result, vocabulary), ids):
                raise AssertionError("a later pass returned other ids than the first")
            del result
        return {"first_mb_s": len(data) / first / 1e6, "later_mb_s": later}, ids

    def label(self, key: Record) -> str:
        return f"{key['vocabulary']}, {text_label(key['corpus'])}"


def encode_case(vocabulary: Vocabulary, corpus: Corpus) -> Case:
    """Return the case of a vocabulary and a text."""
    key = {"vocabulary": vocabulary.name, "corpus": corpus.record()}
    return Case(key, {"vocabulary": vocabulary.params(), "path": str(corpus.path)})
