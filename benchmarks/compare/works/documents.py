from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..corpora import documents_of
from ..tools import Tool
from ..vocabularies import Vocabulary
from .base import Case, Record, text_label, threads_label
from .halves import Halves, texts

if TYPE_CHECKING:
    from ..measure import Context


class Documents(Halves):
    name = "documents"
    about = "The same with a list of the documents, through the batch call."
    method = "encode_batch"

    def cases(self, context: Context) -> Iterable[Case]:
        for threads in sorted({1, context.settings.workers}):
            for vocabulary, corpus in texts(context):
                key = {"vocabulary": vocabulary.name, "corpus": corpus.record(), "threads": threads}
                params = {"vocabulary": vocabulary.params(), "path": str(corpus.path), "threads": threads}
                yield Case(key, params, threads)

    def text_of(self, tool: Tool, data: bytes) -> Any:
        return documents_of(data)

    def encode(self, tool: Tool, encoder: Any, text: Any, params: Record) -> Any:
        return tool.encode_batch(encoder, text, params["threads"])

    def ids_of(self, tool: Tool, result: Any, vocabulary: Vocabulary) -> np.ndarray:
        return tool.batch_ids(result)

    def label(self, key: Record) -> str:
        return f"documents, {threads_label(key['threads'])}, {key['vocabulary']}, {text_label(key['corpus'])}"
