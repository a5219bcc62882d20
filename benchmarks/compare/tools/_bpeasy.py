from __future__ import annotations

from pathlib import Path
from typing import Any

from .base import Tool, Trained, documents_in

NO_LIMIT = 1_000_000


class Bpeasy(Tool):
    """A trainer; it encodes through tiktoken."""

    name = "bpeasy"
    package = "bpeasy"
    tie_rule = "smallest-ids"

    def prepare(self) -> None:
        import bpeasy  # noqa: F401

    def train(self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path) -> Any:
        import bpeasy

        from bpejit.splitting import PRESETS

        return bpeasy.train_bpe(documents_in(path), PRESETS["gpt2"], NO_LIMIT, vocab_size - 1)

    def trained(self, result: Any) -> Trained:
        ranks = sorted((rank, token) for token, rank in result.items())
        return Trained([token for _, token in ranks[256:]], None)
