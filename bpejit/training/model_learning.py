"""From counts to a model: the settings of a vocabulary, checked, and the model that is learned with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bpejit import arguments
from bpejit.arrays import ByteStrings, MergeTable, PretokenTable
from bpejit.counting.counts import Counts
from bpejit.counting.hash_tables import HashTables
from bpejit.counting.header import CountsHeader, missing_counts
from bpejit.counting.pretoken_counter import add_up, warm_counting
from bpejit.errors import CorpusError, CountsError, TrainingError, warn_user
from bpejit.formats.vocabulary_arrays import vocabulary_and_merges
from bpejit.model import Model
from bpejit.packed_tokens import PackedMerges, PackedTokens
from bpejit.process_memory import collector_paused, trim_heap
from bpejit.progress_bar import Progress
from bpejit.tokenizer_config import TokenizerConfig
from bpejit.training.alphabets import Alphabet, SymbolTable, count_others, find_alphabet
from bpejit.training.merge_learner import MergeLearner
from bpejit.training.symbol_models import SymbolModel
from bpejit.training.symbol_settings import SymbolSettings
from bpejit.training.train_options import MergeSettings, limited

MAX_VOCAB_SIZE = 2**31 - 1
"""Token ids are stored in 32 bits, with a sign while merges are learned."""

BOM_INPUTS = "byte_order_marks_skipped"
"""Key of `Model.training` that lists the inputs with a byte-order mark."""

SKIPPED_RECORDS = "skipped_records"
"""Key of `Model.training` that lists the inputs with records that have no text."""


SYMBOLS = "symbols"
"""Key of `Model.training` with the settings of `SymbolOptions`, the number of symbols, and of the characters left out."""


@dataclass(frozen=True)
class VocabularySettings:
    """What is learned from counts, apart from how they were counted.

    Parameters
    ----------
    vocab_size : int
        Number of tokens, including the 256 bytes and the special tokens.
    special_tokens : tuple of str
    special_tokens_first : bool
    merges : MergeSettings
    config : TokenizerConfig
    symbols : SymbolSettings, optional
    """

    vocab_size: int
    special_tokens: tuple[str, ...]
    special_tokens_first: bool
    merges: MergeSettings
    config: TokenizerConfig
    symbols: SymbolSettings | None = None

    @classmethod
    def checked(
        cls,
        vocab_size: Any,
        special_tokens: Sequence[str],
        config: TokenizerConfig,
        *,
        special_tokens_first: Any = False,
        symbols: SymbolSettings | None = None,
        **merges: Any,
    ) -> VocabularySettings:
        """Return settings after checking them. Tokens of `config` must be special tokens; `merges` is for `MergeSettings`.

        Raises
        ------
        ArgumentTypeError, SpecialTokenError, TrainingError
        """
        settings = MergeSettings(**merges)
        config.check_tokens(special_tokens)
        n_bytes = 256 if symbols is None else symbols.n_bytes
        least = (n_bytes or 1) + len(special_tokens)
        first_tokens = f"{n_bytes} bytes" if n_bytes else "characters"
        note = f"space for the {first_tokens} and {len(special_tokens)} special token{'' if len(special_tokens) == 1 else 's'}"
        vocab_size = arguments.whole_number(
            "vocab_size", vocab_size, least=least, most=MAX_VOCAB_SIZE, note=note, error=TrainingError
        )
        first = arguments.flag("special_tokens_first", special_tokens_first)
        return cls(vocab_size, tuple(special_tokens), first, settings, config, symbols)

    def n_merges(self, alphabet: Alphabet | None) -> int:
        """Return the number of merges to learn.

        Raises
        ------
        TrainingError
            If the vocabulary has no space for the symbols.
        """
        if alphabet is None or self.symbols is None:
            return self.vocab_size - 256 - len(self.special_tokens)
        n_first = len(alphabet.tokens) + len(self.special_tokens) + (256 if self.symbols.byte_fallback else 0)
        if n_first > self.vocab_size:
            raise TrainingError(
                f"vocab_size is {self.vocab_size}, and the text has {len(alphabet.tokens)} symbols; expected at least "
                f"{n_first}, with special tokens and bytes: give a larger size, or leave out rare characters by "
                "`limit_alphabet=` or `character_coverage=`"
            )
        return self.vocab_size - n_first


def learn_model(
    settings: VocabularySettings,
    inspect_counts: Callable[[Counts, Model], None] | None,
    inspect_sizes: Callable[[int, int], None] | None,
    counts: Counts,
    *,
    keep: bool = False,
    workers: int,
    report: Progress,
) -> Model:
    """Learn a model from counts.

    Their table is freed before merges are learned, unless it is needed again and cannot be read again.

    Parameters
    ----------
    settings : VocabularySettings
    inspect_counts, inspect_sizes : callable, optional
        As for `train_model`.
    counts : Counts
    keep : bool
        Whether the table is needed after the call.
    workers : int
        Number of threads.
    report : callable

    Raises
    ------
    CorpusError
        If the counts are empty.
    TrainingError
    """
    header = counts.header
    if header.settings.words is not None:
        raise CountsError(
            "the counts are those of sequences of words, and superwords is None; expected it to be given: add "
            '`superwords="super"`, or count again without it'
        )
    table = table_of(counts, keep=keep or (inspect_counts is not None and not counts.is_stored))
    n_distinct, alphabet = len(table), None
    counted: PretokenTable | HashTables | SymbolTable = table
    if settings.symbols is not None:
        packed = table.pack() if isinstance(table, HashTables) else table
        n_bytes = int(np.diff(packed.starts) @ packed.counts)
        alphabet = find_alphabet(packed, settings.symbols, workers)
        counted = SymbolTable(packed, alphabet)
        del packed
    n_merges = settings.n_merges(alphabet)
    learner = MergeLearner(counted, n_merges, limited(settings.merges, settings.symbols), workers=workers)
    del table, counted  # the learner has a copy
    trim_heap()
    n_symbols, n_others = 0, header.n_pretokens
    if settings.symbols is None or alphabet is None:
        n_bytes = n_others + learner.ranges.weighted_pairs()
    else:
        n_symbols, n_others = len(alphabet.tokens), count_others(learner.ranges, settings.symbols)
    merges = learner.run(lambda done: report("merge", done - n_symbols, n_merges, "merges"), compact=inspect_sizes is not None)
    if inspect_sizes is not None:
        inspect_sizes(n_bytes, n_others + learner.ranges.weighted_pairs())
    strings = learner.token_strings()
    del learner
    trim_heap()
    with collector_paused():  # which takes a quarter of the time
        model = model_of(header, strings, merges, settings, n_distinct, alphabet)
    if inspect_counts is not None:
        inspect_counts(counts, model)
    return model


def table_of(counts: Counts, *, keep: bool) -> PretokenTable | HashTables:
    """Return the table of counts, which is freed with the result unless `keep` is True. Warn of missing parts.

    Raises
    ------
    CorpusError
        If the counts are empty.
    """
    header = counts.header
    table = counts.any_order if keep else counts.take_table()
    if len(table) == 0:
        names = ", ".join(f"`{entry['path']}`" for entry in header.inputs[:3])
        raise CorpusError(
            f"the corpus ({names}) contains no text to learn from ({header.n_bytes} bytes in all); expected some text"
        )
    if header.parts:
        warn_user(f"{missing_counts(header)}; merge the counts of all parts to train on all of the text")
    return table


def model_of(
    header: CountsHeader,
    strings: ByteStrings,
    merges: MergeTable,
    settings: VocabularySettings,
    n_distinct: int,
    alphabet: Alphabet | None = None,
    more_notes: Mapping[str, Any] | None = None,
) -> Model:
    """Return the model of the merges, which make the tokens `strings`."""
    marked = list(dict.fromkeys(entry["path"] for entry in header.inputs if entry.get("byte_order_mark")))
    lost = [
        {"path": entry["path"], "count": entry["skipped"], "first": entry.get("first_skipped", [])}
        for entry in header.inputs
        if entry.get("skipped")
    ]
    notes: dict[str, Any] = {
        "inputs": [{"path": entry["path"], "bytes": entry["bytes"]} for entry in header.inputs],
        "bytes": header.n_bytes,
        "pretokens": header.n_pretokens,
        "distinct_pretokens": n_distinct,
        "vocab_size": settings.vocab_size,
        "min_frequency": settings.merges.min_frequency,
        "max_token_bytes": settings.merges.max_token_bytes,
        "normalize_newlines": header.settings.normalize_newlines,
        **({BOM_INPUTS: marked} if marked else {}),
        **({SKIPPED_RECORDS: lost} if lost else {}),
        **(more_notes or {}),
    }
    config, tie_break = settings.config, settings.merges.tie_break
    if settings.symbols is not None and alphabet is not None:
        n_symbols = len(alphabet.tokens)
        notes[SYMBOLS] = {**asdict(settings.symbols), "symbols": n_symbols, "left_out": alphabet.left_out}
        kind = SymbolModel(settings.symbols, header.settings, settings.special_tokens, settings.special_tokens_first)
        strings = ByteStrings(strings.pool[256:], strings.starts[256:] - 256)
        sides = merges.left[n_symbols:] - 256, merges.right[n_symbols:] - 256
        counts = merges.counts[n_symbols:].tolist()
        return kind.model(strings, n_symbols, *sides, config=config, tie_break=tie_break, merge_counts=counts, training=notes)
    base = len(settings.special_tokens) if settings.special_tokens_first else 0
    first_special = 0 if settings.special_tokens_first else len(strings)
    return Model(
        tokens=PackedTokens(strings, np.arange(base, base + len(strings))),
        merges=PackedMerges(strings, merges.left, merges.right),
        special_tokens={text: first_special + number for number, text in enumerate(settings.special_tokens)},
        pattern=header.settings.pattern,
        unicode=header.settings.unicode,
        config=config,
        tie_break=tie_break,
        merge_counts=merges.counts.tolist(),
        training=notes,
    )


def warm_learning() -> None:
    """Call each kernel of counting, learning merges and saving once, so that it is compiled."""
    counters = warm_counting()
    table = add_up(counters, 1).pack()
    MergeLearner(add_up(counters[:1], 1), 0)
    # More merges than there are, and two threads, so that their results are combined; sums of two bytes, and of four.
    for factor in (1, 1000):
        weighted = PretokenTable(table.pool, table.starts, factor * table.counts)
        learner = MergeLearner(weighted, 10_000, workers=2, least_cells=1, least_postings=1)
        merges = learner.run()
    strings = learner.token_strings()
    tokens = PackedTokens(strings, np.arange(len(strings)))
    model = Model(tokens, PackedMerges(strings, merges.left, merges.right))
    vocabulary_and_merges(model, legacy_merges=False)
    assert model.sha256
    kind = SymbolSettings(characters=True)
    MergeLearner(SymbolTable(table, find_alphabet(table, kind)), 0)
