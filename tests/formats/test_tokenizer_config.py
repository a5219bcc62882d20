"""Tests of the settings for `transformers`: named special tokens, maximum length and chat template."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import invoke

import bpejit

TEMPLATE = "{% for message in messages %}{{ message.content }}{{ eos_token }}\n{% endfor %}é"
ALL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "model_max_length": 2048, "chat_template": TEMPLATE}


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "corpus.txt"
    path.write_text("low lower lowest, new newer newest. " * 20, encoding="utf-8")
    return path


def config_of(folder: str) -> dict[str, Any]:
    return json.loads(Path(folder, "tokenizer_config.json").read_text(encoding="utf-8"))


def test_train_adds_tokens_and_writes_settings(corpus: Path) -> None:
    found = bpejit.train(corpus, vocab_size=270, special_tokens=["<|endoftext|>", "<pad>"], **ALL)
    assert found.special_tokens == {"<|endoftext|>": 266, "<pad>": 267, "<s>": 268, "</s>": 269}
    found.save("t")
    assert {name: config_of("t")[name] for name in ALL} == ALL
    again = bpejit.load("t")
    assert again.model.config == found.model.config
    again.save("again")
    for name in ("tokenizer.json", "tokenizer_config.json", "bpejit.json"):
        assert Path("again", name).read_bytes() == Path("t", name).read_bytes()
    face = again.as_hf()
    assert (face.bos_token, face.eos_token, face.pad_token, face.model_max_length) == ("<s>", "</s>", "<pad>", 2048)


def test_settings_do_not_change_ids(corpus: Path) -> None:
    plain = bpejit.train(corpus, vocab_size=265, special_tokens=["<s>"])
    assert (
        bpejit.train(corpus, vocab_size=265, special_tokens=["<s>"], bos_token="<s>", model_max_length=9).sha256 == plain.sha256
    )
    plain.save("t")
    assert config_of("t").keys().isdisjoint(ALL)
    assert "config" not in json.loads(Path("t", "bpejit.json").read_bytes())


def test_save_accepts_settings(corpus: Path) -> None:
    tokenizer = bpejit.train(corpus, vocab_size=265, special_tokens=["<|endoftext|>", "<pad>"], model_max_length=5)
    tokenizer.save("t", pad_token="<pad>", chat_template=TEMPLATE)
    assert config_of("t")["pad_token"] == "<pad>"
    assert config_of("t")["eos_token"] == "<|endoftext|>"
    assert config_of("t")["model_max_length"] == 5
    assert tokenizer.model.config.pad_token is None
    tokenizer.save("pair", format="gpt2", pad_token="<pad>")
    assert config_of("pair")["pad_token"] == "<pad>"
    with pytest.raises(bpejit.SpecialTokenError, match=re.escape("bos_token is '<s>', which is not a special token")):
        tokenizer.save("u", bos_token="<s>")
    with pytest.raises(bpejit.OptionError, match="pad_token is given, which the format 'tiktoken' cannot store"):
        tokenizer.save("u.tiktoken", format="tiktoken", pad_token="<pad>")
    with pytest.raises(bpejit.ArgumentTypeError, match="pad_token is 5, an int; expected a str"):
        tokenizer.save("u", pad_token=5)
    with pytest.raises(bpejit.OptionError, match="model_max_length is 0; expected a whole number from 1 up"):
        bpejit.train(corpus, vocab_size=265, model_max_length=0)


def test_command_accepts_settings(corpus: Path) -> None:
    Path("chat.jinja").write_text(TEMPLATE, encoding="utf-8")
    options = ["--bos-token", "<s>", "--eos-token", "</s>", "--pad-token", "<pad>", "--model-max-length", "2048"]
    result = invoke("train", corpus, "--vocab-size", "270", "--out", "t", *options, "--chat-template", "chat.jinja")
    assert result.exit_code == 0, result.stderr
    assert {name: config_of("t")[name] for name in ALL} == ALL
    assert bpejit.load("t").special_tokens == {"<|endoftext|>": 266, "<s>": 267, "</s>": 268, "<pad>": 269}
    Path("chat.jinja").write_bytes(b"\xff")
    result = invoke("train", corpus, "--vocab-size", "270", "--out", "u", "--chat-template", "chat.jinja")
    assert result.exit_code == 2
    assert "`chat.jinja` is not UTF-8 at byte 0" in result.stderr


def test_folder_with_invalid_settings(corpus: Path) -> None:
    bpejit.train(corpus, vocab_size=265, special_tokens=["<s>"], bos_token="<s>").save("t")
    own = Path("t", "bpejit.json")
    for config, message in (({"bos_token": 5}, "bos_token is 5"), ({"bos_token": "x"}, "bos_token is 'x'"), ([], "config")):
        own.write_text(json.dumps({**json.loads(own.read_bytes()), "config": config}), encoding="utf-8")
        with pytest.raises(bpejit.BpejitError, match=message):
            bpejit.load("t")
