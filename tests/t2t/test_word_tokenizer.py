"""Tests of Tensor2Tensor's tokenizer: it equals the twin, and can be inverted."""

from __future__ import annotations

import unicodedata

import pytest
import twins
from hypothesis import given, strategies as st

from bpejit.subword import tokenizer


def test_known_tokens():
    assert tokenizer.encode("Dude - that's so cool.") == ["Dude", " - ", "that", "'", "s", "so", "cool", "."]
    assert tokenizer.encode("") == []
    for text in (" a b ", "  a  b", " ", "a ", " a", "x²", "a\n b", "٣٤ 三", "a_b", "\ud800 a"):
        tokens = tokenizer.encode(text)
        assert tokens == twins.subwords.drop_spaces(twins.subwords.split_words(text)), text
        assert tokenizer.decode(tokens) == text == twins.subwords.join_words(tokens)


@given(st.text())
def test_equals_the_twin(text):
    tokens = tokenizer.encode(text)
    assert tokens == twins.subwords.drop_spaces(twins.subwords.split_words(text))
    assert tokenizer.decode(tokens) == text


def test_classes_of_all_characters():
    classes = tokenizer.word_classes()
    characters = list(map(chr, range(0x110000)))
    assert all(classes[i] == (unicodedata.category(c)[0] in "LN") for i, c in enumerate(characters))
    assert all(c.isalnum() == bool(kind) for c, kind in zip(characters, classes, strict=True))
    expected = "".join("x" if kind else " " for kind in classes)
    assert (
        "".join(("x" if token.isalnum() else " ") * len(token) for token in tokenizer.encode("".join(characters))) == expected
    )


def test_wrong_type():
    with pytest.raises(TypeError, match="text is b'a', bytes; expected a str"):
        tokenizer.encode(b"a")
