"""Comparison of tokens at the borders of documents, and of their lengths, with the twins."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
import twins
from hypothesis import given, strategies as st

from bpejit.kernels.common.document_tokens import add_lengths, insert_tokens

IDS = st.integers(0, 5)
TOKEN = st.none() | IDS


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
@given(st.lists(st.lists(IDS, max_size=4), max_size=5), st.lists(IDS, max_size=3), TOKEN, TOKEN, TOKEN)
def test_insert_tokens(dtype, documents, rest, prepend, append, last):
    ids = np.array([number for block in (*documents, rest) for number in block], dtype)
    ends = np.array([*accumulate(map(len, documents))], np.int64)
    out, out_ends = np.full(ids.size + 2 * ends.size + 1, 9, dtype), np.empty_like(ends)
    numbers = [-1 if number is None else number for number in (prepend, append, last)]
    size = insert_tokens(ids, ends, *numbers, out, out_ends)
    expected, expected_rest = twins.decoding.insert_tokens(documents, rest, prepend, append, last)
    assert out[:size].tolist() == [number for block in (*expected, expected_rest) for number in block]
    assert out_ends.tolist() == [*accumulate(map(len, expected))]
    assert (out[size:] == 9).all()


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
@given(st.lists(st.integers(0, 11), max_size=20), st.lists(st.integers(0, 2**32 - 1), min_size=8, max_size=12))
def test_add_lengths(dtype, ids, lengths):
    given_ids = np.array(ids, dtype)
    given_ids.flags.writeable = False  # as those of a mapped file
    assert add_lengths(given_ids, np.array(lengths, np.uint32)) == twins.decoding.add_lengths(ids, lengths)
