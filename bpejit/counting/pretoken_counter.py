"""Count the distinct pre-tokens of text, in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any

import numpy as np

from bpejit.arrays import Array, PretokenTable, padded_text, too_long
from bpejit.counting.hash_tables import HashTables
from bpejit.counting.table_streams import merge_streams, new_arrays, sort_blocks
from bpejit.engines.threads import TaskThreads
from bpejit.jit.dispatch import addresses_of
from bpejit.kernels.common import keys
from bpejit.kernels.constants import MAX_TEXT_BYTES, NEED_SPACE, TEXT_PADDING, WARMING_TEXT
from bpejit.kernels.counting import common_pretokens, interning, text_counting
from bpejit.kernels.splitting.spans import MIN_ENDS
from bpejit.process_memory import huge_page_zeros, touch_pages
from bpejit.splitting import Splitter

INITIAL_SLOTS = 1 << 14
INITIAL_ARENA_BYTES = 1 << 18

BLOCK_BYTES = 1 << 14
"""Size of the text that is split, and whose pre-tokens are counted, at a time."""

PART_SLOTS = 1 << 14
"""Approximate number of slots of all tables, for each part of the pre-tokens that is processed together. Its slots take 512 KB,
and its index 256 KB, so both are in the CPU cache."""

_GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


class PretokenCounter:
    """Hash table of distinct pre-tokens and their counts.

    Parameters
    ----------
    slots : int
        Initial number of slots; a power of two.
    arena_bytes : int
        Initial capacity for the bytes of pre-tokens of more than 15 bytes.

    Attributes
    ----------
    weight : int
        The counts that are returned are multiplied by it.
    """

    def __init__(self, *, slots: int = INITIAL_SLOTS, arena_bytes: int = INITIAL_ARENA_BYTES) -> None:
        if slots < 2 * keys.BATCH or slots & (slots - 1):
            raise ValueError(f"slots is {slots}, expected a power of two of at least {2 * keys.BATCH}")
        self._initial = slots, arena_bytes
        self.weight = 1
        self._table = np.zeros(4 * slots, np.uint64)
        self._arena = np.zeros(arena_bytes, np.uint8)
        self._state = np.zeros(3, np.int64)
        self._ends = np.empty(BLOCK_BYTES + MIN_ENDS, np.uint32)
        self._scratch = np.zeros(keys.BATCH_WORDS * keys.BATCH, np.uint64)

    def add_text(self, splitter: Splitter, text: Array, stops: Array, cut: int, final: bool) -> None:
        """Split a chunk of a text, or adjacent documents, and count their pre-tokens, none of which crosses a border.

        The parameters are those of `Splitter.blocks`; an automaton splits and counts in one pass (see the kernel `count_text`).
        """
        if stops.size and stops[-1] > MAX_TEXT_BYTES:
            raise too_long(int(stops[-1]))
        if splitter.automaton is None:
            for first, ends, n_ends in splitter.blocks(text, stops, cut, final):
                self.add_spans(text, first, ends, n_ends)
            return
        split_state = splitter.new_state()
        progress = np.zeros(3, np.int64)
        split = text, stops, cut, final, splitter.automaton, split_state, self._ends, progress
        self._state[interning.NEXT] = 0
        while text_counting.count_text(*split, self._table, self._arena, self._state, self._scratch) == NEED_SPACE:
            self._grow(text.size)

    def add_spans(self, text: Array, first: int, ends: Array, n_ends: int) -> None:
        """Count the spans `ends[:n_ends]` of a padded text. The first span starts at `first`."""
        self._state[interning.NEXT] = 0
        while (
            interning.count_spans(text, first, ends, n_ends, self._table, self._arena, self._state, self._scratch) == NEED_SPACE
        ):
            self._grow(text.size)

    def add_table(self, table: PretokenTable) -> None:
        """Add the counts of another table."""
        pool = np.concatenate([table.pool, np.zeros(TEXT_PADDING, np.uint8)])
        stride = _stride(-(-len(table) // interning.ADDED_TOGETHER))
        self._state[interning.NEXT] = 0
        while (
            interning.add_pretokens(pool, table.starts, table.counts, stride, self._table, self._arena, self._state)
            == NEED_SPACE
        ):
            self._grow(pool.size)

    def _grow(self, longest: int) -> None:
        """Enlarge the table if it is full. Otherwise enlarge the arena, by at least `longest` bytes."""
        slots = self._table.size // 4
        if (self._state[interning.USED] + keys.BATCH) * 4 > slots * 3:
            larger = touch_pages(huge_page_zeros(8 * slots, np.uint64))
            interning.rehash(self._table, larger)
            self._table = larger
            return
        used = int(self._state[interning.ARENA_USED])
        arena = np.zeros(max(2 * self._arena.size, used + longest + TEXT_PADDING), np.uint8)
        arena[:used] = self._arena[:used]
        self._arena = arena

    def table(self) -> PretokenTable:
        """Return the counts so far, in no order."""
        n, n_bytes = interning.measure_table(self._table)
        pool, starts, counts = new_arrays(n, n_bytes)
        interning.unpack_table(self._table, self._arena, 0, pool, starts, counts)
        if self.weight != 1:
            counts *= self.weight
        return PretokenTable(pool, starts, counts)

    def take_sorted(self) -> Iterator[PretokenTable]:
        """Empty the table, and yield its pre-tokens sorted by bytes, in blocks.

        The memory of the table is freed before the pre-tokens are sorted.
        """
        table = self.table()
        self._table = np.zeros(0, np.uint64)
        self._arena = np.zeros(0, np.uint8)
        try:
            yield from sort_blocks(table)
        finally:
            self._clear()

    def take_slots(self) -> tuple[Array, Array]:
        """Empty the table, and return its slots, with weighted counts, and the arena (see `kernels.counting.interning`)."""
        taken = self._table, self._arena
        if self.weight != 1:
            taken[0][2::4] *= np.uint64(self.weight)
        self._clear()
        return taken

    def _clear(self) -> None:
        slots, arena_bytes = self._initial
        self._table = np.zeros(4 * slots, np.uint64)
        self._arena = np.zeros(arena_bytes, np.uint8)
        self._state[interning.USED] = self._state[interning.ARENA_USED] = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Arrive in another process as a packed table in no order, which takes less memory than the hash table."""
        table = self.table()
        return PretokenTable, (table.pool, table.starts, table.counts)


def _stride(n: int) -> int:
    """Return a stride that visits each of `n` indices once, and distributes any number of first visits evenly."""
    stride = max(round(n * _GOLDEN_RATIO), 1)
    while math.gcd(stride, n) > 1:
        stride += 1
    return stride


def add_up(counted: Sequence[PretokenCounter | PretokenTable], threads: int) -> HashTables:
    """Return the sum of what workers have counted.

    Parameters
    ----------
    counted : sequence of PretokenCounter or PretokenTable
        Tables come from other processes, and have distinct pre-tokens. Counters are empty afterwards.
    threads : int
        Maximum number of threads that add up counters.
    """
    # Inserting one table into another takes one thread, and enlarges that table: two workers on 56 MB of Chinese, which have
    # 900,000 and 1,200,000 pre-tokens, 4% of them in common, took 0.5 s.
    counters = [one if isinstance(one, PretokenCounter) else _counter_of(one) for one in counted] or [PretokenCounter()]
    tables = [counter.take_slots() for counter in counters]
    if len(tables) > 1:
        _move_common(tables, threads)
    return HashTables(tables, threads)


def _counter_of(table: PretokenTable) -> PretokenCounter:
    """Return a counter of the pre-tokens of a table, which does not grow."""
    slots = INITIAL_SLOTS
    while 3 * slots < 4 * (len(table) + keys.BATCH):
        slots *= 2
    counter = PretokenCounter(slots=slots, arena_bytes=table.pool.size + TEXT_PADDING)
    counter.add_table(table)
    return counter


def _move_common(tables: Sequence[tuple[Array, Array]], threads: int) -> None:
    """Move the counts of common pre-tokens to the first table that has them, by parts of the pre-tokens, in threads."""
    addresses = addresses_of(tuple(chain.from_iterable(tables)))
    slots = [table.size // 4 for table, _ in tables]
    n_parts = min(slots)
    while n_parts > 1 and sum(slots) < n_parts * PART_SLOTS:
        n_parts //= 2
    threads = max(1, min(threads, n_parts))

    def move(thread: int) -> None:
        index = np.empty(2 * PART_SLOTS, np.uint64)
        for part in range(n_parts * thread // threads, n_parts * (thread + 1) // threads):
            where = np.uint64(part), np.uint64(n_parts), np.uint64(min(slots))
            while common_pretokens.move_common(addresses, *where, index) == NEED_SPACE:
                index = np.empty(2 * index.size, np.uint64)

    with closing(TaskThreads(threads)) as pool:
        pool.run(move)


def warm_counting() -> list[PretokenCounter]:
    """Call each kernel of counting once, so that it is compiled; return counters."""
    splitter = Splitter("gpt2", [b"<|endoftext|>"])
    text, n_bytes = padded_text(WARMING_TEXT)
    splitter.find_cut(text, 0, n_bytes, n_bytes)
    # The smallest tables, so that the kernels that grow them run.
    counter = PretokenCounter(slots=512, arena_bytes=1)
    whole = np.full(1, n_bytes), n_bytes, True
    counter.add_text(splitter, text, *whole)
    for first, ends, n_ends in splitter.blocks(text, *whole):
        counter.add_spans(text, first, ends, n_ends)
    for number in range(1000):
        word, length = padded_text(b"%d" % number)
        counter.add_text(splitter, word, np.full(1, length), length, True)
    counter.weight = 1000  # high counts, for several phases
    table = counter.table()
    list(merge_streams([sort_blocks(table), sort_blocks(table)]))
    return [counter, _counter_of(table)]
