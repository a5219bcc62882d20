"""Tests of `bpejit stats`."""

from __future__ import annotations

import csv
import json

import pytest
from conftest import data_text, small
from helpers.cli import invoke, run

import bpejit


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stats")
    for name in ("prose", "cjk"):
        (folder / f"{name}.txt").write_bytes(data_text(f"{name}.txt")[: small(60_000, 3000)])
    for size in (300, 280):
        bpejit.train([folder / "prose.txt"], vocab_size=size).save(folder / str(size))
    return folder


def succeeds(*arguments):
    result = invoke("stats", *arguments)
    assert result.exit_code == 0, result.output
    return result


def test_report(folder):
    result = succeeds(folder / "300", folder / "prose.txt", folder / "cjk.txt", "--scripts", "--against", folder / "280")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["text", "bytes", "characters", "words", "tokens", "used"]
    (head,) = (line.split() for line in lines if line.startswith("script "))
    assert head == ["script", "bytes", "characters", "words", "tokens", "bytes", "each", "characters", "words"]
    for start in ("total", "tokens relative to", "Han ", "used ", "0 to ", "2 to 9"):
        assert any(line.startswith(start) for line in lines), start
    assert result.stderr.startswith("counted ")


def test_names(folder):
    arguments = [folder / "300", folder / "prose.txt", "--against", folder / "280", "--name", "ours", "--name", "theirs"]
    lines = succeeds(*arguments).stdout.splitlines()
    (head,) = (line.split() for line in lines if line.startswith("tokens of "))
    assert head == ["tokens", "of", "ours", "relative", "to", "theirs"]
    head = succeeds(*arguments, "--csv", "-").stdout.splitlines()[0]
    assert head.endswith(",tokens of theirs")
    assert invoke("stats", *arguments, "--name", "third").exit_code == 1


def test_json(folder):
    options = ["--against", folder / "280", "--label", "asian=*cjk*", "--count", "3", "--json"]
    found = json.loads(succeeds(folder / "300", folder / "prose.txt", folder / "cjk.txt", *options).stdout)
    ids = bpejit.load(folder / "300").encode((folder / "prose.txt").read_bytes())
    assert found["groups"][0]["tokens"] == len(ids)
    assert found["groups"][1]["name"] == "asian"
    assert found["total"]["tokens"] == sum(group["tokens"] for group in found["groups"])
    others = bpejit.load(folder / "280").encode((folder / "prose.txt").read_bytes())
    assert found["against"][0]["groups"][str(folder / "prose.txt")] == len(others)
    assert found["against"][0]["ratio"] == found["total"]["tokens"] / found["against"][0]["tokens"] <= 1
    assert len(found["longest"]) == 3


def test_scripts(folder):
    found = json.loads(succeeds(folder / "300", folder / "prose.txt", folder / "cjk.txt", "--scripts", "--json").stdout)
    assert sum(entry["words"] for entry in found["scripts"]) == found["total"]["words"]
    for entry in found["scripts"]:
        assert entry["words_per_token"] == entry["words"] / entry["tokens"]


def test_csv(folder):
    result = succeeds(folder / "300", folder / "prose.txt", folder / "cjk.txt", "--csv", "-", "--against", folder / "280")
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert [row["name"] for row in rows] == [str(folder / "prose.txt"), str(folder / "cjk.txt"), "total"]
    assert int(rows[2]["tokens"]) == int(rows[0]["tokens"]) + int(rows[1]["tokens"])
    assert int(rows[0]["tokens of 280"]) >= int(rows[0]["tokens"])
    assert invoke("stats", folder / "300", folder / "prose.txt", "--csv", "-", "--json").exit_code == 2
    out = folder / "figures.csv"
    written = succeeds(folder / "300", folder / "prose.txt", folder / "cjk.txt", "--csv", out, "--against", folder / "280")
    assert "most frequent" in written.stdout
    assert out.read_text(encoding="utf-8") == result.stdout
    refused = invoke("stats", folder / "300", folder / "prose.txt", "--csv", out)
    assert (refused.exit_code, "`--overwrite`" in refused.stderr) == (1, True)
    refused = invoke("stats", folder / "300", folder / "prose.txt", "--csv", folder / "prose.txt", "--overwrite")
    assert "it is one of the inputs" in refused.stderr
    refused = invoke("stats", folder / "300", folder / "prose.txt", "new.csv")
    assert (refused.exit_code, "give `--csv new.csv`" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_standard_input_is_read_for_each_tokenizer(folder):
    done = run("stats", folder / "300", "-", "--against", folder / "300", "--json", input=b"some words here")
    found = json.loads(done.stdout)
    assert found["against"][0]["ratio"] == 1
    assert found["total"]["words"] == 3
    empty = run("stats", folder / "300", "-", input=b"")
    assert empty.returncode == 1
    assert b"the corpus (`-`) contains no text" in empty.stderr


def test_wrong_label(folder):
    result = invoke("stats", folder / "300", folder / "prose.txt", "--label", "english")
    assert result.exit_code == 2
    assert "expected a label, `=`, and a glob" in result.stderr


def test_hostile_names(folder, tmp_path):
    path = tmp_path / "a\x1b[31m.txt"
    path.write_bytes(b"text \x1b[31m\xe2\x80\xae")
    result = succeeds(folder / "300", path, folder / "prose.txt")
    assert "\x1b" not in result.stdout
    assert "\\u001b" in result.stdout
