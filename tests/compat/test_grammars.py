"""Tests of the bytes of all ids, and of tokenizers for llguidance: masks and ids equal those of its own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import data_text
from hypothesis import given, settings, strategies as st

import bpejit
from bpejit.errors import SpecialTokenError, UnsupportedError

SCHEMA = '{"type": "object", "properties": {"name": {"type": "string"}, "pages": {"type": "integer"}}, "required": ["name"]}'

TEXTS = [
    "Hello world",
    "  two spaces",
    '{"name": "Ann", "pages": 12}',
    "über naïve 中文字",
    "\n\tdef f(x):",
    "a",
    " ",
    "🙂🙂",
]

KINDS: dict[str, dict[str, Any]] = {
    "bytes": {"special_tokens": ["</s>", "<s>"]},
    "llama": {
        "symbols": "characters",
        "byte_fallback": True,
        "unk_token": "<unk>",
        "metaspace": True,
        "special_tokens": ["</s>"],
    },
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bpejit.Tokenizer]:
    file = tmp_path_factory.mktemp("corpus") / "text.txt"
    file.write_bytes(data_text("prose.txt")[:50_000] + data_text("cjk.txt")[:5000])
    return {kind: bpejit.train(file, vocab_size=1500, workers=1, **options) for kind, options in KINDS.items()}


@pytest.fixture(scope="module")
def engines(trained: dict[str, bpejit.Tokenizer], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    """Return the tokenizer of each kind for llguidance, and its own one, which reads the file with the package tokenizers."""
    llguidance = pytest.importorskip("llguidance")
    found = {}
    for kind, tokenizer in trained.items():
        folder = tmp_path_factory.mktemp(kind)
        tokenizer.save(folder, overwrite=True)
        theirs = llguidance.LLTokenizer(str(folder / "tokenizer.json"), eos_token=tokenizer.token_to_id("</s>"))
        found[kind] = tokenizer.as_llguidance(eos_token="</s>"), theirs
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_of_ids(kind: str, trained: dict[str, bpejit.Tokenizer]) -> None:
    tokenizer = trained[kind]
    plain, marked = tokenizer.token_bytes(), tokenizer.token_bytes(special_mark=b"\xff")
    assert len(plain) == len(marked) == tokenizer.vocab_size
    specials = {number: text.encode() for text, number in tokenizer.special_tokens.items()}
    for number, (token, with_mark) in enumerate(zip(plain, marked, strict=True)):
        if number in specials:
            assert (token, with_mark) == (specials[number], b"\xff" + specials[number])
        else:
            assert token == with_mark == tokenizer.id_to_token(number)
    text = "some more text, and 中文 "
    ids = tokenizer.encode(text)
    assert b"".join(plain[number] for number in ids).removeprefix(b" ") == text.encode()


def test_unused_ids_are_empty() -> None:
    vocab = {**{n: bytes([n]) for n in range(256)}, 300: b"ab", 310: b"<end>"}
    tokens = bpejit.Tokenizer(vocab, [(b"a", b"b")], ["<end>"]).token_bytes()
    assert len(tokens) == 311
    assert {number for number, token in enumerate(tokens) if not token} == {*range(256, 300), *range(301, 310)}


@pytest.mark.parametrize("kind", KINDS)
def test_vocabulary_and_ids(kind: str, engines: dict[str, tuple[Any, Any]]) -> None:
    ours, theirs = engines[kind]
    assert (ours.vocab_size, ours.eos_token) == (theirs.vocab_size, theirs.eos_token)
    for number in range(ours.vocab_size):
        assert ours.decode_bytes([number]) == theirs.decode_bytes([number])
        assert ours.is_special_token(number) == theirs.is_special_token(number)
    for text in TEXTS:
        assert ours.tokenize_str(text) == theirs.tokenize_str(text)
        assert ours.decode_bytes(ours.tokenize_str(text)) == text.encode()
    assert not any(map(ours.is_special_token, ours.tokenize_str("</s>")))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(text=st.text(st.sampled_from("abc eé中🙂\n\t/")))
def test_random_texts(kind: str, text: str, engines: dict[str, tuple[Any, Any]]) -> None:
    ours, theirs = engines[kind]
    assert ours.tokenize_str(text) == theirs.tokenize_str(text)


@pytest.mark.parametrize("kind", KINDS)
def test_masks_of_a_schema(kind: str, engines: dict[str, tuple[Any, Any]]) -> None:
    """Random walks through what a schema allows."""
    from llguidance import LLMatcher

    grammar = LLMatcher.grammar_from_json_schema(SCHEMA)
    choices = np.random.default_rng(3)
    for _ in range(3):
        matchers = [LLMatcher(engine, grammar) for engine in engines[kind]]
        for _ in range(40):
            masks = [matcher.compute_bitmask() for matcher in matchers]
            assert masks[0] == masks[1]
            if matchers[0].is_stopped():
                break
            allowed = np.flatnonzero(np.unpackbits(np.frombuffer(masks[0], np.uint8), bitorder="little"))
            number = int(choices.choice(allowed))
            assert [matcher.consume_token(number) for matcher in matchers] == [True, True]
            forced = [matcher.compute_ff_tokens() for matcher in matchers]
            assert forced[0] == forced[1]


def test_added_tokens(tmp_path: Path, trained: dict[str, bpejit.Tokenizer]) -> None:
    """An added token that is not special is part of a text, unless it has the form of a special one."""
    llguidance = pytest.importorskip("llguidance")
    import tokenizers

    trained["bytes"].save(tmp_path / "plain")
    judge = tokenizers.Tokenizer.from_file(str(tmp_path / "plain" / "tokenizer.json"))
    judge.add_tokens([tokenizers.AddedToken(text, normalized=False) for text in ("    ", "<tool>", "return")])
    judge.save(str(tmp_path / "tokenizer.json"))
    tokenizer = bpejit.load(tmp_path / "tokenizer.json")
    end = tokenizer.token_to_id("</s>")
    ours = tokenizer.as_llguidance(eos_token="</s>")
    theirs = llguidance.LLTokenizer(str(tmp_path / "tokenizer.json"), eos_token=end)
    tool = tokenizer.token_to_id("<tool>")
    assert ours.is_special_token(tool)
    assert theirs.is_special_token(tool)
    assert tokenizer.token_bytes(special_mark=b"\xff")[tool] == b"\xff<tool>"
    for text in ("    return x", "returned     y", "\n        return"):
        assert ours.tokenize_str(text) == theirs.tokenize_str(text)


def test_text_that_is_normalized_becomes_the_longest_tokens(tmp_path: Path, trained: dict[str, bpejit.Tokenizer]) -> None:
    import tokenizers

    from bpejit.compat.grammars import GrammarTokenizer

    trained["bytes"].save(tmp_path / "plain")
    judge = tokenizers.Tokenizer.from_file(str(tmp_path / "plain" / "tokenizer.json"))
    judge.normalizer = tokenizers.normalizers.NFC()
    judge.save(str(tmp_path / "tokenizer.json"))
    tokenizer = bpejit.load(tmp_path / "tokenizer.json")
    encode = GrammarTokenizer(tokenizer._codec, eos_token="</s>")
    tokens = tokenizer.token_bytes()
    for text in ("the cafe\u0301", "cafe", "the café"):
        assert (
            b"".join(tokens[number] for number in encode(text))
            == text.encode()
            == b"".join(tokens[number] for number in encode(text.encode()))
        )
    assert encode("the café") == tokenizer.encode("the café")


def test_refusals(trained: dict[str, bpejit.Tokenizer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_bytes(data_text("prose.txt")[:20_000])
    options = {"vocab_size": 300, "symbols": "characters", "workers": 1, "special_tokens": ["</s>"]}
    ends = bpejit.train(tmp_path / "text.txt", word_end="</w>", unk_token="<unk>", **options)
    characters = bpejit.train(tmp_path / "text.txt", unk_token="<unk>", **options)
    with pytest.raises(UnsupportedError, match="end words by '</w>'"):
        ends.token_bytes()
    with pytest.raises(SpecialTokenError, match=r"<\|endoftext\|>', which is not a special token .* pass it as `eos_token`"):
        trained["bytes"].as_llguidance()
    pytest.importorskip("llguidance")
    with pytest.raises(UnsupportedError, match=r"no token for \d+ of the bytes of UTF-8, such as 0x"):
        characters.as_llguidance(eos_token="</s>")


def test_llguidance_is_not_installed(trained: dict[str, bpejit.Tokenizer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "llguidance", None)
    with pytest.raises(UnsupportedError, match="pip install llguidance"):
        trained["bytes"].as_llguidance(eos_token="</s>")
