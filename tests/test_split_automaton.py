"""The stages of the pattern compiler, each by itself."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import regex
from conftest import data_text, small

from bpejit.arrays import padded_text
from bpejit.kernels._constants import PAIR_SHIFT
from bpejit.split import PRESETS, Splitter, compile_pattern
from bpejit.split.automaton import DEAD, make_dfa, safe_pairs
from bpejit.split.classes import CODE_POINTS, partition, set_borders
from bpejit.split.parse import Chars, Choice, End, Look, Repeat, Sequence, parse


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


@pytest.mark.parametrize("source", [r"\p{L}", r"[^\s\p{L}\p{N}]", r"\s", "a", r"\n", r"(?i:k)", ".", r"[\ud800-\udfff]"])
def test_set_borders(source: str) -> None:
    chars = Chars(source[4:-1], ignore_case=True) if source.startswith("(?i:") else Chars(source)
    inside = np.zeros(CODE_POINTS + 1, dtype=np.int64)
    borders = set_borders(chars)
    inside[borders[::2]] += 1
    inside[borders[1::2]] -= 1
    inside = np.cumsum(inside)
    pattern = regex.compile(source)
    for point in [*range(0x3000), *range(0x3000, CODE_POINTS, small(257, 4099)), 0xD800, 0xDC80, 0xDFFF, 0x10FFFF]:
        assert bool(inside[point]) == bool(pattern.fullmatch(chr(point))), hex(point)


def test_partition() -> None:
    sets = [Chars(source) for source in (r"\p{L}", r"\p{Lu}", r"[a-f]", r"\s", "x", r"[^\s]")]
    classes = partition(sets)
    assert sorted(set(classes.class_of.tolist())) == list(range(1, classes.n + 1))
    for point in [*range(0x500), 0x4E2D, 0xDC80, 0x10FFFF]:
        for chars in sets:
            borders = set_borders(chars)
            inside = bool(np.searchsorted(borders, point, side="right") & 1)
            assert inside == bool(classes.masks[chars] >> int(classes.class_of[point]) & 1)
    # White space, capitals, a to f, x, other letters, the rest: no two of them could be one class.
    assert classes.n == 6
    assert partition([]).n == 1


def test_no_transition_leads_back_to_the_start() -> None:
    for source in ("(?:ab)+", "a+", *PRESETS.values()):
        assert (make_dfa(parse(source)).moves != 0).all()


@pytest.mark.parametrize("name", PRESETS)
def test_tables_of_presets_are_small(name: str) -> None:
    # A row has 128 bytes: with these the table stays in the first-level cache.
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
    safe = safe_pairs(dfa)
    assert {pair: bool(safe[class_of[pair[0]], class_of[pair[1]]]) for pair in border_always} == border_always


def test_dead_states_have_no_row() -> None:
    dfa = make_dfa(parse(r"ab|\s+"))
    assert dfa.moves.min() == DEAD
    assert dfa.moves.max() == len(dfa.moves) - 1


@pytest.mark.parametrize("name", PRESETS)
def test_steps_over_two_characters_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, n_bytes = padded_text(data_text("code.txt")[: small(200_000, 2_000)])
    by_pairs = Splitter(name)
    assert by_pairs.automaton is not None
    assert by_pairs.automaton.settings[PAIR_SHIFT] >= 0
    monkeypatch.setattr("bpejit.split.pattern._MOST_PAIR_ENTRIES", 0)
    by_ones = Splitter(compile_pattern.__wrapped__(name))
    assert by_ones.automaton is not None
    assert by_ones.automaton.settings[PAIR_SHIFT] == -1
    assert by_pairs.split(text, n_bytes).tolist() == by_ones.split(text, n_bytes).tolist()
