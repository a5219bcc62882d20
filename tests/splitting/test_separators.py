"""Several texts with a separator after each are split in one pass like separate texts, by all patterns."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from conftest import data_text, examples, small
from helpers.splitting import cached_splitter, documents, split_by_regex
from helpers.strategies import PATTERN_ALPHABET, split_patterns
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.kernels.splitting import spans
from bpejit.kernels.splitting.spans import split_adjacent
from bpejit.splitting import PRESETS, Splitter
from bpejit.splitting.automaton import SEPARATOR

SPECIALS = (b"<|endoftext|>", b"hello", b"  x")
PATTERNS = [
    *PRESETS,
    r"\p{L}+|\p{N}{1,3}|[\s\S]",
    r"\s+(?!\S)|\s+|a+|b{1,2}|[^\sab]",
    r"a?b+|[\s\S]",
    r"\p{L}+",
    r"\w+?(?!\w)|[^\w\s]{2}|\n",
    r"'s|'t| ?\p{L}+|\s+(?!\S)|\s+|.",
    r"[^\s]+\s?|\s+",
    r"(?i:ab?)|1(?=a)|a$|[\s\S]",
    (r"\p{N}{1,3}", r"[\u4e00-\u9fa5]+", r" ?\p{L}+|\s+(?!\S)|\s+|[^\s\p{L}]"),
]
PIECES = [
    *(b"a", b"word", b" ", b"  ", b"\n", b"\r\n", b"\t", b"1", b"23", b"456", b"'", b"'s", b"'re", b".", b"!?", b"\x1e"),
    *("é".encode(), "日本".encode(), "\u3000".encode(), "。".encode(), "😀".encode(), "\u212a".encode(), b"\xff", b"\xe3\x81"),
    *(b"<|endoftext|>", b"<|endof", b"text|>", b"hello", b"hell", b" x"),
    b"a longer text of words, with more than 48 bytes in it ",
]
texts_of_pieces = st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), max_size=30)


def split_separated(splitter: Splitter, texts: list[bytes], n_ends: int = 4096) -> list[list[int]]:
    """Return the ends of the spans of each text, found in one pass."""
    assert splitter.separated is not None
    text, length = padded_text(b"".join(one + SEPARATOR for one in texts))
    state, done = splitter.new_state(), np.zeros(1, np.int64)
    found: list[int] = []
    while not done[0]:
        ends = np.zeros(n_ends, np.uint32)
        n = split_adjacent(text, np.array([length]), done, True, splitter.separated.automaton, state, ends)
        found += ends[:n].tolist()
    rows: list[list[int]] = [[]]
    first = start = 0
    for end in found:
        position = end & POSITION_MASK
        if text[position - 1] == SEPARATOR[0]:
            assert (start, end) == (position - 1, position), "a separator is a span by itself"
            rows.append([])
            first = position
        else:
            rows[-1].append(position - first | end & SPECIAL_FLAG)
        start = position
    assert rows.pop() == []
    return rows


def check(splitter: Splitter, texts: list[bytes], n_ends: int = 4096) -> None:
    assert split_separated(splitter, texts, n_ends) == [split_by_regex(splitter, text) for text in texts]


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@examples(1 / 3)
@given(texts=texts_of_pieces, n_ends=st.sampled_from([spans.MIN_ENDS, 200, 4096]))
def test_like_separate_texts(pattern, texts, n_ends):
    check(cached_splitter(pattern, SPECIALS), texts, n_ends)


@pytest.mark.slow
@given(st.lists(documents(), max_size=5), st.sampled_from(sorted(PRESETS)))
def test_long_texts(texts, name):
    check(cached_splitter(name, SPECIALS), [text.replace(SEPARATOR, b"") for text in texts])


@pytest.mark.slow
@given(split_patterns(), st.integers(0, 1 << 32))
def test_any_pattern(pattern: str, seed: int) -> None:
    splitter = cached_splitter(f"(?:{pattern})")  # a single word would be read as the name of a preset
    if splitter.pattern.kind != "transducer":
        assert splitter.separated is None
        return
    generator = np.random.default_rng(seed)
    letters = [letter for letter in PATTERN_ALPHABET if letter.encode() != SEPARATOR]
    lengths = generator.integers(0, 12, small(60, 20)).tolist()
    check(splitter, ["".join(generator.choice(letters, length).tolist()).encode() for length in lengths])


@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k"])
def test_borders_at_every_place(name):
    """Each short text of these characters, between all others."""
    splitter = cached_splitter(name)
    letters = [*"a 1\n'"] if small(1, 0) else [*"a '"]
    texts = ["".join(chosen).encode() for size in range(5) for chosen in product(letters, repeat=size)]
    np.random.default_rng(1).shuffle(texts)
    alone = {text: split_by_regex(splitter, text) for text in texts}
    assert split_separated(splitter, texts) == [alone[text] for text in texts]


@pytest.mark.parametrize("file", ["prose.txt", "code.txt", "cjk.txt"])
@pytest.mark.parametrize("name", ["gpt2", "o200k"])
def test_texts_cut_anywhere(name, file):
    splitter = cached_splitter(name)
    data = data_text(file)[: small(200_000, 3_000)].replace(SEPARATOR, b"")
    cuts = np.cumsum(np.random.default_rng(2).integers(0, 90, len(data) // 45)).tolist()
    texts = [data[start:stop] for start, stop in pairwise(cuts)]
    stops = np.cumsum([len(text) for text in texts])
    alone = [(int(end) - first) for first, end in _ends_by_document(splitter, texts, stops)]
    assert [end for row in split_separated(splitter, texts) for end in row] == alone


def _ends_by_document(splitter: Splitter, texts: list[bytes], stops: np.ndarray) -> list[tuple[int, int]]:
    """Return the start of its document and the end of each span, where each document is split by itself."""
    text, _ = padded_text(b"".join(texts))
    ends = np.concatenate([ends[:n].copy() for _, ends, n in splitter.blocks(text, stops, int(stops[-1]), True)])
    starts = np.append(0, stops)[np.searchsorted(stops, ends)]
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def test_no_separators():
    assert Splitter("gpt2", [b"a\x1fb"]).separated is None
    assert Splitter(r"a(?<=b)|[\s\S]").separated is None
    letters = [chr(point) for point in range(0x4E00, 0x4E00 + 254)]
    assert Splitter("|".join(letters)).separated is None  # all classes are used


def test_the_separator_is_an_ordinary_character_otherwise():
    splitter = Splitter("gpt2")
    data = b"a \x1f\x1fb" * 40
    assert splitter.separated is not None
    assert splitter.split(*padded_text(data)).tolist() == splitter.split_by_regex(*padded_text(data)).tolist()
