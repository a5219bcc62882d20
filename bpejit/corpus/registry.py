"""The registered formats of inputs. Nothing heavy is imported before a format is used, since commands list the names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bpejit.errors import CorpusError
from bpejit.registry import Registry

TEXT = "text"
"""Plain text, which is cut at positions that depend on the split pattern, and is read by `bpejit.corpus.chunks` itself."""

DOCUMENTS = ("separator", "file", "line")
"""What ends a document of plain text, besides the end of the file."""

_formats: Registry[Any] = Registry(
    "input format",
    {
        TEXT: ("bpejit.corpus.base:InputFormat", "plain text"),
        "jsonl": ("bpejit.corpus.json_lines:JsonLines", "JSON lines"),
        "parquet": ("bpejit.corpus.parquet:Parquet", "Parquet"),
        "arrow": ("bpejit.corpus.arrow:Arrow", "Arrow and Feather"),
    },
    error=CorpusError,
)


def register(name: str, input_format: Callable[[], Any] | str, *, description: str = "") -> None:
    """Add a format of inputs.

    Parameters
    ----------
    name : str
    input_format : callable or str
        A subclass of `bpejit.corpus.base.InputFormat`, or its location as `"package.module:name"`, which is imported on first
        use.
    description : str
        Text for help pages.

    Raises
    ------
    ArgumentTypeError
        If an argument has the wrong type.
    CorpusError
        If the name is taken, or is not a valid name.
    """
    _formats.register(name, input_format, description=description)


def unregister(name: str) -> None:
    """Remove a format.

    Raises
    ------
    CorpusError
        If there is no format with this name.
    """
    _formats.unregister(name)


def input_format_names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return _formats.names()


def input_format_descriptions() -> dict[str, str]:
    """Return the description of each format by name."""
    return _formats.descriptions()


def load_format(name: str) -> Any:
    """Return a format by name: a `bpejit.corpus.base.InputFormat`, which is a module above this one.

    Raises
    ------
    CorpusError
        If there is no format with this name.
    """
    return _formats.factory(name)()
