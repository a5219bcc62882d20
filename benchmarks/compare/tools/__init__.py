"""The tokenizers under test, one file each; a new one is a file here and a line in TOOLS."""

from __future__ import annotations

from importlib import import_module

from .base import CannotError, Tool

TOOLS = {
    "bpejit": ("_bpejit", "Bpejit"),
    "bpejit-avx2": ("_bpejit_avx2", "BpejitAvx2"),
    "bpejit-earlier": ("_bpejit_earlier", "BpejitEarlier"),
    "gigatoken": ("_gigatoken", "Gigatoken"),
    "snaptokens": ("_snaptokens", "Snaptokens"),
    "fastokens": ("_fastokens", "Fastokens"),
    "quicktok": ("_quicktok", "Quicktok"),
    "toktok-rs": ("_toktok", "Toktok"),
    "toktier": ("_toktier", "Toktier"),
    "tiktoken": ("_tiktoken", "Tiktoken"),
    "tokenizers": ("_tokenizers", "HuggingFace"),
    "tokenizers-1.0": ("_tokenizers_next", "HuggingFaceNext"),
    "datatrove": ("_datatrove", "Datatrove"),
    "megatron-scheme": ("_megatron_scheme", "MegatronScheme"),
    "gigabpe": ("_gigabpe", "Gigabpe"),
    "rustbpe": ("_rustbpe", "Rustbpe"),
    "bpeasy": ("_bpeasy", "Bpeasy"),
    "sentencepiece": ("_sentencepiece", "Sentencepiece"),
    "regex": ("_regex", "Regex"),
    "plain-python": ("_plain_python", "PlainPython"),
    "t2t-python": ("_t2t_python", "T2tPython"),
}
"""Module and class of each tool by name, in the order of the tables."""

__all__ = ["TOOLS", "CannotError", "Tool", "get_tool"]


def get_tool(name: str) -> Tool:
    """Return the tool of that name; its package is imported on first use."""
    module, class_name = TOOLS[name]
    tool: Tool = getattr(import_module(f".{module}", __name__), class_name)()
    return tool
