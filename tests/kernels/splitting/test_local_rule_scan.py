"""Comparison of splitting by local rules with the same automaton without them, and with the `regex` package."""

# ruff: noqa: RUF001 (look-alike characters are intended)

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
from conftest import data_text, small
from helpers.splitting import cached_splitter, documents, split_by_regex, split_some, split_whole
from helpers.strategies import special_tokens
from hypothesis import given, strategies as st

from bpejit.kernels.constants import CUT_RULES, POSITION_MASK, SPECIAL_FLAG, TEXT_PADDING
from bpejit.kernels.splitting import spans
from bpejit.splitting import PRESETS, Splitter

GUARD = 0xDEADBEEF

patterns = st.sampled_from([*PRESETS, r"\p{L}+", r"a{1,5}|[^a]", r"ab|\s+"])

BEHIND = st.sampled_from([b"\xe4\xb8\xad a1" * 3, b"\xad" * 100, b"a" * 100, b"\xb8\xad " * 50])

ENDS = st.sampled_from([16, 17, 100, 135, 136, 137, 200, 700, 1535, 1536, 1560, 4000, 1 << 14]) | st.integers(16, 3000)


def without_rules(splitter: Splitter) -> Splitter:
    """Return the same splitter without local rules."""
    assert splitter.automaton is not None
    settings = splitter.automaton.settings.copy()
    settings[CUT_RULES] = 0
    other = copy.copy(splitter)
    other.automaton = splitter.automaton._replace(settings=settings)
    return other


def split_guarded(
    splitter: Splitter, data: bytes, stops: list[int], n_ends: int, padding: bytes = b"\xe4\xb8\xad a1" * 3
) -> list[int]:
    """Split a text that arrives up to one stop after the other, and check that nothing is written outside of `ends`.

    The bytes after a stop differ from the text that follows; by default there are no more than the padding requires.
    """
    padding = padding if len(padding) > 2 * TEXT_PADDING else padding[:TEXT_PADDING]
    guarded = np.full(n_ends + 100, GUARD, dtype=np.uint32)
    ends = guarded[50 : 50 + n_ends]
    state = splitter.new_state()
    found = []
    for stop in [*sorted(stops), None]:
        known = len(data) if stop is None else stop
        text = np.frombuffer(data[:known] + padding, dtype=np.uint8).copy()
        state[spans.NEED_CALL] = 1
        while state[spans.NEED_CALL]:
            n = split_some(splitter, text, known, stop is None, state, ends)
            assert n <= n_ends
            found += ends[:n].tolist()
            assert (guarded[:50] == GUARD).all()
            assert (guarded[50 + n_ends :] == GUARD).all()
    return found


@given(patterns, documents(), special_tokens(3), st.data())
def test_rules_make_no_difference(pattern, data, tokens, draw) -> None:
    """Whole texts, with any capacity for ends."""
    splitter = cached_splitter(pattern, tuple(tokens))
    expected = split_by_regex(splitter, data)
    n_ends = draw.draw(ENDS)
    assert split_guarded(splitter, data, [], n_ends) == expected
    assert split_guarded(without_rules(splitter), data, [], n_ends) == expected
    assert split_whole(splitter, data) == expected


@given(patterns, documents(), special_tokens(2), st.lists(st.integers(0, 1 << 20), max_size=6), ENDS, BEHIND)
def test_rules_make_no_difference__in_pieces(pattern, data, tokens, stops, n_ends, padding) -> None:
    splitter = cached_splitter(pattern, tuple(tokens))
    stops = [stop % (len(data) + 1) for stop in stops]
    expected = split_by_regex(splitter, data)
    assert split_guarded(splitter, data, stops, n_ends, padding) == expected
    assert split_guarded(without_rules(splitter), data, stops, n_ends, padding) == expected


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("body", ["The cat's 12 hats,  \n", "一二三四 é", "a中", "😀", "中文、一二三四五六七\n"])
def test_every_length(name: str, body: str) -> None:
    """Texts that end at every position of a block, with enough capacity for the rules."""
    splitter = cached_splitter(name)
    data = body.encode() * 200
    lengths = [*range(40, 220, small(1, 23)), *range(small(1500, 600), small(1570, 604), 3)]
    for length in lengths:
        assert split_guarded(splitter, data[:length], [], 1 << 13) == split_by_regex(splitter, data[:length]), length


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("letter", ["１", "中", "é", "😀", "\u3000", "1", "a", " "])
def test_runs_without_boundaries(name: str, letter: str) -> None:
    """Blocks without certain boundaries, so that the next one starts within a pre-token."""
    splitter = cached_splitter(name)
    for size in (small(2000, 600), 600, 515):
        for before, after in (("", ""), ("x", "x中 1"), ("xy", "")):
            data = (before + letter * size + after).encode()
            assert split_guarded(splitter, data, [], 1 << 13) == split_by_regex(splitter, data), (size, before)


@pytest.mark.parametrize("name", PRESETS)
def test_special_token_within_a_character(name: str) -> None:
    """Ordinary text that ends within a character, which continues in the special token."""
    splitter = cached_splitter(name, (b"\xb8\xad", b"\x98\x80"))
    for size in range(20, 100, small(1, 7)):
        data = ("一é" * size + "中" + "一" * 60 + "😀" + "三" * 60).encode()
        assert split_guarded(splitter, data, [], 1 << 13) == split_by_regex(splitter, data), size


@pytest.mark.parametrize("name", PRESETS)
def test_stop_within_a_character(name: str) -> None:
    """Bytes after the stop would complete the character, but are not part of the text."""
    splitter = cached_splitter(name)
    data = ("一é" * 60 + "中😀").encode()
    for cut in range(1, 7):
        part = data[:-cut]
        for padding in (b"\xad" * 100, b"\x80" * 100):
            expected = split_by_regex(splitter, part)
            assert split_guarded(splitter, part, [], 1 << 13, padding) == expected
            whole = split_by_regex(splitter, data)
            assert split_guarded(splitter, data, [len(part)], 1 << 13, padding) == whole


@pytest.mark.parametrize("name", PRESETS)
def test_many_documents(name: str) -> None:
    """Short and long documents with special tokens between them, some of which start like continuations of the document."""
    splitter = cached_splitter(name, (b"<|endoftext|>", b"<|end", b" "))
    plain = cached_splitter(name, (b"<|endoftext|>",))
    generator = np.random.default_rng(7)
    texts = [data_text(file)[:60_000] for file in ("prose.txt", "code.txt", "cjk.txt", "awkward.bin")]
    pieces = []
    for size in generator.integers(0, [3, 60, 200, 2000], (small(30, 2), 4)).reshape(-1).tolist():
        text = texts[int(generator.integers(0, 4))]
        start = int(generator.integers(0, max(len(text) - size, 1)))
        pieces.append(text[start : start + size])
    data = b"<|endoftext|>".join(pieces)
    for one in (splitter, plain):
        expected = split_by_regex(one, data)
        assert split_whole(one, data) == expected
        stops = generator.integers(0, len(data), 5).tolist()
        assert split_guarded(one, data, stops, 2000) == expected


@pytest.mark.parametrize("file", ["prose.txt", "code.txt", "cjk.txt", "awkward.bin"])
@pytest.mark.parametrize("name", PRESETS)
def test_real_text(name: str, file: str) -> None:
    splitter = cached_splitter(name)
    data = data_text(file)[: small(200_000, 3000)]
    assert split_whole(splitter, data) == split_whole(without_rules(splitter), data)


def test_ends_are_positions_of_spans() -> None:
    """Include boundaries at large positions, and special tokens between ordinary texts."""
    splitter = cached_splitter("cl100k", (b"<s>",))
    unit = ("word " * 30 + "中文、" * 60).encode() + b"<s>"
    ends = split_whole(splitter, unit * small(300, 4))
    first = split_whole(splitter, unit)
    assert first == split_by_regex(splitter, unit)
    n = len(first)
    shifted = [(end & POSITION_MASK) + i * len(unit) | end & SPECIAL_FLAG for i in range(small(300, 4)) for end in first]
    assert ends == shifted
    assert len(ends) == n * small(300, 4)
    assert all(start < end for start, end in pairwise(end & POSITION_MASK for end in ends))
