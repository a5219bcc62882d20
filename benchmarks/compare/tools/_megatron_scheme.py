from __future__ import annotations

import json
import multiprocessing
import os
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..corpora import END_OF_TEXT
from ..vocabularies import Vocabulary
from ._tokenizers import HuggingFace
from .base import CannotError, Tool


class MegatronScheme(Tool):
    """The scheme of Megatron-LM's `preprocess_data.py`, without PyTorch, which its own modules import.

    A pool of processes encodes lines with the package tokenizers, 32 at a time, and appends the id of the end of a document;
    the parent writes each document with NumPy, and the lengths of all at the end.
    """

    name = "megatron-scheme"
    package = "tokenizers"
    bytes_per_second = 4e6

    def encode_documents(self, vocabulary: Vocabulary, form: str, paths: list[Path], out: Path, *, workers: int) -> None:
        if form != "jsonl":
            raise CannotError("it reads JSON lines only")
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        end = vocabulary.special_tokens[END_OF_TEXT]
        lengths = []
        files = [path.open(encoding="utf-8") for path in paths]
        with multiprocessing.Pool(workers, _begin, (vocabulary, end)) as pool, (out / "tokens.bin").open("wb") as file:
            for ids in pool.imap(_encode, chain.from_iterable(files), 32):
                file.write(np.array(ids, dtype=vocabulary.dtype).tobytes(order="C"))
                lengths.append(len(ids))
        for opened in files:
            opened.close()
        np.array(lengths, dtype=np.int32).tofile(out / "tokens.idx")

    def document_ids(self, vocabulary: Vocabulary, out: Path) -> np.ndarray:
        return np.fromfile(out / "tokens.bin", dtype=vocabulary.dtype).astype(np.uint32)


_worker: dict[str, Any] = {}


def _begin(vocabulary: Vocabulary, end: int) -> None:
    _worker.update(encoder=HuggingFace().load(vocabulary), end=end)


def _encode(line: str) -> list[int]:
    ids: list[int] = _worker["encoder"].encode(json.loads(line)["text"], add_special_tokens=False).ids
    ids.append(_worker["end"])
    return ids
