"""Tests of `bpejit show`, and of `Tokenizer.show`."""

from __future__ import annotations

import json
import re

import pytest
from conftest import data_text, read_shared, small
from helpers.cli import ENVIRONMENT, invoke, run

import bpejit


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("show")
    (folder / "corpus.txt").write_bytes(data_text("prose.txt")[: small(30_000, 3000)])
    bpejit.train([folder / "corpus.txt"], vocab_size=small(400, 280), special_tokens=["<|e|>"]).save(folder / "tokenizer")
    return folder / "tokenizer"


def succeeds(*arguments, **options):
    result = invoke("show", *arguments)
    assert result.exit_code == 0, result.output
    return result


def test_plain_text(tokenizer):
    result = succeeds(tokenizer, "the cat\n\x1b[1m │ \\ <|e|>")
    tokens = [bpejit.load(tokenizer).id_to_token(number) for number in bpejit.load(tokenizer).encode("the cat")]
    assert result.stdout.startswith("│".join(token.decode() for token in tokens) + "│\\n\n│\\u001b")
    assert "\x1b" not in result.stdout
    assert result.stdout.count("│") == len(bpejit.load(tokenizer).encode("the cat\n\x1b[1m │ \\ <|e|>")) - 1
    assert result.stdout.endswith("│<|e|>\n")
    assert re.fullmatch(r"\d+ tokens, \d+ bytes, [\d.]+ bytes per token\n", result.stderr)


def test_text_from_standard_input_and_files(tokenizer, tmp_path):
    (tmp_path / "text.txt").write_bytes(b"hello\n\xff")
    shown = succeeds(tokenizer, "--file", tmp_path / "text.txt").stdout
    piped = run("show", tokenizer, "-", input=b"hello\n\xff")
    assert piped.returncode == 0
    assert piped.stdout.decode() == shown
    assert shown.endswith("│\\n\n│\\xff\n")
    ascii_only = run("show", tokenizer, "é a", env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"})
    assert ascii_only.returncode == 0
    assert b"|" in ascii_only.stdout
    assert invoke("show", tokenizer).exit_code == 2
    assert invoke("show", tokenizer, "a", "--file", "b").exit_code == 2
    assert succeeds(tokenizer, "").stdout == "\n"


def test_colors(tokenizer):
    result = succeeds(tokenizer, "the \x1b]0;title\x07", "--color", "always")
    assert re.sub(r"\x1b\[[\d;]*m", "", result.stdout) == "the \\u001b]0;title\\u0007\n"
    assert "\x1b[" in result.stdout
    assert "\x1b" not in succeeds(tokenizer, "the", "--color", "auto").stdout


def test_columns(tokenizer):
    lines = succeeds(tokenizer, "thé", "--ids", "--bytes", "--offsets").stdout.splitlines()
    assert lines[0].split() == ["id", "bytes", "characters", "hex", "token"]
    assert lines[-1].split()[1:] == ["3:4", "2:3", "a9", "│\\xa9│"]


def test_json_and_merges(tokenizer):
    found = json.loads(succeeds(tokenizer, "the the<|e|>", "--json", "--merges").stdout)
    loaded = bpejit.load(tokenizer)
    assert [token["id"] for token in found["tokens"]] == loaded.encode("the the<|e|>")
    assert found["tokens"][-1]["special"]
    assert [entry["pretoken"] for entry in found["merges"]] == ["the", " the"]
    for entry in found["merges"]:
        assert entry["steps"][-1]["result"] == entry["result"]
        assert loaded.merges[entry["steps"][0]["rank"]] == tuple(
            entry["steps"][0]["token"][i:j].encode() for i, j in ((0, 1), (1, 2))
        )
    plain = succeeds(tokenizer, "the", "--merges").stdout.splitlines()
    assert plain[0] == "   bytes  t│h│e"
    assert plain[1].endswith("  t│he")
    assert "\x1b[" in succeeds(tokenizer, "the", "--merges", "--color", "always").stdout
    assert "\x1b[" in succeeds(tokenizer, "the", "--ids", "--color", "always").stdout


def test_show_in_notebooks(tokenizer):
    shown = bpejit.load(tokenizer).show("the </script>&\u202e<|e|>\n")
    assert repr(shown).endswith("│<|e|>│\\n\n")
    html = shown._repr_html_()
    assert "</script" not in html
    assert "<i>\\u202e</i>" in "".join(re.split(r"</span><span[^>]*>", html)) or "<i>\\xe2</i>" in html
    assert html.count("<span") == len(shown.rows)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("text", ["Hello, world", "自然语言处理很有趣。", "مرحبا بالعالم"])
def test_published_vocabulary(text, tmp_path):
    path = tmp_path / "cl100k_base.tiktoken"
    path.write_bytes(read_shared("vocabs/cl100k_base.tiktoken"))
    found = json.loads(succeeds(path, text, "--json", "--merges").stdout)
    assert b"".join(bytes.fromhex(token["bytes"]) for token in found["tokens"]).decode() == text
    assert all(entry["steps"][-1]["result"] == entry["result"] for entry in found["merges"] if entry["steps"])
