from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..corpora import END_OF_TEXT, SEPARATOR
from ..vocabularies import Vocabulary
from .base import CannotError, Tool, Trained

BLOCK_BYTES = 1 << 16


class Bpejit(Tool):
    name = "bpejit"
    package = "bpejit"
    bytes_per_second = 2e8

    def prepare(self) -> None:
        import bpejit

        bpejit.warmup()
        from bpejit import train  # noqa: F401 - public names are imported on first use

    def train(self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path, documents: str = "separator") -> Any:
        import bpejit

        # A trainer that reads lines has no special tokens in the text; the vocabulary has one all the same.
        special_tokens = [END_OF_TEXT] if documents == "separator" else []
        size = vocab_size - 1 + len(special_tokens)
        options = {"tie_break": rule, "documents": documents, "workers": workers}
        tokenizer = bpejit.train([path], vocab_size=size, special_tokens=special_tokens, **options)
        tokenizer.save(folder / "tokenizer")
        return tokenizer

    def trained(self, result: Any) -> Trained:
        return Trained([left + right for left, right in result.merges], list(result.merges))

    def load(self, vocabulary: Vocabulary) -> Any:
        import bpejit

        return bpejit.load(vocabulary.path)

    def encode(self, encoder: Any, text: bytes) -> Any:
        return encoder.encode_array(text)

    def encode_line(self, encoder: Any, text: str) -> Any:
        return encoder.encode(text)

    def encode_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        return encoder.encode_batch(texts, num_threads=threads)

    def count_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        return encoder.count_batch(texts, num_threads=threads)

    def session(self, encoder: Any, text: str) -> Any:
        return encoder.session(text)

    def batch_ids(self, result: Any) -> np.ndarray:
        return result.ids

    def into_transformers(self, tokenizer: Any) -> Any:
        import bpejit

        return bpejit.accelerate(tokenizer)

    def encode_iterable(self, encoder: Any, pieces: Iterable[str]) -> Iterator[int]:
        return encoder.encode_iterable(pieces)

    def encode_file(self, encoder: Any, vocabulary: Vocabulary, path: Path, out: Path, *, workers: int, dtype: str) -> None:
        encoder.encode_files([path], out, dtype=dtype, workers=workers, overwrite=True)

    def encode_documents(self, vocabulary: Vocabulary, form: str, paths: list[Path], out: Path, *, workers: int) -> None:
        self.load(vocabulary).encode_files(
            *(paths, out / "tokens.bin"),
            dtype=vocabulary.dtype,
            append_token=END_OF_TEXT,
            document_index=True,
            shard_tokens=20_000_000,
            workers=workers,
        )

    def document_ids(self, vocabulary: Vocabulary, out: Path) -> np.ndarray:
        files = sorted(out.glob("*.bin"))
        return np.concatenate([np.fromfile(path, dtype=vocabulary.dtype) for path in files]).astype(np.uint32)

    def decode_file(self, encoder: Any, path: Path, out: Path, *, dtype: str) -> None:
        encoder.decode_file(path, out, dtype=dtype, overwrite=True)

    def split(self, pattern: str, data: bytes) -> Any:
        """Split as training and encoding do: in blocks, the ends of each written over those of the block before."""
        from bpejit.arrays import padded_text
        from bpejit.kernels.splitting import spans
        from bpejit.splitting import Splitter, compile_pattern

        compiled = compile_pattern(pattern)
        splitter = Splitter(compiled, [SEPARATOR])
        if splitter.automaton is None:
            raise CannotError(f"the pattern runs through the regex package: {compiled.reason}")
        text, n_bytes = padded_text(data)
        ends = np.empty(BLOCK_BYTES + spans.MIN_ENDS, dtype=np.uint32)

        def run() -> None:
            state = splitter.new_state()
            for position in itertools.chain(range(BLOCK_BYTES, n_bytes, BLOCK_BYTES), [n_bytes]):
                state[spans.NEED_CALL] = 1
                while state[spans.NEED_CALL]:
                    spans.split_spans(text, position, position == n_bytes, splitter.automaton, state, ends)

        return run, lambda: splitter.split(text, n_bytes)

    def script(self, vocabulary: Vocabulary, line: str) -> str:
        return f"import bpejit\nprint(bpejit.load({str(vocabulary.path)!r}).encode({line!r}))"
