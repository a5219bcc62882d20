"""Compile split patterns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal

import regex

from bpejit.errors import PatternError, shorten
from bpejit.splitting.character_classes import partition
from bpejit.splitting.codepoint_substitutes import find_substitutes
from bpejit.splitting.dfa import DEAD, Dfa, make_dfa
from bpejit.splitting.gaps import UndecidedGapError, fill_gaps
from bpejit.splitting.presets import PRESETS, Pattern, is_name, pattern_source, preset_name
from bpejit.splitting.regex_syntax import Node, OutsideDialectError, find_ends, parse_with_marks, sets_of
from bpejit.splitting.split_tables import SplitTables, restart_tables, transducer_tables
from bpejit.splitting.table_cache import load_tables, store_tables
from bpejit.splitting.transducer import NoTransducerError, Transducer, emits_immediately, make_transducer
from bpejit.splitting.unicode_versions import check_unicode

Kind = Literal["transducer", "restart", "regex"]

_FASTER = "remove alternatives that continue past a position where another could have ended, such as `a+b` beside `a`"
_FASTER_GAPS = "an alternative at its end that matches any character, such as `|[\\s\\S]`, may help"
_FASTER_SEQUENCE = (
    "put the expressions that match runs of one kind of character first, such as `\\p{N}{1,3}`, and only one other after them"
)


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
    stages : tuple of compiled patterns
        The expressions compiled by the `regex` package, with `$` as the end of the text only. They apply to text returned by
        `substitute`.
    unicode : str, optional
        The version of Unicode that the pattern follows; None for the version of the `regex` package.
    """

    source: Pattern
    kind: Kind
    reason: str
    tables: SplitTables | None = field(repr=False)
    stages: tuple[Any, ...] = field(repr=False)
    unicode: str | None = None

    @property
    def name(self) -> str | None:
        """The first name of the preset with this pattern; None if there is none."""
        return preset_name(self.source)

    @cached_property
    def substitutes(self) -> dict[int, int]:
        """The code points that `substitute` replaces, and their replacements."""
        sources = (self.source,) if isinstance(self.source, str) else self.source
        return {} if self.unicode is None else find_substitutes(sources, self.unicode)

    def substitute(self, text: str) -> str:
        """Return a text of the same length that the `regex` package splits as the pattern's Unicode version splits `text`."""
        return text if self.unicode is None or text.isascii() else text.translate(self.substitutes)


def compile_pattern(pattern: Pattern, *, unicode: str | None = None) -> SplitPattern:
    """Compile a split pattern.

    Parameters
    ----------
    pattern : str or tuple of str
        The name of a preset (see `bpejit.splitting.PRESETS`), a regular expression in the syntax of the `regex` package, or
        several expressions that are applied one after the other (see `bpejit.splitting.Pattern`).
    unicode : str, optional
        The version of Unicode that defines letters and other classes of characters, one of `unicode_versions.VERSIONS`. The
        default is the version of the installed `regex` package.

    Raises
    ------
    PatternError
        If the pattern does not compile, or the `regex` package has an older version of Unicode.

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
    is_preset = preset_name(source) is not None
    stored = load_tables(source, unicode, len(SplitTables._fields)) if is_preset else None
    if stored is not None:
        return SplitPattern(source, "transducer", "", SplitTables(*stored), _stages(source), unicode)
    compiled = compile_uncached(source, unicode=unicode)
    if is_preset and compiled.kind == "transducer" and compiled.tables is not None:
        store_tables(source, unicode, compiled.tables)
    return compiled


def compile_uncached(pattern: Pattern, *, unicode: str | None = None) -> SplitPattern:
    """Compile a split pattern without any cache (see `compile_pattern`)."""
    source = pattern_source(pattern)
    stages = check_pattern(source)
    sources = (source,) if isinstance(source, str) else source
    try:
        trees = [_tree(one, number, sources) for number, one in enumerate(sources)]
        dfas = _make_dfas(trees, sources, unicode)
    except _NoAutomatonError as error:
        return _regex_pattern(source, error, stages, unicode)
    try:
        transducer = compose(dfas)
    except NoTransducerError as error:
        if len(dfas) > 1:
            return _regex_pattern(source, _NoAutomatonError(str(error), _FASTER_SEQUENCE), stages, unicode)
        hint = _FASTER_GAPS if isinstance(error.__cause__, UndecidedGapError) else _FASTER
        reason = f"the split pattern runs in the slower of two automata because {error}; {hint}"
        return SplitPattern(source, "restart", reason, restart_tables(dfas[0]), stages, unicode)
    return SplitPattern(source, "transducer", "", transducer_tables(dfas[0], transducer), stages, unicode)


class _NoAutomatonError(Exception):
    """The pattern cannot become an automaton."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


def _regex_pattern(source: Pattern, error: _NoAutomatonError, stages: tuple[Any, ...], unicode: str | None) -> SplitPattern:
    hint = error.hint or f"without it the pattern would run as an automaton, as the presets do ({', '.join(PRESETS)})"
    reason = f"the split pattern runs through the `regex` package, some 40 times slower, because {error}; {hint}"
    pattern = SplitPattern(source, "regex", reason, None, stages, unicode)
    pattern.substitutes  # noqa: B018 (raises now rather than at the first text)
    return pattern


def check_pattern(source: Pattern) -> tuple[Any, ...]:
    """Return the expressions of a pattern, compiled by the `regex` package.

    Parameters
    ----------
    source : str or tuple of str
        From `pattern_source`.

    Raises
    ------
    PatternError
        If the pattern is empty, looks like the name of a preset that does not exist, or does not compile.
    """
    sources = (source,) if isinstance(source, str) else source
    if preset_name(source) is None:
        _check_sources(sources)
    return _stages(source)


def _check_sources(sources: tuple[str, ...]) -> None:
    if not sources:
        raise PatternError("the split pattern is an empty sequence; expected at least one regular expression: add one")
    # In a sequence a fixed word may be intended, unless it is the name of a preset.
    for source in sources if len(sources) > 1 else ():
        if source in PRESETS or not source:
            raise PatternError(
                f"{shorten(source, 400)} is not a regular expression for a sequence; expected {len(sources)} regular "
                f"expressions: write them out, as in `PRESETS[{shorten(source or 'gpt2')}]`"
            )
    if len(sources) == 1 and (not sources[0] or is_name(sources[0])):
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


def _compile_regex(source: str) -> Any:
    """Compile for the `regex` package, with `$` as the end of the text only; there it also matches before a final newline."""
    ends, operations = find_ends(source)
    # In multiline mode `$` keeps its meaning.
    if not re.search(r"\(\?[a-zA-Z]*m", source):
        for start, end in reversed(ends):
            source = source[:start] + r"\Z" + source[end:]
    # Version 1 supports set operations. Its other new feature, full case folding, is turned off.
    return regex.compile(f"(?V1)(?-f:{source})" if operations else source)


def _tree(source: str, number: int, sources: tuple[str, ...]) -> Node:
    try:
        return parse_with_marks(source)[0]
    except OutsideDialectError as error:
        raise _no_automaton(error, source, number, sources) from None


def _make_dfas(trees: list[Node], sources: tuple[str, ...], unicode: str | None) -> list[Dfa]:
    """Return the DFA of each tree, all over the same classes."""
    dfas = []
    number = 0
    try:
        classes = partition((chars for tree in trees for chars in sets_of(tree)), unicode)
        for number, tree in enumerate(trees):  # noqa: B007 (the number is for the message)
            dfas.append(make_dfa(tree, classes))
    except OutsideDialectError as error:
        raise _no_automaton(error, sources[number], number, sources) from None
    return dfas


def _no_automaton(error: OutsideDialectError, source: str, number: int, sources: tuple[str, ...]) -> _NoAutomatonError:
    reason = str(error)
    if error.node is not None:
        at = next(mark.start for mark in parse_with_marks(source)[1] if mark.element == error.node)
        reason += f" at character {at}"
    if len(sources) > 1:
        reason += f" (in expression {number + 1} of {len(sources)})"
    return _NoAutomatonError(reason, error.hint)


def compose(dfas: list[Dfa]) -> Transducer:
    """Return one transducer that applies several patterns, one after the other.

    Raises
    ------
    NoTransducerError
        If there is none.
    """
    composed = None
    for number, dfa in enumerate(dfas):
        if composed is not None and not emits_immediately(composed):
            raise NoTransducerError(
                f"some boundaries of expression {number} of {len(dfas)} depend on more than the next character"
            )
        try:
            filled = fill_gaps(dfa)
        except UndecidedGapError as cause:
            raise NoTransducerError(
                "some text is matched by no alternative, and it takes more than two characters to know which"
            ) from cause
        composed = make_transducer(filled, composed)
    assert composed is not None
    return composed


def covers_all_text(source: str, *, unicode: str | None = None) -> bool:
    """Return True if the matches of a regular expression are proven to cover every text."""
    try:
        tree = parse_with_marks(source)[0]
        dfa = make_dfa(tree, partition(sets_of(tree), unicode))
    except OutsideDialectError:
        return False
    seconds = dfa.moves[0, 1:]
    return bool((seconds != DEAD).all() and dfa.accepts[seconds].all())
