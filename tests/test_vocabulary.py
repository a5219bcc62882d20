"""Tests of the vocabulary of a tokenizer: lookups, added special tokens, equality, and read-only attributes."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import bpejit
from bpejit.formats.huggingface_reading import model_from_json
from bpejit.model import Model

BYTES = {number: bytes([number]) for number in range(256)}
END = "<|endoftext|>"
MODEL = Model({**BYTES, 256: b"ab", 300: b"abc"}, [(b"a", b"b"), (b"ab", b"c")], {END: 299, "<x>": 301})
RANKED = Model({**BYTES, 256: b"ab", 257: b"abc"}, [], {END: 258}, ranked=True)


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    return bpejit.Tokenizer.from_model(MODEL)


# ---- lookups -----------------------------------------------------------------------------------------------------------


def test_token_to_id_and_back(tokenizer: bpejit.Tokenizer) -> None:
    for token_id, token in tokenizer.vocab.items():
        assert tokenizer.id_to_token(token_id) == token
        assert tokenizer.token_to_id(token) == token_id
        assert token in tokenizer
    assert tokenizer.token_to_id("abc") == 300
    assert tokenizer.token_to_id(END) == tokenizer.token_to_id(END.encode()) == 299
    assert tokenizer.token_to_id(bytearray(b"ab")) == 256
    assert tokenizer.id_to_token(np.uint16(300)) == b"abc"


@pytest.mark.parametrize("token", ["", "abcd", b"", b"\xff\xff", "é", "\udc80", "<|endof"])
def test_token_to_id__unknown_token(token: str | bytes, tokenizer: bpejit.Tokenizer) -> None:
    assert tokenizer.token_to_id(token) is None
    assert token not in tokenizer


def test_token_to_id__prefers_special_tokens() -> None:
    tokenizer = bpejit.Tokenizer.from_model(Model({**BYTES, 256: b"ab"}, [], {"ab": 257, "\udcff": 258}))
    assert tokenizer.token_to_id("ab") == tokenizer.token_to_id(b"ab") == 257
    assert tokenizer.encode("ab") == tokenizer.encode_array(b"ab").tolist() == [257]
    assert tokenizer.token_to_id("\udcff") == tokenizer.token_to_id(b"\xff") == 258
    assert tokenizer.id_to_token(256) == tokenizer.id_to_token(257) == b"ab"


@pytest.mark.parametrize("wrong", [None, 5, 1.0, ["a"]])
def test_token_to_id__wrong_types(wrong: object, tokenizer: bpejit.Tokenizer) -> None:
    assert wrong not in tokenizer
    with pytest.raises(bpejit.ArgumentTypeError, match=r"^token is "):
        tokenizer.token_to_id(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("unknown", [257, 298, 302, -1, 2**70])
def test_id_to_token__unknown_id(unknown: int, tokenizer: bpejit.Tokenizer) -> None:
    with pytest.raises(bpejit.TokenIdError, match=r"^id is .*which the vocabulary does not have"):
        tokenizer.id_to_token(unknown)


@pytest.mark.parametrize("wrong", [True, 1.0, "1", b"a", None])
def test_id_to_token__wrong_types(wrong: object, tokenizer: bpejit.Tokenizer) -> None:
    with pytest.raises(bpejit.ArgumentTypeError, match=r"^id is "):
        tokenizer.id_to_token(wrong)  # type: ignore[arg-type]


def test_len_counts_tokens_and_not_gaps(tokenizer: bpejit.Tokenizer) -> None:
    assert len(tokenizer) == len(tokenizer.vocab) == 260
    assert tokenizer.vocab_size == 302
    shared = bpejit.Tokenizer.from_model(Model({**BYTES, 256: b"<x>"}, [], {"<x>": 256}))
    assert len(shared) == len(shared.vocab) == 257


# ---- batches -----------------------------------------------------------------------------------------------------------

ROWS = st.lists(st.lists(st.sampled_from([97, 98, 195, 169, 256, 299, 300, 301]), max_size=5), max_size=6)


@given(rows=ROWS, skip=st.booleans(), errors=st.sampled_from(["replace", "ignore", "backslashreplace"]))
def test_decode_batch__matches_decode(rows: list[list[int]], skip: bool, errors: str, tokenizer: bpejit.Tokenizer) -> None:
    expected = [tokenizer.decode(row, errors=errors, skip_special_tokens=skip) for row in rows]
    options = {"errors": errors, "skip_special_tokens": skip}
    assert tokenizer.decode_batch(rows, **options) == expected
    assert tokenizer.decode_batch([np.array(row, dtype=np.uint16) for row in rows], **options) == expected
    assert tokenizer.decode_batch((iter(row) for row in rows), **options) == expected


def test_decode_batch__accepts_result_of_encode_batch(tokenizer: bpejit.Tokenizer) -> None:
    texts = ["abc", "", f"é{END}", "x"]
    assert tokenizer.decode_batch(tokenizer.encode_batch(texts)) == texts
    assert tokenizer.decode_batch(tokenizer.encode_batch([])) == []


@pytest.mark.parametrize(
    "row", [[97, 257], [97, -1], [97, 2**70], [97, "a"], [97, 0.5], np.array([97, 2**63], dtype=np.uint64)]
)
@pytest.mark.parametrize("skip", [False, True])
def test_decode_batch__reports_row_and_position(row: list[int], skip: bool, tokenizer: bpejit.Tokenizer) -> None:
    with pytest.raises(bpejit.TokenIdError, match=r"^batch\[2\]: .*\(at position 1\)"):
        tokenizer.decode_batch([[97], [], row, [98]], skip_special_tokens=skip)


def test_decode_batch__wrong_types(tokenizer: bpejit.Tokenizer) -> None:
    with pytest.raises(bpejit.ArgumentTypeError, match=r"^batch is 5, an int; expected a list of lists"):
        tokenizer.decode_batch(5)  # type: ignore[arg-type]
    with pytest.raises(bpejit.ArgumentTypeError, match=r"^batch\[1\] is 98, an int"):
        tokenizer.decode_batch([[97], 98])  # type: ignore[list-item]
    with pytest.raises(bpejit.OptionError, match=r"^errors is 'x'"):
        tokenizer.decode_batch([[97]], errors="x")
    with pytest.raises(UnicodeDecodeError):
        tokenizer.decode_batch([[97], [195]], errors="strict")


# ---- added special tokens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [MODEL, RANKED], ids=["merges", "ranked"])
def test_with_special_tokens(model: Model) -> None:
    tokenizer = bpejit.Tokenizer.from_model(model)
    more = tokenizer.with_special_tokens(["<a>", END, "<b>", "abc", "<a>"])
    size = tokenizer.vocab_size
    assert more.special_tokens == {**tokenizer.special_tokens, "<a>": size, "<b>": size + 1, "abc": model.ids[b"abc"]}
    assert more.vocab_size == size + 2
    assert more.encode("ab<a>abc<b>") == [256, size, model.ids[b"abc"], size + 1]
    assert tokenizer.encode_ordinary("ab<a>") == more.encode_ordinary("ab<a>")
    assert more.model.merges == model.merges
    assert more != tokenizer
    assert tokenizer.with_special_tokens([END]) is tokenizer


@pytest.mark.slow
@settings(max_examples=30)
@given(
    texts=st.lists(st.text(st.sampled_from("abc <é"), min_size=1, max_size=3), max_size=4),
    sample=st.text("abc <é", max_size=20),
)
def test_with_special_tokens__supported_formats_preserve_ids(
    texts: list[str], sample: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("formats")
    for model in (MODEL, RANKED):
        more = bpejit.Tokenizer.from_model(model).with_special_tokens(texts)
        for name in ("bpejit", "hf", "tiktoken", "gpt2"):
            path = folder / f"{model.ranked}.{name}"
            try:
                more.save(path, format=name)
            except bpejit.TokenizerFormatError:
                assert name != "bpejit"
                continue
            again = bpejit.load(path)
            assert again.encode(sample) == more.encode(sample)
            assert {**again.special_tokens} == {**more.special_tokens}
            if name == "bpejit":
                assert again == more


@pytest.mark.parametrize("name", ["bpejit", "hf", "tiktoken", "gpt2"])
def test_with_special_tokens__ordinary_names_are_saved_in_every_format(name: str, tmp_path: Path) -> None:
    more = bpejit.Tokenizer.from_model(RANKED).with_special_tokens(["<|user|>", "<|assistant|>"])
    path = tmp_path / f"tokenizer.{name}"
    more.save(path, format=name)
    again = bpejit.load(path)
    assert again.special_tokens == more.special_tokens
    assert again.encode("abc<|user|>") == more.encode("abc<|user|>")


def test_with_special_tokens__extends_the_sections_of_a_file(tmp_path: Path) -> None:
    bpejit.Tokenizer.from_model(RANKED).save(tmp_path / "first", format="hf")
    content = json.loads((tmp_path / "first" / "tokenizer.json").read_bytes())
    content["truncation"] = {"direction": "Right", "max_length": 9, "strategy": "LongestFirst", "stride": 0}
    content["decoder"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    more = bpejit.Tokenizer.from_model(model_from_json(content)).with_special_tokens(["<a>"])
    more.save(tmp_path / "second", format="hf")
    written = json.loads((tmp_path / "second" / "tokenizer.json").read_bytes())
    assert [written[name] for name in ("truncation", "decoder")] == [content[name] for name in ("truncation", "decoder")]
    assert written["added_tokens"][:-1] == content["added_tokens"]
    assert written["added_tokens"][-1] == {**content["added_tokens"][0], "id": 259, "content": "<a>"}
    assert list(written["added_tokens"][-1]) == list(content["added_tokens"][0])
    assert bpejit.load(tmp_path / "second" / "tokenizer.json").encode("abc<a>") == [257, 259]


@pytest.mark.parametrize("wrong", ["<a>", None, [""], [5], {"<a>"}, {"<a>": 5}])
def test_with_special_tokens__wrong_arguments(wrong: object, tokenizer: bpejit.Tokenizer) -> None:
    with pytest.raises((bpejit.ArgumentTypeError, bpejit.OptionError), match=r"^special_tokens"):
        tokenizer.with_special_tokens(wrong)  # type: ignore[arg-type]


def test_with_special_tokens__surrogates(tokenizer: bpejit.Tokenizer) -> None:
    with pytest.raises(bpejit.TokenizerFormatError, match="lone surrogate"):
        tokenizer.with_special_tokens(["\ud800"])


# ---- equality and display ----------------------------------------------------------------------------------------------


def test_equality_and_hash(tokenizer: bpejit.Tokenizer) -> None:
    same = bpejit.Tokenizer.from_model(dataclasses.replace(MODEL, training={"note": 1}))
    assert tokenizer == same
    assert hash(tokenizer) == hash(same)
    assert {tokenizer, same} == {tokenizer}
    assert tokenizer != bpejit.Tokenizer.from_model(RANKED)
    assert tokenizer != tokenizer.sha256
    assert hash(MODEL) == hash(dataclasses.replace(MODEL))


def test_repr_html_is_escaped() -> None:
    model = dataclasses.replace(MODEL, special_tokens={"<script>&": 299}, pattern="a|<b>|.")
    shown = bpejit.Tokenizer.from_model(model)._repr_html_()
    assert "&lt;script&gt;&amp;" in shown
    assert "&lt;b&gt;" in shown
    assert "<script>" not in shown
    assert model.sha256 in shown


# ---- immutability ------------------------------------------------------------------------------------------------------


def test_attributes_are_read_only_copies() -> None:
    tokens, specials, merges, notes = dict(MODEL.tokens), {END: 299}, list(MODEL.merges), {"note": 1}
    model = Model(tokens, merges, specials, merge_counts=[2, 1], training=notes)
    for mapping in (tokens, specials, notes):
        mapping.clear()
    merges.clear()
    assert model == Model(MODEL.tokens, MODEL.merges, {END: 299}, merge_counts=(2, 1), training={"note": 1})
    for name in ("tokens", "special_tokens", "training", "token_flags", "vocab", "ids"):
        with pytest.raises(TypeError):
            getattr(model, name)[0] = b""
        assert getattr(model, name) == dict(getattr(model, name))
        assert type(getattr(model, name).copy()) is dict
    assert model.merges == tuple(MODEL.merges)
    assert model.merge_counts == (2, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.tokens = {}  # type: ignore[misc]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_equal_and_read_only(duplicate) -> None:
    model = dataclasses.replace(MODEL, training={"note": [1]})
    assert model.vocab_size == len(model.vocab) + 42  # cached attributes do not affect equality
    again = duplicate(model)
    assert again == model
    assert again.sha256 == model.sha256
    assert again.vocab == model.vocab
    with pytest.raises(TypeError):
        again.tokens[5] = b""


@pytest.mark.parametrize(
    "change",
    [
        lambda mapping: mapping.update({1: b"x"}),
        lambda mapping: mapping.setdefault(-1, b"x"),
        lambda mapping: mapping.pop(1),
        lambda mapping: mapping.popitem(),
        lambda mapping: mapping.clear(),
        lambda mapping: mapping.__delitem__(1),
        lambda mapping: mapping.__ior__({1: b"x"}),
    ],
)
def test_mappings_refuse_changes(change) -> None:
    before = dict(MODEL.tokens)
    with pytest.raises(TypeError, match="read-only; change a copy"):
        change(MODEL.tokens)
    assert MODEL.tokens == before


def test_fields_as_dict() -> None:
    fields = dataclasses.asdict(MODEL)
    assert fields["tokens"] == MODEL.tokens
    assert Model(**{**fields, "config": MODEL.config}) == MODEL
    assert dataclasses.astuple(MODEL)[0] == MODEL.tokens
    assert json.loads(json.dumps(MODEL.special_tokens)) == MODEL.special_tokens


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tokens": 5}, "^tokens is 5, an int; expected a dict of int to bytes"),
        ({"tokens": {**BYTES, "a": b"a"}}, r"^tokens has the item \('a', b'a'\); expected a dict of int to bytes"),
        ({"tokens": {**BYTES, 256: "ab"}}, r"^tokens has the item \(256, 'ab'\)"),
        ({"merges": None}, "^merges is None; expected a list"),
        ({"merges": [b"ab"]}, r"^merges\[0\] is b'ab', bytes; expected a pair of bytes"),
        ({"merges": [[b"a", b"b"]]}, r"^merges\[0\] is \[b'a', b'b'\], a list; expected a pair of bytes"),
        ({"merges": [("a", "b")]}, r"^merges\[0\] is \('a', 'b'\)"),
        ({"special_tokens": [END]}, "^special_tokens is .* a list; expected a dict of str to int"),
        ({"special_tokens": {END: "1"}}, "^special_tokens has the item"),
        ({"special_tokens": {b"x": 300}}, "^special_tokens has the item"),
        ({"merge_counts": ["1"]}, "^merge_counts is"),
        ({"merge_counts": 5}, "^merge_counts is 5"),
        ({"training": [1]}, "^training is"),
        ({"token_flags": {END: 5}}, "^token_flags has the item"),
        ({"pattern": 5}, "^pattern is 5"),
        ({"ranked": "yes"}, "^ranked is 'yes'"),
        ({"pipeline": "null"}, "^pipeline is 'null'"),
        ({"config": {}}, "^config is"),
        ({"post_processor": None}, "^post_processor is None"),
        ({"unicode": 15}, "^unicode is 15"),
    ],
)
def test_model__wrong_types(wrong: dict[str, object], message: str) -> None:
    options = {"tokens": {**BYTES, 256: b"ab"}, "merges": [(b"a", b"b")], **wrong}
    with pytest.raises(bpejit.ArgumentTypeError, match=message):
        Model(**options)  # type: ignore[arg-type]


def test_model__post_processor_is_json() -> None:
    with pytest.raises(bpejit.TokenizerFormatError, match=r"^post_processor is '{'; expected JSON"):
        Model(BYTES, [], post_processor="{")
