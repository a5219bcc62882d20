"""Comparison of decoding with its twins."""

from __future__ import annotations

import naive
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bpejit.arrays import ByteStrings
from bpejit.kernels.encoding import decoding

tokens = st.dictionaries(st.integers(0, 30), st.binary(max_size=40), min_size=1, max_size=20)


def arrays(vocab: dict[int, bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    strings = ByteStrings.from_list(list(vocab.values()))
    starts, lengths = np.zeros(31, np.int64), np.full(31, -1, np.int64)
    starts[list(vocab)] = strings.starts[:-1]
    lengths[list(vocab)] = np.diff(strings.starts)
    return np.concatenate([strings.pool, np.full(8, 0xEE, np.uint8)]), starts, lengths


@given(tokens, st.data())
def test_decode_ids(vocab, data):
    ids = data.draw(st.lists(st.sampled_from(sorted(vocab)), max_size=50))
    pool, starts, lengths = arrays(vocab)
    array = np.array(ids, dtype=np.int64)
    size = decoding.measure_ids(array, lengths)
    assert size == naive.measure_ids(ids, vocab)
    out = np.full(size + decoding.OUT_SLACK, 0xAA, dtype=np.uint8)
    assert decoding.decode_ids(array, pool, starts, lengths, out) == size
    assert out[:size].tobytes() == naive.decode_ids(ids, vocab)


@given(tokens, st.lists(st.integers(-5, 40) | st.sampled_from([2**62, -(2**63), 2**63 - 1]), max_size=30))
def test_measure_ids__finds_first_invalid_id(vocab, ids):
    _, _, lengths = arrays(vocab)
    assert decoding.measure_ids(np.array(ids, dtype=np.int64), lengths) == naive.measure_ids(ids, vocab)
