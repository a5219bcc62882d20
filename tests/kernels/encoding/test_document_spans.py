"""Several documents in one text: each is encoded by itself, wherever a group of spans ends or a call stops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import regex
import twins
from helpers.encoding import make_model, make_workspace, merge_lists, naive_rules
from hypothesis import given, strategies as st

from bpejit.encoding.encoder_tables import make_tables
from bpejit.jit.dispatch import addresses_of
from bpejit.kernels.constants import DONE, NEED_SCRATCH, NEED_SPACE
from bpejit.kernels.encoding import pretoken_cache, windowed_merging
from bpejit.kernels.encoding.encoder_arrays import WorkspaceArrays
from bpejit.kernels.encoding.interleaved_merging import RECENT_SPANS
from bpejit.kernels.encoding.text_encoding import encode_text
from bpejit.kernels.splitting.spans import MIN_ENDS
from bpejit.model import Model
from bpejit.splitting import Splitter
from bpejit.splitting.presets import PRESETS

SPECIALS = {b"<|s|>": 1, b"ab0": 2}
PIECES = [b"a", b"b", b" ", b"0", b"ab", b"abab", b"<|s|>", b"<|", b"|s|>", b"'", b"\n", b"\xe3\x81\x82", b"\xe3\x81", b"\x82"]

documents = st.lists(
    st.one_of(st.just(b""), st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join)), min_size=1, max_size=12
)


def encode(model: Model, pattern: str, texts: list[bytes], arrays: WorkspaceArrays, room: int) -> list[list[int]]:
    """Encode documents, with space for `room` ids at first, and a little more whenever there is too little."""
    tables, splitter = make_tables(model, SPECIALS), Splitter(pattern, list(SPECIALS))
    # What follows the last document does not matter.
    text = np.frombuffer(b"".join(texts) + b"b0 ab<|s|>aaaaaa", np.uint8).copy()
    arrays = arrays._replace(
        document_stops=np.cumsum([len(text) for text in texts], dtype=np.int64), id_stops=np.zeros(len(texts), np.int64)
    )
    arrays.progress[pretoken_cache.N_DOCUMENTS] = len(texts)
    arrays.progress[pretoken_cache.N_OUT] = 0
    out = np.zeros(room, np.uint32)
    fresh = True
    while True:
        places = splitter.addresses, addresses_of(tables), addresses_of(arrays)
        status = encode_text(text, 0, 0, True, fresh, *places, out)
        fresh = False
        if status == DONE:
            break
        if status == NEED_SCRATCH:
            needed = windowed_merging.SCRATCH_WORDS * int(arrays.progress[pretoken_cache.NEEDED_BYTES])
            arrays = arrays._replace(scratch=np.zeros(needed + windowed_merging.SCRATCH_EXTRA, np.uint32))
            continue
        assert status == NEED_SPACE
        out = np.concatenate([out, np.zeros(9, np.uint32)])
    stops = [0, *arrays.id_stops.tolist()]
    assert stops[-1] == arrays.progress[pretoken_cache.N_OUT]
    return [out[start:stop].tolist() for start, stop in pairwise(stops)]


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k"])
@given(
    merges=merge_lists(), texts=documents, ends=st.sampled_from([MIN_ENDS, 40, 4096]), room=st.integers(16, 400) | st.just(4096)
)
def test_encode_text__documents(pattern, merges, texts, ends, room):
    model = make_model(merges)
    table, ids = naive_rules(model)
    compiled = regex.compile(PRESETS[pattern])
    expected = [twins.encoding.encode_text(text, compiled, table, ids, SPECIALS) for text in texts]
    assert encode(model, pattern, texts, make_workspace(ends=ends), room) == expected


@pytest.mark.parametrize("size", [RECENT_SPANS - 2, RECENT_SPANS - 1, RECENT_SPANS, 3 * RECENT_SPANS])
@pytest.mark.parametrize("before", [[], [b""], [b"a", b""], [b"a\n" * 200]])
def test_encode_text__as_many_spans_as_are_retained(size, before):
    model = make_model([])
    table, ids = naive_rules(model)
    texts = [*before, b"a\n" * (size // 2) + b"a" * (size % 2), b"", b"b", b""]
    expected = [twins.encoding.encode_text(text, regex.compile(PRESETS["gpt2"]), table, ids, SPECIALS) for text in texts]
    for ends in (MIN_ENDS, 8 * RECENT_SPANS):
        for room in (64, 1 << 14):
            assert encode(model, "gpt2", texts, make_workspace(ends=ends), room) == expected


def test_encode_text__documents_ask_for_scratch_space():
    model = make_model([(b"a" * n, b"a" * n) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256)])
    table, ids = naive_rules(model)
    scratch = windowed_merging.SCRATCH_EXTRA + windowed_merging.SCRATCH_WORDS * windowed_merging.WINDOW
    texts = [b"b b", b"ab " + b"a" * 2000 + b" b", b"", b"b"]
    expected = [twins.encoding.encode_text(text, regex.compile(PRESETS["gpt2"]), table, ids, SPECIALS) for text in texts]
    assert encode(model, "gpt2", texts, make_workspace(scratch=scratch, ends=4096), 64) == expected
