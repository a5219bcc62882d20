from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..corpora import END_OF_TEXT, SEPARATOR, documents_of
from ..vocabularies import Vocabulary
from .base import Tool, Trained, concatenate, documents_in, join_documents


class HuggingFace(Tool):
    """Texts are encoded as lists of documents, which is what its batch call takes."""

    name = "tokenizers"
    package = "tokenizers"
    tie_rule = "hf"
    bytes_per_second = 3e6

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
        tokenizer.train_from_iterator(documents_in(path), trainer)
        tokenizer.save(str(folder / "tokenizer.json"))
        return tokenizer

    def trained(self, result: Any) -> Trained:
        from bpejit.normalization.byte_characters import decode_byte_characters

        def parts(pair: Any) -> list[bytes]:
            return [decode_byte_characters(text) for text in (pair.split(" ") if isinstance(pair, str) else pair)]

        merges = [tuple(parts(pair)) for pair in json.loads(result.to_str())["model"]["merges"]]
        return Trained([left + right for left, right in merges], merges)

    def load(self, vocabulary: Vocabulary) -> Any:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(vocabulary.saved / "tokenizer.json"))

    def into_transformers(self, tokenizer: Any) -> Any:
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        return tokenizer

    def text_of(self, data: bytes) -> Any:
        return documents_of(data), data.endswith(SEPARATOR)

    def encode(self, encoder: Any, text: Any) -> Any:
        documents, ends_with_special = text
        return self.encode_batch(encoder, documents, 1), ends_with_special

    def ids_of(self, result: Any, vocabulary: Vocabulary) -> np.ndarray:
        encodings, ends_with_special = result
        special = vocabulary.special_tokens[END_OF_TEXT]
        return join_documents([encoding.ids for encoding in encodings], special, ends_with_special)

    def encode_line(self, encoder: Any, text: str) -> Any:
        return encoder.encode(text, add_special_tokens=False).ids

    def encode_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
        return encoder.encode_batch_fast(texts, add_special_tokens=False)

    def batch_ids(self, result: Any) -> np.ndarray:
        return concatenate(encoding.ids for encoding in result)

    def encode_iterable(self, encoder: Any, pieces: Iterable[str]) -> Iterator[int]:
        for piece in pieces:
            yield from encoder.encode(piece, add_special_tokens=False).ids

    def encode_file(self, encoder: Any, vocabulary: Vocabulary, path: Path, out: Path, *, workers: int, dtype: str) -> None:
        documents, ends_with_special = self.text_of(path.read_bytes())
        result = self.encode_batch(encoder, documents, workers), ends_with_special
        self.ids_of(result, vocabulary).astype(dtype).tofile(out)

    def decode_file(self, encoder: Any, path: Path, out: Path, *, dtype: str) -> None:
        out.write_text(encoder.decode(np.fromfile(path, dtype=dtype).tolist(), skip_special_tokens=False), encoding="utf-8")

    def script(self, vocabulary: Vocabulary, line: str) -> str:
        load = f"tokenizers.Tokenizer.from_file({str(vocabulary.saved / 'tokenizer.json')!r})"
        return f"import tokenizers\nprint({load}.encode({line!r}, add_special_tokens=False).ids)"
