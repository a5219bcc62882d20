"""Learning merges from a table of pre-tokens.

The work is done in phases. A phase follows only the pairs that occur at least `threshold` times: since the count of a
pair never rises (see kernels/pairs.py), no other pair can be merged before all of these have fallen below the threshold.
Then the cells are compacted, the pairs are counted anew, and the next phase goes on with a lower threshold. Most pairs
of a corpus are so rare that no phase ever follows them, which saves most of the memory and of the time; the merges are
the same for any choice of thresholds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bpejit.arrays import Array, MergeTable, PretokenTable
from bpejit.errors import TrainingError
from bpejit.kernels._constants import DONE, NEED_SPACE

TIE_RULES: tuple[str, ...] = ("greatest-bytes", "smallest-ids", "hf")
"""Which of several equally frequent pairs is merged first; part of the result, and saved with a tokenizer.

greatest-bytes
    The greatest pair, compared as raw bytes: the left tokens first, then the right ones.
smallest-ids
    The smallest pair of token ids, left id first, where a byte is its own id and merge `i` makes the id `256 + i`.
hf
    The same with the byte tokens in the order of Hugging Face: by the character that GPT-2's files show for a byte.
"""

Progress = Callable[[int, int], None]

STEP = 16
"""The threshold of a phase is the highest count, or the threshold before, divided by this."""

CALL_SECONDS = 0.05
"""A kernel call takes about this long, so that progress is shown and Ctrl-C is heard."""

FIRST_SLOTS = 1 << 14
"""Size of a new pair table; a power of two."""

FIRST_POOL_BYTES = 1 << 16
"""Room for the bytes of all tokens, at first."""

MAX_CELLS = 2**32 - 2
"""Positions of cells are kept in 32 bits."""


def learn_merges(
    table: PretokenTable,
    n_merges: int,
    *,
    tie_break: str = "greatest-bytes",
    min_frequency: int = 1,
    max_token_bytes: int | None = None,
    progress: Progress | None = None,
) -> MergeTable:
    """Merge the most frequent pair of adjacent tokens, again and again.

    A pair occurs wherever its two tokens are adjacent in a pre-token, as often as the pre-token occurs in the corpus;
    overlapping places all count (`aaa` holds the pair `a a` twice), and are merged from the left.

    Parameters
    ----------
    table
        The distinct pre-tokens and their counts. The order of the pre-tokens does not matter; a count below 1 means
        that the pre-token does not occur.
    n_merges
        Number of merges wanted.
    tie_break
        One of `TIE_RULES`.
    min_frequency
        Pairs that occur less often than this are not merged.
    max_token_bytes
        No token longer than this is made; None for any length.
    progress
        Called as `progress(done, total)`, in merges, some twenty times a second.

    Returns
    -------
    MergeTable
        The merges in order; fewer than `n_merges` if no pair is left that may be merged.

    Raises
    ------
    TrainingError
        If a setting has no meaning, or the table is too large for 32-bit positions.
    """
    _check_settings(n_merges, tie_break, min_frequency, max_token_bytes)
    lengths = np.diff(table.starts)
    has_pairs = (lengths > 1) & (table.counts > 0)
    n_bytes, n_pretokens = int(lengths[has_pairs].sum()), int(np.count_nonzero(has_pairs))
    _check_size(n_bytes + n_pretokens + 1, float(lengths.astype(np.float64) @ table.counts))
    # Each merge leaves at least one pair of adjacent tokens less.
    n_merges = min(n_merges, n_bytes - n_pretokens)
    if n_merges == 0:
        return MergeTable(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64))

    trainer = _Trainer(table, n_bytes + n_pretokens + 1, n_merges, tie_break, max_token_bytes)
    trainer.run(max(1, min_frequency), progress)
    return trainer.result()


def byte_order(tie_break: str) -> Array:
    """Return the number of each byte in the order in which the tie rule compares byte tokens (uint64 [256])."""
    order = np.arange(256, dtype=np.uint64)
    if tie_break == "hf":
        # GPT-2's files show the 188 printable characters of Latin-1 as themselves; the other bytes come after all of
        # these, as the characters from U+0100 on.
        shown = np.zeros(256, dtype=bool)
        for first, last in ((33, 126), (161, 172), (174, 255)):
            shown[first : last + 1] = True
        order[shown] = np.arange(188)
        order[~shown] = np.arange(188, 256)
    return order


def _check_settings(n_merges: int, tie_break: str, min_frequency: int, max_token_bytes: int | None) -> None:
    if tie_break not in TIE_RULES:
        raise TrainingError(
            f"unknown tie rule: found {tie_break!r}, expected one of {', '.join(TIE_RULES)}; choose one of these as tie_break"
        )
    for name, value, least in (
        ("n_merges", n_merges, 0),
        ("min_frequency", min_frequency, 0),
        ("max_token_bytes", max_token_bytes, 1),
    ):
        if value is not None and not least <= value < 2**63:
            raise TrainingError(
                f"cannot train with {name}={value}: expected a number from {least} to 2^63 - 1; set {name} to one of these"
            )


def _check_size(n_cells: int, n_tokens: float) -> None:
    if n_cells > MAX_CELLS:
        raise TrainingError(
            f"the distinct pre-tokens are too many for one training: found {n_cells} cells (bytes and borders), expected at "
            f"most {MAX_CELLS}; train on a part of the corpus, or with a split pattern that makes shorter pre-tokens"
        )
    if n_tokens >= 2.0**62:
        raise TrainingError(
            f"the counts of the pre-tokens are too large: found {n_tokens:.3g} bytes in all, expected less than 2^62; divide "
            f"the counts by a common factor"
        )


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 1).bit_length()


class _Trainer:
    """The arrays of one training, and the order in which kernels work on them."""

    def __init__(self, table: PretokenTable, n_cells: int, n_merges: int, tie_break: str, max_token_bytes: int | None) -> None:
        from bpejit.kernels import buckets, cells, merging, pairs

        self.cells_kernels, self.pairs_kernels, self.buckets_kernels, self.merging_kernels = cells, pairs, buckets, merging
        self.n_merges = n_merges
        self.border = np.uint64(256 + n_merges)
        self.byte_ids = byte_order(tie_break)

        self.state = np.zeros(1, merging.STATE)
        status = self.state[0]
        status["rule"] = buckets.GREATEST_BYTES if tie_break == "greatest-bytes" else buckets.SMALLEST_IDS
        status["max_bytes"] = 2**63 if max_token_bytes is None else max_token_bytes
        status["border"] = self.border
        status["n_tokens"] = 256
        status["n_bytes"] = 256
        status["longest_token"] = 1

        n = 256 + n_merges + 1
        self.tokens = merging.Tokens(
            lengths=np.ones(n, np.uint32),
            widths=np.ones(n, np.uint32),
            prefixes=np.zeros(n, np.uint64),
            starts=np.arange(n, dtype=np.uint64),
            pool=np.empty(max(FIRST_POOL_BYTES, 512), np.uint8),
        )
        self.tokens.pool[self.byte_ids] = np.arange(256)
        self.tokens.prefixes[self.byte_ids] = np.arange(256, dtype=np.uint64) << np.uint64(56)
        self.left = np.empty(n_merges, np.int32)
        self.right = np.empty(n_merges, np.int32)
        self.counts = np.empty(n_merges, np.int64)

        self.cells = np.empty(n_cells, np.uint64)
        self.heavy = np.empty(1 + np.count_nonzero(table.counts >= 2**31), np.uint64)
        self.n_cells = np.uint64(
            cells.fill_cells(table.pool, table.starts, table.counts, self.byte_ids, self.border, self.cells, self.heavy)
        )

    def run(self, least: int, progress: Progress | None) -> None:
        """Run phase after phase, until there are enough merges or no pair occurs `least` times."""
        threshold = 2**63
        while threshold > least:
            threshold = self.start_phase(least, threshold)
            if self.merge(progress) == DONE:
                return
            self.end_phase()

    def start_phase(self, least: int, before: int) -> int:
        """Choose a threshold below `before`, and count and list the pairs that reach it."""
        pairs, merging = self.pairs_kernels, self.merging_kernels
        status = self.state[0]
        sums = np.zeros(min(max(_power_of_two(int(self.n_cells) // 4), 1 << 10), 1 << 22), np.uint32)
        pairs.bound_counts(self.cells, self.n_cells, self.heavy, self.border, sums)
        threshold = max(least, min(before, int(sums.max())) // STEP)
        status["threshold"] = threshold

        status["position"] = 1
        status["n_pairs"] = 0
        found = np.zeros(FIRST_SLOTS, pairs.PAIR)
        while (
            pairs.count_pairs(self.cells, self.n_cells, self.heavy, self.border, sums, self.tokens.lengths, self.state, found)
            == NEED_SPACE
        ):
            found = self.copied(found, 1, 2 * found.size)
        del sums
        self.pairs = self.copied(found, threshold, self.slots_for(found))
        del found
        pairs.plan_postings(self.pairs, self.state)
        # The two tokens around each place that is merged each get an entry; there are fewer places than cells.
        room = int(status["n_postings"]) + 2 * int(self.n_cells) + int(merging.POSTINGS_AHEAD)
        self.postings = np.empty(room, np.uint32)
        pairs.write_postings(self.cells, self.n_cells, self.border, self.pairs, self.postings)
        self.heads = np.empty(self.buckets_kernels.N_BUCKETS, np.uint32)
        longest, n = int(status["longest"]), 256 + self.n_merges + 1
        self.before, self.after = (
            merging.Neighbours(np.zeros(n, merging.NEIGHBOUR), np.empty(n, np.uint32), np.empty(longest, np.uint32))
            for _ in range(2)
        )
        self.new_heap()
        self.buckets_kernels.file_pairs(self.work())
        return threshold

    def end_phase(self) -> None:
        """Compact the cells, and let go of everything else."""
        del self.pairs, self.postings, self.heap, self.before, self.after
        self.n_cells = np.uint64(self.cells_kernels.compact_cells(self.cells, self.n_cells, self.tokens.widths, self.border))
        self.tokens.widths[:] = 1

    def merge(self, progress: Progress | None) -> int:
        """Merge until there are enough merges or no pair reaches the threshold; returns the kernel's last status."""
        status = self.state[0]
        work = self.work()
        at_once = 16
        while True:
            target = min(int(status["n_tokens"]) + at_once, 256 + self.n_merges)
            begin = time.perf_counter()
            result: int = self.merging_kernels.merge_some(work, np.uint64(target))
            seconds = time.perf_counter() - begin
            if progress is not None:
                progress(int(status["n_tokens"]) - 256, self.n_merges)
            if result == NEED_SPACE:
                self.make_room()
                work = self.work()
            elif result != DONE or target == 256 + self.n_merges:
                return result
            elif seconds < CALL_SECONDS / 2:
                at_once *= 2
            elif seconds > CALL_SECONDS * 2:
                at_once = max(1, at_once // 2)

    def make_room(self) -> None:
        """Double the pool of token bytes, or rebuild the pair table without the pairs that can never be merged any more."""
        status = self.state[0]
        tokens = self.tokens
        if int(status["n_bytes"]) + 2 * int(status["longest_token"]) > tokens.pool.size:
            pool = np.empty(2 * tokens.pool.size, np.uint8)
            pool[: tokens.pool.size] = tokens.pool
            self.tokens = tokens._replace(pool=pool)
            return
        self.pairs = self.copied(self.pairs, int(status["threshold"]), self.slots_for(self.pairs))
        self.new_heap()
        self.buckets_kernels.file_pairs(self.work())

    def slots_for(self, found: Array) -> int:
        """Return the number of slots for the pairs that can still be merged and for twice what the next merge may add."""
        status = self.state[0]
        live = int(np.count_nonzero(found["count"] >= status["threshold"]))
        new = 2 * min(int(status["n_tokens"]) + 1, max(int(status["longest"]), 1))
        return max(FIRST_SLOTS, _power_of_two(2 * (live + 2 * new)))

    def copied(self, source: Array, least: int, n_slots: int) -> Array:
        """Return a pair table of `n_slots` with the pairs of `source` that occur at least `least` times."""
        pairs = np.zeros(n_slots, self.pairs_kernels.PAIR)
        self.pairs_kernels.copy_pairs(source, np.uint64(least), self.state, pairs)
        return pairs

    def new_heap(self) -> None:
        # Memory that is never written to costs nothing, so there is room for all pairs at once.
        self.heap = np.empty(self.pairs.size, self.buckets_kernels.CANDIDATE)

    def work(self) -> Any:
        """Return the record of arrays that the merge loop takes."""
        return self.merging_kernels.Work(
            self.cells,
            self.heavy,
            self.pairs,
            self.postings,
            self.heads,
            self.heap,
            self.tokens,
            self.before,
            self.after,
            self.left,
            self.right,
            self.counts,
            self.state,
        )

    def result(self) -> MergeTable:
        """Return the merges, with each byte token as its own id again."""
        n = int(self.state[0]["n_tokens"]) - 256
        ids = np.arange(256 + n, dtype=np.int32)
        ids[self.byte_ids] = np.arange(256)
        return MergeTable(ids[self.left[:n]], ids[self.right[:n]], self.counts[:n])
