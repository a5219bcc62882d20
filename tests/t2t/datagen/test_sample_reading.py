"""Tests of reading samples: fields of lines, and lines of several files, for texts generated at random."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bpejit.corpus.blocks import ChunkReader
from bpejit.corpus.contents import Contents
from bpejit.corpus.sources import find_sources
from bpejit.errors import CorpusError
from bpejit.t2t.datagen.generation_job import gather_sequences
from bpejit.t2t.datagen.sample_reading import RECORDS, TABBED, Layout
from bpejit.t2t.datagen.sample_sources import SampleChunker, plan_inputs

PAIR = ("inputs", "targets")
LINES = st.lists(st.text(alphabet="ab \té\u3000\r", max_size=8), max_size=30)


def read(paths: list[Path], layout: Layout, unit_bytes: int) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the samples of files, and the places of those that were skipped."""
    sources = [find_sources([str(path)], Contents(input_format="auto", documents="line"))[0] for path in paths]
    samples: list[tuple[str, ...]] = []
    skipped: list[str] = []
    reader = ChunkReader()
    for chunk in SampleChunker().chunks(plan_inputs([sources], layout, 0, 0, unit_bytes)):
        block = chunk.read(reader)
        columns = [[text.decode() for text in block.texts[name]] for name in layout.names]
        samples += zip(*columns, strict=True)
        skipped += [record.place for record in block.skipped.first]
    return samples, skipped


@given(lines=LINES, ended=st.booleans(), unit_bytes=st.integers(1, 40))
def test_tabbed_lines(tmp_path_factory: pytest.TempPathFactory, lines: list[str], ended: bool, unit_bytes: int) -> None:
    path = tmp_path_factory.mktemp("lines") / "pairs.tsv"
    path.write_bytes("\n".join(lines).encode() + b"\n" * (ended and bool(lines)))
    text = path.read_bytes().decode()
    listed = text.split("\n")[: None if text and not text.endswith("\n") else -1]
    expected, places = [], []
    for number, line in enumerate(listed, start=1):
        fields = tuple(field.replace("\r", "").strip() for field in line.split("\t"))
        if len(fields) == 2 and all(fields):
            expected.append(fields)
        else:
            places.append(f"line {number}")
    samples, skipped = read([path], Layout(PAIR, TABBED, chunk_bytes=unit_bytes), unit_bytes)
    assert samples == expected
    assert skipped[:5] == places[: len(skipped[:5])]


def test_only_the_first_skipped_samples_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "empty.tsv"
    path.write_bytes(b"\n" * 300_000)
    layout = Layout(PAIR, TABBED, chunk_bytes=1 << 20)
    tracemalloc.start()
    try:
        samples, skipped = read([path], layout, 1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (samples, skipped) == ([], [f"line {number}" for number in range(1, 6)])
    assert peak < 34e6  # with all of them 42.5 MB instead of 25.7


@given(first=LINES, second=LINES, ended=st.tuples(st.booleans(), st.booleans()), unit_bytes=st.integers(1, 40))
def test_paired_lines(
    tmp_path_factory: pytest.TempPathFactory, first: list[str], second: list[str], ended: tuple[bool, bool], unit_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    paths = [folder / "source.txt", folder / "target.txt"]
    sides = []
    for path, lines, ends in zip(paths, (first, second), ended, strict=True):
        path.write_bytes("\n".join(lines).encode() + b"\n" * (ends and bool(lines)))
        text = path.read_bytes().decode()
        sides.append(text.split("\n")[: None if text and not text.endswith("\n") else -1])
    layout = Layout(PAIR, chunk_bytes=unit_bytes)
    if len(sides[0]) != len(sides[1]):
        short = int(len(sides[0]) > len(sides[1]))
        with pytest.raises(CorpusError, match=paths[short].name) as caught:
            read(paths, layout, unit_bytes)
        n_lines = len(sides[short])
        assert (f"ends after line {n_lines}," if n_lines else "is empty") in str(caught.value)
        return
    stripped = [tuple(line.replace("\r", "").strip() for line in pair) for pair in zip(*sides, strict=True)]
    samples, skipped = read(paths, layout, unit_bytes)
    assert samples == [pair for pair in stripped if all(pair)]
    places = [f"line {number}" for number, pair in enumerate(stripped, start=1) if not all(pair)]
    assert set(skipped) <= set(places)
    assert bool(skipped) == bool(places)


@given(records=st.lists(st.dictionaries(st.sampled_from("abc"), st.one_of(st.text(max_size=3), st.integers()))))
def test_records(tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("records") / "pairs.jsonl"
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    samples, skipped = read([path], Layout(PAIR, RECORDS, ("a", "b"), chunk_bytes=50), 100)
    values = [(record.get("a"), record.get("b")) for record in records]
    assert samples == [pair for pair in values if all(isinstance(value, str) and value for value in pair)]
    assert bool(skipped) == (len(samples) < len(records))


@given(rows=st.lists(st.lists(st.integers(0, 9))), data=st.data())
def test_gather_sequences(rows: list[list[int]], data: st.DataObject) -> None:
    starts = np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64))).astype(np.int64)
    ids = np.array([number for row in rows for number in row], dtype=np.uint32)
    order = data.draw(st.lists(st.integers(0, len(rows) - 1))) if rows else []
    found, new = gather_sequences(ids, starts, np.array(order, dtype=np.int64))
    assert [found[a:b].tolist() for a, b in pairwise(new)] == [rows[index] for index in order]
