"""Tests of all commands with vocabularies of characters, fallback to bytes, and missing bytes: `tokenizers` has equal ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cli import invoke
from helpers.symbols import KINDS, TEXT, TEXTS, UNSEEN, write_kind
from tokenizers import Tokenizer as HuggingFace

import bpejit

PLAIN = UNSEEN.replace("<", "(")
"""Without special tokens, which are ordinary text in records."""

DOCUMENTS = [text for text in (TEXT, PLAIN, *TEXTS[4:-1]) if text.strip()] * 3


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write_kind(request.param, tmp_path)
    write_kind("metaspace", tmp_path / "other")
    Path("text.txt").write_bytes((TEXT + UNSEEN).encode())
    Path("text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in DOCUMENTS))
    name: str = request.param
    return name


def run(*arguments: str, json_report: bool = True) -> Any:
    """Run a command; return its report, or its output."""
    result = invoke(*arguments, *(["--json"] if json_report else []))
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if json_report else result.stdout


def expected() -> list[list[int]]:
    reader = HuggingFace.from_file("tokenizer.json")
    return [found.ids for found in reader.encode_batch(DOCUMENTS, add_special_tokens=False)]


def documents(path: str) -> list[list[int]]:
    tokens = bpejit.open_tokens(path)
    return [tokens.document(number).tolist() for number in range(tokens.n_documents)]


def test_show_and_split(kind: str) -> None:
    text = "the  cats ☃ 東"
    report = run("show", "tokenizer.json", text, "--merges")
    ids = HuggingFace.from_file("tokenizer.json").encode(text, add_special_tokens=False).ids
    assert [token["id"] for token in report["tokens"]] == ids
    for merge in report["merges"]:
        last = merge["steps"][-1]["result"] if merge["steps"] else merge["symbols"]
        assert last == merge["result"]
    assert "the" in run("show", "tokenizer.json", text, json_report=False)
    Path("short.txt").write_text(text, encoding="utf-8")
    pretokens = run("split", "short.txt", "--tokenizer", "tokenizer.json")["inputs"][0]["pretokens"]
    assert list(dict.fromkeys(pretokens)) == [merge["pretoken"] for merge in report["merges"]]
    assert run("split", "text.txt", "--tokenizer", "tokenizer.json", "--stats")["distinct_pretokens"] > 20


def test_info_stats_compare_and_report(kind: str) -> None:
    info = run("info", "tokenizer.json")
    assert info["symbols"]["characters"] == (kind not in ("byte_level", "clip"))
    assert info["symbols"]["byte_fallback"] == (kind == "llama")
    assert "symbols" in run("info", "tokenizer.json", json_report=False)
    ids = HuggingFace.from_file("tokenizer.json").encode(TEXT + UNSEEN, add_special_tokens=False).ids
    assert run("stats", "tokenizer.json", "text.txt")["total"]["tokens"] == len(ids)
    compared = run("compare", "tokenizer.json", "other/tokenizer.json", "text.txt")
    assert compared["groups"][0]["tokens"][0] == len(ids)
    assert run("report", "tokenizer.json", "text.txt", "--against", "other/tokenizer.json", "--out", "r.html")["tokens"] == len(
        ids
    )
    assert Path("r.html").stat().st_size > 10_000


def test_verify_and_export(kind: str) -> None:
    assert run("verify", "tokenizer.json", "text.jsonl", "--against", "tokenizers")["ids"] == sum(map(len, expected()))
    run("export", "tokenizer.json", "--to", "hf", "--out", "exported")
    assert run("verify", "exported", "text.jsonl", "--against", "tokenizers")["ids"] == sum(map(len, expected()))
    refused = invoke("export", "tokenizer.json", "--to", "tiktoken", "--out", "a.tiktoken")
    assert refused.exit_code == 1
    assert "cannot be written for tiktoken: it" in refused.stderr
    smaller = run(
        "shrink", "tokenizer.json", "--vocab-size", str(bpejit.load("tokenizer.json").vocab_size - 20), "--out", "small"
    )
    assert smaller["vocab_size"] == bpejit.load("small").vocab_size
    extended = invoke("extend", "tokenizer.json", "text.txt", "--vocab-size", "1000", "--out", "extended")
    assert extended.exit_code == 1
    assert "cannot be extended: it" in extended.stderr


@pytest.mark.parametrize("engine", ["serial", "threads", "processes"])
def test_encode_and_decode(kind: str, engine: str) -> None:
    options = ["--tokenizer", "tokenizer.json", "--engine", engine, "--workers", "1" if engine == "serial" else "2"]
    run("encode", "text.jsonl", *options, "--out", "t.bin", "--document-index")
    assert documents("t.bin") == expected()
    run("encode", "text.jsonl", *options, "--out", "s.bin", "--resume", "--shard-tokens", "200")
    ids = np.concatenate([bpejit.open_tokens(path).ids for path in sorted(Path().glob("s-*.bin"))])
    assert ids.tolist() == [number for found in expected() for number in found]
    run("encode", "text.txt", *options, "--out", "one.bin")
    reader = HuggingFace.from_file("tokenizer.json")
    one = reader.encode(TEXT + UNSEEN, add_special_tokens=False).ids
    assert bpejit.open_tokens("one.bin").ids.tolist() == one
    run("decode", "one.bin", "--tokenizer", "tokenizer.json", "--out", "back.txt")
    decoded = Path("back.txt").read_bytes().decode("utf-8", "replace")
    assert decoded == reader.decode(one, skip_special_tokens=False)
    assert invoke("tokens", "verify", "t.bin", "--tokenizer", "tokenizer.json").exit_code == 0
    changed = invoke("tokens", "verify", "t.bin", "--tokenizer", "tokenizer.json", "--corpus", "text.jsonl")
    assert (changed.exit_code, "do not decode to the corpus" in changed.stderr) == (1, True)
