"""A split pattern, compiled: by itself, without special tokens, and known by its source."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import regex

from bpejit.arrays import Array
from bpejit.errors import PatternError, shorten
from bpejit.kernels.constants import PAIR_ROW_SHIFT, SPLIT_ACCEPT, SPLIT_DIES, SPLIT_KEPT_SHIFT
from bpejit.splitting.automaton import DEAD, Dfa, make_dfa, safe_pairs, sets_of
from bpejit.splitting.character_classes import partition
from bpejit.splitting.codepoint_substitutes import stand_ins
from bpejit.splitting.gaps import UndecidedGapError, fill_gaps
from bpejit.splitting.local_rules import make_rules
from bpejit.splitting.presets import PRESETS, Pattern, pattern_source
from bpejit.splitting.regex_syntax import Node, OutsideDialectError, find_ends, parse_with_marks
from bpejit.splitting.table_cache import keep_tables, load_tables
from bpejit.splitting.transducer import NoTransducerError, Transducer, border_pairs, is_gate, make_transducer
from bpejit.splitting.unicode_versions import check_unicode

Kind = Literal["transducer", "restart", "regex"]

_STRIDES = (32, 64, 128, 256)

_MOST_PAIR_ENTRIES = 1 << 16
"""Beyond this the table of pairs of characters would be slower than two steps through the small one."""


_FASTER = "do without an alternative that goes on where another could have ended, such as `a+b` beside `a`"
_FASTER_GAPS = "an alternative at its end that matches any character, such as `|[\\s\\S]`, may help"
_FASTER_SEQUENCE = (
    "put first what cuts runs of one kind of characters, such as `\\p{N}{1,3}`, and only one other pattern behind"
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
    local_rules: Array
    cut_rules: int
    stride: int


@dataclass(frozen=True)
class SplitPattern:
    """A split pattern and how it runs. Made by `compile_pattern`.

    Parameters
    ----------
    source : str or tuple of str
        The regular expression, or those of a sequence.
    name : str, optional
        The preset's name; the first, if it has several.
    kind : str
        "transducer", the fast form; "restart", a slower automaton; "regex", the `regex` package.
    reason : str
        Why the pattern has not the fast form, and what would help; empty if it has.
    tables : SplitTables, optional
        None for kind "regex".
    stages : tuple of compiled patterns
        The same in the `regex` package, one for each regular expression, `$` being the end of the text only. They are for
        text as `seen` returns it.
    unicode : str, optional
        The version of Unicode that the pattern follows; None for that of the `regex` package.
    """

    source: Pattern
    name: str | None
    kind: Kind
    reason: str
    tables: SplitTables | None = field(repr=False)
    stages: tuple[Any, ...] = field(repr=False)
    unicode: str | None = None

    @cached_property
    def stand_ins(self) -> dict[int, int]:
        """Which code points of a text are replaced by which in `seen`."""
        sources = (self.source,) if isinstance(self.source, str) else self.source
        return {} if self.unicode is None else stand_ins(sources, self.unicode)

    def seen(self, text: str) -> str:
        """Return a text of the same length that is to the `regex` package what `text` is to the pattern's Unicode version."""
        return text if self.unicode is None or text.isascii() else text.translate(self.stand_ins)


def _compile_regex(source: str) -> Any:
    """Compile for the `regex` package, with `$` as the end of the text only; there it also stands before a last newline."""
    ends, operations = find_ends(source)
    # Whoever asks for the ends of lines gets them.
    if not re.search(r"\(\?[a-zA-Z]*m", source):
        for start, end in reversed(ends):
            source = source[:start] + r"\Z" + source[end:]
    # Version 1 knows operations on sets; what else is new in it, one letter that is the same as two, is left out.
    return regex.compile(f"(?V1)(?-f:{source})" if operations else source)


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
    safe[: classes.n + 1, : classes.n + 1] = safe_pairs(dfa) if transducer is None else border_pairs(transducer)
    pairs: tuple[Array, Array, int] = np.zeros(1, np.uint32), np.zeros(256, np.uint16), -1
    rules: tuple[Array, int] = np.zeros(0, np.uint8), 0
    if transducer is not None:
        pairs = _pair_table(transducer, classes.class_of[:128], stride)
        rules = make_rules(transducer, classes.class_of)
    return SplitTables(table, *pairs, classes.class_of, classes.class_of[alone], safe.reshape(-1), *rules, stride)


def compile_pattern(pattern: Pattern, *, unicode: str | None = None) -> SplitPattern:
    """Compile a split pattern.

    Parameters
    ----------
    pattern : str or tuple of str
        The name of a preset (see `bpejit.splitting.PRESETS`), a regular expression in the syntax of the `regex` package, or
        several of these expressions that are applied one after the other (see `bpejit.splitting.presets.Pattern`).
    unicode : str, optional
        The version of Unicode that says which characters are letters and so on, one of `unicode_versions.VERSIONS`; by default
        that of the installed `regex` package.

    Raises
    ------
    PatternError
        If it does not compile, or the `regex` package has an older version of Unicode.

    Examples
    --------
    >>> compile_pattern("gpt2").kind
    'transducer'
    """
    if unicode is not None:
        check_unicode(unicode)
    return _compile(pattern_source(pattern), unicode)


@lru_cache(maxsize=64)
def _compile(source: Pattern, unicode: str | None) -> SplitPattern:
    name = _preset_name(source)
    kept = load_tables(source, unicode, len(SplitTables._fields)) if name else None
    if kept is not None:
        return SplitPattern(source, name, "transducer", "", SplitTables(*kept), _stages(source), unicode)
    made = compile_anew(source, unicode=unicode)
    if name and made.kind == "transducer" and made.tables is not None:
        keep_tables(source, unicode, made.tables)
    return made


def _preset_name(source: Pattern) -> str | None:
    return next((name for name, preset in PRESETS.items() if preset == source), None)


def compile_anew(pattern: Pattern, *, unicode: str | None = None) -> SplitPattern:
    """Compile a split pattern, whether or not it was compiled before (see `compile_pattern`)."""
    source = pattern_source(pattern)
    name = _preset_name(source)
    sources = (source,) if isinstance(source, str) else source
    if name is None:
        _check_sources(sources)
    stages = _stages(source)
    try:
        trees = [_tree(one, number, sources) for number, one in enumerate(sources)]
        dfas = _make_dfas(trees, sources, unicode)
    except _SlowError as error:
        return _slow_pattern(source, name, error, stages, unicode)
    stride = _stride(dfas[0])
    try:
        transducer = _compose(dfas)
    except NoTransducerError as error:
        if len(dfas) > 1:
            return _slow_pattern(source, name, _SlowError(str(error), _FASTER_SEQUENCE), stages, unicode)
        hint = _FASTER_GAPS if isinstance(error.__cause__, UndecidedGapError) else _FASTER
        reason = f"the split pattern runs in the slower of two automata because {error}; {hint}"
        tables = _tables(dfas[0], _restart_table(dfas[0], stride), stride)
        return SplitPattern(source, name, "restart", reason, tables, stages, unicode)
    tables = _tables(dfas[0], _transducer_table(transducer, stride), stride, transducer)
    return SplitPattern(source, name, "transducer", "", tables, stages, unicode)


class _SlowError(Exception):
    """The pattern cannot become an automaton."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


def _slow_pattern(
    source: Pattern, name: str | None, error: _SlowError, stages: tuple[Any, ...], unicode: str | None
) -> SplitPattern:
    hint = error.hint or f"a pattern without that would run as an automaton, as do the presets ({', '.join(PRESETS)})"
    reason = f"the split pattern runs through the `regex` package, some 40 times slower, because {error}; {hint}"
    pattern = SplitPattern(source, name, "regex", reason, None, stages, unicode)
    pattern.stand_ins  # noqa: B018 (raises now rather than at the first text)
    return pattern


def _check_sources(sources: tuple[str, ...]) -> None:
    if not sources:
        raise PatternError("the split pattern is an empty sequence; expected at least one regular expression: add one")
    # In a sequence a fixed word may well be meant: only a preset's name is not.
    for source in sources if len(sources) > 1 else ():
        if source in PRESETS or not source:
            raise PatternError(
                f"{shorten(source, 400)} is no regular expression for a sequence; expected {len(sources)} regular expressions: "
                f"write them out, as `PRESETS[{shorten(source or 'gpt2')}]` has them"
            )
    if len(sources) == 1 and re.fullmatch(r"(?:\w[\w-]*(?:\.\d[\w-]*)?)?", sources[0], re.ASCII):
        raise PatternError(
            f"there is no split pattern named {shorten(sources[0])}; expected {', '.join(PRESETS)}, or a regular expression: "
            "choose one of these names, or write a pattern that matches more than one fixed word"
        )


def _in_sequence(sources: tuple[str, ...]) -> str:
    return "" if len(sources) == 1 else f" in a sequence of {len(sources)}"


def _stages(source: Pattern) -> tuple[Any, ...]:
    sources = (source,) if isinstance(source, str) else source
    return tuple(_compile_stage(one, sources) for one in sources)


def _compile_stage(source: str, sources: tuple[str, ...]) -> Any:
    try:
        return _compile_regex(source)
    except regex.error as error:
        raise PatternError(
            f"the split pattern {shorten(source, 400)}{_in_sequence(sources)} does not compile: {error}; "
            "expected a regular expression in the syntax of the `regex` package: correct it, or choose one of the presets "
            f"({', '.join(PRESETS)})"
        ) from None


def _tree(source: str, number: int, sources: tuple[str, ...]) -> Node:
    try:
        return parse_with_marks(source)[0]
    except OutsideDialectError as error:
        raise _slow(error, source, number, sources) from None


def _make_dfas(trees: list[Node], sources: tuple[str, ...], unicode: str | None) -> list[Dfa]:
    """Return the DFA of each tree, all over the same classes."""
    dfas = []
    number = 0
    try:
        classes = partition((chars for tree in trees for chars in sets_of(tree)), unicode)
        for number, tree in enumerate(trees):  # noqa: B007 (the number is for the message)
            dfas.append(make_dfa(tree, classes))
    except OutsideDialectError as error:
        raise _slow(error, sources[number], number, sources) from None
    return dfas


def _slow(error: OutsideDialectError, source: str, number: int, sources: tuple[str, ...]) -> _SlowError:
    reason = str(error)
    if error.node is not None:
        at = next(mark.start for mark in parse_with_marks(source)[1] if mark.piece == error.node)
        reason += f" at character {at}"
    if len(sources) > 1:
        reason += f" (in expression {number + 1} of {len(sources)})"
    return _SlowError(reason, error.hint)


def _compose(dfas: list[Dfa]) -> Transducer:
    """Return the transducer that does the work of all patterns, one after the other."""
    gate = None
    for number, dfa in enumerate(dfas):
        if gate is not None and not is_gate(gate):
            raise NoTransducerError(
                f"expression {number} of {len(dfas)} knows some of its borders only later than at the character behind them"
            )
        try:
            whole = fill_gaps(dfa)
        except UndecidedGapError as cause:
            raise NoTransducerError(
                "some text is matched by no alternative, and it takes more than two characters to know which"
            ) from cause
        gate = make_transducer(whole, gate)
    assert gate is not None
    return gate


def everything_matches(source: str, *, unicode: str | None = None) -> bool:
    """Whether it is proven that the matches of a regular expression leave out no character of any text."""
    try:
        tree = parse_with_marks(source)[0]
        dfa = make_dfa(tree, partition(sets_of(tree), unicode))
    except OutsideDialectError:
        return False
    seconds = dfa.moves[0, 1:]
    return bool((seconds != DEAD).all() and dfa.accepts[seconds].all())
