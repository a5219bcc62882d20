from __future__ import annotations

from pathlib import Path
from typing import Any

from .base import Tool, Trained, documents_in


class Rustbpe(Tool):
    """A trainer; its encoder is for trying a vocabulary, and its documentation recommends tiktoken."""

    name = "rustbpe"
    package = "rustbpe"
    tie_rule = "smallest-ids"

    def prepare(self) -> None:
        import rustbpe  # noqa: F401

    def train(self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path) -> Any:
        import rustbpe

        from bpejit.splitting import PRESETS

        tokenizer = rustbpe.Tokenizer()
        tokenizer.train_from_iterator(documents_in(path), vocab_size - 1, pattern=PRESETS["gpt2"])
        return tokenizer

    def trained(self, result: Any) -> Trained:
        ranks = sorted((rank, bytes(token)) for token, rank in result.get_mergeable_ranks())
        return Trained([token for _, token in ranks[256:]], None)
