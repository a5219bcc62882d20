"""Split patterns with names: the published ones, and those that `register_preset` adds.

All of them are entries of one table, `PRESET_TABLE`. This module imports neither `regex` nor NumPy, so that the command line
can list the names quickly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

Pattern = str | tuple[str, ...]
"""A split pattern: a regular expression, or a sequence of them that are applied one after the other.

In a sequence, each expression splits every piece from the previous one as if it were a separate text. The matches and the gaps
between them are the new pieces.
"""


class Preset(NamedTuple):
    """A split pattern with a name."""

    pattern: Pattern
    used_by: str
    """Models or tools that use the pattern."""
    source: str
    """Where the pattern is published: a project and one of its files."""


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"

_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
# White space at the end of the text is one piece with the pattern above; here it is split after its last line break.
_CL100K_LEGACY = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
_NANOCHAT = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LINES_AND_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"

_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LINES_AND_SPACES
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LINES_AND_SPACES
_QWEN35 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _LINES_AND_SPACES


def _two_cases(upper: str, lower: str, suffix: str) -> str:
    """Return alternatives for words in which capitals precede lower-case letters."""
    prefix = r"[^\r\n\p{L}\p{N}]?"
    return f"{prefix}{upper}*{lower}+{suffix}|{prefix}{upper}+{lower}*{suffix}|"


_UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_NOT_HAN = r"&&[^\p{Han}]"
_O200K = (
    _two_cases(f"[{_UPPER}]", f"[{_LOWER}]", f"{_CONTRACTIONS}?")
    + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
    + _LINES_AND_SPACES
)
_TEKKEN = _two_cases(f"[{_UPPER}]", f"[{_LOWER}]", "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _LINES_AND_SPACES
_KIMI_K2 = (
    r"[\p{Han}]+|"
    + _two_cases(f"[{_UPPER}{_NOT_HAN}]", f"[{_LOWER}{_NOT_HAN}]", f"{_CONTRACTIONS}?")
    + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    + _LINES_AND_SPACES
)

_DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
    + _LINES_AND_SPACES,
)
_STARCODER = (r"\p{N}", _GPT2)

PRESET_TABLE: dict[str, Preset] = {
    "gpt2": Preset(_GPT2, "GPT-2, GPT-NeoX, OLMo; Stanford CS336", "openai/gpt-2, src/encoder.py"),
    "r50k": Preset(_R50K, "GPT-3", "tiktoken, tiktoken_ext/openai_public.py"),
    "p50k": Preset(_R50K, "Codex", "tiktoken, tiktoken_ext/openai_public.py"),
    "cl100k": Preset(_CL100K, "GPT-3.5, GPT-4, GLM-5", "tiktoken, tiktoken_ext/openai_public.py"),
    "cl100k-legacy": Preset(_CL100K_LEGACY, "GPT-4 in minbpe and rustbpe", "karpathy/minbpe, minbpe/regex.py"),
    "o200k": Preset(_O200K, "GPT-4o, gpt-oss, Llama 4", "tiktoken, tiktoken_ext/openai_public.py"),
    "llama3": Preset(_LLAMA3, "Llama 3, GLM-4, DBRX", "meta-llama/llama3, llama/tokenizer.py"),
    "olmo2": Preset(_LLAMA3, "OLMo 2 and 3", "allenai/dolma2-tokenizer, tokenizer.json"),
    "qwen2": Preset(_QWEN2, "Qwen 2, 2.5 and 3, StableLM 2", "Qwen/Qwen2-7B, tokenizer.json"),
    "qwen3.5": Preset(_QWEN35, "Qwen 3.5", "llama.cpp, src/llama-vocab.cpp"),
    "deepseek-v3": Preset(_DEEPSEEK_V3, "DeepSeek V3 and R1, Hunyuan", "deepseek-ai/DeepSeek-V3, tokenizer.json"),
    "starcoder": Preset(_STARCODER, "StarCoder, Command R, SmolLM", "bigcode/starcoder, tokenizer.json"),
    "tekken": Preset(_TEKKEN, "Mistral NeMo and later", "mistral-common, tekken.json"),
    "nanochat": Preset(_NANOCHAT, "nanochat", "karpathy/nanochat, nanochat/tokenizer.py"),
    "kimi-k2": Preset(_KIMI_K2, "Kimi K2", "moonshotai/Kimi-K2-Instruct, tokenization_kimi.py"),
}
"""Every preset by its name. Several names may have the same pattern; the first of them is the one that is reported."""

PUBLISHED = frozenset(PRESET_TABLE)
"""The names of the published patterns, which cannot be removed."""


class _Patterns(Mapping[str, Pattern]):
    """A read-only view of the patterns in `PRESET_TABLE`."""

    def __getitem__(self, name: str) -> Pattern:
        return PRESET_TABLE[name].pattern

    def __iter__(self) -> Iterator[str]:
        return iter(PRESET_TABLE)

    def __len__(self) -> int:
        return len(PRESET_TABLE)

    def __repr__(self) -> str:
        return repr(dict(self))


PRESETS: Mapping[str, Pattern] = _Patterns()
"""Name and pattern of each preset."""


def is_name(text: str) -> bool:
    """Return True if a text has the form of a preset's name; it is then not taken as a regular expression."""
    return re.fullmatch(r"\w[\w-]*(?:\.\d[\w-]*)?", text, re.ASCII) is not None


def pattern_source(pattern: Pattern) -> Pattern:
    """Return the expression or expressions of a pattern that may be given by a preset's name.

    A sequence of one expression is returned as that expression.
    """
    source = PRESETS.get(pattern, pattern) if isinstance(pattern, str) else pattern
    return source[0] if isinstance(source, tuple) and len(source) == 1 else source


def stages_of(source: Pattern) -> tuple[str, ...]:
    """Return the expressions of a pattern as a tuple."""
    return (source,) if isinstance(source, str) else source


def preset_name(source: Pattern) -> str | None:
    """Return the first name of the preset with a pattern, or None if there is none."""
    return next((name for name, pattern in PRESETS.items() if pattern == source), None)
