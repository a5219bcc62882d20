"""The memory of one encoding thread: pre-token cache, buffers and scratch space."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import CorpusError
from bpejit.jit.dispatch import addresses_of
from bpejit.kernels.constants import MAX_TEXT_BYTES, TEXT_PADDING
from bpejit.kernels.encoding import (
    boundary_filter,
    interleaved_merging,
    long_pretokens,
    pretoken_cache,
    recurring_sentences,
    sentence_merging,
    span_encoding as kernels,
    superword_merging,
    superword_pieces,
    windowed_merging,
)
from bpejit.kernels.encoding.encoder_arrays import WorkspaceArrays
from bpejit.kernels.splitting.spans import STATE_SIZE
from bpejit.process_memory import Budget, huge_page_zeros, process_budget

CACHE_BYTES = 6 << 20
"""Initial size of a cache: enough for GPT-2's vocabulary and most other pre-tokens of a text."""

LEAST_CACHE_BYTES = 1 << 16
"""Size of a cache when the budget is exhausted."""

TEXT_BYTES = 1 << 16
"""Size of the text buffer: small enough that the text stays in the processor's cache while it is split and encoded."""

SHORT_TEXT_BYTES = 1 << 10
"""Longest text that is encoded by a prepared call (see `ShortTextCall`). The kernel keeps the GIL for a few microseconds."""

MAX_DOCUMENTS = 1 << 12
"""Largest number of documents that one call of the kernel encodes."""

_ENDS = 1 << 14
_SCRATCH_WORDS = windowed_merging.SCRATCH_WORDS * 4 * windowed_merging.WINDOW + windowed_merging.SCRATCH_EXTRA
_LEAST_SLOTS = 1 << 9
_INDEX_SHIFT = 6
"""The index of long pre-tokens initially has the size of the slots, shifted by this: most texts have few of them."""

_MOST_EIGHTHS, _MOST_EIGHTHS_AMONG_LONG = 5, 3
"""Slots are doubled when more eighths of them are used. The second is for texts with many long pre-tokens, as in Chinese, of
which most others are rare as well: each probe beyond the first cache line then waits for memory.
"""

_MANY_LONG = 7
"""A text has many long pre-tokens if more than one is cached for this many others."""

_FILLING = (
    pretoken_cache.USED_SLOTS,
    pretoken_cache.CLEARS,
    pretoken_cache.USED_LONG,
    pretoken_cache.LONG_CLEARS,
    pretoken_cache.ARENA_WRITTEN,
)
"""The fields of `progress` that are 0 when the cache is empty."""

_HEAP_BLOCK = 1 << 16
"""Size of a block below the threshold at which malloc maps memory separately."""

_HEAP_BLOCKS = 32


class Workspace:
    """The memory of one encoding thread, created by `Encoder.new_workspace`.

    Parameters
    ----------
    cache_bytes : int
        Initial size of the pre-token cache, if the budget allows it.
    cache_limit : int, optional
        Largest size of the cache; by default as the budget allows.
    text_bytes : int
        Size of the text buffer.
    budget : Budget
        Grants the memory of the cache.

    """

    def __init__(self, *, cache_bytes: int, cache_limit: int | None, text_bytes: int, budget: Budget = process_budget) -> None:
        self.share = budget.open_share(cache_bytes, min(cache_bytes, LEAST_CACHE_BYTES))
        cache_bytes = self.share.n_bytes
        # Filling the arrays maps their pages.
        slots, long_index, arena = _empty_cache(cache_bytes)
        # The smallest cache exceeds the sizes used in tests.
        self.share.give_back(cache_bytes - slots.nbytes - long_index.nbytes - arena.nbytes)
        self.cache_limit = sys.maxsize if cache_limit is None else cache_limit
        self.cache_bytes = cache_bytes
        self._ring_start = 0  # value of ARENA_WRITTEN when the arena was last empty
        self.short_call: Any = None  # that `Encoder.short_call` prepared
        self.text_buffer: Any = None  # that `batch_encoding` made
        self.addresses: Array = np.zeros(2 * len(WorkspaceArrays._fields), np.int64)
        self.arrays = WorkspaceArrays(
            slots=slots,
            long_index=long_index,
            arena=arena,
            # These two are not filled, since most texts use few of their pages.
            seen_once=np.zeros(recurring_sentences.SEEN_WORDS, np.uint64),
            character_ids=np.zeros(boundary_filter.N_CHARACTERS * boundary_filter.CHARACTER_WORDS, np.uint64),
            batch=np.full(long_pretokens.ALL_BATCH_WORDS, 0, np.uint64),
            deferred=np.full(interleaved_merging.DEFERRED_WORDS, 0, np.uint64),
            # Not filled either, since most texts have no sentences.
            sentences=np.zeros(sentence_merging.SENTENCE_WORDS, np.uint32),
            words=np.full(superword_merging.MAX_WORDS, 0, np.uint32),
            run_words=np.full(superword_merging.MAX_WORDS, 0, np.uint32),
            pieces=np.full(superword_pieces.PIECE_WORDS * superword_pieces.MAX_PIECES, 0, np.uint64),
            piece_slots=np.zeros(4 * superword_pieces.PIECE_SLOTS, np.uint64),  # not filled either
            run_stops=np.full(interleaved_merging.RECENT_SPANS, 0, np.uint64),
            scratch=np.full(_SCRATCH_WORDS, 0, np.uint32),
            ends=np.full(_ENDS, 0, np.uint32),
            recent_stops=np.full(interleaved_merging.RECENT_SPANS, 0, np.uint64),
            document_stops=np.full(MAX_DOCUMENTS, 0, np.int64),
            id_stops=np.full(MAX_DOCUMENTS + 1, 0, np.int64),
            progress=np.full(pretoken_cache.PROGRESS_SIZE, 0, np.int64),
            split_state=np.full(STATE_SIZE, 0, np.int64),
        )
        self.progress = self.arrays.progress
        self.split_state = self.arrays.split_state
        self.chunk_text: Array = np.empty(0, np.uint8)
        self.chunk_out: Array = np.empty(kernels.OUT_SLACK, np.uint32)
        self.text_bytes = text_bytes
        self.short_text_bytes = min(SHORT_TEXT_BYTES, text_bytes)
        self.resize_text(text_bytes)
        self._pin = _reserve_heap()

    @property
    def arrays(self) -> WorkspaceArrays:
        """The arrays that the kernels write to."""
        return self._arrays

    @arrays.setter
    def arrays(self, arrays: WorkspaceArrays) -> None:
        self._arrays = arrays
        self.addresses[:] = addresses_of(arrays)  # in place, since prepared calls refer to this array

    def resize_text(self, n_bytes: int) -> None:
        """Allocate a text buffer of `n_bytes`, and a buffer for their ids."""
        if n_bytes > MAX_TEXT_BYTES:
            raise CorpusError(
                f"a pre-token has more than {n_bytes // 2} bytes; expected at most {MAX_TEXT_BYTES}: "
                "choose a split pattern that cuts such text"
            )
        self.text_capacity = n_bytes
        self.text = np.full(n_bytes + TEXT_PADDING, 0, np.uint8)
        self.view = memoryview(self.text)  # type: ignore[arg-type]
        # There is at most one id per byte.
        self.out = np.full(n_bytes + kernels.OUT_SLACK, 0, np.uint32)

    def copy_cache(self, slots: Array, arena: Array, progress: Array) -> None:
        """Copy the contents of a cache of the same size to this new one; `arena` may lack the unused end."""
        self.arrays.slots[:] = slots
        self.arrays.arena[: arena.size] = arena
        self.progress[:] = progress

    def grow_cache(self) -> None:
        """Double the slots, the index and the arena if they are more than half full, as far as the limit allows.

        A cache that is just large enough is faster than a larger one, because more of it stays in the processor's caches.
        Without memory from the budget or the system the cache keeps its size, and is cleared when it is full.
        """
        if self.share.budget.has_starved_cache and self.share.n_bytes > self.share.budget.fair_share:
            self.share.budget.has_starved_cache = False
            self.share.is_fair = True
            self.shrink_cache()
        try:
            self._grow_slots()
            self._grow_long_index()
            self._grow_arena()
        except MemoryError:
            self.share.give_back(self.share.n_bytes - self._cache_size)
        if self.progress[pretoken_cache.SENTENCE_SHARE] < 0:
            more = max(min(self._available, self.share.budget.available), 0)
            self.progress[pretoken_cache.SENTENCE_LIMIT] = self.arrays.arena.size + more
        self.progress[pretoken_cache.CLEARS_SEEN] = self._n_clears

    def grow_cleared_cache(self) -> None:
        """Let the cache grow if it was cleared since it last could.

        Short texts are encoded one by one in this way, since a look at each table would take longer than some of them.
        """
        if self._n_clears > self.progress[pretoken_cache.CLEARS_SEEN]:
            self.grow_cache()

    @property
    def _n_clears(self) -> int:
        return int(self.progress[pretoken_cache.CLEARS] + self.progress[pretoken_cache.LONG_CLEARS])

    @property
    def _cache_size(self) -> int:
        arrays = self.arrays
        return int(arrays.slots.nbytes + arrays.long_index.nbytes + arrays.arena.nbytes)

    @property
    def _available(self) -> int:
        """Bytes by which the cache may grow before it exceeds its limit."""
        return self.cache_limit - self._cache_size

    def _grow_slots(self) -> None:
        progress, n_used = self.progress, self.progress[pretoken_cache.USED_SLOTS]
        most_eighths = _MOST_EIGHTHS_AMONG_LONG if _MANY_LONG * progress[pretoken_cache.USED_LONG] > n_used else _MOST_EIGHTHS
        most = most_eighths * self.arrays.slots.size
        if progress[pretoken_cache.CLEARS] or 8 * pretoken_cache.SLOT_WORDS * n_used > most:
            self._double("slots", pretoken_cache.move_slots, pretoken_cache.USED_SLOTS, pretoken_cache.CLEARS)

    def _grow_long_index(self) -> None:
        n_used, size = self.progress[pretoken_cache.USED_LONG], self.arrays.long_index.size
        if self.progress[pretoken_cache.LONG_CLEARS] or 2 * long_pretokens.ENTRY_WORDS * n_used > size:
            self._double(*("long_index", long_pretokens.move_entries, pretoken_cache.USED_LONG, pretoken_cache.LONG_CLEARS))

    def _double(self, name: str, move: Callable[[Array, Array], object], used: int, clears: int) -> None:
        """Double a table, if there is memory; during the move both tables exist, and both count.

        If there is no memory for both, the larger one replaces a table that was cleared already, and begins empty.
        """
        table = getattr(self.arrays, name)
        if table.nbytes > self._available:
            return
        moves = self.share.take(2 * table.nbytes, table.nbytes)
        if not moves and not (self.progress[clears] and self.share.take(table.nbytes)):
            return
        larger = huge_page_zeros(2 * table.size, np.uint64)  # which takes memory when it is filled
        if moves:
            move(table, larger)
            self.share.give_back(table.nbytes)
        else:
            self.progress[used] = 0
        self.arrays = self.arrays._replace(**{name: larger})
        self.progress[clears] = 0

    def _grow_arena(self) -> None:
        progress, arena, available = self.progress, self.arrays.arena, self._available
        size = arena.size - pretoken_cache.ARENA_SLACK
        written = int(progress[pretoken_cache.ARENA_WRITTEN])
        wanted = size
        while wanted < 2 * (written - self._ring_start) and wanted - size + wanted <= available:
            wanted *= 2
        # Records have other offsets in a ring of another size: those of a full ring are not copied, so it does not count.
        is_full = written > size
        replaced = arena.nbytes if is_full else 0
        while wanted > size and not self.share.take(wanted + pretoken_cache.ARENA_SLACK - replaced, arena.nbytes - replaced):
            wanted -= size // 4
        if wanted > size:
            larger_arena = np.zeros(wanted + pretoken_cache.ARENA_SLACK, np.uint8)  # which takes memory when it is filled
            if is_full:
                self._ring_start = written + wanted + 1
                progress[pretoken_cache.ARENA_WRITTEN] = progress[pretoken_cache.SENTENCE_LAP] = self._ring_start
            else:
                larger_arena[:written] = arena[:written]
                self.share.give_back(arena.nbytes)
            self.arrays = self.arrays._replace(arena=larger_arena)

    def shrink_cache(self) -> None:
        """Clear the cache, and shrink it to its initial size, or to its fair share if that is smaller."""
        size = self.cache_bytes
        while size > LEAST_CACHE_BYTES and size > self.share.budget.fair_share:
            size = max(size // 2, LEAST_CACHE_BYTES)
        slots, long_index, arena = _empty_cache(size)
        self.arrays = self.arrays._replace(slots=slots, long_index=long_index, arena=arena)
        for field in _FILLING:
            self.progress[field] = 0
        self._ring_start = self.progress[pretoken_cache.SENTENCE_LAP] = self.progress[pretoken_cache.CLEARS_SEEN] = 0
        self.share.give_back(self.share.n_bytes - self._cache_size)

    def grow_scratch(self) -> None:
        """Enlarge the scratch space for the pre-token that did not fit."""
        enough = (
            windowed_merging.SCRATCH_WORDS * int(self.progress[pretoken_cache.NEEDED_BYTES]) + windowed_merging.SCRATCH_EXTRA
        )
        size = min(4 * self.arrays.scratch.size, enough)
        self.arrays = self.arrays._replace(scratch=np.zeros(size, np.uint32))


def _empty_cache(n_bytes: int) -> tuple[Array, Array, Array]:
    """Return the slots, the index of long pre-tokens and the arena of an empty cache of `n_bytes`."""
    slot_bytes = 8 * pretoken_cache.SLOT_WORDS
    n_slots = _LEAST_SLOTS
    while 2 * n_slots * slot_bytes <= n_bytes * 3 // 4:
        n_slots *= 2
    slots = huge_page_zeros(n_slots * pretoken_cache.SLOT_WORDS, np.uint64)
    slots[:] = 0
    long_index = np.full(n_slots * pretoken_cache.SLOT_WORDS >> _INDEX_SHIFT, 0, np.uint64)
    return slots, long_index, np.full(max(n_bytes - slots.nbytes - long_index.nbytes, 1 << 10), 0, np.uint8)


def _reserve_heap() -> Array:
    """Leave free memory in the heap for objects that Python creates during encoding: lines of files, lists of ids.

    Encoding then continues even if the system grants no more memory. The returned array keeps the heap from shrinking.
    """
    blocks = [np.empty(_HEAP_BLOCK, np.uint8) for _ in range(_HEAP_BLOCKS)]
    # The block that is kept must be at the highest address.
    return max(blocks, key=lambda block: block.ctypes.data)
