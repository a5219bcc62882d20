"""Ids that stand for tokens without an id: bytes of fallback, or unknown characters."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from helpers.encoding import make_model
from hypothesis import given, strategies as st
from twins.encoding import UNKNOWN

from bpejit.encoding.encoder_tables import make_tables
from bpejit.jit import dispatch
from bpejit.kernels.encoding import symbol_parts
from bpejit.kernels.encoding.span_encoding import NO_ID

FIRST = 10

FALLBACK = [[1], [2, 3], [4, 5, 6]]
"""The ids of bytes of tokens without an id."""

UNKNOWNS = [[UNKNOWN], [UNKNOWN], []]
"""The beginnings of two characters, and a byte that continues one."""


@dispatch.kernel
def replace(tables, out, begin, end):
    return symbol_parts.replace_parts(tables, out, begin, end)


del dispatch.KERNELS[-1:]


@pytest.mark.parametrize(
    ("parts", "fused"),
    [(FALLBACK, None), (UNKNOWNS, None), (UNKNOWNS, UNKNOWN), ([], None)],
    ids=["bytes", "one", "fused", "none"],
)
@given(
    ids=st.lists(st.sampled_from([0, UNKNOWN, 9, FIRST, FIRST + 1, FIRST + 2, int(NO_ID)]), max_size=20),
    begin=st.integers(0, 2),
)
def test_replace_parts(parts, fused, ids, begin):
    padded = [[len(part), *(part or [UNKNOWN]), 0, 0][:4] for part in parts]
    limits = [FIRST, symbol_parts.NOT_FUSED if fused is None else fused, 0]
    tables = make_tables(make_model([]), {})._replace(
        parts=np.array(padded, np.uint32).ravel(), part_limits=np.array(limits, np.uint32)
    )
    expected = twins.encoding.replace_parts(ids, FIRST, parts, fused)
    out = np.zeros(begin + 3 * len(ids) + 1, np.uint32)
    out[begin : begin + len(ids)] = ids
    out[:begin] = UNKNOWN  # of another pre-token
    end = replace(tables, out, np.uint64(begin), np.uint64(begin + len(ids)))
    assert out[begin : int(end)].tolist() == expected
    assert (out[:begin] == UNKNOWN).all()
