from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..timing import stop_sampling, timed
from ..tools import Tool
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work, text_label
from .encode_file import digest_of

if TYPE_CHECKING:
    from ..measure import Context

_FIRST_IDS = 100
"""Number of ids that are decoded before the timed run."""


class DecodeFile(Work):
    name = "decode_file"
    section = "Other ways to encode, decode and split"
    unit = "MB/s"
    about = ""
    metrics = (Metric("mb_s", "MB/s", True),)
    method = "decode_file"
    memory = True

    def cases(self, context: Context) -> Iterable[Case]:
        import bpejit

        corpus = context.corpus()
        for name in context.vocabulary_names():
            vocabulary = context.vocabulary(name)
            tokens = context.folder / f"{vocabulary.name}-tokens.bin"
            encoder = bpejit.load(vocabulary.path)
            encoder.encode_files([corpus.path], tokens, dtype=vocabulary.dtype, workers=1, overwrite=True)
            key = {"vocabulary": vocabulary.name, "corpus": corpus.record()}
            yield Case(key, {"vocabulary": vocabulary.params(), "path": str(tokens)})

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        vocabulary = Vocabulary(**params["vocabulary"])
        encoder = tool.load(vocabulary)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "text.txt"
            first = Path(folder) / "first.bin"
            np.fromfile(params["path"], dtype=vocabulary.dtype, count=_FIRST_IDS).tofile(first)
            tool.decode_file(encoder, first, out, dtype=vocabulary.dtype)  # imports what decoding files needs
            out.unlink()
            _, seconds = timed(lambda: tool.decode_file(encoder, Path(params["path"]), out, dtype=vocabulary.dtype))
            stop_sampling()
            return {"mb_s": out.stat().st_size / seconds / 1e6}, digest_of(out)

    def label(self, key: Record) -> str:
        return f"decoding a file, {text_label(key['corpus'])}, {key['vocabulary']}"

    def in_summary(self, key: Record) -> bool:
        return key["vocabulary"] in ("gpt2", "trained")
