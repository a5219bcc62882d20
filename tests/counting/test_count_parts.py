"""Counting in parts: their merged counts are those of all inputs, byte for byte, and repeated and missing parts are noticed."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from conftest import data_text
from helpers.input_forms import json_lines, write_parquet

import bpejit
from bpejit.errors import BpejitWarning, CountsError, OptionError


@pytest.fixture
def divided(tmp_path: Path) -> Path:
    """Return a folder with small and large texts in several forms."""
    prose = data_text("prose.txt")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "large.txt").write_bytes(b"\xef\xbb\xbf" + prose.replace(b" the ", b" the\r\n") + b"<|endoftext|>" + prose[:5000])
    for number in range(12):
        (folder / f"{number}.txt").write_bytes(prose[number * 300 : number * 1000])
    (tmp_path / "a.jsonl").write_bytes(b'{"other": 1}\n' + json_lines([prose[:3000].decode(errors="ignore")] * 9) + b"{}\n")
    write_parquet(tmp_path / "a.parquet", ["some text", "more"] * 50, row_group_size=7)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(prose[:9000]))
    return tmp_path


@pytest.mark.parametrize("parts", [1, 3, 16])
@pytest.mark.parametrize("options", [{}, {"normalize_newlines": True, "pattern": "cl100k"}, {"documents": "line"}])
def test_parts_merge_to_the_counts_of_the_whole(divided: Path, parts: int, options: dict[str, Any]) -> None:
    inputs = [divided / name for name in ("in", "a.jsonl", "a.parquet", "a.txt.gz")]
    whole = bpejit.count(inputs, out=divided / "whole.counts", **options)
    paths = [divided / f"{part}.counts" for part in range(parts)]
    counted = [bpejit.count(inputs, out=path, shard=(part, parts), **options) for part, path in enumerate(paths)]
    if parts == 3:
        assert max(one.n_bytes for one in counted) < whole.n_bytes / 2
    merged = bpejit.merge_counts(paths[::-1], divided / "merged.counts")
    assert (divided / "merged.counts").read_bytes() == (divided / "whole.counts").read_bytes()
    assert merged.inputs == whole.inputs
    if parts == 3:
        some = counted[2].merge(counted[0])
        assert some.header.parts
        assert some.merge(counted[1]) == whole
        with pytest.warns(BpejitWarning) as caught:
            bpejit.train_from_counts(some, vocab_size=300)
        assert any("2 of 3 parts of the inputs are counted; missing: 1" in str(one.message) for one in caught)


def test_repeated_parts_are_refused(divided: Path) -> None:
    first, second = (bpejit.count(divided / "in", shard=f"{part}/2") for part in range(2))
    with pytest.raises(CountsError, match="both are part 0 of 2"):
        first.merge(second, first)
    with pytest.raises(CountsError, match="both have counts of the input"):
        first.merge(bpejit.count(divided / "in"))
    with pytest.raises(CountsError, match="both have counts of the input"):
        first.merge(bpejit.count(divided / "in", shard="0/3"))
    assert first.merge(first, allow_repeated_inputs=True).n_bytes == 2 * first.n_bytes


def test_inputs_that_cannot_be_divided(divided: Path) -> None:
    with pytest.raises(OptionError, match="can be read only once"):
        bpejit.count(iter(["a text"]), shard="0/2")
    with pytest.raises(OptionError, match="max_bytes, which chooses from all of it"):
        bpejit.count(divided / "in", shard="0/2", max_bytes=1000)


def test_weighted_sources_in_parts(divided: Path) -> None:
    sources = {str(divided / "in" / "large.txt"): 3, str(divided / "in" / "1.txt"): 1}
    counted = [bpejit.count([], sources=sources, shard=(part, 4)) for part in range(4)]
    assert counted[0].merge(*counted[1:]) == bpejit.count([], sources=sources)
