from __future__ import annotations

from typing import Any

from ..vocabularies import Vocabulary
from .base import CannotError, Tool

ENCODINGS = {"cl100k": "cl100k_base", "o200k": "o200k_base"}


class Quicktok(Tool):
    name = "quicktok"
    package = "quicktok-v1"
    # Its encode_batch returns an array, but is many times slower on long texts than encode.
    encode_note = "a string to a list, by encode"
    bytes_a_second = 3e7

    def prepare(self) -> None:
        import quicktok  # noqa: F401

    def load(self, vocabulary: Vocabulary) -> Any:
        import quicktok

        if vocabulary.name not in ENCODINGS:
            raise CannotError("of these vocabularies it has cl100k and o200k; its importer refuses GPT-2's pattern")
        return quicktok.get_encoding(ENCODINGS[vocabulary.name])

    def text_of(self, data: bytes) -> Any:
        return data.decode()

    def encode(self, encoder: Any, text: str) -> Any:
        return encoder.encode(text, allowed_special="all")
