"""Pre-tokens as words of symbols: characters, or bytes of which the last one of a word is marked.

A symbol is an initial token of merge learning that is not just a byte. Its id is at least 256, so in a table of characters
smaller numbers say what else becomes of a character.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import bit_length
from bpejit.kernels.common.characters import read_character
from bpejit.kernels.constants import ONE, TWO, ZERO
from bpejit.kernels.training.cells import find_weight

Array = Any

N_POINTS = 0x110000
"""Number of code points."""

INVALID = np.uint64(N_POINTS)
"""Instead of the code point of a byte that belongs to no character."""

BETWEEN = np.uint64(N_POINTS + 1)
"""Instead of the code point of a character between words."""

N_CODES = N_POINTS + 2

SEPARATES = np.uint64(0)
"""A character that ends a word, and does not belong to the next one."""

LEFT_OUT = np.uint64(1)
"""A character without a symbol: it is skipped, so the symbols on both sides are adjacent."""

SPELLED = np.uint64(2)
"""A character with a symbol for each of its bytes."""

NO_PREFIX = np.uint64(0xFFFF_FFFF)
"""No character is inserted before a pre-token."""

FIRST_SYMBOL = np.uint64(256)


class SymbolArrays(NamedTuple):
    """The symbols of characters."""

    of_character: Array  # uint32 [N_POINTS]: a symbol, `SEPARATES`, `LEFT_OUT` or `SPELLED`
    of_byte: Array  # uint32 [256]: the same of the characters of ASCII, and of bytes that belong to no character
    spelled: Array  # uint32 [256]: the symbol of each byte of a character that is `SPELLED`
    at_end: Array  # uint32 [symbols]: what symbol `256 + i` is at the end of a word


@kernel
def count_characters(pool, starts, counts, of_character, of_byte, prefix, found, ends):
    """Count the characters of pre-tokens, and find those at the end of a word.

    Parameters
    ----------
    pool : uint8[:], in
        Bytes of the pre-tokens.
    starts : int64[:], in
        Pre-token `i` is `pool[starts[i]:starts[i + 1]]`.
    counts : int64[:], in
        Number of occurrences of each; pre-tokens with a count below one are omitted.
    of_character : uint32[N_POINTS], in
        The code by which each character is counted: its code point or that of another one, or `BETWEEN`.
    of_byte : uint32[256], in
        The same of the characters of ASCII, and `INVALID`.
    prefix : uint64
        The code that is counted before a pre-token that does not begin with it; `NO_PREFIX` for none.
    found : int64[N_CODES], in-out
        The count of each code is increased.
    ends : uint8[N_CODES], in-out
        Set to 1 for the last code of a word. Words are separated by `BETWEEN`.

    Returns
    -------
    int
        Number of characters, prefixes included, without the counts.

    Notes
    -----
    O(bytes).
    """
    n_units = ZERO
    for i in range(counts.size):
        if counts[i] < 1:
            continue
        at, stop = np.uint64(starts[i]), np.uint64(starts[i + 1])
        before = BETWEEN
        if prefix != NO_PREFIX:
            code, _ = read_character(pool, at, stop, True, of_character, of_byte)
            if code != prefix:
                found[prefix] += counts[i]
                before = prefix
                n_units += ONE
        while at < stop:
            code, width = read_character(pool, at, stop, True, of_character, of_byte)
            found[code] += counts[i]
            if code == BETWEEN:
                ends[before] = 1
            before = code
            n_units += ONE
            at += width
        ends[before] = 1
    return n_units


@inline
def end_word(begin, end, is_last, boundary, symbols, id_bits, cells):
    """Write the boundary after the word in `cells[begin:end]`, and return where the next one begins.

    The last symbol is replaced by that of the end of a word if `is_last`. A word of fewer than two symbols is removed.
    """
    if end - begin < TWO:
        return begin
    if is_last:
        cell = np.uint64(cells[end - ONE])
        code = cell >> id_bits << id_bits
        cells[end - ONE] = code | np.uint64(symbols.at_end[(cell ^ code) - FIRST_SYMBOL])
    cells[end] = boundary
    return end + ONE


@kernel
def fill_symbol_cells(pool, starts, counts, symbols, prefix, boundary, weights, cells, totals):
    """Write the words of pre-tokens as cells, one for each symbol.

    Parameters
    ----------
    pool, starts, counts
        As in `count_characters`.
    symbols : SymbolArrays, in
    prefix : uint64
        The symbol that is inserted before a pre-token that does not begin with it; `NO_PREFIX` for none.
    boundary : uint64
        The id of boundary cells.
    weights : uint64[:], in
        0 and the distinct counts above it, ascending.
    cells : uint32[:] or uint64[:], out
        At least as many as characters, or bytes if they are spelled, prefixes and pre-tokens together, plus one.
    totals : int64[3], in-out
        Increased by the words that have symbols, by the characters that are left out, and by their bytes, each weighted with
        the count of its pre-token.

    Returns
    -------
    int
        Number of cells written.

    Notes
    -----
    Words of fewer than two symbols are omitted. O(bytes + pre-tokens * log weights).
    """
    id_bits = bit_length(boundary)
    begin = ONE
    cells[0] = boundary
    for i in range(counts.size):
        if counts[i] < 1:
            continue
        code = find_weight(weights, np.uint64(counts[i])) << id_bits
        at, stop = np.uint64(starts[i]), np.uint64(starts[i + 1])
        end, is_last = begin, False
        if prefix != NO_PREFIX:
            symbol, _ = read_character(pool, at, stop, True, symbols.of_character, symbols.of_byte)
            if symbol != prefix:
                cells[end] = code | prefix
                end += ONE
                is_last = True
        while at < stop:
            symbol, width = read_character(pool, at, stop, True, symbols.of_character, symbols.of_byte)
            if symbol >= FIRST_SYMBOL:
                cells[end] = code | symbol
                end += ONE
                is_last = True
            elif symbol == SPELLED:
                for byte in range(width):
                    cells[end + np.uint64(byte)] = code | np.uint64(symbols.spelled[pool[at + np.uint64(byte)]])
                end += width
                is_last = True
            elif symbol == LEFT_OUT:
                totals[1] += counts[i]
                totals[2] += counts[i] * np.int64(width)
                is_last = False
            else:
                totals[0] += counts[i] if end > begin else 0
                begin = end_word(begin, end, is_last, boundary, symbols, id_bits, cells)
                end, is_last = begin, False
            at += width
        totals[0] += counts[i] if end > begin else 0
        begin = end_word(begin, end, is_last, boundary, symbols, id_bits, cells)
    return begin
