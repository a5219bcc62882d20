"""Tests of vocabularies as arrays, compared with dictionaries and with the twins."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from bpejit.formats import packed_vocabulary
from bpejit.formats.packed_vocabulary import PackedVocabulary, ends_with, pack_texts, parse_large, token_strings
from bpejit.normalization.byte_characters import CHARACTERS
from tests import twins

TEXTS = st.lists(
    st.text(st.one_of(st.sampled_from("ab</w> ▁·é\0\ud800\U0001f600\xad"), st.sampled_from(CHARACTERS)), max_size=5), max_size=8
)


@given(TEXTS, st.booleans(), st.sampled_from(["", "</w>", "·", "w"]), st.sampled_from(["", "▁", " ", "a"]))
def test_token_strings(texts: list[str], level: bool, suffix: str, space: str) -> None:
    strings, exists = token_strings(pack_texts(texts), level=level, suffix=suffix, space=space)
    found = [token if is_token else None for token, is_token in zip(strings, exists.tolist(), strict=True)]
    assert found == twins.formats.token_strings(texts, level, suffix, space)


@given(TEXTS, st.sampled_from(["", "a", "</w>", "é"]))
def test_ends_with(texts: list[str], end: str) -> None:
    assert ends_with(pack_texts(texts), end.encode()).tolist() == [text.endswith(end) for text in texts]


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=6), st.text(max_size=2))
def test_a_packed_vocabulary_is_a_mapping(vocab: dict[str, int], text: str) -> None:
    packed = PackedVocabulary.from_dict(vocab)
    assert packed == vocab
    assert [*packed.items()] == [*vocab.items()]
    assert (packed.get(text), text in packed, len(packed)) == (vocab.get(text), text in vocab, len(vocab))
    assert packed.find(*vocab).tolist() == [*range(len(vocab))]
    with pytest.raises(KeyError):
        packed["no such text"]


@pytest.mark.parametrize(
    ("changes", "is_read"),
    [
        ({}, True),
        ({"vocab": {"vocab": 0, "merges": 1, "[": 2}}, True),
        ({"merges": [["vocab", "merges"], ["{", "["]]}, True),
        ({"merges": ["a b", "ab c"]}, True),
        ({"other": {"vocab": {}}}, False),
        ({"other": {"merges": []}}, False),
        ({"vocab": {}}, False),
        ({"vocab": {"a": 1 << 32}}, False),
        ({"vocab": {"a": -1}}, False),
        ({"vocab": {"\ud800": 1}}, False),
        ({"merges": ["a"]}, False),
    ],
)
def test_lists_are_cut_from_a_file(changes: dict[str, object], is_read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"version": "1.0", "model": {"vocab": {"a": 5, "é": 3}, "merges": [["a", "b"]], **changes}, "added_tokens": []}
    data = json.dumps(content).encode()
    assert parse_large(data, hook=dict) is None  # it is small
    monkeypatch.setattr(packed_vocabulary, "_LEAST_BYTES", 0)
    found = parse_large(data, hook=dict)
    assert (found is not None) == is_read
    if is_read:
        model = found["model"]
        pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in content["model"]["merges"]]
        assert list(model["merges"]) == [token.encode() for pair in pairs for token in pair]
        assert {**found, "model": {**model, "vocab": dict(model["vocab"]), "merges": content["model"]["merges"]}} == content


def test_a_repeated_text_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_vocabulary, "_LEAST_BYTES", 0)
    assert parse_large(b'{"model": {"vocab": {"a": 1, "\\u0061": 2}, "merges": []}}', hook=dict) is None
