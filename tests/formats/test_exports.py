"""Tests of the extra files of exports: modules for tiktoken, and `tokenizer_config.json` for GPT-2's pair."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from helpers.cli import invoke
from helpers.formats import load_gpt2_pair, save_gpt2_pair, write_tiktoken

import bpejit
from bpejit.errors import TokenizerFormatError
from bpejit.formats.tiktoken_ranks import module_path
from bpejit.model import Model

END = "<|endoftext|>"
BYTES = {byte: bytes([byte]) for byte in range(256)}
MODEL = Model({**BYTES, 256: b"ab"}, [(b"a", b"b")], {END: 257, "<é>": 258}, "gpt2")


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("mine", "mine_encoding"),
        ("my.v1", "my_v1_encoding"),
        ("50k base", "_50k_base_encoding"),
        ("größe", "gr__e_encoding"),
        ("a-b", "a_b_encoding"),
        ("class", "class_encoding"),
    ],
)
def test_exported_module_can_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str) -> None:
    pytest.importorskip("tiktoken")
    path = tmp_path / f"{name}.tiktoken"
    write_tiktoken(MODEL, path)
    assert module_path(path) == tmp_path / f"{module}.py"
    monkeypatch.syspath_prepend(tmp_path)
    try:
        found = importlib.import_module(module)
    finally:
        sys.modules.pop(module, None)
    assert found.encoding.encode("ab<é>c", allowed_special="all") == [256, 258, 99]
    assert found.encoding.name == name


def test_export_prints_code_that_loads_the_file(tmp_path: Path) -> None:
    pytest.importorskip("tiktoken")
    assert bpejit.Tokenizer.from_model(MODEL).save(tmp_path / "own") is None
    result = invoke("export", tmp_path / "own", "--to", "tiktoken", "--out", tmp_path / "my.v1.tiktoken")
    line = result.stderr.splitlines()[-1].strip()
    assert line == "from my_v1_encoding import encoding"
    names: dict[str, object] = {}
    sys.path.insert(0, str(tmp_path))
    try:
        exec(line, names)
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("my_v1_encoding", None)
    assert "encoding" in names
    result = invoke("export", tmp_path / "own", "--to", "gpt2", "--out", tmp_path / "pair")
    assert f"AutoTokenizer.from_pretrained({str(tmp_path / 'pair')!r})" in result.stderr


def test_pair_has_configuration_for_transformers(tmp_path: Path) -> None:
    save_gpt2_pair(MODEL, tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_bytes())
    assert config["tokenizer_class"] == "GPT2Tokenizer"
    assert config["eos_token"] == config["bos_token"] == config["unk_token"] == END
    assert {number: token["content"] for number, token in config["added_tokens_decoder"].items()} == {"257": END, "258": "<é>"}
    assert all(token["special"] and not token["normalized"] for token in config["added_tokens_decoder"].values())
    # `transformers` finds the tokens in the vocabulary by their text.
    vocab = json.loads((tmp_path / "vocab.json").read_bytes())
    assert (vocab[END], vocab["<é>"]) == (257, 258)
    assert load_gpt2_pair(tmp_path / "vocab.json") == MODEL
    (tmp_path / "other").mkdir()
    save_gpt2_pair(Model(BYTES, [], {"<pad>": 256}), tmp_path / "other")
    # GPT2Tokenizer would set missing ones to `<|endoftext|>`.
    config = json.loads((tmp_path / "other" / "tokenizer_config.json").read_bytes())
    assert config["eos_token"] is config["bos_token"] is config["unk_token"] is None


@pytest.mark.parametrize("text", ["é", "<\udc80>"])
def test_special_token_unknown_to_transformers_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(TokenizerFormatError, match="cannot be written to"):
        save_gpt2_pair(Model(BYTES, [], {text: 256}), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_suffix_of_a_rank_file_selects_its_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tokenizer = bpejit.Tokenizer({number: bytes([number]) for number in range(256)}, [])
    tokenizer.save("tokenizer")
    assert invoke("export", "tokenizer", "--out", "mine.tiktoken").exit_code == 0
    assert (tmp_path / "mine.tiktoken").read_bytes().startswith(b"AA== 0\n")
    refused = invoke("export", "tokenizer", "--to", "hf", "--out", "other.tiktoken")
    assert refused.exit_code == 1
    assert "has a suffix of the format tiktoken, and the format is hf" in refused.stderr
    with pytest.raises(TokenizerFormatError, match="the format is gpt2"):
        tokenizer.save("other.tiktoken", format="gpt2")
    with pytest.raises(TokenizerFormatError, match="the format is bpejit"):
        tokenizer.save("other.tiktoken", format="bpejit")
    assert not (tmp_path / "other.tiktoken").exists()
    tokenizer.save("other.tiktoken")
    assert (tmp_path / "other.tiktoken").read_bytes() == (tmp_path / "mine.tiktoken").read_bytes()


@pytest.mark.parametrize("name", ["tokenizer.json", "mine.tiktoken", "mine.model"])
def test_folders_do_not_get_the_suffix_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("some text\n" * 10, encoding="utf-8")
    for command in (["train", "text.txt", "--vocab-size", "260"], ["train", "text.txt", "--vocab-size", "260", "--dry-run"]):
        refused = invoke(*command, "--out", name)
        assert refused.exit_code == 1
        assert f"`{name}` has the suffix of a file, and a tokenizer is saved as a folder" in refused.stderr
    bpejit.train("text.txt", vocab_size=260).save("tokenizer")
    assert "is saved as a folder" in invoke("shrink", "tokenizer", "--vocab-size", "257", "--out", name).stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["text.txt", "tokenizer"]
