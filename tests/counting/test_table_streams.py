"""Streams of sorted pre-tokens: merging, even blocks, and blocks as bytes."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from helpers.training import table_of
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings, PretokenTable
from bpejit.counting import table_streams
from bpejit.counting.table_streams import (
    HEAD_BYTES,
    BlockError,
    even_blocks,
    join_tables,
    merge_streams,
    pack_block,
    read_blocks,
    read_table,
    slice_table,
    sort_blocks,
    sort_table,
    write_stream,
)

words = st.text(alphabet="ab\0", min_size=1, max_size=12).map(str.encode)
tables = st.dictionaries(words, st.integers(1, 2**40), max_size=60)


def stream(counts: dict[bytes, int], size: int) -> Iterator[PretokenTable]:
    """Yield a table in blocks of `size` pre-tokens."""
    table = table_of(counts)
    return (slice_table(table, begin, min(begin + size, len(table))) for begin in range(0, len(table), size))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_streams, "BLOCK_WORDS", 7)
    monkeypatch.setattr(table_streams, "BLOCK_BYTES", 40)


@given(st.lists(tables, max_size=7), st.integers(1, 9))
def test_merged_streams_are_the_sum(parts: list[dict[bytes, int]], size: int) -> None:
    expected = sum((Counter(part) for part in parts), Counter[bytes]())
    found = join_tables(list(merge_streams([stream(part, size) for part in parts])))
    assert list(found.to_counts().items()) == sorted(expected.items())


def test_pretokens_larger_than_a_block_are_merged() -> None:
    left, right = {b"a": 1, b"b" * 1000: 2, b"c": 3}, {b"b" * 1000: 4, b"b" * 1001: 5}
    found = join_tables(list(merge_streams([stream(left, 1), stream(right, 1)])))
    assert found.to_counts() == {b"a": 1, b"b" * 1000: 6, b"b" * 1001: 5, b"c": 3}


@given(tables, st.integers(1, 20), st.integers(1, 20))
def test_even_blocks_do_not_depend_on_the_blocks_given(counts: dict[bytes, int], one: int, other: int) -> None:
    blocks = list(even_blocks(stream(counts, one)))
    assert blocks == list(even_blocks(stream(counts, other)))
    assert join_tables(blocks).to_counts() == dict(sorted(counts.items()))
    for number, block in enumerate(blocks):
        assert len(block) == 7 or block.pool.size >= 40 or number == len(blocks) - 1
        assert len(block) <= 7
        assert block.starts[-2] < 40


@given(tables, st.integers(0, 2**32), st.integers(1, 20), st.integers(1, 5))
def test_tables_are_sorted_in_parts(counts: dict[bytes, int], seed: int, words: int, most: int) -> None:
    names = random.Random(seed).sample(list(counts), len(counts))
    strings = ByteStrings.from_list(names)
    table = PretokenTable(strings.pool, strings.starts, np.array([counts[name] for name in names], np.int64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_streams, "PART_WORDS", words)
        patch.setattr(table_streams, "MOST_PARTS", most)
        found = list(sort_blocks(table))
    assert list(join_tables(found).to_counts().items()) == sorted(counts.items())
    assert sort_table(table) == join_tables(found)


def test_a_table_is_not_read_beyond_its_size() -> None:
    with pytest.raises(BlockError, match="more pre-tokens than its totals say"):
        read_table(stream({b"a": 1, b"b": 2}, 1), 1, 2)


@given(tables, st.integers(1, 20))
def test_blocks_survive_as_bytes(counts: dict[bytes, int], size: int) -> None:
    file = io.BytesIO()
    totals = write_stream(file.write, stream(counts, size))
    assert totals == (len(counts), sum(map(len, counts)), sum(counts.values()))
    file.seek(0)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_streams, "BLOCK_WORDS", 20)  # the largest block here
        found += read_blocks(file.read)
    assert join_tables(found).to_counts() == dict(sorted(counts.items()))
    assert file.read() == b""


def test_broken_blocks_are_refused() -> None:
    data = pack_block(table_of({b"a": 1, b"bc": 300}))
    assert next(read_blocks(io.BytesIO(data).read)) is not None
    for end in range(len(data)):
        with pytest.raises(BlockError):
            next(read_blocks(io.BytesIO(data[:end]).read))
    for place, value in ((0, 2**40), (1, -1), (2, 3), (3, 0)):
        head = np.frombuffer(data[:HEAD_BYTES], "<i8").copy()
        head[place] = value
        with pytest.raises(BlockError):
            next(read_blocks(io.BytesIO(head.tobytes() + data[HEAD_BYTES:]).read))
    zero_count = bytearray(data)
    zero_count[HEAD_BYTES + 2] = 0
    with pytest.raises(BlockError):
        next(read_blocks(io.BytesIO(zero_count).read))
