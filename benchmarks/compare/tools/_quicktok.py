from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..corpora import END_OF_TEXT, SEPARATOR, documents_of
from ..vocabularies import Vocabulary
from .base import CannotError, Tool, join_documents

ENCODINGS = {"cl100k": "cl100k_base", "o200k": "o200k_base"}


class Quicktok(Tool):
    """Texts are encoded as lists of documents: a long string is up to thirty times slower if it may have special tokens."""

    name = "quicktok"
    package = "quicktok-v1"
    bytes_per_second = 5e7

    def prepare(self) -> None:
        import quicktok  # noqa: F401

    def load(self, vocabulary: Vocabulary) -> Any:
        import quicktok

        if vocabulary.name not in ENCODINGS:
            raise CannotError(f"it has no {vocabulary.name}; its importer refuses GPT-2's pattern")
        return quicktok.get_encoding(ENCODINGS[vocabulary.name])

    def text_of(self, data: bytes) -> Any:
        return documents_of(data), data.endswith(SEPARATOR)

    def encode(self, encoder: Any, text: Any, threads: int = 1) -> Any:
        documents, ends_with_special = text
        return encoder.encode_batch(documents, threads), ends_with_special

    def ids_of(self, result: Any, vocabulary: Vocabulary) -> np.ndarray:
        (ids, starts), ends_with_special = result
        return join_documents(np.split(ids, starts[1:-1]), vocabulary.special_tokens[END_OF_TEXT], ends_with_special)

    def encode_line(self, encoder: Any, text: str) -> Any:
        return encoder.encode(text)

    def encode_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        return encoder.encode_batch(texts, threads)

    def batch_ids(self, result: Any) -> np.ndarray:
        return np.asarray(result[0], dtype=np.uint32)

    def encode_file(self, encoder: Any, vocabulary: Vocabulary, path: Path, out: Path, *, workers: int, dtype: str) -> None:
        result = self.encode(encoder, self.text_of(path.read_bytes()), workers)
        self.ids_of(result, vocabulary).astype(dtype).tofile(out)

    def decode_file(self, encoder: Any, path: Path, out: Path, *, dtype: str) -> None:
        out.write_bytes(encoder.decode_bytes(np.fromfile(path, dtype=dtype).tolist()))

    def script(self, vocabulary: Vocabulary, line: str) -> str:
        if vocabulary.name not in ENCODINGS:
            raise CannotError(f"it has no {vocabulary.name}; its importer refuses GPT-2's pattern")
        return f"import quicktok\nprint(quicktok.get_encoding({ENCODINGS[vocabulary.name]!r}).encode({line!r}))"
