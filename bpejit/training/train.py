"""Train a tokenizer on files: `train`, `train_model` and `train_bpe`."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Sequence
from typing import Any

from bpejit import arguments
from bpejit.arrays import PretokenTable
from bpejit.corpus.chunks import CHUNK_BYTES, Chunker
from bpejit.corpus.contents import Contents, named_inputs
from bpejit.corpus.sources import Inputs, Source, find_sources, total_bytes
from bpejit.engines import check_engine_options, count_cpus, make_engine
from bpejit.engines.base import Progress, no_progress
from bpejit.errors import BpejitWarning, CorpusError, TrainingError
from bpejit.model import Model, special_bytes
from bpejit.process_memory import trim_heap
from bpejit.splitting import Pattern, compile_pattern
from bpejit.splitting.presets import pattern_source
from bpejit.splitting.unicode_versions import installed_unicode
from bpejit.tokenizer import Tokenizer
from bpejit.tokenizer_config import TokenizerConfig
from bpejit.training.count_job import CountedChunk, CountJob
from bpejit.training.counting import merge_tables
from bpejit.training.merge_learner import MergeLearner
from bpejit.training.merge_settings import MergeSettings

END_OF_TEXT = "<|endoftext|>"

MAX_VOCAB_SIZE = 2**31 - 1
"""Token ids are stored in 32 bits, with a sign while merges are learned."""

BOM_INPUTS = "byte_order_marks_skipped"
"""Key of `Model.training` that lists the inputs with a byte-order mark."""


@arguments.explain_wrong_arguments
def train(
    inputs: Inputs,
    *,
    vocab_size: int,
    special_tokens: Sequence[str] = (END_OF_TEXT,),
    special_tokens_first: bool = False,
    pattern: Pattern = "gpt2",
    tie_break: str = "greatest-bytes",
    min_frequency: int = 1,
    max_token_bytes: int | None = None,
    normalize_newlines: bool = False,
    unicode: str | None = None,
    bos_token: str | None = None,
    eos_token: str | None = None,
    pad_token: str | None = None,
    model_max_length: int | None = None,
    chat_template: str | None = None,
    input_format: str = "auto",
    workers: int | None = None,
    engine: str = "auto",
    chunk_bytes: int = CHUNK_BYTES,
    progress: Progress | None = None,
) -> Tokenizer:
    """Train a tokenizer on files.

    Parameters
    ----------
    inputs : path or list of paths
        Files, globs, or `-` for standard input. A UTF-8 byte-order mark at the start of an input is skipped.
    vocab_size : int
        Number of tokens, including the 256 bytes and the special tokens. The vocabulary is smaller if the text does not
        have enough pairs to merge, in which case there is a `BpejitWarning`.
    special_tokens : sequence of str, default ("<|endoftext|>",)
        Texts that are one token each. They separate pre-tokens, and are neither counted nor merged.
    special_tokens_first : bool, default False
        If True, special tokens have the ids from 0. Otherwise they have the last ids, and byte `b` has id `b`.
    pattern : str or tuple of str, default "gpt2"
        The split pattern: the name of a preset (see `bpejit.splitting.PRESETS`), a regular expression, or several of these,
        each of which splits the pre-tokens of the previous one.
    tie_break : str, default "greatest-bytes"
        Which of several equally frequent pairs is merged first: a name in `bpejit.training.tie_rules.tie_rule_names()`.
    min_frequency : int, default 1
        Pairs that occur less often are not merged.
    max_token_bytes : int, optional
        Maximum length of a token. Hugging Face's `max_token_length=k` corresponds to k - 1 here, for k of at least 3.
    normalize_newlines : bool, default False
        Convert CR LF and CR to LF before splitting.
    unicode : str, optional
        The version of Unicode that the pattern follows, such as "16.0". It is saved with the tokenizer. By default, the
        version of the installed `regex` package.
    bos_token, eos_token, pad_token : str, optional
        Special tokens with a role in `transformers`. They are added to `special_tokens` if necessary. The default of
        `eos_token` is `<|endoftext|>`, if that is a special token.
    model_max_length : int, optional
        The maximum number of tokens that the model accepts. Written to `tokenizer_config.json` for `transformers`, like the
        tokens above; it does not change any id.
    chat_template : str, optional
        A Jinja template that formats a conversation. Also written to `tokenizer_config.json`.
    input_format : str, default "auto"
        "auto" refuses inputs that look compressed or binary, or like text in UTF-16 or UTF-32. "text" accepts any bytes.
    workers : int, optional
        Number of threads or processes that count pre-tokens, and afterwards of threads that learn merges: passes over all
        cells run in parallel, and the merges themselves in one thread. The default is the number of processors. Does not
        change the result.
    engine : str, default "auto"
        How the work is distributed: "auto" or a name in `bpejit.engines.engine_names()`. "serial" uses no threads to learn
        merges either. Does not change the result.
    chunk_bytes : int
        Size of the chunks into which files are divided. Does not change the result.
    progress : callable, optional
        Called as `progress(stage, done, total, unit)`.

    Returns
    -------
    Tokenizer

    Raises
    ------
    ArgumentTypeError, CorpusError, PatternError, TrainingError, EngineError

    See Also
    --------
    train_bpe : The interface of Stanford's CS336 assignment.
    """
    model = train_model(
        inputs,
        vocab_size=vocab_size,
        special_tokens=special_tokens,
        special_tokens_first=special_tokens_first,
        pattern=pattern,
        tie_break=tie_break,
        min_frequency=min_frequency,
        max_token_bytes=max_token_bytes,
        normalize_newlines=normalize_newlines,
        unicode=unicode,
        bos_token=bos_token,
        eos_token=eos_token,
        pad_token=pad_token,
        model_max_length=model_max_length,
        chat_template=chat_template,
        input_format=input_format,
        workers=workers,
        engine=engine,
        chunk_bytes=chunk_bytes,
        progress=progress,
    )
    _warn(model, stacklevel=4)  # the decorator is one level
    return Tokenizer.from_model(model, lazy=True)


def train_model(
    inputs: Inputs,
    *,
    vocab_size: int,
    special_tokens: Sequence[str] = (END_OF_TEXT,),
    special_tokens_first: bool = False,
    pattern: Pattern = "gpt2",
    tie_break: str = "greatest-bytes",
    min_frequency: int = 1,
    max_token_bytes: int | None = None,
    normalize_newlines: bool = False,
    unicode: str | None = None,
    bos_token: str | None = None,
    eos_token: str | None = None,
    pad_token: str | None = None,
    model_max_length: int | None = None,
    chat_template: str | None = None,
    input_format: str = "auto",
    workers: int | None = None,
    engine: str = "auto",
    chunk_bytes: int = CHUNK_BYTES,
    progress: Progress | None = None,
) -> Model:
    """Train on files, and return the tokenizer as data, without the tables that encoding needs.

    Parameters are the same as for `train`. There are no warnings; see `training_notes`.

    Returns
    -------
    Model

    Raises
    ------
    ArgumentTypeError, CorpusError, PatternError, TrainingError, EngineError
    """
    config = TokenizerConfig.checked(
        bos_token=bos_token,
        eos_token=eos_token,
        pad_token=pad_token,
        model_max_length=model_max_length,
        chat_template=chat_template,
    )
    specials = arguments.special_tokens("special_tokens", special_tokens, error=TrainingError)
    specials = arguments.special_tokens("special_tokens", [*specials, *config.tokens.values()], error=TrainingError)
    least = 256 + len(specials)
    note = f"space for the 256 bytes and {len(specials)} special token{'' if len(specials) == 1 else 's'}"
    vocab_size = arguments.whole_number(
        "vocab_size", vocab_size, least=least, most=MAX_VOCAB_SIZE, note=note, error=TrainingError
    )
    n_merges = vocab_size - least
    settings = MergeSettings(tie_break, min_frequency, max_token_bytes)
    special_tokens_first = arguments.flag("special_tokens_first", special_tokens_first)
    normalize_newlines = arguments.flag("normalize_newlines", normalize_newlines)
    pattern = arguments.pattern("pattern", pattern)
    report = arguments.function("progress", progress) or no_progress
    unicode = arguments.optional_string("unicode", unicode) or installed_unicode()
    workers, engine, chunk_bytes = check_engine_options(workers, engine, chunk_bytes)
    contents = Contents(input_format, strip_bom=True)
    sources = find_sources(inputs, contents)
    table, n_bytes = _count(
        CountJob(pattern_source(pattern), tuple(special_bytes(text) for text in specials), normalize_newlines, unicode),
        sources,
        workers=workers,
        engine=engine,
        chunk_bytes=chunk_bytes,
        report=report,
    )
    if len(table) == 0:
        names = ", ".join(f"`{source.path}`" for source in sources[:3])
        raise CorpusError(f"the corpus ({names}) contains no text to learn from ({n_bytes} bytes in all); expected some text")
    n_pretokens, n_distinct = int(table.counts.sum()), len(table)
    threads = 1 if engine == "serial" else workers or count_cpus()
    learner = MergeLearner(table, n_merges, settings, workers=threads)
    del table  # the learner has a copy
    trim_heap()
    merges = learner.run(lambda done: report("merge", done, n_merges, "merges"))
    del learner
    trim_heap()
    tokens = merges.token_bytes()
    base = len(specials) if special_tokens_first else 0
    first_special = 0 if special_tokens_first else len(tokens)
    return Model(
        tokens=dict(enumerate(tokens, start=base)),
        merges=[(tokens[left], tokens[right]) for left, right in zip(merges.left.tolist(), merges.right.tolist(), strict=True)],
        special_tokens={text: first_special + number for number, text in enumerate(specials)},
        pattern=pattern,
        unicode=unicode,
        config=config,
        tie_break=settings.tie_break,
        merge_counts=merges.counts.tolist(),
        training={
            "inputs": [{"path": source.path, "bytes": source.size} for source in sources],
            "bytes": n_bytes,
            "pretokens": n_pretokens,
            "distinct_pretokens": n_distinct,
            "vocab_size": vocab_size,
            "min_frequency": settings.min_frequency,
            "max_token_bytes": settings.max_token_bytes,
            "normalize_newlines": normalize_newlines,
            **({BOM_INPUTS: contents.marked} if contents.marked else {}),
        },
    )


def training_notes(model: Model) -> list[str]:
    """Return messages about the training of a model that its user should know."""
    notes = []
    wanted = model.training["vocab_size"]
    if model.vocab_size < wanted:
        notes.append(
            f"nothing was left to merge after {len(model.merges):,} merges: the vocabulary has {model.vocab_size:,} tokens "
            f"instead of {wanted:,}; more text, or a lower `min_frequency=`, gives more"
        )
    marked = model.training.get(BOM_INPUTS)
    if marked:
        notes.append(f"skipped the UTF-8 byte-order mark of {named_inputs(marked)}")
    return notes


def _warn(model: Model, *, stacklevel: int) -> None:
    for note in training_notes(model):
        warnings.warn(note, BpejitWarning, stacklevel=stacklevel)


def train_bpe(
    input_path: str | os.PathLike[str], vocab_size: int, special_tokens: Sequence[str], **options: Any
) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Train on one file, and return the vocabulary and the merges, as in Stanford's CS336 assignment 1.

    Parameters
    ----------
    input_path : path
    vocab_size : int
    special_tokens : sequence of str
    **options
        Any other parameter of `train`.

    Returns
    -------
    vocab : dict of int to bytes
    merges : list of (bytes, bytes)
        In the order of creation.
    """
    arguments.path("input_path", input_path, error=CorpusError)
    settings: dict[str, Any] = {"vocab_size": vocab_size, "special_tokens": special_tokens, **options}
    arguments.bound("train_bpe", inspect.signature(train_model), (input_path,), settings)
    model = train_model([input_path], **settings)
    _warn(model, stacklevel=3)
    return dict(model.vocab), list(model.merges)


def _count(
    job: CountJob, sources: list[Source], *, workers: int | None, engine: str, chunk_bytes: int, report: Progress
) -> tuple[PretokenTable, int]:
    """Count the pre-tokens of all sources. Return the table, in no order, and the number of bytes read."""
    total = total_bytes(sources)
    compiled = compile_pattern(job.pattern, unicode=job.unicode).kind != "regex"
    spread = make_engine(engine, workers, input_bytes=total, releases_gil=compiled, returns_arrays=False)
    chunker = Chunker(job.splitter(), chunk_bytes=chunk_bytes, normalize_newlines=job.normalize_newlines)
    done = n_bytes = 0

    def advance(chunk: CountedChunk) -> None:
        nonlocal done, n_bytes
        done += chunk.n_read
        n_bytes += chunk.n_bytes
        report("count", done, total, "bytes")

    trim_heap()  # forked workers inherit the memory that compiling the pattern has freed
    # There is no report before the workers run: a progress bar may start a thread, and then workers could not be forked.
    # Sorting 140,000 pre-tokens would take 25 ms, and the merges do not depend on the order.
    return merge_tables(spread.fold_chunks(job, chunker.chunks(sources), advance), in_order=False), n_bytes
