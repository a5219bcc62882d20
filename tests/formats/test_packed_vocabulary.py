"""Tests of vocabularies as arrays, compared with dictionaries and with the twins."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from bpejit.formats.packed_vocabulary import PackedVocabulary, ends_with, pack_texts, token_strings
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
