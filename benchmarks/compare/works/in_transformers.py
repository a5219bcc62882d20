from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tools import CannotError, Tool
from ..vocabularies import Vocabulary
from .base import Case, text_label, threads_label
from .documents import Documents
from .halves import texts

if TYPE_CHECKING:
    from ..measure import Context

CHARACTERS = 3000
"""The length of the documents."""


class InTransformers(Documents):
    name = "in_transformers"
    section = "Inside transformers"
    about = """A tokenizer of `transformers`, in which the tool encodes, is called with a list of texts of 3,000 characters, and
    returns lists of ids and masks: the first half of a text with a fresh cache, and then the second half. The column
    `tokenizers` is the tokenizer as it is."""
    method = "into_transformers"

    def cases(self, context: Context) -> Iterable[Case]:
        threads = context.settings.workers
        for vocabulary, corpus in texts(context):
            key = {"vocabulary": vocabulary.name, "corpus": corpus.record(), "threads": threads}
            yield Case(key, {"vocabulary": vocabulary.params(), "path": str(corpus.path), "threads": threads}, threads)

    def load(self, tool: Tool, vocabulary: Vocabulary) -> Any:
        try:
            transformers = import_module("transformers")
        except ImportError as cause:
            raise CannotError("transformers is not installed") from cause
        names = ["input_ids", "attention_mask"]
        file = str(vocabulary.plain)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=file, model_input_names=names, model_max_length=1 << 40)
        return tool.into_transformers(tokenizer)

    def text_of(self, tool: Tool, data: bytes) -> Any:
        text = data.decode()
        return [text[start : start + CHARACTERS] for start in range(0, len(text), CHARACTERS)]

    def encode(self, tool: Tool, encoder: Any, text: Any, params: Any) -> Any:
        return encoder(text)

    def ids_of(self, tool: Tool, result: Any, vocabulary: Vocabulary) -> np.ndarray:
        assert all(mask == [1] * len(ids) for ids, mask in zip(result["input_ids"], result["attention_mask"], strict=True))
        return np.concatenate([np.asarray(ids, np.uint32) for ids in result["input_ids"]])

    def label(self, key: Any) -> str:
        return f"{threads_label(key['threads'])}, {key['vocabulary']}, {text_label(key['corpus'])}"
