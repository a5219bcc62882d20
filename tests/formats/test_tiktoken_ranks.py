"""tiktoken's rank files, tekken.json and GPT-2's pair: read, written, and compared with the package they belong to."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from cli_helpers import snapshot
from conftest import ROOT, data_text, read_shared, small

import bpejit
from bpejit.errors import BpejitError, OutputError, TokenizerFormatError
from bpejit.formats import published
from bpejit.formats.gpt2 import load_gpt2_pair, save_gpt2_pair
from bpejit.formats.tiktoken import read_tiktoken, write_tiktoken
from bpejit.model import Model

BYTES = {byte: bytes([byte]) for byte in range(256)}

END = "<|endoftext|>"

MODEL = Model(BYTES | {256: b" t", 257: b"he", 300: b" the"}, [], {END: 310, "<é>": 400}, pattern=r"\p{L}+|\s", ranked=True)

RANKS = "".join(f"{line}\n" for line in ("IQ== 0", "Ig== 1"))


@pytest.fixture
def tiktoken():
    return pytest.importorskip("tiktoken")


def write_ranks(path: Path) -> None:
    """A rank file as its owner writes it, without a sidecar."""
    write_tiktoken(MODEL, path)
    path.with_name(path.name + ".bpejit.json").unlink()
    path.with_name(path.stem + "_encoding.py").unlink()


def test_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "mine.tiktoken"
    write_tiktoken(MODEL, path)
    lines = path.read_bytes().split(b"\n")
    assert lines[:2] == [b"AA== 0", b"AQ== 1"]
    assert lines[-4:] == [b"IHQ= 256", b"aGU= 257", b"IHRoZQ== 300", b""]
    assert sorted(snapshot(tmp_path)) == ["mine.tiktoken", "mine.tiktoken.bpejit.json", "mine_encoding.py"]
    sidecar = json.loads((tmp_path / "mine.tiktoken.bpejit.json").read_bytes())
    assert (sidecar["pattern"], sidecar["special_tokens"]) == (MODEL.pattern, MODEL.special_tokens)
    assert read_tiktoken(path) == MODEL
    assert bpejit.load(path).sha256 == MODEL.sha256


def test_the_lines_of_python_run(tmp_path: Path, tiktoken) -> None:
    path = tmp_path / "a'b\\c.tiktoken"
    write_tiktoken(MODEL, path)
    encoding = runpy.run_path(str(tmp_path / "a_b_c_encoding.py"))["encoding"]
    assert isinstance(encoding, tiktoken.Encoding)
    assert encoding.name == "a'b\\c"
    ours = bpejit.Tokenizer.from_model(MODEL)
    # Digits and punctuation are gaps of this pattern.
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
def test_a_trained_tokenizer_for_tiktoken_and_gpt2(tmp_path: Path, tiktoken) -> None:
    ours = bpejit.train([ROOT / "tests" / "data" / "prose.txt"], vocab_size=small(1500, 300), special_tokens=[END], workers=1)
    text = data_text("prose.txt")[: small(100_000, 2_000)].decode("utf-8", "ignore") + END + "don't  \n 123"
    ids = ours.encode(text)
    ours.save(tmp_path / "mine.tiktoken", format="tiktoken")
    encoding = runpy.run_path(str(tmp_path / "mine_encoding.py"))["encoding"]
    assert encoding.encode(text, allowed_special="all") == ids
    assert bpejit.load(tmp_path / "mine.tiktoken").encode(text) == ids
    ours.save(tmp_path / "new" / "pair", format="gpt2")
    files = ["merges.txt", "tokenizer_config.json", "vocab.json", "vocab.json.bpejit.json"]
    assert sorted(snapshot(tmp_path / "new" / "pair")) == files
    assert bpejit.load(tmp_path / "new" / "pair").sha256 == ours.sha256
    assert bpejit.load(tmp_path / "new" / "pair" / "vocab.json").sha256 == ours.sha256


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Model(BYTES | {256: b"ab", 257: b"bc"}, [(b"b", b"c"), (b"a", b"b")]), "merge 2 makes the token b'ab'"),
        (Model(BYTES | {256: b"abc"}, []), "no merges of tokens with lower ids make b'abc'"),
        (Model(BYTES, [], {"<a>": 300, "<a><b>": 301}), "the special token '<a><b>' begins with '<a>'"),
        (Model(BYTES, [], {"<\udc80>": 300}), "is not valid UTF-8"),
        (Model(BYTES, [], pattern=r"(?<=a)b|\w+|\W"), "cannot be translated because"),
        (Model(BYTES, [], pattern=(r"\p{N}", r"\p{L}+")), "splits by 2 patterns one after the other"),
        (Model(BYTES, [], pattern="deepseek-v3"), "splits by 3 patterns one after the other"),
    ],
)
def test_what_tiktoken_would_read_differently_is_refused(tmp_path: Path, model: Model, reason: str) -> None:
    with pytest.raises(TokenizerFormatError, match="cannot be written for tiktoken: ") as caught:
        write_tiktoken(model, tmp_path / "mine.tiktoken")
    assert reason in str(caught.value)
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Model(BYTES, [], pattern="cl100k"), "does not split by the pattern `gpt2`"),
        (Model(BYTES | {256: b"abc"}, [], ranked=True), "leaves whole tokens whole, such as b'abc'"),
        (Model(BYTES | {256: b"abc"}, [], ignore_merges=True), "leaves whole tokens whole, such as b'abc'"),
    ],
)
def test_what_gpt2s_pair_cannot_say_is_refused(tmp_path: Path, model: Model, reason: str) -> None:
    with pytest.raises(TokenizerFormatError, match="cannot be written as GPT-2's pair of files") as caught:
        bpejit.Tokenizer.from_model(model).save(tmp_path / "new", format="gpt2")
    assert reason in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_stay(tmp_path: Path) -> None:
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


def test_names_and_formats_that_do_not_fit(tmp_path: Path) -> None:
    tokenizer = bpejit.Tokenizer.from_model(MODEL)
    with pytest.raises(TokenizerFormatError, match=r"is no name for a rank file; expected one that ends in \.tiktoken"):
        tokenizer.save(tmp_path / "mine", format="tiktoken")
    with pytest.raises(BpejitError, match=r"format is 'gguf'; expected one of 'bpejit', 'hf', 'tiktoken', 'gpt2'"):
        tokenizer.save(tmp_path / "mine", format="gguf")
    with pytest.raises(TokenizerFormatError, match=r"has no `tokenizer.json`; expected no `legacy_merges`"):
        tokenizer.save(tmp_path / "mine.tiktoken", format="tiktoken", legacy_merges=True)
    assert snapshot(tmp_path) == {}


# ---- what the files do not say


def test_pattern_and_special_tokens_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "other.tiktoken"
    write_ranks(path)
    with pytest.raises(TokenizerFormatError, match=r"does not say how text is split.* say `pattern=`"):
        bpejit.load(path)
    with pytest.raises(TokenizerFormatError, match="does not say how text is split"):
        bpejit.load(path, special_tokens={END: 400})
    with pytest.raises(TokenizerFormatError, match="expected `special_tokens=` with them: give a dict"):
        bpejit.load(path, pattern="gpt2", special_tokens=[END])
    assert bpejit.load(path, pattern="gpt2").special_tokens == {}
    loaded = bpejit.load(path, pattern="cl100k", special_tokens={END: 400})
    assert (loaded.pattern, loaded.special_tokens) == ("cl100k", {END: 400})
    with pytest.raises(TokenizerFormatError, match=r"other.tiktoken`: the special token '<x>' has id 97, which belongs to"):
        bpejit.load(path, pattern="cl100k", special_tokens={"<x>": 97})


def test_what_is_said_goes_before_the_sidecar(tmp_path: Path) -> None:
    path = tmp_path / "mine.tiktoken"
    write_tiktoken(MODEL, path)
    assert read_tiktoken(path, pattern="gpt2").special_tokens == MODEL.special_tokens
    assert read_tiktoken(path, special_tokens={}).pattern == MODEL.pattern
    path.write_bytes(path.read_bytes() + b"YWI= 999\n")
    with pytest.raises(TokenizerFormatError, match=r"mine.tiktoken` was changed after bpejit wrote it"):
        read_tiktoken(path)
    assert read_tiktoken(path, pattern="gpt2", special_tokens={}).tokens[999] == b"ab"


def test_a_known_name_with_another_content(tmp_path: Path) -> None:
    path = tmp_path / "cl100k_base.tiktoken"
    write_ranks(path)
    with pytest.raises(
        TokenizerFormatError, match=r"has the name of the published cl100k_base, but another content: its SHA-256"
    ):
        read_tiktoken(path)
    assert read_tiktoken(path, pattern="cl100k").special_tokens == {}


PUBLISHED = ["r50k_base", "p50k_base", "p50k_edit", "cl100k_base", "o200k_base", "o200k_harmony"]


@pytest.mark.compiled
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files(tmp_path: Path, tiktoken, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Pattern, special tokens and ids are those of the package's own constructor, given the same ranks."""
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
    assert asked == [published.RANK_FILES[name].sha256]
    if name == "o200k_harmony":
        # A second name of the id of `<|endofprompt|>`.
        assert theirs["special_tokens"].pop("<|reserved_200018|>") == theirs["special_tokens"]["<|endofprompt|>"]
    assert model.special_tokens == theirs["special_tokens"]
    assert bpejit.model.pattern_source(model.pattern) == theirs["pat_str"]
    encoding = tiktoken.Encoding(**theirs)
    ours = bpejit.Tokenizer.from_model(model)
    text = read_shared("corpora/multilingual.txt")[:300_000].decode("utf-8", "ignore") + END + "x"
    assert ours.encode(text) == encoding.encode(text, allowed_special="all")
    assert ours.vocab_size == encoding.n_vocab


def test_a_published_content_of_another_name(tmp_path: Path) -> None:
    path = tmp_path / "ranks.tiktoken"
    path.write_bytes(read_shared("vocabs/o200k_base.tiktoken"))
    with pytest.raises(
        TokenizerFormatError, match=r"the content of the published o200k_base and o200k_harmony, but another name"
    ):
        read_tiktoken(path)


@pytest.mark.compiled
def test_gpt2s_own_pair(shared_data: Path, tmp_path: Path) -> None:
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes(read_shared(f"cs336/gpt2_{name}"))
    loaded = bpejit.load(tmp_path)
    assert (loaded.pattern, loaded.special_tokens, len(loaded.merges)) == ("gpt2", {END: 50256}, 50000)
    assert bpejit.load(tmp_path / "vocab.json").sha256 == loaded.sha256
    assert bpejit.load(tmp_path, pattern="o200k", special_tokens=[]).special_tokens == {}


def test_another_pair_asks_for_its_pattern(tmp_path: Path) -> None:
    save_gpt2_pair(Model(BYTES, [], {"<x>": 256}), tmp_path)
    (tmp_path / "vocab.json.bpejit.json").unlink()
    with pytest.raises(TokenizerFormatError, match=r"vocab.json` does not say how text is split.* say `pattern=`"):
        bpejit.load(tmp_path)
    assert bpejit.load(tmp_path, pattern="gpt2", special_tokens=["<x>"]).special_tokens == {"<x>": 256}
    assert bpejit.load(tmp_path, pattern="gpt2", special_tokens={"<x>": 256, "<y>": 900}).special_tokens == {
        "<x>": 256,
        "<y>": 900,
    }
    with pytest.raises(TokenizerFormatError, match="has the token '<x>' with id 256, not 7"):
        load_gpt2_pair(tmp_path / "vocab.json", pattern="gpt2", special_tokens={"<x>": 7})
