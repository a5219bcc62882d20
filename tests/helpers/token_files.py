"""Token files with documents, and a tokenizer of bytes and a small corpus for jobs that write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from conftest import data_text

import bpejit
from bpejit.tokenfiles.opening import token_writer

END = "<|endoftext|>"
HASH = "a" * 64


def write_documents(
    path: Any, documents: list[list[int]], *, name: str = "bin", block: int = 3, vocab_size: int = 1000, **options: Any
) -> None:
    """Write documents in blocks of `block` ids."""
    ids = np.array([number for document in documents for number in document], dtype=np.uint32)
    ends = np.cumsum([len(document) for document in documents], dtype=np.int64)
    options = {"document_index": True, "vocab_size": vocab_size, "tokenizer_sha256": HASH, **options}
    with token_writer(path, format=name, **options) as writer:
        done = 0
        for start in range(0, max(ids.size, 1), block):
            stop = min(start + block, ids.size)
            n_ended = int(np.searchsorted(ends, stop, side="right"))
            writer.write(ids[start:stop], n_bytes=stop - start, ends=ends[done:n_ended] - start)
            done = n_ended


def byte_tokenizer() -> bpejit.Tokenizer:
    """Return a tokenizer whose ids are bytes, except that of END, 256."""
    return bpejit.Tokenizer({number: bytes([number]) for number in range(256)}, [], [END])


def write_sentences(path: Path) -> None:
    """Write some sentences as JSON lines; the last two are empty and one character."""
    words = data_text("prose.txt")[:4000].decode("utf-8", "ignore").split(". ")
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*words, "", "é"]))
