"""Continue merging from the vocabulary of a tokenizer, over new text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bpejit import arguments
from bpejit.corpus.contents import Contents
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.reading_options import ReadingOptions
from bpejit.corpus.sources import find_sources
from bpejit.counting.count_corpus import count_corpus
from bpejit.counting.count_options import Memory
from bpejit.counting.counts import Counts
from bpejit.counting.header import CountSettings
from bpejit.engines import LocalWork, checked_work
from bpejit.errors import CorpusError, TokenizerFormatError, shorten
from bpejit.model import Model
from bpejit.options import chosen, takes
from bpejit.process_memory import trim_heap
from bpejit.splitting.unicode_versions import installed_unicode
from bpejit.tokenizer import Tokenizer
from bpejit.training.cell_ranges import TokenizedTable
from bpejit.training.corpus_tokens import check_same_pretokens, encoded_blocks
from bpejit.training.merge_learner import MergeLearner
from bpejit.training.model_learning import MAX_VOCAB_SIZE
from bpejit.training.train import shortage_notes, thread_count
from bpejit.training.train_options import MergeLimits, MergeSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack

EXTENSIONS = "extensions"
"""Key of `Model.training`: for each extension, the ids of its tokens, its inputs and its settings."""


class ExtendOptions(MergeLimits, ReadingOptions, Memory, LocalWork, total=False):
    """The options of `extend`."""


@takes(ExtendOptions)
def extend(
    tokenizer: Tokenizer,
    inputs: Inputs | Counts,
    *,
    vocab_size: int,
    tie_break: str | None = None,
    **options: Unpack[ExtendOptions],
) -> Tokenizer:
    """Continue merging from the vocabulary of a tokenizer, over new text.

    The text is encoded with the tokenizer, and the most frequent pairs of adjacent tokens are merged. No id changes: the new
    tokens follow the last id, special tokens included. `tokenizer.model.training["extensions"]` lists their ids.

    Parameters
    ----------
    tokenizer : Tokenizer
        With a list of merges. Tokenizers that merge by rank, and those that normalize text, are refused.
    inputs : path, list of paths, or Counts
        Text as for `bpejit.train`, or counts with the pattern and the special tokens of the tokenizer.
    vocab_size : int
        Size of the new vocabulary: one more than the last id. It is smaller if the text does not have enough pairs to merge.
    tie_break : str, optional
        As for `bpejit.train`; by default the rule of the tokenizer, or `greatest-bytes` if it was not trained by bpejit.
    {options}

    Returns
    -------
    Tokenizer

    Raises
    ------
    ArgumentTypeError, CorpusError, CountsError, TokenizerFormatError, TrainingError, EngineError
    """
    model = arguments.instance("tokenizer", tokenizer, Tokenizer, "load it with `bpejit.load`").model
    reason = extension_obstacle(model)
    if reason is not None:
        raise TokenizerFormatError(
            f"the tokenizer cannot be extended: {reason}; expected one with merges that make all its tokens"
        )
    note = f"the tokenizer has {model.vocab_size}"
    vocab_size = arguments.whole_number(
        "vocab_size", vocab_size, least=model.vocab_size, most=MAX_VOCAB_SIZE, note=note, error=TokenizerFormatError
    )
    tie_break = (model.tie_break or "greatest-bytes") if tie_break is None else tie_break
    merges = MergeSettings(tie_break, **chosen(MergeLimits, options))
    work = checked_work(options)
    threads = thread_count(work["workers"], work["engine"])

    def extended(counts: Counts) -> Tokenizer:
        new = _extended(model, counts, vocab_size, merges, threads=threads, report=work["report"])
        return Tokenizer.from_model(new, lazy=True)

    if isinstance(inputs, Counts):
        check_same_pretokens(inputs, model)
        return extended(inputs)
    contents = Contents(strip_bom=True, **chosen(ReadingOptions, options))
    sources = find_sources(inputs, contents)
    with count_corpus(settings_of(model), sources, contents, **work, **chosen(Memory, options)) as counts:
        return extended(counts)


def settings_of(model: Model) -> CountSettings:
    """Return the settings with which text is counted for a model."""
    return CountSettings(
        pattern=model.pattern,
        unicode=model.unicode or installed_unicode(),
        special_tokens=tuple(sorted(model.special_tokens, key=model.special_tokens.__getitem__)),
        normalize_newlines=bool(model.training.get("normalize_newlines", False)),
    )


def extension_obstacle(model: Model) -> str | None:
    """Return why merging cannot continue from a model, or None if it can."""
    if model.ranked:
        return "its tokens merge by rank, and it has no list of merges"
    if model.symbols_obstacle is not None:
        return model.symbols_obstacle
    if model.pipeline is not None:
        return "it normalizes text, or splits it by more than a pattern, before it merges"
    made = {left + right for left, right in model.merges}
    if len(made) < len(model.merges):
        return "several of its merges make the same token"
    for token in model.tokens.values():
        if len(token) > 1 and token not in made:
            return f"its token {shorten(token)} (id {model.ids[token]}) is made by no merge"
    return None


def _extended(
    model: Model, counts: Counts, vocab_size: int, merges: MergeSettings, *, threads: int, report: Callable[..., None]
) -> Model:
    tokens = [left + right for left, right in model.merges]
    n_wanted = vocab_size - model.vocab_size
    table, n_distinct = _tokenize(model, counts, tokens)
    if n_distinct == 0:
        raise CorpusError(f"the corpus contains no text to learn from ({counts.n_bytes} bytes in all); expected some text")
    learner = MergeLearner(table, n_wanted, merges, tokens=tokens, workers=threads)
    del table
    trim_heap()
    learned = learner.run(lambda done: report("merge", done - len(tokens), n_wanted, "merges"))
    strings = list(learner.token_strings())
    del learner
    left = learned.left[len(tokens) :].tolist()
    right = learned.right[len(tokens) :].tolist()
    new_merges = [(strings[first], strings[second]) for first, second in zip(left, right, strict=True)]
    first_id = model.vocab_size
    new = dict(enumerate(strings[256 + len(tokens) :], start=first_id))
    for number, token in new.items():
        if token in model.ids:
            raise TokenizerFormatError(
                f"the tokenizer cannot be extended: merge {number - first_id + 1} of the new ones makes {shorten(token)}, "
                f"which has the id {model.ids[token]}; expected merges under which every token has one way to be made: train "
                "a tokenizer of this size instead"
            )
    extension = {
        "first_id": first_id,
        "tokens": len(new),
        "from_sha256": model.sha256,
        "inputs": [{"path": entry["path"], "bytes": entry["bytes"]} for entry in counts.inputs],
        "bytes": counts.n_bytes,
        "pretokens": counts.n_pretokens,
        "distinct_pretokens": n_distinct,
        "skipped_records": sum(entry.get("skipped", 0) for entry in counts.inputs),
        "vocab_size": vocab_size,
        "tie_break": merges.tie_break,
        "min_frequency": merges.min_frequency,
        "max_token_bytes": merges.max_token_bytes,
    }
    old_counts = model.merge_counts
    return replace(
        model,
        tokens={**model.tokens, **new},
        merges=[*model.merges, *new_merges],
        merge_counts=None if old_counts is None else [*old_counts, *learned.counts[len(tokens) :].tolist()],
        training={**model.training, EXTENSIONS: [*model.training.get(EXTENSIONS, []), extension]},
    )


def _tokenize(model: Model, counts: Counts, tokens: list[bytes]) -> tuple[TokenizedTable, int]:
    """Return the pre-tokens as sequences of tokens for `MergeLearner`, and their number."""
    numbers = np.zeros(model.vocab_size, np.uint64)
    for byte in range(256):
        if bytes([byte]) in model.ids:
            numbers[model.ids[bytes([byte])]] = byte
    numbers[[model.ids[token] for token in tokens]] = np.arange(256, 256 + len(tokens))
    ids = [np.zeros(0, np.uint64)]
    ends = [np.zeros(1, np.int64)]
    weights = [np.zeros(0, np.int64)]
    n_ids = 0
    for found, stops, some in encoded_blocks(counts, model):
        ids.append(numbers[found])
        ends.append(stops + n_ids)
        weights.append(some)
        n_ids += found.size
    starts = np.concatenate(ends)
    return TokenizedTable(np.concatenate(ids), starts, np.concatenate(weights)), starts.size - 1


def extension_notes(model: Model) -> list[str]:
    """Return messages about the last extension of a model that its user should know."""
    last: dict[str, Any] = model.training[EXTENSIONS][-1]
    return shortage_notes(model, f"{last['tokens']:,} new merges", last["vocab_size"], last["min_frequency"])
