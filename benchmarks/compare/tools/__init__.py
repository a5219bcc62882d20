"""The tokenizers of the comparison, one file each; a new one is a file here and a line in TOOLS."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from .base import CannotError, Tool

TOOLS = {
    "bpejit": ("_bpejit", "Bpejit"),
    "gigatoken": ("_gigatoken", "Gigatoken"),
    "rustbpe": ("_rustbpe", "Rustbpe"),
    "bpeasy": ("_bpeasy", "Bpeasy"),
    "tokenizers": ("_tokenizers", "HuggingFace"),
    "tiktoken": ("_tiktoken", "Tiktoken"),
    "quicktok": ("_quicktok", "Quicktok"),
    "sentencepiece": ("_sentencepiece", "Sentencepiece"),
}
"""Module and class of each tool by name, in the order of the tables."""

__all__ = ["TOOLS", "CannotError", "Tool", "get_tool", "tool_versions"]


def get_tool(name: str) -> Tool:
    """The tool of that name; nothing heavy is imported before it is used."""
    module, class_name = TOOLS[name]
    tool: Tool = getattr(import_module(f".{module}", __name__), class_name)()
    return tool


def tool_versions() -> dict[str, str]:
    """Version of each installed tool."""
    versions = {}
    for name in TOOLS:
        try:
            versions[name] = version(get_tool(name).package)
        except PackageNotFoundError:
            continue
    return versions
