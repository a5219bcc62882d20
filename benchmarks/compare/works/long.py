from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..timing import timed
from ..tools import Tool
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work, size_label

if TYPE_CHECKING:
    from ..measure import Context


class Long(Work):
    name = "long"
    section = "Other ways to encode, decode and split"
    unit = "MB/s"
    about = "A long pre-token is random letters with the frequencies of English, or one letter repeated."
    metrics = (Metric("mb_s", "MB/s", True),)
    method = "encode"

    def cases(self, context: Context) -> Iterable[Case]:
        vocabulary = context.vocabulary()
        for kind in ("letters", "one letter"):
            for size in context.settings.long_bytes:
                key = {"kind": kind, "bytes": size, "vocabulary": vocabulary.name}
                yield Case(key, {**key, "vocabulary": vocabulary.params()})

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        vocabulary = Vocabulary(**params["vocabulary"])
        encoder = tool.load(vocabulary)
        tool.encode(encoder, tool.text_of(b"a text for the first call"))
        text = tool.text_of(long_text(params["kind"], params["bytes"]))
        result, seconds = timed(lambda: tool.encode(encoder, text))
        return {"mb_s": params["bytes"] / seconds / 1e6}, tool.ids_of(result, vocabulary)

    def label(self, key: Record) -> str:
        return f"one pre-token, {key['kind']}, {size_label(key['bytes'])}"

    def in_summary(self, key: Record) -> bool:
        return key["kind"] == "letters"


def long_text(kind: str, n_bytes: int) -> bytes:
    """Return one pre-token: letters with the frequencies of English, or the same letter again and again."""
    if kind == "one letter":
        return b"a" * n_bytes
    letters = "etaoinshrdlcumwfgypbvk"
    weights = [127, 91, 82, 75, 70, 67, 63, 61, 60, 43, 40, 28, 28, 24, 24, 22, 20, 20, 19, 15, 10, 8]
    return "".join(random.Random(1).choices(letters, weights, k=n_bytes)).encode()
