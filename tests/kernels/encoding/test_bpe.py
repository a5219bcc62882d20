"""Comparison of all algorithms that merge one pre-token (scan, sweeps, tree, windows) with naive merging."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from conftest import small
from helpers.encoding import ALPHABET, make_model, merge_lists, naive_rules
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.encoding.encoder_tables import make_tables
from bpejit.kernels.encoding import bpe, merge_rules, token_derivations, windowed_merging
from bpejit.kernels.encoding.encoder_arrays import EncoderTables

pretokens = st.lists(st.sampled_from([*ALPHABET, b"aaaaaaaa", b"ab"]), min_size=1, max_size=small(200, 60)).map(b"".join)


def run(kernel, data: bytes, tables: EncoderTables, *, window: int, scratch_words: int | None = None, start: int = 3):
    """Call `encode_pretoken` in the middle of a text and an output; return the ids, or None without enough scratch space."""
    text, _ = padded_text(b"ab " + data + b"ab")
    enough = windowed_merging.SCRATCH_WORDS * len(data) + windowed_merging.SCRATCH_EXTRA
    scratch = np.full(enough if scratch_words is None else scratch_words, 0xABCDEF, dtype=np.uint32)
    out = np.full(2 + len(data) + 20, 0xFFFFFFFF, dtype=np.uint32)
    n_out, length = np.uint64(2), np.uint64(len(data))
    end = kernel(text, np.uint64(start), length, tables, scratch, out, n_out, np.uint64(window))
    if end == windowed_merging.SCRATCH_TOO_SMALL:
        return None
    assert (out[:2] == 0xFFFFFFFF).all()
    assert (out[int(end) :] == 0xFFFFFFFF).all()
    return out[2 : int(end)].tolist()


@given(merge_lists(), pretokens)
def test_encode_pretoken(merges, data):
    model = make_model(merges)
    table, ids = naive_rules(model)
    tables = make_tables(model, {})
    expected = twins.encoding.encode_pretoken(data, table, ids)
    assert run(bpe.encode_pretoken, data, tables, window=windowed_merging.WINDOW) == expected
    assert b"".join(model.tokens[number] for number in expected) == data


@st.composite
def pretokens_of_size(draw, sizes):
    """Draw pre-tokens of few distinct bytes, so that merges apply, of lengths that select the algorithm."""
    size = draw(sizes)
    return draw(st.lists(st.sampled_from(b"ab 0\xe3\x81\x82"), min_size=size, max_size=size).map(bytes))


@pytest.mark.parametrize("least", [1, bpe.SCAN_BYTES + 1])
@given(data=st.data())
def test_encode_pretoken__each_algorithm(least, data):
    """Draw the lengths at which the algorithm changes more often than others."""
    most = bpe.SCAN_BYTES if least == 1 else 3 * bpe.SCAN_BYTES
    model = make_model(data.draw(merge_lists()))
    table, ids = naive_rules(model)
    pretoken = data.draw(pretokens_of_size(st.sampled_from([least, least + 1, most - 1, most]) | st.integers(least, most)))
    expected = twins.encoding.encode_pretoken(pretoken, table, ids)
    assert run(bpe.encode_pretoken, pretoken, make_tables(model, {}), window=windowed_merging.WINDOW) == expected


def test_encode_pretoken__every_length():
    """Chains of merges start at every position, or leave one token of each length."""
    text = bytes(range(97, 97 + 26)) * 2
    merges = [(text[:size], text[size : size + 1]) for size in range(1, 26)]
    backwards = [(bytes([byte]), bytes([byte + 1])) for byte in range(97, 122)][::-1]
    for rules_of_model in (merges, backwards, []):
        model = make_model(rules_of_model)
        table, ids = naive_rules(model)
        tables = make_tables(model, {})
        for size in range(1, 40):
            for first in range(0, 12, small(1, 5)):
                data = text[first : first + size]
                expected = twins.encoding.encode_pretoken(data, table, ids)
                assert run(bpe.encode_pretoken, data, tables, window=windowed_merging.WINDOW) == expected


@st.composite
def runs(draw):
    """Draw repetitive pre-tokens: one or a few bytes, repeated many times, with other bytes in between."""
    unit = st.sampled_from([b"a", b" ", b"ab", b"|---", b"aaab", b"0"])
    one = st.tuples(unit, st.integers(1, small(60, 25))).map(lambda pair: pair[0] * pair[1])
    return b"".join(draw(st.lists(one, min_size=1, max_size=4)))


@st.composite
def run_merges(draw):
    """Draw merges of long tokens of few distinct bytes, in any order: a merge may make a pair of lower rank."""
    tokens = [b"a", b"b", b" ", b"|", b"-", b"0"]
    merges = []
    for left, right in draw(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=25)):
        pair = tokens[left % len(tokens)], tokens[right % len(tokens)]
        if pair not in merges and len(pair[0] + pair[1]) <= 32:
            merges.append(pair)
            tokens.append(pair[0] + pair[1])
    doubled = [(b"a" * n, b"a" * n) for n in (1, 2, 4, 8)]
    merges = list(dict.fromkeys(draw(st.sampled_from([[], doubled])) + merges))
    return draw(st.one_of(st.just(merges), st.permutations(merges)))


@given(run_merges(), runs())
def test_encode_pretoken__runs(merges, data):
    model = make_model(merges)
    table, ids = naive_rules(model)
    expected = twins.encoding.encode_pretoken(data, table, ids)
    assert run(bpe.encode_pretoken, data, make_tables(model, {}), window=windowed_merging.WINDOW) == expected


def test_encode_pretoken__run_whose_merges_make_pairs_of_lower_rank():
    for merges in ([(b"aa", b"a"), (b"a", b"a")], [(b"aa", b"aa"), (b"aa", b"a"), (b"a", b"a")], [(b"a", b"aa"), (b"a", b"a")]):
        model = make_model(merges)
        table, ids = naive_rules(model)
        for size in range(1, 60):
            for data in (b"a" * size, b"a" * size + b"b" + b"a" * 40):
                expected = twins.encoding.encode_pretoken(data, table, ids)
                assert run(bpe.encode_pretoken, data, make_tables(model, {}), window=windowed_merging.WINDOW) == expected


def test_encode_pretoken__needs_scratch_space():
    model = make_model([(b"a" * n, b"a" * n) for n in (1, 2, 4, 8, 16, 32, 64)])
    table, ids = naive_rules(model)
    tables = make_tables(model, {})
    data = b"a" * 300
    words = windowed_merging.SCRATCH_EXTRA + windowed_merging.SCRATCH_WORDS * 64
    assert run(bpe.encode_pretoken, data, tables, window=64, scratch_words=words) is None
    assert run(bpe.encode_pretoken, data, tables, window=64) == twins.encoding.encode_pretoken(data, table, ids)


def test_encode_pretoken__every_byte():
    model = make_model([])
    tables = make_tables(model, {})
    data = bytes(range(256))
    assert run(bpe.encode_pretoken, data, tables, window=16) == [model.ids[bytes([byte])] for byte in data]


def test_byte_pairs_without_merges():
    tables = make_tables(make_model([(b"a", b"b"), (b"ab", b"c")]), {})
    assert tables.byte_pairs[ord("a") << 8 | ord("b")] == 0
    assert tables.byte_pairs[ord("b") << 8 | ord("c")] == merge_rules.NO_RANK
    assert np.count_nonzero(tables.byte_pairs != merge_rules.NEVER_ADJACENT) == 2


@given(st.sets(st.lists(st.sampled_from(ALPHABET), min_size=1, max_size=8).map(b"".join)).map(sorted))
def test_list_splits(strings):
    tokens = [*(bytes([byte]) for byte in range(256)), *(string for string in strings if len(string) > 1)]
    packed = ByteStrings.from_list(tokens)
    pool = np.concatenate([packed.pool, np.full(16, 0x61, dtype=np.uint8)])
    columns = [np.full(packed.pool.size, -1, dtype=np.int32) for _ in range(3)]
    n = token_derivations.list_splits(pool, packed.starts, np.zeros(1024, dtype=np.int32), *columns)
    assert list(zip(*(column[:n].tolist() for column in columns), strict=True)) == twins.encoding.list_splits(tokens)
