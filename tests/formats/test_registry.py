"""Test of the recipe for a new tokenizer format in CONTRIBUTING.md: a class and one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import invoke
from helpers.formats import PAIR, RANKED

import bpejit
from bpejit.errors import ArgumentTypeError, OutputError, TokenizerFormatError
from bpejit.formats import register, unregister
from bpejit.formats.any_format import file_patterns, load_model, recognize, save_model, tokenizer_files
from bpejit.formats.base import TokenizerFormat, all_formats, load_format, writable_names
from bpejit.formats.folder_writing import save_folder
from bpejit.model import Model
from bpejit.storage.files import replacing


class HexFormat(TokenizerFormat):
    """A third-party format: tokens in hexadecimal, and pairs of them."""

    name = "hex"
    expected = "a file `NAME.hex`"
    suffixes = (".hex",)
    complete = False
    writable = True

    def recognizes(self, head: bytes, content: Any) -> bool:
        return isinstance(content, dict) and "hex" in content

    def read(self, path: Path, *, pattern: Any = None, special_tokens: Any = None, unicode: Any = None) -> Model:
        fields = json.loads(path.read_bytes())
        tokens = {int(token_id): bytes.fromhex(token) for token_id, token in fields["hex"].items()}
        merges = [(bytes.fromhex(left), bytes.fromhex(right)) for left, right in fields["merges"]]
        return Model(tokens, merges, dict(special_tokens or {}), pattern=pattern or "gpt2")

    def write(self, model: Model, path: Any, *, legacy_merges: bool = False, overwrite: bool = False) -> None:
        if model.ranked:
            raise TokenizerFormatError("ranked models have no merges; expected merges: choose another format")
        self.check_write(path, overwrite=overwrite)
        fields = {
            "hex": {token_id: token.hex() for token_id, token in model.tokens.items()},
            "merges": [[left.hex(), right.hex()] for left, right in model.merges],
        }
        with replacing(path) as file:
            file.write(json.dumps(fields).encode())


@pytest.fixture
def hex_format() -> Iterator[None]:
    register("hex", HexFormat)
    yield
    unregister("hex")


@pytest.mark.usefixtures("hex_format")
def test_registered_format_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.hex"
    assert save_model(PAIR, path, format="hex") is None
    specials = dict(PAIR.special_tokens)
    for location in (path, tmp_path):
        assert recognize(location) == ("hex", path)
        assert load_model(location, special_tokens=specials).sha256 == PAIR.sha256
    assert bpejit.load(path, special_tokens=specials).encode("abab<|endoftext|>") == [256, 256, 257]
    other = path.rename(tmp_path / "other.json")
    assert recognize(other) == ("hex", other)
    save_model(PAIR, path, format="hex")
    assert tokenizer_files(tmp_path) == [path]
    with pytest.raises(OutputError, match=r"mine.hex`: it already exists"):
        save_model(PAIR, path, format="hex")
    with pytest.raises(TokenizerFormatError, match="ranked models have no merges"):
        save_model(RANKED, path, format="hex", overwrite=True)
    with pytest.raises(TokenizerFormatError, match=r"'hex' has no `tokenizer.json`; expected no `legacy_merges`"):
        save_model(PAIR, path, format="hex", legacy_merges=True, overwrite=True)
    assert {"*.hex", "*.hex.bpejit.json"} <= set(file_patterns())


@pytest.mark.usefixtures("hex_format")
def test_commands_accept_registered_format(tmp_path: Path) -> None:
    save_folder(PAIR, tmp_path / "own")
    done = invoke("export", tmp_path / "own", "--to", "hex", "--out", tmp_path / "mine.hex")
    assert done.exit_code == 0, done.output
    assert "'hex'" in invoke("export", tmp_path / "own", "--to", "x", "--out", "y").output
    shown = invoke("info", tmp_path / "mine.hex")
    assert shown.exit_code == 0, shown.output
    failed = invoke("info", tmp_path / "nothing.hex")
    assert failed.exit_code == 1


@pytest.mark.usefixtures("hex_format")
def test_messages_mention_registered_format(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\x80")
    for location in (tmp_path, tmp_path / "x.bin"):
        with pytest.raises(TokenizerFormatError, match=r"or a file `NAME.hex`: "):
            load_model(location)
    (tmp_path / "a.hex").touch()
    (tmp_path / "b.hex").touch()
    with pytest.raises(TokenizerFormatError, match=r"several tokenizers \(`a.hex`, `b.hex`\)"):
        load_model(tmp_path)
    with pytest.raises(TokenizerFormatError, match="expected one of 'bpejit', 'hf', 'tiktoken', 'gpt2', 'hex'"):
        save_model(PAIR, tmp_path / "c", format="other")


def test_names_that_are_not_registered(tmp_path: Path) -> None:
    for name in ("hex", "tekken", 3, None):
        with pytest.raises((TokenizerFormatError, TypeError), match="expected one of"):
            save_model(PAIR, tmp_path / "x", format=name)  # type: ignore[arg-type]
    with pytest.raises(TokenizerFormatError, match="tokenizer format 'hex' is not known"):
        unregister("hex")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a b", "hf", 3])
def test_names_that_cannot_be_registered(name: Any) -> None:
    with pytest.raises(TokenizerFormatError, match="expected"):
        register(name, HexFormat)
    with pytest.raises(ArgumentTypeError, match="expected a class"):
        register("other", "no location")


def test_formats_have_their_registered_names() -> None:
    names = [found.name for found in all_formats()]
    assert (
        [load_format(name).name for name in names]
        == names
        == ["bpejit", "hf", "tiktoken", "tekken", "clip", "sentencepiece", "gpt2"]
    )
    assert writable_names() == ("bpejit", "hf", "tiktoken", "gpt2")


def test_read_only_format(tmp_path: Path) -> None:
    with pytest.raises(TokenizerFormatError, match="cannot be written in the format tekken"):
        load_format("tekken").write(PAIR, tmp_path / "tekken.json")
