from __future__ import annotations

from typing import Any

import numpy as np

from ..corpora import END_OF_TEXT, SEPARATOR, documents_of
from ..vocabularies import Vocabulary
from .base import CannotError, Tool, join_documents

ENCODINGS = {"cl100k": "cl100k_base", "o200k": "o200k_base"}


class Quicktok(Tool):
    name = "quicktok"
    package = "quicktok-v1"
    # A long text as one string is up to thirty times slower, if its special tokens are to be found.
    encode_note = "a list of documents to an array, by encode_batch on one thread"
    bytes_a_second = 5e7

    def prepare(self) -> None:
        import quicktok  # noqa: F401

    def load(self, vocabulary: Vocabulary) -> Any:
        import quicktok

        if vocabulary.name not in ENCODINGS:
            raise CannotError("of these vocabularies it has cl100k and o200k; its importer refuses GPT-2's pattern")
        return quicktok.get_encoding(ENCODINGS[vocabulary.name])

    def text_of(self, data: bytes) -> Any:
        return documents_of(data), data.endswith(SEPARATOR)

    def encode(self, encoder: Any, text: Any) -> Any:
        documents, ends_with_special = text
        return encoder.encode_batch(documents, 1), ends_with_special

    def ids_of(self, result: Any, vocabulary: Vocabulary) -> np.ndarray:
        (ids, starts), ends_with_special = result
        parts = np.split(ids, starts[1:-1])
        return join_documents(parts, len(parts), vocabulary.special_tokens[END_OF_TEXT], ends_with_special)

    def encode_short(self, encoder: Any, text: str) -> Any:
        return encoder.encode(text)
