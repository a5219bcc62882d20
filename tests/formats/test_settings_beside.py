"""Tests of the tokens and settings beside `tokenizer.json` and GPT-2's pair. The expected values are those of transformers."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from helpers.settings_cases import CASES, DECODER, END, LAST, STORED, config, write_case
from helpers.settings_observer import TEXTS, observe

import bpejit
from bpejit.errors import BpejitWarning, TokenizerFormatError

RESULTS = json.loads(STORED.read_text(encoding="utf-8"))


def load(path: Path) -> tuple[bpejit.Tokenizer, str]:
    """Return a tokenizer, and the text of all warnings about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BpejitWarning)
        tokenizer = bpejit.load(path)
    return tokenizer, "\n".join(str(warning.message) for warning in caught)


@pytest.mark.parametrize("name", CASES)
def test_folder_is_read_as_transformers_4_reads_it(tmp_path: Path, name: str) -> None:
    write_case(name, tmp_path / "f")
    tokenizer, warned = load(tmp_path / "f")
    expected, other = RESULTS[name]["4"], RESULTS[name]["other in 5"]
    assert observe(tokenizer.as_hf()) == expected
    if not expected["split_special_tokens"]:
        assert [list(tokenizer.encode(text)) for text in TEXTS] == expected["ids"]
    # What version 5 gives differently is said.
    assert ("transformers 5" in warned) == ("ids" in other), warned


@pytest.mark.parametrize("name", CASES)
def test_settings_are_kept(tmp_path: Path, name: str) -> None:
    write_case(name, tmp_path / "f")
    tokenizer, _ = load(tmp_path / "f")
    tokenizer.save(tmp_path / "bpejit")
    assert bpejit.load(tmp_path / "bpejit").sha256 == tokenizer.sha256
    assert observe(bpejit.load(tmp_path / "bpejit").as_hf()) == RESULTS[name]["4"]
    (tmp_path / "bpejit" / "bpejit.json").unlink()  # a folder of Hugging Face then
    again, warned = load(tmp_path / "bpejit")
    assert observe(again.as_hf()) == RESULTS[name]["4"]
    assert warned == ""


def test_single_file_is_read_alone(tmp_path: Path) -> None:
    write_case("token", tmp_path / "f")
    assert bpejit.load(tmp_path / "f" / "tokenizer.json").special_tokens == {END: LAST}
    write_case("pair", tmp_path / "p")
    with pytest.raises(TokenizerFormatError, match="does not contain a split pattern"):
        bpejit.load(tmp_path / "p" / "vocab.json")


def test_pattern_of_a_pair_is_said(tmp_path: Path) -> None:
    write_case("pair", tmp_path / "f")
    assert "read with the pattern gpt2, since a file beside it names the class GPT2Tokenizer" in load(tmp_path / "f")[1]
    given = bpejit.load(tmp_path / "f", pattern="gpt2")
    assert given.special_tokens == {END: LAST, "<x>": LAST + 1}
    assert bpejit.load(tmp_path / "f", pattern="gpt2", special_tokens=[END]).special_tokens == {END: LAST}
    with pytest.warns(BpejitWarning, match="without the tokens and settings beside it"):
        assert not bpejit.load(tmp_path / "f", pattern="cl100k").special_tokens


def test_exported_pair_is_unchanged(tmp_path: Path) -> None:
    tokenizer = bpejit.train_from_iterator(["a b a b"], vocab_size=260, special_tokens=[END, "<pad>"], pad_token="<pad>")
    tokenizer.save(tmp_path, format="gpt2")
    again, warned = load(tmp_path)
    assert (again.sha256, again.special_tokens, warned) == (tokenizer.sha256, tokenizer.special_tokens, "")
    assert again.as_hf().pad_token == "<pad>"
    (tmp_path / "added_tokens.json").write_text('{"<x>": 900}')
    settings = json.loads((tmp_path / "tokenizer_config.json").read_bytes())
    del settings["added_tokens_decoder"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    again, warned = load(tmp_path)
    assert again.special_tokens.keys() == {*tokenizer.special_tokens, "<x>"}
    assert "give '<x>' the id 900, and transformers gives it" in warned


def test_ids_of_the_files_that_transformers_ignores(tmp_path: Path) -> None:
    write_case("gap", tmp_path / "f")
    tokenizer, warned = load(tmp_path / "f")
    assert tokenizer.special_tokens == {END: LAST, "<y>": LAST + 1, "<x>": LAST + 2}
    assert f"give '<y>' the id {LAST + 5}, and transformers gives it {LAST + 1}, as here (2 such tokens)" in warned


def test_unknown_class(tmp_path: Path) -> None:
    write_case("token", tmp_path / "f")
    (tmp_path / "f" / "tokenizer_config.json").write_text('{"tokenizer_class": "OwnTokenizer"}')
    assert "has the class OwnTokenizer, which bpejit does not know" in load(tmp_path / "f")[1]


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"tokenizer_config.json": "{"}, "tokenizer_config.json` "),
    ({"tokenizer_config.json": "[]"}, "tokenizer_config.json` is .*; expected a JSON object"),
    (config(added_tokens_decoder={"x": DECODER[str(LAST)]}), "unexpected value"),
    (config(added_tokens_decoder={"5": "<x>"}), "'<x>' is not an added token"),
    (config(added_tokens_decoder=[1]), "unexpected value"),
    (config(pad_token=5), "5 is not an added token"),
    (config(padding_side="up"), "padding_side is 'up'"),
    (config(model_max_length="long"), "model_max_length is 'long'"),
    (config(chat_template=5), "chat_template is 5"),
    (config("LlamaTokenizer", bos_token=None), "add_bos_token is true, but there is no bos_token"),
    ({**config(), "added_tokens.json": '{"<x>": "y"}'}, "unexpected value"),
]


@pytest.mark.parametrize(("files", "message"), BROKEN)
def test_broken_settings(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    write_case("nothing", tmp_path / "f")
    for name, content in files.items():
        (tmp_path / "f" / name).write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(TokenizerFormatError, match=message):
        load(tmp_path / "f")


def test_error_of_the_tokenizer_itself_comes_first(tmp_path: Path) -> None:
    write_case("pad", tmp_path / "f")
    (tmp_path / "f" / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": 5, "merges": []}}')
    with pytest.raises(TokenizerFormatError, match=r"tokenizer.json`: `model.vocab` is 5"):
        bpejit.load(tmp_path / "f")
