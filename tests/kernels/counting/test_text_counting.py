"""Comparison of `count_text` with its twin, for blocks and tables of any size."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from helpers.splitting import all_cuts, cached_splitter
from helpers.strategies import awkward_bytes, special_tokens
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.kernels.common import keys
from bpejit.kernels.constants import NEED_SPACE
from bpejit.kernels.counting import interning, text_counting
from bpejit.kernels.splitting.spans import MIN_ENDS
from bpejit.splitting import Splitter

# The last one has a state machine that restarts after each match.
patterns = st.sampled_from(["gpt2", "cl100k", "o200k", r"(?:ab)+c|[\s\S]"])
n_ends = st.integers(MIN_ENDS, 100)


def count(splitter: Splitter, data: bytes, stops: list[int], cut: int, final: bool, n_ends: int) -> dict[bytes, int]:
    text, _ = padded_text(data)
    table, arena, state = np.zeros(4 * 512, np.uint64), np.zeros(16, np.uint8), np.zeros(3, np.int64)
    progress, split_state, ends = np.zeros(3, np.int64), splitter.new_state(), np.zeros(n_ends, np.uint32)
    scratch = np.zeros(keys.BATCH_WORDS * keys.BATCH, np.uint64)
    given = text, np.array(stops, np.int64), cut, final, splitter.automaton, split_state, ends, progress
    while text_counting.count_text(*given, table, arena, state, scratch) == NEED_SPACE:
        if (state[interning.USED] + keys.BATCH) * 4 > table.size // 4 * 3:
            larger = np.zeros(2 * table.size, np.uint64)
            interning.rehash(table, larger)
            table = larger
        else:
            arena = np.concatenate([arena, np.zeros(100, np.uint8)])
    assert progress[text_counting.DOCUMENT] == len(stops)
    n, n_bytes = interning.measure_table(table)
    pool, starts, counts = np.zeros(n_bytes, np.uint8), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    interning.unpack_table(table, arena, 0, pool, starts, counts)
    return dict(zip(ByteStrings(pool, starts), counts.tolist(), strict=True))


@given(patterns, st.lists(awkward_bytes(6), max_size=8), special_tokens(), n_ends)
def test_count_text(pattern: str, texts: list[bytes], tokens: list[bytes], n_ends: int) -> None:
    splitter = cached_splitter(pattern, tuple(tokens))
    data = b"".join(texts)
    expected: dict[bytes, int] = {}
    twins.counting.count_text(texts, len(data), splitter.pattern.stages, list(splitter.special_tokens), expected)
    stops = np.cumsum([len(text) for text in texts], dtype=np.int64).tolist()
    assert count(splitter, data, stops, len(data), True, n_ends) == expected


@given(patterns, awkward_bytes(8), special_tokens(), n_ends)
def test_count_text__before_a_cut(pattern: str, data: bytes, tokens: list[bytes], n_ends: int) -> None:
    splitter = cached_splitter(pattern, tuple(tokens))
    for cut in all_cuts(splitter, data)[:4]:
        expected: dict[bytes, int] = {}
        twins.counting.count_text([data], cut, splitter.pattern.stages, list(splitter.special_tokens), expected)
        stop = min(cut + max(4, *map(len, tokens), 0), len(data))
        assert count(splitter, data[:stop], [stop], cut, False, n_ends) == expected


@pytest.mark.parametrize("n_ends", [MIN_ENDS, 1000])
def test_count_text__many_enlargements(n_ends: int) -> None:
    words = [b" %d" % number for number in range(2000)] + [b" " + b"long" * 10 + b"%d" % number for number in range(50)]
    data = b"".join(words)
    splitter = cached_splitter("gpt2", ())
    expected: dict[bytes, int] = {}
    twins.counting.count_text([data], len(data), splitter.pattern.stages, [], expected)
    assert count(splitter, data, [len(data)], len(data), True, n_ends) == expected
