from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..corpora import END_OF_TEXT, SEPARATOR, documents_of
from ..vocabularies import Vocabulary
from .base import Tool, Trained, join_documents


class HuggingFace(Tool):
    name = "tokenizers"
    package = "tokenizers"
    train_note = "from documents that Python reads and splits, within the timer, to a saved tokenizer.json"
    tie_rule = "hf"
    encode_note = "a list of documents to Encoding objects, by encode_batch_fast"
    bytes_a_second = 3e6

    def prepare(self) -> None:
        import tokenizers  # noqa: F401

    def train(self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path) -> Any:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[END_OF_TEXT],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(iter(documents_of(path.read_bytes())), trainer)
        tokenizer.save(str(folder / "tokenizer.json"))
        return tokenizer

    def trained(self, result: Any) -> Trained:
        from bpejit.normalization.byte_characters import text_to_bytes

        def parts(pair: Any) -> list[bytes]:
            return [text_to_bytes(text) for text in (pair.split(" ") if isinstance(pair, str) else pair)]

        merges = [tuple(parts(pair)) for pair in json.loads(result.to_str())["model"]["merges"]]
        return Trained([left + right for left, right in merges], merges)

    def load(self, vocabulary: Vocabulary) -> Any:
        from tokenizers import Tokenizer

        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        return Tokenizer.from_file(str(vocabulary.saved / "tokenizer.json"))

    def text_of(self, data: bytes) -> Any:
        return documents_of(data), data.endswith(SEPARATOR)

    def encode(self, encoder: Any, text: Any) -> Any:
        documents, ends_with_special = text
        return encoder.encode_batch_fast(documents, add_special_tokens=False), ends_with_special

    def ids_of(self, result: Any, vocabulary: Vocabulary) -> np.ndarray:
        encodings, ends_with_special = result
        special = vocabulary.special_tokens[END_OF_TEXT]
        return join_documents([encoding.ids for encoding in encodings], len(encodings), special, ends_with_special)

    def encode_short(self, encoder: Any, text: str) -> Any:
        return encoder.encode(text, add_special_tokens=False).ids
