"""Comparison of the kernels of subword vocabularies with their twins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import twins
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.kernels.constants import DONE, NEED_SCRATCH, NEED_SPACE, SPECIAL_FLAG
from bpejit.kernels.t2t import subtoken_encoding, subtoken_tree
from bpejit.t2t.vocabulary_building import (
    alphabet_table,
    pack_strings,
    sort_suffixes,
    word_classes_of,
)

# Few characters make equal substrings likely. They include those of escapes, and all widths of UTF-8.
CHARACTERS = "ab _\\u;0\n\x00é\x7f日\U0001f600\U0010ffff²\u0301"
texts = st.text(alphabet=CHARACTERS, max_size=40)
tokens = st.text(alphabet="ab_\\", min_size=1, max_size=12)
counted = st.dictionaries(tokens, st.integers(0, 9), min_size=1, max_size=20)


def strings(points: np.ndarray, starts: np.ndarray) -> list[str]:
    return ["".join(map(chr, points[a:b].tolist())) for a, b in pairwise(starts)]


@given(
    st.lists(st.text(alphabet=[*CHARACTERS, "\udcff", "\ud800"], max_size=8), max_size=8),
    st.sets(st.sampled_from("ab\\u;0_\n9日")),
)
def test_escape_tokens(given_tokens, alphabet):
    points, starts = pack_strings(given_tokens)
    out = np.zeros(subtoken_tree.MAX_ESCAPE_LENGTH * points.size + starts.size, np.uint32)
    out_starts = np.zeros(starts.size, np.int64)
    subtoken_tree.escape_tokens(points, starts, alphabet_table(alphabet), out, out_starts)
    assert strings(out, out_starts) == twins.subwords.escape_tokens(given_tokens, alphabet)


class Tree:
    """The tree of some escaped tokens, and the string of each node."""

    def __init__(self, escaped: list[str], longest: int) -> None:
        self.pool, self.starts = pack_strings(escaped)
        n = self.pool.size
        self.suffixes = [token[i:] for token in escaped for i in range(len(token))]
        self.remaining = np.array(list(map(len, self.suffixes)), np.int32)
        self.order, self.place = sort_suffixes(self.pool, self.remaining)
        self.prefixes = np.full(n, -1, np.int32)
        subtoken_tree.common_prefixes(self.pool, self.order, self.place, self.remaining, self.prefixes)
        capacity = 2 * n + len(set("".join(escaped)))
        self.parent, self.depth, self.first = (np.full(capacity, -7, np.int32) for _ in range(3))
        self.leaf = np.full(n, -1, np.int32)
        stack = np.zeros(3 * (n + 1), np.int32)
        self.n = subtoken_tree.build_tree(
            self.order, self.prefixes, self.remaining, longest, stack, self.parent, self.depth, self.first, self.leaf
        )
        self.nodes = [self.suffixes[self.order[self.first[i]]][: self.depth[i]] for i in range(self.n)]


@given(st.lists(tokens, min_size=1, max_size=12, unique=True), st.integers(1, 8))
def test_suffixes_prefixes_and_tree(given_tokens, longest):
    tree = Tree([token.replace("_", "u") + "_" for token in given_tokens], longest)
    expected = sorted(range(len(tree.suffixes)), key=lambda place: (tree.suffixes[place], place))
    assert tree.order.tolist() == expected
    assert [tree.place[place] for place in expected] == list(range(len(expected)))
    assert tree.prefixes.tolist() == twins.subwords.common_prefixes([tree.suffixes[place] for place in expected])
    assert len(set(tree.nodes)) == tree.n
    assert set(tree.nodes) == twins.subwords.build_tree(tree.suffixes, longest)
    assert [tree.nodes[leaf] for leaf in tree.leaf] == [suffix[:longest] for suffix in tree.suffixes]
    for node, string in enumerate(tree.nodes):
        above = [other for other in tree.nodes if string.startswith(other) and other != string]
        assert (tree.nodes[tree.parent[node]] if tree.parent[node] >= 0 else "") == max(above, key=len, default="")
        assert tree.parent[node] > node or tree.parent[node] == -1


@given(counted, st.sets(tokens, max_size=6), st.integers(1, 6), st.sampled_from(["", "ab", "a_", "_"]))
def test_segment_and_prune(token_counts, learned, least, reserved):
    escaped = {token.replace("_", "u") + "_": 0 for token in token_counts}
    for token, count in token_counts.items():
        escaped[token.replace("_", "u") + "_"] += count
    tree = Tree(list(escaped), 50)
    alphabet = set("".join(escaped))
    # Only strings with a node can be selected, so matches are found among these.
    known = alphabet | (learned & set(tree.nodes))
    longest = [max((len(s) for s in known if node.startswith(s)), default=1) for node in tree.nodes]
    weights, left = np.full(tree.n, 5, np.int64), np.full(tree.n, 5, np.int64)
    matched = np.array(longest, np.int32)
    found = np.array([len(reserved) if suffix.startswith(reserved) else 0 for suffix in tree.suffixes], np.int32)
    counts = np.array(list(escaped.values()), np.int64)
    subtoken_tree.segment_tokens(tree.starts, counts, tree.leaf, matched, found if reserved else found[:0].copy(), weights)
    naive_counts = twins.subwords.segment_tokens(escaped, known | {reserved} - {""}, 50)
    kept = subtoken_tree.prune_tree(tree.parent, tree.depth, tree.n, least, weights, left, matched)
    assert weights.tolist() == [naive_counts.get(node, 0) for node in tree.nodes]
    naive_kept = twins.subwords.prune_tree(naive_counts, least)
    assert left.tolist() == [naive_counts.get(node, 0) for node in tree.nodes]
    longer = {string for string in naive_kept if len(string) > 1}
    assert longer == {node for node, rest in zip(tree.nodes, left.tolist(), strict=True) if rest >= least and len(node) > 1}
    assert kept == len(longer)
    for node, length in zip(tree.nodes, matched.tolist(), strict=True):
        assert length == max([1, *(len(string) for string in longer if node.startswith(string))])


def split(data: bytes, by_lines: bool, capacity: int) -> list[int]:
    text, stop = padded_text(data)
    state = np.array([0, -1], np.int64)
    ends = np.zeros(capacity, np.uint32)
    found = []
    while state[subtoken_encoding.POSITION] < stop:
        found += ends[: subtoken_encoding.split_words(text, stop, *word_classes_of(by_lines), ends, state)].tolist()
    return found


@given(texts, st.integers(2, 5))
def test_split_words(text, capacity):
    ends = split(text.encode(), False, capacity)
    words = [text.encode()[a:b].decode() for a, b in zip([0, *ends], ends, strict=False)]
    assert words == twins.subwords.split_words(text)


@given(st.binary(max_size=30), texts)
def test_split_words_in_lines_of_any_bytes(some, more):
    data = some + more.encode() + some
    ends = split(data, True, 50)
    text, stop = padded_text(data)
    marked = np.array(ends, np.uint32)
    subtoken_encoding.drop_spaces(text, 0, marked, len(ends), stop, True)
    kept = [a for a, b in zip([0, *ends], marked.tolist(), strict=False) if b < SPECIAL_FLAG]
    pieces = [data[a : ends[[0, *ends].index(a)]].decode("utf-8", "surrogateescape") for a in kept]
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    assert pieces == [token for line in lines for token in twins.subwords.drop_spaces(twins.subwords.split_words(line))]


@given(st.lists(st.text(alphabet="abé日_\U0001f600", max_size=5), max_size=20))
def test_build_edges(vocabulary):
    points, starts = pack_strings(vocabulary)
    edges = np.zeros(2 << max(2 * points.size, 2).bit_length(), np.uint64)
    roots = np.zeros(2 * subtoken_encoding.ROOTS, np.uint64)
    n_edges = subtoken_encoding.build_edges(points, starts, edges, roots)
    entries = {int(key): int(value) for key, value in edges.reshape(-1, 2).tolist() if key}
    found = {}

    def walk(node: int, string: str) -> None:
        for key, value in entries.items():
            if key >> 21 == node:
                longer = string + chr(key & 0x1FFFFF)
                if value & 0x7FFFFFFF:
                    found[longer] = (value & 0x7FFFFFFF) - 1
                assert bool(value >> 31 & 1) == any(other >> 21 == value >> 32 for other in entries)
                walk(value >> 32, longer)

    walk(1, "")
    assert found == twins.subwords.build_edges(vocabulary)
    assert n_edges == len(entries) == len({string[:end] for string in vocabulary for end in range(1, len(string) + 1)})
    of_root = {key & 0x1FFFFF: value for key, value in entries.items() if key >> 21 == 1 and key & 0x1FFFFF < 1 << 16}
    assert {2 * int(point) for point in of_root} == {int(at) for at in np.flatnonzero(roots) if at % 2 == 0}
    for point, value in of_root.items():
        following = {ord(string[1]) % 64 for string in vocabulary if len(string) > 1 and ord(string[0]) == point}
        assert roots[2 * point] == value
        assert int(roots[2 * point + 1]) == sum(1 << number for number in following)


@given(
    st.lists(texts, max_size=4),
    st.lists(st.text(alphabet="ab_日\\", min_size=2, max_size=4), max_size=6),
    st.integers(340, 900),
)
def test_encode_words_with_small_buffers(given_texts, learned, capacity):
    """The ids do not change if the cache is cleared constantly and output and scratch are always full."""
    vocabulary = [*sorted(twins.subwords.ESCAPE_CHARACTERS | set("ab日")), *learned]
    alphabet = set("".join(vocabulary))
    points, starts = pack_strings(vocabulary)
    edges = np.zeros(4 << (2 * points.size).bit_length(), np.uint64)
    roots = np.zeros(2 * subtoken_encoding.ROOTS, np.uint64)
    subtoken_encoding.build_edges(points, starts, edges, roots)
    slots, arena, state = np.zeros(4 * 8, np.uint64), np.zeros(320, np.uint32), np.zeros(4, np.int64)
    scratch, out = np.zeros(10, np.uint32), np.zeros(capacity, np.uint32)
    for string in given_texts:
        text, stop = padded_text(string.encode())
        ends = np.array(split(string.encode(), False, 100), np.uint32)
        ids = []
        state[subtoken_encoding.NEXT] = 0
        status = -1
        while status != DONE:
            state[subtoken_encoding.WRITTEN] = 0
            status = subtoken_encoding.encode_words(
                text, 0, ends, ends.size, stop, False, -1, alphabet_table(alphabet), edges, roots, slots, arena, scratch,
                out, state,
            )  # fmt: skip
            ids += out[: state[subtoken_encoding.WRITTEN]].tolist()
            assert status in (DONE, NEED_SPACE, NEED_SCRATCH)
            if status == NEED_SCRATCH:
                scratch = np.zeros(scratch.size * 2, np.uint32)
            elif status == NEED_SPACE and not state[subtoken_encoding.WRITTEN]:
                out = np.zeros(out.size * 2, np.uint32)
        assert ids == twins.subwords.encode_words(string, vocabulary, alphabet)
        assert twins.subwords.decode_words(ids, vocabulary) == string


def test_word_that_cannot_be_encoded():
    points, starts = pack_strings(["a", "_"])
    edges = np.zeros(32, np.uint64)
    roots = np.zeros(2 * subtoken_encoding.ROOTS, np.uint64)
    subtoken_encoding.build_edges(points, starts, edges, roots)
    text, stop = padded_text(b"aa, b")
    ends = np.array([2, 4, 5], np.uint32)
    memory = np.zeros(64, np.uint64), np.zeros(640, np.uint32), np.zeros(500, np.uint32), np.zeros(500, np.uint32)
    state = np.zeros(4, np.int64)
    table = alphabet_table("ab_, ")
    arguments = (text, 0, ends, 3, stop, False, -1, table, edges, roots, *memory, state)
    assert subtoken_encoding.encode_words(*arguments) == subtoken_encoding.UNENCODABLE
    assert state[subtoken_encoding.NEXT] == 1
    assert memory[3][:3].tolist() == [0, 0, 1]


def test_code_points_of_lone_surrogates():
    assert pack_strings(["a\ud800\U0010ffff"])[0].tolist() == [97, 0xD800, 0x10FFFF]
