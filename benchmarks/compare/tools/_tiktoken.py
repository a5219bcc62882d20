from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..corpora import END_OF_TEXT, SEPARATOR, documents_of
from ..vocabularies import Vocabulary, parse_ranks
from .base import Tool, join_documents

SCRIPT = """
import base64, tiktoken
with open({path!r}, "rb") as file:
    ranks = {{base64.b64decode(token): int(rank) for token, rank in (line.split() for line in file)}}
encoding = tiktoken.Encoding("own", pat_str={pattern!r}, mergeable_ranks=ranks, special_tokens={special_tokens!r})
print(encoding.encode({line!r}, allowed_special="all"))
"""


class Tiktoken(Tool):
    name = "tiktoken"
    package = "tiktoken"
    bytes_per_second = 1.5e7

    def prepare(self) -> None:
        import tiktoken  # noqa: F401

    def load(self, vocabulary: Vocabulary) -> Any:
        import tiktoken

        from bpejit.splitting import PRESETS

        # tiktoken.get_encoding would download the rank file.
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

    def encode_line(self, encoder: Any, text: str) -> Any:
        return encoder.encode(text, allowed_special="all")

    def encode_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        return encoder.encode_batch(texts, num_threads=threads, allowed_special="all")

    def count_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        return [len(ids) for ids in self.encode_batch(encoder, texts, threads)]

    def encode_iterable(self, encoder: Any, pieces: Iterable[str]) -> Iterator[int]:
        for piece in pieces:
            yield from encoder.encode(piece, allowed_special="all")

    def encode_file(self, encoder: Any, vocabulary: Vocabulary, path: Path, out: Path, *, workers: int, dtype: str) -> None:
        data = path.read_bytes()
        if workers == 1:
            ids = self.encode(encoder, data.decode())
        else:
            parts = encoder.encode_ordinary_batch(documents_of(data), num_threads=workers)
            ids = join_documents(parts, vocabulary.special_tokens[END_OF_TEXT], data.endswith(SEPARATOR))
        np.asarray(ids).astype(dtype).tofile(out)

    def decode_file(self, encoder: Any, path: Path, out: Path, *, dtype: str) -> None:
        out.write_bytes(encoder.decode_bytes(np.fromfile(path, dtype=dtype).tolist()))

    def script(self, vocabulary: Vocabulary, line: str) -> str:
        from bpejit.splitting import PRESETS

        return SCRIPT.format(
            path=str(vocabulary.ranks),
            pattern=PRESETS[vocabulary.pattern],
            special_tokens=vocabulary.special_tokens,
            line=line,
        )
