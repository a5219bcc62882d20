"""Reading the vocabulary and the merges of a `tokenizer.json`, compared with the twins and with `json`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.formats.packed_vocabulary import StringIndex
from bpejit.kernels.formats.merge_parsing import UNUSUAL, parse_merges, parse_vocabulary
from tests import twins

TOKENS = st.text(st.one_of(st.sampled_from('ab"\\/\n▁é\0\x1f[],'), st.characters(exclude_categories=["Cs"])), max_size=5)
MERGES = st.lists(
    st.one_of(st.lists(TOKENS, min_size=2, max_size=2), st.builds("{} {}".format, TOKENS, TOKENS), TOKENS, st.lists(TOKENS)),
    max_size=6,
)


def parse(data: bytes) -> list[bytes] | None:
    block, n_bytes = padded_text(data)
    pool, starts, state = np.empty(n_bytes, np.uint8), np.empty(n_bytes // 2 + 8, np.int64), np.zeros(1, np.int64)
    count = parse_merges(block, 0, pool, starts, state)
    if count == UNUSUAL:
        return None
    assert data[state[0] - 1 : state[0]] == b"]"
    return [pool[starts[i] : starts[i + 1]].tobytes() for i in range(count)]


@given(MERGES, st.booleans(), st.sampled_from([None, 1]))
def test_parse_merges(merges: list[object], ascii_only: bool, indent: int | None) -> None:
    data = json.dumps(merges, ensure_ascii=ascii_only, indent=indent).encode()
    assert parse(data) == twins.formats.parse_merges(data)


@given(st.lists(st.sampled_from(list('[]", ab\\u0dé\n')), max_size=20).map("".join))
def test_parse_merges__broken(text: str) -> None:
    found = parse(f"[{text}".encode())
    assert found is None or found == twins.formats.parse_merges(f"[{text}".encode())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"[]", []),
        (b'[ "a b" , ["c","d"] ]', [b"a", b"b", b"c", b"d"]),
        (rb'[["\u00e9","\ud83d\ude00"]]', ["é".encode(), "\U0001f600".encode()]),
        (rb'[["\ud83d","a"]]', None),
        (b'[["a","b"', None),
        (b'["a b c"]', None),
        (b'["ab"]', None),
        (rb'["a\u0020b", " ", "c "]', [b"a", b"b", b"", b"", b"c", b""]),
        (b'[["a","b"],]', None),
        (b'[["a","b","c"]]', None),
        (b"[1]", None),
        (b'["a\nb c"]', None),
    ],
)
def test_parse_merges__cases(data: bytes, expected: list[bytes] | None) -> None:
    assert parse(data) == expected


def parse_texts(data: bytes) -> list[tuple[bytes, int]] | None:
    block, n_bytes = padded_text(data)
    pool, state = np.empty(n_bytes, np.uint8), np.zeros(1, np.int64)
    starts, numbers = (np.empty(n_bytes // 2 + 8, np.int64) for _ in range(2))
    count = parse_vocabulary(block, 0, pool, starts, numbers, state)
    if count == UNUSUAL:
        return None
    assert data[state[0] - 1 : state[0]] == b"}"
    return [(pool[starts[i] : starts[i + 1]].tobytes(), int(numbers[i])) for i in range(count)]


NUMBERS = st.one_of(st.integers(-1, 20), st.integers(10**10 - 2, 10**10 + 1), st.sampled_from([None, True, 1.5, "1", []]))


@given(st.dictionaries(TOKENS, NUMBERS, max_size=6), st.booleans(), st.sampled_from([None, 1]))
def test_parse_vocabulary(vocab: dict[str, object], ascii_only: bool, indent: int | None) -> None:
    data = json.dumps(vocab, ensure_ascii=ascii_only, indent=indent).encode()
    assert parse_texts(data) == twins.formats.parse_vocabulary(data)


@given(st.lists(st.sampled_from(['"', '"a":', "1", "0", "}", ",", " ", '"\\u00e9" : 10', "-"]), max_size=12).map("".join))
def test_parse_vocabulary__broken(text: str) -> None:
    assert parse_texts(f"{{{text}".encode()) == twins.formats.parse_vocabulary(f"{{{text}".encode())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{}", []),
        (b'{ "a" : 1 , "a":0\n} ', [(b"a", 1), (b"a", 0)]),
        (rb'{"\u00e9": 9999999999}', [("é".encode(), 9_999_999_999)]),
        (b'{"a": 10000000000}', None),
        (b'{"a": 01}', None),
        (b'{"a": 1,}', None),
        (b'{"a": 1.0}', None),
        (b'{"a": 1', None),
        (b'{"a"', None),
    ],
)
def test_parse_vocabulary__cases(data: bytes, expected: list[tuple[bytes, int]] | None) -> None:
    assert parse_texts(data) == expected


@given(st.lists(st.binary(max_size=3), max_size=9), st.lists(st.binary(max_size=3), max_size=9), st.sampled_from([1, 2]))
def test_find_strings(known: list[bytes], strings: list[bytes], step: int) -> None:
    index = StringIndex(ByteStrings.from_list(known))
    assert index.is_distinct == (len(twins.formats.index_strings(known)) == len(known))
    assert index.find(ByteStrings.from_list(strings), step).tolist() == twins.formats.find_strings(known, strings, step)
