"""Tests of saving vocabularies of characters and incomplete bytes: the same model, and the ids and texts of `tokenizers`."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.huggingface import added_token, dumped
from helpers.symbols import KINDS, TEXTS, UNSEEN, write_kind
from tokenizers import Tokenizer as HuggingFace

import bpejit
from bpejit.errors import TokenizerFormatError
from bpejit.formats import folder, packed_vocabulary, vocabulary_arrays
from bpejit.formats.huggingface_reading import read_tokenizer_json
from bpejit.normalization.byte_characters import encode_byte_characters


@pytest.fixture(params=list(KINDS))
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_kind(request.param, tmp_path / "published")


def expected_of(file: Path) -> tuple[list[list[int]], list[str]]:
    reader = HuggingFace.from_file(str(file))
    ids = [found.ids for found in reader.encode_batch(TEXTS, add_special_tokens=False)]
    return ids, reader.decode_batch(ids, skip_special_tokens=False)


def check(tokenizer: bpejit.Tokenizer, file: Path) -> None:
    ids, texts = expected_of(file)
    assert [tokenizer.encode(text) for text in TEXTS] == ids
    assert [tokenizer.decode(found) for found in ids] == texts


def test_a_folder_has_the_same_model_and_a_file_with_equal_ids(file: Path, tmp_path: Path) -> None:
    tokenizer = bpejit.load(file)
    check(tokenizer, file)
    tokenizer.save(tmp_path / "saved")
    own = json.loads((tmp_path / "saved" / "bpejit.json").read_bytes())
    assert (own["format_version"], own["not_for_other_tools"]) == (4, None)
    found = bpejit.load(tmp_path / "saved")
    assert found.model == tokenizer.model
    assert found.sha256 == tokenizer.sha256
    check(found, file)
    written = tmp_path / "saved" / "tokenizer.json"
    assert expected_of(written) == expected_of(file)
    assert HuggingFace.from_file(str(written)).get_vocab() == HuggingFace.from_file(str(file)).get_vocab()


def test_the_file_alone_has_the_same_model(file: Path, tmp_path: Path) -> None:
    tokenizer = bpejit.load(file)
    tokenizer.save(tmp_path / "saved", format="hf")
    (tmp_path / "saved" / "bpejit.json").unlink()
    assert bpejit.load(tmp_path / "saved" / "tokenizer.json").model == tokenizer.model


def test_a_second_load_reads_the_stored_model(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BPEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("BPEJIT_CACHE", "1")
    monkeypatch.setattr(vocabulary_arrays, "LEAST_TOKENS", 50)
    tokenizer = bpejit.load(file)
    tokenizer.save(tmp_path / "saved")
    bpejit.load(tmp_path / "saved")
    monkeypatch.setattr(folder, "_parse", None)
    again = bpejit.load(tmp_path / "saved")
    assert again.model == tokenizer.model
    check(again, file)


def test_a_large_file_has_the_model_of_a_small_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = bpejit.load(file).model
    monkeypatch.setattr(packed_vocabulary, "_LEAST_BYTES", 0)
    found = bpejit.load(file).model
    assert found == expected
    assert (found.sha256, found.file_sections) == (expected.sha256, expected.file_sections)


@pytest.mark.parametrize(
    "content",
    [
        *('[{"merges": []}]', '{"merges": []}', '{"model": [], "merges": []}', '{"model": {"merges": []}}', '["merges": []'),
        *('{"model": {"merges": [["a", "b"]], "merges": 1}}', '{"model": {"vocab": {}, "merges": [["a", "b"]]}}'),
    ],
)
def test_a_large_file_has_the_errors_of_a_small_one(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(TokenizerFormatError) as expected:
        read_tokenizer_json(path)
    monkeypatch.setattr(packed_vocabulary, "_LEAST_BYTES", 0)
    with pytest.raises(TokenizerFormatError) as found:
        read_tokenizer_json(path)
    assert str(found.value) == str(expected.value)


def test_the_sections_can_be_written_without_those_of_the_source(file: Path, tmp_path: Path) -> None:
    model = replace(bpejit.load(file).model, file_sections=None)
    bpejit.Tokenizer.from_model(model).save(tmp_path / "saved", format="hf")
    assert expected_of(tmp_path / "saved" / "tokenizer.json") == expected_of(file)


def test_the_mark_is_no_token_after_an_unknown_byte(tmp_path: Path) -> None:
    """The byte that stands for the suffix has a token, too."""
    content = KINDS["clip"]()
    del content["model"]["vocab"][encode_byte_characters(b"\x87")]
    assert encode_byte_characters(b"\xff") in content["model"]["vocab"]
    path = tmp_path / "tokenizer.json"
    path.write_text(dumped(content), encoding="utf-8")
    judge, tokenizer = HuggingFace.from_file(str(path)), bpejit.load(path)
    for text in ("i\u0307s", "\u0307", "x\u0307y"):
        assert list(tokenizer.encode(text)) == judge.encode(text, add_special_tokens=False).ids


def test_an_inserted_space_is_no_added_token(tmp_path: Path) -> None:
    content = KINDS["llama"]()
    content["added_tokens"].append({**added_token(" "), "id": len(content["model"]["vocab"])})
    path = tmp_path / "tokenizer.json"
    path.write_text(dumped(content), encoding="utf-8")
    judge, tokenizer = HuggingFace.from_file(str(path)), bpejit.load(path)
    for text in ("a", " a", "the cat"):
        ids = judge.encode(text, add_special_tokens=False).ids
        assert list(tokenizer.encode(text)) == ids
        assert tokenizer.encode_batch([text])[0].tolist() == ids


def test_token_bytes_are_those_of_the_text(tmp_path: Path) -> None:
    tokenizer = bpejit.load(write_kind("llama", tmp_path))
    tokenizer.save(tmp_path / "saved")
    lengths = np.load(tmp_path / "saved" / "token_bytes.npy")
    text = " a 東 ☃ z"
    assert lengths[tokenizer.encode(text)].sum() == len(f" {text}".encode())
    words = bpejit.load(write_kind("clip", tmp_path / "clip"))
    words.save(tmp_path / "words")
    lengths = np.load(tmp_path / "words" / "token_bytes.npy")
    assert lengths[words.encode("the café sat")].sum() == len("thecafésat".encode())


@pytest.mark.parametrize("format", ["tiktoken", "gpt2"])
def test_formats_of_bytes_refuse_other_tokens(file: Path, tmp_path: Path, format: str) -> None:  # noqa: A002
    tokenizer = bpejit.load(file)
    with pytest.raises(TokenizerFormatError, match=r"made of characters|ends of words|has no token for \d+ bytes"):
        tokenizer.save(tmp_path / "other.tiktoken" if format == "tiktoken" else tmp_path / "other", format=format)


def test_formats_of_bytes_hold_a_vocabulary_with_tokens_that_no_text_becomes(tmp_path: Path) -> None:
    content = KINDS["byte_level"]()
    vocab = content["model"]["vocab"]
    missing = sorted({*map(encode_byte_characters, (bytes([b]) for b in range(256)))} - {*vocab})
    for character in missing:
        vocab[character] = len(vocab)
    content["model"]["unk_token"] = None
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    tokenizer = bpejit.load(path)
    assert tokenizer.id_to_token(vocab[""]) == b""
    tokenizer.save(tmp_path / "pair", format="gpt2")
    assert [bpejit.load(tmp_path / "pair").encode(text) for text in TEXTS] == expected_of(path)[0]


def test_special_tokens_can_be_added(file: Path, tmp_path: Path) -> None:
    tokenizer = bpejit.load(file).with_special_tokens(["<|new|>", "☃"])
    tokenizer.save(tmp_path / "saved")
    assert bpejit.load(tmp_path / "saved") == tokenizer
    check(tokenizer, tmp_path / "saved" / "tokenizer.json")
    assert tokenizer.encode("<|new|>☃") == [len(tokenizer) - 2, len(tokenizer) - 1]


def test_a_vocabulary_is_shrunk_with_its_symbols(file: Path, tmp_path: Path) -> None:
    tokenizer = bpejit.load(file)
    smaller = tokenizer.shrink(len(tokenizer) - 30)
    assert len(smaller) == len(tokenizer) - 30
    smaller.save(tmp_path / "saved", format="hf")
    check(smaller, tmp_path / "saved" / "tokenizer.json")
    assert bpejit.load(tmp_path / "saved") == smaller


def test_pickling_and_identity(file: Path) -> None:
    tokenizer = bpejit.load(file)
    found = pickle.loads(pickle.dumps(tokenizer))
    assert found == tokenizer
    assert hash(found) == hash(tokenizer)
    assert found.encode(UNSEEN) == tokenizer.encode(UNSEEN)
    assert {number: tokenizer.id_to_token(number) for number in tokenizer.vocab} == tokenizer.vocab


def test_symbols_are_checked(tmp_path: Path) -> None:
    bpejit.load(write_kind("llama", tmp_path)).save(tmp_path / "saved")
    own = tmp_path / "saved" / "bpejit.json"
    content = json.loads(own.read_bytes())
    for changed, message in (
        ({"byte_ids": ["x"]}, "expected whole numbers as ids"),
        ({"space": 5}, "symbols.space is 5; expected a string"),
        ({"other": 5}, "symbols.other` is an unknown key"),
        ({"fuses_unknown": True}, "was changed after bpejit wrote it"),
        ({"unused": {"1": "é€"}}, "expected whole numbers as ids, and tokens in Latin-1"),
    ):
        own.write_text(json.dumps({**content, "symbols": {**content["symbols"], **changed}}))
        with pytest.raises(TokenizerFormatError, match=message):
            bpejit.load(tmp_path / "saved")
    own.write_text(json.dumps({**content, "symbols": None}))
    with pytest.raises(TokenizerFormatError, match="expected byte characters, or the symbols"):
        bpejit.load(tmp_path / "saved")
    own.write_text(json.dumps({**content, "symbols": {**content["symbols"], "space": ""}}))
    with pytest.raises(TokenizerFormatError, match="was changed after bpejit wrote it"):
        bpejit.load(tmp_path / "saved")


def test_ambiguous_vocabularies_are_refused(tmp_path: Path) -> None:
    words, level, unnamed = KINDS["words"](), KINDS["byte_level"](), KINDS["characters"]()
    words["model"]["vocab"] |= {"##": words["model"]["vocab"]["#"]}
    level["model"]["vocab"] |= {"<0xC4>": 900}
    level["model"]["byte_fallback"] = True
    unnamed["model"]["unk_token"] = ""
    messages = (
        r"has b'#' and b'##' with the id \d+, and one begins",
        r"is true, and \d+ bytes without tokens would become",
        "`model.unk_token` is '', which is not in model.vocab",
    )
    for content, message in zip((words, level, unnamed), messages, strict=True):
        path = tmp_path / "tokenizer.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(TokenizerFormatError, match=message):
            bpejit.load(path)
