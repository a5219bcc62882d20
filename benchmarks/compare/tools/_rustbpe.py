from __future__ import annotations

from pathlib import Path
from typing import Any

from ..corpora import documents_of
from .base import Tool, Trained


class Rustbpe(Tool):
    name = "rustbpe"
    package = "rustbpe"
    train_note = "from documents that Python reads and splits, within the timer, to ranks in memory"
    tie_rule = "smallest-ids"
    no_encode = "its encoder is for trying a vocabulary out; it points to tiktoken"

    def prepare(self) -> None:
        import rustbpe  # noqa: F401

    def train(self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path) -> Any:
        import rustbpe

        from bpejit.splitting import PRESETS

        tokenizer = rustbpe.Tokenizer()
        tokenizer.train_from_iterator(iter(documents_of(path.read_bytes())), vocab_size - 1, pattern=PRESETS["gpt2"])
        return tokenizer

    def trained(self, result: Any) -> Trained:
        ranks = sorted((rank, bytes(token)) for token, rank in result.get_mergeable_ranks())
        return Trained([token for _, token in ranks[256:]], None)
