"""Tests of the stages of the pattern compiler, each on its own."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import regex
from conftest import data_text, small

from bpejit.arrays import padded_text
from bpejit.kernels.constants import PAIR_SHIFT
from bpejit.splitting import PRESETS, Splitter, compile_pattern
from bpejit.splitting.character_classes import CODE_POINTS, END_CLASS, partition, set_boundaries
from bpejit.splitting.dfa import DEAD, NoTransducerError, fill_gaps, make_dfa, safe_pairs_of_dfa
from bpejit.splitting.pattern_compiler import compile_uncached
from bpejit.splitting.regex_syntax import Chars, Choice, End, Look, OutsideDialectError, Repeat, Sequence, find_ends, parse
from bpejit.splitting.transducer import emits_immediately, make_transducer, safe_pairs_of_transducer


def test_parse() -> None:
    space, letter = Chars(r"\s"), Chars(r"\p{L}")
    assert parse(r"\s+(?!\S)|\s$") == Choice(
        (Sequence((Repeat(space, 1, None, "greedy"), Look(Chars(r"\S"), negated=True))), Sequence((space, End())))
    )
    assert parse(r"(?i:'(a|[bc]))?+\p{L}{2,}?") == Sequence(
        (
            Repeat(Sequence((Chars("'", True), Choice((Chars("a", True), Chars("[bc]", True))))), 0, 1, "possessive"),
            Repeat(letter, 2, None, "lazy"),
        )
    )
    assert parse(r"(?i)a(?-i:b)") == Sequence((Chars("a", True), Chars("b")))
    assert parse("a|") == Choice((Chars("a"), Sequence(())))
    assert parse("[a-z&&[^b]]") == Chars("[a-z&&[^b]]", operations=True)
    assert parse(r"[&\-\[\]&-]") == Chars(r"[&\-\[\]&-]")


@pytest.mark.parametrize(
    ("source", "chars"),
    [
        ("[a-e&&[^b]]", "acde"),
        ("[a-e--b]", "acde"),
        ("[a-e--[bc]]", "ade"),
        ("[a-e--b--c]", "ade"),
        ("[a-e&&b-f&&c-g]", "cde"),
        ("[ab[cd]]", "abcd"),
        ("[^[ab]]", "cdefg-&"),
        ("[^a-f--b]", "bg-&"),
        ("[^a-f&&[ab]]", "cdefg-&"),
        ("[[a-e&&[^b]]--c]", "ade"),
        ("[a&]", "a&"),
        (r"[a\-\-b]", "ab-"),
        ("[a-]", "a-"),
        ("[-a]", "a-"),
    ],
)
def test_sets_within_sets(source: str, chars: str) -> None:
    assert {one for one in "abcdefg-&" if regex.fullmatch(f"(?V1){source}", one)} == set(chars)
    bounds = set_boundaries(parse(source))
    assert {one for one in "abcdefg-&" if np.searchsorted(bounds, ord(one), side="right") & 1} == set(chars)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("[[:alpha:]]", "a POSIX class at character 1"),
        ("[a||b]", "`||` within a set at character 2"),
        ("[a~~b]", "`~~` within a set"),
        ("[&&a]", "`&&` with nothing before it"),
        ("[+--]", "`--` with nothing after it"),
        ("[a&&]", "`&&` with nothing after it"),
        ("[a-z&&b--c]", "two kinds of set operations at character 7"),
        ("[a-[b]]", "a set after a `-`"),
        ("(?i:[a-z&&[^b]])", "a set operation that ignores case at character 4"),
        ("[a[b]", "a missing `]`"),
    ],
)
def test_ambiguous_set_operations(source: str, reason: str) -> None:
    with pytest.raises(OutsideDialectError) as error:
        parse(source)
    assert reason in str(error.value)


def test_find_ends() -> None:
    assert find_ends(r"a$|\$|[$]|[a$&&[^$]]|\\$|\z|\\z|[[$]$]$") == ([(1, 2), (23, 24), (25, 27), (38, 39)], True)
    assert find_ends(r"[]$]$|[a||$]$|[$") == ([(4, 5), (12, 13), (15, 16)], False)


RANGES = "".join(rf"\u{point:04X}-\u{point + size:04X}" for size, point in enumerate(range(0x80, 0x2F00, 0xC1)))
MANY = rf"{RANGES}\p{{Lu}}\d\n\-\]é中-龥\U0001F600-\U0001F64F\uFFFF"


@pytest.mark.parametrize(
    "source",
    [
        *(r"\p{L}", r"[^\s\p{L}\p{N}]", r"\s", "a", r"\n", "(?i:k)", ".", r"[\ud800-\udfff]"),
        *(f"[{MANY}]", f"[^{MANY}]", rf"[{MANY}&&[^\p{{Lu}}\u0123\t]]", rf"[\p{{L}}--[{MANY}]]", f"(?i:[{MANY}])"),
    ],
)
def test_set_boundaries(source: str) -> None:
    chars = parse(source)
    assert isinstance(chars, Chars)
    inside = np.zeros(CODE_POINTS + 1, dtype=np.int64)
    bounds = set_boundaries(chars)
    inside[bounds[::2]] += 1
    inside[bounds[1::2]] -= 1
    inside = np.cumsum(inside)
    pattern = regex.compile(f"(?V1){source}" if chars.operations else source)
    for point in [*range(0x3000), *range(0x3000, CODE_POINTS, small(257, 4099)), 0xD800, 0xDC80, 0xDFFF, 0x10FFFF]:
        assert bool(inside[point]) == bool(pattern.fullmatch(chr(point))), hex(point)


def test_partition() -> None:
    sets = [Chars(source) for source in (r"\p{L}", r"\p{Lu}", r"[a-f]", r"\s", "x", r"[^\s]")]
    classes = partition(sets)
    assert sorted(set(classes.class_of.tolist())) == list(range(1, classes.n + 1))
    for point in [*range(0x500), 0x4E2D, 0xDC80, 0x10FFFF]:
        for chars in sets:
            bounds = set_boundaries(chars)
            inside = bool(np.searchsorted(bounds, point, side="right") & 1)
            assert inside == bool(classes.masks[chars] >> int(classes.class_of[point]) & 1)
    # Whitespace, capitals, a to f, x, other letters, the rest: no two of them can share a class.
    assert classes.n == 6
    assert partition([]).n == 1


def test_no_transition_to_the_start_state() -> None:
    for pattern in ("(?:ab)+", "a+", *PRESETS.values()):
        for source in (pattern,) if isinstance(pattern, str) else pattern:
            dfa = make_dfa(parse(source))
            assert (dfa.moves != 0).all()
            assert (fill_gaps(dfa).moves != 0).all()


@pytest.mark.parametrize("name", PRESETS)
def test_tables_of_presets_are_small(name: str) -> None:
    # A row has 128 bytes: tables of this size fit into the L1 cache.
    tables = compile_pattern(name).tables
    assert tables is not None
    assert tables.stride == 32
    assert tables.table.size // tables.stride <= 32


@pytest.mark.parametrize("source", [r"\s+(?!\S)|\s+|a+|b{1,2}|[^\sab]", r"a?b+|[\s\S]", r"ab|a|b+(?=c)|[\s\S]"])
def test_safe_pairs(source: str) -> None:
    # A pair is safe if in all texts a pre-token ends between the two: here in all short ones.
    dfa = make_dfa(parse(source))
    alphabet = "ab c"
    compiled = regex.compile(source)
    border_always = dict.fromkeys(product(alphabet, repeat=2), True)
    for length in range(2, small(7, 6)):
        for text in map("".join, product(alphabet, repeat=length)):
            ends = {match.end() for match in compiled.finditer(text)}
            for i in range(1, length):
                border_always[text[i - 1], text[i]] &= i in ends
    class_of = {character: int(dfa.classes.class_of[ord(character)]) for character in alphabet}
    # The last of the patterns has no transducer.
    found = (
        [safe_pairs_of_dfa(dfa)] if "=c" in source else [safe_pairs_of_dfa(dfa), safe_pairs_of_transducer(make_transducer(dfa))]
    )
    for safe in found:
        assert {pair: bool(safe[class_of[pair[0]], class_of[pair[1]]]) for pair in border_always} == border_always


@pytest.mark.parametrize("name", PRESETS)
def test_transducer_has_all_safe_pairs_of_the_dfa(name: str) -> None:
    pattern = PRESETS[name]
    if isinstance(pattern, str):
        dfa = make_dfa(parse(pattern))
        assert (safe_pairs_of_transducer(make_transducer(dfa)) >= safe_pairs_of_dfa(dfa)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "source", [r"a", r"b+c?", r"ab|c+", r"[ab]c", r"a(?=b)|c", r"a$|b+", r"a(?!b)", r"ab?|c(?=[ac])| +(?! )", r"[a-c]"]
)
def test_fill_gaps(source: str) -> None:
    # Each match, and each stretch between two matches, is a match of the new automaton.
    dfa = make_dfa(parse(source))
    whole = fill_gaps(dfa)
    compiled = regex.compile(source)
    for length in range(1, small(8, 6)):
        for text in map("".join, product("abc ", repeat=length)):
            classes = [int(dfa.classes.class_of[ord(character)]) for character in text] + [END_CLASS]
            begin = 0
            ends = []
            while begin < length:
                state, end = 0, -1
                for index in range(begin, length + 1):
                    end = index if whole.accepts[state, classes[index]] else end
                    state = int(whole.moves[state, classes[index]])
                    if state == DEAD:
                        break
                assert end > begin, (text, begin)
                ends.append(end)
                begin = end
            assert ends == sorted({index for match in compiled.finditer(text) for index in match.span()} - {0} | {length}), text


def test_gap_undecided_by_two_characters() -> None:
    with pytest.raises(NoTransducerError):
        fill_gaps(make_dfa(parse("a+b")))
    dfa = make_dfa(parse(r"\s+|\S"))
    assert fill_gaps(dfa) is dfa


def test_gates() -> None:
    # The end of each match is known at the next character.
    for source, expected in ((r"\p{N}{1,3}", True), (r"[ab]+|c", True), (r"a(?=b)", False), (r"a+ ?", True), (r" ?a+", False)):
        assert emits_immediately(make_transducer(fill_gaps(make_dfa(parse(source))))) == expected, source


def test_dead_states_have_no_row() -> None:
    dfa = make_dfa(parse(r"ab|\s+"))
    assert dfa.moves.min() == DEAD
    assert dfa.moves.max() == len(dfa.moves) - 1


@pytest.mark.parametrize("name", PRESETS)
def test_two_character_steps_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, n_bytes = padded_text(data_text("code.txt")[: small(200_000, 2_000)])
    by_pairs = Splitter(name)
    assert by_pairs.automaton is not None
    assert by_pairs.automaton.settings[PAIR_SHIFT] >= 0
    monkeypatch.setattr("bpejit.splitting.pattern_compiler._MAX_PAIR_ENTRIES", 0)
    by_ones = Splitter(compile_uncached(name))
    assert by_ones.automaton is not None
    assert by_ones.automaton.settings[PAIR_SHIFT] == -1
    assert by_pairs.split(text, n_bytes).tolist() == by_ones.split(text, n_bytes).tolist()
