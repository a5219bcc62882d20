"""Comparison of the recovery of merges from ranks with its twin."""

from __future__ import annotations

import numpy as np
import twins
from helpers.encoding import ranked_models
from hypothesis import example, given

from bpejit.arrays import ByteStrings
from bpejit.formats.ranked_merges import ranked_rules
from bpejit.kernels.constants import DONE
from bpejit.kernels.encoding.merge_rules import FREE, build_pairs
from bpejit.kernels.formats.merge_recovery import recover_splits
from bpejit.model import Model

BYTES = {byte: bytes([byte]) for byte in range(256)}


@given(ranked_models())
@example(Model(BYTES, [], ranked=True))
@example(
    Model(
        {**BYTES, 256: b"bc", 257: b"ab", 258: b"abc", 259: b"aaa", 260: b"aa", 261: b"aaaa", 262: b"abcabc"}, [], ranked=True
    )
)
def test_recover_splits(model: Model) -> None:
    internal, _, (*columns, made, ranks) = ranked_rules(model.tokens)
    strings = ByteStrings.from_list(internal)
    pairs = np.full(1 << 12, FREE, dtype=np.uint64)
    tables = pairs, np.zeros(1 << 16, dtype=np.uint32), np.zeros(len(internal), dtype=np.uint32)
    assert build_pairs(*columns, made, ranks, *tables) == DONE
    left, right = (np.full(len(internal), 77, dtype=np.int32) for _ in range(2))
    scratch = np.full(2 * max(map(len, internal)), 0xABCDEF, dtype=np.uint32)
    recover_splits(strings.pool, strings.starts, pairs, scratch, left, right)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == twins.encoding.recover_splits(internal)
