"""Learning merges from a table of pre-tokens.

The work is done in phases. A phase follows only the pairs that occur at least `threshold` times: since the count of a
pair never rises (see kernels/training/pairs.py), no other pair can be merged before all of these have fallen below the
threshold. Then the cells are compacted, the pairs are counted anew, and the next phase goes on with a lower threshold.
Most pairs of a corpus are so rare that no phase ever follows them. The merges are the same for any choice of thresholds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from bpejit.arrays import Array, MergeTable, PretokenTable
from bpejit.errors import TrainingError, shorten
from bpejit.kernels.constants import DONE, NEED_SPACE
from bpejit.kernels.training import buckets, cells, merging, pairs

TIE_RULES: tuple[str, ...] = ("greatest-bytes", "smallest-ids", "hf")
"""Which of several equally frequent pairs is merged first; part of the result, and saved with a tokenizer.

greatest-bytes
    The greatest pair, compared as raw bytes: the left tokens first, then the right ones.
smallest-ids
    The smallest pair of token ids, left id first, where a byte is its own id and merge `i` makes the id `256 + i`.
hf
    The same with the byte tokens in the order of Hugging Face: by the character that GPT-2's files show for a byte.
"""

STEP = 16
"""The threshold of a phase is the highest count, or the threshold before, divided by this.

31,744 merges on 869,000 distinct pre-tokens of many kinds: 214 MB and 0.80 s with 16, 257 MB and 0.77 s with 64, and
487 MB and 0.70 s in a single phase (best of seven on one busy core; the table itself not counted)."""

LOW_STEP = 2
"""The same where the threshold before was below `STEP` squared: there most pairs of a corpus lie, in each halving more, and
the last merges seldom need them. Chinese and Japanese, 31,743 merges: 1.0 s and 292 MB instead of 1.6 s and 409 MB."""

CALL_SECONDS = 0.05
"""A kernel call takes about this long, so that progress is shown and Ctrl-C is heard."""

FIRST_SLOTS = 1 << 14
"""Size of a new pair table; a power of two."""

FIRST_POOL_BYTES = 1 << 16
"""Room for the bytes of all tokens, at first; at least 256."""

MAX_CELLS = 2**32 - 2
"""Positions of cells are kept in 32 bits."""


def learn_merges(
    table: PretokenTable,
    n_merges: int,
    *,
    tie_break: str = "greatest-bytes",
    min_frequency: int = 1,
    max_token_bytes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
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
    learning = Learning(table, n_merges, tie_break=tie_break, min_frequency=min_frequency, max_token_bytes=max_token_bytes)
    return learning.run(None if progress is None else lambda done: progress(done, n_merges))


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
            f"unknown tie rule: found {shorten(tie_break)}, expected one of {', '.join(TIE_RULES)}; choose one of these "
            "as tie_break"
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


class Learning:
    """The arrays of one training, and the order in which the kernels work on them.

    The parameters are those of `learn_merges`. The table is copied, so that it may be freed before `run`.
    """

    def __init__(
        self,
        table: PretokenTable,
        n_merges: int,
        *,
        tie_break: str = "greatest-bytes",
        min_frequency: int = 1,
        max_token_bytes: int | None = None,
    ) -> None:
        _check_settings(n_merges, tie_break, min_frequency, max_token_bytes)
        self.least = max(1, min_frequency)
        lengths = np.diff(table.starts)
        has_pairs = (lengths > 1) & (table.counts > 0)
        n_bytes, n_pretokens = int(lengths[has_pairs].sum()), int(np.count_nonzero(has_pairs))
        n_cells = n_bytes + n_pretokens + 1
        _check_size(n_cells, float(lengths[has_pairs].astype(np.float64) @ table.counts[has_pairs]))
        # Each merge takes away a pair of adjacent tokens at least: there is no need for room for more merges than that.
        n_merges = min(n_merges, n_bytes - n_pretokens)
        self.byte_ids = byte_order(tie_break)
        self.n_tokens = np.uint64(256 + n_merges)
        self.border = self.n_tokens

        self.state = np.zeros(1, merging.STATE)
        self.status = self.state[0]
        self.status["rule"] = buckets.GREATEST_BYTES if tie_break == "greatest-bytes" else buckets.SMALLEST_IDS
        self.status["max_bytes"] = 2**63 if max_token_bytes is None else max_token_bytes
        self.status["border"] = self.border
        self.status["n_tokens"] = 256
        self.status["n_bytes"] = 256
        self.status["longest_token"] = 1

        n = 256 + n_merges + 1
        self.tokens = merging.Tokens(
            lengths=np.ones(n, np.uint32),
            widths=np.ones(n, np.uint32),
            prefixes=np.zeros(n, np.uint64),
            starts=np.arange(n, dtype=np.uint64),
            pool=np.empty(FIRST_POOL_BYTES, np.uint8),
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

    def run(self, progress: Callable[[int], None] | None = None) -> MergeTable:
        """Run phase after phase, until there are enough merges or no pair is frequent enough; `progress` gets the merges."""
        threshold = 2**63
        while threshold > self.least and self.n_tokens > 256:
            threshold = self.start_phase(threshold)
            if self.merge(progress) == DONE:
                break
            self.end_phase()
        return self.result()

    def start_phase(self, before: int) -> int:
        """Choose a threshold below `before`, and count and list the pairs that reach it; returns the threshold."""
        status = self.status
        sums = np.zeros(self.n_sums(), np.uint32)
        pairs.bound_counts(self.cells, self.n_cells, self.heavy, self.border, sums)
        highest = min(before, int(sums.max()))
        threshold = max(self.least, highest // (STEP if highest >= STEP * STEP else LOW_STEP))
        status["threshold"] = threshold
        places = np.empty(int(self.n_cells), np.uint32)
        n_places = np.uint64(
            pairs.select_places(self.cells, self.n_cells, self.border, sums, self.tokens.lengths, self.state, places)
        )
        del sums

        status["position"] = 0
        status["n_pairs"] = 0
        counted: Array = np.zeros(FIRST_SLOTS, pairs.PAIR)
        while pairs.count_pairs(self.cells, places, n_places, self.heavy, self.state, counted) == NEED_SPACE:
            counted = self.copied_pairs(counted, 1, 2 * counted.size)
        self.pairs = self.copied_pairs(counted, threshold, self.slots_for(counted))
        del counted

        pairs.plan_postings(self.pairs, self.state)
        # Later, each place that is merged adds an entry for the token before it and one for the token after it; there
        # are fewer such places than cells. Memory that is never written to costs nothing, so there is room for all.
        room = int(status["n_postings"]) + 2 * int(self.n_cells) + int(merging.POSTINGS_AHEAD)
        self.postings = np.empty(room, np.uint32)
        pairs.write_postings(self.cells, places, n_places, self.pairs, self.postings)
        del places

        self.before = self.new_neighbours()
        self.after = self.new_neighbours()
        self.heads = np.empty(buckets.N_BUCKETS, np.uint32)
        self.file_pairs()
        return threshold

    def n_sums(self) -> int:
        """Return for how many groups of pairs an upper bound of the counts is made: fewer let more rare pairs through."""
        n_cells = int(self.n_cells)
        return max(1 << 10, min(_power_of_two(n_cells), 1 << 20), min(_power_of_two(n_cells // 4), 1 << 22))

    def end_phase(self) -> None:
        """Give each token one cell again, and let go of everything that the next phase makes anew."""
        del self.pairs, self.postings, self.heap, self.before, self.after
        self.n_cells = np.uint64(cells.compact_cells(self.cells, self.n_cells, self.tokens.widths, self.border))
        self.cells.resize(int(self.n_cells), refcheck=False)  # gives the rest back, without a copy
        self.tokens.widths[:] = 1

    def merge(self, progress: Callable[[int], None] | None) -> int:
        """Merge until there are enough tokens or no pair reaches the threshold; returns the last status of the kernel."""
        at_once = 16
        while True:
            target = min(int(self.status["n_tokens"]) + at_once, int(self.n_tokens))
            begun = time.perf_counter()
            result: int = merging.merge_some(self.work(), np.uint64(target))
            seconds = time.perf_counter() - begun
            if progress is not None:
                progress(int(self.status["n_tokens"]) - 256)
            if result == NEED_SPACE:
                self.make_room()
            elif result != DONE or target == self.n_tokens:
                return result
            elif seconds < CALL_SECONDS / 2:
                at_once *= 2
            elif seconds > CALL_SECONDS * 2:
                at_once = max(1, at_once // 2)

    def make_room(self) -> None:
        """Double the pool of token bytes, or rebuild the pair table without the pairs that can never be merged any more."""
        pool = self.tokens.pool
        if int(self.status["n_bytes"]) + 2 * int(self.status["longest_token"]) > pool.size:
            larger = np.empty(2 * pool.size, np.uint8)
            larger[: pool.size] = pool
            self.tokens = self.tokens._replace(pool=larger)
        else:
            self.pairs = self.copied_pairs(self.pairs, int(self.status["threshold"]), self.slots_for(self.pairs))
            self.file_pairs()

    def slots_for(self, table: Array) -> int:
        """Return a number of slots for the pairs of the table that can still be merged, and for those of some merges more."""
        live = int(np.count_nonzero(table["count"] >= self.status["threshold"]))
        new = 2 * min(int(self.status["n_tokens"]) + 1, max(int(self.status["longest"]), 1))
        return max(FIRST_SLOTS, _power_of_two(2 * (live + 2 * new)))

    def copied_pairs(self, table: Array, least: int, n_slots: int) -> Array:
        """Return a pair table of `n_slots` with the pairs of `table` that occur at least `least` times."""
        copy = np.zeros(n_slots, pairs.PAIR)
        pairs.copy_pairs(table, np.uint64(least), self.state, copy)
        return copy

    def file_pairs(self) -> None:
        """Put all pairs into buckets."""
        self.heap = np.empty(self.pairs.size, buckets.CANDIDATE)
        buckets.file_pairs(self.work())

    def new_neighbours(self) -> merging.Neighbours:
        """Return empty lists of neighbours, with room for as many as there may be."""
        n = int(self.n_tokens) + 1
        longest = int(self.status["longest"])
        return merging.Neighbours(np.zeros(n, merging.NEIGHBOUR), np.empty(n, np.uint32), np.empty(longest, np.uint32))

    def work(self) -> merging.Work:
        """Return the record of arrays that the merge loop takes."""
        return merging.Work(
            cells=self.cells,
            heavy=self.heavy,
            pairs=self.pairs,
            postings=self.postings,
            heads=self.heads,
            heap=self.heap,
            tokens=self.tokens,
            before=self.before,
            after=self.after,
            left=self.left,
            right=self.right,
            counts=self.counts,
            state=self.state,
        )

    def result(self) -> MergeTable:
        """Return the merges, with each byte token as its own id again."""
        n = int(self.status["n_tokens"]) - 256
        ids = np.arange(256 + n, dtype=np.int32)
        ids[self.byte_ids] = np.arange(256)
        return MergeTable(ids[self.left[:n]], ids[self.right[:n]], self.counts[:n].copy())
