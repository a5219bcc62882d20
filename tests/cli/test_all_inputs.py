"""The commands `split`, `verify` and `subword` read all kinds of inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import invoke
from helpers.input_forms import write_form

import bpejit

pytestmark = pytest.mark.compiled

DOCUMENTS = ["it's 2026, isn't it?", "", "two\nlines", "a <|endoftext|> in the text", "é 日本" * 3]
FORMS = ["a.jsonl", "a.jsonl.gz", "one group.parquet", "file.arrow", "stream", "stream.arrow.zst"]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_json(*arguments: str) -> dict[str, Any]:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("form", FORMS)
def test_split(work: Path, form: str) -> None:
    path, _ = write_form(work, form, DOCUMENTS)
    expected: list[str] = []
    for number, text in enumerate(DOCUMENTS):
        Path(f"{number}.txt").write_text(text, encoding="utf-8")
        expected += read_json("split", f"{number}.txt")["inputs"][0]["pretokens"]
    found = read_json("split", str(path), "--special-token", "<|endoftext|>")
    assert found["inputs"][0]["pretokens"] == expected
    assert found["totals"]["bytes"] == len("".join(DOCUMENTS).encode())
    stats = read_json("split", str(path), "--stats", "--special-token", "<|endoftext|>", "--allow-special")
    assert stats["totals"]["special_tokens"] == 1


@pytest.mark.parametrize("form", FORMS)
def test_subword(work: Path, form: str) -> None:
    path, _ = write_form(work, form, DOCUMENTS)
    (work / "plain.txt").write_text("".join(f"{text}\n" for text in DOCUMENTS), encoding="utf-8")
    for name, source in (("plain", "plain.txt"), ("form", str(path))):
        assert invoke("subword", "train", source, "--vocab-size", "100", "--out", f"{name}.subwords", "-q").exit_code == 0
        report = read_json("subword", "encode", source, "--vocab", "plain.subwords", "--out", f"{name}.bin", "--append-eos")
        assert report["lines"] == len(DOCUMENTS) + 1
    assert Path("form.subwords").read_bytes() == Path("plain.subwords").read_bytes()
    assert Path("form.bin").read_bytes() == Path("plain.bin").read_bytes()


def test_records_without_text_are_reported(work: Path) -> None:
    (work / "a.jsonl").write_text('{"text": "some words"}\n{"other": 1}\n')
    shown = "skipped 1 record that has no text: `a.jsonl`, line 2"
    assert shown in invoke("split", "a.jsonl").stderr
    result = invoke("subword", "train", "a.jsonl", "--vocab-size", "20", "--out", "v")
    assert shown in result.stderr
    assert shown in invoke("subword", "encode", "a.jsonl", "--vocab", "v", "--out", "ids").stderr
    for arguments in (["split"], ["subword", "train", "--vocab-size", "20", "--out", "w"]):
        result = invoke(*arguments, "a.jsonl", "--strict")
        assert (result.exit_code, "a record has no text" in result.stderr) == (1, True)
    result = invoke("subword", "train", "a.jsonl", "--vocab-size", "20", "--out", "w", "--text-field", "none")
    assert "none of the 2 records has a text" in result.stderr
    assert not Path("w").exists()


@pytest.mark.parametrize("form", FORMS)
def test_verify(work: Path, form: str) -> None:
    pytest.importorskip("tokenizers")
    path, _ = write_form(work, form, DOCUMENTS)
    bpejit.train_from_iterator(DOCUMENTS * 3, vocab_size=270).save("tokenizer")
    report = read_json("verify", "tokenizer", str(path), "--against", "tokenizers")
    assert (report["equal"], report["documents"], report["skipped_records"]) == (True, len(DOCUMENTS), 0)
    assert report["bytes"] == len("".join(DOCUMENTS).encode())


def test_verify_counts_documents(work: Path) -> None:
    pytest.importorskip("tokenizers")
    bpejit.train_from_iterator(DOCUMENTS * 3, vocab_size=270).save("tokenizer")
    (work / "a.txt").write_text("one\ntwo<|endoftext|>three\n\nfour")
    for documents, number in (("separator", 2), ("line", 4), ("line-with-end", 4), ("file", 1)):
        options = ["--documents", documents]
        assert read_json("verify", "tokenizer", "a.txt", "--against", "tokenizers", *options)["documents"] == number
    (work / "a.jsonl").write_text('{"text": "some words"}\n{"other": 1}\n')
    result = invoke("verify", "tokenizer", "a.jsonl", "--against", "tokenizers")
    assert "equal to tokenizers" in result.stdout
    assert "skipped 1 record" in result.stderr
    (work / "none.jsonl").write_text('{"other": 1}\n')
    assert "none of the 1 records" in invoke("verify", "tokenizer", "none.jsonl", "--against", "tokenizers").stderr
