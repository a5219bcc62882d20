"""The registered formats of tokenizers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bpejit import arguments
from bpejit.errors import TokenizerFormatError
from bpejit.registry import Registry

if TYPE_CHECKING:
    from bpejit.formats.base import TokenizerFormat

_formats: Registry[TokenizerFormat] = Registry(
    "tokenizer format",
    {
        "bpejit": ("bpejit.formats.folder:FolderFormat", "bpejit's folder"),
        "hf": ("bpejit.formats.huggingface_json:HuggingFaceFormat", "Hugging Face's tokenizer.json"),
        "tiktoken": ("bpejit.formats.tiktoken_ranks:TiktokenFormat", "tiktoken's rank files"),
        "tekken": ("bpejit.formats.tekken:TekkenFormat", "Mistral's tekken.json"),
        "gpt2": ("bpejit.formats.gpt2_format:Gpt2Format", "GPT-2's vocab.json and merges.txt"),
    },
    error=TokenizerFormatError,
)


register, unregister = _formats.register, _formats.unregister
"""Add and remove a format (see `Registry`), which `bpejit.load`, `Tokenizer.save` and the commands then support: a class or
function without parameters that returns a `bpejit.formats.base.TokenizerFormat`.
"""

load_format = _formats.load


_SUFFIXES = {".tiktoken": "tiktoken"}
"""Suffixes of files of one format only, which is in front of all that are registered later."""


def name_by_suffix(suffix: str) -> str | None:
    """Return the name of the format of all files with a suffix, or None. No format is imported: that takes 15 ms."""
    name = _SUFFIXES.get(suffix)
    return name if name in _formats.names() else None


def all_formats() -> Iterator[TokenizerFormat]:
    """Yield all formats, in the order in which they are tried. Each is imported when it is reached."""
    return map(_formats.load, _formats.names())


def writable_names() -> tuple[str, ...]:
    """Return the names of the formats that can be written."""
    return tuple(found.name for found in all_formats() if found.writable)


def load_writable(name: Any) -> TokenizerFormat:
    """Return the format with a name, which can be written. The others are not imported: that takes 15 to 30 ms.

    Raises
    ------
    TokenizerFormatError
        If there is none with this name, or it cannot be written.
    """
    found = load_format(name) if isinstance(name, str) and name in _formats.names() else None
    if found is None or not found.writable:
        found = load_format(arguments.choice("format", name, writable_names(), error=TokenizerFormatError))
    return found
