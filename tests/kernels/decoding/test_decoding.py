"""Comparison of decoding with its twin."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings
from bpejit.encoding.encoder_tables import padded
from bpejit.kernels.constants import DONE, NEED_SPACE
from bpejit.kernels.decoding import decoding

N_SLOTS = 32
tokens = st.dictionaries(st.integers(0, N_SLOTS - 1), st.binary(max_size=40), min_size=1, max_size=20)


def tables(vocab: dict[int, bytes]) -> tuple[np.ndarray, np.ndarray]:
    strings = ByteStrings.from_list(list(vocab.values()))
    pool = padded(strings.pool)
    slots, lengths = np.zeros(2 * N_SLOTS, np.uint64), np.zeros(N_SLOTS, np.int64)
    decoding.fill_slots(pool, strings.starts, np.array(list(vocab), np.int64), slots, lengths)
    assert lengths.tolist() == [len(vocab.get(number, b"")) for number in range(N_SLOTS)]
    starts = dict(zip(vocab, strings.starts.tolist(), strict=False))
    assert slots.tobytes() == twins.decoding.fill_slots(vocab, starts, N_SLOTS)
    return slots, pool


def decode(ids: list[int], width: int, slots: np.ndarray, pool: np.ndarray, out: np.ndarray, state: np.ndarray) -> int:
    """Call the kernel with ids of `width` bytes; a negative one is the largest number of that width."""
    data = b"".join((number % 256**width).to_bytes(width, "little") for number in ids)
    packed = np.frombuffer(bytearray(data.ljust(8 * len(ids))), dtype=np.uint8)
    status: int = decoding.decode_ids(packed, len(ids), width, slots.view(np.uint8), pool, out, state)
    return status


@given(tokens, st.data(), st.integers(0, 100), st.sampled_from([2, 4, 8]))
def test_decode_ids(vocab, data, space, width):
    ids = data.draw(st.lists(st.sampled_from(sorted(vocab)), max_size=50))
    slots, pool = tables(vocab)
    out = np.full(max(map(len, vocab.values())) + decoding.SLOT_BYTES + space, 0xAA, dtype=np.uint8)
    state = np.zeros(2, dtype=np.int64)
    while True:
        begin = int(state[decoding.N_IDS])
        expected = twins.decoding.decode_ids(ids[begin:], vocab, out.size - decoding.SLOT_BYTES)
        status = decode(ids, width, slots, pool, out, state)
        done, size = state.tolist()
        assert out[:size].tobytes() == twins.decoding.decode_ids(ids[begin:done], vocab)[1]
        # The kernel needs the last bytes of the output for excess bytes only, so another short token may fit.
        assert done - begin >= expected[0]
        assert status == (DONE if done == len(ids) else NEED_SPACE)
        if status == DONE:
            return
        state[decoding.N_BYTES] = 0


@given(tokens, st.data())
def test_decode_ids__appends(vocab, data):
    ids = data.draw(st.lists(st.sampled_from(sorted(vocab)), max_size=20))
    slots, pool = tables(vocab)
    out = np.zeros(2000, dtype=np.uint8)
    out[:3] = [1, 2, 3]
    state = np.array([0, 3], dtype=np.int64)
    assert decode(ids, 2, slots, pool, out, state) == DONE
    expected = b"\1\2\3" + twins.decoding.decode_ids(ids, vocab)[1]
    assert out[: state[decoding.N_BYTES]].tobytes() == expected


@given(
    tokens,
    st.lists(st.integers(0, 40) | st.sampled_from([2**62, 2**63 - 1, -1, -(2**63)]), max_size=30),
    st.sampled_from([2, 4, 8]),
)
def test_decode_ids__finds_first_unknown_id(vocab, ids, width):
    slots, pool = tables(vocab)
    out = np.zeros(2000, dtype=np.uint8)
    state = np.zeros(2, dtype=np.int64)
    status = decode(ids, width, slots, pool, out, state)
    done, data = twins.decoding.decode_ids([number % 256**width for number in ids], vocab)
    assert state.tolist() == [done, len(data)]
    assert out[: len(data)].tobytes() == data
    assert status == (DONE if done == len(ids) else decoding.UNKNOWN_ID)


@pytest.mark.parametrize("width", [2, 4, 8])
@pytest.mark.parametrize("unusual", [8, 9])
def test_decode_ids__unusual_tokens_at_each_position(width, unusual):
    vocab = {3: b"abc", 4: b"x", 8: b"a long token, which is not in its slot", 9: b""}
    slots, pool = tables(vocab)
    for n in range(1, 8):
        for position in range(n):
            ids = [3, 4] * 4
            ids = [*ids[:position], unusual, *ids[position : n - 1]]
            out, state = np.zeros(200, dtype=np.uint8), np.zeros(2, dtype=np.int64)
            assert decode(ids, width, slots, pool, out, state) == DONE
            assert out[: state[decoding.N_BYTES]].tobytes() == twins.decoding.decode_ids(ids, vocab)[1]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 14, 15, 16, 17, 24, 300])
def test_decode_ids__of_each_length(length):
    vocab = {3: bytes(range(200, 200 + length)) if length < 50 else b"x" * length, 4: b"ab"}
    slots, pool = tables(vocab)
    ids = [4, 3, 3, 4, 3]
    out = np.zeros(5 * length + 40, dtype=np.uint8)
    state = np.zeros(2, dtype=np.int64)
    assert decode(ids, 8, slots, pool, out, state) == DONE
    assert out[: state[decoding.N_BYTES]].tobytes() == twins.decoding.decode_ids(ids, vocab)[1]
