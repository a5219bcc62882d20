"""A compiled split pattern as data.

Importing this module takes a millisecond. The compiler and the `regex` package take some 40 ms, and are imported on first use,
because the tables of most patterns are read from disk (see `bpejit.splitting.table_cache`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from bpejit.arrays import Array
from bpejit.splitting.presets import Pattern, preset_name

Kind = Literal["transducer", "restart", "regex"]


class SplitTables(NamedTuple):
    """The arrays of a compiled pattern, without special tokens.

    `separator` is the class of a separator between texts, which no character has (see `bpejit.splitting.separators`); 0 if
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
        from bpejit.splitting.pattern_stages import compile_stages

        return compile_stages(self.source)

    @cached_property
    def substitutes(self) -> tuple[dict[int, int], ...]:
        """The code points that `substitute` replaces for each expression, and their replacements."""
        from bpejit.splitting.codepoint_substitutes import find_substitutes

        sources = (self.source,) if isinstance(self.source, str) else self.source
        return tuple({} if self.unicode is None else find_substitutes(source, self.unicode) for source in sources)

    def substitute(self, text: str, stage: int = 0) -> str:
        """Return a text of the same length that the `regex` package splits as the pattern's Unicode version splits `text`.

        The expressions of a sequence may distinguish different characters, so each has a text of its own.
        """
        return text if self.unicode is None or text.isascii() else text.translate(self.substitutes[stage])
