"""Comparison of the kernels of symbols with their twins."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from helpers.training import BOUNDARY, as_twin, table_of
from hypothesis import example, given, strategies as st

from bpejit.kernels.training import symbol_cells as kernels

characters = st.sampled_from("ab é你\U0001f600\u3000▁\udc80\udcff")
pretokens = st.text(characters, min_size=1, max_size=8)
tables = st.dictionaries(pretokens, st.one_of(st.integers(-1, 5), st.just(2**40)), max_size=8)
prefixes = st.sampled_from(["", "▁"])


def packed(table: dict[str, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    arrays = table_of({text.encode("utf-8", "surrogateescape"): count for text, count in table.items()})
    return arrays.pool, arrays.starts, arrays.counts


def ordered(table: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(table.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape"))


def with_space(codes: np.ndarray, code: np.uint64) -> np.ndarray:
    codes[[ord(one) for one in twins.symbols.WHITE_SPACE]] = code
    return codes


@given(tables, prefixes, st.booleans())
@example({"é \udc80": 2, "\udc80": 1, "  ": 1}, "▁", True)
def test_count_characters(table: dict[str, int], prefix: str, by_space: bool) -> None:
    codes = np.arange(kernels.N_POINTS, dtype=np.uint32)
    if by_space:
        with_space(codes, kernels.BETWEEN)
    of_byte = codes[:256].copy()
    of_byte[128:] = kernels.INVALID
    found, ends = np.zeros(kernels.N_CODES, np.int64), np.zeros(kernels.N_CODES, np.uint8)
    first = np.uint64(ord(prefix)) if prefix else kernels.NO_PREFIX

    kernels.count_characters(*packed(table), codes, of_byte, first, found, ends)

    words = list(twins.symbols.split_words(ordered(table), by_space=by_space, prefix=prefix))
    counts, last = twins.symbols.count_characters(words)
    points = np.flatnonzero(found[: kernels.N_POINTS]).tolist()
    assert {chr(point): int(found[point]) for point in points} == {
        one: number for one, number in counts.items() if twins.symbols.is_character(one)
    }
    assert found[kernels.INVALID] == sum(number for one, number in counts.items() if not twins.symbols.is_character(one))
    assert {chr(point) for point in np.flatnonzero(ends[: kernels.N_POINTS]).tolist()} == {
        one for one in last if twins.symbols.is_character(one)
    }


@pytest.mark.parametrize("cell_type", [np.uint32, np.uint64])
@given(tables, prefixes, st.booleans(), st.sets(characters), st.booleans())
@example({"ab é": 2, "a\udc80b": 1}, "", True, {"a", "b"}, True)
def test_fill_symbol_cells(
    cell_type: type, table: dict[str, int], prefix: str, by_space: bool, alphabet: set[str], marks: bool
) -> None:
    known = sorted(one for one in alphabet | set(prefix) if twins.symbols.is_character(one))
    of_character = np.full(kernels.N_POINTS, kernels.LEFT_OUT, np.uint32)
    symbols = {one: 256 + number for number, one in enumerate(known)}
    for one, symbol in symbols.items():
        of_character[ord(one)] = symbol
    if by_space:
        with_space(of_character, kernels.SEPARATES)
    of_byte = of_character[:256].copy()
    of_byte[128:] = kernels.LEFT_OUT
    ends = np.arange(256, 256 + len(known), dtype=np.uint32) + np.uint32(100 * marks)
    arrays = kernels.SymbolArrays(of_character, of_byte, np.zeros(256, np.uint32), ends)
    found = filled(table, arrays, np.uint64(symbols[prefix]) if prefix else kernels.NO_PREFIX, cell_type)

    words = list(twins.symbols.split_words(ordered(table), by_space=by_space, prefix=prefix))
    at_end = {one: symbol + 100 * marks for one, symbol in symbols.items()}
    assert found[0] == twins.symbols.fill_symbol_cells(words, symbols, at_end)
    left_out = [(one, count) for word, count in words for one in word if one not in symbols]
    assert found[1] == [
        sum(count for word, count in words if set(word) & set(symbols)),
        sum(count for _, count in left_out),
        sum(len(one.encode("utf-8", "surrogateescape")) * count for one, count in left_out),
    ]


@given(tables, st.booleans())
def test_fill_symbol_cells_with_bytes(table: dict[str, int], by_space: bool) -> None:
    of_character = np.full(kernels.N_POINTS, kernels.SPELLED, np.uint32)
    if by_space:
        with_space(of_character, kernels.SEPARATES)
    of_byte = of_character[:256].copy()
    of_byte[128:] = kernels.SPELLED
    spelled, at_end = np.arange(511, 255, -1, dtype=np.uint32), np.arange(600, 856, dtype=np.uint32)
    found, _ = filled(table, kernels.SymbolArrays(of_character, of_byte, spelled, at_end), kernels.NO_PREFIX, np.uint32)

    words = twins.symbols.split_words(ordered(table), by_space=by_space)
    in_bytes = [(word.encode("utf-8", "surrogateescape").decode("latin-1"), count) for word, count in words]
    symbols = {chr(byte): 511 - byte for byte in range(256)}
    ends = {chr(byte): 600 + 255 - byte for byte in range(256)}
    assert found == twins.symbols.fill_symbol_cells(in_bytes, symbols, ends)


def filled(
    table: dict[str, int], arrays: kernels.SymbolArrays, prefix: np.uint64, cell_type: type
) -> tuple[list[twins.training.Cell], list[int]]:
    """Return the cells and the totals of the kernel."""
    pool, starts, counts = packed(table)
    weights = np.unique([0, *(count for count in table.values() if count > 0)]).astype(np.uint64)
    cells, totals = np.zeros(1 + pool.size + 2 * counts.size, cell_type), np.zeros(3, np.int64)
    n = kernels.fill_symbol_cells(pool, starts, counts, arrays, prefix, BOUNDARY, weights, cells, totals)
    return as_twin(cells[:n], weights), totals.tolist()
