"""A split pattern, compiled: by itself, without special tokens, and known by its source."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import regex

from bpejit.arrays import Array
from bpejit.errors import PatternError
from bpejit.kernels._constants import SPLIT_ACCEPT, SPLIT_DIES, SPLIT_KEPT_SHIFT
from bpejit.split.automaton import DEAD, Dfa, make_dfa, safe_pairs
from bpejit.split.parse import OutsideDialectError, parse
from bpejit.split.presets import PRESETS
from bpejit.split.transducer import NoTransducerError, Transducer, make_transducer

Kind = Literal["transducer", "restart", "regex"]

_STRIDES = (32, 64, 128, 256)

_END_OF_TEXT = re.compile(
    r"""
    (?P<keep> \\[^z] | \[\^?\]?(?:\\.|[^\]\\])*\] )   # another escape, or a whole set
    | \\z | \$
    """,
    re.VERBOSE | re.DOTALL,
)


class SplitTables(NamedTuple):
    """What the kernels need to know of a pattern (see `arrays.SplitAutomaton`)."""

    table: Array
    class_of: Array
    byte_class: Array
    safe: Array
    stride: int


@dataclass(frozen=True)
class SplitPattern:
    """A split pattern and how it runs. Made by `compile_pattern`.

    Parameters
    ----------
    source : str
        The regular expression.
    name : str, optional
        The preset's name.
    kind : str
        "transducer", the fast form; "restart", a slower automaton; "regex", the `regex` package.
    reason : str
        Why the pattern has not the fast form, and what would help; empty if it has.
    tables : SplitTables, optional
        None for kind "regex".
    regex : compiled pattern
        The same pattern in the `regex` package, `$` being the end of the text only.
    """

    source: str
    name: str | None
    kind: Kind
    reason: str
    tables: SplitTables | None = field(repr=False)
    regex: Any = field(repr=False)


def _regex_source(source: str) -> str:
    """Return the pattern with `$` as the end of the text only; in the `regex` package it also stands before a last newline."""
    if re.search(r"\(\?[a-zA-Z]*m", source):
        # Whoever asks for the ends of lines gets them.
        return source
    return _END_OF_TEXT.sub(lambda found: found["keep"] or r"\Z", source)


def _stride(dfa: Dfa) -> int:
    return next(stride for stride in _STRIDES if stride > dfa.classes.n)


def _transducer_table(transducer: Transducer, stride: int) -> Array:
    states, size = transducer.moves.shape
    table = np.zeros((states, stride), dtype=np.uint32)
    table[:, :size] = transducer.moves * stride | transducer.kept << SPLIT_KEPT_SHIFT | transducer.emitted
    return table.reshape(-1)


def _restart_table(dfa: Dfa, stride: int) -> Array:
    states, size = dfa.moves.shape
    table = np.zeros((states, stride), dtype=np.uint32)
    dies = dfa.moves == DEAD
    table[:, :size] = np.where(dies, SPLIT_DIES, dfa.moves * stride) | np.where(dfa.accepts, SPLIT_ACCEPT, 0)
    return table.reshape(-1)


def _tables(dfa: Dfa, table: Array, stride: int) -> SplitTables:
    classes = dfa.classes
    alone = np.arange(256)
    alone[128:] += 0xDC00
    safe = np.zeros((stride, stride), dtype=np.uint8)
    safe[: classes.n + 1, : classes.n + 1] = safe_pairs(dfa)
    return SplitTables(table, classes.class_of, classes.class_of[alone], safe.reshape(-1), stride)


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> SplitPattern:
    """Compile a split pattern.

    Parameters
    ----------
    pattern : str
        The name of a preset (see `bpejit.split.PRESETS`), or a regular expression in the syntax of the `regex` package.

    Raises
    ------
    PatternError
        If it does not compile.

    Examples
    --------
    >>> compile_pattern("gpt2").kind
    'transducer'
    """
    source = PRESETS.get(pattern, pattern)
    name = next((name for name, preset in PRESETS.items() if preset == source), None)
    if name is None and re.fullmatch(r"(?:\w[\w-]*)?", source, re.ASCII):
        raise PatternError(
            f"there is no split pattern named {pattern!r}; expected {', '.join(PRESETS)}, or a regular expression: "
            "choose one of these names, or write a pattern that matches more than one fixed word"
        )
    try:
        compiled = regex.compile(_regex_source(source))
    except regex.error as error:
        raise PatternError(
            f"the split pattern {source!r} does not compile: {error}; "
            "expected a regular expression in the syntax of the `regex` package: correct it, or choose one of the presets "
            f"({', '.join(PRESETS)})"
        ) from None
    try:
        dfa = make_dfa(parse(source))
    except OutsideDialectError as error:
        reason = (
            f"the split pattern runs through the `regex` package, some 40 times slower, because {error}; "
            f"a pattern without that would run as an automaton, as do the presets ({', '.join(PRESETS)})"
        )
        return SplitPattern(source, name, "regex", reason, None, compiled)
    stride = _stride(dfa)
    try:
        table = _transducer_table(make_transducer(dfa), stride)
    except NoTransducerError as error:
        reason = (
            f"the split pattern runs in the slower of two automata because {error}; "
            "an alternative at its end that matches any character, such as `|[\\s\\S]`, may help"
        )
        return SplitPattern(source, name, "restart", reason, _tables(dfa, _restart_table(dfa, stride), stride), compiled)
    return SplitPattern(source, name, "transducer", "", _tables(dfa, table, stride), compiled)
