from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..corpora import END_OF_TEXT, SEPARATOR, documents_of
from ..vocabularies import Vocabulary
from .base import Tool, join_documents


class Fastokens(Tool):
    """Texts are encoded as lists of documents, by the batch call that returns arrays."""

    name = "fastokens"
    package = "fastokens"
    bytes_per_second = 2e8

    def prepare(self) -> None:
        import fastokens  # noqa: F401

    def load(self, vocabulary: Vocabulary) -> Any:
        import fastokens

        return fastokens.Tokenizer.from_file(str(vocabulary.plain))

    def text_of(self, data: bytes) -> Any:
        return documents_of(data), data.endswith(SEPARATOR)

    def encode(self, encoder: Any, text: Any) -> Any:
        documents, ends_with_special = text
        return encoder.encode_batch_flat(documents), ends_with_special

    def ids_of(self, result: Any, vocabulary: Vocabulary) -> np.ndarray:
        (ids, ends), ends_with_special = result
        parts = np.split(np.frombuffer(ids, np.uint32), np.frombuffer(ends, np.uint64)[1:-1].astype(np.int64))
        return join_documents(parts, vocabulary.special_tokens[END_OF_TEXT], ends_with_special)

    def encode_line(self, encoder: Any, text: str) -> Any:
        return encoder.encode(text).ids

    def encode_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        return encoder.encode_batch_flat(texts)

    def batch_ids(self, result: Any) -> np.ndarray:
        return np.frombuffer(result[0], np.uint32)

    def into_transformers(self, tokenizer: Any) -> Any:
        shim = import_module(f"{self.package}._compat")._TokenizerShim  # what its patch of `from_pretrained` puts there
        tokenizer._tokenizer = shim(tokenizer._tokenizer)
        return tokenizer

    def encode_file(self, encoder: Any, vocabulary: Vocabulary, path: Path, out: Path, *, workers: int, dtype: str) -> None:
        result = self.encode(encoder, self.text_of(path.read_bytes()))
        self.ids_of(result, vocabulary).astype(dtype).tofile(out)

    def decode_file(self, encoder: Any, path: Path, out: Path, *, dtype: str) -> None:
        out.write_text(encoder.decode(np.fromfile(path, dtype=dtype).tolist()), encoding="utf-8", newline="")

    def script(self, vocabulary: Vocabulary, line: str) -> str:
        load = f"{self.package}.Tokenizer.from_file({str(vocabulary.plain)!r})"
        return f"import {self.package}\nprint({load}.encode({line!r}).ids)"
