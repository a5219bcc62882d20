from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..timing import timed
from ..tools import Tool
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work

if TYPE_CHECKING:
    from ..measure import Context

LINE = "A first line: it's 1,234 bytes — or fewer, isn't it?\n"


class Load(Work):
    name = "load"
    section = "Starting"
    unit = "seconds"
    about = """Loading a vocabulary includes the first line; bpejit, gigatoken and tiktoken read a rank file, tokenizers a
    `tokenizer.json`."""
    metrics = (Metric("seconds", "seconds"),)
    memory = True

    def cases(self, context: Context) -> Iterable[Case]:
        for name in context.vocabulary_names():
            vocabulary = context.vocabulary(name)
            yield Case({"vocabulary": name, "tokens": vocabulary.n_tokens}, {"vocabulary": vocabulary.params()})

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        vocabulary = Vocabulary(**params["vocabulary"])
        ids, seconds = timed(lambda: tool.encode_line(tool.load(vocabulary), LINE))
        return {"seconds": seconds}, np.asarray(ids, dtype=np.uint32)

    def label(self, key: Record) -> str:
        return f"loading {key['vocabulary']}, {key['tokens']:,} tokens"
