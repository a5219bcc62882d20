from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..corpora import END_OF_TEXT
from .base import Tool, Trained


class Gigabpe(Tool):
    """A trainer, which reads each line of a file as a document, and special tokens as text."""

    name = "gigabpe"
    package = "gigabpe"
    tie_rule = "hf"
    documents = "line-with-end"

    def prepare(self) -> None:
        import gigabpe  # noqa: F401

    def train(
        self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path, documents: str = "line-with-end"
    ) -> Any:
        import gigabpe

        out = folder / "tokenizer.json"
        options = {"special_tokens": [END_OF_TEXT], "pretokenizer": "bytelevel", "threads": workers}
        gigabpe.train_tokenizer([str(path)], vocab_size, str(out), **options)
        return out.read_bytes(), vocab_size

    def trained(self, result: Any) -> Trained:
        from bpejit.normalization.byte_characters import decode_byte_characters

        saved, vocab_size = result
        pairs = json.loads(saved)["model"]["merges"]
        texts = [pair.split(" ") if isinstance(pair, str) else pair for pair in pairs]
        # Bytes that the text lacks are not in its vocabulary, which has more merges instead.
        merges = [tuple(map(decode_byte_characters, pair)) for pair in texts[: vocab_size - 257]]
        return Trained([left + right for left, right in merges], merges)
