"""Published split patterns by name: plain data, which the command line can show without loading anything else.

To add one, add an entry to the table, with the place where it is published; `compile_pattern` and the command line know it
by its name at once. Several names may have one pattern: the first of them is the one that is shown.
"""

from __future__ import annotations

from typing import NamedTuple

Pattern = str | tuple[str, ...]
"""A split pattern: a regular expression, or several that are applied one after the other.

Of a sequence, each regular expression splits every piece that the one before has made, as if the piece were a text of its
own; both what it matches and what lies between two matches are pieces.
"""


class Preset(NamedTuple):
    """A published split pattern."""

    pattern: Pattern
    used_by: str
    source: str
    """Where the pattern is published: a project and a file of it."""


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"

_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
# White space at the end of the text is one piece above, and is cut after its last line break here.
_CL100K_LEGACY = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
_NANOCHAT = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LINES_AND_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"

_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LINES_AND_SPACES
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LINES_AND_SPACES
_QWEN35 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _LINES_AND_SPACES


def _two_cases(upper: str, lower: str, behind: str) -> str:
    """Words of which the capitals come first."""
    before = r"[^\r\n\p{L}\p{N}]?"
    return f"{before}{upper}*{lower}+{behind}|{before}{upper}+{lower}*{behind}|"


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

PRESETS_WITH_SOURCE: dict[str, Preset] = {
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
"""What is known of each preset."""

PRESETS: dict[str, Pattern] = {name: preset.pattern for name, preset in PRESETS_WITH_SOURCE.items()}
"""Name and pattern of each preset."""


def pattern_source(pattern: Pattern) -> Pattern:
    """Return the regular expression or expressions of a preset; others are their own, and a sequence of one is that one."""
    source = PRESETS.get(pattern, pattern) if isinstance(pattern, str) else pattern
    return source[0] if isinstance(source, tuple) and len(source) == 1 else source
