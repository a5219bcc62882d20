"""Comparison of the index of long pre-tokens with plain Python; `test_pretoken_cache` has sequences of operations."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from helpers.encoding import make_workspace
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.jit import dispatch
from bpejit.kernels.common.keys import BATCH, BATCH_WORDS
from bpejit.kernels.constants import SPECIAL_FLAG, ZERO
from bpejit.kernels.encoding import long_pretokens, pretoken_cache


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    # These kernels are not part of the package, so no hash shows when one was edited.
    monkeypatch.setenv("BPEJIT_CACHE", "0")


@dispatch.kernel
def make_cache_keys(text, start, ends, span, size, workspace):
    return long_pretokens.make_cache_keys(text, start, ends, span, size, workspace)


@dispatch.kernel
def prefetch_records(workspace, n_long):
    long_pretokens.prefetch_records(workspace, n_long)


@dispatch.kernel
def insert_long(workspace, hashed, text, length, ids):
    long_pretokens.insert_long(workspace, hashed, length, text, ZERO, ids, ZERO, np.uint64(ids.size))


@dispatch.kernel
def is_record_of(workspace, record, text, length):
    return long_pretokens.is_record_of(workspace, record, length, text, ZERO)


@dispatch.kernel
def find_record(workspace, hashed, text, length):
    return long_pretokens.find_record(workspace, hashed, length, text, ZERO)


del dispatch.KERNELS[-5:]

strings = st.binary(min_size=1, max_size=50) | st.integers(1, 200).map(lambda size: b"a" * size)
long_strings = st.binary(min_size=16, max_size=60) | st.integers(16, 200).map(lambda size: b"a" * size)


@given(
    st.lists(st.tuples(strings, st.booleans()), max_size=40), st.integers(0, 20), st.sampled_from([1, 2, 64, 1024]), st.data()
)
def test_make_cache_keys(spans: list[tuple[bytes, bool]], start: int, n_slots: int, draw: st.DataObject) -> None:
    data = b"x" * start + b"".join(data for data, _ in spans)
    ends, position = [], start
    for pretoken, special in spans:
        position += len(pretoken)
        ends.append(position | (SPECIAL_FLAG if special else 0))
    first = draw.draw(st.integers(0, len(spans)))
    begin = ends[first - 1] & (SPECIAL_FLAG - 1) if first else start
    size = len(spans) - first
    workspace = make_workspace(slots=n_slots)
    workspace.batch[:] = 0xABCDEF
    text, _ = padded_text(data)
    n_long = make_cache_keys(text, np.uint64(begin), np.array(ends, np.uint32), np.uint64(first), np.uint64(size), workspace)
    keys, hashes = twins.characters.make_cache_keys(data, begin, ends[first:], n_slots)
    written = workspace.batch[: BATCH_WORDS * size].reshape(-1, BATCH_WORDS)
    assert [tuple(map(int, row)) for row in written] == keys
    rest = workspace.batch[BATCH_WORDS * BATCH :]
    assert rest[: int(n_long)].tolist() == hashes
    assert (rest[int(n_long) :] == 0xABCDEF).all()


@given(
    st.lists(st.tuples(long_strings, st.booleans()), max_size=40), st.sampled_from([pretoken_cache.ARENA_SLACK + 16, 600, 8192])
)
def test_prefetch_records__finds_each_pretoken_of_the_index(some: list[tuple[bytes, bool]], arena: int) -> None:
    """The hash is replaced by the number of the record, unless that was overwritten or never written."""
    workspace = make_workspace(arena=arena)
    texts = [(*padded_text(data), twins.characters.hash_bytes(data), inserted) for data, inserted in dict(some).items()]
    for text, length, hashed, inserted in texts:
        if inserted:
            insert_long(workspace, np.uint64(hashed), text, np.uint64(length), np.zeros(2, np.uint32))
    for i, (_, _, hashed, _) in enumerate(texts):
        workspace.batch[BATCH_WORDS * BATCH + i] = hashed
    prefetch_records(workspace, np.uint64(len(texts)))
    for i, (text, length, hashed, inserted) in enumerate(texts):
        record = np.uint64(workspace.batch[BATCH_WORDS * BATCH + i])
        found = np.uint64(find_record(workspace, np.uint64(hashed), text, np.uint64(length)))
        assert bool(is_record_of(workspace, record, text, np.uint64(length))) == (found != long_pretokens.NO_RECORD)
        assert found in (record, long_pretokens.NO_RECORD)
        assert inserted or found == long_pretokens.NO_RECORD
        if arena == 8192 and sum(len(data) + 24 for data, _ in some) < 8000:
            assert inserted == (found != long_pretokens.NO_RECORD)


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 40), unique=True, max_size=60))
def test_move_entries__preserves_all_entries(hashes: list[int]) -> None:
    """The larger index contains each entry, where linear probing finds it."""
    index = np.zeros(64 * long_pretokens.ENTRY_WORDS, np.uint64)
    records = {hashed: int(pretoken_cache.IN_ARENA) + number for number, hashed in enumerate(hashes)}
    for number, (hashed, record) in enumerate(records.items()):
        index[2 * number : 2 * number + 2] = [hashed, record]
    larger = np.zeros(128 * long_pretokens.ENTRY_WORDS, np.uint64)
    long_pretokens.move_entries(index, larger)
    rows = larger.reshape(-1, 2).tolist()
    assert {hashed: record for hashed, record in rows if record} == twins.encoding.move_entries(records)
    for hashed in hashes:
        entry = hashed % 128
        while rows[entry][0] != hashed or not rows[entry][1]:
            assert rows[entry][1], "a free entry would end the lookup"
            entry = (entry + 1) % 128
