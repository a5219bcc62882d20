"""Tests of tokenizers at URLs."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import DATA, data_text

import bpejit
from bpejit.errors import OutputError, TokenizerFormatError


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder of a file system in memory."""
    fsspec: Any = pytest.importorskip("fsspec", reason="fsspec is not installed")
    monkeypatch.chdir(tmp_path)
    name = f"/tokenizers-{secrets.token_hex(6)}"
    yield f"memory:/{name}"
    found = fsspec.filesystem("memory")
    if found.exists(name):
        found.rm(name, recursive=True)


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    return bpejit.train(DATA / "code.txt", vocab_size=300)


def files(url: str) -> dict[str, bytes]:
    import fsspec

    found, name = fsspec.core.url_to_fs(url)
    return {str(file)[len(name) + 1 :]: found.cat_file(file) for file in found.find(name)}


@pytest.mark.parametrize(
    ("form", "name"), [("bpejit", "deep/tok"), ("hf", "tok"), ("tiktoken", "tok.tiktoken"), ("gpt2", "tok")]
)
def test_saved_and_loaded(url: str, tokenizer: bpejit.Tokenizer, form: str, name: str) -> None:
    (Path("local") / name).parent.mkdir(parents=True)
    tokenizer.save(Path("local") / name, format=form)
    tokenizer.save(f"{url}/{name}", format=form)
    local = {path.relative_to("local").as_posix(): path.read_bytes() for path in Path("local").rglob("*") if path.is_file()}
    assert files(url) == local
    text = data_text("code.txt")[:2000].decode()
    assert bpejit.load(f"{url}/{name}").encode(text) == tokenizer.encode(text)
    with pytest.raises(OutputError, match=rf"`{url}/{name}.*already exists"):
        tokenizer.save(f"{url}/{name}", format=form)
    assert files(url) == local
    other = tokenizer.with_special_tokens(["<|new|>"])
    other.save(f"{url}/{name}", format=form, overwrite=True)
    assert set(files(url)) == set(local)
    assert bpejit.load(f"{url}/{name}").special_tokens == other.special_tokens


def test_missing_remote_tokenizer(url: str) -> None:
    with pytest.raises(TokenizerFormatError, match=rf"cannot read `{url}/none`: there is no tokenizer"):
        bpejit.load(f"{url}/none")
    Path("broken").mkdir()
    import fsspec

    found, name = fsspec.core.url_to_fs(f"{url}/broken/tokenizer.json")
    found.makedirs(name.rpartition("/")[0])
    found.pipe_file(name, b"{")
    with pytest.raises(TokenizerFormatError, match=rf"`{url}/broken/tokenizer.json`"):
        bpejit.load(f"{url}/broken")


def test_trained_to_a_url(url: str, tokenizer: bpejit.Tokenizer) -> None:
    trained = bpejit.train(DATA / "code.txt", vocab_size=300, out=f"{url}/tok", also=[280])
    assert trained.sha256 == tokenizer.sha256 == bpejit.load(f"{url}/tok").sha256
    assert bpejit.load(f"{url}/tok-280").vocab_size == 280
    assert not list(Path().iterdir())
    with pytest.raises(OutputError, match="already exists"):
        bpejit.train("missing.txt", vocab_size=300, out=f"{url}/tok")
