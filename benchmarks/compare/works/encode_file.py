from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..corpora import LARGE
from ..timing import stop_sampling, timed
from ..tools import Tool
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work, text_label

if TYPE_CHECKING:
    from ..measure import Context


class EncodeFile(Work):
    name = "encode_file"
    section = "Other ways to encode, decode and split"
    unit = "MB/s"
    about = "Between files bpejit streams; the other tools work in memory, and NumPy reads or writes the ids."
    metrics = (Metric("mb_s", "MB/s", True),)
    method = "encode_file"
    memory = True

    def cases(self, context: Context) -> Iterable[Case]:
        most = context.settings.workers
        corpus = context.corpora.repeated(context.corpus_names()[0], context.settings.file_bytes)
        inputs = [(corpus, context.vocabulary(), workers) for workers in sorted({1, most})]
        inputs += [(*context.own_vocabulary(large.name), most) for large in context.large_corpora(*LARGE)]
        for corpus, vocabulary, workers in inputs:
            key = {"vocabulary": vocabulary.name, "corpus": corpus.record(), "workers": workers}
            params = {"vocabulary": vocabulary.params(), "path": str(corpus.path), "workers": workers}
            yield Case(key, params, workers)

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        vocabulary = Vocabulary(**params["vocabulary"])
        encoder = tool.load(vocabulary)
        path = Path(params["path"])
        dtype = vocabulary.dtype
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "tokens.bin"
            options = {"workers": params["workers"], "dtype": dtype}
            _, seconds = timed(lambda: tool.encode_file(encoder, vocabulary, path, out, **options))
            stop_sampling()
            return {"mb_s": path.stat().st_size / seconds / 1e6}, digest_of(out)

    def label(self, key: Record) -> str:
        workers = "one worker" if key["workers"] == 1 else f"{key['workers']} workers"
        return f"file to file, {text_label(key['corpus'])}, {key['vocabulary']}, {workers}"


def digest_of(path: Path) -> np.ndarray:
    """Return size and SHA-256 of a file as numbers."""
    digest = hashlib.sha256(path.read_bytes()).digest()
    return np.concatenate([np.array([path.stat().st_size], dtype=np.uint64), np.frombuffer(digest, dtype=np.uint64)])
