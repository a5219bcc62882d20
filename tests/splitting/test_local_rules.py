"""Tests of local rules: known boundaries equal those of the `regex` package, and most boundaries are known."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np
import pytest
import regex
import twins
from conftest import data_text, small
from helpers.splitting import cached_splitter
from helpers.strategies import PATTERN_ALPHABET, split_patterns
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.jit.simd import CONTEXT_BEFORE, CONTEXT_SIZE
from bpejit.kernels.constants import CUT_RULES
from bpejit.splitting import PRESETS, Splitter
from bpejit.splitting.automaton import group_rules
from bpejit.splitting.character_classes import END_CLASS
from bpejit.splitting.dfa import fill_gaps, make_dfa
from bpejit.splitting.local_rules import _CUT, _INSIDE, _UNKNOWN, judge_contexts, make_rules
from bpejit.splitting.regex_syntax import parse
from bpejit.splitting.transducer import make_transducer

# Words, lines, groups of digits, ends that are found late, gaps, sequences, and patterns that depend on the start of a text.
PATTERNS = [
    r"\p{L}+|\p{N}{1,3}|[\s\S]",
    r"\s+(?!\S)|\s+|a+|b{1,2}|[^\sab]",
    r"a?b+|[\s\S]",
    r"\p{L}+",
    r"\S+",
    r"ab|\s+",
    r"\w+?(?!\w)|[^\w\s]{2}|\n",
    r"a{1,5}|[^a]",
    r"[ab]{3}|1+|[\s\S]",
    r"'s|'t| ?\p{L}+|\s+(?!\S)|\s+|.",
    r"\s*[\r\n]+|\s+(?!\S)|\s|\p{Lu}+\p{Ll}*|\p{Ll}+|[^\s\p{L}]+",
    r"[^\s]+\s?|\s+",
    r"(?i:ab?)|1(?=a)|[\s\S]",
    (r"\p{N}{1,3}", r"[\u4e00-\u9fa5]+", r" ?\p{L}+|\s+(?!\S)|\s+|[^\s\p{L}]"),
    (r"\n", r" ?\p{L}+| +|[^ \p{L}]"),
]

ALPHABETS = ["ab \n", "aB1 \n'.s", "a1 中é\n", "aA \u3000。中\U0001f600\n1'", "ab1 \udcff\udc80é", "'stre \nK\u212a"]


def fast(pattern) -> Splitter:
    splitter = cached_splitter(pattern)
    if splitter.pattern.kind != "transducer":
        pytest.fail(f"{pattern!r} has no transducer")
    return splitter


def verdicts(splitter: Splitter, characters: np.ndarray, *, classes: bool) -> np.ndarray:
    """Return the verdict of the tables for each position with a complete context, from CONTEXT_BEFORE on."""
    automaton = splitter.automaton
    assert automaton is not None
    tables = automaton.local_rules.reshape(2, -1, CONTEXT_SIZE, 128)[int(classes)]
    n = characters.size - CONTEXT_SIZE + 1
    boxes = np.full((len(tables), max(n, 0)), 0xFF, dtype=np.uint8)
    for position in range(CONTEXT_SIZE):
        boxes &= tables[:, position, characters[position : position + n] if n > 0 else slice(0)]
    n_cut = int(automaton.settings[CUT_RULES])
    cut = (boxes[:n_cut] != 0).any(axis=0)
    unknown = (boxes[n_cut:] != 0).any(axis=0)
    return np.where(unknown, _UNKNOWN, np.where(cut, _CUT, _INSIDE))


def at_characters(splitter: Splitter, text: str) -> set[int]:
    """Return the ends of pre-tokens in characters, according to the `regex` package."""
    ends = splitter.split_by_regex(*padded_text(text.encode("utf-8", "surrogateescape")))
    at_byte = np.cumsum([0, *(len(character.encode("utf-8", "surrogateescape")) for character in text)])
    return set(np.searchsorted(at_byte, ends).tolist())


def check(splitter: Splitter, text: str, n_cuts: int = 4) -> None:
    """Compare all known boundaries of a text; after some of the cuts, the text is also split on its own."""
    ends = at_characters(splitter, text)
    assert splitter.automaton is not None
    points = np.array([ord(character) for character in text], dtype=np.int64)
    classes = np.concatenate([np.full(CONTEXT_BEFORE, END_CLASS), splitter.automaton.class_of[points]])
    found = [(verdicts(splitter, classes, classes=True), 0)]
    if text.isascii():
        found.append((verdicts(splitter, points, classes=False), CONTEXT_BEFORE))
    for verdict, first in found:
        # Position 0 is the start of the text, not a boundary.
        for position in np.flatnonzero(verdict != _UNKNOWN).tolist():
            if position + first > 0:
                assert (position + first in ends) == (verdict[position] == _CUT), (position + first, text)
        for position in (np.flatnonzero(verdict == _CUT) + first).tolist()[-n_cuts:]:
            if position > 0:
                rest = {position + end for end in at_characters(splitter, text[position:])}
                assert rest == {end for end in ends if end > position}, (position, text)
    if len(found) == 2:
        # The verdicts for ASCII characters equal those for their classes.
        assert (found[0][0][CONTEXT_BEFORE:] == found[1][0]).all()


@pytest.mark.parametrize("pattern", [*PRESETS, *PATTERNS], ids=str)
def test_known_boundaries(pattern) -> None:
    """Long texts of few characters have every context of these, with many prefixes and suffixes."""
    generator = np.random.default_rng(5)
    splitter = fast(pattern)
    for alphabet in ALPHABETS:
        letters = list(alphabet)
        for size, times in ((small(700, 300), small(4, 1)), (9, small(15, 5))):
            for _ in range(times):
                # Runs of one character as well as changing characters.
                order = np.repeat(generator.integers(0, len(letters), size), generator.choice([1, 1, 1, 2, 4], size))
                check(splitter, "".join(letters[i] for i in order.tolist()))


@given(
    st.sampled_from([*PRESETS, *PATTERNS]), st.sampled_from(ALPHABETS).flatmap(lambda letters: st.text(letters, max_size=40))
)
def test_known_boundaries__awkward_texts(pattern, text: str) -> None:
    check(fast(pattern), text, 100)


@given(split_patterns(), st.integers(0, 1 << 32))
def test_known_boundaries__any_pattern(pattern: str, seed: int) -> None:
    # A single word would be read as the name of a preset.
    splitter = cached_splitter(f"(?:{pattern})")
    if splitter.pattern.kind != "transducer":
        return
    generator = np.random.default_rng(seed)
    letters = list(PATTERN_ALPHABET)
    check(splitter, "".join(generator.choice(letters, small(150, 60)).tolist()))
    check(splitter, "".join(generator.choice(letters[:3], small(150, 60)).tolist()))
    check(splitter, "".join(generator.choice(letters, 8).tolist()))


@pytest.mark.parametrize("name", PRESETS)
def test_most_boundaries_are_known(name: str) -> None:
    splitter = fast(name)
    for file in ("prose.txt", "code.txt"):
        text = data_text(file)[:200_000].decode("utf-8", "ignore")
        assert splitter.automaton is not None
        classes = splitter.automaton.class_of[np.frombuffer(text.encode("utf-32-le"), dtype="<u4")]
        assert (verdicts(splitter, classes, classes=True) == _UNKNOWN).mean() <= 0.05, file
        ascii_only = np.frombuffer(text.encode("ascii", "ignore"), dtype=np.uint8)
        assert (verdicts(splitter, ascii_only, classes=False) == _UNKNOWN).mean() <= 0.05, file


def test_too_many_classes_have_no_rules() -> None:
    letters = [chr(point) for point in range(0x4E00, 0x4E00 + 130)]
    dfa = make_dfa(parse("|".join(letters)))
    transducer = make_transducer(fill_gaps(dfa))
    tables, cut_rules = make_rules(transducer, dfa.classes.class_of)
    assert (tables.size, cut_rules) == (0, 0)
    splitter = Splitter("|".join(letters))
    text = "".join(letters[i] for i in np.random.default_rng(1).integers(0, 130, 500).tolist()) * 4
    assert splitter.split(*padded_text(text.encode())).tolist() == splitter.split_by_regex(*padded_text(text.encode())).tolist()


@pytest.mark.parametrize(
    "pattern",
    [
        # Words of any three letters have too many contexts, and long runs of many letters too many states.
        "|".join(sorted({chr(97 + i % 26) + chr(97 + i * i % 26) + chr(97 + i * 7 % 23) for i in range(150)})) + r"|[\s\S]",
        "|".join(f"{chr(97 + i)}{{1,40}}" for i in range(26)) + r"|[\s\S]",
    ],
)
def test_large_transducers_have_no_rules(pattern: str) -> None:
    splitter = fast(pattern)
    assert splitter.automaton is not None
    assert splitter.automaton.local_rules.size == 0
    letters = [chr(97 + i) for i in np.random.default_rng(3).integers(0, 26, 300).tolist()]
    data = "".join(letter * (1 + number % 3) for number, letter in enumerate(letters)).encode()
    assert splitter.split(*padded_text(data)).tolist() == splitter.split_by_regex(*padded_text(data)).tolist()


@lru_cache(maxsize=2)
def short_texts(alphabet: str, longest: int) -> list[str]:
    return ["".join(letters) for size in range(longest + 1) for letters in product(alphabet, repeat=size)]


def brute_force(pattern: str, alphabet: str, longest: int) -> dict[tuple[str, ...], set[tuple[bool, bool]]]:
    """Return for each context, over all short texts, if there is a boundary, and if the rest is split as on its own.

    An empty string represents a position before the start of the text.
    """
    compiled = regex.compile(pattern)
    ends = {
        text: frozenset(twins.splitting.split_spans(text.encode(), compiled, [])) for text in short_texts(alphabet, longest)
    }
    facts: dict[tuple[str, ...], set[tuple[bool, bool]]] = {}
    for text, text_ends in ends.items():
        padded = [""] * CONTEXT_BEFORE + list(text)
        for position in range(1, len(text) - 1):
            alone = {position + end for end in ends[text[position:]]}
            rest = {end for end in text_ends if end > position}
            context = tuple(padded[position : position + CONTEXT_SIZE])
            facts.setdefault(context, set()).add((position in text_ends, position in text_ends and alone == rest))
    return facts


@pytest.mark.parametrize(
    ("pattern", "alphabet"),
    [
        (r"a+|b+", "ab"),
        (r"a?b+|[\s\S]", "abc"),
        (r"\s+(?!\S)|\s+|a+|[^\sa]", "ab "),
        (r" ?a+|\s+(?!\S)|\s+|[^\sa]", "ab "),
        (r"a{1,3}|[^a]", "ab"),
        (r"aaa|[\s\S]", "ab"),
        (r"ab|c+", "abc"),
        (r"\s*\n|\s+(?!\S)|\s+|b", " \nb"),
        (r"'a|'?b+|a+|'", "'ab"),
        (r"a(?=b)|c", "abc"),
        (r"a+(?:bc)?|[bc]", "abc"),
    ],
)
def test_judge_contexts(pattern: str, alphabet: str) -> None:
    """A verdict is given if and only if it holds in all short texts."""
    dfa = make_dfa(parse(pattern))
    judged = judge_contexts(make_transducer(fill_gaps(dfa)))
    assert judged is not None
    kinds, groups = judged
    class_of = {letter: int(dfa.classes.class_of[ord(letter)]) for letter in alphabet} | {"": END_CLASS}
    facts = brute_force(pattern, alphabet, {2: 11, 3: 8}[len(alphabet)])
    assert len(facts) >= len(alphabet) ** CONTEXT_SIZE
    for context, seen in facts.items():
        verdict = kinds[tuple(int(group[class_of[letter]]) for group, letter in zip(groups, context, strict=True))]
        expected = {((True, True),): _CUT, ((False, False),): _INSIDE}.get(tuple(seen), _UNKNOWN)
        assert verdict == expected, context


@pytest.mark.parametrize("pattern", [*PRESETS, *PATTERNS], ids=str)
def test_group_rules(pattern) -> None:
    """Tables over groups of characters are those over characters."""
    automaton = fast(pattern).automaton
    assert automaton is not None
    tables = automaton.local_rules.reshape(2, -1, CONTEXT_SIZE, 128)[0]
    rules = automaton.group_rules
    by_group = rules[128:].reshape(tables.shape[0], CONTEXT_SIZE, -1)
    assert by_group.shape[2] in (16, 32)
    assert (by_group[:, :, rules[:128]] == tables).all()


@pytest.mark.parametrize(("n_groups", "size"), [(16, 16), (17, 32), (32, 32), (33, 0)])
def test_group_rules__number_of_groups(n_groups: int, size: int) -> None:
    tables = np.zeros((2, CONTEXT_SIZE, 128), dtype=np.uint8)
    tables[1, 2] = np.arange(128) % n_groups
    rules = group_rules(np.concatenate([tables, tables]).reshape(-1))
    assert rules.size == (128 + 2 * CONTEXT_SIZE * size if size else 0)
