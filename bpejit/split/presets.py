"""Published split patterns by name.

To add one, add a line to the table; `compile_pattern` and the command line know it by its name at once.
"""

from __future__ import annotations

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# The present spelling of tiktoken. An older one, `...|\s*[\r\n]+|\s+(?!\S)|\s+`, differs at the end of the text.
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LINES_AND_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"

_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LINES_AND_SPACES
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LINES_AND_SPACES

_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _LINES_AND_SPACES
)

PRESETS: dict[str, str] = {
    "gpt2": _GPT2,  # GPT-2, r50k, p50k, GPT-NeoX; Stanford CS336
    "cl100k": _CL100K,  # GPT-3.5 and GPT-4
    "llama3": _LLAMA3,  # Llama 3, OLMo 2 and 3, GLM-4, DBRX
    "qwen2": _QWEN2,  # Qwen 2, 2.5 and 3, StableLM 2
    "o200k": _O200K,  # GPT-4o, gpt-oss, Llama 4
}
"""Name and regular expression of each preset."""
