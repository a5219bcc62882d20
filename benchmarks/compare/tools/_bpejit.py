from __future__ import annotations

from pathlib import Path
from typing import Any

from ..corpora import END_OF_TEXT
from ..vocabularies import Vocabulary
from .base import Tool, Trained


class Bpejit(Tool):
    name = "bpejit"
    package = "bpejit"
    train_note = "from the file to a saved tokenizer folder; its kernels are loaded before"
    encode_note = "bytes to an array; its kernels are loaded before"
    bytes_a_second = 2e8

    def prepare(self) -> None:
        import bpejit

        bpejit.warmup()

    def train(self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path) -> Any:
        import bpejit

        tokenizer = bpejit.train([path], vocab_size=vocab_size, special_tokens=[END_OF_TEXT], tie_break=rule, workers=workers)
        tokenizer.save(folder / "tokenizer")
        return tokenizer

    def trained(self, result: Any) -> Trained:
        return Trained([left + right for left, right in result.merges], list(result.merges))

    def load(self, vocabulary: Vocabulary) -> Any:
        import bpejit

        return bpejit.load(vocabulary.saved)

    def encode(self, encoder: Any, text: bytes) -> Any:
        return encoder.encode_array(text)

    def encode_short(self, encoder: Any, text: str) -> Any:
        return encoder.encode(text)
