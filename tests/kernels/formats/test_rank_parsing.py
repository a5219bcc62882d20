"""Comparison of the parser of rank files with its twin."""

from __future__ import annotations

import base64
from itertools import pairwise

import numpy as np
import pytest
import twins
from hypothesis import given, strategies as st

from bpejit.kernels.formats.rank_parsing import NO_DIGIT, parse_rank_lines

LONGEST = 20

DIGITS = np.full(256, NO_DIGIT, dtype=np.uint8)
DIGITS[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")] = range(64)


def parse(data: bytes) -> list[tuple[bytes, int]] | None:
    lines = np.frombuffer(data + bytes(4), dtype=np.uint8).copy()
    n_lines = data.count(b"\n")
    pool = np.zeros(len(data) - len(data) // 4 + 3, dtype=np.uint8)
    starts, numbers = np.zeros(n_lines + 1, dtype=np.int64), np.zeros(n_lines, dtype=np.int64)
    count = parse_rank_lines(lines, len(data), DIGITS, LONGEST, pool, starts, numbers)
    if count < 0:
        return None
    assert count == n_lines
    cuts = starts.tolist()
    tokens = [pool[begin:end].tobytes() for begin, end in pairwise(cuts)]
    return list(zip(tokens, numbers.tolist(), strict=True))


def written(tokens: list[tuple[bytes, int]]) -> bytes:
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in tokens)


lines = st.lists(st.tuples(st.binary(max_size=LONGEST + 2), st.integers(0, 10**8)), max_size=8)


@given(lines, st.booleans())
def test_files(tokens: list[tuple[bytes, int]], ordered: bool) -> None:
    data = written(sorted(tokens, key=lambda line: line[1]) if ordered else tokens)
    assert parse(data) == twins.formats.parse_rank_lines(data, LONGEST)


@given(lines, st.lists(st.tuples(st.integers(0, 200), st.sampled_from(b"=Ab+/ 09\n\r\0-_\xff")), max_size=3))
def test_changed_files(tokens: list[tuple[bytes, int]], changes: list[tuple[int, int]]) -> None:
    data = bytearray(written(sorted(tokens, key=lambda line: line[1])) or b"YQ== 1\n")
    for at, byte in changes:
        data[at % len(data)] = byte
    assert parse(bytes(data)) == twins.formats.parse_rank_lines(bytes(data), LONGEST)


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"YQ== 0", b"YQ= 0\n", b"YQ 0\n", b"Y=== 0\n", b"YR== 0\n", b"YQ==  0\n", b"YWJj 00\n"]
)
def test_edges(data: bytes) -> None:
    assert parse(data) == twins.formats.parse_rank_lines(data, LONGEST)


def test_each_cut() -> None:
    data = written([(b"a", 0), (b"ab", 7), (b"abc", 12), (b"abcd", 99_999_999)])
    for size in range(len(data) + 1):
        assert parse(data[:size]) == twins.formats.parse_rank_lines(data[:size], LONGEST)
