"""Tests of tokenizer files of strangers: patterns that backtrack, growth, ids with gaps, and files of other kinds."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import bpejit
from bpejit.errors import BpejitError, PatternError, TokenizerFormatError
from bpejit.formats.huggingface_reading import _read_added
from bpejit.formats.packed_vocabulary import PackedVocabulary
from bpejit.normalization.byte_characters import encode_byte_characters
from bpejit.splitting import text_limits

BYTES = {encode_byte_characters(bytes([byte])): byte for byte in range(256)}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def loaded(folder: Path, **changes: Any) -> bpejit.Tokenizer:
    """Write a byte-level `tokenizer.json` with changes, and load it."""
    model = {"type": "BPE", "vocab": BYTES, "merges": []}
    content = {"model": model, "pre_tokenizer": BYTE_LEVEL, "decoder": BYTE_LEVEL, **changes}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return bpejit.load(folder)


def write_pair(folder: Path, vocab: dict[str, int], *merges: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))
    return folder


def refusal(call: Any) -> str:
    with pytest.raises(BpejitError) as error:
        call()
    assert isinstance(error.value, TokenizerFormatError)
    return str(error.value)


# ---- time and size


def replaced(regex: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": regex}, "content": content}


def test_backtracking_steps_and_normalizers_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_limits, "LEAST_SECONDS", 0.01)
    evil = "(a+)+$"
    split = {"type": "Split", "pattern": {"Regex": evil}, "behavior": "MergedWithPrevious", "invert": False}
    for changes in (
        {"normalizer": replaced(evil, "b")},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, BYTE_LEVEL]}},
    ):
        tokenizer = loaded(tmp_path, **changes)
        for way in (tokenizer.encode, tokenizer.encode_with_offsets):
            with pytest.raises(PatternError, match=r"the pattern '\(\?:a\+\)\+.*0\.01 s of processor time.*regex_timeout"):
                way("a" * 200 + "!")
        assert tokenizer.encode("b!") == [98, 33]


def test_growth_of_a_text_is_limited(tmp_path: Path) -> None:
    chain = {"type": "Sequence", "normalizers": [replaced("a", "a" * 3000)] * 2}
    tokenizer = loaded(tmp_path, normalizer=chain)
    for way in (tokenizer.encode, tokenizer.encode_with_offsets):
        assert "the normalizer adds more than 1048640 characters to a text of 1 bytes" in refusal(lambda way=way: way("a"))
    assert tokenizer.encode("b") == [98]
    # All parts of a text together, here between added tokens.
    added = [{"id": 256, "content": "<s>", **FLAGS}]
    tokenizer = loaded(tmp_path, normalizer={"type": "Prepend", "prepend": "x" * 500_000}, added_tokens=added)
    assert len(tokenizer.encode("b<s>b")) == 1_000_003
    assert "adds more than" in refusal(lambda: tokenizer.encode("b<s>b<s>b<s>b"))
    # A normal form that makes 18 characters of one, and a replacement of each character.
    tokenizer = loaded(tmp_path, normalizer={"type": "Sequence", "normalizers": [{"type": "NFKC"}, replaced(" ", "__")]})
    assert (
        tokenizer.encode("\ufdfa" * 1000)
        == list("\u0635\u0644\u0649__\u0627\u0644\u0644\u0647__\u0639\u0644\u064a\u0647__\u0648\u0633\u0644\u0645".encode())
        * 1000
    )


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"normalizer": {"type": "Prepend", "prepend": "x" * 2_000_000}}, "`normalizer.prepend` has 2000000 characters"),
        ({"normalizer": replaced("a", "x" * 2_000_000)}, "`normalizer.content` has 2000000 characters"),
        ({"normalizer": replaced("a" * 70_000, "x")}, "`normalizer.pattern` has 70000 characters; expected at most 65536"),
        ({"added_tokens": [{"id": 256, "content": "x" * 70_000, **FLAGS}]}, "`added_tokens[0].content` has 70000 characters"),
    ],
)
def test_long_parts_are_refused(tmp_path: Path, changes: dict[str, Any], found: str) -> None:
    assert found in refusal(lambda: loaded(tmp_path, **changes))


# ---- ids


def test_ids_with_large_gaps_are_refused(tmp_path: Path) -> None:
    most = 64 * 257
    model = {"type": "BPE", "merges": []}
    expected = f"with 257 tokens; expected ids up to {most}, 64 times their number"
    assert loaded(tmp_path, model={**model, "vocab": {**BYTES, "zz": most}}).vocab_size == most + 1
    for number in (most + 1, 10**9):
        found = refusal(lambda number=number: loaded(tmp_path, model={**model, "vocab": {**BYTES, "zz": number}}))
        assert f"has the id {number} for the token b'zz'" in found
        assert expected in found
        pair = write_pair(tmp_path / "pair", {**BYTES, "zz": number})
        assert expected in refusal(lambda pair=pair: bpejit.load(pair, pattern="gpt2"))
        assert expected in refusal(
            lambda pair=pair: bpejit.Tokenizer.from_files(pair / "vocab.json", pair / "merges.txt", pattern="gpt2")
        )
    ranks = tmp_path / "x.tiktoken"
    lines = [f"{base64.b64encode(bytes([byte])).decode()} {byte}\n" for byte in range(256)]
    ranks.write_text("".join([*lines, "YWI= 16449\n"]))
    assert expected in refusal(lambda: bpejit.load(ranks, pattern="gpt2"))
    # What the user passes may be anything.
    ranks.write_text("".join(lines))
    assert bpejit.load(ranks, pattern="gpt2", special_tokens={"<s>": 100_000}).vocab_size == 100_001


def test_ids_of_added_tokens_follow_the_largest_so_far() -> None:
    vocab = PackedVocabulary.from_dict({"a": 0, "<x>": 1})

    def added(*pairs: tuple[str, int]) -> dict[str, int]:
        return _read_added([{"id": number, "content": text, **FLAGS} for text, number in pairs], vocab)[0]

    assert added(("<y>", 2), ("<x>", 1), ("<z>", 3)) == {"<y>": 2, "<x>": 1, "<z>": 3}
    for wrong in ([("<y>", 3)], [("<y>", 2), ("<z>", 2)], [("<x>", 2)]):
        assert "but `tokenizers` gives it the id" in refusal(lambda wrong=wrong: added(*wrong))


# ---- what a file is


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (
            {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9, "vocab": {"a": 0}},
            "WordPiece",
        ),
        ({"unk_id": 0, "vocab": [["<unk>", 0.0]]}, "Unigram"),
        ({"unk_token": "a", "vocab": {"a": 0}}, "WordLevel"),
    ],
)
def test_models_without_a_type_are_named(tmp_path: Path, model: dict[str, Any], kind: str) -> None:
    assert f"`model` is a tokenizer of the kind {kind}, not BPE" in refusal(lambda: loaded(tmp_path, model=model))


def test_a_key_that_occurs_twice_is_not_broken_json(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0}, "type": "BPE", "vocab": {"a": 2}}}')
    found = refusal(lambda: bpejit.load(tmp_path))
    assert "the key 'vocab' occurs twice in one object" in found
    assert "damaged" not in found


def test_files_of_other_kinds_are_named(tmp_path: Path) -> None:
    words = tmp_path / "vocab.txt"
    words.write_text("[PAD]\n[unused0]\n[UNK]\n[CLS]\n")
    assert "is a WordPiece vocabulary, as of BERT" in refusal(lambda: bpejit.load(words))
    assert "`vocab.txt` is a WordPiece vocabulary" in refusal(lambda: bpejit.load(tmp_path))


def test_ends_of_words_are_refused(tmp_path: Path) -> None:
    words = {**BYTES, **{f"{text}</w>": 256 + number for text, number in BYTES.items()}}
    pair = write_pair(tmp_path / "clip", {**words, "at</w>": 512}, "a t</w>")
    trained = write_pair(tmp_path / "trained", {**BYTES, "t</w>": 256, "at</w>": 257}, "a t</w>")
    for folder in (pair, trained, write_pair(tmp_path / "no-merges", words)):
        assert "marks the ends of words with `</w>`" in refusal(lambda folder=folder: bpejit.load(folder, pattern="gpt2"))
    ranks = tmp_path / "x.tiktoken"
    tokens = [*(bytes([byte]) for byte in range(256)), *(bytes([byte]) + b"</w>" for byte in range(256))]
    ranks.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % number for number, token in enumerate(tokens)))
    assert "marks the ends of words" in refusal(lambda: bpejit.load(ranks, pattern="gpt2"))
    # Merges that form the mark from its characters are ordinary.
    merges = ["< /", "</ w", "</w >", "t </w>"]
    vocab = {**BYTES, "</": 256, "</w": 257, "</w>": 258, "t</w>": 259}
    assert bpejit.load(write_pair(tmp_path / "html", vocab, *merges), pattern="gpt2").merges[3] == (b"t", b"</w>")


def test_empty_token(tmp_path: Path) -> None:
    tokenizer = bpejit.load(write_pair(tmp_path / "pair", {**BYTES, "": 256}), pattern="gpt2")
    assert tokenizer.decode([256, 97]) == "a"
    tokenizer.save(tmp_path / "own")
    assert bpejit.load(tmp_path / "own") == tokenizer
    ranks = tmp_path / "x.tiktoken"
    tokenizer.save(ranks, format="tiktoken")
    assert ranks.read_bytes().endswith(b"\n= 256\n")  # as in Whisper's file
    again = bpejit.load(ranks)
    assert again.decode([256, 97]) == "a"
    assert list(again.encode("a b")) == [97, 32, 98]
