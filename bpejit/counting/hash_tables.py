"""The hash tables in which the workers of a process have counted pre-tokens, as one table."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array, PretokenTable
from bpejit.counting.table_streams import new_arrays
from bpejit.engines.threads import TaskThreads
from bpejit.kernels.counting import interning, slots as slot_kernels
from bpejit.process_memory import release

LEAST_WORDS = 1 << 18
"""Approximate number of words of each range of the slots of all tables: 2 MB, which takes about 1 ms."""

SMALL_COUNTS = slot_kernels.SMALL_COUNTS


class Sizes(NamedTuple):
    """What merge learning needs to know of a table of pre-tokens before it reads it."""

    n_units: int  # bytes or tokens of the pre-tokens that have pairs
    n_pretokens: int  # those pre-tokens
    n_tokens: float  # the same as `n_units`, weighted with the counts


class HashTables:
    """Distinct pre-tokens and their counts, in no order.

    Each pre-token counts in one table; in the others, its count is `MOVED`. The slots of each table are divided into as many
    ranges, and threads process range `part` of all tables after another.

    Parameters
    ----------
    tables : list of (uint64 [4 * slots], uint8 [bytes])
        Slots and arena of each table (see `bpejit.kernels.counting.interning`).
    threads : int
        Maximum number of threads.

    Attributes
    ----------
    n_parts : int
        Number of ranges.
    weights : uint64 [n]
        0 and the distinct counts of the pre-tokens of at least two bytes, in ascending order.
    n_total : int
        The sum of all counts.
    """

    def __init__(self, tables: list[tuple[Array, Array]], threads: int) -> None:
        self._tables = tables
        self.n_parts = max(1, sum(slots.size for slots, _ in tables) // LEAST_WORDS)
        self._n_threads = min(threads, self.n_parts)
        self._sizes = np.zeros((self.n_parts, len(tables)), slot_kernels.SLOT_SIZES)
        with closing(TaskThreads(self._n_threads)) as pool:
            measured = pool.run(self._measure)
        occurs = np.logical_or.reduce([occurs for occurs, _ in measured])
        occurs[0] = True
        # `np.unique` of all counts takes six times as long.
        large = np.unique(np.concatenate([large for _, large in measured]))
        self.weights = np.concatenate([np.flatnonzero(occurs).astype(np.uint64), large])
        self.n_total = int(self._sizes["total"].sum())

    def __len__(self) -> int:
        """Return the number of distinct pre-tokens."""
        return int(self._sizes["pretokens"].sum())

    def _parts(self, thread: int) -> range:
        """Return the ranges that a thread processes."""
        return range(thread * self.n_parts // self._n_threads, (thread + 1) * self.n_parts // self._n_threads)

    def _slots(self, part: int) -> list[Array]:
        """Return the slots of each table in a range."""
        return [slots[slice(*slot_bounds(slots, part, self.n_parts))] for slots, _ in self._tables]

    def _measure(self, thread: int) -> tuple[Array, Array]:
        """Write the sizes of the ranges of a thread, and return the small counts that occur there, and the others."""
        occurs = np.zeros(SMALL_COUNTS, np.uint8)
        large = []
        for part in self._parts(thread):
            for number, slots in enumerate(self._slots(part)):
                sizes = self._sizes[part, number : number + 1]
                found = np.empty(slots.size // 4, np.uint64)
                slot_kernels.measure_slots(slots, sizes, occurs, found)
                large.append(found[: int(sizes["large"][0])].copy())
        return occurs.astype(np.bool_), np.concatenate(large)

    def sizes(self) -> Sizes:
        """Return the sizes of the table."""
        found = self._sizes
        return Sizes(int(found["units"].sum()), int(found["with_pairs"].sum()), float(found["weighted"].sum()))

    def n_cells(self) -> list[int]:
        """Return the number of cells that `fill` writes for each range."""
        sizes = self._sizes["units"].sum(axis=1) + self._sizes["with_pairs"].sum(axis=1)
        return [int(size) for size in sizes]

    def fill(
        self,
        parts: range,
        byte_ids: Array,
        boundary: np.uint64,
        cells: Array,
        found: Array,
    ) -> None:
        """Write the cells of ranges, count their pairs of bytes (see `fill_cells_from_slots`), and free their slots."""
        for part in parts:
            for slots, (_, arena) in zip(self._slots(part), self._tables, strict=True):
                n_cells = slot_kernels.fill_cells_from_slots(
                    slots, slots.view(np.uint8), arena, byte_ids, boundary, self.weights, cells, found
                )
                cells = cells[int(n_cells) :]
            self._release(parts, part)

    def _release(self, parts: range, last: int) -> None:
        """Free the slots of the ranges from the first of `parts` to `last`.

        Most of these are free already, but a huge page is free only when none of its pages is left.
        """
        for slots, _ in self._tables:
            begin, _ = slot_bounds(slots, parts.start, self.n_parts)
            _, end = slot_bounds(slots, last, self.n_parts)
            release(slots[begin:end])

    def pack(self) -> PretokenTable:
        """Return the pre-tokens as packed arrays, in no order, and free the tables."""
        rows, ends = (np.concatenate([[0], np.cumsum(self._sizes[name])]).astype(np.int64) for name in ("pretokens", "bytes"))
        text, starts, counts = new_arrays(rows[-1], ends[-1])

        def unpack(thread: int) -> None:
            for part in self._parts(thread):
                for row, slots in enumerate(self._slots(part), part * len(self._tables)):
                    begin = rows[row]
                    end = rows[row + 1]
                    found = text[ends[row] : ends[row + 1]], starts[begin : end + 1], counts[begin:end]
                    interning.unpack_table(slots, self._tables[row % len(self._tables)][1], int(ends[row]), *found)
                self._release(self._parts(thread), part)

        with closing(TaskThreads(self._n_threads)) as pool:
            pool.run(unpack)
        self.clear()
        return PretokenTable(text, starts, counts)

    def clear(self) -> None:
        """Free the tables, which have been read."""
        self._tables = []


def slot_bounds(table: Array, part: int, n_parts: int) -> tuple[int, int]:
    """Return the first word of a range of the slots of a table, and the one after it."""
    slots = table.size // 4
    return slots * part // n_parts * 4, slots * (part + 1) // n_parts * 4
