"""Tests of `bpejit.load`: it recognizes every format, and never guesses."""

from __future__ import annotations

import base64
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import invoke
from helpers.formats import BYTES, NEWER, OLDER, PAIR, PATTERN, RANKED, read_tekken, save_gpt2_pair, write_tiktoken

import bpejit
from bpejit.errors import TokenizerFormatError
from bpejit.formats import base
from bpejit.formats.any_format import file_patterns, load_model, recognize
from bpejit.formats.folder_writing import save_folder
from bpejit.formats.tekken import EARLY_SPECIAL_TOKENS
from bpejit.model import Model


def put(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_tekken(tmp_path: Path) -> None:
    model = read_tekken(put(tmp_path / "tekken.json", NEWER))
    assert model.special_tokens == {"<unk>": 0, "<s>": 1, "</s>": 2, "<SPECIAL_3>": 3, "<SPECIAL_4>": 4}
    assert (model.ranked, model.pattern, len(model.tokens), model.vocab_size) == (True, PATTERN, 259, 264)
    assert (model.tokens[5], model.tokens[5 + 97], model.tokens[263]) == (b"\0", b"a", b"xyz")
    ours = bpejit.load(tmp_path)
    assert ours.encode(" ab1 xyz</s>") == [262, 5 + ord("1"), 5 + ord(" "), *(5 + byte for byte in b"xyz"), 2]


def test_tekken_against_tiktoken(tmp_path: Path) -> None:
    """Ids are those of tiktoken plus the number of special tokens, as in mistral-common."""
    tiktoken = pytest.importorskip("tiktoken")
    ours = bpejit.load(put(tmp_path / "tekken.json", OLDER))
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in OLDER["vocab"][:258]}
    theirs = tiktoken.Encoding("tekken", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    for text in (" ab abc  a\n\n12", "unused1 日本語\r\n", ""):
        assert ours.encode(text) == [1000 + number for number in theirs.encode(text)]
    assert list(ours.special_tokens)[:20] == list(EARLY_SPECIAL_TOKENS)
    assert ours.special_tokens["<SPECIAL_999>"] == 999


def test_early_tekken_has_known_special_tokens(tmp_path: Path) -> None:
    late = put(tmp_path / "tekken.json", {**OLDER, "config": {**OLDER["config"], "version": "v11"}})
    with pytest.raises(TokenizerFormatError, match=r"tekken.json` has no `special_tokens`, and its version is 'v11'"):
        read_tekken(late)


def test_every_format_is_recognized(tmp_path: Path) -> None:
    for name in ("own", "pair", "mistral", "ranks"):
        (tmp_path / name).mkdir()
    save_folder(RANKED, tmp_path / "own")
    save_gpt2_pair(PAIR, tmp_path / "pair")
    put(tmp_path / "mistral" / "tekken.json", NEWER)
    write_tiktoken(RANKED, tmp_path / "ranks" / "mine.tiktoken")
    for path in ("own", "own/tokenizer.json", "own/bpejit.json", "ranks", "ranks/mine.tiktoken"):
        assert load_model(tmp_path / path) == RANKED
        assert load_model(str(tmp_path / path)) == RANKED
    for path in ("pair", "pair/vocab.json"):
        assert load_model(tmp_path / path).sha256 == PAIR.sha256
    for path in ("mistral", "mistral/tekken.json"):
        assert load_model(tmp_path / path).vocab_size == 264
    # By content, independent of the name.
    (tmp_path / "ranks" / "mine.tiktoken").rename(tmp_path / "tiktoken.model")
    assert load_model(tmp_path / "tiktoken.model", pattern="gpt2").tokens == RANKED.tokens
    assert recognize(put(tmp_path / "x.json", NEWER)) == ("tekken", tmp_path / "x.json")
    assert recognize(put(tmp_path / "y.json", {"model": {}, "added_tokens": []}))[0] == "hf"
    assert recognize(put(tmp_path / "z.json", {"a": 0}))[0] == "gpt2"


def test_pair_beside_equivalent_tokenizer_json(tmp_path: Path) -> None:
    save_gpt2_pair(PAIR, tmp_path)
    put(tmp_path / "tokenizer.json", {"model": {}})
    assert recognize(tmp_path) == ("hf", tmp_path / "tokenizer.json")


def test_several_tokenizers_in_one_folder(tmp_path: Path) -> None:
    put(tmp_path / "tekken.json", NEWER)
    put(tmp_path / "tokenizer.json", {"model": {}})
    (tmp_path / "a.tiktoken").touch()
    with pytest.raises(TokenizerFormatError, match=r"several tokenizers \(`tokenizer.json`, `a.tiktoken`, `tekken.json`\)"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.bin", b"\x80\x04\x95", "in no known format; expected a folder that bpejit wrote"),
        ("x.bin", b"", "in no known format"),
        ("x.json", b"{}", "in no known format"),
        ("x.json", b"[1]", "in no known format"),
        ("x.json", b'{"a": "b"}', "in no known format"),
        ("x.json", b'{"a": ', "is broken at line 1"),
        ("merges.txt", b"#version: 0.2\n", r"one of two files; expected the other, `vocab.json`"),
        ("vocab.json", b'{"a": 0}', r"vocab.json` does not contain a split pattern"),
        ("tokenizer.model", b"\n\x0e\n\x05<unk>\x15", "is broken or truncated"),
    ],
)
def test_files_that_are_not_tokenizers(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(TokenizerFormatError, match=message):
        load_model(path)


def test_empty_and_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(TokenizerFormatError, match=r"contains no tokenizer; expected a folder that bpejit wrote, Hugging Face"):
        load_model(tmp_path)
    with pytest.raises(TokenizerFormatError, match="there is no tokenizer"):
        load_model(tmp_path / "nothing")


def test_options_that_contradict_a_file(tmp_path: Path) -> None:
    save_folder(RANKED, tmp_path / "own")
    put(tmp_path / "tekken.json", NEWER)
    for path in (tmp_path / "own", tmp_path / "tekken.json"):
        with pytest.raises(TokenizerFormatError, match=r"contains its pattern and special tokens; expected no `pattern=`"):
            load_model(path, pattern="gpt2")
        with pytest.raises(TokenizerFormatError, match=r"expected no `special_tokens=`: omit it"):
            load_model(path, special_tokens={})


# ---- the Hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Replace the package by a Hub with one repository; return the list of its recorded calls."""
    save_folder(RANKED, tmp_path / "repository")
    asked: list[tuple[Any, ...]] = []

    def snapshot_download(repo_id: str, *, revision: str | None = None, allow_patterns: list[str] | None = None) -> str:
        asked.append((repo_id, revision, allow_patterns))
        if repo_id != "someone/thing":
            raise OSError(f"404\nno {repo_id}")
        return str(tmp_path / "repository")

    module = types.ModuleType("huggingface_hub")
    module.snapshot_download = snapshot_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return asked


def test_hub(hub: list[tuple[Any, ...]]) -> None:
    assert bpejit.load("hf:someone/thing").model == RANKED
    assert load_model("hf:someone/thing@v1.0") == RANKED
    assert hub == [("someone/thing", None, file_patterns()), ("someone/thing", "v1.0", file_patterns())]
    with pytest.raises(TokenizerFormatError, match=r"cannot download `hf:other/thing`: 404 no other/thing; expected"):
        load_model("hf:other/thing")
    for name in ("hf:", "hf:a/b/c", "hf:a b", "hf:a/b@"):
        with pytest.raises(TokenizerFormatError, match="is not the name of a repository of the Hugging Face Hub"):
            load_model(name)


def test_fake_hub_has_signature_of_package() -> None:
    package = pytest.importorskip("huggingface_hub")
    parameters = pytest.importorskip("inspect").signature(package.snapshot_download).parameters
    assert {"repo_id", "revision", "allow_patterns"} <= set(parameters)


def test_hub_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(TokenizerFormatError, match=r"run `pip install 'bpejit\[hf\]'`"):
        load_model("hf:someone/thing")


# ---- commands


@pytest.mark.compiled
def test_commands_accept_every_format(tmp_path: Path, hub: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tiktoken(RANKED, Path("mine.tiktoken"))
    Path("other.tiktoken").write_bytes(Path("mine.tiktoken").read_bytes())
    Path("in.txt").write_bytes(b"abc ab<|endoftext|>x=y")
    options = ["--pattern", "gpt2", "--special-token", "<|endoftext|>=300"]
    for number, arguments in enumerate((["mine.tiktoken"], ["other.tiktoken", *options], ["hf:someone/thing"])):
        done = invoke("encode", "in.txt", "--out", f"{number}.bin", "--quiet", "--tokenizer", *arguments)
        assert done.exit_code == 0, done.output
        assert Path(f"{number}.bin").read_bytes() == Path("0.bin").read_bytes()
        assert invoke("decode", f"{number}.bin", "--out", "back.txt", "--overwrite", "--tokenizer", *arguments).exit_code == 0
        assert Path("back.txt").read_bytes() == Path("in.txt").read_bytes()
        shown = invoke("info", *arguments)
        assert shown.exit_code == 0, shown.output
        assert "merged by rank" in shown.output
    assert "token file" in invoke("info", "0.bin").output
    failed = invoke("encode", "in.txt", "--out", "x.bin", "--tokenizer", "other.tiktoken")
    assert failed.exit_code == 1
    assert "pass `--pattern`" in failed.output
    assert "expected a text" in invoke("info", "other.tiktoken", "--special-token", "x=y").output


@pytest.mark.compiled
def test_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_folder(PAIR, "own")
    for form, out in (("hf", "hf"), ("tiktoken", "mine.tiktoken"), ("gpt2", "pair")):
        done = invoke("export", "own", "--to", form, "--out", out)
        assert done.exit_code == 0
        others = ", `mine_encoding.py`, `mine.tiktoken.bpejit.json` and `mine.token_bytes.npy`" if form == "tiktoken" else ""
        assert done.output.startswith(f"wrote `{out}`{others} for {form}\nin Python")
        assert bpejit.load(out).encode("abab <|endoftext|>b") == bpejit.load("own").encode("abab <|endoftext|>b")
    assert invoke("export", "own", "--to", "hf", "--out", "legacy", "--legacy-merges", "--quiet").output == ""
    assert json.loads(Path("legacy/tokenizer.json").read_bytes())["model"]["merges"] == ["a b"]
    assert bpejit.load("legacy").sha256 == PAIR.sha256
    save_folder(Model(BYTES, [], pattern=r"(?<=a)b|\w+|\W"), "odd")
    failed = invoke("export", "odd", "--to", "hf", "--out", "no")
    assert failed.exit_code == 1
    assert "cannot be written for Hugging Face" in failed.output
    assert not Path("no").exists()


@pytest.mark.parametrize("suffix", [".tiktoken", ".json", ".gz", ""])
def test_suffixes_of_one_format(tmp_path, suffix):
    file = tmp_path / f"name{suffix}"
    located = [found.name for found in base.all_formats() if found.locate(file) is not None]
    assert base.name_by_suffix(suffix) == (located[0] if located else None)
