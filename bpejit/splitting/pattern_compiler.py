"""Compile split patterns to automata, and write these as the arrays that the kernels read; questions about patterns."""

from __future__ import annotations

import contextlib
from functools import cache

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import OptionError, shorten
from bpejit.kernels.constants import PAIR_ROW_SHIFT, SPLIT_ACCEPT, SPLIT_DIES, SPLIT_KEPT_SHIFT
from bpejit.splitting.character_classes import MAX_CLASSES, Classes, members, partition
from bpejit.splitting.dfa import DEAD, Dfa, NoTransducerError, fill_gaps, leaves_gaps, make_dfa, safe_pairs_of_dfa
from bpejit.splitting.local_rules import make_rules
from bpejit.splitting.pattern import SplitPattern, SplitTables, check_pattern
from bpejit.splitting.presets import PRESETS, Pattern, pattern_source, stages_of
from bpejit.splitting.regex_syntax import (
    Chars,
    Choice,
    Node,
    OutsideDialectError,
    Repeat,
    Sequence,
    parse,
    parse_with_marks,
    sets_of,
)
from bpejit.splitting.transducer import (
    Transducer,
    emits_immediately,
    make_transducer,
    safe_pairs_of_transducer,
    with_separator,
)

_FASTER = "remove alternatives that continue past a position where another could have ended, such as `a+b` beside `a`"
_FASTER_SEQUENCE = (
    "put the expressions that match runs of one kind of character first, such as `\\p{N}{1,3}`, and only one other after them"
)


_LETTERS = Chars(r"[\p{L}\p{M}]")

_STRIDES = (32, 64, 128, 256)

_MAX_PAIR_ENTRIES = 1 << 16
"""Above this size the table of character pairs is slower than two steps through the smaller table."""


def compile_uncached(pattern: Pattern, *, unicode: str | None = None) -> SplitPattern:
    """Compile a split pattern without any cache (see `bpejit.splitting.compile_pattern`)."""
    source = pattern_source(pattern)
    check_pattern(source)
    sources = stages_of(source)
    trees: list[Node] = []
    dfas: list[Dfa] = []
    try:
        trees += map(parse, sources)
        classes = partition((chars for tree in trees for chars in sets_of(tree)), unicode)
        dfas += (make_dfa(tree, classes) for tree in trees)
    except OutsideDialectError as error:
        number = len(trees) if len(trees) < len(sources) else len(dfas)  # of the expression that it is about
        return _regex_pattern(source, _located(error, sources, number), error.hint, unicode)
    try:
        transducer = compose(dfas)
    except NoTransducerError as error:
        if len(dfas) > 1:
            return _regex_pattern(source, str(error), _FASTER_SEQUENCE, unicode)
        reason = f"the split pattern runs in the slower of two automata because {error}; {error.hint or _FASTER}"
        return SplitPattern(source, "restart", reason, restart_tables(dfas[0]), unicode)
    return SplitPattern(source, "transducer", "", transducer_tables(dfas[0], transducer), unicode)


def _regex_pattern(source: Pattern, reason: str, hint: str, unicode: str | None) -> SplitPattern:
    hint = hint or f"without it the pattern would run as an automaton, as the presets do ({', '.join(PRESETS)})"
    reason = f"the split pattern runs through the `regex` package, some 40 times slower, because {reason}; {hint}"
    pattern = SplitPattern(source, "regex", reason, None, unicode)
    pattern.substitutes  # noqa: B018 (raises now rather than at the first text)
    return pattern


def _located(error: OutsideDialectError, sources: tuple[str, ...], number: int) -> str:
    """Return the reason of an error about one of the expressions, with its position."""
    reason = str(error)
    if error.node is not None:
        at = next(mark.start for mark in parse_with_marks(sources[number])[1] if mark.element == error.node)
        reason += f" at character {at}"
    return reason if len(sources) == 1 else f"{reason} (in expression {number + 1} of {len(sources)})"


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
        composed = make_transducer(fill_gaps(dfa), composed)
    assert composed is not None
    return composed


def covers_all_text(source: str, *, unicode: str | None = None) -> bool:
    """Return True if the matches of a regular expression are proven to cover every text."""
    try:
        tree = parse(source)
        return not leaves_gaps(make_dfa(tree, partition(sets_of(tree), unicode)))
    except OutsideDialectError:
        return False


def avoids(source: str, characters: str, *, unicode: str | None = None) -> bool:
    """Return True if the matches of a regular expression are proven to have no character of a set, a regular expression too."""
    try:
        tree, chars = parse(source), sets_of(parse(characters))
        dfa = make_dfa(tree, partition([*sets_of(tree), *chars], unicode))
    except OutsideDialectError:
        return False
    inside = [number for number in range(1, dfa.classes.n + 1) if dfa.classes.masks[chars[0]] >> number & 1]
    return bool((dfa.moves[:, inside] == DEAD).all())


def transducer_tables(dfa: Dfa, transducer: Transducer) -> SplitTables:
    """Return the tables of a pattern that runs as a transducer; the DFA is any one over its classes."""
    classes = dfa.classes
    separator = 0
    if classes.n < MAX_CLASSES and not transducer.emitted[0].any():
        separator = classes.n + 1
        transducer = with_separator(transducer)
    flags = transducer.kept << SPLIT_KEPT_SHIFT | transducer.emitted
    tables = _tables(classes, transducer.moves, flags, safe_pairs_of_transducer(transducer))
    rules, cut_rules = make_rules(transducer, classes.class_of, separator)
    tables = tables._replace(local_rules=rules, cut_rules=cut_rules, separator=separator)
    return _with_pair_table(tables, transducer, np.append(classes.class_of[:128], separator))


def restart_tables(dfa: Dfa) -> SplitTables:
    """Return the tables of a pattern that runs as a DFA, which restarts after each match."""
    dies = dfa.moves == DEAD
    flags = np.where(dies, SPLIT_DIES, 0) | np.where(dfa.accepts, SPLIT_ACCEPT, 0)
    return _tables(dfa.classes, np.where(dies, 0, dfa.moves), flags, safe_pairs_of_dfa(dfa))


def _tables(classes: Classes, moves: Array, flags: Array, safe: Array) -> SplitTables:
    """Return tables without local rules and steps over pairs: the next state and the flags of each state and class."""
    states, size = moves.shape
    stride = next(stride for stride in _STRIDES if stride >= size)
    table = np.zeros((states, stride), np.uint32)
    table[:, :size] = moves * stride | flags
    padded = np.zeros((stride, stride), np.uint8)
    padded[: safe.shape[0], : safe.shape[1]] = safe
    return SplitTables(
        table.reshape(-1),
        pair_table=np.zeros(1, np.uint32),
        pair_classes=np.zeros(2 * 129, np.uint16),
        pair_shift=-1,
        class_of=classes.class_of,
        byte_class=classes.class_of[[*range(128), *range(0xDC80, 0xDD00)]],  # surrogates stand for bytes that are not UTF-8
        safe=padded.reshape(-1),
        local_rules=np.zeros(0, np.uint8),
        cut_rules=0,
        stride=stride,
        separator=0,
    )


def _with_pair_table(tables: SplitTables, transducer: Transducer, ascii_classes: Array) -> SplitTables:
    """Return tables with the table of steps over two ASCII characters, if it fits into the cache.

    A row of `pair_table` has `stride << pair_shift` entries (see `kernels.splitting.cursors`). `pair_classes` has what each
    ASCII character adds to an index of the table, as the first character of a pair, then as the second; after them, what the
    separator adds.

    Parameters
    ----------
    tables : SplitTables
    transducer : Transducer
    ascii_classes : uint8 [129]
        The classes of the ASCII characters and of the separator.
    """
    columns, numbers = np.unique(ascii_classes, return_inverse=True)
    size = max(1 << (columns.size - 1).bit_length(), 16)
    states = len(transducer.moves)
    if states * size * size > _MAX_PAIR_ENTRIES:
        return tables
    moves, kept, emitted = (part[:, columns] for part in transducer)
    between = moves[:, :, None]
    second = np.arange(columns.size)[None, None, :]
    table = np.zeros((states, size, size), np.uint32)
    table[:, : columns.size, : columns.size] = (
        moves[between, second] * (size * size) << PAIR_ROW_SHIFT
        | emitted[:, :, None] + kept[between, second] << 6
        | kept[:, :, None] << 3
        | emitted[:, :, None] + emitted[between, second]
    )
    first, second = numbers * size, numbers
    offsets = np.concatenate([first[:128], second[:128], first[128:], second[128:]])
    shift = (size * size // tables.stride).bit_length() - 1
    return tables._replace(pair_table=table.reshape(-1), pair_classes=offsets.astype(np.uint16), pair_shift=shift)


@cache
def joined_words(pattern: Pattern, unicode: str | None = None) -> Pattern:
    r"""Return a pattern whose pre-tokens are the longest sequences of words of another one, and its other pre-tokens.

    Words are what the first alternatives match, as many of them as match only text with a letter or a mark. These become one
    repeated group, so the borders of the result are borders of the pattern as well:

        ` ?\p{L}+| ?\p{N}+|\s+` becomes `(?: ?\p{L}+)+| ?\p{N}+|\s+`

    Of several expressions, this concerns the last one.

    Raises
    ------
    OptionError
        If no alternative is of this kind, or the pattern cannot be analyzed.
    """
    *before, source = stages_of(pattern_source(pattern))
    stop = None
    with contextlib.suppress(OutsideDialectError):
        stop = _end_of_words(source, unicode)
    if stop is None:
        raise OptionError(
            f"the first alternative of the pattern {shorten(source)} matches text without letters, or cannot be analyzed; "
            "expected alternatives that match words first: give a pattern that divides text between sequences of words as "
            "`superword_pattern=`"
        )
    joined = f"(?:{source[:stop]})+{source[stop:]}"
    return (*before, joined) if before else joined


def _end_of_words(source: str, unicode: str | None) -> int | None:
    """Return where the alternatives that match words end; None if there are none."""
    tree, marks = parse_with_marks(source)
    options = tree.options if isinstance(tree, Choice) else (tree,)
    bars = [mark.start for mark in marks if mark.element == "|" and _is_pattern(source[: mark.start])]
    if source.startswith("(?i)") or len(bars) + 1 != len(options):
        return None
    inside = members(_LETTERS, unicode)
    n_words = next((n for n, option in enumerate(options) if not _has_letter(option, inside, unicode)), len(options))
    return [*bars, len(source)][n_words - 1] if n_words else None


def _is_pattern(source: str) -> bool:
    """Return whether a part of a pattern is one, so that no group is open at its end."""
    try:
        parse(source)
    except OutsideDialectError:
        return False
    return True


def _has_letter(node: Node, inside: Array, unicode: str | None) -> bool:
    """Return whether all that a node matches has one of the characters `inside`."""
    match node:
        case Chars():
            return not (members(node, unicode) & ~inside).any()
        case Sequence(items):
            return any(_has_letter(item, inside, unicode) for item in items)
        case Choice(options):
            return all(_has_letter(option, inside, unicode) for option in options)
        case Repeat(body, low):
            return low > 0 and _has_letter(body, inside, unicode)
        case _:
            return False
