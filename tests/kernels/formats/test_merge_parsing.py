"""Reading the merges of a `tokenizer.json`, compared with the twins and with `json`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.formats.vocabulary_arrays import index_strings
from bpejit.kernels.formats.merge_parsing import UNUSUAL, parse_merges
from tests import twins

TOKENS = st.text(st.one_of(st.sampled_from('ab"\\/\n▁é\0\x1f[],'), st.characters(exclude_categories=["Cs"])), max_size=5)
MERGES = st.lists(
    st.one_of(st.lists(TOKENS, min_size=2, max_size=2), st.builds("{} {}".format, TOKENS, TOKENS), TOKENS, st.lists(TOKENS)),
    max_size=6,
)


def parse(data: bytes) -> list[bytes] | None:
    block, n_bytes = padded_text(data)
    pool, starts, state = np.empty(n_bytes, np.uint8), np.empty(n_bytes // 3 + 8, np.int64), np.zeros(1, np.int64)
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
        (b'[["a","b","c"]]', None),
        (b"[1]", None),
        (b'["a\nb c"]', None),
    ],
)
def test_parse_merges__cases(data: bytes, expected: list[bytes] | None) -> None:
    assert parse(data) == expected


@given(st.sets(st.binary(max_size=3), max_size=9), st.lists(st.binary(max_size=3), max_size=9), st.sampled_from([1, 2]))
def test_find_strings(known: set[bytes], strings: list[bytes], step: int) -> None:
    listed = sorted(known)
    found = index_strings(ByteStrings.from_list(listed), ByteStrings.from_list(strings), step)
    assert found.tolist() == twins.formats.find_strings(listed, strings, step)
