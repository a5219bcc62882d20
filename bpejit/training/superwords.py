"""Learn superwords, tokens of several words: the merges of words, and then merges of runs of words that are one token each.

The counts are those of pre-tokens that are sequences of words. Text is read once: both phases learn from these counts.

1. The pre-tokens are split into words, which are added up, and merges are learned from words as usual.
2. The pre-tokens are split again. Each word that is one token becomes its id, and the others end a run (see the kernel
   `find_runs`). Merging goes on over the ids of the runs.

A merge of words cannot join the two bytes at a border within a run. So the list of all merges makes of a run what this module
does, without a rule about words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, ByteStrings, MergeTable, PretokenTable, padded_text, starts_of
from bpejit.counting.count_options import SUPERWORDS
from bpejit.counting.counts import Counts
from bpejit.counting.hash_tables import HashTables
from bpejit.counting.header import CountsHeader
from bpejit.counting.pretoken_counter import PretokenCounter, add_up
from bpejit.counting.table_streams import slice_table
from bpejit.encoding.encoder import Encoder
from bpejit.engines.threads import TaskThreads
from bpejit.errors import CountsError, OptionError, TrainingError, shorten
from bpejit.kernels.counting.word_runs import JOINS, find_runs
from bpejit.model import Model
from bpejit.packed_tokens import PackedMerges, PackedTokens
from bpejit.process_memory import trim_heap
from bpejit.progress_bar import Progress
from bpejit.splitting import Splitter
from bpejit.training.cell_ranges import TokenizedTable
from bpejit.training.merge_learner import MergeLearner
from bpejit.training.model_learning import VocabularySettings, model_of, table_of
from bpejit.training.train_options import MergeSettings, default_transition

SUPERWORD_NOTES = "superwords"
"""Key of `Model.training` with the settings, the split pattern of words, the number of their merges, and that of runs."""

SLICE_BYTES = 1 << 20
"""Approximate size of the pre-tokens that are split together."""


@dataclass(frozen=True)
class SuperwordSettings:
    """How superwords are learned (see `SuperwordLimits`).

    Parameters
    ----------
    kind : str
        One of `SUPERWORDS`.
    transition : int, optional
        The size of the vocabulary, with special tokens, at which merges of words end; None for "boundless".
    max_words : int, optional
    """

    kind: str
    transition: int | None
    max_words: int | None

    @classmethod
    def checked(cls, settings: VocabularySettings, *, superwords: Any, transition: Any, max_words: Any) -> SuperwordSettings:
        """Return the settings after checking them, of which at least one is not None.

        Raises
        ------
        ArgumentTypeError, OptionError, TrainingError
        """
        if superwords is None:
            given = "max_words" if transition is None else "transition"
            raise OptionError(f'{given} is given, and superwords is None; expected both: give `superwords="super"`')
        kind = arguments.choice("superwords", superwords, SUPERWORDS)
        if settings.symbols is not None:
            raise OptionError(
                "superwords is given, and pre-tokens do not begin as bytes alone; expected one of the two: leave one out"
            )
        max_words = arguments.optional_whole_number("max_words", max_words, least=2, most=2**31)
        if max_words is not None and settings.merges.max_token_bytes is not None:
            raise OptionError("max_words and max_token_bytes are given; expected at most one of them: leave one out")
        least, most = 256 + len(settings.special_tokens), settings.vocab_size
        if kind == "boundless":
            if transition is not None:
                raise OptionError('transition is given, and superwords is "boundless"; expected "super": leave one out')
            return cls(kind, None, max_words)
        if transition is None:
            transition = max(least, default_transition(most))
        note = "the bytes and the special tokens, up to `vocab_size=`"
        return cls(kind, arguments.whole_number("transition", transition, least=least, most=most, note=note), max_words)


def learn_superwords(
    kind: SuperwordSettings,
    settings: VocabularySettings,
    inspect_counts: Callable[[Counts, Model], None] | None,
    inspect_sizes: Callable[[int, int], None] | None,
    counts: Counts,
    *,
    keep: bool = False,
    workers: int,
    report: Progress,
) -> Model:
    """Learn a model with superwords from counts; the parameters are those of `learn_model`.

    Raises
    ------
    CorpusError, CountsError, TrainingError
    """
    header = counts.header
    words = header.settings.words
    if words is None:
        raise CountsError(
            f"superwords is {kind.kind!r}, and the counts are those of {shorten(counts.pattern)}, without sequences of words; "
            'expected counts for superwords: count with `superwords="super"`'
        )
    table = table_of(counts, keep=keep or (inspect_counts is not None and not counts.is_stored))
    if isinstance(table, HashTables):
        table = table.pack()
    n_distinct, n_bytes = len(table), int(np.diff(table.starts) @ table.counts)
    n_merges = settings.n_merges(None)
    n_words = n_merges if kind.transition is None else n_merges - (settings.vocab_size - kind.transition)

    def progress(done: int) -> None:
        report("merge", min(done, n_merges), n_merges, "merges")

    splitter = Splitter(words, unicode=header.settings.unicode)
    with closing(TaskThreads(workers)) as threads:
        counted = add_up(threads.run(partial(_count_words, table, splitter, workers)), workers)
        first, strings, n_tokens = _learn_words(counted, n_words, settings.merges, workers, progress)
        found = threads.run(partial(_find_runs, table, splitter, _WordTable.of(strings, first), workers))
    del table, counted
    ids, lengths, numbers = (np.concatenate(parts) for parts in zip(*found, strict=True))
    runs = TokenizedTable(ids, starts_of(lengths), numbers)
    del found, ids
    n_runs = runs.counts.size
    if not n_runs and kind.transition != settings.vocab_size:
        raise _no_runs(header, n_distinct)
    n_tokens -= int((np.diff(runs.starts) - 1) @ runs.counts)
    sizes = None if kind.max_words is None else np.ones(len(first), np.uint32)
    n_more = n_merges if kind.transition is None else n_merges - len(first)
    limits = _limits(kind, settings.merges, first, n_merges)
    learner = MergeLearner(runs, n_more, limits, tokens=list(strings)[256:], sizes=sizes, workers=workers)
    del runs
    trim_heap()
    second = learner.run(progress, compact=True)
    n_tokens += learner.ranges.weighted_pairs()
    strings, merges, n_words = _chosen(learner.token_strings(), first, second, n_merges)
    del learner
    if inspect_sizes is not None:  # what was merged and is left out counts again
        left_out = first.counts[n_words:].sum() + second.counts[len(first) + len(merges) - n_words :].sum()
        inspect_sizes(n_bytes, n_tokens + int(left_out))
    notes = {SUPERWORD_NOTES: {**asdict(kind), "pattern": words, "merges_of_words": n_words, "runs": n_runs}}
    model = model_of(header, strings, merges, settings, n_distinct, more_notes=notes)
    if inspect_counts is not None:
        inspect_counts(counts, model)
    return model


def _learn_words(
    counted: HashTables, n_merges: int, merges: MergeSettings, workers: int, progress: Callable[[int], None]
) -> tuple[MergeTable, ByteStrings, int]:
    """Return the merges of words, all tokens after them, and the number of tokens of the text."""
    n_words = counted.n_total
    learner = MergeLearner(counted, n_merges, merges, workers=workers)
    learned = learner.run(progress, compact=True)
    return learned, learner.token_strings(), n_words + learner.ranges.weighted_pairs()


def _slices(table: PretokenTable, workers: int, thread: int) -> Iterator[PretokenTable]:
    """Yield every `workers`-th slice of a table, of about `SLICE_BYTES`."""
    cuts = np.searchsorted(table.starts, np.arange(0, table.pool.size, SLICE_BYTES))
    cuts = np.unique(np.append(cuts, len(table)))
    for number in range(thread, cuts.size - 1, workers):
        yield slice_table(table, int(cuts[number]), int(cuts[number + 1]))


def _split(table: PretokenTable, splitter: Splitter) -> tuple[Array, Array]:
    """Return the pre-tokens of a table as a padded text, and the ends of all words (uint32)."""
    text, _ = padded_text(table.pool)
    return text, splitter.split_within(text, table.starts[1:])


def _count_words(table: PretokenTable, splitter: Splitter, workers: int, thread: int) -> PretokenCounter:
    """Count the words in the share of a thread in a table of pre-tokens."""
    counter = PretokenCounter()
    for part in _slices(table, workers, thread):
        _, ends = _split(part, splitter)
        numbers = np.diff(np.searchsorted(ends, part.starts[1:], side="right"), prepend=0)
        starts = np.concatenate([np.zeros(1, np.int64), ends])
        counter.add_table(PretokenTable(part.pool, starts, np.repeat(part.counts, numbers)))
    return counter


class _WordTable(NamedTuple):
    """The tokens that words may be, for the kernel `find_runs`."""

    slots: Array
    arena: Array
    joins: Array

    @classmethod
    def of(cls, strings: ByteStrings, merges: MergeTable) -> _WordTable:
        """Return the table of the tokens that, as words, are encoded as themselves, and the bytes that merges may join."""
        tokens = PackedTokens(strings, np.arange(len(strings)))
        encoder = Encoder(Model(tokens, PackedMerges(strings, merges.left, merges.right)))
        _, ends = encoder.encode_strings(strings, encoder.new_workspace())
        whole = np.flatnonzero(np.diff(ends, prepend=0) == 1)
        found = strings.take(whole)
        counter = PretokenCounter()
        counter.add_table(PretokenTable(found.pool, found.starts, whole + 1))
        joins = np.zeros(JOINS, np.uint8)
        last, first = strings.pool[strings.starts[1:] - 1], strings.pool[strings.starts[:-1]]
        joins[256 * last[merges.left].astype(np.int64) + first[merges.right]] = 1
        return cls(*counter.take_slots(), joins)


def _find_runs(
    table: PretokenTable, splitter: Splitter, words: _WordTable, workers: int, thread: int
) -> tuple[Array, Array, Array]:
    """Return the ids of the runs in the share of a thread, their lengths, and their counts."""
    found = [(np.zeros(0, np.uint32), np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for part in _slices(table, workers, thread):
        text, ends = _split(part, splitter)
        ids, stops, counts = np.empty(ends.size, np.uint32), *np.empty((2, ends.size // 2), np.int64)
        n = find_runs(text, ends, part.starts[1:], part.counts, *words, ids, stops, counts)
        found.append((ids[: stops[n - 1] if n else 0].copy(), np.diff(stops[:n], prepend=0), counts[:n].copy()))
    ids, lengths, counts = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return ids, lengths, counts


def _no_runs(header: CountsHeader, n_distinct: int) -> TrainingError:
    return TrainingError(
        f"there are no superwords to learn: in none of {n_distinct:,} distinct pre-tokens of the pattern "
        f"{shorten(header.settings.pattern)} is a word that is one token followed by another one; expected sequences of words: "
        "give another `superword_pattern=`, a larger `transition=`, or more text"
    )


def _limits(kind: SuperwordSettings, merges: MergeSettings, words: MergeTable, n_merges: int) -> MergeSettings:
    """Return the settings of merging words, whose sizes are numbers of words if these are limited."""
    if kind.max_words is not None:
        merges = replace(merges, max_token_bytes=kind.max_words)
    if kind.transition is None and len(words) == n_merges > 0:  # rarer pairs come after all merges of words
        merges = replace(merges, min_frequency=max(merges.min_frequency, int(words.counts[-1])))
    return merges


def _chosen(strings: ByteStrings, first: MergeTable, second: MergeTable, n_merges: int) -> tuple[ByteStrings, MergeTable, int]:
    """Return the `n_merges` most frequent merges of words and of superwords, and their tokens.

    The merges of words precede the others, whatever their counts; `second` contains them without their sides.
    """
    n_words, more = len(first), second.counts[len(first) :]
    order = np.argsort(-np.concatenate([first.counts, more]), kind="stable")[:n_merges]  # a word precedes a superword
    kept = np.sort(order)
    n_kept = int(np.searchsorted(kept, n_words))
    sides = (
        np.concatenate([words[:n_kept], superwords[n_words:][: kept.size - n_kept]])
        for words, superwords in ((first.left, second.left), (first.right, second.right))
    )
    left, right = (np.where(side >= 256 + n_words, side - (n_words - n_kept), side) for side in sides)
    strings = strings.take(np.concatenate([np.arange(256), 256 + kept]))
    repeated = next((one for one, n in Counter(strings).items() if n > 1), None)
    if repeated is not None:
        raise TrainingError(
            f"two merges make the token {shorten(repeated)}, from different words; expected patterns that divide the same text "
            "into the same words: give another `superword_pattern=`"
        )
    return strings, MergeTable(left, right, np.concatenate([first.counts, more])[kept]), n_kept


def warm_superwords() -> None:
    """Call the kernel of superwords once, so that it is compiled."""
    strings = ByteStrings.from_list([bytes([byte]) for byte in range(256)])
    nothing = np.zeros(0, np.int32)
    words = _WordTable.of(strings, MergeTable(nothing, nothing, np.zeros(0, np.int64)))
    _find_runs(PretokenTable(strings.pool, strings.starts, np.ones(256, np.int64)), Splitter("gpt2"), words, 1, 0)
