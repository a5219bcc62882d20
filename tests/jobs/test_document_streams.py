"""Tests of the stages between encoding and writing: tokens at documents, the choice of documents, and shards."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bpejit.jobs.encode_job import DocumentChoice, DocumentTokens, draw_documents
from bpejit.jobs.job_records import sync_paths
from bpejit.jobs.spools import END_DTYPE, SinkOptions, SpoolSink, ends_path, ids_path, read_closed, read_spool

Documents = list[list[int]]
DTYPE = np.dtype("<u2")

documents = st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=12)
cuts = st.lists(st.integers(0, 60), max_size=8)


def blocks(found: Documents, positions: list[int], *, complete: bool = True) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return documents as blocks that are cut at some positions of the ids; an end at a cut is in the block before or after."""
    ids = [number for document in found for number in document]
    ends = np.cumsum([len(document) for document in found], dtype=np.int64) if found else np.zeros(0, np.int64)
    if not complete:
        ends = ends[:-1]
    borders = [0, *sorted({position for position in positions if position < len(ids)}), len(ids)]
    result = []
    used = 0
    for index, (low, high) in enumerate(pairwise(borders)):
        last = index == len(borders) - 2
        count = int(np.searchsorted(ends, high, side="right" if last or high % 2 else "left"))
        result.append((np.array(ids[low:high], dtype=DTYPE), ends[used:count] - low))
        used = max(used, count)
    return result


def join(found: list[tuple[np.ndarray, np.ndarray]]) -> tuple[list[int], list[int]]:
    ids: list[int] = []
    ends: list[int] = []
    for some, some_ends in found:
        ends += (some_ends + len(ids)).tolist()
        ids += some.tolist()
    return ids, ends


def divided(ids: list[int], ends: list[int]) -> Documents:
    starts = [0, *ends]
    return [ids[a:b] for a, b in pairwise(starts)] + ([ids[starts[-1] :]] if ids[starts[-1] :] else [])


@given(documents, cuts, st.sampled_from([None, 1, 4]), st.sampled_from([None, 1, 4]))
def test_tokens_are_added_to_each_document(
    found: Documents, positions: list[int], prepend: int | None, append: int | None
) -> None:
    expected = []
    for document in found:
        new = list(document)
        if prepend is not None and document[:1] != [prepend]:
            new = [prepend, *new]
        if append is not None and document[-1:] != [append]:
            new = [*new, append]
        expected.append(new)
    tokens = DocumentTokens(prepend, append)
    ids, ends = join([tokens.add(*block) for block in blocks(found, positions)])
    assert divided(ids, ends) == expected
    assert tokens.last is None


def test_documents_that_continue() -> None:
    tokens = DocumentTokens(7, 9)
    none = np.zeros(0, np.int64)
    assert join([tokens.add(np.array([1, 9], DTYPE), none)]) == ([7, 1, 9], [])
    assert tokens.last == 9
    assert join([tokens.add(np.array([], DTYPE), none)]) == ([], [])
    assert join([tokens.add(np.array([2], DTYPE), np.array([0]))]) == ([7, 2], [0]), "ends with 9 already"
    assert join([tokens.add(np.array([], DTYPE), np.array([0, 0]))]) == ([9, 7, 9], [1, 3]), (
        "the open document, and an empty one"
    )


@given(documents, cuts, st.integers(0, 3), st.sampled_from([0.0, 0.3, 0.7]), st.sampled_from([0, 5]))
def test_choice_depends_on_documents_alone(
    found: Documents, positions: list[int], seed: int, fraction: float, unit: int
) -> None:
    drawn = draw_documents(seed, unit, 0, len(found))
    sides: dict[bool, Documents] = {False: [], True: []}
    for document, number in zip(found, drawn.tolist(), strict=True):
        sides[number < fraction].append(document)
    choice = DocumentChoice(fraction, seed)
    if unit:  # it begins in the first one
        choice.begin_unit(unit)
    pairs = [choice.divide(*block) for block in blocks(found, positions)]
    for side in (False, True):
        assert divided(*join([pair[side] for pair in pairs])) == sides[side]


def test_drawn_numbers_are_uniform_and_fixed() -> None:
    drawn = draw_documents(3, 17, 0, 20_000)
    assert abs(drawn.mean() - 0.5) < 0.02
    assert abs((drawn < 0.005).mean() - 0.005) < 0.003
    assert np.array_equal(draw_documents(3, 17, 1000, 10), drawn[1000:1010])
    assert draw_documents(0, 0, 0, 2).tolist() == [0.6524484863740322, 0.7012121095215252]
    assert not np.array_equal(draw_documents(4, 17, 0, 10), drawn[:10])
    assert not np.array_equal(draw_documents(3, 18, 0, 10), drawn[:10])


def expected_shards(found: Documents, limit: int | None, exact: bool) -> list[Documents]:
    shards: list[Documents] = [[]]
    for document in found:
        rest = document
        fragments = 0
        while True:
            size = sum(map(len, shards[-1]))
            if limit is not None and size >= limit:
                if not rest and fragments:
                    break
                shards.append([])
                size = 0
            room = limit - size if exact and limit is not None else len(rest)
            shards[-1].append(rest[:room])
            fragments += 1
            rest = rest[room:]
            if not rest:
                break
    return shards


@given(documents, cuts, st.sampled_from([None, 1, 3, 7, 100]), st.booleans())
def test_shards_end_at_documents(
    tmp_path_factory: pytest.TempPathFactory, found: Documents, positions: list[int], limit: int | None, exact: bool
) -> None:
    folder = tmp_path_factory.mktemp("spools")
    options = SinkOptions(
        DTYPE, shard_tokens=limit, shard_exact=exact and limit is not None, token_lengths=np.arange(6, dtype=np.uint32)
    )
    sink = SpoolSink(folder, options)
    sink.begin_output(0)
    for ids, ends in blocks(found, positions):
        sink.write(False, ids, ends, 0)
    sink.finish()
    sink.close()
    shards = []
    for record in read_closed(folder):
        ids, ends = join(list(read_spool(folder, record, DTYPE, has_ends=True)))
        shards.append(divided(ids, ends))
        assert record.tokens == len(ids)
        assert record.documents == len(ends)
        assert record.bytes == sum(ids)
        assert ids_path(folder, record.number).stat().st_size == 2 * len(ids)
        assert ends_path(folder, record.number).stat().st_size == END_DTYPE.itemsize * len(ends)
    assert shards == expected_shards(found, limit, options.shard_exact)


def test_empty_documents_after_one_that_fills_a_shard(tmp_path: Path) -> None:
    sink = SpoolSink(tmp_path, SinkOptions(DTYPE, shard_tokens=2, token_lengths=np.arange(6, dtype=np.uint32)))
    sink.begin_output(0)
    sink.write(False, np.array([1, 2], DTYPE), np.array([], np.int64), 0)  # it continues
    sink.write(False, np.array([3], DTYPE), np.array([0, 0, 1]), 0)
    sink.finish()
    sink.close()
    found = [join(list(read_spool(tmp_path, record, DTYPE, has_ends=True))) for record in read_closed(tmp_path)]
    assert found == [([1, 2], [2]), ([3], [0, 1])]


@given(documents, cuts, st.integers(0, 8), st.sampled_from([None, 3]))
def test_sink_continues_from_a_snapshot(
    tmp_path_factory: pytest.TempPathFactory,
    found: Documents,
    positions: list[int],
    stop: int,
    limit: int | None,
) -> None:
    def write(folder: Path, interrupted: bool) -> dict[str, bytes]:
        options = SinkOptions(DTYPE, sides=(False, True), shard_tokens=limit)
        sink = SpoolSink(folder, options)
        sink.begin_output(0)
        for index, (ids, ends) in enumerate(blocks(found, positions)):
            if interrupted and index == stop:
                state, changed = sink.state(), sink.changed()
                sink.write(False, np.full(5, 9, DTYPE), np.array([2, 5]), 3)  # belongs to an unfinished unit
                sync_paths(changed)
                sink.close()
                sink = SpoolSink(folder, options, state)
            sink.write(index % 3 == 0, ids, ends, len(ids))
        sink.finish()
        sink.close()
        used = {record.number for record in read_closed(folder)}
        return {path.name: path.read_bytes() for path in folder.iterdir() if not path.stem.isdigit() or int(path.stem) in used}

    assert write(tmp_path_factory.mktemp("a"), False) == write(tmp_path_factory.mktemp("b"), True)


def test_blocks_of_a_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpejit.jobs.spools.BLOCK_TOKENS", 4)
    found = [[1, 2, 3], [], [4], [], [], [5] * 9, [6], []]
    sink = SpoolSink(tmp_path, SinkOptions(DTYPE))
    sink.begin_output(0)
    for ids, ends in blocks(found, []):
        sink.write(False, ids, ends, 1)
    sink.finish()
    sink.close()
    (record,) = read_closed(tmp_path)
    pieces = list(read_spool(tmp_path, record, DTYPE, has_ends=True))
    assert max(ids.size for ids, _ in pieces) == 4
    assert divided(*join(pieces)) == found
    assert join(list(read_spool(tmp_path, record, DTYPE, has_ends=False)))[1] == []
