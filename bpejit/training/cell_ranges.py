"""Passes over the cells of merge learning, in ranges that threads process at the same time.

A range consists of complete pre-tokens and the boundary before them, so it has the form of an array of cells itself, and the
kernels that read cells process it without a change. Kernels release the GIL.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from bpejit.arrays import Array, PretokenTable
from bpejit.counting.hash_tables import HashTables
from bpejit.engines.threads import TaskThreads
from bpejit.kernels.constants import NEED_SPACE, WORD_BITS
from bpejit.kernels.training import byte_pairs, cells, combining, pairs
from bpejit.process_memory import touch_pages

LEAST_CELLS = 1 << 20
"""Default minimum number of cells in a range: each has a pair table, and for fewer cells threads save too little time. English
with 142,000 distinct pre-tokens took 136 MB in two ranges and 124 MB in one, and no less time."""

FIRST_SLOTS = 1 << 14
"""Minimum size of a pair table; a power of two."""

SLOTS_PER_SUM = 4
"""Initial number of slots of a pair table for each sum that reaches the threshold. There are 1.1 to 3.3 pairs for each,
and a table is enlarged when it is three quarters full."""

LEAST_SUMS = 1 << 16
"""Minimum number of sums of `bound_counts`, which fit into any CPU cache; a power of two."""

BLOCK_PRETOKENS = 1 << 15
"""Number of pre-tokens whose tokens become cells together."""

BLOCK_CELLS = 1 << 18
"""Number of cells that `weighted_pairs` looks at together."""

NOWHERE = 16
"""Number of postings in a cache line: threads write the positions of pairs without a list to different lines."""


def power_of_two(least: int) -> int:
    """Return the smallest power of two that is at least `least`, and at least 2."""
    return 1 << max(least - 1, 1).bit_length()


def copied_pairs(source: Array, least: int, n_slots: int, sizes: Array, state: Array) -> Array:
    """Return a pair table of `n_slots` with the pairs that occur at least `least` times (see the kernel `copy_pairs`)."""
    copy = touch_pages(np.zeros(n_slots, pairs.PAIR))
    pairs.copy_pairs(source, np.uint64(least), sizes, state, copy)
    return copy


def cell_type(boundary: np.uint64, weights: Array) -> type[np.unsignedinteger[Any]]:
    """Return the type of cells: uint32 if an id and the index of a weight fit into 32 bits, and otherwise uint64."""
    return np.uint32 if int(boundary).bit_length() + (weights.size - 1).bit_length() <= 32 else np.uint64


def add_sums(source: Array, sums: Array) -> None:
    """Add sums of `bound_counts` to others of the same unsigned type, at whose largest number they saturate."""
    total = sums + source
    sums[:] = np.where(total < sums, np.iinfo(sums.dtype).max, total)


def weights_of(counts: Array) -> Array:
    """Return 0 and the distinct counts above it, ascending (uint64)."""
    return np.append(np.uint64(0), np.unique(counts[counts > 0]).astype(np.uint64))


def new_byte_pairs() -> Array:
    """Return a table of pairs of bytes without counts."""
    return touch_pages(np.zeros(byte_pairs.N_BYTE_PAIRS, byte_pairs.BYTE_PAIR))


class CountedRange(NamedTuple):
    """The pairs that were counted in a range, at the selected positions."""

    selected: Array  # uint64, a bit for each cell
    numbers: Array  # uint32 [selected positions], the number of the pair at each of them
    counted: Array  # PAIR, with the number of each pair in `start`
    n_pairs: int


class TokenizedTable(NamedTuple):
    """Distinct pre-tokens as sequences of tokens."""

    ids: Array  # unsigned integers [tokens]
    starts: Array  # int64 [pre-tokens + 1]
    counts: Array  # int64 [pre-tokens]


class CellRanges:
    """The cells of all pre-tokens, and passes over them.

    Parameters
    ----------
    table : PretokenTable
    eligible : bool [pre-tokens]
        The pre-tokens that `fill_cells` writes.
    byte_ids : uint64 [256]
        Token id of each byte.
    boundary : uint64
        The id of boundary cells.
    workers : int
        Maximum number of ranges, and of threads.
    least_cells : int
        Minimum number of cells in a range.

    Attributes
    ----------
    cells, weights : Array
        See `bpejit.kernels.training.cells`.
    stops : list of int
        Range `i` is `cells[stops[i]:stops[i + 1]]`, without the boundary before it; `stops[0]` is 1.
    byte_pairs : list of BYTE_PAIR [N_BYTE_PAIRS], or None
        The pairs of bytes in each range, before the first phase. None if there are tokens of several bytes.
    """

    def __init__(
        self, table: PretokenTable, eligible: Array, byte_ids: Array, boundary: np.uint64, workers: int, least_cells: int
    ) -> None:
        sizes = np.where(eligible, np.diff(table.starts) + 1, 0)
        n_cells = 1 + int(sizes.sum())
        n_ranges = max(1, min(workers, n_cells // least_cells))
        ends = np.cumsum(sizes)
        inner = np.searchsorted(ends, np.arange(1, n_ranges) * n_cells // n_ranges)
        cuts = [0, *inner.tolist(), len(table)]
        stops = [1, *(1 + int(ends[cut - 1]) if cut else 1 for cut in cuts[1:])]
        del sizes, ends
        self._allocate(stops, weights_of(table.counts[eligible]), boundary)

        def fill(number: int) -> Array:
            begin, end = cuts[number], cuts[number + 1]
            starts, counts, found = table.starts[begin : end + 1], table.counts[begin:end], new_byte_pairs()
            byte_pairs.fill_cells(table.pool, starts, counts, byte_ids, boundary, self.weights, self.view(number), found)
            return found

        self.byte_pairs: list[Array] | None = self.run(fill)

    @classmethod
    def of_hash_tables(
        cls, tables: HashTables, byte_ids: Array, boundary: np.uint64, workers: int, least_cells: int
    ) -> CellRanges:
        """Return the cells of the pre-tokens of hash tables, which are freed. The parameters are those of the class."""
        sizes = tables.n_cells()
        n_parts = len(sizes)
        n_ranges = max(1, min(workers, n_parts, sum(sizes) // least_cells))
        cuts = [number * n_parts // n_ranges for number in range(n_ranges + 1)]
        self = cls.__new__(cls)
        self._allocate([1 + sum(sizes[:cut]) for cut in cuts], tables.weights, boundary)

        def fill(number: int) -> Array:
            found = new_byte_pairs()
            parts = range(cuts[number], cuts[number + 1])
            tables.fill(parts, byte_ids, boundary, self.view(number)[1:], found)
            return found

        self.byte_pairs = self.run(fill)
        tables.clear()
        return self

    def _allocate(self, stops: list[int], weights: Array, boundary: np.uint64) -> None:
        """Allocate the cells, and write the first boundary."""
        self.boundary, self.stops, self.weights = boundary, stops, weights
        self.cells: Array = np.empty(stops[-1], cell_type(boundary, weights))
        self.cells[0] = boundary
        self._threads = TaskThreads(len(self))

    @classmethod
    def of_tokens(
        cls, tokens: TokenizedTable, eligible: Array, boundary: np.uint64, workers: int, least_cells: int
    ) -> CellRanges:
        """Return the cells of pre-tokens that are sequences of tokens already, one cell for each token."""
        self = cls.__new__(cls)
        # Where the cells of each pre-token begin, and where the last ones end.
        begins = np.concatenate([[1], 1 + np.cumsum(np.where(eligible, np.diff(tokens.starts) + 1, 0))])
        n_cells = int(begins[-1])
        n_ranges = max(1, min(workers, n_cells // least_cells))
        cuts = np.searchsorted(begins[1:], np.arange(1, n_ranges) * n_cells // n_ranges) + 1
        self._allocate([1, *begins[cuts].tolist(), n_cells], weights_of(tokens.counts[eligible]), boundary)
        self.byte_pairs = None
        id_bits = np.uint64(int(boundary).bit_length())

        def fill(first: int) -> None:
            block = slice(first, first + BLOCK_PRETOKENS)
            kept = eligible[block]
            lengths = np.diff(tokens.starts[first : first + BLOCK_PRETOKENS + 1])
            numbers = tokens.ids[tokens.starts[first] : tokens.starts[first] + lengths.sum()][np.repeat(kept, lengths)]
            lengths, found = lengths[kept], tokens.counts[block][kept].astype(np.uint64)
            codes = np.repeat(np.searchsorted(self.weights, found).astype(np.uint64) << id_bits, lengths)
            cells = np.full(numbers.size + lengths.size, boundary)
            # Before a token there are the tokens before it, and a boundary for each pre-token before it.
            cells[np.arange(numbers.size) + np.repeat(np.arange(lengths.size), lengths)] = codes | numbers
            self.cells[begins[first] : begins[first] + cells.size] = cells

        for first in range(0, tokens.counts.size, BLOCK_PRETOKENS):
            fill(first)
        return self

    def close(self) -> None:
        """Stop the threads."""
        self._threads.close()

    def __len__(self) -> int:
        return len(self.stops) - 1

    def view(self, number: int) -> Array:
        """Return a range with the boundary before it."""
        return self.cells[self.stops[number] - 1 : self.stops[number + 1]]

    def run(self, task: Callable[[int], Any], tasks: int | None = None) -> list[Any]:
        """Return the results of `task(number)` for each range, or for each number below `tasks`, which threads compute."""
        return self._threads.run(task, tasks)

    def find_cuts(self, number: int) -> Array:
        """Return the first cells of some pre-tokens, about `number` at equal distances. Each token must be one cell.

        Returns
        -------
        uint32 array
            Ascending, the first one is 0.
        """
        size, block = self.cells.size, 4096
        cuts = [0]
        for place in range(1, number):
            at = max(cuts[-1], place * size // number)
            while at < size:
                found = np.flatnonzero(self.cells[at : at + block] == self.boundary)
                if found.size:
                    cuts.append(at + int(found[0]) + 1)
                    break
                at += block
        return np.unique(np.array(cuts, np.uint32))

    def take_byte_pairs(self) -> tuple[Array, list[Array]]:
        """Return a table of the pairs of bytes, and the number of positions of each pair in each range."""
        assert self.byte_pairs is not None
        numbers = [found["number"] for found in self.byte_pairs]
        total = np.sum(numbers, axis=0)
        indexes = np.flatnonzero(total)
        table: Array = np.zeros(indexes.size, pairs.PAIR)
        table["key"] = (indexes >> 8 << 32 | indexes & 255) + 1  # see `pairs.pair_key`
        table["count"] = np.sum([found["count"] for found in self.byte_pairs], axis=0)[indexes]
        table["length"] = total[indexes]
        self.byte_pairs = None
        return table, numbers

    def write_byte_postings(self, numbers: list[Array], table: Array, postings: Array, nowhere: int) -> None:
        """Write the posting lists of the pairs of bytes of a table from `plan_postings`, in ascending order.

        Parameters
        ----------
        numbers : list of uint64 [N_BYTE_PAIRS]
            The number of positions of each pair in each range.
        table : PAIR [slots], in-out
            `length` is written.
        postings : uint32 [n], out
        nowhere : int
            Index of the first of `NOWHERE` elements of `postings` for each range that no list contains.
        """
        slots = np.flatnonzero(table["key"])
        keys = table["key"][slots] - np.uint64(1)
        indexes = (keys >> np.uint64(24)) | (keys & np.uint64(255))
        next_posting, cursors = table["start"][slots], []
        for number in numbers:
            found = np.full(byte_pairs.N_BYTE_PAIRS + 1, pairs.NOT_FOLLOWED, np.uint64)
            found[indexes] = next_posting
            next_posting = next_posting + number[indexes]
            cursors.append(found)
        table["length"][slots] = next_posting - table["start"][slots]

        def write(number: int) -> None:
            first, unused = np.uint64(self.stops[number] - 1), np.uint64(nowhere + number * NOWHERE)
            byte_pairs.write_byte_postings(self.view(number), first, self.boundary, cursors[number], unused, postings)

        self.run(write)

    def bound_counts(self, n_sums: int, before: int) -> Array:
        """Return upper bounds of the counts of pairs, by hash (see the kernel of this name).

        The counts are below `before`. If two bytes are enough, the sums fit better into the CPU cache: 2^20 of them took 0.09
        instead of 0.24 s for 16.5 million cells.
        """
        sum_type = np.uint16 if before < 2**16 else np.uint32
        limit = np.uint64(np.iinfo(sum_type).max)

        def bound(number: int) -> Array:
            sums = touch_pages(np.zeros(n_sums, sum_type))
            view = self.view(number)
            pairs.bound_counts(view, np.uint64(view.size), self.weights, self.boundary, limit, sums)
            return sums

        found: list[Array] = self.run(bound)
        first, *others = found

        def add(number: int) -> None:
            part = slice(number * n_sums // len(self), (number + 1) * n_sums // len(self))
            for other in others:
                add_sums(other[part], first[part])

        if others:
            self.run(add)
        return first

    def select_positions(self, reaches: Array) -> tuple[list[Array], list[int]]:
        """Find the positions of the pairs whose sum reaches the threshold. Return their bits and their number in each range.

        Parameters
        ----------
        reaches : bool [sums]
            Which sums of `bound_counts` reach the threshold.
        """
        reaching = np.packbits(reaches, bitorder="little")

        def select(number: int) -> tuple[Array, int]:
            view = self.view(number)
            selected = np.empty(-(-view.size // int(WORD_BITS)), np.uint64)
            return selected, int(pairs.select_positions(view, np.uint64(view.size), self.boundary, reaching, selected))

        found = self.run(select)
        return [selected for selected, _ in found], [number for _, number in found]

    def count_pairs(
        self,
        sums: Array,
        least: int,
        sizes: Array,
        state: Array,
        spare: Array,
    ) -> list[CountedRange]:
        """Count the pairs whose sum is at least `least`, in each range.

        Parameters
        ----------
        sums : uint16 or uint32 [n]
            From `bound_counts`.
        least : int
        sizes : uint32 [tokens]
        state : STATE [1]
        spare : uint32 [n]
            Memory for the numbers of pairs. New memory is used instead if there is too little; it takes longer.
        """
        reaches = sums >= sums.dtype.type(min(least, np.iinfo(sums.dtype).max))
        n_slots = max(FIRST_SLOTS, power_of_two(SLOTS_PER_SUM * int(np.count_nonzero(reaches))))
        selected, n_selected = self.select_positions(reaches)
        stops = [0, *accumulate(n_selected)]
        # Posting lists are written to the front of the same memory while the numbers are read. There are no more postings.
        begin, n_numbers = stops[-1] + len(self) * NOWHERE, stops[-1]
        numbers = spare[begin : begin + n_numbers] if spare.size >= begin + n_numbers else np.empty(n_numbers, np.uint32)

        def count(number: int) -> CountedRange:
            view, own_numbers = self.view(number), numbers[stops[number] : stops[number + 1]]
            own = state.copy()
            own["position"] = own["n_pairs"] = own["n_postings"] = 0
            own["max_size"] = 2**63  # so that all pairs are copied to a larger table
            counted = touch_pages(np.zeros(n_slots, pairs.PAIR))
            scratch = self.weights, self.boundary, np.empty(pairs.BATCH_POSITIONS, np.uint32), own_numbers, own
            while pairs.count_pairs(view, selected[number], *scratch, counted) == NEED_SPACE:
                counted = copied_pairs(counted, 0, 2 * counted.size, sizes, own)
            return CountedRange(selected[number], own_numbers, counted, int(own["n_pairs"][0]))

        return self.run(count)

    def add_up(self, found: list[CountedRange], sizes: Array, state: Array) -> Array:
        """Return a table of the pairs of all ranges."""
        if len(found) == 1:
            return found[0].counted
        first, *others = found
        total: Array = first.counted.copy()
        state["n_pairs"] = np.count_nonzero(total["key"])
        for part in others:
            state["position"] = 0
            while combining.add_counted_pairs(part.counted, state, total) == NEED_SPACE:
                total = copied_pairs(total, 0, 2 * total.size, sizes, state)
        return total

    def write_postings(self, found: list[CountedRange], table: Array, postings: Array, nowhere: int) -> None:
        """Write the posting lists of the pairs of a table from `plan_postings`, in ascending order.

        Parameters
        ----------
        found : list of CountedRange
        table : PAIR [slots], in-out
            `length` is written.
        postings : uint32 [n], out
        nowhere : int
            Index of the first of `NOWHERE` elements of `postings` for each range that no list contains.
        """
        cursors = [np.empty(part.n_pairs, np.uint64) for part in found]
        for part, places in zip(found, cursors, strict=True):
            combining.divide_postings(table, part.counted, places)

        def write(number: int) -> None:
            part = found[number]
            first, unused = np.uint64(self.stops[number] - 1), np.uint64(nowhere + number * NOWHERE)
            batch = np.empty(pairs.BATCH_POSITIONS, np.uint32)
            combining.write_postings(part.selected, first, part.numbers, batch, cursors[number], unused, postings)

        self.run(write)

    def compact(self, widths: Array) -> None:
        """Compact the cells: each token becomes one cell."""

        def compact(number: int) -> int:
            view = self.view(number)
            return int(cells.compact_cells(view, np.uint64(view.size), widths, self.boundary)) - 1

        self.close_gaps(self.run(compact))

    def close_gaps(self, sizes: list[int]) -> None:
        """Keep the first cells of each range, of which `sizes` are the numbers, without the boundary before them."""
        stop = 1
        stops = [stop]
        for start, size in zip(self.stops, sizes, strict=False):
            if start != stop:
                # NumPy would copy an overlapping range twice, by way of an array of the same size.
                memory, width = self.cells.ctypes.data, self.cells.itemsize
                ctypes.memmove(memory + stop * width, memory + start * width, size * width)
            stop += size
            stops.append(stop)
        self.stops = stops
        self.cells.resize(stop, refcheck=False)  # frees the rest without a copy; there are no views now

    def weighted_pairs(self) -> int:
        """Return the number of pairs of adjacent tokens, each weighted with the count of its pre-token.

        Each token must be one cell. So a corpus has as many tokens as pre-tokens and pairs.
        """
        if self.byte_pairs is not None:
            return sum(int(found["count"].sum()) for found in self.byte_pairs)
        id_bits = self.cells.dtype.type(int(self.boundary).bit_length())
        total = 0
        for start in range(0, self.cells.size - 1, BLOCK_CELLS):
            found = self.cells[start : start + BLOCK_CELLS + 1]
            # A boundary has weight 0, so only the right cell needs a test.
            weights = self.weights[found[:-1] >> id_bits]
            total += int(weights[found[1:] != self.boundary].sum())
        return total
