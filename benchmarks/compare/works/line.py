from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..corpora import documents_of
from ..timing import timed
from ..tools import Tool
from ..tools.base import concatenate
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work
from .batch import short_texts

if TYPE_CHECKING:
    from ..measure import Context

LENGTHS = {"short": (8, 20), "line": (40, 100), "paragraph": (400, 1_000)}
"""Bytes of the strings of each kind. The strings of the kind "batch" are those of the work `batch`."""


class Line(Work):
    name = "line"
    section = "One string per call"
    unit = "microseconds, same string / different strings"
    about = """One string again and again, and many different strings, each once; all tools but gigatoken return lists."""
    metrics = (Metric("same_us", "microseconds, same string"), Metric("different_us", "different strings"))
    method = "encode_line"

    def cases(self, context: Context) -> Iterable[Case]:
        text = context.corpus().read()[:20_000_000]
        for name in context.vocabulary_names():
            kinds = {kind: lines_of(text, limits, context.settings.lines) for kind, limits in LENGTHS.items()}
            kinds["batch"] = short_texts(context.corpus().read().decode(), context.settings.batch_texts)
            for kind, lines in kinds.items():
                mean = round(sum(len(line.encode()) for line in lines) / len(lines))
                key = {"kind": kind, "vocabulary": name, "corpus": context.corpus().name, "lines": len(lines), "bytes": mean}
                path = context.folder / f"lines-{kind}.json"
                path.write_text(json.dumps(lines))
                yield Case(key, {"vocabulary": context.vocabulary(name).params(), "path": str(path)})

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        encoder = tool.load(Vocabulary(**params["vocabulary"]))
        lines = json.loads(Path(params["path"]).read_text())
        encode_each(tool, encoder, lines[:100])
        same = [lines[0]] * len(lines)
        _, again = timed(lambda: encode_each(tool, encoder, same))
        _, different = timed(lambda: encode_each(tool, encoder, lines))
        metrics = {"same_us": again / len(lines) * 1e6, "different_us": different / len(lines) * 1e6}
        return metrics, concatenate(tool.encode_line(encoder, line) for line in lines)

    def label(self, key: Record) -> str:
        return f"{key['lines']:,} strings of {key['bytes']} bytes, {key['vocabulary']}"

    def in_summary(self, key: Record) -> bool:
        return key["kind"] == "line" and key["vocabulary"] in ("gpt2", "trained")


def encode_each(tool: Tool, encoder: Any, lines: list[str]) -> None:
    """Encode strings one by one, and discard the ids."""
    encode = tool.encode_line
    for line in lines:
        encode(encoder, line)


def lines_of(text: bytes, limits: tuple[int, int], count: int) -> list[str]:
    """Return different strings of the given lengths, in random order: lines, and pieces of documents if there are too few."""
    low, high = limits
    documents = documents_of(text.decode("utf-8", "ignore").encode())
    found = {line for document in documents for line in document.splitlines() if low <= len(line.encode()) < high}
    if len(found) < count:
        size = (low + high) // 2
        found |= {document[start : start + size] for document in documents for start in range(0, len(document) - size, size)}
    return random.Random(1).sample(sorted(found), min(count, len(found)))
