from __future__ import annotations

from typing import Any

from ..vocabularies import Vocabulary, parse_ranks
from .base import Tool


class Tiktoken(Tool):
    name = "tiktoken"
    package = "tiktoken"
    encode_note = "a string to an array, by encode_to_numpy"
    bytes_a_second = 1.5e7

    def prepare(self) -> None:
        import tiktoken  # noqa: F401

    def load(self, vocabulary: Vocabulary) -> Any:
        import tiktoken

        from bpejit.splitting import PRESETS

        # The registry would ask the network for the rank file.
        return tiktoken.Encoding(
            vocabulary.name,
            pat_str=PRESETS[vocabulary.pattern],
            mergeable_ranks=parse_ranks(vocabulary.ranks.read_bytes()),
            special_tokens=vocabulary.special_tokens,
        )

    def text_of(self, data: bytes) -> Any:
        return data.decode()

    def encode(self, encoder: Any, text: str) -> Any:
        return encoder.encode_to_numpy(text, allowed_special="all")

    def encode_short(self, encoder: Any, text: str) -> Any:
        return encoder.encode(text, allowed_special="all")
