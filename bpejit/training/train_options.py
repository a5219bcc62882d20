"""The options of training, in groups, and the settings of learning merges."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypedDict

from bpejit import arguments
from bpejit.corpus.reading_options import ReadingOptions, Sampling
from bpejit.counting.count_options import Memory, RunSettings, SplitSettings, SuperwordChoice
from bpejit.engines import ProgressOption, Work, Workers
from bpejit.errors import TrainingError
from bpejit.options import Option
from bpejit.tokenizer_config import TransformersSettings
from bpejit.training.symbol_settings import SymbolOptions, SymbolSettings
from bpejit.training.tie_rules import tie_rule_names


class MergeLimits(TypedDict, total=False):
    """Which pairs are not merged."""

    min_frequency: Annotated[
        int,
        Option(
            1,
            "Pairs that occur less often are not merged.",
            "Stop when no pair occurs at least this often.",
            section="Algorithm",
        ),
    ]
    max_token_bytes: Annotated[
        int | None,
        Option(
            None,
            "Maximum length of a token. Hugging Face's `max_token_length=k` corresponds to k - 1 here, for k of at least 3.",
            "Longest token.",
            value="size",
            metavar="N",
            shown="unlimited",
            section="Algorithm",
        ),
    ]


class MergeChoices(MergeLimits, total=False):
    """Which pair is merged next."""

    tie_break: Annotated[
        str,
        Option(
            "greatest-bytes",
            "Which of several equally frequent pairs is merged first: a name in `bpejit.training.tie_rules.tie_rule_names()`.",
            lambda: f"Rule that chooses among equally frequent pairs: {', '.join(tie_rule_names())}.",
            choices=tie_rule_names,
            section="Algorithm",
        ),
    ]


class MergeOptions(MergeChoices, total=False):
    """How merges are learned."""

    special_tokens_first: Annotated[
        bool,
        Option(
            False,
            "If True, special tokens have the ids from 0. Otherwise they have the last ids, and byte `b` has id `b`.",
            "Assign the first ids to special tokens, instead of the last ones.",
            section="Algorithm",
        ),
    ]


class SuperwordLimits(TypedDict, total=False):
    """How far words and superwords are merged."""

    transition: Annotated[
        int | None,
        Option(
            None,
            """With `superwords="super"`: the size of the vocabulary at which merges of words end and those of superwords begin.
            By default seven eighths of `vocab_size`.""",
            "Size of the vocabulary before superwords are added.",
            value="size",
            shown="7/8 of --vocab-size",
            section="Algorithm",
        ),
    ]
    max_words: Annotated[
        int | None,
        Option(
            None,
            "With `superwords`: maximum number of words in a token.",
            "Most words in a superword.",
            shown="unlimited",
            section="Algorithm",
        ),
    ]


def default_transition(vocab_size: int) -> int:
    """Return the size of a vocabulary at which superwords begin: a share between those of SuperBPE, 78 and 90 %."""
    return vocab_size * 7 // 8


class LearningOptions(SuperwordLimits, MergeOptions, SymbolOptions, TransformersSettings, total=False):
    """What training from counts takes besides the counts."""


class ModelOptions(RunSettings, LearningOptions, ReadingOptions, Sampling, Memory, Work, total=False):
    """The options of training that concern the model."""


class Saving(TypedDict, total=False):
    """Where `train` saves."""

    out: Annotated[
        str | os.PathLike[str] | None,
        Option(
            None,
            """Folder to save the tokenizer to, as `Tokenizer.save` does. Counts are kept beside it, in `<out>.partial.counts`,
            until the tokenizer is written, unless counting again would take less time than writing them.""",
        ),
    ]
    also: Annotated[
        Sequence[int],
        Option(
            (),
            """Smaller sizes to save as well, to the folders `<out>-<size>`. Each has the first merges, so it equals a training
            of that size. Needs `out`.""",
            "Also write a tokenizer of this smaller size to the folder OUT-N; may be repeated.",
            metavar="N",
            kind="sequence of int",
            section="Output",
        ),
    ]
    resume: Annotated[
        bool,
        Option(
            False,
            """Whether to continue an interrupted training from the counts that it kept, if there are any. The inputs and the
            options of counting must be the same. Needs `out`.""",
            "Continue an interrupted training from the counts kept beside the output.",
            section="Large corpora",
        ),
    ]
    overwrite: Annotated[bool, Option(False, "Whether to replace tokenizers in these folders.")]


class TrainOptions(ModelOptions, Saving, total=False):
    """All options of `train`."""


class Explained(TypedDict, total=False):
    """What `explain` learns from, and for how long."""

    text: Annotated[
        str | bytes | None,
        Option(None, "A text to learn from, in which special tokens are found.", "Learn from this text.", metavar="TEXT"),
    ]
    words: Annotated[
        Mapping[str, int] | None,
        Option(
            None,
            "Pre-tokens to learn from, and how often each occurs.",
            "Learn from words, each with its count, such as hug=10,pug=5.",
            kind="dict of str to int",
            metavar="WORD=N,...",
        ),
    ]
    merges: Annotated[int, Option(10, "Largest number of merges.", "Largest number of merges.", least=0)]
    word_merges: Annotated[
        int | None,
        Option(
            None,
            """Number of merges after which superwords are learned, from sequences of words that are one token each; None for no
            superwords.""",
            "Number of merges after which superwords are learned.",
            least=0,
            metavar="N",
            shown="no superwords",
            section="Algorithm",
        ),
    ]


class ExplainOptions(
    Explained, MergeChoices, SymbolOptions, SplitSettings, ReadingOptions, Sampling, ProgressOption, total=False
):
    """The options of `explain`."""


class CountsTraining(LearningOptions, SuperwordChoice, Workers, ProgressOption, total=False):
    """The options of `train_from_counts`."""


@dataclass(frozen=True)
class MergeSettings:
    """Settings of learning merges (see `MergeOptions`), checked when they are made.

    Raises
    ------
    ArgumentTypeError, TrainingError
    """

    tie_break: str = "greatest-bytes"
    min_frequency: int = 1
    max_token_bytes: int | None = None

    def __post_init__(self) -> None:
        most = 2**62
        checked = {
            "tie_break": arguments.choice("tie_break", self.tie_break, tie_rule_names(), error=TrainingError),
            "min_frequency": arguments.whole_number(
                "min_frequency", self.min_frequency, least=1, most=most, error=TrainingError
            ),
            "max_token_bytes": arguments.optional_whole_number(
                "max_token_bytes", self.max_token_bytes, least=1, most=most, error=TrainingError
            ),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # a plain int instead of one of NumPy


def limited(merges: MergeSettings, symbols: SymbolSettings | None) -> MergeSettings:
    """Return settings whose largest size of a token is in characters, if symbols have such a limit."""
    most = None if symbols is None else symbols.most_characters
    return merges if most is None else replace(merges, max_token_bytes=most)
