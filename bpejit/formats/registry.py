"""The registered formats of tokenizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

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
        "gpt2": ("bpejit.formats.gpt2:Gpt2Format", "GPT-2's vocab.json and merges.txt"),
    },
    error=TokenizerFormatError,
)


def register(name: str, format: Callable[[], TokenizerFormat] | str, *, description: str = "") -> None:  # noqa: A002
    """Add a tokenizer format, which `bpejit.load`, `Tokenizer.save` and the commands then support.

    Parameters
    ----------
    name : str
    format : callable or str
        Class or function without parameters that returns a format (see `bpejit.formats.base.TokenizerFormat`), or the
        location of one as `"package.module:name"`, which is imported on first use.
    description : str
        Text for help pages.

    Raises
    ------
    ArgumentTypeError
        If `format` has the wrong type.
    TokenizerFormatError
        If the name is taken, or is not a valid name.
    """
    _formats.register(name, format, description=description)


def unregister(name: str) -> None:
    """Remove a format.

    Raises
    ------
    TokenizerFormatError
        If there is no format with this name.
    """
    _formats.unregister(name)


def load_format(name: str) -> TokenizerFormat:
    """Return a format by name.

    Raises
    ------
    TokenizerFormatError
        If there is no format with this name.
    """
    return _formats.load(name)


def all_formats() -> list[TokenizerFormat]:
    """Return all formats, in the order in which they are tried."""
    return [_formats.load(name) for name in _formats.names()]


def writable_names() -> tuple[str, ...]:
    """Return the names of the formats that can be written."""
    return tuple(found.name for found in all_formats() if found.writable)
