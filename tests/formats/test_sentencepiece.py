"""Models of SentencePiece: ids, offsets and decoding as by `sentencepiece`, and refusals of what is broken or not exact."""

from __future__ import annotations

import base64
import io
import json
import pickle
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from formats.store_sentencepiece import RULES
from helpers.cli import invoke
from helpers.sentencepiece_models import (
    ALL_BYTES,
    CHARACTERS,
    CONTROL,
    NORMAL,
    UNK,
    UNUSED,
    USER_DEFINED,
    field,
    model_bytes,
    models,
)
from hypothesis import given, strategies as st

import bpejit
from bpejit.errors import BpejitError, TokenizerFormatError
from bpejit.formats.sentencepiece import read_model
from bpejit.normalization.spacing import read_map
from bpejit.tokenizer import Tokenizer

STORED = json.loads(Path(__file__).with_name("sentencepiece.json").read_text())

MODELS = {name: base64.b64decode(stored["model"]) for name, stored in STORED.items()}

DATA = Path(__file__).parents[1] / "data"

ABC = [UNK, ("ab", -1.0, NORMAL), ("abc", -2.0, NORMAL), *((text, -9.0, NORMAL) for text in "abc\u2581")]


def tokenizer_of(data: bytes) -> Tokenizer:
    return Tokenizer.from_model(read_model(data))


def check(tokenizer: Tokenizer, processor: Any, text: str | bytes) -> None:
    """Compare ids, offsets and decoding with those of `sentencepiece`."""
    ids = processor.encode(text)
    assert list(tokenizer.encode(text)) == ids
    assert tokenizer.encode_batch([text, text])[1].tolist() == ids
    found = tokenizer.encode_with_offsets(text)
    expected = processor.encode(text, return_type="offset_mapping", return_bytes=True)["offsets"]
    assert [*zip(found.byte_starts.tolist(), found.byte_ends.tolist(), strict=True)] == [tuple(pair) for pair in expected]
    for part in (ids, ids[1:], ids[::-1], [0, *ids]):
        assert tokenizer.decode(part) == processor.decode(part) == "".join(tokenizer.decode_stream(part))


@pytest.mark.parametrize("name", MODELS)
def test_stored_results_of_sentencepiece(name: str) -> None:
    tokenizer = tokenizer_of(MODELS[name])
    for case in STORED[name]["cases"]:
        found = tokenizer.encode_with_offsets(case["text"])
        assert found.ids.tolist() == case["ids"] == list(tokenizer.encode(case["text"]))
        assert [list(pair) for pair in zip(found.byte_starts.tolist(), found.byte_ends.tolist(), strict=True)] == case[
            "offsets"
        ]
        assert tokenizer.decode(case["ids"]) == case["decoded"]
        assert "".join(tokenizer.decode_stream(case["ids"])) == case["decoded"]
    batch = tokenizer.encode_batch([case["text"] for case in STORED[name]["cases"]])
    assert batch.tolist() == [case["ids"] for case in STORED[name]["cases"]]


@pytest.mark.parametrize("name", MODELS)
def test_folders_keep_the_model(name: str, tmp_path: Path) -> None:
    path = tmp_path / "some.model"
    path.write_bytes(MODELS[name])
    tokenizer = bpejit.load(path)
    assert tokenizer.save(tmp_path / "saved") is not None  # the reason why other tools cannot read it
    for again in (bpejit.load(tmp_path / "saved"), pickle.loads(pickle.dumps(tokenizer))):
        assert again.model == tokenizer.model
        for case in STORED[name]["cases"]:
            assert list(again.encode(case["text"])) == case["ids"]
            assert again.decode(case["ids"]) == case["decoded"]
    for name_of_format, file in (("hf", "other"), ("tiktoken", "other.tiktoken"), ("gpt2", "pair")):
        with pytest.raises(TokenizerFormatError, match="cannot be written"):
            tokenizer.save(tmp_path / file, format=name_of_format)


def test_the_map_has_the_rules_that_it_was_compiled_from() -> None:
    steps = read_model(MODELS["words"]).pipeline
    assert steps is not None
    assert read_map(json.loads(steps.normalizer)["precompiled_charsmap"], "") == RULES
    assert read_map("", "") == {}


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(MODELS["bytes"])
    (tmp_path / "other.model").write_bytes(b"not one")
    assert bpejit.load(tmp_path).model == bpejit.load(tmp_path / "tokenizer.model").model
    text = tmp_path / "text.txt"
    text.write_text("Hello  w\u00f6rld\n" * 50)
    out = tmp_path / "ids.bin"
    assert invoke("encode", text, "--out", out, "--tokenizer", tmp_path / "tokenizer.model").exit_code == 0
    tokenizer = bpejit.load(tmp_path)
    assert bpejit.open_tokens(out).ids.tolist() == list(tokenizer.encode(text.read_text()))
    for command, arguments in (("info", []), ("show", ["Hello"]), ("stats", [text])):
        assert invoke(command, tmp_path / "tokenizer.model", *arguments).exit_code == 0
    back = tmp_path / "back.txt"
    assert invoke("decode", out, "--out", back, "--tokenizer", tmp_path / "tokenizer.model").exit_code == 0
    assert back.read_text() == tokenizer.decode(tokenizer.encode(text.read_text()))
    pytest.importorskip("sentencepiece")
    result = invoke("verify", tmp_path / "tokenizer.model", text, "--against", "sentencepiece")
    assert result.exit_code == 0
    assert "equal to sentencepiece" in result.output


def test_control_symbols_are_not_found_in_text() -> None:
    tokenizer = tokenizer_of(model_bytes([*ABC, ("<s>", 0.0, CONTROL), ("<x>", 0.0, USER_DEFINED)]))
    assert tokenizer.special_tokens["<s>"] not in tokenizer.encode("ab<s>")
    assert tokenizer.special_tokens["<x>"] in tokenizer.encode("ab<x>")
    with pytest.raises(TokenizerFormatError, match="cannot be added to a model of SentencePiece"):
        tokenizer.with_special_tokens(["<y>"])


def test_runs_with_one_score_grow_from_the_left() -> None:
    runs = [("\u2581" * size, -1e9, NORMAL) for size in (2, 3, 4, 6, 8)]
    tokenizer = tokenizer_of(model_bytes([*ABC, *runs], prefix=False, removes=False))
    shown = [len(tokenizer.decode_bytes([number])) for number in tokenizer.encode(" " * 21)]
    assert shown == [8, 8, 4, 1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *(
            (model_bytes(ABC, kind=kind), f"of the kind {name}, not BPE: encode with `sentencepiece`")
            for kind, name in [(1, "Unigram"), (3, "word"), (4, "character"), (9, "unknown")]
        ),
        (model_bytes(ABC, suffix=True), "treat_whitespace_as_suffix"),
        (model_bytes(ABC) + field(5, field(2, b"map")), "has a denormalizer"),
        (model_bytes(ABC)[:-3], "broken or truncated"),
        (model_bytes(ABC) + b"\x0b", "broken or truncated"),
        (model_bytes(ABC) + field(2, 7), "broken or truncated"),
        (model_bytes(ABC) + b"\x00\x00", "broken or truncated"),
        (model_bytes(ABC) + b"\x30" + b"\x80" * 10 + b"\x00", "broken or truncated"),
        (model_bytes(ABC[1:]), "has 0 pieces of bytes and 0 that are unknown"),
        (model_bytes([*ABC, *ALL_BYTES]), "has 256 pieces of bytes"),
        (model_bytes([*ABC, *ALL_BYTES[1:]], fallback=True), "has 255 pieces of bytes"),
        (model_bytes([*ABC, ("ab", -3.0, NORMAL)]), "'ab'.* twice"),
        (model_bytes([*ABC, ("", -3.0, NORMAL)]), "is empty"),
        (model_bytes([*ABC, ("x" * 8000, -3.0, NORMAL)]), "too long"),
        (model_bytes([*ABC, ("x", -3.0, 7)]), "of the type 7"),
        (model_bytes([*ABC, ("x", -3.0, 6)], fallback=True), "of the type 6"),
        (model_bytes(ABC).replace(b"abc", b"ab\xff"), "not UTF-8"),
        (model_bytes([*ABC, ("ax", -3.0, NORMAL)]), "characters that are no pieces"),
        (model_bytes([UNK]), "no others"),
        (model_bytes([*ABC, ("bc", -1.0, NORMAL)]), "'ab' and 'bc' one score"),
        (model_bytes([*ABC, ("a  b", -1.0, USER_DEFINED)], escapes=False), "two spaces"),
        (model_bytes(ABC, charsmap=b"x"), "a trie of"),
        (model_bytes(ABC, charsmap=MODELS["words"][1000:]), "a trie of"),
    ],
)
def test_refusals(data: bytes, message: str) -> None:
    with pytest.raises(TokenizerFormatError, match=message):
        read_model(data)


def test_unused_pieces_are_divided_again_unless_they_are_many() -> None:
    unused = [*ABC[:1], ("ab", -1.0, UNUSED), *ABC[2:]]
    tokenizer = tokenizer_of(model_bytes(unused, prefix=False))
    assert list(tokenizer.encode("ab abc")) == [3, 4, 6, 2]
    many = [*ABC, *(("abc" * count, -3.0 - count, UNUSED) for count in (2, 3))]
    tokenizer = tokenizer_of(model_bytes(many, prefix=False))
    assert list(tokenizer.encode("abcabc abcabcabc")) == [2, 2, 6, 2, 2, 2]
    with pytest.raises(TokenizerFormatError, match="stands for more than 3 tokens"):
        tokenizer_of(model_bytes([*many, ("abc" * 4, -7.0, UNUSED)], prefix=False))


@given(data=models(), texts=st.lists(st.text(CHARACTERS, max_size=12), min_size=3, max_size=3))
@examples(2)
def test_random_models(data: bytes, texts: list[str]) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    try:
        tokenizer = tokenizer_of(data)
    except TokenizerFormatError:
        return
    for text in texts:
        check(tokenizer, processor, text)


@pytest.mark.slow
@pytest.mark.parametrize(("rules", "fallback"), [*product(["identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf"], [False, True])])
def test_trained_models(rules: str, fallback: bool) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    lines = [line for name in ("prose", "code", "cjk") for line in (DATA / f"{name}.txt").read_text("utf-8").split("\n")[:150]]
    options: dict[str, Any] = {"normalization_rule_name": rules, "byte_fallback": fallback, "split_digits": fallback}
    for number, (adds, removes) in enumerate(product([True, False], [True, False])):
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(line for line in lines if line),
            model_writer=out,
            vocab_size=1800,
            model_type="bpe",
            character_coverage=0.995,
            add_dummy_prefix=adds,
            remove_extra_whitespaces=removes,
            split_by_whitespace=number != 1,
            allow_whitespace_only_pieces=number == 1,
            user_defined_symbols=["<sep>", "1", "\u2581\u2581"] if number % 2 else [],
            control_symbols=["<pad>"],
            minloglevel=9,
            **options,
        )
        tokenizer = tokenizer_of(out.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
        for text in (*lines[::20], "\n".join(lines[:20]), "\n".join(lines[-20:])):
            check(tokenizer, processor, text)
        for data in (DATA / "awkward.bin").read_bytes()[:2000].split(b"\n"):
            assert list(tokenizer.encode(data)) == processor.encode(data)


@pytest.mark.parametrize("name", MODELS)
def test_damaged_files_are_refused_or_read_as_by_sentencepiece(name: str) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    source = random.Random(name)
    texts = [case["text"] for case in STORED[name]["cases"]]
    for _ in range(60):
        data = bytearray(MODELS[name])
        at = source.randrange(len(data))
        match source.randrange(4):
            case 0:
                data[at] = source.randrange(256)
            case 1:
                del data[at : at + source.randrange(1, 9)]
            case 2:
                data[at:at] = source.randbytes(3)
            case _:
                del data[at:]
        try:
            tokenizer = tokenizer_of(bytes(data))
        except BpejitError:
            continue
        processor = sentencepiece.SentencePieceProcessor(model_proto=bytes(data))
        for text in texts:
            assert list(tokenizer.encode(text)) == processor.encode(text)
