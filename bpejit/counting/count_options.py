"""The options of counting: how text is split, and in how much memory."""

import os
from collections.abc import Sequence
from typing import Annotated, TypedDict

from bpejit.corpus.reading_options import ReadingOptions, Sampling
from bpejit.engines import Distribution, Work
from bpejit.options import Option
from bpejit.splitting.presets import PRESETS, Pattern

END_OF_TEXT = "<|endoftext|>"

SUPERWORDS = ("super", "boundless")


class SplitSettings(TypedDict, total=False):
    """How text is divided into pre-tokens. Counts have these settings, and tokenizers trained from them."""

    pattern: Annotated[
        Pattern,
        Option(
            "gpt2",
            """The split pattern: the name of a preset (see `bpejit.splitting.PRESETS`), a regular expression, or several of
            these, each of which splits the pre-tokens of the previous one.""",
            lambda: f"Split pattern: {', '.join(PRESETS)}, or a regular expression.",
            metavar="NAME|REGEX",
            kind="str or tuple of str",
        ),
    ]
    special_tokens: Annotated[
        Sequence[str],
        Option(
            (END_OF_TEXT,),
            "Texts that are one token each. They separate pre-tokens, and are neither counted nor merged.",
            "Text that becomes a single token, excluded from training; may be repeated.",
            metavar="TEXT",
            flag="--special-token",
            shown='("<|endoftext|>",)',
            kind="sequence of str",
        ),
    ]
    normalize_newlines: Annotated[
        bool,
        Option(
            False,
            """Convert CR LF and CR to LF before splitting. The tokenizer records it, and encoding warns of text with carriage
            returns, which is not converted.""",
            "Convert \\r\\n and \\r to \\n.",
            section="Input",
        ),
    ]
    unicode: Annotated[
        str | None,
        Option(
            None,
            """The version of Unicode that the pattern follows, such as "16.0". It is saved with the tokenizer. By default, the
            version of the installed `regex` package.""",
            "Unicode version of the character classes in the pattern, such as 16.0.",
            metavar="VERSION",
            shown="that of the regex package",
            section="Algorithm",
        ),
    ]


class SuperwordChoice(TypedDict, total=False):
    """Whether superwords are learned."""

    superwords: Annotated[
        str | None,
        Option(
            None,
            """Whether words that follow each other are merged, once the words themselves are learned: "super" (see
            `transition`), or "boundless", where the more frequent of the two kinds of merges comes first. Counts are the same
            for both.""",
            "Learn tokens of several words as well: super or boundless.",
            choices=lambda: SUPERWORDS,
            kind="str",
            section="Algorithm",
        ),
    ]


class RunSettings(SplitSettings, SuperwordChoice, total=False):
    """How text is divided, also into sequences of words, from which superwords are learned."""

    superword_pattern: Annotated[
        Pattern | None,
        Option(
            None,
            """With `superwords`: the split pattern of the tokenizer, whose pre-tokens are sequences of words, which are the
            pre-tokens of `pattern`. By default, the alternatives of `pattern` that match words are repeated.""",
            "Split pattern between the sequences of words in which superwords lie.",
            metavar="REGEX",
            kind="str or tuple of str",
            shown="the words of the pattern, repeated",
            section="Algorithm",
        ),
    ]


class MemoryBound(TypedDict, total=False):
    """How much memory counting takes."""

    max_memory: Annotated[
        int | None,
        Option(
            None,
            """Maximum memory of counting in bytes, of all workers together. Tables that would exceed it are written to disk,
            sorted, and merged at the end. Learning merges needs memory for all distinct pre-tokens, and so does a result in
            memory. Does not change the result.""",
            "Most memory for counting, such as 2G. Tables beyond it are sorted on disk, with an equal result.",
            value="size",
            section="Large corpora",
        ),
    ]


class Memory(MemoryBound, total=False):
    """How much memory counting takes, and where it writes instead."""

    temporary_folder: Annotated[
        str | os.PathLike[str] | None,
        Option(
            None,
            """Where `max_memory` writes. By default the folder of `out`, or without `out` the folder for temporary files of the
            system (`TMPDIR`). Everything is removed at the end; files of killed runs are removed by the next run with this
            folder. With `engine="ray"`, all nodes must see it; it may be a URL, where a run that is killed leaves a prefix
            `.counting.*`. A counting job, as of `bpejit.count` with `engine="ray"` and `out`, writes beside `out` instead.""",
            "Where --max-memory and training with --engine ray write.",
            value="path",
            metavar="FOLDER",
            shown="the folder of the output",
            section="Large corpora",
        ),
    ]


class CountOptions(RunSettings, ReadingOptions, Sampling, Memory, Work, total=False):
    """All options of counting."""


class PlanOptions(RunSettings, ReadingOptions, Sampling, MemoryBound, Distribution, total=False):
    """The options of counting that a plan depends on."""
