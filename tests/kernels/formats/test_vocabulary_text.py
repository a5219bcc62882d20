"""Comparison of the lines of `tokenizer.json` with plain Python, and with what JSON reads."""

from __future__ import annotations

import json

import numpy as np
import twins
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings
from bpejit.formats.vocabulary_arrays import _quote, vocabulary_and_merges
from bpejit.kernels.formats import vocabulary_text as kernels
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
def test_quote_tokens(tokens: list[bytes]) -> None:
    assert _quote(ByteStrings.from_list(tokens), None) == packed(twins.formats.quote_tokens(tokens, CHARACTERS))


@given(
    st.lists(st.text(st.sampled_from('a"\\\n ▁é</w>\U0001f600'), max_size=6), max_size=9),
    st.booleans(),
    st.sampled_from(["</w>", "", '"é']),
    st.sampled_from(["▁", "", '"']),
)
def test_quote_tokens__symbols(texts: list[str], characters: bool, suffix: str, space: str) -> None:
    symbols = Symbols(characters, word_end=suffix, space=space)
    tokens = [text.encode() for text in texts]
    expected = [json.dumps(file_text(token, symbols), ensure_ascii=False) for token in tokens]
    assert _quote(ByteStrings.from_list(tokens), symbols) == packed(expected)


@given(st.data(), tokens_of_any_bytes)
def test_write_vocabulary(data: st.DataObject, tokens: list[bytes]) -> None:
    quoted = twins.formats.quote_tokens(tokens, CHARACTERS)
    order = data.draw(st.permutations(range(len(tokens))))
    number = st.one_of(st.integers(0, 2**63 - 1), st.sampled_from([0, 9, 10, 99, 100]))
    numbers = data.draw(st.lists(number, min_size=len(tokens), max_size=len(tokens)))
    strings = packed(quoted)
    out = np.zeros(strings.pool.size + (kernels.INDENT + kernels.MOST_DIGITS + 4) * len(tokens), np.uint8)
    size = kernels.write_vocabulary(strings.pool, strings.starts, np.array(order), np.array(numbers, np.int64), out)
    assert out[:size].tobytes().decode() == twins.formats.write_vocabulary(quoted, order, numbers)


@given(st.data(), tokens_of_any_bytes, st.booleans())
def test_write_merges(data: st.DataObject, tokens: list[bytes], joined: bool) -> None:
    quoted = twins.formats.quote_tokens(tokens, CHARACTERS)
    token = st.integers(0, len(tokens) - 1)
    pairs = data.draw(st.lists(st.tuples(token, token), max_size=20))
    lefts, rights = [left for left, _ in pairs], [right for _, right in pairs]
    strings = packed(quoted)
    out = np.zeros(sum(len(quoted[i].encode()) for i in lefts + rights) + (kernels.INDENT + 6) * len(pairs), np.uint8)
    given = strings.pool, strings.starts, np.array(lefts, np.int64), np.array(rights, np.int64), joined, out
    assert out[: kernels.write_merges(*given)].tobytes().decode() == twins.formats.write_merges(quoted, lefts, rights, joined)


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
