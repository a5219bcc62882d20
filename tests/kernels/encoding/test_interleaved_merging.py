"""Comparison of merging several pre-tokens at once with merging each of them alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import twins
from helpers.encoding import make_model, make_workspace, merge_lists, naive_rules
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.encoding.encoder_tables import make_tables
from bpejit.jit import dispatch
from bpejit.kernels.common.keys import make_keys
from bpejit.kernels.constants import ONE, SPECIAL_FLAG, ZERO
from bpejit.kernels.encoding import interleaved_merging, pretoken_cache
from bpejit.kernels.encoding.encoder_arrays import EncoderTables, WorkspaceArrays
from bpejit.kernels.encoding.row_merging import MAX_ROWS, ROWS_WORDS


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch):
    # These kernels are not part of the package, so no hash shows when one was edited.
    monkeypatch.setenv("BPEJIT_CACHE", "0")


@dispatch.kernel
def defer_spans(text, ends, n_others, workspace, out):
    """Defer the new pre-tokens among some spans, and write `n_others[i]` ids, all of them 9000 + i, for the others.

    `n_others[i]` becomes -1 for a deferred one. Returns the index after the last id.
    """
    make_keys(text, ZERO, ends, ZERO, np.uint64(ends.size), workspace.slots, workspace.batch)
    start = ZERO
    n_out = ZERO
    for i in range(ends.size):
        low, high, home = workspace.batch[3 * i], workspace.batch[3 * i + 1], workspace.batch[3 * i + 2]
        found = pretoken_cache.find_cache_slot(workspace, low, high, home)[1]
        if not found and interleaved_merging.is_deferrable(workspace.deferred, low, high):
            n_out = np.uint64(interleaved_merging.defer(workspace.deferred, low, high, home, start, np.uint64(i), n_out))
            n_others[i] = -1
        else:
            for _ in range(n_others[i]):
                out[n_out] = 9000 + i
                n_out += ONE
        workspace.recent_stops[i] = n_out
        start = np.uint64(ends[i] & 0x7FFF_FFFF)
    return n_out


@dispatch.kernel
def look_up(text, ends, workspace, out, counts):
    """Write the cached ids of each span to `out`, and their number, 0 on a miss, to `counts`."""
    make_keys(text, ZERO, ends, ZERO, np.uint64(ends.size), workspace.slots, workspace.batch)
    n_out = ZERO
    for i in range(ends.size):
        low, high, home = workspace.batch[3 * i], workspace.batch[3 * i + 1], workspace.batch[3 * i + 2]
        slot, found = pretoken_cache.find_cache_slot(workspace, low, high, home)
        counts[i] = 0
        if found:
            end = np.uint64(pretoken_cache.copy_ids(workspace, slot, out, n_out))
            counts[i] = np.int64(end) - np.int64(n_out)
            n_out = end


del dispatch.KERNELS[-2:]


def encode(
    spans: list[tuple[bytes, bool]], n_others: list[int], tables: EncoderTables, workspace: WorkspaceArrays
) -> tuple[list[bytes | list[int]], list[list[int]]]:
    """Run the kernel on pre-tokens and special tokens; return what it was given, and the ids of each span."""
    ends = np.cumsum([len(data) for data, _ in spans]).astype(np.uint32)
    ends[[special for _, special in spans]] |= np.uint32(SPECIAL_FLAG)
    text, _ = padded_text(b"".join(data for data, _ in spans))
    counts = np.array(n_others, dtype=np.int64)
    out = np.zeros((interleaved_merging.GAP + 4) * len(spans) + 2, dtype=np.uint32)
    n_out = np.uint64(defer_spans(text, ends, counts, workspace, out))
    if (counts < 0).any():
        n_out = np.uint64(interleaved_merging.encode_deferred(text, tables, workspace, out, n_out, np.uint64(len(spans)), True))
    assert not workspace.deferred[:3].any()
    stops = workspace.recent_stops[: len(spans)].tolist()
    assert stops[-1] == n_out
    parts = [data if count < 0 else [9000 + i] * count for i, (count, (data, _)) in enumerate(zip(counts, spans, strict=True))]
    return parts, [out[start:stop].tolist() for start, stop in pairwise([0, *stops])]


def cached(pretokens: list[bytes], workspace: WorkspaceArrays) -> list[list[int] | None]:
    text, length = padded_text(b"".join(pretokens))
    ends = np.cumsum([len(pretoken) for pretoken in pretokens]).astype(np.uint32)
    out = np.zeros(length + pretoken_cache.IDS_PER_COPY, dtype=np.uint32)
    counts = np.zeros(len(pretokens), dtype=np.int64)
    look_up(text, ends, workspace, out, counts)
    parts = np.split(out[: counts.sum()], np.cumsum(counts)[:-1])
    return [ids.tolist() if ids.size else None for ids in parts]


words = st.lists(st.sampled_from([b"a", b"b", b" ", b"0", b"aa"]), min_size=1, max_size=15).map(b"".join)
others = st.sampled_from(["é".encode(), b"\xff", b"a" * 16, "日本語".encode(), b"ab" * 20])


@given(
    merge_lists(),
    st.lists(st.tuples(words | others, st.booleans()), min_size=1, max_size=200),
    st.lists(st.integers(0, 4), min_size=200, max_size=200),
    st.lists(words, max_size=40),
)
def test_encode_deferred(merges, spans, n_others, known):
    """Short ASCII pre-tokens that are new are deferred, and get the ids that they have alone; the other ids are unchanged."""
    model = make_model(merges)
    rules, ids = naive_rules(model)
    tables = make_tables(model, {})
    workspace = make_workspace()
    twin = twins.encoding.PretokenCache(1024, 256, 4096 - pretoken_cache.ARENA_SLACK, pretoken_cache.ARENA_SLACK)
    for batch in ([(word, False) for word in known], spans):
        if batch:
            before = [twin.find(data) for data, _ in batch]
            parts, encoded = encode(batch, n_others[: len(batch)], tables, workspace)
            assert encoded == [twins.encoding.encode_deferred([part], twin, rules, ids) for part in parts]
            for (data, special), found, part in zip(batch, before, parts, strict=True):
                can_be = not special and found is None and len(data) <= 15 and data.isascii()
                assert can_be or isinstance(part, list)
            if len(batch) < MAX_ROWS:
                assert sum(isinstance(part, bytes) for part in parts) == sum(
                    not special and found is None and len(data) <= 15 and data.isascii()
                    for (data, special), found in zip(batch, before, strict=True)
                )
    pretokens = [*known, *(data for data, _ in spans)]
    assert cached(pretokens, workspace) == [twin.find(pretoken) for pretoken in pretokens]
    assert workspace.progress[pretoken_cache.USED_SLOTS] == len(twin.short)


@pytest.mark.parametrize("n", [1, 2, MAX_ROWS, MAX_ROWS + 1, 200])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 17])
def test_encode_deferred__of_every_length(n, size):
    """Pre-tokens of 1 to 15 bytes finish after different numbers of steps, some immediately; other ids are between them."""
    model = make_model([(b"a" * size, b"a") for size in range(1, 15)] + [(b"b", b"c"), (b"bc", b"bc")])
    rules, ids = naive_rules(model)
    workspace = make_workspace()
    words = [(b"abc" + b"a" * 15 + b"bcbc")[number % 7 :][: 1 + number % 15] + b"%d" % number for number in range(n)]
    words = [word[-15:] for word in words]
    others = [(b"a" * 16, False)] * n
    spans = [span for pair in zip([(word, False) for word in words], others, strict=True) for span in pair]
    _, encoded = encode(spans[:256], [min(size, 3)] * len(spans[:256]), make_tables(model, {}), workspace)
    n_new = min(n, MAX_ROWS)
    expected = [twins.encoding.encode_pretoken(word, rules, ids) for word in words[:n_new]]
    assert encoded[: 2 * n_new : 2] == expected
    assert cached(words, workspace) == expected + [None] * (n - n_new)


def test_encode_deferred__as_many_gaps_as_there_are():
    """The same pre-tokens again and again: each is merged and cached once."""
    model = make_model([(b"a", b"b"), (b"ab", b"0")])
    rules, ids = naive_rules(model)
    workspace = make_workspace()
    spans = [(b"ab%d" % (number % 7), False) for number in range(256)]
    parts, encoded = encode(spans, [1] * 256, make_tables(model, {}), workspace)
    assert [isinstance(part, bytes) for part in parts] == [i < interleaved_merging.MAX_DEFERRED for i in range(256)]
    assert encoded[:100] == [twins.encoding.encode_pretoken(data, rules, ids) for data, _ in spans[:100]]
    assert workspace.progress[pretoken_cache.USED_SLOTS] == 7


def test_encode_deferred__stays_within_its_memory():
    workspace = make_workspace(scratch=ROWS_WORDS + 8)
    workspace = workspace._replace(deferred=np.zeros(interleaved_merging.DEFERRED_WORDS + 8, np.uint64))
    for array in (workspace.scratch, workspace.deferred):
        array[-8:] = 0xABCDEF
    words = [(b"%d" % (10**14 + number % MAX_ROWS), False) for number in range(256)]
    encode(words, [1] * len(words), make_tables(make_model([]), {}), workspace)
    for array in (workspace.scratch, workspace.deferred):
        assert (array[-8:] == 0xABCDEF).all()
