"""Tests of recognizing JSON: records are read, lists are refused, and text that begins like JSON is read with a warning."""

from __future__ import annotations

import gzip
import io
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner
from helpers.cli import SEPARATELY, invoke, program

import bpejit
from bpejit.corpus.json_lines import JsonLines
from bpejit.errors import BpejitWarning, CorpusError

MARK = b"\xef\xbb\xbf"
LINES = b'{"text": "one two"}\n{"text": "three"}\n'
LIST = [{"text": "one two"}, {"text": "three"}]
EXPECTED = {b"one": 1, b"two": 1, b"three": 1}
LONG = b"x" * 5000


def words(path: Path | str, **options: Any) -> dict[bytes, int]:
    return words_of(bpejit.count(path, pattern=r"\w+|\W", **options))


def words_of(counts: bpejit.Counts) -> dict[bytes, int]:
    return {word: n for word, n in counts.table.to_counts().items() if word.isalnum()}


RECORDS = {
    "mark.json": MARK + LINES,
    "mark.json.gz": gzip.compress(MARK + LINES),
    "mark.jsonl": MARK + LINES,
    "mark": MARK + LINES,
    "blank.json": b"\n" + LINES,
    "crlf.json": b"\r\n" + LINES.replace(b"\n", b"\r\n"),
    "mark and blank.json": MARK + b"\n \n" + LINES,
    "space.json": b" \t" + LINES,
    "comment.json": b"# made by hand\n" + LINES,
    "slashes.json": b"// made by hand\n" + LINES,
    "comment.long.json": b'# made by hand\n{"pad": "%b", "text": "one two three"}\n' % LONG[:4000],
    "comment.cut.json": b'# made by hand\n{"text": "one two"}\n{"pad": "%b", "text": "three"}\n' % LONG,
    "damaged.json": b'{"text": "cut o\n' + LINES,
    "a.jsonlines": LINES,
    "a.JSONLINES.zst": zstandard.compress(LINES),
    "a.jl": LINES,
    "a.ldjson": LINES,
    "no suffix": LINES,
    "a.jsonl.tmp": LINES,
    "a.json-00000-of-00001": LINES,
    "a.jsonl.gzip": gzip.compress(LINES),
    "a.jsonl.zstd": zstandard.compress(LINES),
    "no suffix but zstd": zstandard.compress(LINES),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).write_bytes(RECORDS[name])
    n_damaged = int(name.split(".")[0] in ("comment", "slashes", "damaged"))
    counts = bpejit.count(tmp_path / name, pattern=r"\w+|\W")
    assert words_of(counts) == EXPECTED
    assert counts.header.inputs[0].get("skipped", 0) == n_damaged
    if "jsonl" not in name:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RECORDS[name])))
        assert words("-") == EXPECTED


@pytest.mark.parametrize(
    "key",
    ["", "\\", '"', "k" * 81, "k" * 6000, "\u00e9" * 3000, "\\" * 4000],
    ids=["empty", "backslash", "quote", "long", "very long", "accents", "backslashes"],
)
@pytest.mark.parametrize("name", ["a.json", "a", "a.json.gz"])
def test_long_first_lines(name: str, key: str, tmp_path: Path) -> None:
    for value in ("x" * 5000, None, [1] * 3000):
        data = json.dumps({key: value, "text": "one"}).encode() + b"\n" + LINES
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        assert words(tmp_path / name) == {b"one": 2, b"two": 1, b"three": 1}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a", "a.json.gz", "-"])
def test_lists_of_records_are_refused(name: str, indent: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for records in (LIST, LIST * 500, [{}]):
        for start in (b"", MARK, b"\n "):
            data = start + json.dumps(records, indent=indent).encode() + b"\n"
            if name == "-":
                monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
                path = name
            else:
                path = str(tmp_path / name)
                Path(path).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
            with pytest.raises(CorpusError, match=r"is one JSON list of records; expected JSON lines: write each .* `jq -c"):
                bpejit.count(path)
    if name != "-":
        words(path, input_format="text")


def test_lines_that_are_lists_are_records_without_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'[{"text": "x"}]\n' + LINES)
    counts = bpejit.count(tmp_path / "a.jsonl", pattern=r"\w+|\W")
    assert words_of(counts) == EXPECTED
    assert counts.header.inputs[0]["skipped"] == 1


DOUBTFUL = {
    "package.json": json.dumps({"text": "a", "b": [1]}, indent=2).encode(),
    "numbers.json": b"[1, 2]",
    "one.json": b'{"type": "C", "features": [\n{"a": 1}\n]}',
    "records.txt": LINES,
    "list.txt": json.dumps(LIST).encode(),
    "a.md": b'\xef\xbb\xbf\n{"a": 1}\n',
    "a.jl": b'{"a": 1,\n"b": 2}',
    "a.txt.gz": gzip.compress(LINES),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_text_that_begins_like_json_is_reported(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(DOUBTFUL[name])
    expected = words(tmp_path / name, input_format="text") if not name.endswith("gz") else {b"text": 2, **EXPECTED}
    with pytest.warns(BpejitWarning, match=r"` is read as plain text.* look like JSON.*`input_format=\"text\"`") as caught:
        assert words(tmp_path / name) == expected
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_one_warning_names_several_inputs(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_bytes(LINES)
    with pytest.warns(BpejitWarning, match=r"/0.txt`, .*/2.txt` and 2 more inputs are read as plain text") as caught:
        bpejit.train(tmp_path, vocab_size=258)
    assert len(caught) == 1


TEXTS = {
    "a.md": b"[link](https://example.org) and [more]",
    "wiki": b"{{Infobox|name=x}}\n[[Category:X]]",
    "a.c": b'{\n    printf("a: b");\n}\n',
    "a.tex": b"[htb]\n{\\bf x}",
    "a.css": b'{ "quoted" }',
    "a.py": b"[1, 2, 3]",
    "b.py": b'["a", "b"]',
    "set.py": b'{"a", "b"}',
    "a.ini": b"[section]\nkey = 1",
    "poem": b'"So it is," he said: "now."\n',
    "a.jl": b'# Julia\nx = Dict("a" => 1)\n',
    "b.jl": b"{T}\n",
    "a.json": b"plain words\n",
    "Makefile": b"all:\n\tcc a.c\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_other_text_is_read_without_a_message(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(TEXTS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert words(tmp_path / name) == words(tmp_path / name, input_format="text")


def test_heads_that_end_anywhere() -> None:
    form = JsonLines()
    for name in ("a.json", "a", "-"):
        for data in (LINES, b'{"%b": 1}\n' % LONG, json.dumps(LIST, indent=1).encode()):
            for end in range(1, min(len(data), 300)):
                form.recognizes(name, data[:end])
                form.refuses(name, data[:end], chosen=True)
                form.resembles(name, data[:end])
    assert form.recognizes("a.json", (b'{"%b' % LONG)[:4096])
    assert not form.recognizes("a.json", b'{"abc')
    assert not form.recognizes("a.txt", LINES)


def test_commands_show_notes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_bytes(LINES)
    result = invoke("train", "a.txt", "--vocab-size", "258", "--out", "t")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("note: `a.txt` is read as plain text") == 1
    assert "with `--input-format text`" in result.stderr
    for arguments in (
        ["count", "a.txt", "--out", "c"],
        ["encode", "a.txt", "--tokenizer", "t", "--out", "o"],
        ["split", "a.txt"],
        ["stats", "t", "a.txt"],
    ):
        result = invoke(*arguments)
        assert result.exit_code == 0, result.stderr
        assert result.stderr.count("note: `a.txt` is read as plain text") == 1, arguments
    result = invoke("train", "a.txt", "--vocab-size", "258", "--out", "u", "--json")
    assert json.loads(result.stdout)["notes"][0].startswith("`a.txt` is read as plain text")
    for quiet in (["--input-format", "text"], ["--quiet"]):
        result = invoke("train", "a.txt", "--vocab-size", "258", "--out", "u", "--overwrite", *quiet)
        assert "plain text" not in result.stderr
    result = CliRunner(**SEPARATELY).invoke(
        program, ["encode", "-", "--tokenizer", "t", "--out", "p"], input=b'{"a": 1,\n"b": 2}'
    )
    assert "note: standard input is read as plain text" in result.stderr
