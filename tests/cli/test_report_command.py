"""Tests of `bpejit report`, without a browser."""

from __future__ import annotations

import base64
import json
import re
import zlib
from itertools import pairwise

import numpy as np
import pytest
from conftest import data_text, small
from helpers.cli import invoke, run

import bpejit


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for name in ("prose", "cjk"):
        (folder / f"{name}.txt").write_bytes(data_text(f"{name}.txt")[: small(30_000, 2000)])
    for size in (300, 280):
        bpejit.train([folder / "prose.txt"], vocab_size=size, special_tokens=["<|e|>"]).save(folder / str(size))
    return folder


def unpack(page):
    """Return the arrays of a page, with the bytes of merged tokens and the ids of tokens that another tokenizer lacks."""
    meta = json.loads(re.search(r'id="meta">(.*?)</script>', page)[1])
    block = zlib.decompress(base64.b64decode(re.search(r'id="data">(.*?)</script>', page)[1]))
    arrays = {}
    for name, (dtype, offset, count) in meta["arrays"].items():
        width = np.dtype(dtype).itemsize
        parts = np.frombuffer(block, np.uint8, count * width, offset).reshape(width, count)
        arrays[name] = np.ascontiguousarray(parts.T).view(f"<{dtype}").ravel()
    ends = np.cumsum(arrays["lengths"]).tolist()
    tokens = [arrays["pool"][start:end].tobytes() for start, end in pairwise([0, *ends])]
    for number, (left, right) in enumerate(zip(arrays["left"].tolist(), arrays["right"].tolist(), strict=True)):
        if left >= 0:
            assert not tokens[number]
            tokens[number] = tokens[left] + tokens[right]
    arrays["pool"] = np.frombuffer(b"".join(tokens), np.uint8)
    for name in [name for name in arrays if name.startswith("shared")]:
        ids = np.full(arrays[name].size, -1)
        ids[arrays[name] == 1] = arrays[name.replace("shared", "other")]
        arrays[name.replace("shared", "other")] = ids
    return arrays


@pytest.mark.slow
def test_page(folder, tmp_path):
    out = tmp_path / "report.html"
    arguments = ["report", folder / "300", folder / "prose.txt", folder / "cjk.txt", "--against", folder / "280", "--out", out]
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    page = out.read_text(encoding="utf-8")
    tokenizer = bpejit.load(folder / "300")
    arrays = unpack(page)
    assert arrays["pool"].tobytes() == b"".join(tokenizer.vocab.values())
    ids = [number for name in ("prose", "cjk") for number in tokenizer.encode((folder / f"{name}.txt").read_bytes())]
    assert arrays["counts"].tolist() == np.bincount(ids, minlength=300).tolist()
    for rank, (left, right) in enumerate(tokenizer.merges):
        number = tokenizer.token_to_id(left + right)
        pair = [tokenizer.id_to_token(int(arrays[name][number])) for name in ("left", "right")]
        assert pair == [left, right], rank
    other = bpejit.load(folder / "280")
    assert arrays["other0"].tolist() == [
        -1 if (found := other.token_to_id(t)) is None else found for t in tokenizer.vocab.values()
    ]
    assert tokenizer.sha256 in page
    assert other.sha256 in page
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)
    assert invoke(*arguments).exit_code == 1  # exists
    assert invoke(*arguments, "--overwrite").exit_code == 0


def test_page_without_texts_to_standard_output(folder):
    done = run("report", folder / "300", "--out", "-", "--quiet")
    assert done.returncode == 0, done.stderr
    page = done.stdout.decode()
    assert page.startswith("<!DOCTYPE html>")
    assert "counts" not in unpack(page)
    assert "自然" in re.sub("<[^>]*>", "", page)


def test_names_and_labels(folder):
    arguments = ["report", folder / "300", folder / "prose.txt", folder / "cjk.txt", "--against", folder / "280", "--out", "-"]
    page = invoke(*arguments, "--name", "first", "--label", "C/C++=*cjk.txt").stdout
    assert "<title>first: tokenizer report</title>" in page
    assert json.loads(re.search(r'id="meta">(.*?)</script>', page)[1])["names"] == ["first", "280"]
    titles = re.findall(r'<h4><span class="path">(.*?)</span>', page)
    assert titles[:2] == [str(folder / "prose.txt"), "C/C++"]
    for names, message in ((["a", "b", "c"], "expected at most one for each"), (["280"], "for two tokenizers")):
        result = invoke(*arguments, *(word for name in names for word in ("--name", name)))
        assert result.exit_code == 1
        assert message in result.stderr
