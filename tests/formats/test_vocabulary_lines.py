"""Comparison of the lines of `tokenizer.json` with what JSON reads and writes."""

from __future__ import annotations

import json

import numpy as np
import twins
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings
from bpejit.formats.vocabulary_arrays import _escaped, _lines, vocabulary_and_merges
from bpejit.model import Model
from bpejit.normalization.byte_characters import CHARACTERS, encode_byte_characters
from bpejit.normalization.symbols import Symbols, file_text

BYTES = [bytes([byte]) for byte in range(256)]

tokens_of_any_bytes = st.lists(st.one_of(st.binary(max_size=20), st.sampled_from(BYTES)), min_size=1, max_size=30)


def packed(strings: list[str]) -> ByteStrings:
    return ByteStrings.from_list([string.encode() for string in strings])


@given(st.data(), tokens_of_any_bytes)
def test_copy_strings(data: st.DataObject, tokens: list[bytes]) -> None:
    places = data.draw(st.lists(st.integers(0, len(tokens) - 1), max_size=9))
    found = ByteStrings.from_list(tokens).take(np.array(places, np.int64))
    assert list(found) == twins.formats.copy_strings(tokens, places)


@given(tokens_of_any_bytes)
def test_escaped(tokens: list[bytes]) -> None:
    expected = [json.dumps("".join(CHARACTERS[byte] for byte in token), ensure_ascii=False)[1:-1] for token in tokens]
    assert _escaped(ByteStrings.from_list(tokens), None) == packed(expected)


@given(
    st.lists(st.text(st.sampled_from('a"\\\n ▁é</w>\U0001f600'), max_size=6), max_size=9),
    st.booleans(),
    st.sampled_from(["</w>", "", '"é']),
    st.sampled_from(["▁", "", '"']),
)
def test_escaped__symbols(texts: list[str], characters: bool, suffix: str, space: str) -> None:
    symbols = Symbols(characters, word_end=suffix, space=space)
    tokens = [text.encode() for text in texts]
    expected = [json.dumps(file_text(token, symbols), ensure_ascii=False)[1:-1] for token in tokens]
    assert _escaped(ByteStrings.from_list(tokens), symbols) == packed(expected)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=9))
def test_lines(rows: list[tuple[int, int]]) -> None:
    words = ["a", "", "bcd"]
    columns = np.array(rows, np.int64).reshape(-1, 2).T
    expected = ",\n".join(f"      <{words[left]}: {words[right]}>" for left, right in rows)
    assert _lines(packed(words), b"<", columns[0], b": ", columns[1], b">") == expected.encode()


@given(
    st.sets(st.binary(min_size=2, max_size=2), max_size=20),
    st.lists(st.sampled_from(["<|x|>", "é", "Ã©", "ab", '"\\\n', "日本"]), unique=True),
    st.integers(0, 500),
)
def test_lines_are_read_by_json(made: set[bytes], specials: list[str], offset: int) -> None:
    tokens = [*BYTES, *sorted(made)]
    ids = {token: number for number, token in enumerate(tokens, offset)}
    special_tokens = {
        text: ids.get(text.encode("utf-8", "surrogatepass"), 1000 + number) for number, text in enumerate(specials)
    }
    special_tokens = {text: number for text, number in special_tokens.items() if text != "\ud800"}
    merges = [(token[:1], token[1:]) for token in sorted(made)]
    model = Model(dict(enumerate(tokens, offset)), merges, special_tokens)
    vocab, lines = vocabulary_and_merges(model, legacy_merges=False)
    expected = {encode_byte_characters(token): number for token, number in ids.items()}
    for text, number in special_tokens.items():
        expected.setdefault(text, number)
    found = json.loads(b"{" + vocab + b"}")
    assert found == expected
    assert list(found.values()) == sorted(expected.values())
    assert json.loads(b"[" + lines + b"]") == [[encode_byte_characters(part) for part in pair] for pair in merges]
    _, joined = vocabulary_and_merges(model, legacy_merges=True)
    assert json.loads(b"[" + joined + b"]") == [" ".join(map(encode_byte_characters, pair)) for pair in merges]
