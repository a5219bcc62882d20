"""Tests of presets: equivalent to the published patterns, if these are available, and with stable names."""

from __future__ import annotations

import json

import pytest
import regex
from conftest import data_text, read_shared, small
from helpers.splitting import cached_splitter, split_whole
from helpers.strategies import awkward_text
from hypothesis import example, given

from bpejit.arrays import padded_text
from bpejit.splitting import PRESETS, Splitter, compile_pattern
from bpejit.splitting.presets import PRESET_TABLE


def pieces(pattern: str, text: str) -> list[str]:
    data = text.encode()
    ends = split_whole(cached_splitter(pattern), data)
    return [data[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]


def test_each_preset_has_a_source() -> None:
    for name, preset in PRESET_TABLE.items():
        assert preset.pattern == PRESETS[name]
        assert preset.used_by
        assert ", " in preset.source
        assert "//" not in preset.source


def test_names_are_stable() -> None:
    # Saved tokenizers contain the name of their pattern: no name may be removed, and the first name of a pattern is fixed.
    assert list(PRESETS) == [
        *("gpt2", "r50k", "p50k", "cl100k", "cl100k-legacy", "o200k", "llama3", "olmo2", "qwen2", "qwen3.5"),
        *("deepseek-v3", "starcoder", "tekken", "nanochat", "kimi-k2"),
    ]
    names = {name: compile_pattern(name).name for name in PRESETS}
    assert {name: first for name, first in names.items() if name != first} == {"p50k": "r50k", "olmo2": "llama3"}
    assert {compile_pattern(PRESETS[name]).name for name in PRESETS} == set(names.values())


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("r50k", "gpt2"),
        ("r50k", "r50k_base"),
        ("p50k", "p50k_base"),
        ("p50k", "p50k_edit"),
        ("cl100k", "cl100k_base"),
        ("o200k", "o200k_base"),
        ("o200k", "o200k_harmony"),
    ],
)
def test_tiktoken(name: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    public = pytest.importorskip("tiktoken_ext.openai_public")
    # Loading the vocabularies would download them; the pattern is available without that.
    monkeypatch.setattr(public, "load_tiktoken_bpe", lambda *_, **__: {})
    monkeypatch.setattr(public, "data_gym_to_mergeable_bpe_ranks", lambda *_, **__: {})
    published = public.ENCODING_CONSTRUCTORS[encoding]()["pat_str"]
    if published != PRESETS[name]:
        # Another version of tiktoken may write it differently: then it must be equivalent.
        text, n_bytes = padded_text(data_text("code.txt")[: small(200_000, 2_000)] + b"\n  ")
        assert Splitter(published).split(text, n_bytes).tolist() == Splitter(name).split(text, n_bytes).tolist()


def test_hugging_face() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    step = json.loads(read_shared("vocabs/olmo2_dolma2.tokenizer.json"))["pre_tokenizer"]["pretokenizers"][0]
    assert step["pattern"]["Regex"] == PRESETS["olmo2"]
    # The pattern is internal to the package, so only results can be compared.
    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    digits = tokenizers.pre_tokenizers.Digits(individual_digits=True)
    starcoder = tokenizers.pre_tokenizers.Sequence([digits, byte_level])
    text = data_text("code.txt")[: small(100_000, 2_000)].decode(errors="ignore") + " it's 2²Ⅷ½ 12  \n 3\n\n "
    for name, splitter in (("gpt2", byte_level), ("starcoder", starcoder)):
        assert [text[start:end] for _, (start, end) in splitter.pre_tokenize_str(text)] == pieces(name, text)


@given(awkward_text())
@example("it's 12  x\n ")
def test_starcoder_digits(text: str) -> None:
    assert pieces("starcoder", text) == [
        piece for part in regex.split(r"(\p{N})", text) for piece in regex.findall(PRESETS["gpt2"], part)
    ]


@given(awkward_text())
def test_equivalent_forms_of_one_pattern(text: str) -> None:
    assert pieces("gpt2", text) == pieces("r50k", text)


@given(awkward_text())
@example("a\n  ")
@example("a \n")
@example("!\n ")
def test_older_form_of_cl100k_differs_at_the_end(text: str) -> None:
    # Final whitespace is one piece; the older form cuts it after the last line break.
    new, old = pieces("cl100k", text), pieces("cl100k-legacy", text)
    cut = regex.fullmatch(r"(\s*[\r\n])([^\S\r\n]+)", new[-1]) if new else None
    assert old == (new if cut is None else [*new[:-1], *cut.groups()])


def test_example_of_the_older_form() -> None:
    assert pieces("cl100k", "a\n  ") == ["a", "\n  "]
    assert pieces("cl100k-legacy", "a\n  ") == ["a", "\n", "  "]


@given(awkward_text())
@example("中文abc中")
@example(" 漢 漢's")
def test_kimi_k2_in_the_regex_package(text: str) -> None:
    # Version 1 of its syntax supports the published pattern.
    assert pieces("kimi-k2", text) == regex.findall("(?V1)" + str(PRESETS["kimi-k2"]), text)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("gpt2", "it's 123", ["it", "'s", " 123"]),
        ("llama3", "IT'S 1234", ["IT", "'S", " ", "123", "4"]),
        ("qwen2", "12a\n\n b", ["1", "2", "a", "\n\n", " b"]),
        ("qwen3.5", "e\u0301a ", ["e\u0301a", " "]),
        ("nanochat", "1234 a", ["12", "34", " a"]),
        ("tekken", "don't HelloWorld 12/", ["don", "'t", " Hello", "World", " ", "1", "2", "/"]),
        ("o200k", "don't HelloWorld 12/", ["don't", " Hello", "World", " ", "12", "/"]),
        ("kimi-k2", "中文abc漢", ["中文", "abc", "漢"]),
        ("deepseek-v3", "abc中文12345 _x \u200b1", ["abc", "中文", "123", "45", " _", "x", " ", "\u200b", "1"]),
        ("deepseek-v3", "_x \u200b\u200bd\u200b", ["_x", " ", "\u200b", "\u200bd", "\u200b"]),
        ("starcoder", "a 12", ["a", " ", "1", "2"]),
    ],
)
def test_examples(name: str, text: str, expected: list[str]) -> None:
    assert pieces(name, text) == expected
