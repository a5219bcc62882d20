"""Tests of encoding jobs on each form of input: interrupted, resumed and divided."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from conftest import data_text, small

import bpejit

pytest.importorskip("pyarrow")

from helpers.input_forms import FORMS, write_form

END = "<|endoftext|>"


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    model = bpejit.Model(
        tokens={byte: bytes([byte]) for byte in range(256)} | {256: b"th", 257: b"he"},
        merges=[(b"t", b"h"), (b"h", b"e")],
        special_tokens={END: 300},
        unicode="16.0",
    )
    return bpejit.Tokenizer.from_model(model)


@pytest.fixture(scope="module")
def documents() -> list[str]:
    draw = random.Random(3)
    text = data_text("cjk.txt").decode().replace(END, "").replace("\n", " ").replace("\r", " ")
    lengths = [draw.choice([0, 1, 20, 300, 900]) for _ in range(small(60, 12))]
    return [text[start : start + length] or "x" for start, length in zip(range(0, 100_000, 997), lengths, strict=False)]


class Interrupt:
    def __init__(self, calls: int) -> None:
        self.left = calls

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_forms_are_resumed_and_divided(tmp_path: Path, tokenizer: bpejit.Tokenizer, documents: list[str], form: str) -> None:
    path, reading = write_form(tmp_path, form, documents)
    options: dict[str, Any] = {
        **reading,
        "append_token": END,
        "document_index": True,
        "shard_tokens": 3000,
        "val_fraction": 0.2,
        "unit_bytes": 3000,
        "chunk_bytes": 700,
    }
    report = tokenizer.encode_files(path, tmp_path / "a.bin", engine="serial", **options)
    assert report.documents == len(documents)
    expected = {p.name[1:]: p.read_bytes() for p in tmp_path.glob("a-*")}
    train, aside = ([bpejit.open_tokens(p) for p in report.paths if ("val" in p.name) == side] for side in (False, True))
    found = [t.document(k).tolist() for tokens in (train, aside) for t in tokens for k in range(t.n_documents)]
    assert sorted(found) == sorted([*tokenizer.encode_ordinary(text), 300] for text in documents)
    for calls in range(2, 60, 20):
        try:
            tokenizer.encode_files(path, tmp_path / "b.bin", engine="serial", progress=Interrupt(calls), resume=True, **options)
            break
        except KeyboardInterrupt:
            pass
    tokenizer.encode_files(path, tmp_path / "b.bin", engine="threads", workers=2, resume=True, **options)
    assert {p.name[1:]: p.read_bytes() for p in tmp_path.glob("b-*")} == expected
    for part in range(3):
        tokenizer.encode_files(path, tmp_path / "c.bin", engine="serial", shard=(part, 3), **options)
    assert {p.name[1:]: p.read_bytes() for p in tmp_path.glob("c-*")} == expected


def test_texts_from_python(tmp_path: Path, tokenizer: bpejit.Tokenizer, documents: list[str]) -> None:
    report = tokenizer.encode_files(iter(documents), tmp_path / "a.bin", append_token=END, document_index=True)
    assert report.documents == len(documents)
    tokens = bpejit.open_tokens(report.path)
    assert [tokens.document(k).tolist() for k in range(tokens.n_documents)] == [
        [*tokenizer.encode_ordinary(text), 300] for text in documents
    ]


def test_skipped_records_are_counted_once(tmp_path: Path, tokenizer: bpejit.Tokenizer) -> None:
    lines = ['{"text": "good"}', "broken", '{"other": 1}', '{"text": "more"}'] * 40
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    options: dict[str, Any] = {"unit_bytes": 300, "chunk_bytes": 100}
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode_files(tmp_path / "a.jsonl", tmp_path / "a.bin", progress=Interrupt(20), engine="serial", **options)
    report = tokenizer.encode_files(tmp_path / "a.jsonl", tmp_path / "a.bin", resume=True, **options)
    assert report.kept_units > 0
    assert (report.documents, report.skipped.count) == (80, 80)
    assert "line 2" in str(report.skipped.first[0])
    with pytest.raises(bpejit.CorpusError, match="line 2"):
        tokenizer.encode_files(tmp_path / "a.jsonl", tmp_path / "b.bin", strict=True, **options)
    (tmp_path / "bad.jsonl").write_text('{"no": 1}\n')
    with pytest.raises(bpejit.CorpusError, match="none of the 1 records has a text"):
        tokenizer.encode_files(tmp_path / "bad.jsonl", tmp_path / "c.bin")
    assert not (tmp_path / "c.bin").exists()


def test_part_whose_records_have_no_text(tmp_path: Path, tokenizer: bpejit.Tokenizer) -> None:
    good, bad = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    good.write_text('{"text": "good"}\n' * 20)
    bad.write_text('{"no": 1}\n' * 40)
    first = tokenizer.encode_files([good, bad], tmp_path / "a.bin", shard=(1, 2), unit_bytes=100)
    assert (first.documents, first.skipped.count > 0, first.missing_parts) == (0, True, 1)
    whole = tokenizer.encode_files([good, bad], tmp_path / "a.bin", shard=(0, 2), unit_bytes=100)
    assert (whole.documents, whole.skipped.count, whole.missing_parts) == (20, 40, 0)
    tokenizer.encode_files(bad, tmp_path / "b.bin", shard=(1, 2), unit_bytes=100)
    with pytest.raises(bpejit.CorpusError, match="none of the 40 records has a text"):
        tokenizer.encode_files(bad, tmp_path / "b.bin", shard=(0, 2), unit_bytes=100)
    assert {path.name for path in tmp_path.iterdir()} == {"a.jsonl", "b.jsonl", "a.bin", "a.bin.json", "a.bin.manifest.json"}
