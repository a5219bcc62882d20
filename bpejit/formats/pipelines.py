r"""Pre-tokenizers of `tokenizer.json` for split patterns, in the spelling that most readers know.

Some readers have no engine for regular expressions: they recognize the pre-tokenizers of published files by their text and
refuse all others. So a preset is written as in its published file, if that splits every text in the same way
(`tests/helpers/split_equivalence.py` proves it on the automata of both spellings). Other patterns are translated to the dialect
of Hugging Face's `Split` (see `bpejit.splitting.dialect_writer`).

One pattern has no spelling that all readers accept: `cl100k` keeps white space at the end of a text together, whereas the
similar pattern in published files (`llama3`) divides it after the last line break.
"""

from __future__ import annotations

from typing import Any

from bpejit.errors import PatternError
from bpejit.splitting.presets import PRESETS, Pattern

Component = dict[str, Any]
"""A component of `tokenizer.json`, as parsed JSON."""


def byte_level(*, use_regex: bool = False) -> Component:
    """Return Hugging Face's `ByteLevel`; with `use_regex` it splits by GPT-2's pattern first."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _split(pattern: str) -> Component:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _sequence(*steps: Component) -> Component:
    return {"type": "Sequence", "pretokenizers": list(steps)}


def split_steps(pattern: Pattern) -> Component:
    """Return the pre-tokenizer that splits by regular expressions in sequence, without translation."""
    stages = (pattern,) if isinstance(pattern, str) else pattern
    return _sequence(*map(_split, stages), byte_level())


def pre_tokenizer_for(pattern: Pattern, *, unicode: str | None = None) -> Component:
    """Return the pre-tokenizer that splits text as a pattern does.

    Parameters
    ----------
    pattern : str or tuple of str
        A regular expression, or those of a sequence.
    unicode : str, optional
        The version of Unicode that the pattern follows.

    Raises
    ------
    PatternError
        If no pre-tokenizer is proven to split every text in the same way.
    """
    published = _published(pattern, unicode)
    if published is not None:
        return published
    from bpejit.splitting.dialect_writer import to_oniguruma

    stages = (pattern,) if isinstance(pattern, str) else pattern
    translated = tuple(to_oniguruma(stage, unicode=unicode) for stage in stages)
    try:
        "".join(translated).encode("utf-8")
    except UnicodeEncodeError:
        raise PatternError("the split pattern is not valid UTF-8; expected text: remove the surrogates") from None
    return split_steps(translated)


def _published(pattern: Pattern, unicode: str | None) -> Component | None:
    """Return the pre-tokenizer of published files, or None if the pattern has only its translation."""
    llama3 = PRESETS["llama3"]
    assert isinstance(llama3, str)
    if pattern in (PRESETS["gpt2"], PRESETS["r50k"]):
        return byte_level(use_regex=True)
    if pattern == PRESETS["cl100k-legacy"]:
        return split_steps(llama3)
    # Not `nanochat` in the same way, with `{1,2}`: tokenizers 1.0.0rc3 accepts that, and takes digits by threes.
    if pattern == PRESETS["deepseek-v3"]:
        # The published file contains line ends literally, not as escapes.
        return split_steps(tuple(stage.replace(r"\r", "\r").replace(r"\n", "\n") for stage in pattern))
    if pattern == PRESETS["starcoder"]:
        return _sequence(_digits(unicode), byte_level(use_regex=True))
    return None


def _digits(unicode: str | None) -> Component:
    r"""Return the step of StarCoder that isolates each digit.

    `Digits` uses Unicode 17 in tokenizers 0.23, whereas its regular expressions use Unicode 16. A pattern of an older
    version is therefore written as `\p{N}`, which some readers refuse, but which has equal ids for the 13 digits that
    Unicode 17 added.
    """
    if unicode is not None and int(unicode.split(".")[0]) < 17:
        return _split(r"\p{N}")
    return {"type": "Digits", "individual_digits": True}
