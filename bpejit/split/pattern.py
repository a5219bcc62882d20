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
from bpejit.kernels._constants import PAIR_ROW_SHIFT, SPLIT_ACCEPT, SPLIT_DIES, SPLIT_KEPT_SHIFT
from bpejit.split.automaton import DEAD, Dfa, make_dfa, safe_pairs
from bpejit.split.parse import OutsideDialectError, parse
from bpejit.split.presets import PRESETS
from bpejit.split.transducer import NoTransducerError, Transducer, make_transducer

Kind = Literal["transducer", "restart", "regex"]

_STRIDES = (32, 64, 128, 256)

_MOST_PAIR_ENTRIES = 1 << 16
"""Beyond this the table of pairs of characters would be slower than two steps through the small one."""

_END_OF_TEXT = re.compile(
    r"""
    (?P<keep> \\[^z] | \[\^?\]?(?:\\.|[^\]\\])*\] )   # another escape, or a whole set
    | \\z | \$
    """,
    re.VERBOSE | re.DOTALL,
)


class SplitTables(NamedTuple):
    """What the kernels need to know of a pattern (see `kernels.records.SplitAutomaton`)."""

    table: Array
    pair_table: Array
    pair_classes: Array
    pair_shift: int
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


def _pair_table(transducer: Transducer, ascii_classes: Array, stride: int) -> tuple[Array, Array, int]:
    """Return the table of steps over two ASCII characters, what each character adds to an index of it, and its row's size.

    The row's size is a power of two times `stride`, given as the exponent; -1 if the table would not fit the cache.
    """
    columns, numbers = np.unique(ascii_classes, return_inverse=True)
    size = max(1 << (columns.size - 1).bit_length(), 16)
    shift = (size * size // stride).bit_length() - 1
    states = transducer.moves.shape[0]
    if states * size * size > _MOST_PAIR_ENTRIES:
        return np.zeros(1, np.uint32), np.zeros(256, np.uint16), -1
    moves, kept, emitted = (part[:, columns] for part in transducer)
    between = moves[:, :, None]
    second = np.arange(columns.size)[None, None, :]
    table = np.zeros((states, size, size), dtype=np.uint32)
    table[:, : columns.size, : columns.size] = (
        moves[between, second] * (size * size) << PAIR_ROW_SHIFT
        | emitted[:, :, None] + kept[between, second] << 6
        | kept[:, :, None] << 3
        | emitted[:, :, None] + emitted[between, second]
    )
    return table.reshape(-1), np.concatenate([numbers * size, numbers]).astype(np.uint16), shift


def _restart_table(dfa: Dfa, stride: int) -> Array:
    states, size = dfa.moves.shape
    table = np.zeros((states, stride), dtype=np.uint32)
    dies = dfa.moves == DEAD
    table[:, :size] = np.where(dies, SPLIT_DIES, dfa.moves * stride) | np.where(dfa.accepts, SPLIT_ACCEPT, 0)
    return table.reshape(-1)


def _tables(dfa: Dfa, table: Array, stride: int, transducer: Transducer | None = None) -> SplitTables:
    classes = dfa.classes
    alone = np.arange(256)
    alone[128:] += 0xDC00
    safe = np.zeros((stride, stride), dtype=np.uint8)
    safe[: classes.n + 1, : classes.n + 1] = safe_pairs(dfa)
    pairs: tuple[Array, Array, int] = np.zeros(1, np.uint32), np.zeros(256, np.uint16), -1
    if transducer is not None:
        pairs = _pair_table(transducer, classes.class_of[:128], stride)
    return SplitTables(table, *pairs, classes.class_of, classes.class_of[alone], safe.reshape(-1), stride)


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
        transducer = make_transducer(dfa)
    except NoTransducerError as error:
        reason = (
            f"the split pattern runs in the slower of two automata because {error}; "
            "an alternative at its end that matches any character, such as `|[\\s\\S]`, may help"
        )
        return SplitPattern(source, name, "restart", reason, _tables(dfa, _restart_table(dfa, stride), stride), compiled)
    tables = _tables(dfa, _transducer_table(transducer, stride), stride, transducer)
    return SplitPattern(source, name, "transducer", "", tables, compiled)
