"""The works, one file each; a new one is a file here and a line in WORKS."""

from __future__ import annotations

from importlib import import_module

from .base import Case, Metric, Work

WORKS = {
    "train": "Train",
    "encode": "Encode",
    "encode_own": "EncodeOwn",
    "halves": "Halves",
    "documents": "Documents",
    "kinds": "Kinds",
    "count": "Count",
    "session": "Session",
    "batch": "Batch",
    "in_transformers": "InTransformers",
    "threads": "Threads",
    "line": "Line",
    "stream": "Stream",
    "encode_file": "EncodeFile",
    "large_file": "LargeFile",
    "encode_documents": "EncodeDocuments",
    "decode_file": "DecodeFile",
    "split": "Split",
    "long": "Long",
    "load": "Load",
    "start": "Start",
    "commands": "Commands",
    "plain_python": "PlainPython",
    "subword": "Subword",
    "datagen": "Datagen",
    "scaling": "Scaling",
}
"""The class of each work by the name of its file, in the order in which they run."""

__all__ = ["WORKS", "Case", "Metric", "Work", "get_work"]


def get_work(name: str) -> Work:
    """Return the work of that name."""
    work: Work = getattr(import_module(f".{name}", __name__), WORKS[name])()
    return work
