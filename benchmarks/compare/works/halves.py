from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..corpora import Corpus, cut_position
from ..timing import stop_sampling, timed
from ..tools import Tool
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, text_label
from .encode import Encode, encode_case

if TYPE_CHECKING:
    from ..measure import Context


class Halves(Encode):
    name = "halves"
    section = "Encoding more text"
    about = """The first half of a text with a fresh cache, and then the second half with the same tokenizer: its cache is
    warm, but it has not seen this text."""
    unit = "MB/s, first half / second half"
    metrics = (Metric("first_mb_s", "MB/s, first half", True), Metric("second_mb_s", "second half", True))

    def cases(self, context: Context) -> Iterable[Case]:
        for vocabulary, corpus in texts(context):
            yield encode_case(vocabulary, corpus)

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        vocabulary = Vocabulary(**params["vocabulary"])
        encoder = self.load(tool, vocabulary)
        data = Path(params["path"]).read_bytes()[: params["n_bytes"]]
        middle = cut_position(data, len(data) // 2)
        self.encode(tool, encoder, self.text_of(tool, b"a text for the first call"), params)
        rates, ids = [], []
        for half in (data[:middle], data[middle:]):
            text = self.text_of(tool, half)
            gc.collect()
            result, seconds = timed(lambda text=text: self.encode(tool, encoder, text, params))
            rates.append(len(half) / seconds / 1e6)
            ids.append(self.ids_of(tool, result, vocabulary))
        stop_sampling()
        return dict(zip(("first_mb_s", "second_mb_s"), rates, strict=True)), np.concatenate(ids)

    def load(self, tool: Tool, vocabulary: Vocabulary) -> Any:
        return tool.load(vocabulary)

    def text_of(self, tool: Tool, data: bytes) -> Any:
        return tool.text_of(data)

    def encode(self, tool: Tool, encoder: Any, text: Any, params: Record) -> Any:
        return tool.encode(encoder, text)

    def ids_of(self, tool: Tool, result: Any, vocabulary: Vocabulary) -> np.ndarray:
        return tool.ids_of(result, vocabulary)

    def label(self, key: Record) -> str:
        return f"text, {key['vocabulary']}, {text_label(key['corpus'])}"


def texts(context: Context) -> Iterator[tuple[Vocabulary, Corpus]]:
    """Return all texts with the first vocabulary, and the first text with the others."""
    for corpus_name in context.corpus_names():
        yield context.vocabulary(), context.corpus(corpus_name)
    for name in context.vocabulary_names():
        if name != context.vocabulary().name:
            yield context.vocabulary(name), context.corpus()
