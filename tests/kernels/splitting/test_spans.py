"""Comparison of the splitting kernels with their twins, and of whole texts with texts in pieces."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from conftest import small
from helpers.splitting import all_cuts, cached_splitter, split_at_cuts, split_by_regex, split_some, split_stream, split_whole
from helpers.strategies import awkward_bytes, special_tokens
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.kernels.constants import POSITION_MASK, STRIDE
from bpejit.kernels.splitting import spans
from bpejit.kernels.splitting.spans import split_adjacent
from bpejit.splitting import PRESETS, Splitter

# Besides the presets, patterns that leave gaps, backtrack far, or have no transducer.
PATTERNS = [
    *PRESETS,
    r"\p{L}+",
    r"\S+",
    r"a*b|\s+(?!\S)",
    r"(?:ab)+c|[\s\S]",
    r"\p{L}+(?=1)|\p{N}{1,3}|\s+$",
    r"\w+?(?!\w)|[^\w\s]{2}|\n",
    r"a{5}|[^a]",
]

patterns = st.sampled_from(PATTERNS)


@given(patterns, awkward_bytes(), special_tokens())
def test_split_spans(pattern: str, data: bytes, tokens: list[bytes]) -> None:
    splitter = cached_splitter(pattern, tuple(tokens))
    assert splitter.automaton is not None
    assert split_whole(splitter, data) == split_by_regex(splitter, data)


@given(patterns, st.lists(awkward_bytes(6), max_size=6), special_tokens(), st.integers(16, 24), st.booleans())
def test_pieces_make_no_difference(pattern: str, pieces: list[bytes], tokens: list[bytes], n_ends: int, shift: bool) -> None:
    splitter = cached_splitter(pattern, tuple(tokens))
    assert split_stream(splitter, pieces, n_ends, shift) == split_by_regex(splitter, b"".join(pieces))


@given(patterns, awkward_bytes(8), special_tokens())
def test_single_bytes_make_no_difference(pattern: str, data: bytes, tokens: list[bytes]) -> None:
    splitter = cached_splitter(pattern, tuple(tokens))
    assert split_stream(splitter, [data[i : i + 1] for i in range(len(data))]) == split_by_regex(splitter, data)


@given(
    st.sampled_from(list(PRESETS)),
    st.lists(awkward_bytes(8), min_size=1, max_size=5),
    st.lists(st.integers(0, 4), min_size=60, max_size=small(300, 80)),
    special_tokens(2),
    st.integers(300, 1500),
)
def test_two_cursors(pattern: str, parts: list[bytes], order: list[int], tokens: list[bytes], n_ends: int) -> None:
    # Long enough to be split from the middle as well, with all kinds of characters around the middle.
    data = b"".join(parts[i % len(parts)] for i in order)
    splitter = cached_splitter(pattern, tuple(tokens))
    expected = split_by_regex(splitter, data)
    assert split_whole(splitter, data) == expected
    assert split_stream(splitter, [data[: len(data) // 2], data[len(data) // 2 :]], n_ends) == expected


@pytest.mark.parametrize("pattern", PRESETS)
def test_invalid_bytes_before_non_ascii_text(pattern: str) -> None:
    # A continuation byte without a lead byte is a character of its own.
    body = "中文、字 é1 我们x".encode() * small(150, 20)
    for before in (b"\x80", b"\xbf\x80", b"\x80\x80\x80", b"\xe4\xb8", b"\xf0\x9f\x98", b"<s>\xad"):
        splitter = cached_splitter(pattern, (b"<s>",))
        data = before + body
        assert split_stream(splitter, [data], 1 << 16) == split_by_regex(splitter, data)


def test_state_is_reset_after_last_call() -> None:
    splitter = cached_splitter("gpt2", (b"<|endoftext|>",))
    state = splitter.new_state()
    ends = np.zeros(32, np.uint32)
    text, n = padded_text(b"a b  c d")
    assert split_some(splitter, text, 4, True, state, ends) == 3
    assert ends[:3].tolist() == [1, 3, 4]
    assert split_some(splitter, text, 4, True, state, ends) == 0
    assert split_some(splitter, text, n, True, state, ends) == 2
    assert ends[:2].tolist() == [6, 8]


def test_empty_text() -> None:
    for pattern in PATTERNS:
        assert split_whole(cached_splitter(pattern), b"") == []


@pytest.mark.parametrize("pattern", [*PATTERNS[:2], *(pytest.param(one, marks=pytest.mark.slow) for one in PATTERNS[2:])])
def test_every_short_character_sequence(pattern: str) -> None:
    # All strings of up to three bytes at the limits of the decoder, with and without text after them.
    splitter = cached_splitter(pattern)
    limits = small(
        b"\x41\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff",
        b"\x41\x80\xa0\xc2\xed\xf4",
    )
    parts = []
    for a in limits:
        for b in limits:
            for c in limits:
                parts.append(bytes([a, b, c]))
                if a >= 0xE0:
                    parts.append(bytes([a, b, c, 0x80]))
    for data in (b"".join(parts), b" ".join(parts), b"a".join(parts)):
        assert split_whole(splitter, data) == split_by_regex(splitter, data)


@given(st.lists(st.integers(0, 1000), min_size=spans.STATE_SIZE, max_size=spans.STATE_SIZE), st.integers(0, 1000))
def test_shift_state(values: list[int], by: int) -> None:
    state = np.array(values, dtype=np.int64)
    spans.shift_state(state, by)
    assert state.tolist() == twins.splitting.shift_state(values, by)


@given(patterns, awkward_bytes(12), special_tokens(), st.integers(0, 40), st.integers(0, 40))
def test_find_cut(pattern: str, data: bytes, tokens: list[bytes], lo: int, length: int) -> None:
    splitter = cached_splitter(pattern, tuple(tokens))
    automaton = splitter.automaton
    assert automaton is not None
    stride = int(automaton.settings[STRIDE])
    text, n = padded_text(data)
    found = splitter.find_cut(text, lo, lo + length, n)
    expected = twins.splitting.find_cut(
        data, lo, lo + length, automaton.class_of, lambda x, y: bool(automaton.safe[int(x) * stride + int(y)]), tokens
    )
    assert found == expected


@given(patterns, awkward_bytes(), special_tokens())
def test_cuts_make_no_difference(pattern: str, data: bytes, tokens: list[bytes]) -> None:
    splitter = cached_splitter(pattern, tuple(tokens))
    whole = split_by_regex(splitter, data)
    cuts = all_cuts(splitter, data)
    assert split_at_cuts(splitter, data, cuts) == whole
    for cut in cuts:
        assert split_at_cuts(splitter, data, [cut]) == whole


def test_cuts_are_found_at_the_requested_position() -> None:
    text, n = padded_text(b"some words, and\n\nmore of <|endoftext|> them")
    splitter = Splitter("gpt2", [b"<|endoftext|>"])
    assert splitter.find_cut(text, 1, n, n) == 4
    assert splitter.find_cut(text, 5, n, n) == 10
    assert splitter.find_cut(text, 15, n, n) == 15
    assert splitter.find_cut(text, 16, n, n) == 17
    # There is none at the special token or within it.
    assert splitter.find_cut(text, 25, n, n) == 38
    # The character after the cut must be available.
    assert splitter.find_cut(text, 4, 4, 4) == -1
    assert splitter.find_cut(text, 0, 0, n) == -1


def test_cuts_wait_for_possible_special_token() -> None:
    splitter = Splitter("gpt2", [b"aaaa"])
    text, n = padded_text(b"bb, aa")
    assert splitter.find_cut(text, 3, 3, 5) == 3
    text, n = padded_text(b"b,aa")
    assert Splitter("gpt2").find_cut(text, 2, 2, n) == 2
    assert splitter.find_cut(text, 2, 2, n) == -1


@given(patterns, st.lists(awkward_bytes(6), max_size=8), special_tokens(), st.integers(spans.MIN_ENDS, 40))
def test_split_adjacent(pattern: str, texts: list[bytes], tokens: list[bytes], n_ends: int) -> None:
    splitter = cached_splitter(pattern, tuple(tokens))
    text, _ = padded_text(b"".join(texts))
    stops = np.cumsum([len(data) for data in texts], dtype=np.int64)
    state, done, ends = splitter.new_state(), np.zeros(1, np.int64), np.zeros(n_ends, np.uint32)
    found: list[int] = []
    while done[0] < len(texts):
        found += ends[: split_adjacent(text, stops, done, True, splitter.automaton, state, ends)].tolist()
    assert found == twins.splitting.split_adjacent(texts, splitter.pattern.stages, list(splitter.special_tokens))


@pytest.mark.parametrize("pattern", ["gpt2", r"(?<=\s)\w+|\w+|\W"], ids=["automaton", "regex"])
@given(st.lists(awkward_bytes(6), max_size=8), special_tokens())
def test_blocks_of_documents(pattern: str, texts: list[bytes], tokens: list[bytes]) -> None:
    splitter = cached_splitter(pattern, tuple(tokens))
    text, _ = padded_text(b"".join(texts))
    stops = np.cumsum([len(data) for data in texts], dtype=np.int64)
    found: list[int] = []
    for first, ends, n in splitter.blocks(text, stops, sum(map(len, texts)), True):
        assert first == (found[-1] & POSITION_MASK if found else first)
        found += ends[:n].tolist()
    assert found == twins.splitting.split_adjacent(texts, splitter.pattern.stages, list(splitter.special_tokens))
