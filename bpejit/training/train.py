"""Training, as its users meet it: from files to a tokenizer."""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from bpejit import arguments
from bpejit.arrays import PretokenTable
from bpejit.corpus.chunks import CHUNK_BYTES, Chunker
from bpejit.corpus.contents import Contents, named_inputs
from bpejit.corpus.sources import Inputs, Source, find_sources, total_bytes
from bpejit.engines import check_spread, make_engine
from bpejit.engines.base import Progress, no_progress
from bpejit.engines.processes import start_method
from bpejit.errors import BpejitWarning, CorpusError, TrainingError
from bpejit.model import Model, special_bytes
from bpejit.process_memory import trim_heap
from bpejit.splitting import Pattern, compile_pattern
from bpejit.splitting.unicode_versions import installed_unicode
from bpejit.tokenizer import Tokenizer
from bpejit.tokenizer_config import TokenizerConfig
from bpejit.training.count_job import CountJob
from bpejit.training.counting import merge_tables
from bpejit.training.merge_learner import TIE_RULES, Learning

END_OF_TEXT = "<|endoftext|>"

MOST_TOKENS = 2**31 - 1
"""Ids are kept in 32 bits, with a sign while merges are learned."""

MARKS = "byte_order_marks_skipped"
"""Key of the training notes that names the inputs with a byte-order mark."""

Settings = ParamSpec("Settings")


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
    """Train on files, and return the tokenizer as data, without what it needs to encode.

    Parameters
    ----------
    inputs : paths
        Files, globs, or `-` for standard input. A UTF-8 byte-order mark at the start of one is skipped.
    vocab_size : int
        Number of tokens, special ones and the 256 bytes included. The result is smaller if the text has not enough
        pairs to merge; `train` and `train_bpe` warn then.
    special_tokens : sequence of str
        Cut out of the text; nothing is counted or merged across them.
    special_tokens_first : bool
        Give them the ids from 0; otherwise they come last, and byte `b` has id `b`.
    pattern : str or tuple of str
        The split pattern: a preset's name (see `bpejit.splitting.PRESETS`), a regular expression, or several of these
        expressions, each of which splits the pieces of the one before.
    tie_break : str
        Which of equally frequent pairs is merged first: one of `bpejit.training.merge_learner.TIE_RULES`.
    min_frequency : int
        Pairs that occur less often are not merged.
    max_token_bytes : int, optional
        Longer tokens are not made. Hugging Face's `max_token_length=k` equals k - 1 here, for k of 3 or more.
    normalize_newlines : bool
        Turn CR LF and CR into LF before splitting.
    unicode : str, optional
        The version of Unicode by which the pattern knows letters from other characters, such as "16.0"; by default that of
        the installed `regex` package. The tokenizer keeps it.
    bos_token, eos_token, pad_token : str, optional
        Special tokens with a part to play for `transformers`; those that are not among `special_tokens` are added to them.
        Without `eos_token` it is `<|endoftext|>`, if that is a special token.
    model_max_length, chat_template : int and str, optional
        Further settings for `transformers`: the longest text that the model takes, in tokens, and a Jinja template that makes
        the text of a conversation. With the tokens they are written to `tokenizer_config.json`; no id depends on them.
    input_format : str
        `auto` refuses inputs that are recognised as compressed or binary, or as text in UTF-16 or UTF-32; `text` takes the
        bytes of every input as they are.
    workers, engine, chunk_bytes
        How the work is spread (see `bpejit.engines`); never changes the result.
    progress : callable, optional

    Raises
    ------
    CorpusError, PatternError, TrainingError, EngineError
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
    room = f"room for the 256 bytes and {len(specials)} special token{'' if len(specials) == 1 else 's'}"
    vocab_size = arguments.whole_number("vocab_size", vocab_size, least=least, most=MOST_TOKENS, note=room, error=TrainingError)
    n_merges = vocab_size - least
    min_frequency = arguments.whole_number("min_frequency", min_frequency, least=1, most=2**62, error=TrainingError)
    max_token_bytes = arguments.optional_whole_number(
        "max_token_bytes", max_token_bytes, least=1, most=2**62, error=TrainingError
    )
    tie_break = arguments.choice("tie_break", tie_break, TIE_RULES, error=TrainingError)
    special_tokens_first = arguments.flag("special_tokens_first", special_tokens_first)
    normalize_newlines = arguments.flag("normalize_newlines", normalize_newlines)
    pattern = arguments.pattern("pattern", pattern)
    tell = arguments.function("progress", progress) or no_progress
    unicode = arguments.optional_string("unicode", unicode) or installed_unicode()
    workers, engine, chunk_bytes = check_spread(workers, engine, chunk_bytes)
    contents = Contents(input_format, strip_bom=True)
    sources = find_sources(inputs, contents)
    table, n_bytes = _count(
        CountJob(pattern, tuple(special_bytes(text) for text in specials), normalize_newlines, unicode),
        sources,
        workers=workers,
        engine=engine,
        chunk_bytes=chunk_bytes,
        tell=tell,
    )
    if len(table) == 0:
        names = ", ".join(f"`{source.path}`" for source in sources[:3])
        raise CorpusError(f"the corpus ({names}) holds no text to learn from, {n_bytes} bytes in all; expected some text")
    n_pretokens, n_distinct = int(table.counts.sum()), len(table)
    learning = Learning(table, n_merges, tie_break=tie_break, min_frequency=min_frequency, max_token_bytes=max_token_bytes)
    del table  # what is learned from is a copy
    trim_heap()
    merges = learning.run(lambda done: tell("merge", done, n_merges, "merges"))
    del learning
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
        tie_break=tie_break,
        merge_counts=merges.counts.tolist(),
        training={
            "inputs": [{"path": source.path, "bytes": source.size} for source in sources],
            "bytes": n_bytes,
            "pretokens": n_pretokens,
            "distinct_pretokens": n_distinct,
            "vocab_size": vocab_size,
            "min_frequency": min_frequency,
            "max_token_bytes": max_token_bytes,
            "normalize_newlines": normalize_newlines,
            **({MARKS: contents.marked} if contents.marked else {}),
        },
    )


def training_notes(model: Model) -> list[str]:
    """Return what the user of a model that was just trained should know: each note is a sentence for a message."""
    notes = []
    wanted = model.training["vocab_size"]
    if model.vocab_size < wanted:
        notes.append(
            f"nothing was left to merge after {len(model.merges):,} merges: the vocabulary has {model.vocab_size:,} tokens "
            f"instead of {wanted:,}; more text, or a lower `min_frequency=`, gives more"
        )
    marked = model.training.get(MARKS)
    if marked:
        notes.append(f"skipped the UTF-8 byte-order mark of {named_inputs(marked)}")
    return notes


def _warn(model: Model) -> None:
    for note in training_notes(model):
        warnings.warn(note, BpejitWarning, stacklevel=3)


def _as_tokenizer(make_model: Callable[Settings, Model], name: str, summary: str) -> Callable[Settings, Tokenizer]:
    """Return the same function with a tokenizer as its result, and another name and first sentence."""
    signature = inspect.signature(make_model)

    @functools.wraps(make_model)
    def make_tokenizer(*args: Settings.args, **kwargs: Settings.kwargs) -> Tokenizer:
        arguments.bound(name, signature, args, kwargs)
        model = make_model(*args, **kwargs)
        _warn(model)
        return Tokenizer.from_model(model, later=True)

    make_tokenizer.__name__ = make_tokenizer.__qualname__ = name
    make_tokenizer.__doc__ = summary + (make_model.__doc__ or "").partition("\n")[2]
    return make_tokenizer


train = _as_tokenizer(train_model, "train", "Train a tokenizer on files.\n")


def train_bpe(
    input_path: str | os.PathLike[str], vocab_size: int, special_tokens: Sequence[str], **options: Any
) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Train on one file and return vocabulary and merges, as Stanford's CS336 asks for it.

    Parameters
    ----------
    input_path : path
    vocab_size : int
    special_tokens : sequence of str
    **options
        Any other option of `train`.

    Returns
    -------
    vocab : dict of int to bytes
    merges : list of (bytes, bytes)
        In the order in which they were made.
    """
    arguments.path("input_path", input_path, error=CorpusError)
    every: dict[str, Any] = {"vocab_size": vocab_size, "special_tokens": special_tokens, **options}
    arguments.bound("train_bpe", inspect.signature(train_model), (input_path,), every)
    model = train_model([input_path], **every)
    _warn(model)
    return dict(model.vocab), list(model.merges)


def _count(
    job: CountJob, sources: list[Source], *, workers: int | None, engine: str, chunk_bytes: int, tell: Progress
) -> tuple[PretokenTable, int]:
    """Count the pre-tokens of all sources; return the table and the number of bytes read."""
    total = total_bytes(sources)
    compiled = compile_pattern(job.pattern, unicode=job.unicode).kind != "regex"
    # Forked workers cost nothing to start; where they would have to be spawned, threads are quicker, and do as well
    # as long as the pattern runs in kernels.
    parallel = "threads" if compiled and start_method() != "fork" else "processes"
    spread = make_engine(engine, workers, input_bytes=total, parallel=parallel)
    chunker = Chunker(job.splitter(), chunk_bytes=chunk_bytes, normalize_newlines=job.normalize_newlines)
    done = 0

    def advance(n_bytes: int) -> None:
        nonlocal done
        done += n_bytes
        tell("count", done, total, "bytes")

    trim_heap()  # what making the pattern left is not to be in every worker
    # Nothing is told before the workers run: a progress bar may start a thread, and then they could not be forked.
    # In no order: it takes 25 ms for 140,000 pre-tokens, and the merges are the same.
    return merge_tables(spread.fold_chunks(job, chunker.chunks(sources), advance), in_order=False), done
