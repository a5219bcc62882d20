"""`bpejit count`, `merge-counts`, `counts` and `train --counts`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import data_text, small
from helpers.cli import invoke


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    text = data_text("prose.txt")[: small(40_000, 2_000)]
    for name, part in (("a.txt", text[: len(text) // 2]), ("b.txt", text[len(text) // 2 :])):
        Path(name).write_bytes(part)
    return tmp_path


def fine(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout + result.stderr


def folder_bytes(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_training_from_merged_counts_gives_the_folder_of_the_text(work: Path) -> None:
    options = ["--pattern", "o200k", "--special-token", "<s>"]
    fine("count", "b.txt", *options, "--out", "b.counts", "--max-memory", "1G")
    summary = fine("count", "a.txt", *options, "--out", "a.counts")
    assert "counted" in summary
    assert "wrote `a.counts`" in summary
    assert "merged 2 files" in fine("merge-counts", "b.counts", "a.counts", "--out", "all.counts")
    fine("train", "a.txt", "b.txt", *options, "--vocab-size", "350", "--out", "text")
    fine("train", "--counts", "all.counts", "--vocab-size", "350", "--out", "merged")
    fine("train", "--counts", "b.counts", "--counts", "a.counts", "--vocab-size", "350", "--out", "both")
    assert folder_bytes("text") == folder_bytes("merged") == folder_bytes("both")
    assert sorted(path.name for path in work.iterdir() if path.name.startswith(".")) == []


def test_counts_files_are_described_and_converted(work: Path) -> None:
    fine("count", "a.txt", "--out", "a.counts", "--no-special-tokens")
    shown = fine("counts", "info", "a.counts", "--verify")
    assert "verified" in shown
    assert "1 input" in shown
    fine("counts", "export", "a.counts", "--out", "a.tsv")
    assert invoke("counts", "export", "a.counts").stdout.encode() == Path("a.tsv").read_bytes()
    fine("counts", "import", "a.tsv", "--out", "again.counts", "--no-special-tokens")
    one, other = (json.loads(fine("counts", "info", name, "--json")) for name in ("a.counts", "again.counts"))
    for name in ("pattern", "unicode", "special_tokens", "pretokens", "distinct_pretokens", "bytes"):
        assert one[name] == other[name]
    assert one["inputs"][0]["path"] == "a.txt"
    assert one["special_tokens"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--vocab-size", "300"], "Missing argument 'INPUT...'"),
        (["train", "a.txt", "--counts", "a.counts", "--vocab-size", "300"], "cannot be combined"),
        (["train", "--counts", "a.counts", "--vocab-size", "300", "--pattern", "gpt2"], "`--pattern` and `--counts`"),
        (["train", "--counts", "a.counts", "--vocab-size", "300", "--pad-token", "<p>"], "--pad-token is '<p>'"),
        (["train", "--counts", "a.txt", "--vocab-size", "300"], "`a.txt` is not a counts file"),
        (["count", "a.txt"], "Missing option"),
        (["count", "a.txt", "--out", "a.counts"], "already exists"),
        (["count", "a.txt", "--out", "a.txt", "--overwrite"], "one of the inputs"),
        (["count", "a.txt", "--out", "new.counts", "--max-memory", "1M"], "--max-memory is 1000000; expected at least"),
        (["merge-counts", "a.counts", "b.counts", "--out", "new.counts"], "cannot merge `b.counts` with `a.counts`"),
        (["counts", "import", "a.txt", "--out", "new.counts"], "`a.txt`, line 1: found"),
        (["counts", "export", "a.counts", "--json"], "writes to standard output"),
    ],
)
def test_errors(work: Path, arguments: list[str], message: str) -> None:
    fine("count", "a.txt", "--out", "a.counts")
    fine("count", "b.txt", "--out", "b.counts", "--pattern", "cl100k")
    before = sorted(path.name for path in work.iterdir())
    result = invoke(*arguments)
    assert result.exit_code != 0
    assert message in result.stderr
    assert sorted(path.name for path in work.iterdir()) == before
