"""The symbols that pre-tokens begin as: the characters of a corpus, or bytes with a mark at the end of words."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array, PretokenTable, lengths_of
from bpejit.engines.threads import TaskThreads
from bpejit.kernels.training import symbol_cells as kernels
from bpejit.normalization.byte_characters import CHARACTERS
from bpejit.training.cell_ranges import CellRanges, weights_of
from bpejit.training.symbol_settings import SPACE, SymbolSettings

BYTES_OF_HF = sorted(range(256), key=CHARACTERS.__getitem__)
"""The bytes in the order of the ids of Hugging Face's trainer, which are also those of CLIP."""

LEAST_BYTES = 1 << 20
"""Minimum number of bytes that a thread counts: it has a table of 9 MB."""


class Alphabet(NamedTuple):
    """The symbols of training, in the order of their ids.

    Parameters
    ----------
    tokens : list of bytes
        The bytes of each symbol, with the suffix if it is marked.
    sizes : uint32 [symbols]
        The size of each symbol, without the suffix: 1 for a character whose length is limited, and otherwise its bytes.
    arrays : SymbolArrays
    prefix : uint64
        The symbol before each text; `NO_PREFIX` if there is none.
    left_out : int
        The number of distinct characters that are no symbols.
    """

    tokens: list[bytes]
    sizes: Array
    arrays: kernels.SymbolArrays
    prefix: np.uint64
    left_out: int


def find_alphabet(table: PretokenTable, settings: SymbolSettings, workers: int = 1) -> Alphabet:
    """Return the symbols of a table of pre-tokens.

    Characters are in the order of their code points, as Hugging Face's trainer has them. Marked ones follow, in the same order
    if they end a word; that trainer has them in random order.
    """
    if not settings.characters:
        return _bytes_with_marks(settings)
    found, ends = _count_codes(table, settings, workers)
    codes = np.flatnonzero(found[: kernels.N_POINTS])
    kept = _most_frequent(codes, found[codes], settings)
    texts = [SPACE if settings.metaspace and code == ord(" ") else chr(code) for code in kept.tolist()]
    kept = kept[np.argsort([ord(text) for text in texts], kind="stable")]
    tokens = [chr(code).encode() for code in kept.tolist()]
    first = int(kernels.FIRST_SYMBOL)
    of_character = np.full(kernels.N_POINTS, kernels.LEFT_OUT, np.uint32)
    of_character[kept] = np.arange(first, first + kept.size)
    at_end = np.arange(first, first + kept.size, dtype=np.uint32)
    if settings.word_end:
        of_character[_white_space()] = kernels.SEPARATES
        marked = np.flatnonzero(ends[kept])
        at_end[marked] = np.arange(first + kept.size, first + kept.size + marked.size)
        tokens += [tokens[number] + settings.word_end.encode() for number in marked.tolist()]
    prefix = kernels.NO_PREFIX
    if settings.metaspace:
        of_character[ord(SPACE)] = of_character[ord(" ")]
        if settings.prefix_space and of_character[ord(" ")] >= first:
            prefix = np.uint64(of_character[ord(" ")])
    sizes = np.ones(len(tokens), np.uint32) if settings.most_characters else lengths_of(tokens).astype(np.uint32)
    if not settings.most_characters:
        sizes[kept.size :] -= len(settings.word_end.encode())
    arrays = kernels.SymbolArrays(of_character, _of_byte(of_character, kernels.LEFT_OUT), np.zeros(256, np.uint32), at_end)
    return Alphabet(tokens, sizes, arrays, prefix, codes.size - kept.size)


def _bytes_with_marks(settings: SymbolSettings) -> Alphabet:
    """Return all bytes, and all marked bytes."""
    first = int(kernels.FIRST_SYMBOL)
    spelled = np.zeros(256, np.uint32)
    spelled[BYTES_OF_HF] = np.arange(first, first + 256)
    of_character = np.full(kernels.N_POINTS, kernels.SPELLED, np.uint32)
    of_character[:128] = spelled[:128]
    of_character[_white_space()] = kernels.SEPARATES
    plain = [bytes([byte]) for byte in BYTES_OF_HF]
    tokens = [*plain, *(byte + settings.word_end.encode() for byte in plain)]
    at_end = np.arange(first + 256, first + 512, dtype=np.uint32)
    arrays = kernels.SymbolArrays(of_character, _of_byte(of_character, kernels.SPELLED), spelled, at_end)
    return Alphabet(tokens, np.ones(len(tokens), np.uint32), arrays, kernels.NO_PREFIX, 0)


def _white_space() -> list[int]:
    from bpejit.normalization.normalizers import WHITE_SPACE

    return [ord(character) for character in WHITE_SPACE]


def _of_byte(of_character: Array, invalid: np.uint64) -> Array:
    """Return the table of single bytes for a table of characters."""
    found: Array = of_character[:256].copy()
    found[128:] = invalid
    return found


def _count_codes(table: PretokenTable, settings: SymbolSettings, workers: int) -> tuple[Array, Array]:
    """Return the count of each character, and which characters end a word, by code point."""
    codes = np.arange(kernels.N_POINTS, dtype=np.uint32)
    prefix = kernels.NO_PREFIX
    if settings.word_end:
        codes[_white_space()] = kernels.BETWEEN
    if settings.metaspace:
        codes[ord(SPACE)] = ord(" ")
        prefix = np.uint64(ord(" ")) if settings.prefix_space else prefix
    of_byte = _of_byte(codes, kernels.INVALID)
    cuts = _divide(table, max(1, min(workers, table.pool.size // LEAST_BYTES)))

    def count(part: int) -> tuple[Array, Array]:
        begin, end = cuts[part], cuts[part + 1]
        found, ends = np.zeros(kernels.N_CODES, np.int64), np.zeros(kernels.N_CODES, np.uint8)
        kernels.count_characters(
            table.pool, table.starts[begin : end + 1], table.counts[begin:end], codes, of_byte, prefix, found, ends
        )
        return found, ends

    with closing(TaskThreads(len(cuts) - 1)) as pool:
        (found, ends), *others = pool.run(count)
    for more, last in others:
        found += more
        ends |= last
    return found, ends


def _divide(table: PretokenTable, n_parts: int) -> list[int]:
    """Return where ranges of pre-tokens of similar size begin, and the end of the last one."""
    cuts = np.searchsorted(table.starts, np.arange(n_parts) * table.pool.size // n_parts)
    return [*cuts.tolist(), len(table)]


def _most_frequent(codes: Array, counts: Array, settings: SymbolSettings) -> Array:
    """Return the characters to keep, in any order; of equally frequent ones those with the smaller code points."""
    order = np.lexsort((codes, -counts))
    n_kept = codes.size
    if settings.limit is not None:
        n_kept = min(n_kept, settings.limit)
    elif settings.coverage is not None:
        before = np.cumsum(counts[order]) - counts[order]
        n_kept = int(np.count_nonzero(before < settings.coverage * counts.sum()))
    kept: Array = codes[order[:n_kept]]
    return kept


class SymbolTable(NamedTuple):
    """Distinct pre-tokens, and the symbols that they begin as."""

    table: PretokenTable
    alphabet: Alphabet


class SymbolRanges(CellRanges):
    """The cells of the words of pre-tokens, one for each symbol.

    Parameters
    ----------
    table : SymbolTable
    boundary, workers, least_cells
        As in `CellRanges`.

    Attributes
    ----------
    totals : int64 [3]
        See `fill_symbol_cells`.
    """

    def __init__(self, table: SymbolTable, boundary: np.uint64, workers: int, least_cells: int) -> None:
        (pool, starts, counts), alphabet = (table.table.pool, table.table.starts, table.table.counts), table.alphabet
        cuts = _divide(table.table, max(1, min(workers, upper_bound(table.table) // least_cells)))
        self._allocate([1 + int(starts[cut]) + 2 * cut for cut in cuts], weights_of(counts), boundary)
        totals = np.zeros((len(cuts) - 1, 3), np.int64)

        def fill(number: int) -> int:
            begin, end = cuts[number], cuts[number + 1]
            found = kernels.fill_symbol_cells(
                *(pool, starts[begin : end + 1], counts[begin:end], alphabet.arrays, alphabet.prefix),
                *(boundary, self.weights, self.view(number), totals[number]),
            )
            return int(found) - 1

        self.byte_pairs = None
        # Memory that is not written costs nothing: characters take up to four bytes.
        self.close_gaps(self.run(fill))
        self.totals: Array = totals.sum(axis=0)


def upper_bound(table: PretokenTable) -> int:
    """Return a number of cells that no words of a table exceed."""
    return 1 + table.pool.size + 2 * len(table)


def count_others(ranges: CellRanges, settings: SymbolSettings) -> int:
    """Return the number of tokens of a text besides its pairs of adjacent symbols: one for each word, and those left out."""
    assert isinstance(ranges, SymbolRanges)
    words, characters, in_bytes = ranges.totals.tolist()
    left_out = in_bytes if settings.byte_fallback else 0 if settings.unknown is None else characters
    return int(words + left_out)
