from __future__ import annotations

from typing import Any

from ..vocabularies import Vocabulary
from ._quicktok import ENCODINGS, Quicktok
from .base import CannotError


class Toktok(Quicktok):
    """A port of quicktok to Rust, with five vocabularies of its own."""

    name = "toktok-rs"
    package = "toktok-rs"

    def prepare(self) -> None:
        import toktok  # noqa: F401

    def load(self, vocabulary: Vocabulary) -> Any:
        import toktok

        return toktok._encoding(self._name_of(vocabulary))

    def _name_of(self, vocabulary: Vocabulary) -> str:
        if vocabulary.name not in ENCODINGS:
            raise CannotError(f"it has no {vocabulary.name}, and reads no files")
        return ENCODINGS[vocabulary.name]

    def encode_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        return encoder.encode_batch_to_numpy(texts, threads)

    def count_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        return encoder.count_batch(texts, threads)

    def encode(self, encoder: Any, text: Any, threads: int = 1) -> Any:
        documents, ends_with_special = text
        return self.encode_batch(encoder, documents, threads), ends_with_special

    def script(self, vocabulary: Vocabulary, line: str) -> str:
        return f"import toktok\nprint(toktok._encoding({self._name_of(vocabulary)!r}).encode({line!r}))"
