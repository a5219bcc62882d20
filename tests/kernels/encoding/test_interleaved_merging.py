"""Comparison of merging several pre-tokens at once with merging each of them alone."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from encoding_helpers import make_model, make_workspace, merge_lists, naive_rules
from hypothesis import given
from hypothesis import strategies as st

from bpejit.arrays import padded_text
from bpejit.encoding.encoder_tables import make_tables
from bpejit.jit import dispatch
from bpejit.kernels.common.keys import make_keys
from bpejit.kernels.constants import SPECIAL_FLAG, ZERO
from bpejit.kernels.encoding import interleaved_merging, pretoken_cache
from bpejit.kernels.encoding.encoder_arrays import EncoderTables, WorkspaceArrays

SCRATCH_WORDS = interleaved_merging.INTERLEAVED_SCRATCH_WORDS


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch):
    # These kernels are not part of the package, so no hash shows when one was edited.
    monkeypatch.setenv("BPEJIT_CACHE", "0")


@dispatch.kernel
def encode_interleaved(text, ends, tables, workspace):
    """Make the keys of all spans, and call the function of the same name."""
    n_spans = np.uint64(ends.size)
    make_keys(text, ZERO, ends, ZERO, n_spans, workspace.slots, workspace.batch)
    interleaved_merging.encode_interleaved(text, ends, ZERO, n_spans, ZERO, tables, workspace)


@dispatch.kernel
def look_up(text, ends, workspace, out, counts):
    """Write the cached ids of each span to `out`, and their number, 0 on a miss, to `counts`."""
    make_keys(text, ZERO, ends, ZERO, np.uint64(ends.size), workspace.slots, workspace.batch)
    start = ZERO
    n_out = ZERO
    for i in range(ends.size):
        low, high, home = workspace.batch[3 * i], workspace.batch[3 * i + 1], workspace.batch[3 * i + 2]
        slot, found = pretoken_cache.find_cache_slot(workspace, low, high, home, text, start)
        counts[i] = 0
        if found:
            end = np.uint64(pretoken_cache.copy_ids(workspace, slot, out, n_out))
            counts[i] = np.int64(end) - np.int64(n_out)
            n_out = end
        start = np.uint64(ends[i])


del dispatch.KERNELS[-2:]


def encode(spans: list[tuple[bytes, bool]], tables: EncoderTables, workspace: WorkspaceArrays) -> None:
    """Run the kernel on pre-tokens and special tokens."""
    ends = np.cumsum([len(data) for data, _ in spans]).astype(np.uint32)
    ends[[special for _, special in spans]] |= np.uint32(SPECIAL_FLAG)
    text, _ = padded_text(b"".join(data for data, _ in spans))
    encode_interleaved(text, ends, tables, workspace)


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


@given(merge_lists(), st.lists(st.tuples(words | others, st.booleans()), min_size=1, max_size=80), st.lists(words, max_size=40))
def test_encode_interleaved(merges, spans, known):
    """The first short ASCII misses are inserted, with the ids that they have alone, and nothing else."""
    model = make_model(merges)
    rules, ids = naive_rules(model)
    tables = make_tables(model, {})
    workspace = make_workspace(scratch=SCRATCH_WORDS)
    twin = naive.PretokenCache(1024, 4096 - pretoken_cache.ARENA_SLACK, pretoken_cache.ARENA_SLACK)
    for batch in ([(word, False) for word in known], spans):
        if batch:
            encode(batch, tables, workspace)
            naive.encode_interleaved([data for data, special in batch if not special], twin, rules, ids)
    pretokens = [*known, *(data for data, _ in spans)]
    assert cached(pretokens, workspace) == [twin.find(pretoken) for pretoken in pretokens]
    assert workspace.progress[pretoken_cache.USED_SLOTS] == twin.used


@pytest.mark.parametrize("n", [1, 2, interleaved_merging.MAX_INTERLEAVED, interleaved_merging.MAX_INTERLEAVED + 1, 200])
def test_encode_interleaved__of_every_length(n):
    """Pre-tokens of 1 to 15 bytes finish after different numbers of steps, some immediately."""
    model = make_model([(b"a" * size, b"a") for size in range(1, 15)] + [(b"b", b"c"), (b"bc", b"bc")])
    rules, ids = naive_rules(model)
    workspace = make_workspace(scratch=SCRATCH_WORDS)
    words = [(b"abc" + b"a" * 15 + b"bcbc")[number % 7 :][: 1 + number % 15] + b"%d" % number for number in range(n)]
    words = [word[-15:] for word in words]
    encode([(word, False) for word in words], make_tables(model, {}), workspace)
    n_inserted = min(n, interleaved_merging.MAX_INTERLEAVED)
    expected = [naive.encode_pretoken(word, rules, ids) for word in words[:n_inserted]]
    assert cached(words, workspace) == expected + [None] * (n - n_inserted)


def test_encode_interleaved__stays_within_its_scratch_space():
    workspace = make_workspace(scratch=SCRATCH_WORDS + 8)
    workspace.scratch[-8:] = 0xABCDEF
    words = [(b"%d" % (10**14 + number), False) for number in range(interleaved_merging.MAX_INTERLEAVED)]
    encode(words, make_tables(make_model([]), {}), workspace)
    assert (workspace.scratch[-8:] == 0xABCDEF).all()
