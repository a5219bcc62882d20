"""Tests of units: they cover their sources, depend on nothing but sizes, and change no ids."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from conftest import data_text, small

from bpejit.corpus.chunks import Chunker
from bpejit.corpus.sources import find_sources
from bpejit.corpus.units import Unit, plan_units
from bpejit.encoding.encoder import Encoder
from bpejit.jobs.encode_job import encode_job
from bpejit.model import Model

END = "<|endoftext|>"
TEXTS = ["", "Hello world", "\n\nfoo", " 12345", "\r\n", "x" * 50, ">> a\n\n\n", "\u4e2d\u6587 caf\u00e9", "  \t "]


def make_encoder(pattern: str, special_tokens: tuple[str, ...] = (END,)) -> Encoder:
    tokens = {byte: bytes([byte]) for byte in range(256)} | {256: b"th", 257: b"el", 258: b">>", 259: b"\n\n", 260: b"  "}
    special = {text: 300 + index for index, text in enumerate(special_tokens)}
    merges = [(b"t", b"h"), (b"e", b"l"), (b">", b">"), (b"\n", b"\n"), (b" ", b" ")]
    return Encoder(Model(tokens=tokens, merges=merges, pattern=pattern, special_tokens=special, unicode="16.0"))


def encode(encoder: Encoder, units: list[Unit], chunker: Chunker) -> tuple[list[int], list[int], list[bool]]:
    """Return the ids of units, the positions where documents end, and for each unit whether a document ends with it."""
    worker = encode_job(encoder, "uint16").start()
    ids: list[int] = []
    ends: list[int] = []
    complete = []
    for unit in units:
        for chunk in chunker.chunks(unit.sources):
            found = worker.run(chunk)
            ends += (found.ends + len(ids)).tolist()
            ids += found.ids.tolist()
        complete.append(not ids or (bool(ends) and ends[-1] == len(ids)))
    return ids, ends, complete


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"(?<=a)b|\w+|\W"])
@pytest.mark.parametrize("unit_bytes", [1, 40, 300, 10_000])
def test_units_change_no_ids(tmp_path: Path, pattern: str, unit_bytes: int) -> None:
    draw = random.Random(f"{pattern} {unit_bytes}")
    path = tmp_path / "a.txt"
    path.write_text("".join(draw.choice(TEXTS) + draw.choice([END, END, ""]) for _ in range(small(150, 40))), newline="")
    encoder = make_encoder(pattern, (END, "<|end", "of<|endoftext|>x"))
    sources = find_sources([path])
    chunker = Chunker(encoder.splitter, chunk_bytes=64)
    expected = encode(encoder, [Unit(0, 0, tuple(sources), path.stat().st_size)], chunker)
    units = plan_units(sources, unit_bytes, chunker, END.encode())
    assert sum(unit.size or 0 for unit in units) == path.stat().st_size
    found = encode(encoder, units, chunker)
    assert found[:2] == expected[:2]
    # At the end of a file a border may be missed; then no part begins there.
    assert all(done for unit, done in zip(units[1:], found[2], strict=False) if unit.starts_document)
    assert unit_bytes == 10_000 or sum(unit.starts_document for unit in units) > 3


def test_units_of_a_corpus_begin_after_documents(tmp_path: Path) -> None:
    data = data_text("prose.txt")[: small(800_000, 20_000)]
    path = tmp_path / "prose.txt"
    path.write_bytes(data)
    encoder = make_encoder("cl100k")
    chunker = Chunker(encoder.splitter)
    units = plan_units(find_sources([path]), small(200_000, 5_000), chunker, END.encode())
    assert len(units) > 2
    for unit in units[1:]:
        (source,) = unit.sources
        assert unit.starts_document
        assert data[: source.start].endswith(END.encode())
    assert units == plan_units(find_sources([path]), small(200_000, 5_000), chunker, END.encode())


def test_text_without_documents_is_cut_anyway(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(b"some words " * 3000)
    encoder = make_encoder("gpt2", ())
    chunker = Chunker(encoder.splitter)
    units = plan_units(find_sources([path]), 5000, chunker, None)
    assert len(units) == 7
    assert [unit.starts_document for unit in units] == [True] + [False] * 6
    units = plan_units(find_sources([path]), 5000, chunker, b"<|absent|>")
    assert 1 < len(units) < 7
    assert not any(unit.starts_document for unit in units[1:])


def test_small_sources_share_units(tmp_path: Path) -> None:
    sizes = [10, 0, 20, 500, 30, 40, 50]
    for index, size in enumerate(sizes):
        (tmp_path / f"{index}.txt").write_bytes(b"a " * (size // 2))
    sources = find_sources([tmp_path / f"{index}.txt" for index in range(len(sizes))])
    encoder = make_encoder("gpt2")
    chunker = Chunker(encoder.splitter)
    units = plan_units(sources, 100, chunker, END.encode())
    assert [unit.number for unit in units] == list(range(len(units)))
    assert [[Path(s.path).stem for s in unit.sources] for unit in units if unit.size and unit.size < 100] == [
        ["0", "1", "2"],
        *[["3"]] * sum(1 for unit in units if unit.first_source == 3 and (unit.size or 0) < 100),
        ["4"] if sizes[4] + sizes[5] > 100 else ["4", "5"],
        ["6"],
    ]
    assert sum(unit.size or 0 for unit in units) == sum(source.length or 0 for source in sources) == sum(sizes)
    apart = plan_units(sources, 100, chunker, END.encode(), grouped=False)
    assert {unit.first_source for unit in apart} == set(range(len(sizes)))
    assert all(len(unit.sources) == 1 for unit in apart)
    ids = [np.array(encode(encoder, plan, chunker)[0]) for plan in (units, apart)]
    assert np.array_equal(*ids)
