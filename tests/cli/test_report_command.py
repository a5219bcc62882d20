"""Tests of `bpejit report`, without a browser."""

from __future__ import annotations

import base64
import json
import re
import zlib

import numpy as np
import pytest
from conftest import data_text, small
from helpers.cli import invoke, run

import bpejit

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for name in ("prose", "cjk"):
        (folder / f"{name}.txt").write_bytes(data_text(f"{name}.txt")[: small(30_000, 2000)])
    for size in (300, 280):
        bpejit.train([folder / "prose.txt"], vocab_size=size, special_tokens=["<|e|>"]).save(folder / str(size))
    return folder


def unpack(page):
    """Return the arrays of a page."""
    meta = json.loads(re.search(r'id="meta">(.*?)</script>', page)[1])
    block = zlib.decompress(base64.b64decode(re.search(r'id="data">(.*?)</script>', page)[1]))
    return {
        name: np.frombuffer(block, dtype=f"<{dtype}", offset=offset, count=count)
        for name, (dtype, offset, count) in meta["arrays"].items()
    }


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
    assert "自然" in page or "\\xe8" in page
