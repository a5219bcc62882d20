"""Several texts with separators between them: their ids are divided, however the calls of the kernel are divided."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import regex
import twins
from helpers.encoding import make_model, make_workspace, merge_lists, naive_rules
from hypothesis import given, strategies as st

from bpejit.encoding.encoder_tables import make_tables
from bpejit.jit import dispatch
from bpejit.jit.dispatch import addresses_of
from bpejit.kernels.constants import DONE, NEED_SCRATCH, NEED_SPACE
from bpejit.kernels.encoding import pretoken_cache, windowed_merging
from bpejit.kernels.encoding.text_encoding import encode_text, remove_separators
from bpejit.kernels.splitting.spans import MIN_ENDS
from bpejit.splitting import Splitter
from bpejit.splitting.automaton import SEPARATOR
from bpejit.splitting.presets import PRESETS

PIECES = [b"a", b"b", b" ", b"0", b"ab", b"abab", b"<|s|>", b"<|", b"'", b"\n", b"\xe3\x81\x82", b"\xe3\x81", b"ab" * 40]
SPECIALS = {b"<|s|>": 1, b"ab0": 2}
texts_of_pieces = st.lists(st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join), min_size=1, max_size=30)


@dispatch.kernel
def remove(out, id_stops, progress):
    remove_separators(out, id_stops, progress)


del dispatch.KERNELS[-1:]


@given(
    st.lists(st.sampled_from([0, 7, 8, 9, (1 << 30) - 1]), max_size=60),
    st.sampled_from([0, 8, (1 << 30) - 1]),
    st.lists(st.integers(0, 60), max_size=4),
    st.sampled_from([2, 70]),
)
def test_remove_separators(ids, separator, stops, room):
    """In several calls, and with more separators than there is room for."""
    expected, ends = twins.decoding.remove_separators(ids, separator)
    out = np.array([5, *ids], np.uint32)
    id_stops = np.full(room, 99, np.int64)
    progress = np.zeros(pretoken_cache.PROGRESS_SIZE, np.int64)
    progress[pretoken_cache.SEPARATOR_ID] = separator + 1
    progress[[pretoken_cache.SEPARATED_TO, pretoken_cache.N_OUT]] = 1
    cuts = sorted(min(stop, len(ids)) for stop in stops)
    for start, stop in pairwise([0, *cuts, len(ids)]):
        done = int(progress[pretoken_cache.N_OUT])
        out[done : done + stop - start] = ids[start:stop]
        progress[pretoken_cache.N_OUT] += stop - start
        remove(out, id_stops, progress)
    assert progress[pretoken_cache.N_SEPARATED] == len(ends)
    n_out = int(progress[pretoken_cache.N_OUT])
    assert out[:n_out].tolist() == [5, *expected]
    if len(ends) < room:
        assert (id_stops[: len(ends)] - 1).tolist() == ends


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k"])
@given(merges=merge_lists(), texts=texts_of_pieces, n_ends=st.sampled_from([MIN_ENDS, 300, 4096]), room=st.integers(16, 900))
def test_encode_text__separators(pattern, merges, texts, n_ends, room):
    model = make_model(merges)
    table, ids = naive_rules(model)
    compiled = regex.compile(PRESETS[pattern])
    expected = [twins.encoding.encode_text(text, compiled, table, ids, SPECIALS) for text in texts]
    tables, splitter = make_tables(model, SPECIALS), Splitter(pattern, list(SPECIALS))
    assert splitter.separated is not None
    joined = b"".join(text + SEPARATOR for text in texts)
    data = np.frombuffer(joined + b"b0 ab<|s|>aaaaaa", np.uint8).copy()
    arrays = make_workspace(ends=n_ends)._replace(id_stops=np.zeros(len(texts) + 1, np.int64))
    progress = arrays.progress
    progress[pretoken_cache.SEPARATOR_ID] = model.ids[SEPARATOR] + 1
    out = np.zeros(room, np.uint32)
    fresh = True
    while True:
        places = splitter.separated.addresses, addresses_of(tables), addresses_of(arrays)
        status = encode_text(data, len(joined), len(joined), True, fresh, *places, out)
        fresh = False
        if status == DONE:
            break
        if status == NEED_SCRATCH:
            needed = windowed_merging.SCRATCH_WORDS * int(progress[pretoken_cache.NEEDED_BYTES])
            arrays = arrays._replace(scratch=np.zeros(needed + windowed_merging.SCRATCH_EXTRA, np.uint32))
            continue
        assert status == NEED_SPACE
        out = np.concatenate([out, np.zeros(9, np.uint32)])
    assert progress[pretoken_cache.N_SEPARATED] == len(texts)
    stops = [0, *arrays.id_stops[: len(texts)].tolist()]
    assert stops[-1] == progress[pretoken_cache.N_OUT]
    assert [out[start:stop].tolist() for start, stop in pairwise(stops)] == expected
