"""Comparison of `BpeTrainer` and `train_new_from_iterator` with those of `tokenizers` and `transformers`."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import data_text, examples, small
from hypothesis import given, strategies as st

import bpejit
from bpejit.training.huggingface_trainer import BpeTrainer

tokenizers = pytest.importorskip("tokenizers")

steps = tokenizers.pre_tokenizers

KINDS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: steps.ByteLevel(add_prefix_space=False),
    "prefix": lambda: steps.ByteLevel(add_prefix_space=True),
    "split": lambda: steps.Sequence(
        [
            steps.Split(tokenizers.Regex(r"\p{N}{1,3}| ?\p{L}+|\s+"), "isolated"),
            steps.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
    "metaspace": lambda: steps.Metaspace(),
    "metaspace without prefix": lambda: steps.Metaspace(prepend_scheme="never"),
    "characters": lambda: steps.Split(tokenizers.Regex(r" ?\p{L}+|\s+"), "isolated"),
    "whole": lambda: None,
}

NORMALIZERS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "lower": lambda: tokenizers.normalizers.Sequence([tokenizers.normalizers.NFD(), tokenizers.normalizers.Lowercase()]),
    "prepend": lambda: tokenizers.normalizers.Prepend("x"),
}


def new(kind: str, normalizer: str = "none") -> Any:
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", ignore_merges=True))
    if KINDS[kind]() is not None:
        made.pre_tokenizer = KINDS[kind]()
    if NORMALIZERS[normalizer]() is not None:
        made.normalizer = NORMALIZERS[normalizer]()
    return made


def trained(texts: Any, kind: str, normalizer: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return the contents of the files of both tokenizers."""
    theirs, ours = new(kind, normalizer), new(kind, normalizer)
    theirs.train_from_iterator(texts, tokenizers.trainers.BpeTrainer(show_progress=False, **options))
    BpeTrainer(show_progress=False, **options).train_from_iterator(ours, texts)
    return json.loads(theirs.to_str()), json.loads(ours.to_str())


words = st.text("aab é你好日\n'", min_size=1, max_size=6)
texts = st.lists(st.lists(words, max_size=12).map(" ".join), min_size=1, max_size=4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@examples(0.4)
@given(
    texts=texts,
    size=st.integers(0, 60),
    least=st.integers(0, 2),
    longest=st.sampled_from([None, 1, 3, 4]),
    whole=st.booleans(),
)
def test_random_texts(
    kind: str, normalizer: str, texts: list[str], size: int, least: int, longest: int | None, whole: bool
) -> None:
    options: dict[str, Any] = {"special_tokens": ["<unk>", tokenizers.AddedToken("<s>", lstrip=True)], "min_frequency": least}
    options |= {"vocab_size": size + 20, **({} if longest is None else {"max_token_length": longest})}
    if whole and kind in ("gpt2", "prefix", "split"):
        options |= {"initial_alphabet": steps.ByteLevel.alphabet(), "vocab_size": size + 258}
    theirs, ours = trained(texts, kind, normalizer, options)
    assert ours == theirs


@pytest.mark.parametrize("kind", ["gpt2", "split", "metaspace"])
def test_real_text(kind: str) -> None:
    lines = data_text("prose.txt")[: small(200_000, 3_000)].decode(errors="ignore").splitlines()
    batches = [lines[start : start + 100] for start in range(0, len(lines), 100)]
    options = {"vocab_size": small(1500, 300), "min_frequency": 2, "special_tokens": ["<s>"]}
    theirs, ours = trained(batches, kind, "none", options)
    assert ours == theirs


def test_limit_of_the_alphabet() -> None:
    options = {"vocab_size": 30, "limit_alphabet": 3, "initial_alphabet": ["a"]}
    theirs, ours = trained(["aaaa bbb bb b  dd", "aaaa ab"], "metaspace", "none", options)
    assert ours == theirs


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("gpt2", {"end_of_word_suffix": "</w>"}, "expected neither"),
        ("gpt2", {"continuing_subword_prefix": "##"}, "expected neither"),
        ("gpt2", {"limit_alphabet": 2}, "limit_alphabet is 2, and the alphabet has 5 bytes"),
        ("gpt2", {"special_tokens": ["ab"]}, "the special token 'ab' is also learned"),
        ("gpt2", {"special_tokens": ["a"]}, "the special token 'a' is also learned"),
        ("metaspace", {"initial_alphabet": ["x"]}, "which the texts do not have"),
    ],
)
def test_options_that_are_refused(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(bpejit.UnsupportedError, match=message):
        BpeTrainer(show_progress=False, **options).train_from_iterator(new(kind), ["ab ab abc", "ab d"])


def test_tokenizers_that_are_refused() -> None:
    removing, added, custom = new("gpt2"), new("gpt2"), new("gpt2")
    removing.pre_tokenizer = steps.WhitespaceSplit()
    added.add_tokens(["x"])
    custom.pre_tokenizer = steps.UnicodeScripts()
    others = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a"))
    for one, message in (
        (removing, "keep all of it"),
        (added, "has added tokens"),
        (custom, "UnicodeScripts"),
        (others, "not BPE"),
    ):
        with pytest.raises(bpejit.UnsupportedError, match=message):
            BpeTrainer(show_progress=False).train_from_iterator(one, ["a"])


@pytest.fixture(scope="module")
def transformers() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("transformers")


@pytest.mark.parametrize("kind", ["gpt2", "split", "metaspace"])
def test_train_new_from_iterator(kind: str, transformers: Any) -> None:
    backend = new(kind)
    special = ["<unk>", "<s>", "</s>"]
    backend.train_from_iterator(["a b c"], tokenizers.trainers.BpeTrainer(special_tokens=special, show_progress=False))
    backend.post_processor = tokenizers.processors.TemplateProcessing("<s> $A", "<s> $A </s> $B", [("<s>", 1), ("</s>", 2)])
    roles = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    old = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=77, **roles)
    lines = data_text("prose.txt")[: small(60_000, 3_000)].decode(errors="ignore").splitlines()

    def batches() -> Iterator[list[str]]:
        return (lines[start : start + 50] for start in range(0, len(lines), 50))

    options: dict[str, Any] = {"new_special_tokens": ["<new>"], "special_tokens_map": {"</s>": "<end>"}, "show_progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = old.train_new_from_iterator(batches(), small(900, 300), **options)
        ours = bpejit.train_new_from_iterator(old, batches(), small(900, 300), **options)
    assert type(ours) is type(theirs)
    assert json.loads(ours.backend_tokenizer.to_str()) == json.loads(theirs.backend_tokenizer.to_str())
    assert ours.special_tokens_map == theirs.special_tokens_map
    assert ours("Hello <new> world")["input_ids"] == theirs("Hello <new> world")["input_ids"]
    assert repr(ours) == repr(theirs)
    assert not vars(ours.backend_tokenizer)


def test_tokenizers_of_transformers_that_are_refused(transformers: Any) -> None:
    others = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a"))
    with pytest.raises(bpejit.UnsupportedError, match="the tokenizer is WordLevel; expected BPE"):
        bpejit.train_new_from_iterator(transformers.PreTrainedTokenizerFast(tokenizer_object=others), ["a"], 300)
    with pytest.raises(bpejit.UnsupportedError, match="expected a fast tokenizer"):
        bpejit.train_new_from_iterator("gpt2", ["a"], 300)
