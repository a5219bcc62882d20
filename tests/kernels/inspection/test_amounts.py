"""Tests of the kernels that count tokens, characters and words."""

from __future__ import annotations

import numpy as np
import twins
from helpers.strategies import awkward_bytes, awkward_text
from hypothesis import example, given, strategies as st

from bpejit.arrays import padded_text
from bpejit.kernels.inspection import amounts


@given(st.lists(st.integers(0, 9), max_size=50))
def test_count_ids(ids):
    counts, expected = np.arange(10, dtype=np.int64), list(range(10))
    amounts.count_ids(np.array(ids, dtype=np.uint32), counts)
    twins.inspection.count_ids(ids, expected)
    assert counts.tolist() == expected


def words_of(data):
    found = np.full(amounts.N_AMOUNTS, -1, dtype=np.int64)
    text, n_bytes = padded_text(data)
    text[n_bytes:] = 0x80  # must not matter
    amounts.count_words(text, np.uint64(n_bytes), found)
    return tuple(found.tolist())


@given(awkward_text())
def test_count_words(text):
    assert words_of(text.encode()) == twins.inspection.count_words(text.encode())


@given(awkward_bytes())
@example(b" \x80 \xe2\x80\x80\x80 \xe2\x80")
def test_count_words_of_any_bytes(data):
    assert words_of(data) == twins.inspection.count_words(data)


def test_every_white_space():
    assert not any(chr(point).isspace() for point in range(0x3001, 0x110000))
    for point in range(0x3001):
        expected = 2 if chr(point).isspace() else 1
        assert words_of(f"a{chr(point)}b".encode())[amounts.WORDS] == expected, hex(point)
