"""Tests of `bpejit compare`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import data_text, small
from helpers.cli import invoke, run
from helpers.encoding import make_model

import bpejit
from bpejit.inspection.vocabulary_measures import compare_vocabularies


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    for name in ("prose", "cjk"):
        text = data_text(f"{name}.txt")[: small(60_000, 3000)].decode("utf-8", "ignore")
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        bpejit.train([folder / f"{name}.txt"], vocab_size=small(400, 280)).save(folder / name)
    return folder


def test_vocabularies():
    merges = [(b"a", b"b"), (b"ab", b"b"), (b"b", b"b")]
    first, second = make_model(merges, ["<|a|>"]), make_model([merges[0], merges[2], (b"c", b"c")], ["<|b|>"])
    found = compare_vocabularies(first, second)
    assert (found["shared"], found["only_first"], found["only_second"]) == (258, [b"abb"], [b"cc"])
    assert (found["only_first_special"], found["only_second_special"]) == (["<|a|>"], ["<|b|>"])
    assert found["same_merges"] == 1
    assert found["rank_correlation"] == pytest.approx(1)
    assert [(row["first"], row["second"], row["rank_of_first"], row["rank_of_second"]) for row in found["ranks"]] == [
        (b"ab", b"ab", 0, 0),
        (b"abb", b"bb", None, 2),
        (b"bb", b"cc", 1, None),
    ]
    assert compare_vocabularies(first, first)["same_merges"] == 3


def test_report(folder):
    files = [folder / "prose.txt", folder / "cjk.txt"]
    result = invoke("compare", folder / "prose", folder / "cjk", *files)
    assert result.exit_code == 0, result.output
    for part in ("shared", "only in", "rank in B", "total", "ratio"):
        assert part in result.stdout
    found = json.loads(invoke("compare", folder / "prose", folder / "cjk", *files, "--json", "--texts", "2").stdout)
    tokenizers = [bpejit.load(folder / name) for name in ("prose", "cjk")]
    for group, path in zip(found["groups"], files, strict=True):
        assert group["tokens"] == [len(tokenizer.encode(path.read_bytes())) for tokenizer in tokenizers]
    assert [text["path"] for text in found["texts"]] == [str(path) for path in files]
    for text in found["texts"]:
        lengths = [len(tokenizer.encode(text["text"])) for tokenizer in tokenizers]
        assert list(map(len, text["tokens"])) == lengths
        assert text["ratio"] == pytest.approx(lengths[0] / lengths[1])
    assert abs(np.log(found["texts"][0]["ratio"])) > abs(np.log(found["groups"][0]["ratio"]))


def test_without_inputs_and_in_colors(folder):
    assert invoke("compare", folder / "prose", folder / "prose").exit_code == 0
    named = invoke("compare", folder / "prose", folder / "cjk", "--name", "English").stdout.splitlines()[0]
    assert named.split() == ["vocabulary", "A", "English", "B", "cjk"]
    result = invoke("compare", folder / "prose", folder / "cjk", folder / "cjk.txt", "--color", "always")
    assert "\x1b[" in result.stdout
    done = run("compare", folder / "prose", folder / "cjk", "-", input="\x1b[31m hostile \u202e text here".encode())
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout
