from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..corpora import END_OF_TEXT, SEPARATOR
from ..vocabularies import Vocabulary
from .base import CannotError, Tool, Trained

SCHEMES = {"gpt2": "gpt2", "cl100k": "gpt4", "o200k": "o200k"}
MODES = {"hf": "huggingface", "smallest-ids": "raw_token_ids"}


class Gigatoken(Tool):
    name = "gigatoken"
    package = "gigatoken"
    tie_rule = "hf"
    bytes_per_second = 2e8

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

    def encode_line(self, encoder: Any, text: str) -> Any:
        return encoder.encode(text)

    def encode_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        return encoder.encode_batch(texts, parallel=threads > 1)

    def batch_ids(self, result: Any) -> np.ndarray:
        import awkward

        return np.asarray(awkward.flatten(result), dtype=np.uint32)

    def encode_file(self, encoder: Any, vocabulary: Vocabulary, path: Path, out: Path, *, workers: int, dtype: str) -> None:
        # Without a separator the file is one document, in which special tokens become ids.
        ids = encoder.encode_files([str(path)], parallel=workers > 1)
        self.batch_ids(ids).astype(dtype, copy=False).tofile(out)

    def encode_documents(self, vocabulary: Vocabulary, form: str, paths: list[Path], out: Path, *, workers: int) -> None:
        import awkward
        import gigatoken

        names = [str(path) for path in paths]
        if form == "jsonl":
            source = gigatoken.JsonlFileSource(names)
        elif form == "parquet":
            source = gigatoken.ParquetFileSource(names)
        else:
            source = gigatoken.TextFileSource(names, separator=SEPARATOR if form == "text" else None)
        ids = self.load(vocabulary).encode_files(source, parallel=workers > 1)
        self.batch_ids(ids).astype(vocabulary.dtype, copy=False).tofile(out / "tokens.bin")
        np.cumsum(awkward.to_numpy(awkward.num(ids))).astype(np.int64, copy=False).tofile(out / "ends.bin")

    def document_ids(self, vocabulary: Vocabulary, out: Path) -> np.ndarray:
        ids = np.fromfile(out / "tokens.bin", dtype=vocabulary.dtype).astype(np.uint32)
        return np.insert(ids, np.fromfile(out / "ends.bin", dtype=np.int64), vocabulary.special_tokens[END_OF_TEXT])

    def decode_file(self, encoder: Any, path: Path, out: Path, *, dtype: str) -> None:
        out.write_bytes(encoder.decode(np.fromfile(path, dtype=dtype).astype(np.uint32, copy=False)))

    def script(self, vocabulary: Vocabulary, line: str) -> str:
        load = f"{str(vocabulary.ranks)!r}, {SCHEMES[vocabulary.pattern]!r}, {vocabulary.special_tokens!r}"
        return f"import gigatoken\nprint(gigatoken.Tokenizer.from_tiktoken({load}).encode({line!r}).tolist())"
