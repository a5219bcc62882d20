"""Token files with documents, and a tokenizer of bytes and a small corpus for jobs that write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conftest import data_text

import bpejit
from bpejit import testing

END = "<|endoftext|>"
HASH = "a" * 64


def write_documents(path: Any, documents: list[list[int]], *, name: str = "bin", **options: Any) -> None:
    """Write documents as the checks of `bpejit.testing` do."""
    testing.write_documents(name, path, documents, **options)


def byte_tokenizer() -> bpejit.Tokenizer:
    """Return a tokenizer whose ids are bytes, except that of END, 256."""
    return bpejit.Tokenizer({number: bytes([number]) for number in range(256)}, [], [END])


def write_sentences(path: Path) -> None:
    """Write some sentences as JSON lines; the last two are empty and one character."""
    words = data_text("prose.txt")[:4000].decode("utf-8", "ignore").split(". ")
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*words, "", "é"]))
