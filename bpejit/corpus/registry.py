"""The registered formats of inputs. Nothing heavy is imported before a format is used, since commands list the names."""

from __future__ import annotations

from typing import Any

from bpejit.errors import CorpusError
from bpejit.options import Registry

TEXT = "text"
"""Plain text. Unless its lines are documents, it is cut where the split pattern allows it, by `bpejit.corpus.chunks`."""

DOCUMENTS = ("separator", "file", "line", "line-with-end")
"""What ends a document of plain text, besides the end of the file."""

_formats: Registry[Any] = Registry(
    "input format",
    {
        TEXT: ("bpejit.corpus.base:PlainText", "plain text"),
        "jsonl": ("bpejit.corpus.json_lines:JsonLines", "JSON lines"),
        "parquet": ("bpejit.corpus.arrow_inputs:Parquet", "Parquet"),
        "arrow": ("bpejit.corpus.arrow_inputs:Arrow", "Arrow and Feather"),
    },
    error=CorpusError,
)


register, unregister = _formats.register, _formats.unregister
"""Add and remove a format (see `Registry`): a subclass of `bpejit.corpus.base.InputFormat`."""

input_format_names, input_format_descriptions = _formats.names, _formats.descriptions
load_format = _formats.load
