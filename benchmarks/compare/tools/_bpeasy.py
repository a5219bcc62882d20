from __future__ import annotations

from pathlib import Path
from typing import Any

from ..corpora import documents_of
from .base import Tool, Trained

NO_LIMIT = 1_000_000


class Bpeasy(Tool):
    name = "bpeasy"
    package = "bpeasy"
    train_note = "from documents that Python reads and splits, within the timer, to a dict of ranks"
    tie_rule = "smallest-ids"
    no_encode = "it encodes through tiktoken"

    def prepare(self) -> None:
        import bpeasy  # noqa: F401

    def train(self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path) -> Any:
        import bpeasy

        from bpejit.splitting import PRESETS

        documents = iter(documents_of(path.read_bytes()))
        return bpeasy.train_bpe(documents, PRESETS["gpt2"], NO_LIMIT, vocab_size - 1)

    def trained(self, result: Any) -> Trained:
        ranks = sorted((rank, token) for token, rank in result.items())
        return Trained([token for _, token in ranks[256:]], None)
