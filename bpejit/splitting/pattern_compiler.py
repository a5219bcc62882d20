"""Compile split patterns to automata."""

from __future__ import annotations

from bpejit.splitting.character_classes import partition
from bpejit.splitting.compiled_pattern import SplitPattern
from bpejit.splitting.dfa import DEAD, Dfa, make_dfa
from bpejit.splitting.gaps import UndecidedGapError, fill_gaps
from bpejit.splitting.pattern_stages import check_pattern
from bpejit.splitting.presets import PRESETS, Pattern, pattern_source
from bpejit.splitting.regex_syntax import Node, OutsideDialectError, parse_with_marks, sets_of
from bpejit.splitting.split_tables import restart_tables, transducer_tables
from bpejit.splitting.transducer import NoTransducerError, Transducer, emits_immediately, make_transducer

_FASTER = "remove alternatives that continue past a position where another could have ended, such as `a+b` beside `a`"
_FASTER_GAPS = "an alternative at its end that matches any character, such as `|[\\s\\S]`, may help"
_FASTER_SEQUENCE = (
    "put the expressions that match runs of one kind of character first, such as `\\p{N}{1,3}`, and only one other after them"
)


def compile_uncached(pattern: Pattern, *, unicode: str | None = None) -> SplitPattern:
    """Compile a split pattern without any cache (see `bpejit.splitting.compile_pattern`)."""
    source = pattern_source(pattern)
    check_pattern(source)
    sources = (source,) if isinstance(source, str) else source
    try:
        trees = [_tree(one, number, sources) for number, one in enumerate(sources)]
        dfas = _make_dfas(trees, sources, unicode)
    except _NoAutomatonError as error:
        return _regex_pattern(source, error, unicode)
    try:
        transducer = compose(dfas)
    except NoTransducerError as error:
        if len(dfas) > 1:
            return _regex_pattern(source, _NoAutomatonError(str(error), _FASTER_SEQUENCE), unicode)
        hint = _FASTER_GAPS if isinstance(error.__cause__, UndecidedGapError) else _FASTER
        reason = f"the split pattern runs in the slower of two automata because {error}; {hint}"
        return SplitPattern(source, "restart", reason, restart_tables(dfas[0]), unicode)
    return SplitPattern(source, "transducer", "", transducer_tables(dfas[0], transducer), unicode)


class _NoAutomatonError(Exception):
    """The pattern cannot become an automaton."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


def _regex_pattern(source: Pattern, error: _NoAutomatonError, unicode: str | None) -> SplitPattern:
    hint = error.hint or f"without it the pattern would run as an automaton, as the presets do ({', '.join(PRESETS)})"
    reason = f"the split pattern runs through the `regex` package, some 40 times slower, because {error}; {hint}"
    pattern = SplitPattern(source, "regex", reason, None, unicode)
    pattern.substitutes  # noqa: B018 (raises now rather than at the first text)
    return pattern


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
