"""Tests of saved folders: round trips, refused files, and equal ids in the `tokenizers` package."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, data_text, examples, read_shared
from helpers.formats import TEXT, changed, hugging_face, models
from hypothesis import example, given, strategies as st

from bpejit.encoding.encoder import Encoder
from bpejit.errors import OutputError, TokenizerFormatError
from bpejit.formats.any_format import load_model
from bpejit.formats.folder import load_folder
from bpejit.formats.folder_writing import check_folder, save_folder
from bpejit.formats.gpt2 import read_gpt2_pair
from bpejit.formats.huggingface_writing import special_token_obstacle
from bpejit.formats.missing_parts import TOOLS_UNICODE
from bpejit.model import NEVER_IN_UTF8, Model
from bpejit.splitting.presets import PRESETS, Pattern

BYTES = {byte: bytes([byte]) for byte in range(256)}

END = "<|endoftext|>"

MODEL = Model(
    tokens={**BYTES, 256: b" t", 257: b"he", 258: b" the"},
    merges=[(b" ", b"t"), (b"h", b"e"), (b" t", b"he")],
    special_tokens={END: 259, "he": 257},
    pattern="cl100k",
    tie_break="greatest-bytes",
    merge_counts=[30, 20, 10],
    training={"inputs": [{"path": "corpus.txt", "bytes": 5}]},
)

UNTRANSLATABLE = r"(?<=a)b|\w+|\W"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ---- round trips


@given(models())
@example(Model(tokens=BYTES, merges=[], special_tokens={"a": 97, "b": 256, "é": 300, "Ġ": 301, "\udc80": 302, " ": 32}))
@example(Model(tokens={**BYTES, 256: b"<x>", 257: b"abc"}, merges=[], special_tokens={"<x>": 256, "abc": 258}))
@example(Model(tokens={**BYTES, 256: b"a b"}, merges=[], special_tokens={"a b": 256, "aĠb": 1000}))
@example(Model(tokens=BYTES, merges=[], special_tokens={"<x>": 2**32 - 1}))
@example(Model(tokens=BYTES, merges=[], special_tokens={"\udcff": 255}))
@example(Model(tokens=BYTES, merges=[], pattern=UNTRANSLATABLE))
@example(Model(tokens=BYTES, merges=[], pattern="[\udc80é]|."))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, model: Model) -> None:
    folder = tmp_path_factory.mktemp("model") / "new" / "tokenizer"
    reason = save_folder(model, folder)
    loaded = load_folder(folder)
    assert loaded == model
    assert loaded.sha256 == model.sha256
    assert loaded.vocab == model.vocab
    files = {"tokenizer.json", "tokenizer_config.json"} if reason is None else {"model.json"}
    lengths = {"token_bytes.npy"} if model.vocab_size <= 2 * len(model.vocab) + 65536 else set()  # no large gaps
    assert {path.name for path in folder.iterdir()} == files | {"bpejit.json"} | lengths


def test_bytes_of_each_token(tmp_path: Path) -> None:
    save_folder(MODEL, tmp_path)
    lengths = np.load(tmp_path / "token_bytes.npy")
    assert lengths.dtype == np.int32
    assert lengths.size == MODEL.vocab_size
    for number, token in MODEL.vocab.items():
        assert lengths[number] == (0 if number in MODEL.special_tokens.values() else len(token))
    gap = Model(tokens=BYTES, merges=[], pattern="gpt2", special_tokens={"<|e|>": 1_000_000})
    save_folder(gap, tmp_path, overwrite=True)
    assert not (tmp_path / "token_bytes.npy").exists()


def test_saved_files(tmp_path: Path) -> None:
    assert save_folder(MODEL, tmp_path) is None
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert tokenizer["model"]["merges"] == [["Ġ", "t"], ["h", "e"], ["Ġt", "he"]]
    assert tokenizer["model"]["vocab"]["Ġthe"] == 258
    assert tokenizer["model"]["vocab"][END] == 259
    assert list(tokenizer["model"]["vocab"].values()) == list(range(260))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    assert tokenizer["added_tokens"] == [{"id": 257, "content": "he", **flags}, {"id": 259, "content": END, **flags}]
    split, byte_level = tokenizer["pre_tokenizer"]["pretokenizers"]
    assert (split["type"], split["behavior"], split["invert"]) == ("Split", "Isolated", False)
    assert "++" not in split["pattern"]["Regex"], "possessive quantifiers mean something else there"
    assert (byte_level["type"], byte_level["add_prefix_space"], byte_level["use_regex"]) == ("ByteLevel", False, False)
    assert tokenizer["decoder"]["type"] == "ByteLevel"
    config = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert (config["tokenizer_class"], config["eos_token"]) == ("PreTrainedTokenizerFast", END)
    own = json.loads((tmp_path / "bpejit.json").read_text(encoding="ascii"))
    assert own["pattern"] == {"name": "cl100k", "source": PRESETS["cl100k"]}
    assert own["tie_break"] == "greatest-bytes"
    assert own["merge_counts"] == [30, 20, 10]
    assert own["token_lengths"] == [1] * 256 + [2, 0, 4, 0]
    assert own["training"] == MODEL.training
    assert own["sha256"] == MODEL.sha256
    assert own["not_for_other_tools"] is None


@pytest.mark.parametrize("pattern", ["starcoder", PRESETS["starcoder"], (r"\p{N}", r"\s+$|[\s\S]")])
def test_sequence_of_patterns(tmp_path: Path, pattern: Pattern) -> None:
    model = Model(tokens=BYTES, merges=[], pattern=pattern)
    assert save_folder(model, tmp_path) is None
    own = json.loads((tmp_path / "bpejit.json").read_bytes())
    source = PRESETS["starcoder"] if pattern == "starcoder" else pattern
    assert own["pattern"] == {"name": "starcoder" if pattern == "starcoder" else None, "source": list(source)}
    steps = json.loads((tmp_path / "tokenizer.json").read_bytes())["pre_tokenizer"]["pretokenizers"]
    if source == PRESETS["starcoder"]:
        assert [step["type"] for step in steps] == ["Digits", "ByteLevel"]
    else:
        assert [step["type"] for step in steps] == ["Split", "Split", "ByteLevel"]
        assert [step["pattern"]["Regex"] for step in steps[:2]] == [stage.replace("$", r"\z") for stage in source]
    loaded = load_folder(tmp_path)
    assert loaded == model
    assert loaded.sha256 == model.sha256


def test_untranslatable_sequence(tmp_path: Path) -> None:
    model = Model(tokens=BYTES, merges=[], pattern=(r"\p{N}", r"(?<=a)b"))
    obstacle = save_folder(model, tmp_path)
    assert obstacle is not None
    assert "`(?<=`" in obstacle
    assert (tmp_path / "model.json").exists()
    assert load_folder(tmp_path) == model


def test_without_end_of_text_there_is_no_eos_token(tmp_path: Path) -> None:
    save_folder(Model(tokens=BYTES, merges=[], special_tokens={"<eos>": 256}), tmp_path)
    assert "eos_token" not in json.loads((tmp_path / "tokenizer_config.json").read_bytes())


def test_training_notes_may_contain_paths_and_numpy_scalars(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    notes = {"path": Path("a.txt"), "n": numpy.int64(3), "sizes": numpy.array([1, 2])}
    save_folder(Model(tokens=BYTES, merges=[], training=notes), tmp_path)
    assert load_folder(tmp_path).training == {"path": "a.txt", "n": 3, "sizes": [1, 2]}
    before = content(tmp_path)
    with pytest.raises(TypeError, match="the training notes contain"):
        save_folder(Model(tokens=BYTES, merges=[], training={"bad": object()}), tmp_path, overwrite=True)
    assert content(tmp_path) == before


# ---- models that other tools cannot read


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Model(tokens=BYTES, merges=[], pattern=UNTRANSLATABLE), "cannot be translated"),
        (Model(tokens=BYTES, merges=[], pattern="[\udc80é]|."), "UTF-8|cannot be translated"),
        (Model(tokens=BYTES, merges=[], special_tokens={"a": 256}), "'a' is written like the ordinary token b'a'"),
        (Model(tokens=BYTES, merges=[], special_tokens={"é": 256}), r"'é' is written like the ordinary token b'\\xe9'"),
        (Model(tokens=BYTES, merges=[], special_tokens={"<\udc80>": 256}), "is not valid UTF-8"),
    ],
)
def test_models_unsupported_by_other_tools_are_saved_privately(tmp_path: Path, model: Model, reason: str) -> None:
    save_folder(MODEL, tmp_path)
    obstacle = save_folder(model, tmp_path, overwrite=True)
    assert obstacle is not None
    assert re.search(reason, obstacle)
    assert set(content(tmp_path)) == {"model.json", "bpejit.json", "token_bytes.npy"}, (
        "what was saved before must not be picked up"
    )
    assert json.loads((tmp_path / "bpejit.json").read_bytes())["not_for_other_tools"] == obstacle
    assert load_folder(tmp_path) == model
    assert save_folder(MODEL, tmp_path, overwrite=True) is None
    assert set(content(tmp_path)) == {"tokenizer.json", "tokenizer_config.json", "bpejit.json", "token_bytes.npy"}
    assert load_folder(tmp_path) == MODEL


# ---- equal ids in the `tokenizers` package


@examples(0.6)
@given(model=models(), texts=st.lists(TEXT, min_size=1, max_size=4))
def test_equal_ids_for_random_models_and_texts(
    tmp_path_factory: pytest.TempPathFactory, model: Model, texts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("model")
    model = replace(model, unicode=TOOLS_UNICODE)
    if save_folder(model, folder) is not None or model.vocab_size > 1 << 20:
        return
    theirs = hugging_face(folder)
    ours = Encoder(load_folder(folder))
    workspace = ours.new_workspace(cache_bytes=1 << 16)
    for text in texts:
        assert ours.encode(text.encode(), workspace).tolist() == theirs(text)


@pytest.mark.parametrize(
    "text",
    ["<a><b>x", "<a><bx", "xa><b>x", "<a><<a><b><a>", "<<a>>", " <a> ", "<a><b><a", "q<é>é é ", "", "<a>", "a><b><a><b>x"],
)
def test_overlapping_special_tokens(tmp_path: Path, text: str) -> None:
    """Both find the leftmost token, and the longest of those that start at one position."""
    specials = ["<a>", "<a><b>", "a><b", "><b>x", "<é>", "é ", " <a"]
    model = Model(tokens=BYTES, merges=[], special_tokens={special: 300 + 7 * n for n, special in enumerate(specials)})
    assert save_folder(model, tmp_path) is None
    assert Encoder(model).encode(text.encode()).tolist() == hugging_face(tmp_path)(text)


def trained(pattern: str, folder: Path) -> Model:
    import bpejit

    tokenizer = bpejit.train(
        [ROOT / "tests" / "data" / name for name in ("prose.txt", "code.txt", "cjk.txt")],
        vocab_size=3000,
        pattern=pattern,
        unicode=TOOLS_UNICODE,
        special_tokens=[END, "<|end", "def "],
        workers=1,
    )
    assert tokenizer.save(folder) is None
    return tokenizer.model


def assert_equal_on(text: str, ours: Encoder, theirs: Callable[[str], list[int]]) -> None:
    """Compare line by line, which locates a difference, then the whole text."""
    workspace = ours.new_workspace()
    if ours.encode(text.encode(), workspace).tolist() == theirs(text):
        return
    for line in text.splitlines(keepends=True):
        assert ours.encode(line.encode(), workspace).tolist() == theirs(line), line
    pytest.fail("the ids of the whole text differ, those of its lines do not")


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("pattern", sorted(PRESETS))
def test_equal_ids_on_real_text(tmp_path: Path, pattern: str) -> None:
    model = trained(pattern, tmp_path)
    ours, theirs = Encoder(model), hugging_face(tmp_path)
    for name in ("prose.txt", "code.txt", "cjk.txt"):
        text = data_text(name)[:60_000].decode("utf-8", "ignore")
        assert_equal_on(text + END + "<|end" + text[:1000].replace("e", END), ours, theirs)
    assert_equal_on(data_text("awkward.bin").decode("utf-8", "ignore"), ours, theirs)


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        *((f"corpora/{name}.txt", "deepseek-v3") for name in ("code", "hard", "english")),
        *((f"corpora/{name}.txt", "o200k") for name in ("code", "hard", "english")),
        *(("corpora/multilingual.txt", name) for name in sorted(PRESETS)),
    ],
)
def test_equal_ids_on_large_text(shared_data: Path, tmp_path: Path, name: str, pattern: str) -> None:
    pair = shared_data / "cs336" / "gpt2_vocab.json", shared_data / "cs336" / "gpt2_merges.txt"
    model = read_gpt2_pair(*pair, [END], pattern=pattern)
    assert save_folder(model, tmp_path) is None
    data = read_shared(name)
    ours, theirs = Encoder(load_folder(tmp_path)), hugging_face(tmp_path)
    for start in range(0, len(data), max(len(data) // 3, 1)):
        assert_equal_on(data[start : start + 200_000].decode("utf-8", "ignore"), ours, theirs)


def test_gpt2_ids_decode_in_tokenizers(shared_data: Path, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    pair = shared_data / "cs336" / "gpt2_vocab.json", shared_data / "cs336" / "gpt2_merges.txt"
    save_folder(read_gpt2_pair(*pair, [END]), tmp_path)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = f"Hello  world!\n 日本 {END} naïve\t🙂"
    assert theirs.decode(theirs.encode(text).ids, skip_special_tokens=False) == text
    assert theirs.get_vocab_size() == 50257
    assert theirs.token_to_id(END) == 50256


# ---- errors of loading


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(
        TokenizerFormatError, match=re.escape(f"there is no tokenizer `{tmp_path / 'x'}`: no such file or folder")
    ):
        load_folder(tmp_path / "x")


def test_paths_of_other_kinds(tmp_path: Path) -> None:
    (tmp_path / "tokens.bin").touch()
    with pytest.raises(TokenizerFormatError, match=r"tokens.bin` is in no known format; expected a folder that bpejit wrote"):
        load_model(tmp_path / "tokens.bin")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TokenizerFormatError, match=re.escape(f"`{tmp_path / 'empty'}` contains no tokenizer; expected")):
        load_model(tmp_path / "empty")
    save_folder(MODEL, tmp_path / "t")
    assert load_model(tmp_path / "t" / "tokenizer.json") == MODEL
    (tmp_path / "t" / "bpejit.json").unlink()
    assert load_model(tmp_path / "t").tokens == MODEL.tokens  # as a tokenizer of another tool


def test_missing_file(tmp_path: Path) -> None:
    save_folder(MODEL, tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(TokenizerFormatError, match=r"tokenizer.json`: there is no such file"):
        load_folder(tmp_path)


def test_changed_tokenizer_json(tmp_path: Path) -> None:
    save_folder(MODEL, tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_bytes(path.read_bytes().replace(b'"he"', b'"hE"'))
    with pytest.raises(
        TokenizerFormatError, match=r"tokenizer.json` was changed after bpejit wrote it: its SHA-256 is"
    ) as caught:
        load_folder(tmp_path)
    assert str(caught.value).count("expected") == 1


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        (("format",), "other", "format is 'other'; expected 'bpejit tokenizer'"),
        (("format",), ..., "format is None"),
        (
            ("format_version",),
            5,
            r"format version 5, and bpejit .* reads versions up to 4; it was written by bpejit '0\.1\.0': install",
        ),
        (("format_version",), 0, "format_version is 0"),
        (("format_version",), "1", "format_version is '1'; expected a whole number"),
        (("format_version",), True, "format_version is True"),
        (("format_version",), ..., "has no 'format_version'"),
        (("tokenizer_file",), "../secret.json", r"tokenizer_file is '\.\./secret.json'; expected tokenizer.json or model.json"),
        (("tokenizer_file",), "model.json", "model.json`: there is no such file"),
        (("tokenizer_file_sha256",), "0" * 64, "was changed after bpejit wrote it"),
        (("tokenizer_file_sha256",), None, "tokenizer_file_sha256 is None; expected a string"),
        (("sha256",), "0" * 64, "expected '0000"),
        (("sha256",), ..., "has no 'sha256'"),
        (("pattern",), "gpt2", "pattern is 'gpt2'; expected an object"),
        (("pattern", "source"), ..., "has no 'source'"),
        (("pattern", "source"), "x", "bpejit.json` was changed"),
        (("pattern", "source"), ["x", r"\s"], "bpejit.json` was changed"),
        (("pattern", "source"), [], r"source is \[\]; expected a regular expression or a list of them"),
        (("pattern", "source"), ["x", 1], r"source is \['x', 1\]; expected a regular expression or a list of them"),
        (("pattern", "source"), None, "source is None; expected a string or a list"),
        (("pattern", "name"), 3, "name is 3; expected a string or null"),
        (("shared_ids",), [], r"merges` is \[\]; expected the special tokens that they need among the shared ids"),
        (("shared_ids",), None, "shared_ids is None; expected a list"),
        (("shared_ids",), [[1]], r"shared_ids is \[\[1\]\]"),
        (("tie_break",), 1, "tie_break is 1; expected a string or null"),
        (("merge_counts",), {}, "merge_counts is {}; expected a list"),
        (("merge_counts",), [1, 2], r"merge_counts is \[1, 2\]; expected 3 whole numbers"),
        (("merge_counts",), [1, 2, "3"], "expected 3 whole numbers"),
        (("training",), [], r"training is \[\]; expected an object"),
        (("unicode",), "\udc80", r"bpejit.json` was changed"),
    ],
)
def test_invalid_bpejit_json(tmp_path: Path, path: tuple[Any, ...], new: Any, message: str) -> None:
    save_folder(MODEL, tmp_path)
    own = tmp_path / "bpejit.json"
    own.write_text(json.dumps(changed(json.loads(own.read_bytes()), path, new)))
    with pytest.raises(TokenizerFormatError, match=message) as caught:
        load_folder(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"null"])
def test_truncated_bpejit_json(tmp_path: Path, data: bytes) -> None:
    save_folder(MODEL, tmp_path)
    (tmp_path / "bpejit.json").write_bytes(data)
    with pytest.raises(TokenizerFormatError, match=re.escape("bpejit.json`")):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        (("model",), ..., "has no 'model'"),
        (("model",), 5, "`model` is 5; expected an object"),
        (("model", "vocab"), [], r"vocab` is \[\]; expected an object"),
        (("model", "vocab", "a"), ..., r"lacks 1 of the 256 single bytes \(0x61\)"),
        (("model", "vocab", "a"), "97", "has the id '97' for 'a'; expected a whole number"),
        (("model", "vocab", "a"), 97.0, "has the id 97.0 for 'a'; expected a whole number"),
        (("model", "vocab", "a"), 98, "lacks 1 of the 256 single bytes"),
        (("model", "vocab", "a"), -1, "has the id -1 for 'a'; expected a whole number from 0"),
        (
            ("model", "vocab", "日本"),
            300,
            "token` is '日本'; expected byte characters, or the symbols that bpejit.json describes",
        ),
        (("model", "vocab", "new"), 300, "bpejit.json` was changed"),
        (("model", "merges"), {}, "merges` is {}; expected a list"),
        (("model", "merges", 1), ["h", "e", "x"], r"merges\[1\]` is \['h', 'e', 'x'\]; expected two tokens"),
        (("model", "merges", 1), ["h"], r"merges\[1\]` is \['h'\]; expected two tokens"),
        (("model", "merges", 1), "h  e", r"merges\[1\]` is \['h', '', 'e'\]; expected two tokens"),
        (("model", "merges", 1), 5, r"merges\[1\]` is 5; expected two tokens"),
        (("model", "merges", 1), [["h"], "e"], r"merges\[1\]` is \[\['h'\], 'e'\]; expected two tokens"),
        (("model", "merges", 1), ["h", "zzz"], r"merges\[1\]` is \['h', 'zzz'\], but 'zzz' is not in model.vocab"),
        (("model", "merges", 1), ["h", "x"], r"merges\[1\]` is \['h', 'x'\], but 'hx' is not in model.vocab"),
        (("model", "merges", 1), ["Ġ", "t"], "merge 2 joins b' ' and b't' again"),
        (("added_tokens",), ..., "has no 'added_tokens'"),
        (("added_tokens", 0), "he", r"added_tokens\[0\]` is 'he'; expected an object"),
        (("added_tokens", 0, "content"), ..., "has no 'content'"),
        (("added_tokens", 0, "id"), "x", "id` is 'x'; expected a whole number"),
        (("added_tokens", 0, "id"), 97, "'he' has id 97, which belongs to the token b'a'"),
        (("added_tokens", 0, "content"), "", "a special token is empty"),
        (("added_tokens", 1, "content"), "he", "special token"),
    ],
)
def test_invalid_tokenizer_json(tmp_path: Path, path: tuple[Any, ...], new: Any, message: str) -> None:
    """The hash is updated, as if bpejit itself had written the file."""
    save_folder(MODEL, tmp_path)
    tokenizer, own = tmp_path / "tokenizer.json", tmp_path / "bpejit.json"
    tokenizer.write_text(json.dumps(changed(json.loads(tokenizer.read_bytes()), path, new)))
    fields = json.loads(own.read_bytes())
    own.write_text(json.dumps({**fields, "tokenizer_file_sha256": hashlib.sha256(tokenizer.read_bytes()).hexdigest()}))
    with pytest.raises(TokenizerFormatError, match=message) as caught:
        load_folder(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_preset_changed_after_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer retains the pattern that it was trained with, and its hash."""
    save_folder(MODEL, tmp_path)
    sha256 = MODEL.sha256
    source = PRESETS["cl100k"]
    for presets in ({**PRESETS, "cl100k": r"\s+|\S+"}, {"gpt2": PRESETS["gpt2"]}):
        monkeypatch.setattr("bpejit.splitting.presets.PRESETS", presets)
        loaded = load_folder(tmp_path)
        assert loaded.pattern == source
        assert loaded.sha256 == sha256


# ---- errors of saving


def test_saving_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    for path in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(OutputError, match=r"cannot save to|cannot create the folder"):
            save_folder(MODEL, path)
    assert content(tmp_path) == {"file": b"old"}


def test_tokenizer_of_another_tool_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b"precious")
    for attempt in (lambda: save_folder(MODEL, tmp_path), lambda: check_folder(tmp_path)):
        with pytest.raises(OutputError, match=r"`tokenizer.json` already exists there; .* `overwrite=True`"):
            attempt()
    assert content(tmp_path) == {"tokenizer.json": b"precious"}


def test_other_files_in_folder_are_preserved(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"mine")
    save_folder(MODEL, tmp_path)
    save_folder(Model(tokens=BYTES, merges=[]), tmp_path, overwrite=True)
    assert (tmp_path / "notes.txt").read_bytes() == b"mine"


def test_checking_a_folder_creates_nothing(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b")
    check_folder("relative-name-that-does-not-exist")
    assert content(tmp_path) == {}


@pytest.mark.parametrize("blocked", ["bpejit.json", "tokenizer_config.json"])
def test_failed_save_preserves_old_files(tmp_path: Path, blocked: str) -> None:
    save_folder(MODEL, tmp_path)
    (tmp_path / blocked).unlink()
    (tmp_path / blocked).mkdir()
    before = {path.name: path.is_dir() or path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(OutputError, match="it is a folder"):
        save_folder(Model(tokens=BYTES, merges=[]), tmp_path, overwrite=True)
    assert {path.name: path.is_dir() or path.read_bytes() for path in tmp_path.iterdir()} == before


def test_folder_that_cannot_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(OutputError, match=r"cannot create the folder .*: No space left on device"):
        save_folder(MODEL, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_failed_save_removes_new_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OutputError, match="the disk is full"):
        save_folder(MODEL, tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_folder_can_be_moved(tmp_path: Path) -> None:
    save_folder(MODEL, tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert load_folder(tmp_path / "there") == MODEL


def test_special_token_with_id_of_ordinary_token_can_be_exported() -> None:
    assert special_token_obstacle(MODEL) is None
    spaced = Model(tokens=MODEL.tokens, merges=MODEL.merges, special_tokens={" t": 256})
    assert special_token_obstacle(spaced) is None


# ---- merge algorithms


LACKING = {number: token for number, token in BYTES.items() if number not in NEVER_IN_UTF8}


@pytest.mark.parametrize(
    "model",
    [
        Model(BYTES | {256: b" t", 257: b"he", 258: b" the"}, [], {END: 300}, ranked=True, training={"note": 1}),
        Model(BYTES | {256: b"the"}, [], {END: 300}, ranked=True, pattern=PRESETS["starcoder"]),
        Model(LACKING | {256: b"ab"}, [], ranked=True, ignore_merges=True),
        Model(LACKING | {256: b"ab"}, [(b"a", b"b")]),
        Model(BYTES | {256: b"ab", 257: b"xyz"}, [(b"a", b"b")], ignore_merges=True, merge_counts=[7]),
        Model(BYTES, [], {"Ġt": 256}, ranked=True),
    ],
)
@pytest.mark.parametrize("legacy_merges", [False, True])
def test_round_trip_of_merge_settings(tmp_path: Path, model: Model, legacy_merges: bool) -> None:
    obstacle = save_folder(model, tmp_path, legacy_merges=legacy_merges)
    loaded = load_folder(tmp_path)
    assert loaded == model
    assert loaded.sha256 == model.sha256
    text = "the t the  ab xyz é日 12 the1"
    if obstacle is None:
        assert hugging_face(tmp_path)(text) == Encoder(model).encode(text.encode()).tolist()
    else:
        assert obstacle == "the special token 'Ġt' is written like the bytes b' t'"


def test_whole_tokens_are_not_special_tokens(tmp_path: Path) -> None:
    """Without `ignore_merges`, whole tokens are not looked up, and the same special token can be exported."""
    model = Model(BYTES, [], {"Ġt": 256})
    assert save_folder(model, tmp_path) is None
    assert hugging_face(tmp_path)(" t Ġt") == Encoder(model).encode(" t Ġt".encode()).tolist()


def test_version_1_is_written_if_sufficient(tmp_path: Path) -> None:
    versions = {}
    for name, kind in (("plain", {}), ("ranked", {"ranked": True}), ("whole", {"ignore_merges": True})):
        save_folder(Model(BYTES, [], **kind), tmp_path / name)
        versions[name] = json.loads((tmp_path / name / "bpejit.json").read_bytes())["format_version"]
    assert versions == {"plain": 1, "ranked": 2, "whole": 2}


def test_folder_of_version_1_without_newer_keys(tmp_path: Path) -> None:
    save_folder(MODEL, tmp_path)
    own = json.loads((tmp_path / "bpejit.json").read_bytes())
    (tmp_path / "bpejit.json").write_text(json.dumps(changed(changed(own, ("ranked",), ...), ("ignore_merges",), ...)))
    assert load_folder(tmp_path) == MODEL
    (tmp_path / "bpejit.json").write_text(json.dumps(changed(own, ("ranked",), 1)))
    with pytest.raises(TokenizerFormatError, match=r"bpejit.json`: ranked is 1; expected true or false"):
        load_folder(tmp_path)


def test_folder_that_must_be_public(tmp_path: Path) -> None:
    with pytest.raises(TokenizerFormatError, match=r"cannot be written for Hugging Face: .*cannot be translated because"):
        save_folder(Model(tokens=BYTES, merges=[], pattern=UNTRANSLATABLE), tmp_path / "new", must_be_public=True)
    assert not (tmp_path / "new").exists()


@pytest.mark.compiled
@pytest.mark.parametrize("ranked", [False, True])
def test_transformers(tmp_path: Path, ranked: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        merges = [] if ranked else MODEL.merges
        model = Model(MODEL.tokens, merges, {END: 259, "<pad>": 260}, "cl100k", ranked=ranked)
        assert save_folder(model, tmp_path, must_be_public=True) is None
        theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
        text = f"the  then\n\n 12345 don't 日本{END}{END} x"
        assert theirs.encode(text, add_special_tokens=False) == Encoder(model).encode(text.encode()).tolist()
        assert theirs.decode(theirs.encode(text, add_special_tokens=False)) == text
        assert theirs.eos_token_id == 259
