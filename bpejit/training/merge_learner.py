"""Learn merges from a table of pre-tokens.

The work is done in phases. A phase considers only the pairs that occur at least `threshold` times: the count of a pair
never rises (see kernels/training/pairs.py), so no other pair can be merged before the counts of all of these have fallen
below the threshold. Then the cells are compacted, the pairs are counted again, and the next phase continues with a lower
threshold. Most pairs of a corpus are so rare that no phase considers them. The thresholds do not change the merges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, ByteStrings, MergeTable, PretokenTable
from bpejit.counting.hash_tables import HashTables, Sizes
from bpejit.errors import TrainingError
from bpejit.jit.listening import working_time
from bpejit.kernels.constants import DONE, NEED_SPACE, SHARED
from bpejit.kernels.counting.sorted_tables import make_prefixes
from bpejit.kernels.training import buckets, combining, merging, pairs, shared_merging
from bpejit.training.alphabets import SymbolRanges, SymbolTable, upper_bound
from bpejit.training.cell_ranges import (
    FIRST_SLOTS,
    LEAST_CELLS,
    LEAST_SUMS,
    NOWHERE,
    CellRanges,
    TokenizedTable,
    copied_pairs,
    power_of_two,
)
from bpejit.training.shared_merges import LEAST_POSTINGS, SharedMerges
from bpejit.training.tie_rules import load_tie_rule
from bpejit.training.train_options import MergeSettings

STEP = 48
"""The threshold of a phase is the highest count, or the previous threshold, divided by this.

31,743 merges on 1,960,000 distinct pre-tokens of Chinese, one thread, processor time, busy machine, without the table itself:
210 MB and 2.9 to 3.1 s with 16, 245 MB and 2.2 s with 48, 261 MB and 2.4 to 2.9 s with 64, 298 MB and 2.5 s with 256."""

LAST_STEP = 256
"""Maximum divisor, instead of `STEP`, in a phase that is probably the last one. Such a phase has fewer cells than the ones
before it, so it needs no more memory."""

ENOUGH = 2
"""A phase is probably the last one if it has this many pairs for each merge: merges make pairs, but take more occurrences away
from the others. With 1.5, Chinese needed another phase for a sixth of the merges."""

CELLS_PER_SUM = 4
"""Minimum number of cells for each sum of `bound_counts`."""

MOST_SUMS = 1 << 20
"""Maximum number of sums, for each thread. Twice as many fit less well into the CPU cache: the last phase of 56 MB of Chinese
took 0.57 instead of 0.49 s."""

CALL_SECONDS = 0.05
"""Approximate duration of a kernel call, so that progress is reported and Ctrl-C is handled."""

FIRST_POOL_BYTES = 1 << 16
"""Initial capacity for the bytes of all tokens; at least 256."""

MAX_CELLS = 2**32 - 2
"""Positions of cells are stored in 32 bits."""

MAX_MERGES = 2**31 - 1 - 256
"""Token ids are stored in 32 bits, with a sign."""


def _check_size(n_cells: int, n_tokens: float) -> None:
    if n_cells > MAX_CELLS:
        raise TrainingError(
            f"the corpus has too many distinct pre-tokens: found {n_cells} cells (bytes and boundaries), expected at most "
            f"{MAX_CELLS}; train on a part of the corpus, or with a split pattern that makes shorter pre-tokens"
        )
    if n_tokens >= 2.0**62:
        raise TrainingError(
            f"the counts of the pre-tokens are too large: found {n_tokens:.3g} bytes in total, expected less than 2^62; "
            "divide the counts by a common factor"
        )


def _sizes(counts: Array, lengths: Array) -> tuple[Array, Sizes]:
    """Return which pre-tokens occur and have pairs, and the sizes of the table. Lengths are in tokens."""
    has_pairs = (lengths > 1) & (counts > 0)
    n_units, n_pretokens = int(lengths[has_pairs].sum()), int(np.count_nonzero(has_pairs))
    weighted = float(lengths[has_pairs].astype(np.float64) @ counts[has_pairs])
    return has_pairs, Sizes(n_units, n_pretokens, weighted)


class MergeLearner:
    """Repeatedly merges the most frequent pair of adjacent tokens: the arrays, and the order in which kernels process them.

    The count of a pair is the number of its occurrences in all pre-tokens, each weighted with the count of the pre-token.
    Overlapping occurrences all count (`aaa` contains the pair `a a` twice), and are merged from the left.

    Parameters
    ----------
    table : PretokenTable, HashTables, TokenizedTable or SymbolTable
        The distinct pre-tokens and their counts, in any order. Pre-tokens with a count below 1 are ignored. The table is
        copied, so it may be freed before `run`; `HashTables` are freed while they are copied.
    n_merges : int
        Number of merges to learn.
    settings : MergeSettings, optional
    tokens : sequence of bytes
        For a `TokenizedTable`, to which earlier merges have been applied, the tokens of several bytes that these made: its
        token `256 + i` is `tokens[i]`, and those below 256 are bytes. The new merges are the last ones of the result, also for
        a `SymbolTable`, whose symbols are such tokens.
    workers : int, default 1
        Maximum number of threads. Does not change the merges.
    sizes : uint32 [tokens], optional
        What `max_token_bytes` limits in place of bytes: the sizes of `tokens`, whose sum is that of a token they make.
    least_cells : int
        Minimum number of cells for each thread.
    least_postings : int
        Minimum number of occurrences of one merge for each thread.

    Raises
    ------
    TrainingError
        If `n_merges` is out of range, or the table is too large for 32-bit positions.
    """

    def __init__(
        self,
        table: PretokenTable | HashTables | TokenizedTable | SymbolTable,
        n_merges: int,
        settings: MergeSettings | None = None,
        *,
        tokens: Sequence[bytes] = (),
        workers: int = 1,
        least_cells: int = LEAST_CELLS,
        least_postings: int = LEAST_POSTINGS,
        sizes: Array | None = None,
    ) -> None:
        self.least_postings = least_postings
        if isinstance(table, HashTables):
            self._prepare(table.sizes(), n_merges, settings or MergeSettings(), tokens)
            self.ranges = CellRanges.of_hash_tables(table, self.byte_ids, self.boundary, workers, least_cells)
            return
        if isinstance(table, SymbolTable):
            lengths = np.diff(table.table.starts).astype(np.float64)
            bounds = upper_bound(table.table), len(table.table), float(lengths @ table.table.counts)
            self._prepare(Sizes(*bounds), n_merges, settings or MergeSettings(), table.alphabet.tokens, table.alphabet.sizes)
            self.ranges = SymbolRanges(table, self.boundary, workers, least_cells)
            return
        has_pairs, totals = _sizes(table.counts, np.diff(table.starts))
        self._prepare(totals, n_merges, settings or MergeSettings(), tokens, sizes)
        if isinstance(table, PretokenTable):
            self.ranges = CellRanges(table, has_pairs, self.byte_ids, self.boundary, workers, least_cells)
            return
        if (self.byte_ids != np.arange(256)).any():
            ids = np.append(self.byte_ids, np.arange(256, 256 + len(tokens), dtype=np.uint64)).astype(table.ids.dtype)
            table = table._replace(ids=ids[table.ids])
        self.ranges = CellRanges.of_tokens(table, has_pairs, self.boundary, workers, least_cells)

    def _prepare(
        self,
        sizes: Sizes,
        n_merges: int,
        settings: MergeSettings,
        given: Sequence[bytes],
        given_sizes: Array | None = None,
    ) -> None:
        """Allocate everything but the cells. `given` are the tokens besides the bytes; by default, their sizes are in bytes."""
        n_merges = arguments.whole_number("n_merges", n_merges, least=0, most=MAX_MERGES - len(given), error=TrainingError)
        rule = load_tie_rule(settings.tie_break)
        self.min_frequency = settings.min_frequency
        n_units, n_pretokens, n_tokens = sizes
        _check_size(n_units + n_pretokens + 1, n_tokens)
        # Each merge removes at least one pair of adjacent tokens, so there cannot be more merges than that.
        n_merges = len(given) + min(n_merges, n_units - n_pretokens)
        self.byte_ids = np.empty(256, np.uint64)
        self.byte_ids[list(rule.byte_order)] = np.arange(256)
        self.n_tokens = np.uint64(256 + n_merges)
        self.boundary = self.n_tokens

        self.state = np.zeros(1, merging.STATE)
        self.status = self.state[0]
        self.status["rule"] = buckets.COMPARISONS[rule.comparison]
        self.status["max_size"] = 2**63 if settings.max_token_bytes is None else settings.max_token_bytes
        self.status["boundary"] = self.boundary
        self.status["n_tokens"] = 256
        self.status["n_bytes"] = 256
        self.status["longest_token"] = 1

        n = 256 + n_merges + 1
        self.lengths, self.widths = np.ones(n, np.uint32), np.ones(n, np.uint32)
        self.sizes = self.lengths if given_sizes is None else np.ones(n, np.uint32)
        self.prefixes = np.zeros(n, np.uint64)
        self.starts = np.arange(n, dtype=np.uint64)
        self.pool: Array = np.empty(FIRST_POOL_BYTES, np.uint8)
        # The bytes of tokens are only compared, so they are stored as their positions in the order of the tie rule.
        self.pool[:256] = np.arange(256)
        self.prefixes[:256] = np.arange(256, dtype=np.uint64) << np.uint64(56)
        self.left = np.zeros(n_merges, np.int32)
        self.right = np.zeros(n_merges, np.int32)
        self.counts = np.zeros(n_merges, np.int64)
        self.postings: Array = np.empty(0, np.uint32)
        self.n_written = 0  # the elements of it that earlier phases have written, at least
        if given:
            self._add_tokens(given)
        if given_sizes is not None:
            self.sizes[256 : 256 + len(given)] = given_sizes

    def _add_tokens(self, given: Sequence[bytes]) -> None:
        """Append tokens that earlier merges made; these merges themselves are not needed."""
        strings = ByteStrings.from_list(given)
        longest = int(np.diff(strings.starts).max())
        pool = np.empty(256 + strings.pool.size + max(FIRST_POOL_BYTES, 2 * longest), np.uint8)
        pool[:256] = np.arange(256)
        pool[256 : 256 + strings.pool.size] = self.byte_ids.astype(np.uint8)[strings.pool]
        self.pool = pool
        new = slice(256, 256 + len(given))
        self.lengths[new] = np.diff(strings.starts)
        self.starts[new] = strings.starts[:-1] + 256
        make_prefixes(pool, strings.starts + 256, self.prefixes[new])
        self.status["n_tokens"] = 256 + len(given)
        self.status["n_bytes"] = 256 + strings.pool.size
        self.status["longest_token"] = longest

    def number(self, name: str) -> int:
        """Return a number of the state of the kernels (see `merging.STATE`)."""
        return int(self.status[name])

    def run(self, progress: Callable[[int], None] | None = None, *, compact: bool = False) -> MergeTable:
        """Run all phases, and return the merges.

        Parameters
        ----------
        progress : callable, optional
            Called with the number of merges so far.
        compact : bool
            Whether to compact the cells at the end, so that each token is one (see `CellRanges.weighted_pairs`).
        """
        threshold = 2**63
        try:
            while threshold > self.min_frequency and self.n_tokens > self.status["n_tokens"]:
                threshold = self.start_phase(threshold)
                if self.merge(progress) == DONE:
                    break
                self.end_phase()
            if compact:
                self.ranges.compact(self.widths)
        finally:
            self.ranges.close()
        return self.result()

    def start_phase(self, before: int) -> int:
        """Choose a threshold below `before`, and index the pairs that reach it. Return the threshold."""
        if self.ranges.byte_pairs is not None:
            threshold = self._index_byte_pairs(before)
        else:
            threshold = self._index_pairs(before)
        n = self.lengths.size
        self.before_sums, self.after_sums = np.zeros(n, merging.NEIGHBOR), np.zeros(n, merging.NEIGHBOR)
        self.before_seen = np.empty(n, np.uint32)
        self.after_seen = np.empty(n, np.uint32)
        self.followed = np.empty(n, np.uint32)
        self.share_merges()
        self.heads = np.empty(buckets.N_BUCKETS, np.uint32)
        self.bucket_pairs()
        return threshold

    def _index_byte_pairs(self, before: int) -> int:
        """Index the pairs of bytes, whose counts are known, for the first phase."""
        status, ranges = self.status, self.ranges
        total, numbers = ranges.take_byte_pairs()
        threshold = status["threshold"] = self.choose_threshold(total["count"], before)
        self.pairs = self.copy_pairs(total)
        combining.plan_postings(self.pairs, self.state)
        self.reserve_postings()
        ranges.write_byte_postings(numbers, self.pairs, self.postings, self.number("n_postings"))
        return threshold

    def _index_pairs(self, before: int) -> int:
        """Find, count and index the pairs of tokens for a phase."""
        status, ranges, sizes = self.status, self.ranges, self.sizes
        sums = ranges.bound_counts(self._n_sums(before), before)
        threshold = status["threshold"] = self.choose_threshold(sums, before)
        # An eighth more than was written before, as Chinese needs: touching more would raise the peak.
        spare = self.postings[: self.n_written * 9 // 8]
        counted = ranges.count_pairs(sums, threshold, sizes, self.state, spare)
        del sums
        total = ranges.add_up(counted, sizes, self.state)
        self.pairs = self.copy_pairs(total)
        del total
        combining.plan_postings(self.pairs, self.state)
        self.reserve_postings()
        ranges.write_postings(counted, self.pairs, self.postings, self.number("n_postings"))
        return threshold

    def reserve_postings(self) -> None:
        """Make the array of postings large enough for a phase. It is not freed between phases: new memory costs more time.

        Each occurrence that is merged adds two postings, one for each neighbor, and there are fewer occurrences than cells. A
        merge also needs space for the ids of the neighbors of the pair (see `replace_occurrences`). Memory that is never
        written costs nothing, so the array has its maximum size from the start.
        """
        # Each part of a list that threads merge has its own place for ids, whether its postings are still valid or not.
        places = 2 if len(self.ranges) == 1 else 4
        size = self.number("n_postings") + 2 * self.ranges.cells.size + places * self.number("longest")
        size += int(merging.PREFETCH_CELLS) + len(self.ranges) * max(NOWHERE, int(shared_merging.UNUSED_STEP))
        if self.postings.size < size:
            del self.postings  # before the new array is allocated
            self.postings = np.empty(size, np.uint32)

    def share_merges(self) -> None:
        """Let threads merge the pairs that have enough postings for at least two of them."""
        least = 2 * self.least_postings
        self.shared_merges = None
        self.status["shared"] = 2**63
        if len(self.ranges) > 1 and self.number("longest") >= least:  # the lists of new pairs are not longer
            self.shared_merges = SharedMerges(self.ranges, self.lengths.size, self.least_postings)
            self.status["shared"] = least

    def choose_threshold(self, sums: Array, before: int) -> int:
        """Return a threshold below `before`, given upper bounds of the counts of pairs."""
        highest = min(before, int(sums.max()))
        enough = ENOUGH * (int(self.n_tokens) - self.number("n_tokens"))

        def is_enough(threshold: int) -> bool:
            return bool(np.count_nonzero(sums >= sums.dtype.type(threshold)) >= enough)

        low, high = max(1, highest // LAST_STEP), highest // 2
        if not is_enough(low):
            return max(self.min_frequency, highest // STEP)
        # Up to an eighth. `np.partition` would find the exact threshold, but took 0.3 s for 2,000,000 sums.
        while high - low > max(1, low // 8):
            middle = (low + high) // 2
            low, high = (middle, high) if is_enough(middle) else (low, middle)
        return max(self.min_frequency, low)

    def _n_sums(self, before: int) -> int:
        """Return the number of hash values for which weights are summed, given the previous threshold.

        It is so large that on average a sum is below the lowest threshold of the phase if most weights are 1. The first phase
        has few distinct pairs, those of bytes.
        """
        n_cells = self.ranges.cells.size
        wanted = min(n_cells // CELLS_PER_SUM, n_cells * LAST_STEP // max(before, 1))
        return max(LEAST_SUMS, min(power_of_two(wanted), MOST_SUMS))

    def end_phase(self) -> None:
        """Compact the cells, and free the arrays that the next phase replaces."""
        del self.pairs, self.marks, self.heap, self.before_sums, self.before_seen, self.after_sums, self.after_seen
        del self.followed, self.shared_merges
        self.n_written = max(self.n_written, self.number("n_postings") + 2 * self.number("longest"))
        self.ranges.compact(self.widths)
        self.widths[:] = 1

    def merge(self, progress: Callable[[int], None] | None) -> int:
        """Merge until there are enough tokens or no pair reaches the threshold. Return the last status of the kernel."""
        per_call = 16
        while True:
            target = min(self.number("n_tokens") + per_call, int(self.n_tokens))
            start = working_time()
            result: int = merging.merge_some(self.arrays(), np.uint64(target))
            seconds = working_time() - start
            if progress is not None:
                progress(self.number("n_tokens") - 256)
            if result == NEED_SPACE:
                self.grow()
            elif result == SHARED and self.shared_merges is not None:
                self.shared_merges.merge(self.arrays())
            elif result != DONE or target == self.n_tokens:
                return result
            elif seconds < CALL_SECONDS / 2:
                per_call *= 2
            elif seconds > CALL_SECONDS * 2:
                per_call = max(1, per_call // 2)

    def grow(self) -> None:
        """Double the pool of token bytes, or rebuild the pair table without the pairs below the threshold."""
        pool = self.pool
        if self.number("n_bytes") + 2 * self.number("longest_token") > pool.size:
            larger = np.empty(2 * pool.size, np.uint8)
            larger[: pool.size] = pool
            self.pool = larger
        else:
            self.pairs = self.copy_pairs(self.pairs)
            self.bucket_pairs()

    def copy_pairs(self, table: Array) -> Array:
        """Return a pair table with the pairs that reach the threshold, and space for those that some merges may add."""
        least = self.number("threshold")
        live = int(np.count_nonzero(table["count"] >= least))
        new = 2 * min(self.number("n_tokens") + 1, max(self.number("longest"), 1))
        n_slots = max(FIRST_SLOTS, power_of_two(2 * (live + 2 * new)))
        return copied_pairs(table, least, n_slots, self.sizes, self.state)

    def bucket_pairs(self) -> None:
        """Fill the buckets and the bit set with all pairs."""
        self.marks = np.zeros(-(-self.pairs.size * pairs.BITS_OF_SLOT // 8), np.uint8)
        self.heap = np.empty(self.pairs.size, buckets.CANDIDATE)
        buckets.bucket_pairs(self.arrays())

    def arrays(self) -> merging.MergeArrays:
        """Return the arguments of the merge loop: the arrays of this object and of the cells, by name."""
        found = vars(self) | vars(self.ranges)
        return merging.MergeArrays(**{name: found[name] for name in merging.MergeArrays._fields})

    def result(self) -> MergeTable:
        """Return the merges so far, with byte values as the ids of byte tokens."""
        n = self.number("n_tokens") - 256
        ids = np.arange(256 + n, dtype=np.int32)
        ids[self.byte_ids] = np.arange(256)
        left, right = ids[self.left[:n]], ids[self.right[:n]]
        return MergeTable(left, right, self.counts[:n].copy())

    def token_strings(self) -> ByteStrings:
        """Return the bytes of all tokens so far: the single bytes, and those that merges make, in the order of `result`."""
        n, n_bytes = self.number("n_tokens"), self.number("n_bytes")
        bytes_of = np.argsort(self.byte_ids).astype(np.uint8)
        pool = bytes_of[self.pool[:n_bytes]]
        pool[:256] = np.arange(256)
        starts = np.append(self.starts[:n], np.uint64(n_bytes))
        return ByteStrings(pool, starts.astype(np.int64))
