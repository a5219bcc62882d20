"""Tests of rank files, tekken.json and GPT-2's pair: reading, writing, and comparison with the original packages."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, data_text, read_shared, small
from helpers.cli import snapshot
from helpers.formats import load_gpt2_pair, read_tiktoken, save_gpt2_pair, write_tiktoken

import bpejit
from bpejit.errors import BpejitError, BpejitWarning, OutputError, TokenizerFormatError
from bpejit.formats import missing_parts
from bpejit.formats.tiktoken_ranks import _parse_all, _parse_each, parse_ranks
from bpejit.model import Model

BYTES = {byte: bytes([byte]) for byte in range(256)}

END = "<|endoftext|>"

MODEL = Model(BYTES | {256: b" t", 257: b"he", 300: b" the"}, [], {END: 310, "<é>": 400}, pattern=r"\p{L}+|\s", ranked=True)

RANKS = "".join(f"{line}\n" for line in ("IQ== 0", "Ig== 1"))


@pytest.fixture
def tiktoken():
    return pytest.importorskip("tiktoken")


def write_ranks(path: Path) -> None:
    """Write a rank file without a sidecar, as other tools do."""
    write_tiktoken(MODEL, path)
    path.with_name(path.name + ".bpejit.json").unlink()
    path.with_name(path.stem + "_encoding.py").unlink()


def test_written_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.tiktoken"
    write_tiktoken(MODEL, path)
    lines = path.read_bytes().split(b"\n")
    assert lines[:2] == [b"AA== 0", b"AQ== 1"]
    assert lines[-4:] == [b"IHQ= 256", b"aGU= 257", b"IHRoZQ== 300", b""]
    files = ["mine.tiktoken", "mine.tiktoken.bpejit.json", "mine.token_bytes.npy", "mine_encoding.py"]
    assert sorted(snapshot(tmp_path)) == files
    lengths = np.load(tmp_path / "mine.token_bytes.npy")
    assert lengths.dtype == np.int32
    assert lengths.tolist() == [len(MODEL.tokens.get(number, b"")) for number in range(MODEL.vocab_size)]
    sidecar = json.loads((tmp_path / "mine.tiktoken.bpejit.json").read_bytes())
    assert (sidecar["pattern"], sidecar["special_tokens"]) == (MODEL.pattern, MODEL.special_tokens)
    assert read_tiktoken(path) == MODEL
    assert bpejit.load(path).sha256 == MODEL.sha256


def test_printed_code_runs(tmp_path: Path, tiktoken) -> None:
    path = tmp_path / "a'b\\c.tiktoken"
    write_tiktoken(MODEL, path)
    encoding = runpy.run_path(str(tmp_path / "a_b_c_encoding.py"))["encoding"]
    assert isinstance(encoding, tiktoken.Encoding)
    assert encoding.name == "a'b\\c"
    ours = bpejit.Tokenizer.from_model(MODEL)
    # This pattern does not match digits and punctuation.
    for text in (
        "the  the, 12 the.",
        f"x{END}<é> \n.",
        "",
        "... 日本",
        data_text("prose.txt")[:20_000].decode("utf-8", "ignore"),
    ):
        assert encoding.encode(text, allowed_special="all") == ours.encode(text)
    assert encoding.n_vocab == ours.vocab_size == 401


@pytest.mark.compiled
def test_trained_tokenizer_in_tiktoken_and_gpt2_formats(tmp_path: Path, tiktoken) -> None:
    ours = bpejit.train([ROOT / "tests" / "data" / "prose.txt"], vocab_size=small(1500, 300), special_tokens=[END], workers=1)
    text = data_text("prose.txt")[: small(100_000, 2_000)].decode("utf-8", "ignore") + END + "don't  \n 123"
    ids = ours.encode(text)
    ours.save(tmp_path / "mine.tiktoken", format="tiktoken")
    encoding = runpy.run_path(str(tmp_path / "mine_encoding.py"))["encoding"]
    assert encoding.encode(text, allowed_special="all") == ids
    assert bpejit.load(tmp_path / "mine.tiktoken").encode(text) == ids
    ours.save(tmp_path / "new" / "pair", format="gpt2")
    files = ["merges.txt", "token_bytes.npy", "tokenizer_config.json", "vocab.json", "vocab.json.bpejit.json"]
    assert sorted(snapshot(tmp_path / "new" / "pair")) == files
    expected = [0 if number in ours.model.special_tokens.values() else len(ours.vocab[number]) for number in range(len(ours))]
    assert np.load(tmp_path / "new" / "pair" / "token_bytes.npy").tolist() == expected
    assert np.load(tmp_path / "mine.token_bytes.npy").tolist() == expected
    assert bpejit.load(tmp_path / "new" / "pair").sha256 == ours.sha256
    assert bpejit.load(tmp_path / "new" / "pair" / "vocab.json").sha256 == ours.sha256


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Model(BYTES | {256: b"ab", 257: b"bc"}, [(b"b", b"c"), (b"a", b"b")]), "merge 2 forms the token b'ab'"),
        (Model(BYTES | {256: b"abc"}, []), "the token b'abc' (id 256) cannot be formed"),
        (Model(BYTES, [], {"<a>": 300, "<a><b>": 301}), "the special token '<a><b>' begins with '<a>'"),
        (Model(BYTES, [], {"<\udc80>": 300}), "is not valid UTF-8"),
        (Model(BYTES, [], pattern=r"(?<=a)b|\w+|\W"), "cannot be translated because"),
        (Model(BYTES, [], pattern=(r"\p{N}", r"\p{L}+")), "splits by 2 patterns in sequence"),
        (Model(BYTES, [], pattern="deepseek-v3"), "splits by 3 patterns in sequence"),
    ],
)
def test_models_unsupported_by_tiktoken_are_refused(tmp_path: Path, model: Model, reason: str) -> None:
    with pytest.raises(TokenizerFormatError, match="cannot be written for tiktoken: ") as caught:
        write_tiktoken(model, tmp_path / "mine.tiktoken")
    assert reason in str(caught.value)
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Model(BYTES, [], pattern="cl100k"), "does not split by the pattern `gpt2`"),
        (Model(BYTES | {256: b"abc"}, [], ranked=True), "keeps whole tokens that no merges form, such as b'abc'"),
        (Model(BYTES | {256: b"abc"}, [], ignore_merges=True), "keeps whole tokens that no merges form, such as b'abc'"),
    ],
)
def test_models_unsupported_by_gpt2_pair_are_refused(tmp_path: Path, model: Model, reason: str) -> None:
    with pytest.raises(TokenizerFormatError, match="cannot be written as GPT-2's pair of files") as caught:
        bpejit.Tokenizer.from_model(model).save(tmp_path / "new", format="gpt2")
    assert reason in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_unrelated_files_are_preserved(tmp_path: Path) -> None:
    for name in ("mine.tiktoken", "mine_encoding.py"):
        folder = tmp_path / name.replace(".", "")
        folder.mkdir()
        (folder / name).write_bytes(b"someone's")
        with pytest.raises(OutputError, match=rf"cannot write `.*{name}`: it already exists"):
            write_tiktoken(MODEL, folder / "mine.tiktoken")
        assert snapshot(folder) == {name: b"someone's"}
    model = Model(BYTES, [], {END: 256})
    for name in ("vocab.json", "merges.txt"):
        folder = tmp_path / f"pair {name}"
        folder.mkdir()
        (folder / name).write_bytes(b"someone's")
        with pytest.raises(OutputError, match=f"`{name}` already exists there"):
            save_gpt2_pair(model, folder)
        assert snapshot(folder) == {name: b"someone's"}
    folder = tmp_path / "again"
    folder.mkdir()
    for _ in range(2):
        save_gpt2_pair(model, folder, overwrite=True)
        write_tiktoken(MODEL, folder / "mine.tiktoken", overwrite=True)
    assert read_tiktoken(folder / "mine.tiktoken") == MODEL


def test_mismatched_names_and_formats(tmp_path: Path) -> None:
    tokenizer = bpejit.Tokenizer.from_model(MODEL)
    with pytest.raises(TokenizerFormatError, match=r"is not the name of a rank file; expected a name that ends in \.tiktoken"):
        tokenizer.save(tmp_path / "mine", format="tiktoken")
    with pytest.raises(BpejitError, match=r"format is 'gguf'; expected one of 'bpejit', 'hf', 'tiktoken', 'gpt2'"):
        tokenizer.save(tmp_path / "mine", format="gguf")
    with pytest.raises(TokenizerFormatError, match=r"has no `tokenizer.json`; expected no `legacy_merges`"):
        tokenizer.save(tmp_path / "mine.tiktoken", format="tiktoken", legacy_merges=True)
    assert snapshot(tmp_path) == {}


# ---- options for what a file lacks


def test_missing_pattern_and_special_tokens(tmp_path: Path) -> None:
    path = tmp_path / "other.tiktoken"
    write_ranks(path)
    with pytest.raises(TokenizerFormatError, match=r"does not contain a split pattern.* pass `pattern=`"):
        bpejit.load(path)
    with pytest.raises(TokenizerFormatError, match="does not contain a split pattern"):
        bpejit.load(path, special_tokens={END: 400})
    with pytest.raises(TokenizerFormatError, match="expected `special_tokens=` with their ids: pass a dict"):
        bpejit.load(path, pattern="gpt2", special_tokens=[END])
    assert bpejit.load(path, pattern="gpt2").special_tokens == {}
    loaded = bpejit.load(path, pattern="cl100k", special_tokens={END: 400})
    assert (loaded.pattern, loaded.special_tokens) == ("cl100k", {END: 400})
    with pytest.raises(TokenizerFormatError, match=r"other.tiktoken`: the special token '<x>' has id 97, which belongs to"):
        bpejit.load(path, pattern="cl100k", special_tokens={"<x>": 97})


def test_options_take_precedence_over_sidecar(tmp_path: Path) -> None:
    path = tmp_path / "mine.tiktoken"
    write_tiktoken(MODEL, path)
    assert read_tiktoken(path, pattern="gpt2").special_tokens == MODEL.special_tokens
    assert read_tiktoken(path, special_tokens={}).pattern == MODEL.pattern
    path.write_bytes(path.read_bytes() + b"YWI= 999\n")
    with pytest.raises(TokenizerFormatError, match=r"mine.tiktoken` was changed after bpejit wrote it"):
        read_tiktoken(path)
    assert read_tiktoken(path, pattern="gpt2", special_tokens={}).tokens[999] == b"ab"


def test_known_name_with_other_content(tmp_path: Path) -> None:
    path = tmp_path / "cl100k_base.tiktoken"
    write_ranks(path)
    with pytest.raises(
        TokenizerFormatError, match=r"has the name of the published cl100k_base, but different content: its SHA-256"
    ):
        read_tiktoken(path)
    assert read_tiktoken(path, pattern="cl100k").special_tokens == {}


PUBLISHED = ["r50k_base", "p50k_base", "p50k_edit", "cl100k_base", "o200k_base", "o200k_harmony"]


@pytest.mark.compiled
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files(tmp_path: Path, tiktoken, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Compare pattern, special tokens and ids with the constructor of the package, given the same ranks."""
    public = pytest.importorskip("tiktoken_ext.openai_public")
    data = read_shared(f"vocabs/{name.replace('edit', 'base').replace('harmony', 'base')}.tiktoken")
    path = tmp_path / f"{name}.tiktoken"
    path.write_bytes(data)
    asked = []

    def local(_url: str, expected_hash: str) -> dict[bytes, int]:
        asked.append(expected_hash)
        return {token: rank for rank, token in read_tiktoken(path).tokens.items()}

    monkeypatch.setattr(public, "load_tiktoken_bpe", local)
    theirs = public.ENCODING_CONSTRUCTORS[name]()
    model = read_tiktoken(path)
    assert asked == [missing_parts.RANK_FILES[name].sha256]
    if name == "o200k_harmony":
        # A second name for the id of `<|endofprompt|>`.
        assert theirs["special_tokens"].pop("<|reserved_200018|>") == theirs["special_tokens"]["<|endofprompt|>"]
    assert model.special_tokens == theirs["special_tokens"]
    assert bpejit.model.pattern_source(model.pattern) == theirs["pat_str"]
    encoding = tiktoken.Encoding(**theirs)
    ours = bpejit.Tokenizer.from_model(model)
    text = read_shared("corpora/multilingual.txt")[:300_000].decode("utf-8", "ignore") + END + "x"
    assert ours.encode(text) == encoding.encode(text, allowed_special="all")
    assert ours.vocab_size == encoding.n_vocab


@pytest.mark.slow
@pytest.mark.parametrize("name", ["r50k_base", "p50k_base", "cl100k_base", "o200k_base"])
def test_published_files_are_read_without_checks_as_with_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_shared(f"vocabs/{name}.tiktoken")
    found = parse_ranks(data, name)
    assert list(found.items()) == list(_parse_each(data, name).items())
    monkeypatch.setattr("bpejit.formats.tiktoken_ranks.names_of_content", lambda sha256: [])
    checked = _parse_all(data)
    assert checked is not None
    assert list(found.items()) == list(checked.items())


@pytest.mark.parametrize(
    ("name", "pattern", "last", "other"),
    [
        ("cl100k_base", "cl100k", 100276, ""),
        ("o200k_base", "o200k", 200018, ", not of o200k_harmony"),
    ],
)
def test_known_content_with_other_name(tmp_path: Path, name: str, pattern: str, last: int, other: str) -> None:
    path = tmp_path / "ranks.tiktoken"
    path.write_bytes(read_shared(f"vocabs/{name}.tiktoken"))
    with pytest.warns(BpejitWarning, match=f"has the content of the published {name}, and is read with its pattern") as found:
        model = read_tiktoken(path)
    assert other in str(found[0].message)
    assert (model.pattern, max(model.special_tokens.values())) == (pattern, last)
    assert read_tiktoken(path, pattern="gpt2").special_tokens == {}


@pytest.mark.compiled
def test_published_gpt2_pair(shared_data: Path, tmp_path: Path) -> None:
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes(read_shared(f"cs336/gpt2_{name}"))
    loaded = bpejit.load(tmp_path)
    assert (loaded.pattern, loaded.special_tokens, len(loaded.merges)) == ("gpt2", {END: 50256}, 50000)
    assert bpejit.load(tmp_path / "vocab.json").sha256 == loaded.sha256
    assert bpejit.load(tmp_path, pattern="o200k", special_tokens=[]).special_tokens == {}


def test_unknown_pair_needs_a_pattern(tmp_path: Path) -> None:
    save_gpt2_pair(Model(BYTES, [], {"<x>": 256}), tmp_path)
    (tmp_path / "vocab.json.bpejit.json").unlink()
    (tmp_path / "tokenizer_config.json").unlink()  # it names a class
    with pytest.raises(TokenizerFormatError, match=r"vocab.json` does not contain a split pattern.* pass `pattern=`"):
        bpejit.load(tmp_path)
    assert bpejit.load(tmp_path, pattern="gpt2", special_tokens=["<x>"]).special_tokens == {"<x>": 256}
    assert bpejit.load(tmp_path, pattern="gpt2", special_tokens={"<x>": 256, "<y>": 900}).special_tokens == {
        "<x>": 256,
        "<y>": 900,
    }
    with pytest.raises(TokenizerFormatError, match="has the token '<x>' with id 256, not 7"):
        load_gpt2_pair(tmp_path / "vocab.json", pattern="gpt2", special_tokens={"<x>": 7})
