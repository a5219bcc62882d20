"""Split patterns for the `regex` package, and compiled patterns as data; `register_preset`.

Importing this module takes a millisecond; the `regex` package is imported on first use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import PatternError, shorten
from bpejit.splitting.presets import (
    PRESET_TABLE,
    PRESETS,
    PUBLISHED,
    Pattern,
    Preset,
    is_name,
    pattern_source,
    preset_name,
    stages_of,
)

Kind = Literal["transducer", "restart", "regex"]


class SplitTables(NamedTuple):
    """The arrays of a compiled pattern, without special tokens.

    `separator` is the class of a separator between texts, which no character has (see `bpejit.splitting.automaton`); 0 if
    there is none.
    """

    table: Array
    pair_table: Array
    pair_classes: Array
    pair_shift: int
    class_of: Array
    byte_class: Array
    safe: Array
    local_rules: Array
    cut_rules: int
    stride: int
    separator: int


@dataclass(frozen=True)
class SplitPattern:
    """A compiled split pattern. Created by `compile_pattern`.

    Parameters
    ----------
    source : str or tuple of str
        The regular expression, or the expressions of a sequence.
    kind : str
        "transducer", the fast form; "restart", a slower automaton; "regex", the `regex` package.
    reason : str
        Why the pattern does not have the fast form, and what would help; empty if it has.
    tables : SplitTables, optional
        None for kind "regex".
    unicode : str, optional
        The version of Unicode that the pattern follows; None for the version of the `regex` package.
    """

    source: Pattern
    kind: Kind
    reason: str
    tables: SplitTables | None = field(repr=False)
    unicode: str | None = None

    @property
    def name(self) -> str | None:
        """The first name of the preset with this pattern; None if there is none."""
        return preset_name(self.source)

    @cached_property
    def stages(self) -> tuple[Any, ...]:
        """The expressions compiled by the `regex` package, with `$` as the end of the text only.

        Each applies to its text of `substitute`.
        """
        return compile_stages(self.source)

    @cached_property
    def substitutes(self) -> tuple[dict[int, int], ...]:
        """The code points that `substitute` replaces for each expression, and their replacements."""
        from bpejit.splitting.character_classes import find_substitutes

        return tuple({} if self.unicode is None else find_substitutes(one, self.unicode) for one in stages_of(self.source))

    def substitute(self, text: str, stage: int = 0) -> str:
        """Return a text of the same length that the `regex` package splits as the pattern's Unicode version splits `text`.

        The expressions of a sequence may distinguish different characters, so each has a text of its own.
        """
        return text if self.unicode is None or text.isascii() else text.translate(self.substitutes[stage])


def check_pattern(source: Pattern) -> None:
    """Raise PatternError if a pattern is empty, looks like the name of a preset that does not exist, or does not compile."""
    sources = stages_of(source)
    if not sources:
        raise PatternError("the split pattern is an empty sequence; expected at least one regular expression: add one")
    # In a sequence a fixed word may be intended, unless it is the name of a preset.
    for one in sources if len(sources) > 1 and preset_name(source) is None else ():
        if one in PRESETS or not one:
            raise PatternError(
                f"{shorten(one, 400)} is not a regular expression for a sequence; expected {len(sources)} regular "
                f"expressions: write them out, as in `PRESETS[{shorten(one or 'gpt2')}]`"
            )
    if len(sources) == 1 and (not sources[0] or is_name(sources[0])) and preset_name(source) is None:
        raise PatternError(
            f"there is no split pattern named {shorten(sources[0])}; expected {', '.join(PRESETS)}, or a regular expression: "
            "choose one of these names, or write a pattern that matches more than one fixed word"
        )
    compile_stages(source)


def compile_stages(source: Pattern) -> tuple[Any, ...]:
    """Return the expressions of a pattern, compiled by the `regex` package, with `$` as the end of the text only."""
    import regex

    sources = stages_of(source)
    compiled = []
    for one in sources:
        try:
            compiled.append(_compile_regex(one))
        except regex.error as error:  # noqa: PERF203 (the message names the expression)
            within = "" if len(sources) == 1 else f" in a sequence of {len(sources)}"
            raise PatternError(
                f"the split pattern {shorten(one, 400)}{within} does not compile: {error}; "
                "expected a regular expression in the syntax of the `regex` package: correct it, or choose one of the presets "
                f"({', '.join(PRESETS)})"
            ) from None
    return tuple(compiled)


def _compile_regex(source: str) -> Any:
    """Compile for the `regex` package, with `$` as the end of the text only; there it also matches before a final newline."""
    import regex

    from bpejit.splitting.regex_syntax import find_ends

    ends, operations = find_ends(source)
    # In multiline mode `$` keeps its meaning.
    if not re.search(r"\(\?[a-zA-Z]*m", source):
        for start, end in reversed(ends):
            source = source[:start] + r"\Z" + source[end:]
    # Version 1 supports set operations. Its other new feature, full case folding, is turned off.
    return regex.compile(f"(?V1)(?-f:{source})" if operations else source)


def register_preset(name: str, pattern: Pattern, *, used_by: str = "", source: str = "") -> None:
    r"""Give a split pattern a name, which can then be used wherever a pattern is expected.

    The name is known to the process that registers it. Tokenizers that are trained, saved or sent to other processes carry the
    pattern itself, so worker processes, and programs that load the tokenizer, do not need the name.

    Parameters
    ----------
    name : str
        ASCII letters, digits, `_` and `-`, such as "my-pattern"; it may end with a version, as in "my-pattern.2".
    pattern : str or tuple of str
        A regular expression in the syntax of the `regex` package, several that are applied one after the other, or the name of
        another preset.
    used_by : str, optional
        Models or tools that use the pattern.
    source : str, optional
        Where the pattern is published.

    Raises
    ------
    PatternError
        If the name is malformed or belongs to another pattern, or the pattern does not compile.

    Examples
    --------
    >>> register_preset("words", r"\w+|\s+|[^\w\s]+")  # doctest: +SKIP
    >>> tokenizer = bpejit.train("corpus.txt", vocab_size=10_000, pattern="words")  # doctest: +SKIP
    """
    name = arguments.string("name", name)
    if not is_name(name):
        raise PatternError(
            f"{shorten(name)} cannot be the name of a split pattern; expected ASCII letters, digits, `_` and `-`, such as "
            "'my-pattern': choose another name"
        )
    stages = pattern_source(arguments.pattern("pattern", pattern))
    known = PRESETS.get(name, stages)
    if known != stages:
        raise PatternError(
            f"there is already a split pattern named {shorten(name)}, {shorten(str(known), 400)}, which differs from "
            f"{shorten(str(stages), 400)}: choose another name"
        )
    check_pattern(stages)
    PRESET_TABLE.setdefault(name, Preset(stages, arguments.string("used_by", used_by), arguments.string("source", source)))


def unregister_preset(name: str) -> None:
    """Remove a name that `register_preset` has added.

    Raises
    ------
    PatternError
        If there is no such name, or it belongs to a published pattern.
    """
    if name in PUBLISHED or name not in PRESET_TABLE:
        registered = ", ".join(shorten(other) for other in PRESET_TABLE if other not in PUBLISHED) or "none are registered"
        raise PatternError(
            f"{shorten(name)} is not a registered split pattern; expected a name from `register_preset` ({registered}): "
            "choose one of these"
        )
    del PRESET_TABLE[name]
