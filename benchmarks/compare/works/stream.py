from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..corpora import END_OF_TEXT, cut
from ..timing import timed
from ..tools import Tool
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work

if TYPE_CHECKING:
    from ..measure import Context


class Stream(Work):
    name = "stream"
    section = "Other ways to encode, decode and split"
    unit = "MB/s"
    about = """A stream of strings goes through `encode_iterable`, and through a loop over `encode` with the other tools,
    whose ids differ for lines."""
    metrics = (Metric("mb_s", "MB/s", True),)
    method = "encode_iterable"

    def cases(self, context: Context) -> Iterable[Case]:
        corpus, vocabulary = context.corpus(), context.vocabulary()
        n_bytes = len(cut(corpus.read(), context.settings.stream_bytes))
        for pieces in ("lines", "documents"):
            key = {"pieces": pieces, "vocabulary": vocabulary.name, "corpus": corpus.name, "bytes": n_bytes}
            params = {"vocabulary": vocabulary.params(), "path": str(corpus.path), "n_bytes": n_bytes, "pieces": pieces}
            yield Case(key, params)

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        encoder = tool.load(Vocabulary(**params["vocabulary"]))
        data = Path(params["path"]).read_bytes()[: params["n_bytes"]]
        if params["pieces"] == "lines":
            pieces = data.decode().splitlines(keepends=True)
        else:
            parts = data.decode().split(END_OF_TEXT)
            pieces = [part + END_OF_TEXT for part in parts[:-1]] + parts[-1:]
        ids, seconds = timed(lambda: list(tool.encode_iterable(encoder, pieces)))
        return {"mb_s": len(data) / seconds / 1e6}, np.array(ids, dtype=np.uint32)

    def label(self, key: Record) -> str:
        return f"stream of {key['pieces']}, {key['vocabulary']}"
