from __future__ import annotations

from pathlib import Path
from typing import Any

from .base import Tool, Trained


class Sentencepiece(Tool):
    """A trainer of BPE over characters with byte fallback, split at spaces; it does not read byte-level vocabularies."""

    name = "sentencepiece"
    package = "sentencepiece"
    comparable = False

    def prepare(self) -> None:
        import sentencepiece  # noqa: F401

    def train(self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path) -> Any:
        import sentencepiece

        sentencepiece.SentencePieceTrainer.train(
            input=str(path),
            model_prefix=str(folder / "model"),
            model_type="bpe",
            vocab_size=vocab_size,
            num_threads=workers,
            byte_fallback=True,
            hard_vocab_limit=False,
            normalization_rule_name="identity",
            max_sentence_length=60_000,  # its positions have 16 bits
            input_sentence_size=0,
            minloglevel=2,
        )
        return None

    def trained(self, result: Any) -> Trained:
        return Trained([], None)
