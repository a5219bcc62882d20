"""Comparison of keys and hashes with plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from hypothesis import example, given, strategies as st

from bpejit.arrays import padded_text
from bpejit.jit import dispatch
from bpejit.kernels.common import keys
from bpejit.kernels.constants import SPECIAL_FLAG


@pytest.fixture(autouse=True)
def _no_kernel_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    # The cache does not detect edits of the kernels in this file.
    monkeypatch.setenv("BPEJIT_CACHE", "0")


@dispatch.kernel
def short_key(text, start, length):
    return keys.short_key(text, start, length)


@dispatch.kernel
def hash_key(low, high):
    return keys.hash_key(low, high)


@dispatch.kernel
def hash_bytes(text, start, length):
    return keys.hash_bytes(text, start, length)


@dispatch.kernel
def equal_bytes(a, a_start, b, b_start, length):
    return keys.equal_bytes(a, a_start, b, b_start, length)


@dispatch.kernel
def make_keys(text, start, ends, span, size, slots, batch):
    keys.make_keys(text, start, ends, span, size, slots, batch)


del dispatch.KERNELS[-5:]

# Lengths on both sides of 8, 16, 32 and 48 bytes, and bytes with and without the top bit.
lengths = st.one_of(st.integers(0, 50), st.sampled_from([7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 1000]))
strings = st.one_of(
    lengths.flatmap(lambda n: st.binary(min_size=n, max_size=n)),
    st.builds(lambda n, byte: bytes([byte]) * n, lengths, st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])),
)
words = st.integers(0, 2**64 - 1)


def surrounded(data: bytes) -> np.ndarray:
    """Return a text with three other bytes before the data and 16 after it."""
    text, _ = padded_text(b"???" + data + b"\xa5" * 16)
    return text


@given(strings.filter(lambda data: 1 <= len(data) <= 15))
def test_short_key(data: bytes) -> None:
    key = short_key(surrounded(data), np.uint64(3), np.uint64(len(data)))
    assert tuple(map(int, key)) == twins.characters.make_key(data)[:2]


@given(st.binary(max_size=15), st.binary(max_size=15))
@example(b"a", b"a\0")
@example(b"", b"\0")
@example(b"12345678", b"12345678\0")
def test_short_keys_are_equal_only_for_equal_pretokens(a: bytes, b: bytes) -> None:
    found = [tuple(map(int, short_key(surrounded(data), np.uint64(3), np.uint64(len(data))))) for data in (a, b)]
    assert (found[0] == found[1]) == (a == b)
    assert all(high < int(keys.SPECIAL_TAG) for _, high in found)


@given(words, words)
@example(0, 0)
@example(2**64 - 1, 2**64 - 1)
def test_hash_key(low: int, high: int) -> None:
    assert int(hash_key(np.uint64(low), np.uint64(high))) == twins.characters.hash_key(low, high)


@given(strings)
def test_hash_bytes(data: bytes) -> None:
    assert int(hash_bytes(surrounded(data), np.uint64(3), np.uint64(len(data)))) == twins.characters.hash_bytes(data)


@given(strings, st.data())
def test_equal_bytes__compares_each_byte_and_none_past_the_end(data: bytes, draw: st.DataObject) -> None:
    a, b = surrounded(data), surrounded(b"..." + data)
    b[6 + len(data) :] ^= 0xFF
    arguments = a, np.uint64(3), b, np.uint64(6), np.uint64(len(data))
    assert equal_bytes(*arguments)
    if data:
        b[6 + draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.sampled_from([1, 0x40, 0x80]))
        assert not equal_bytes(*arguments)


@given(
    st.lists(st.tuples(strings.filter(bool), st.booleans()), max_size=40),
    st.integers(0, 20),
    st.sampled_from([1, 2, 64, 1 << 20]),
    st.data(),
)
def test_make_keys(spans: list[tuple[bytes, bool]], start: int, n_slots: int, draw: st.DataObject) -> None:
    data = b"x" * start + b"".join(data for data, _ in spans)
    ends, position = [], start
    for pretoken, special in spans:
        position += len(pretoken)
        ends.append(position | (SPECIAL_FLAG if special else 0))
    first = draw.draw(st.integers(0, len(spans)))
    begin = ends[first - 1] & (SPECIAL_FLAG - 1) if first else start

    text, _ = padded_text(data)
    batch = np.full(keys.BATCH_WORDS * len(spans) + 1, 0xABCDEF, np.uint64)
    size = len(spans) - first
    make_keys(
        text,
        np.uint64(begin),
        np.array(ends, np.uint32),
        np.uint64(first),
        np.uint64(size),
        np.zeros(4 * n_slots, np.uint64),
        batch,
    )
    expected = twins.characters.make_keys(data, begin, ends[first:], n_slots)
    written = batch[: keys.BATCH_WORDS * size].reshape(-1, keys.BATCH_WORDS)
    assert [tuple(map(int, row)) for row in written] == expected
    assert (batch[keys.BATCH_WORDS * size :] == 0xABCDEF).all()
