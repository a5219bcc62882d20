"""Tests of the format of a token file that the suffix of its path selects, in Python and in commands."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from helpers.cli import invoke
from helpers.token_files import END, byte_tokenizer, write_documents

import bpejit
from bpejit.errors import OptionError
from bpejit.tokenfiles import check_suffix, output_format
from bpejit.tokenfiles.opening import format_of, open_tokens


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t.npy", "npy"),
        ("t.NPY", "npy"),
        ("t.parquet", "parquet"),
        ("t.arrow", "arrow"),
        ("t.feather", "arrow"),
        ("t.ds", "datatrove"),
        ("t.idx", "megatron"),
        ("t.ids", "text"),
        ("t.bin", "bin"),
        ("t", "bin"),
        ("t.u16", "bin"),
        ("s3://bucket/a.b/t.parquet", "parquet"),
        ("-", "bin"),
        ("/dev/null", "bin"),
        (None, "bin"),
        (io.BytesIO(), "bin"),
    ],
)
def test_suffix_selects_the_format(name: object, expected: str) -> None:
    assert output_format(name) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("t.bin", "megatron"),
        ("t.bin", "llmc"),
        ("t", "parquet"),
        ("t.u16", "npy"),
        ("t.txt", "text"),
        ("-", "text"),
    ],
)
def test_named_formats(name: str, form: str) -> None:
    assert output_format(name, form) == form
    check_suffix(name, form)


@pytest.mark.parametrize(
    ("name", "form", "message"),
    [
        ("t.npy", "bin", "has a suffix of files of the format npy, and the format is bin"),
        ("t.parquet", "arrow", "of the format parquet, and the format is arrow"),
        ("t.bin", "npy", "of the format bin or megatron or llmc, and the format is npy"),
        ("t.idx", "npy", "of the format megatron"),
        ("t.jsonl", "auto", r"has a suffix of JSON, and the format is bin; expected a suffix of bin \(.bin\), npy"),
        ("t.json", "parquet", "has a suffix of JSON, and the format is parquet"),
        ("t.txt", "auto", "has a suffix of text"),
        ("t.txt", "bin", "has a suffix of text"),
        ("t.npy.gz", "npy", "has a suffix of compressed files"),
        ("t.pt", "auto", "has a suffix of files of other libraries"),
        ("s3://bucket/t.npy", "bin", "of the format npy"),
    ],
)
def test_contradictions_are_refused(name: str, form: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_suffix(name, output_format(name, form))


def test_encoding_and_converting(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    (tmp_path / "a.txt").write_text(f"ab{END}c")
    for name, form in (("t.npy", "npy"), ("t.parquet", "parquet"), ("t.feather", "arrow"), ("t.ds", "datatrove")):
        tokenizer.encode_files(tmp_path / "a.txt", tmp_path / name)
        assert format_of(tmp_path / name).name == form
        assert open_tokens(tmp_path / name).ids.tolist() == [97, 98, 256, 99]
        out = tmp_path / f"out-{name}"
        assert bpejit.convert_tokens(tmp_path / "t.npy", out).format == form
        assert open_tokens(out).ids.tolist() == [97, 98, 256, 99]
    assert np.load(tmp_path / "t.npy").tolist() == [97, 98, 256, 99]
    tokenizer.encode_files(tmp_path / "a.txt", tmp_path / "s.npy", shard_tokens=3)
    assert np.load(tmp_path / "s-00000.npy").tolist() == [97, 98, 256]
    tokenizer.encode_files(tmp_path / "a.txt", out_dir=tmp_path / "folder.npy")
    assert (tmp_path / "folder.npy" / "a.txt.bin").exists()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OptionError, match="the format is bin"):
        tokenizer.encode_files(tmp_path / "a.txt", tmp_path / "new.npy", format="bin")
    with pytest.raises(OptionError, match=r"`.*/new` has the suffix of no format"):
        bpejit.convert_tokens(tmp_path / "t.npy", tmp_path / "new")
    assert sorted(tmp_path.iterdir()) == before


def test_commands_name_the_format_and_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    byte_tokenizer().save("tokenizer")
    Path("a.txt").write_text("abc")
    assert "wrote `t.npy` (npy, 134 bytes, uint16)" in " ".join(invoke("encode", "a.txt", "--out", "t.npy").stderr.split())
    assert json.loads(invoke("encode", "a.txt", "--out", "u.npy", "--json").stdout)["format"] == "npy"
    assert "to `v.npy` (npy, uint16)" in " ".join(invoke("encode", "a.txt", "--out", "v.npy", "--dry-run").stderr.split())
    found = " ".join(invoke("encode", "a.txt", "--out", "m", "--format", "megatron").stderr.split())
    assert "wrote `m.bin`, `m.idx` (megatron, 68 bytes, uint16)" in found
    found = invoke("tokens", "convert", "t.npy", "--out", "d.ds").output
    assert "wrote `d.ds`, `d.ds.index`, `d.ds.metadata` (datatrove, " in " ".join(found.split())
    refused = invoke("encode", "a.txt", "--out", "t.jsonl")
    assert refused.exit_code == 1
    assert "has a suffix of JSON" in refused.stderr
    assert "has the suffix of no format" in invoke("tokens", "convert", "t.npy", "--out", "w").stderr
    assert "give one of them" in invoke("encode", "a.txt", "--out", "w", "--text", "--format", "bin").stderr
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] == "w") == []


def test_other_files_stay_what_they_are(tmp_path: Path) -> None:
    write_documents(tmp_path / "t.npy", [[1, 2], [3]], name="bin")  # an old file with a misleading name
    assert open_tokens(tmp_path / "t.npy").ids.tolist() == [1, 2, 3]
