"""Readers of `tokenizer.json` that support only the split patterns of some published files.

They have no general engine for regular expressions, and refuse patterns that they do not recognize. The presets that they read
with equal ids were found by experiment (`make readers` repeats it), with the versions given here.
"""

from __future__ import annotations

from typing import Any

from bpejit.formats.huggingface_writing import pre_tokenizer
from bpejit.formats.pipelines import Component, byte_level, pre_tokenizer_for, split_steps
from bpejit.model import Model
from bpejit.splitting.presets import PRESETS

READ_PRESETS: dict[str, tuple[str, ...]] = {
    "tokenizers 1.0.0rc3": (
        *("gpt2", "r50k", "p50k", "cl100k-legacy", "o200k", "llama3", "olmo2", "qwen2", "deepseek-v3", "starcoder", "tekken"),
        "kimi-k2",
    ),
    "gigatoken 0.10": (
        *("gpt2", "r50k", "p50k", "cl100k-legacy", "o200k", "llama3", "olmo2", "qwen2", "qwen3.5", "deepseek-v3", "tekken"),
    ),
}
"""The presets that each reader reads with equal ids, as bpejit writes them. tokenizers 0.23, and transformers 4.57 and 5.23,
which use it, read all patterns; so does kitoken 0.11, except for `BYTE_LEVEL_MISREAD`."""

BYTE_LEVEL_MISREAD = "kitoken 0.11"
"""If `ByteLevel` itself splits, as in GPT-2's published file, this reader divides `'d` after a line end."""

_RESPELLED = frozenset({"gpt2", "r50k", "p50k", "cl100k-legacy", "deepseek-v3", "starcoder"})
"""The presets that are not written as one step with their pattern."""


def not_read_by(model: Model) -> list[str]:
    """Return the readers that refuse the `tokenizer.json` of a model, or give other ids.

    Parameters
    ----------
    model : Model

    Raises
    ------
    PatternError
        If the split pattern cannot be written for other tools.
    """
    steps = _signature(pre_tokenizer(model))
    found = [reader for reader, names in READ_PRESETS.items() if steps not in _known(reader, names)]
    return [*found, BYTE_LEVEL_MISREAD] if str(("ByteLevel", True))[:-1] in str(steps) else found


def note(model: Model) -> str:
    """Return a sentence about the readers in `not_read_by`, or an empty string if there are none."""
    readers = not_read_by(model)
    if not readers:
        return ""
    first, verb = (readers[0], "does") if len(readers) == 1 else (f"{', '.join(readers[:-1])} and {readers[-1]}", "do")
    return f"{first} {verb} not read this split pattern, or not with equal ids; `--check` tries the readers that are installed"


def _known(reader: str, names: tuple[str, ...]) -> set[Any]:
    known = {
        _signature(pre_tokenizer_for(PRESETS[name]) if name in _RESPELLED else split_steps(PRESETS[name])) for name in names
    }
    if reader.startswith("tokenizers"):
        # It also reads a sequence of one step, and recognizes GPT-2's pattern by its text.
        gpt2 = byte_level(use_regex=True)
        known |= {_signature({"type": "Sequence", "pretokenizers": [gpt2]}), _signature(split_steps(PRESETS["gpt2"]))}
    return known


def _signature(component: Component | None) -> Any:
    """Return the properties of a pre-tokenizer by which readers recognize it."""
    if component is None:
        return None
    match component["type"]:
        case "Sequence":
            return tuple(_signature(step) for step in component["pretokenizers"])
        case "ByteLevel":
            return ("ByteLevel", component.get("use_regex", True), component.get("add_prefix_space", True))
        case "Split":
            # A pattern that matches everywhere isolates the same pieces when it is inverted and removed.
            kept = (component["behavior"], component.get("invert", False)) in (("Isolated", False), ("Removed", True))
            return ("Split", str(component["pattern"]), kept)
        case _:
            return str(component)
