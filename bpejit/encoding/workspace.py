"""The memory of one thread that encodes: the cache of pre-tokens, buffers, scratch space."""

from __future__ import annotations

import sys

import numpy as np

from bpejit.arrays import Array
from bpejit.encoding.cache_budget import Budget, process_budget
from bpejit.errors import CorpusError
from bpejit.kernels.common import keys
from bpejit.kernels.constants import MAX_TEXT_BYTES, TEXT_PADDING
from bpejit.kernels.encoding import boundary_filter, pretoken_cache, windowed_merging
from bpejit.kernels.encoding import span_encoding as kernels
from bpejit.kernels.encoding.records import EncoderMemory, addresses_of
from bpejit.kernels.splitting.spans import STATE_SIZE

CACHE_BYTES = 6 << 20
"""Memory for the cache of a workspace: holds GPT-2's vocabulary and most of what a text uses besides."""

LEAST_CACHE_BYTES = 1 << 16
"""Memory for the cache of a workspace where the budget is used up."""

TEXT_BYTES = 1 << 16
"""Text that is copied into a workspace and encoded at a time: it stays in the cache while it is split."""

_ENDS = 1 << 14
_SCRATCH_WORDS = windowed_merging.SCRATCH_WORDS * 4 * windowed_merging.WINDOW + windowed_merging.SCRATCH_EXTRA
_LEAST_SLOTS = 1 << 9

_HEAP_BLOCK = 1 << 16
"""Below what malloc takes from the system alone."""

_HEAP_BLOCKS = 32


class Workspace:
    """The memory of one thread that encodes; made by `Encoder.new_workspace`, its fields are for `Encoder` alone.

    Parameters
    ----------
    cache_bytes : int
        For the cache of pre-tokens at first, if the budget has as much.
    cache_limit : int, optional
        How far the cache may grow; by default as far as the budget goes.
    text_bytes : int
        For the text buffer.
    budget : Budget
        Grants the memory of the cache.
    """

    def __init__(self, *, cache_bytes: int, cache_limit: int | None, text_bytes: int, budget: Budget = process_budget) -> None:
        self.share = budget.open_share(cache_bytes, min(cache_bytes, LEAST_CACHE_BYTES))
        cache_bytes = self.share.n_bytes
        # All arrays are made here, by NumPy: it asks for huge pages. They are filled, so that their pages are there.
        slots, arena = _empty_cache(cache_bytes)
        self.share.give_back(cache_bytes - slots.nbytes - arena.nbytes)  # the smallest is larger than what tests may ask for
        self.cache_limit = sys.maxsize if cache_limit is None else cache_limit
        self._cache_bytes = cache_bytes
        self._ring_begin = 0  # bytes that count as written to the arena although it was empty then
        self.memory = EncoderMemory(
            slots=slots,
            arena=arena,
            # These two are not filled: most texts use few of their pages.
            once=np.zeros(pretoken_cache.ONCE_WORDS, dtype=np.uint64),
            characters=np.zeros(boundary_filter.CHARACTERS * boundary_filter.CHARACTER_WORDS, dtype=np.uint64),
            batch=np.full(keys.BATCH * keys.BATCH_WORDS, 0, dtype=np.uint64),
            scratch=np.full(_SCRATCH_WORDS, 0, dtype=np.uint32),
            ends=np.full(_ENDS, 0, dtype=np.uint32),
            progress=np.full(pretoken_cache.PROGRESS_SIZE, 0, dtype=np.int64),
            split_state=np.full(STATE_SIZE, 0, dtype=np.int64),
        )
        self.progress = self.memory.progress
        self.split_state = self.memory.split_state
        self.chunk_out: Array = np.empty(kernels.OUT_SLACK, dtype=np.uint32)
        self.text_bytes = text_bytes
        self.set_text_room(text_bytes)
        self._pin = _reserve_heap()

    @property
    def memory(self) -> EncoderMemory:
        """What the kernels write to."""
        return self._memory

    @memory.setter
    def memory(self, memory: EncoderMemory) -> None:
        self._memory = memory
        self.addresses = addresses_of(memory)

    def set_text_room(self, n_bytes: int) -> None:
        """Make a text buffer for `n_bytes`, and one for their ids."""
        if n_bytes > MAX_TEXT_BYTES:
            raise CorpusError(
                f"a pre-token has more than {n_bytes // 2} bytes; expected at most {MAX_TEXT_BYTES}: "
                "choose a split pattern that cuts such text"
            )
        self.text_room = n_bytes
        self.text = np.full(n_bytes + TEXT_PADDING, 0, dtype=np.uint8)
        self.view = memoryview(self.text)  # type: ignore[arg-type]
        # There is at most one id per byte.
        self.out = np.full(n_bytes + kernels.OUT_SLACK, 0, dtype=np.uint32)

    def copy_cache(self, memory: EncoderMemory) -> None:
        """Take over what a cache of the same size holds."""
        self.memory.slots[:] = memory.slots
        self.memory.arena[:] = memory.arena
        self.progress[:] = memory.progress

    def grow_cache(self) -> None:
        """Make the parts of the cache larger that are more than half full, as far as the limit allows.

        A cache that is just large enough is faster than a large one: more of what is used lies in the processor's caches.
        Where the budget grants no memory the cache stays as it is, and empties itself when it is full.
        """
        if self.share.budget.is_short and self.share.n_bytes > self.share.budget.fair_part:
            self.share.budget.is_short = False
            self.shrink_cache()
        progress, memory = self.progress, self.memory
        slots, arena = memory.slots, memory.arena
        room = self.cache_limit - slots.nbytes - arena.nbytes
        is_full = (
            progress[pretoken_cache.WIPES] or 8 * pretoken_cache.SLOT_WORDS * progress[pretoken_cache.USED] > 5 * slots.size
        )
        # While it moves, the old table is there beside the new one, and both count.
        if is_full and slots.nbytes <= room and self.share.take(2 * slots.nbytes):
            larger = np.zeros(2 * slots.size, dtype=np.uint64)
            pretoken_cache.move_slots(slots, larger)
            self.memory = memory._replace(slots=larger)
            self.share.give_back(slots.nbytes)
            progress[pretoken_cache.WIPES] = 0
            room -= slots.nbytes
        size = arena.size - pretoken_cache.ARENA_SLACK
        written = int(progress[pretoken_cache.WRITTEN])
        wanted = size
        while wanted < 2 * (written - self._ring_begin) and wanted - size + wanted <= room:
            wanted *= 2
        while wanted > size and not self.share.take(wanted + pretoken_cache.ARENA_SLACK):
            wanted //= 2
        if wanted > size:
            larger = np.zeros(wanted + pretoken_cache.ARENA_SLACK, dtype=np.uint8)
            if written <= size:
                larger[:written] = arena[:written]
            else:
                # The records lie elsewhere in a ring of another size: as if so much were written that all are gone.
                self._ring_begin = written + wanted + 1
                progress[pretoken_cache.WRITTEN] = self._ring_begin
            self.memory = self.memory._replace(arena=larger)
            self.share.give_back(arena.nbytes)

    def shrink_cache(self) -> None:
        """Empty the cache, and give back what it has above its first size, or above its fair part if that is less."""
        size = self._cache_bytes
        while size > LEAST_CACHE_BYTES and size > self.share.budget.fair_part:
            size = max(size // 2, LEAST_CACHE_BYTES)
        slots, arena = _empty_cache(size)
        self.memory = self.memory._replace(slots=slots, arena=arena)
        for field in (pretoken_cache.USED, pretoken_cache.WRITTEN, pretoken_cache.WIPES):
            self.progress[field] = 0
        self._ring_begin = 0
        self.share.give_back(self.share.n_bytes - slots.nbytes - arena.nbytes)

    def grow_scratch(self) -> None:
        """Make room for merging the pre-token for which there was too little."""
        enough = windowed_merging.SCRATCH_WORDS * int(self.progress[pretoken_cache.NEEDED]) + windowed_merging.SCRATCH_EXTRA
        size = min(4 * self.memory.scratch.size, enough)
        self.memory = self.memory._replace(scratch=np.zeros(size, dtype=np.uint32))


def _empty_cache(n_bytes: int) -> tuple[Array, Array]:
    """Return slots and arena of a cache that takes so many bytes."""
    slot_bytes = 8 * pretoken_cache.SLOT_WORDS
    n_slots = _LEAST_SLOTS
    while 2 * n_slots * slot_bytes <= n_bytes * 3 // 4:
        n_slots *= 2
    slots = np.full(n_slots * pretoken_cache.SLOT_WORDS, 0, dtype=np.uint64)
    return slots, np.full(max(n_bytes - n_slots * slot_bytes, 1 << 10), 0, dtype=np.uint8)


def _reserve_heap() -> Array:
    """Leave free memory in the heap for what Python itself needs while text is encoded: lines of files, lists of ids.

    Encoding then goes on where the system grants no new memory at all. What is returned keeps the heap from shrinking.
    """
    blocks = [np.empty(_HEAP_BLOCK, dtype=np.uint8) for _ in range(_HEAP_BLOCKS)]
    # The one that is kept must lie above the others.
    return max(blocks, key=lambda block: block.ctypes.data)
