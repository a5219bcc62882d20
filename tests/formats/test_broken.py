"""Tests of damaged tokenizer files of every format: a clear error with the location, and no other exception."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from helpers.formats import (
    NEWER,
    OLDER,
    PAIR,
    RANKED,
    changed,
    load_gpt2_pair,
    read_tekken,
    read_tiktoken,
    save_gpt2_pair,
    write_tiktoken,
)
from hypothesis import given, strategies as st

from bpejit.errors import TokenizerFormatError
from bpejit.formats.any_format import load_model
from bpejit.formats.folder_writing import save_folder
from bpejit.formats.tiktoken_ranks import MAX_TOKEN_BYTES
from bpejit.model import Model

LINES = [base64.b64encode(bytes([byte])).decode() + f" {byte}" for byte in range(256)]

RANKS = "\n".join([*LINES, "YWI= 256", "YWJj 300", ""]).encode()


def message_of(read: Callable[[], Model]) -> str:
    with pytest.raises(TokenizerFormatError) as caught:
        read()
    message = str(caught.value)
    assert len(message) < 700, "an error shows what was found, not all of it"
    assert ": " in message
    assert "\n" not in message
    return message


# ---- rank files


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "lacks 256 of the 256 single bytes (0x00, "),
        (b"\n\n", "lacks 256 of the 256 single bytes"),
        (RANKS[:-3], "line 258 is broken: 'YWJj 3"),
        (RANKS[:-8], "line 258 is broken: 'Y'"),
        (RANKS.replace(b"YQ== 97\n", b""), "lacks 1 of the 256 single bytes (0x61)"),
        (RANKS.replace(b"YWI= 256", b"YWI=256"), "line 257 is broken: 'YWI=256'; expected a token in base64, a space"),
        (RANKS.replace(b"YWI= 256", b"YWI=  256"), "line 257 is broken"),
        (RANKS.replace(b"YWI= 256", b" 256"), "line 257 is broken"),
        (RANKS.replace(b"YWI= 256", b"YWI 256"), "line 257 is broken: 'YWI 256'"),
        (RANKS.replace(b"YWI= 256", b"Y!I= 256"), "line 257 is broken"),
        (RANKS.replace(b"YWI= 256", b"== 256"), "line 257 is broken"),
        (RANKS.replace(b"YWI= 256", b"= 256\n= 257"), "each token only once (this one is in line 257)"),
        (RANKS.replace(b"YWI= 256", b"YQ== 256"), "each token only once (this one is in line 98)"),
        (RANKS.replace(b"YWI= 256", b"YWI= 255"), "expected a rank above 255, the rank before it"),
        (RANKS.replace(b"YWI= 256", b"YWI= 7"), "expected a rank above 255"),
        (RANKS.replace(b"YWI= 256", b"YWI= -1"), "line 257 is broken: 'YWI= -1'"),
        (RANKS.replace(b"YWI= 256", b"YWI= 2.5"), "line 257 is broken"),
        (RANKS.replace(b"YWI= 256", b"YWI= x"), "line 257 is broken"),
        (RANKS.replace(b"YWI= 256", b"YWI= 99999999"), "expected a rank of at most 16777215"),
        (RANKS.replace(b"YWI= 256", b"YWI= 9" + b"9" * 5000), "line 257 is broken"),
        (RANKS.replace(b"YWI= 256", "YWI= ٣".encode()), "line 257 is broken"),
        (b"\xef\xbb\xbf" + RANKS, r"line 1 is broken: '\ufeffAA== 0'"),
        (RANKS.decode().encode("utf-16"), "line 1 is broken"),
        (b"\x80\x04\x95\x00\xff" + RANKS, r"line 1 is broken: '\\x80\x04\\x95"),
        (bytes(random.Random(1).randbytes(5000)), "line 1 is broken"),
        (b"A" * 10_000_000, "line 1 is broken: 'AAAA"),
        (
            RANKS + base64.b64encode(b"a" * 7_500_000) + b" 400\n",
            f"expected a token of at most {MAX_TOKEN_BYTES} bytes, not 7500000",
        ),
        (b'{"a": 0}', "line 1 is broken"),
    ],
)
def test_rank_files(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "mine.tiktoken"
    path.write_bytes(data)
    found = message_of(lambda: read_tiktoken(path, pattern="gpt2"))
    assert found.startswith(f"`{path}`")
    assert message in found
    assert message in message_of(lambda: load_model(path, pattern="gpt2"))


def test_valid_rank_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.tiktoken"
    assert RANKS.endswith(b"YWI= 256\nYWJj 300\n")
    tokens = {byte: bytes([byte]) for byte in range(256)} | {256: b"ab", 300: b"abc"}
    for data in (RANKS, RANKS.replace(b"\n", b"\r\n"), RANKS.replace(b"\n", b"\n\n"), RANKS[:-1]):
        path.write_bytes(data)
        assert read_tiktoken(path, pattern="gpt2").tokens == tokens


def test_paths_that_are_not_files(tmp_path: Path) -> None:
    folder = tmp_path / "x.tiktoken"
    folder.mkdir()
    for read in (
        lambda path: read_tiktoken(path, pattern="gpt2"),
        read_tekken,
        lambda path: load_gpt2_pair(path, pattern="gpt2"),
    ):
        assert "it is a folder" in message_of(lambda read=read: read(folder))
        assert "there is no such file" in message_of(lambda read=read: read(tmp_path / "nothing"))


# ---- sidecars


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        (("format",), "x", "format is 'x'; expected 'bpejit sidecar'"),
        (("format",), ..., "format is None; expected 'bpejit sidecar'"),
        (("format_version",), 3, "has format version 3, and bpejit"),
        (("format_version",), ..., "has no 'format_version'"),
        (("format_version",), 0, "format_version is 0"),
        (("pattern",), 5, "pattern is 5; expected a string"),
        (("pattern",), ..., "has no 'pattern'"),
        (("special_tokens",), [], "special_tokens is []; expected an object"),
        (("special_tokens", "<x>"), "7", "the special token '<x>' has the id '7'"),
        (("special_tokens", "<x>"), True, "the special token '<x>' has the id True"),
        (("special_tokens", "<x>"), 97, "the special token '<x>' has id 97, which belongs to"),
        (("special_tokens", ""), 970, "a special token is empty"),
        (("sha256",), "0" * 64, "was changed after bpejit wrote it"),
        (("sha256",), ..., "has no 'sha256'"),
    ],
)
def test_sidecars(tmp_path: Path, path: tuple[str, ...], new: Any, message: str) -> None:
    write_tiktoken(RANKED, tmp_path / "mine.tiktoken")
    sidecar = tmp_path / "mine.tiktoken.bpejit.json"
    sidecar.write_text(json.dumps(changed(json.loads(sidecar.read_bytes()), path, new)))
    found = message_of(lambda: load_model(tmp_path / "mine.tiktoken"))
    assert message in found
    assert "mine.tiktoken" in found


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"null", b"[" * 100_000, b"1" * 5000])
def test_sidecars_that_are_not_json_objects(tmp_path: Path, data: bytes) -> None:
    write_tiktoken(RANKED, tmp_path / "mine.tiktoken")
    (tmp_path / "mine.tiktoken.bpejit.json").write_bytes(data)
    assert "mine.tiktoken.bpejit.json" in message_of(lambda: load_model(tmp_path / "mine.tiktoken"))


# ---- tekken.json


def longer(content: dict[str, Any], entry: Any) -> dict[str, Any]:
    return {**content, "vocab": [*content["vocab"][:257], entry, *content["vocab"][258:]]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "the content is []; expected an object"),
        ({}, "the content has no 'config'"),
        (changed(NEWER, ("vocab",), ...), "the content has no 'vocab'"),
        (changed(NEWER, ("vocab",), {}), "vocab is {}; expected a list"),
        (changed(NEWER, ("config",), []), "config is []; expected an object"),
        (changed(NEWER, ("config", "pattern"), ...), "config has no 'pattern'"),
        (changed(NEWER, ("config", "default_vocab_size"), ...), "config has no 'default_vocab_size'"),
        (changed(NEWER, ("config", "default_vocab_size"), 4), "config.default_vocab_size is 4; expected 5 to 267"),
        (changed(NEWER, ("config", "default_vocab_size"), 268), "config.default_vocab_size is 268; expected 5 to 267"),
        (changed(NEWER, ("config", "default_vocab_size"), 200), "lacks 61 of the 256 single bytes"),
        (changed(NEWER, ("config", "default_num_special_tokens"), 2), "default_num_special_tokens is 2; expected at least 3"),
        (changed(NEWER, ("config", "default_num_special_tokens"), -1), "is -1; expected a number from 0"),
        (changed(NEWER, ("config", "default_num_special_tokens"), 10**12), "is 1000000000000; expected a number from 0"),
        (changed(NEWER, ("config", "default_num_special_tokens"), True), "is True; expected a whole number"),
        (changed(NEWER, ("config", "default_num_special_tokens"), 5.0), "is 5.0; expected a whole number"),
        (changed(NEWER, ("special_tokens",), {}), "special_tokens is {}; expected a list"),
        (changed(NEWER, ("special_tokens", 1), "x"), "special_tokens[1] is 'x'; expected an object"),
        (changed(NEWER, ("special_tokens", 1, "token_str"), None), "special_tokens[1].token_str is None; expected a string"),
        (changed(NEWER, ("special_tokens", 1, "token_str"), "<unk>"), "is '<unk>'; expected each special token only once"),
        (changed(NEWER, ("special_tokens", 1, "token_str"), ""), "a special token is empty"),
        (changed(NEWER, ("special_tokens", 1, "token_str"), "<SPECIAL_3>"), "expected another name"),
        (changed(NEWER, ("special_tokens", 1, "rank"), 2), "special_tokens is [0, 2, 2]; expected consecutive ranks from 0"),
        (changed(NEWER, ("special_tokens", 1, "rank"), -1), "special_tokens is [-1, 0, 2]"),
        (changed(NEWER, ("special_tokens", 1, "rank"), "1"), "special_tokens[1].rank is '1'; expected a whole number"),
        (changed(OLDER, ("config", "version"), "v8"), "has no `special_tokens`, and its version is 'v8'"),
        (changed(OLDER, ("config", "version"), 3), "config.version is 3; expected a string"),
        (changed(OLDER, ("config", "default_num_special_tokens"), 19), "is 19; expected at least 20"),
        (longer(NEWER, None), "vocab[257] is None; expected an object"),
        (longer(NEWER, {"rank": 256, "token_bytes": "YWI="}), "vocab[257].rank is 256; expected 257"),
        (longer(NEWER, {"rank": 257.0, "token_bytes": "YWI="}), "vocab[257].rank is 257.0; expected a whole number"),
        (longer(NEWER, {"rank": 257}), "vocab[257] has no 'token_bytes'"),
        (longer(NEWER, {"rank": 257, "token_bytes": "YWI"}), "vocab[257].token_bytes is 'YWI'; expected a token in base64"),
        (longer(NEWER, {"rank": 257, "token_bytes": ""}), "vocab[257].token_bytes is ''"),
        (longer(NEWER, {"rank": 257, "token_bytes": "é==="}), "expected a token in base64"),
        (longer(NEWER, {"rank": 257, "token_bytes": "YQ=="}), "1 tokens with the bytes of another token"),
        (longer(NEWER, {"rank": 257, "token_bytes": "A" * 10_000_000}), "expected at most 65536 bytes, not 7500000"),
        (changed(NEWER, ("vocab", 7, "token_bytes"), "YQ=="), "vocab[7].token_bytes is 'YQ=='; expected the byte 7"),
    ],
)
def test_tekken(tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps(content))
    found = message_of(lambda: load_model(path))
    assert found.startswith(f"`{path}`")
    assert message in found


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b'{"config": ', b"\xef\xbb\xbf{", b"[" * 100_000, b"\0" * 100])
@pytest.mark.parametrize("name", ["tekken.json", "vocab.json"])
def test_files_that_are_not_json(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    (tmp_path / "merges.txt").touch()
    found = message_of(lambda: load_model(tmp_path / name, **({"pattern": "gpt2"} if name == "vocab.json" else {})))
    assert f"`{tmp_path / name}` is broken at" in found


# ---- GPT-2's pair


def pair_text(merges: str) -> bytes:
    return f"#version: 0.2\n{merges}".encode()


@pytest.mark.parametrize(
    ("merges", "message"),
    [
        (pair_text("a b\na"), "merges.txt`, line 3 is broken: 'a'"),
        (pair_text("a  b\n"), "line 2 is broken"),
        (pair_text("a b\na b\n"), "each pair only once (this one is in line 2)"),
        (pair_text("a c\n"), "line 2 joins b'a' and b'c', but b'ac' is not in"),
        (pair_text("ab xy\n"), "line 2 joins b'ab' and b'xy', but b'xy' is not in"),
        (pair_text("a 日\n"), "line 2 is broken"),
        (b"\xef\xbb\xbf" + pair_text("a b\n"), "line 1 is broken"),
        (pair_text("a b\n\na b\n"), "line 3 is broken"),
        (b"\xff\xfea b", "line 1 is broken"),
        (b"a" * 10_000_000, "line 1 is broken: 'aaaa"),
        (None, "merges.txt`: there is no such file"),
    ],
)
def test_merges(tmp_path: Path, merges: bytes | None, message: str) -> None:
    save_gpt2_pair(PAIR, tmp_path)
    if merges is None:
        (tmp_path / "merges.txt").unlink()
    else:
        (tmp_path / "merges.txt").write_bytes(merges)
    assert message in message_of(lambda: load_model(tmp_path / "vocab.json"))


def test_merges_with_other_line_endings(tmp_path: Path) -> None:
    save_gpt2_pair(PAIR, tmp_path)
    (tmp_path / "merges.txt").write_bytes(b"#version: 0.2\r\na b\r\n")
    assert load_model(tmp_path).merges == ((b"a", b"b"),)


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        (("ab",), "256", "the token 'ab' has the id '256'"),
        (("ab",), 97.0, "the token 'ab' has the id 97.0"),
        (("ab",), None, "has the id None"),
        (("a",), 98, "both have the id"),
        (("a",), -5, "the negative token id -5"),
        (("a",), ..., "joins b'a' and b'b', but b'a' is not in"),
    ],
)
def test_vocabularies(tmp_path: Path, path: tuple[str, ...], new: Any, message: str) -> None:
    save_gpt2_pair(PAIR, tmp_path)
    (tmp_path / "vocab.json.bpejit.json").unlink()
    vocab = tmp_path / "vocab.json"
    vocab.write_text(json.dumps(changed(json.loads(vocab.read_bytes()), path, new)))
    found = message_of(lambda: load_model(tmp_path, pattern="gpt2", special_tokens=["<|endoftext|>"]))
    assert message in found
    assert str(vocab) in found


def test_changed_vocabulary_with_sidecar(tmp_path: Path) -> None:
    save_gpt2_pair(PAIR, tmp_path)
    (tmp_path / "vocab.json").write_bytes((tmp_path / "vocab.json").read_bytes().replace(b"256", b"300"))
    assert "vocab.json` was changed after bpejit wrote it" in message_of(lambda: load_model(tmp_path))


# ---- random damage


def save_all(folder: Path) -> dict[str, list[str]]:
    """Write a small tokenizer in every format; return the files of each."""
    for name in ("own", "ranks", "mistral", "pair"):
        (folder / name).mkdir(exist_ok=True)
    save_folder(RANKED, folder / "own")
    write_tiktoken(RANKED, folder / "ranks" / "mine.tiktoken")
    (folder / "mistral" / "tekken.json").write_text(json.dumps(NEWER))
    save_gpt2_pair(PAIR, folder / "pair")
    return {
        "own": ["bpejit.json", "tokenizer.json"],
        "ranks": ["mine.tiktoken", "mine.tiktoken.bpejit.json"],
        "mistral": ["tekken.json"],
        "pair": ["vocab.json", "merges.txt", "vocab.json.bpejit.json", "tokenizer_config.json"],
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bpejit.errors.BpejitWarning")
@examples(1)
@given(data=st.data())
def test_random_damage_is_an_error_or_a_valid_model(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    root = tmp_path_factory.mktemp("damage")
    files = save_all(root)
    kind = data.draw(st.sampled_from(sorted(files)))
    damaged = root / kind / data.draw(st.sampled_from(files[kind]))
    if data.draw(st.booleans()):
        # Without the file that has the hashes, the damage itself must be detected.
        (root / kind / "mine.tiktoken.bpejit.json").unlink(missing_ok=True)
        (root / kind / "vocab.json.bpejit.json").unlink(missing_ok=True)
    content = bytearray(damaged.read_bytes() if damaged.exists() else b"x")
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["flip", "byte", "cut", "delete", "insert"])):
            case "flip":
                content[position] ^= 1 << data.draw(st.integers(0, 7))
            case "byte":
                content[position] = data.draw(st.sampled_from(b'0129-"{}[],:= \n\xff\0'))
            case "cut":
                del content[position + 1 :]
            case "delete":
                del content[position : position + data.draw(st.integers(0, 5))]
                content = content or bytearray(b" ")
            case "insert":
                content[position:position] = data.draw(st.binary(max_size=4))
    damaged.write_bytes(bytes(content))
    options: dict[str, Any] = {"pattern": "gpt2", "special_tokens": {}} if kind in ("ranks", "pair") else {}
    for given_options in ({}, options):
        try:
            model = load_model(root / kind, **given_options)
        except TokenizerFormatError as error:
            assert str(root / kind) in str(error) or "hf:" in str(error)  # noqa: PT017
            continue
        assert isinstance(model, Model)
        assert model.vocab_size > 256
