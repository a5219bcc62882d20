"""Comparison of the automaton that finds special tokens with its twins, over small alphabets with many overlaps."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import twins
from conftest import small
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.kernels.splitting import spans as splitting, special_token_scan, special_token_trie
from bpejit.kernels.splitting.special_token_trie import FOUND_WORDS, NODE_WORDS
from bpejit.splitting.special_token_finder import SpecialTokenFinder, StringFinder, make_trie

words = st.text("ab", min_size=1, max_size=9).map(str.encode)
"""Short strings, most pairs of which overlap."""

_parts = st.text("ab", max_size=3).map(str.encode)

repeated = st.builds(
    lambda head, word, times, tail: head + word * times + tail,
    _parts,
    _parts,
    st.integers(1, 6),
    st.text("abc", max_size=2).map(str.encode),
).filter(len)
"""Long tokens, nearly all of which recurs repeatedly."""

token_lists = st.lists(st.one_of(words, repeated), max_size=8, unique=True)

data_of_tokens = st.lists(st.one_of(words, repeated, st.sampled_from([b"c", b"d"])), max_size=20).map(b"".join)


def nodes_of(tokens: list[bytes]) -> tuple[list[bytes], Any]:
    """Return the path to each node of a trie, and the trie."""
    strings = ByteStrings.from_list(sorted(tokens))
    capacity = strings.pool.size
    roots, nodes = np.zeros(256, np.int32), np.zeros((capacity + 1) * NODE_WORDS, np.int32)
    labels, parents = np.zeros(capacity, np.uint8), np.zeros(capacity, np.int32)
    scratch = np.zeros(len(tokens), np.int32), np.zeros(len(tokens), np.int32)
    n = special_token_trie.build_trie(strings.pool, strings.starts, *scratch, roots, nodes, labels, parents)
    paths: list[bytes] = []
    for label, parent in zip(labels[:n].tolist(), parents[:n].tolist(), strict=True):
        paths.append((paths[parent] if parent >= 0 else b"") + bytes([label]))
    for byte in range(256):
        assert roots[byte] == (paths.index(bytes([byte])) if bytes([byte]) in paths else special_token_trie.ROOT)
    rows = nodes.reshape(-1, NODE_WORDS)[: n + 1].tolist()
    for number, (path, row) in enumerate(zip(paths, rows, strict=False)):
        assert row[special_token_trie.DEPTH] == len(path)
        assert row[special_token_trie.MATCH] == (len(path) if path in tokens else 0)
        children = range(row[special_token_trie.CHILDREN], rows[number + 1][special_token_trie.CHILDREN])
        assert [paths[child] for child in children] == sorted(p for p in paths if p[:-1] == path and p != path)
    return paths, make_trie(tuple(tokens))


@given(token_lists.filter(len))
def test_build_trie(tokens: list[bytes]) -> None:
    assert nodes_of(tokens)[0] == twins.splitting.build_trie(tokens)


@given(token_lists.filter(len))
def test_link_trie(tokens: list[bytes]) -> None:
    paths, trie = nodes_of(tokens)
    expected = twins.splitting.link_trie(tokens)
    named = [*paths, b""]  # the root is the last: -1
    entries = trie.trie_found.reshape(-1, FOUND_WORDS)
    assert len(entries) <= sum(map(len, tokens))
    for path, row in zip(paths, trie.trie_nodes.reshape(-1, NODE_WORDS).tolist(), strict=False):
        last = row[special_token_trie.LAST_FOUND]
        count = 0 if last < 0 else entries[last, special_token_trie.NUMBER] + 1
        found = [entries[special_token_trie.find_entry(trie.trie_found, last, number)] for number in range(count)]
        spans = [(int(entry[special_token_trie.FOUND_BEGIN]), int(entry[special_token_trie.FOUND_END])) for entry in found]
        rest = named[row[special_token_trie.FALL]], named[row[special_token_trie.SUFFIX]], row[special_token_trie.MATCH]
        assert (spans, *rest) == expected[path], path


def find(finder: SpecialTokenFinder, pieces: list[bytes], n_spans: int = 1) -> list[tuple[int, int]]:
    """Return the spans of tokens in a text in pieces, a limited number per call."""
    state = np.zeros(splitting.STATE_SIZE, np.int64)
    spans = np.zeros(2 * n_spans, np.int64)
    known = b""
    found: list[tuple[int, int]] = []
    for number, piece in enumerate(pieces):
        known += piece
        text, size = padded_text(known)
        n = n_spans
        while n == n_spans:
            final = number == len(pieces) - 1
            n = special_token_scan.find_specials(text, size, final, finder.trie, state, spans)
            found += map(tuple, spans[: 2 * n].reshape(-1, 2).tolist())
    return found


@given(token_lists, data_of_tokens, st.integers(1, 4))
def test_find_specials(tokens: list[bytes], data: bytes, n_spans: int) -> None:
    finder = SpecialTokenFinder(tokens)
    expected = list(twins.splitting.find_specials(data, tokens))
    assert find(finder, [data], n_spans) == expected
    assert list(finder.spans(data)) == expected
    for cut in range(len(data) + 1):
        assert find(finder, [data[:cut], data[cut:]], n_spans) == expected
    assert find(finder, [data[i : i + 1] for i in range(len(data))] or [b""]) == expected


@given(token_lists, data_of_tokens)
def test_tokens_are_found_as_soon_as_they_are_certain(tokens: list[bytes], data: bytes) -> None:
    # Tokens before the first position at which a longer token may start are found without more text.
    finder = SpecialTokenFinder(tokens)
    state = np.zeros(splitting.STATE_SIZE, np.int64)
    found = list(finder.next_spans(*padded_text(data), False, state))
    certain = []
    position = 0
    while position < len(data) and not any(len(t) > len(data) - position and t.startswith(data[position:]) for t in tokens):
        size = max((len(token) for token in tokens if data.startswith(token, position)), default=0)
        certain += [(position, position + size)] if size else []
        position += size or 1
    assert found == certain


@given(token_lists.filter(len), data_of_tokens, st.integers(0, 40), st.integers(0, 40))
def test_reach_specials(tokens: list[bytes], data: bytes, first: int, size: int) -> None:
    first = min(first, len(data))
    last = min(first + size, len(data))
    reach, hidden = SpecialTokenFinder(tokens).reach(*padded_text(data)[:1], first, last, len(data))
    expected, first_hidden = twins.splitting.reach_specials(data, first, last, tokens)
    assert reach.tolist() == expected
    assert min(hidden, last) == min(first_hidden, last)


@given(token_lists.filter(len), data_of_tokens)
def test_isolated_spans(tokens: list[bytes], data: bytes) -> None:
    everywhere = [(i, i + len(token)) for token in tokens for i in range(len(data)) if data.startswith(token, i)]
    expected = sorted(
        (begin, end)
        for begin, end in everywhere
        if all(b >= end or e <= begin or (begin <= b and e <= end) for b, e in everywhere)
    )
    assert SpecialTokenFinder(tokens).isolated_spans(data) == expected


@given(
    st.lists(st.text("aé\udcc3\udca9中", min_size=1, max_size=4), max_size=6),
    st.text("aé\udcc3\udca9中b", max_size=30),
    st.data(),
)
def test_strings_are_found_by_trie_and_by_search(tokens: list[str], text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    few = StringFinder(tokens)
    many = StringFinder([*tokens, "z" * 5000])
    assert isinstance(many._search, SpecialTokenFinder)
    assert not tokens or not isinstance(few._search, SpecialTokenFinder)
    assert list(many.spans(text, start, end)) == list(few.spans(text, start, end))
    assert list(many.spans(text)) == list(few.spans(text))


def plain(function: Any) -> Any:
    """Return the Python function of a kernel or of a helper, which Numba itself may run."""
    return getattr(function, "py_func", None) or getattr(function, "function", function)


def steps(tokens: list[bytes], data: bytes, monkeypatch: pytest.MonkeyPatch) -> int:
    """Count the lookups of children during a search, with the kernels as plain Python."""
    count = 0
    find_child = plain(special_token_trie.find_child)

    def counted(*args: Any) -> Any:
        nonlocal count
        count += 1
        return find_child(*args)

    trie = make_trie(tuple(tokens))
    state = np.zeros(splitting.STATE_SIZE, np.int64)
    with monkeypatch.context() as patch:
        for name in ("find_child", "find_entry", "_next_begin", "next_special"):
            patch.setattr(special_token_scan, name, plain(getattr(special_token_scan, name)))
        patch.setattr(special_token_scan, "_none_begins", lambda *_: False)
        patch.setattr(special_token_scan, "find_child", counted)
        begin, after = 0, 1
        while after:
            begin, after = special_token_scan.next_special(padded_text(data)[0], len(data), len(data), True, trie, state)
    assert begin == len(data)
    return count


@pytest.mark.compiled  # plain Python functions are returned as they are
@pytest.mark.parametrize(
    ("tokens", "data"),
    [
        ([b"a" * 400 + b"b"], b"a" * 4000),
        ([b"a", b"a" * 400 + b"b"], b"a" * 4000),
        ([b"ab", b"cd", b"abcd" * 100 + b"x"], b"abcd" * 1000),
        ([b"ab", b"z" + b"ab" * 200 + b"c"], (b"z" + b"ab" * 200) * 10),
        ([b"a" * size for size in range(2, 60)], b"a" * 4001),
    ],
)
def test_time_is_linear(tokens: list[bytes], data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text in which tokens nearly match everywhere takes at most two steps per byte."""
    assert steps(tokens, data, monkeypatch) <= 2 * len(data) + 2


def test_many_and_long_tokens() -> None:
    """A hundred thousand tokens, and one of 400 KB that nearly matches everywhere, take less than 30 bytes per node."""
    many = [b"<|token %d of many|>" % number for number in range(small(100_000, 300))]
    size = small(400_000, 400)
    finder = SpecialTokenFinder([*many, b"a" * size + b"b", b"aaa"])
    nodes = finder.trie.trie_labels.size
    assert sum(array.nbytes for array in finder.trie) <= 30 * nodes + FOUND_WORDS * 4 * (nodes + len(many)) + 2000
    data = b"".join(many[::7]) + b"a" * (3 * size + 2)
    expected = list(pairwise(np.cumsum([0, *map(len, many[::7])]).tolist()))
    offset = expected[-1][1]
    assert list(finder.spans(data)) == expected + [(offset + i, offset + i + 3) for i in range(0, 3 * size, 3)]
