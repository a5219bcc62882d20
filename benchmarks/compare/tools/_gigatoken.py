from __future__ import annotations

from pathlib import Path
from typing import Any

from ..corpora import END_OF_TEXT, SEPARATOR
from ..vocabularies import Vocabulary
from .base import CannotError, Tool, Trained

SCHEMES = {"gpt2": "gpt2", "cl100k": "gpt4", "o200k": "o200k"}
MODES = {"hf": "huggingface", "smallest-ids": "raw_token_ids"}


class Gigatoken(Tool):
    name = "gigatoken"
    package = "gigatoken"
    train_note = "from the file to merges in memory; GPT-2's pattern only"
    tie_rule = "hf"
    encode_note = "bytes to an array"
    bytes_a_second = 2e8

    def prepare(self) -> None:
        import gigatoken  # noqa: F401

    def train(self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path) -> Any:
        import gigatoken

        source = gigatoken.TextFileSource([str(path)], separator=SEPARATOR)
        return gigatoken.train_bpe(source, vocab_size, [END_OF_TEXT], MODES[rule])

    def trained(self, result: Any) -> Trained:
        merges = [(bytes(left), bytes(right)) for left, right in result[1]]
        return Trained([left + right for left, right in merges], merges)

    def load(self, vocabulary: Vocabulary) -> Any:
        import gigatoken

        scheme = SCHEMES.get(vocabulary.pattern)
        if scheme is None:
            raise CannotError(f"it has no scheme for the pattern of {vocabulary.name}")
        return gigatoken.Tokenizer.from_tiktoken(
            str(vocabulary.ranks), pretokenizer=scheme, special_tokens=vocabulary.special_tokens
        )

    def encode(self, encoder: Any, text: Any) -> Any:
        return encoder.encode(text)
