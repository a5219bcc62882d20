"""Tests of `export --check`: results of other tools are reported, and failures are never reported as success."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import invoke

import bpejit
from bpejit.errors import TokenizerFormatError
from bpejit.formats.huggingface_writing import READ_PRESETS, not_read_by, note, pre_tokenizer_for, split_steps
from bpejit.model import Model
from bpejit.splitting import PRESETS
from bpejit.verification.acceptance import READERS_OF, check_readers, sample_texts
from bpejit.verification.reader_script import READERS

BYTES = {byte: bytes([byte]) for byte in range(256)}
MODEL = Model({**BYTES, 256: b"ab", 257: b"abc"}, [(b"a", b"b"), (b"ab", b"c")], {"<|endoftext|>": 258})
TEXTS = ["abc ab", "xabcx"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    bpejit.Tokenizer.from_model(MODEL).save(tmp_path / "saved")
    return tmp_path / "saved"


def answering(folder: Path, answer: dict[str, Any] | str, code: int = 0) -> Path:
    """Return a fake interpreter whose reader prints a given answer."""
    python = folder / "python"
    printed = answer if isinstance(answer, str) else json.dumps(answer)
    python.write_text(
        f"#!{sys.executable}\nimport sys\nprint({printed!r})\nprint('it broke', file=sys.stderr)\nsys.exit({code})\n"
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return python


def test_tokenizers_and_tiktoken_give_equal_ids(tmp_path: Path, saved: Path) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("tiktoken")
    tokenizer = bpejit.load(saved)
    (found,) = check_readers(tokenizer, saved, readers=["tokenizers"])
    assert (found.status, found.detail) == ("equal", "")
    assert found.version
    tokenizer.save(tmp_path / "my.v1.tiktoken", format="tiktoken")
    (found,) = check_readers(tokenizer, tmp_path / "my.v1.tiktoken")
    assert (found.reader, found.status, found.detail) == ("tiktoken", "equal", "")


def test_other_ids_are_detected(saved: Path) -> None:
    pytest.importorskip("tokenizers")
    other = bpejit.Tokenizer.from_model(Model(MODEL.tokens, MODEL.merges[:1], MODEL.special_tokens))
    (found,) = check_readers(other, saved, readers=["tokenizers"], texts=TEXTS)
    assert found.status == "different"
    assert "it returns [257, 32, 256], not [256, 99, 32, 256]" in found.detail


@pytest.mark.parametrize(
    ("answer", "code", "status", "detail"),
    [
        ({"version": "1", "ids": [[257, 32, 256], [120, 257, 120]]}, 0, "equal", ""),
        ({"version": "1", "ids": [[257, 32, 256], [120, 257]]}, 0, "different", "near 'xabcx' it returns [], not [120]"),
        ({"version": "1", "error": "ValueError: no\n such pattern"}, 0, "refused", "ValueError: no such pattern"),
        ({"absent": "No module named 'x'"}, 0, "absent", "No module named 'x'"),
        ("", 3, "refused", "its process ended with exit code 3: it broke"),
        ({"version": "1", "tokens": ["a"]}, 0, "different", "it has 1 tokens, not 259"),
    ],
)
def test_answers_of_readers(
    tmp_path: Path, saved: Path, answer: dict[str, Any] | str, code: int, status: str, detail: str
) -> None:
    tokenizer = bpejit.load(saved)
    (found,) = check_readers(tokenizer, saved, readers=["x"], python=answering(tmp_path, answer, code), texts=TEXTS)
    assert found.status == status
    assert detail in found.detail
    assert bool(detail) == bool(found.detail)


def test_each_format_has_supported_readers() -> None:
    assert {reader for readers in READERS_OF.values() for reader in readers} == set(READERS)
    texts = sample_texts(MODEL)
    assert any("<|endoftext|>" in text for text in texts)
    assert not any("<|endoftext|>" in text for text in sample_texts(MODEL, special_tokens=False))


def test_private_folder(tmp_path: Path) -> None:
    tokenizer = bpejit.Tokenizer.from_model(Model(BYTES, [], pattern=r"(?<=a)b|\w+|\W"))
    tokenizer.save(tmp_path / "own")
    with pytest.raises(TokenizerFormatError, match="is not for other tools"):
        check_readers(tokenizer, tmp_path / "own")


def test_command(tmp_path: Path, saved: Path) -> None:
    pytest.importorskip("tokenizers")
    result = invoke("export", saved, "--check")
    assert result.exit_code == 0, result.output
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert list(lines) == list(READERS_OF["bpejit"])
    assert lines["tokenizers"].endswith("reads it with equal ids")
    result = invoke("export", saved, "--to", "hf", "--out", tmp_path / "out", "--check")
    assert result.exit_code == 0
    assert "reads it with equal ids" in result.stdout
    assert "note: kitoken 0.11 does not read this split pattern, or not with equal ids" in result.stderr
    for arguments in ([], ["--to", "hf"], ["--out", "x", "--check"]):
        result = invoke("export", saved, *arguments)
        assert result.exit_code == 2
        assert "`--to` and `--out` belong together" in result.stderr


def test_export_reports_readers_that_refuse_a_pattern(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    refused = {name: not_read_by(Model(BYTES, [], pattern=name)) for name in PRESETS}
    assert refused["llama3"] == refused["o200k"] == refused["cl100k-legacy"] == []
    assert refused["cl100k"] == refused["nanochat"] == ["tokenizers 1.0.0rc3", "gigatoken 0.10"]
    assert refused["qwen3.5"] == ["tokenizers 1.0.0rc3"]
    assert refused["kimi-k2"] == ["gigatoken 0.10"]
    assert refused["starcoder"] == ["gigatoken 0.10", "kitoken 0.11"]
    assert refused["gpt2"] == ["kitoken 0.11"]
    own = Model(BYTES, [], pattern=r"\w+|\W")
    assert note(own).startswith("tokenizers 1.0.0rc3 and gigatoken 0.10 do not read this split pattern")
    assert note(Model(BYTES, [], pattern="llama3")) == ""
    with caplog.at_level("INFO", logger="bpejit.formats"):
        bpejit.Tokenizer.from_model(own).save(tmp_path / "own")
        assert not caplog.records
        bpejit.Tokenizer.from_model(own).save(tmp_path / "public", format="hf")
    assert note(own) in caplog.text
    result = invoke("export", tmp_path / "own", "--to", "hf", "--out", tmp_path / "out")
    assert "note: tokenizers 1.0.0rc3 and gigatoken 0.10 do not read" in result.stderr


def test_presets_written_as_their_pattern() -> None:
    for names in READ_PRESETS.values():
        for name in {*names} - {"gpt2", "r50k", "p50k", "cl100k-legacy", "deepseek-v3", "starcoder"}:
            assert pre_tokenizer_for(PRESETS[name]) == split_steps(PRESETS[name])
