"""Train a tokenizer on files: `train`, `train_model` and `train_bpe`."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bpejit import arguments
from bpejit.corpus.blocks import skipped_note
from bpejit.corpus.chunks import CHUNK_BYTES
from bpejit.corpus.contents import Contents, named_inputs
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.sizes import MAX_RECORD
from bpejit.corpus.sources import find_weighted_sources
from bpejit.corpus.texts import iterate_texts
from bpejit.counts.counts import Counts
from bpejit.engines import AUTO, RAY, check_engine_options, check_ray_address, count_cpus
from bpejit.engines.base import Progress, no_progress
from bpejit.errors import BpejitWarning, CorpusError, OptionError, OutputError, TrainingError
from bpejit.formats.folder_writing import check_folder
from bpejit.jit.listening import working_time
from bpejit.model import Model
from bpejit.splitting import Pattern
from bpejit.tokenizer import Tokenizer
from bpejit.tokenizer_config import TOKEN_FIELDS, TokenizerConfig
from bpejit.training.count_corpus import END_OF_TEXT, check_count_settings, count_corpus
from bpejit.training.counts_resume import CountsFile
from bpejit.training.merge_settings import MergeSettings
from bpejit.training.model_learning import BOM_INPUTS, SKIPPED_RECORDS, VocabularySettings, model_from_counts
from bpejit.training.saved_sizes import check_smaller_sizes, listed_sizes, runs_parent, save_sizes, smaller_folders


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
    documents: str = "separator",
    text_field: str = "text",
    text_column: str = "text",
    allow_special: bool = False,
    strict: bool = False,
    max_record: int = MAX_RECORD,
    skip_large_records: bool = False,
    max_bytes: int | None = None,
    seed: int = 0,
    sources: Mapping[str, int] | None = None,
    workers: int | None = None,
    engine: str = "auto",
    ray_address: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    max_memory: int | None = None,
    temporary_folder: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    also: Sequence[int] = (),
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> Tokenizer:
    """Train a tokenizer on files, or on the texts of an iterator.

    Parameters
    ----------
    inputs : path, list of paths, or iterator of texts
        Files, folders, globs, URLs, or `-` for standard input. A UTF-8 byte-order mark at the start of an input is skipped. A
        generator or another iterator yields texts (see `train_from_iterator`).
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
        Convert CR LF and CR to LF before splitting. The tokenizer records it, and encoding warns of text with carriage
        returns, which is not converted.
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
        "auto" recognizes "text", "jsonl" (JSON lines), "parquet" and "arrow" by name and first bytes, also in files compressed
        with gzip or zstd, and refuses inputs that look binary, or like text in UTF-16 or UTF-32. "text" accepts any bytes,
        unchanged.
    documents : str, default "separator"
        What ends a document of plain text, besides the end of the file, which no pre-token crosses: "separator" (a special
        token), "line" (a newline, which does not belong to the document), "line-with-end" (a newline, which belongs to it,
        as in the trainers of Hugging Face's `tokenizers` for files) or "file" (nothing else).
    text_field, text_column : str, default "text"
        The field of JSON records, and the column of Parquet and Arrow files, that has the text. "a.b" is the field b of a.
    allow_special : bool, default False
        Whether special tokens are found in the texts of records. By default their texts are ordinary text there.
    strict : bool, default False
        Whether a record without a text is an error. By default it is skipped, with a warning at the end.
    max_record : int, default 1 GiB
        The largest number of bytes of a record: a line of JSON, or the text of a row. A larger one is an error, since reading
        it takes several times its size. Plain text has no limit.
    skip_large_records : bool, default False
        Whether larger records are skipped and counted, like records without text.
    max_bytes : int, optional
        Train on an even sample of about this many bytes of text, from all inputs together, if they are larger.
    seed : int, default 0
        Selects the sample.
    sources : dict of path to int, optional
        Further inputs, each with the number of times that its counts count. `inputs` may then be an empty list.
    workers : int, optional
        Number of threads or processes that count pre-tokens, and afterwards of threads that learn merges: passes over all
        cells run in parallel, and the merges themselves in one thread. The default is the number of processors. Does not
        change the result.
    engine : str, default "auto"
        How the work is distributed: "auto" or a name in `bpejit.engines.engine_names()`. "serial" uses no threads to learn
        merges either. "ray" counts on a Ray cluster, with as many tasks at a time as `workers`, and learns merges in this
        process. Does not change the result.
    ray_address : str, optional
        For `engine="ray"`: `host:port` of the cluster, or "local". By default the running cluster, otherwise a local one.
    chunk_bytes : int
        Size of the chunks into which files are divided. Does not change the result.
    max_memory : int, optional
        Maximum memory of counting in bytes (see `bpejit.count`). Learning merges needs memory for all distinct pre-tokens. Does
        not change the result.
    temporary_folder : path, optional
        Where `max_memory` writes; by default the folder of `out`, or the system's folder for temporary files (`TMPDIR`). With
        `engine="ray"`, all nodes must see it; it may be a URL.
    out : path, optional
        Folder to save the tokenizer to, as `Tokenizer.save` does. Counts are kept beside it, in `<out>.partial.counts`, until
        the tokenizer is written, unless counting again would take less time than writing them.
    also : sequence of int, optional
        Smaller sizes to save as well, to the folders `<out>-<size>`. Each has the first merges, so it equals a training of that
        size. Needs `out`.
    resume : bool, default False
        Whether to continue an interrupted training from the counts that it kept, if there are any. The inputs and the options
        of counting must be the same. Needs `out`.
    overwrite : bool, default False
        Whether to replace tokenizers in these folders.
    progress : callable or bool, optional
        Called as `progress(stage, done, total, unit)`. True shows a line about the progress on standard error.

    Returns
    -------
    Tokenizer

    Raises
    ------
    ArgumentTypeError, CorpusError, CountsError, OptionError, OutputError, PatternError, TrainingError, EngineError

    See Also
    --------
    train_from_iterator : Train on texts in memory.
    train_bpe : The interface of Stanford's CS336 assignment.

    Examples
    --------
    >>> train("corpus/*.txt", vocab_size=128_000, out="tokenizer", also=[64_000, 32_000])  # doctest: +SKIP
    >>> load("tokenizer-32000")  # doctest: +SKIP
    """
    model = _train_and_save(
        inputs,
        out=out,
        also=also,
        resume=resume,
        overwrite=overwrite,
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
        documents=documents,
        text_field=text_field,
        text_column=text_column,
        allow_special=allow_special,
        strict=strict,
        max_record=max_record,
        skip_large_records=skip_large_records,
        max_bytes=max_bytes,
        seed=seed,
        sources=sources,
        workers=workers,
        engine=engine,
        ray_address=ray_address,
        chunk_bytes=chunk_bytes,
        max_memory=max_memory,
        temporary_folder=temporary_folder,
        progress=progress,
    )
    _warn(model, stacklevel=4)  # the decorator is one level
    return Tokenizer.from_model(model, lazy=True)


@arguments.explain_wrong_arguments
def train_from_iterator(texts: Iterable[Any], *, vocab_size: int, **options: Any) -> Tokenizer:
    """Train a tokenizer on texts in memory, which are read once, with bounded memory.

    Parameters
    ----------
    texts : iterable
        Of `str` or `bytes`: each is a document, whose borders no pre-token crosses. Also of lists of these, as the batches of
        Hugging Face's trainers, or a column of a data set of Hugging Face or of a table of pyarrow.
    vocab_size : int
    **options
        Any other parameter of `train`. Unless `allow_special` is true, the texts of special tokens are ordinary text.

    Returns
    -------
    Tokenizer

    Raises
    ------
    ArgumentTypeError, CorpusError, PatternError, TrainingError, EngineError
    """
    settings: dict[str, Any] = {"vocab_size": vocab_size, **options}
    arguments.bound("train_from_iterator", inspect.signature(train), (texts,), settings)
    model = _train_and_save(iterate_texts(texts), **settings)
    _warn(model, stacklevel=4)  # the decorator is one level
    return Tokenizer.from_model(model, lazy=True)


def _train_and_save(
    inputs: Inputs,
    *,
    vocab_size: int,
    out: str | os.PathLike[str] | None = None,
    also: Sequence[int] = (),
    resume: bool = False,
    overwrite: bool = False,
    **options: Any,
) -> Model:
    """Train, and save the model and smaller ones if there is a folder for them; the parameters are those of `train`."""
    resume, overwrite = arguments.flag("resume", resume), arguments.flag("overwrite", overwrite)
    sizes = listed_sizes(also)
    if out is None:
        if resume or sizes:
            given = "resume is True" if resume else f"also is {sizes}"
            raise OptionError(f"{given}, and out is None; expected the folder of the tokenizer: give `out=`")
        return train_model(inputs, vocab_size=vocab_size, **options)
    out = arguments.path("out", out, error=OutputError)
    if sizes:
        tokens = arguments.special_tokens("special_tokens", options.get("special_tokens", (END_OF_TEXT,)), error=TrainingError)
        tokens += [options[name] for name in TOKEN_FIELDS if options.get(name) is not None]
        check_smaller_sizes(sizes, arguments.whole_number("vocab_size", vocab_size), 256 + len(set(tokens)))
    smaller = smaller_folders(out, sizes)
    named = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    listed = [] if isinstance(named, Iterator) or not arguments.is_iterable(named) else list(named)
    files = [path for path in listed if isinstance(path, (str, os.PathLike)) and Path(path).is_file()]
    for folder in (out, *smaller.values()):
        check_folder(folder, inputs=files, overwrite=overwrite)  # before hours of training
    if options.get("temporary_folder") is None:
        options["temporary_folder"] = runs_parent(out, options.get("engine", AUTO))
    counts_file = CountsFile.beside(out, resume=resume)
    model = train_model(inputs, vocab_size=vocab_size, counts_file=counts_file, **options)
    save_sizes(model, out, smaller, overwrite=overwrite)
    counts_file.remove()
    return model


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
    documents: str = "separator",
    text_field: str = "text",
    text_column: str = "text",
    allow_special: bool = False,
    strict: bool = False,
    max_record: int = MAX_RECORD,
    skip_large_records: bool = False,
    max_bytes: int | None = None,
    seed: int = 0,
    sources: Mapping[str, int] | None = None,
    workers: int | None = None,
    engine: str = "auto",
    ray_address: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    max_memory: int | None = None,
    temporary_folder: str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
    counts_file: CountsFile | None = None,
    inspect_counts: Callable[[Counts, Model], None] | None = None,
    inspect_sizes: Callable[[int, int], None] | None = None,
) -> Model:
    """Train on files, and return the tokenizer as data, without the tables that encoding needs.

    Parameters are the same as for `train`. There are no warnings; see `training_notes`.

    Parameters
    ----------
    counts_file : CountsFile, optional
        Saves the counts before merges are learned, or has those of an earlier run.
    inspect_counts : callable, optional
        Called with the counts and the model before the memory of the counts is freed.
    inspect_sizes : callable, optional
        Called with the numbers of bytes and of tokens of the text, without special tokens.

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
    merges = MergeSettings(tie_break, min_frequency, max_token_bytes)
    settings = VocabularySettings.checked(vocab_size, specials, special_tokens_first, merges, config)
    count_settings = check_count_settings(pattern, unicode, specials, normalize_newlines)
    report = arguments.progress(progress) or no_progress
    workers, engine, chunk_bytes = check_engine_options(workers, engine, chunk_bytes, clusters=True)
    ray_address = check_ray_address(ray_address, engine)
    contents = Contents(
        input_format,
        strip_bom=True,
        documents=documents,
        text_field=text_field,
        text_column=text_column,
        allow_special=allow_special,
        strict=strict,
        max_record=max_record,
        skip_large_records=skip_large_records,
    )
    contents.choose_sample(max_bytes, seed)
    found = find_weighted_sources(inputs, sources, contents)
    threads = thread_count(workers, engine)
    if counts_file is not None and counts_file.resumes:
        counts = counts_file.load(count_settings, found, contents)
        return _learn(counts, settings, inspect_counts, inspect_sizes, threads=threads, report=report)
    start = working_time()
    with count_corpus(
        count_settings,
        found,
        contents,
        max_memory=max_memory,
        temporary_folder=temporary_folder,
        workers=workers,
        engine=engine,
        ray_address=ray_address,
        chunk_bytes=chunk_bytes,
        report=report,
    ) as counts:
        if counts_file is not None:
            counts = counts_file.save(counts, working_time() - start)
        return _learn(counts, settings, inspect_counts, inspect_sizes, threads=threads, report=report)


def _learn(
    counts: Counts,
    settings: VocabularySettings,
    inspect_counts: Callable[[Counts, Model], None] | None,
    inspect_sizes: Callable[[int, int], None] | None,
    *,
    threads: int,
    report: Progress,
) -> Model:
    """Learn a model, and free the table of the counts before, unless it is needed again and cannot be read again."""
    again = inspect_counts is not None and not counts.is_stored
    take = (lambda: counts.any_order) if again else counts.take_table
    model = model_from_counts(counts.header, take, settings, inspect_sizes, workers=threads, report=report)
    if inspect_counts is not None:
        inspect_counts(counts, model)
    return model


@arguments.explain_wrong_arguments
def train_from_counts(
    counts: Counts,
    *,
    vocab_size: int,
    special_tokens_first: bool = False,
    tie_break: str = "greatest-bytes",
    min_frequency: int = 1,
    max_token_bytes: int | None = None,
    bos_token: str | None = None,
    eos_token: str | None = None,
    pad_token: str | None = None,
    model_max_length: int | None = None,
    chat_template: str | None = None,
    workers: int | None = None,
    progress: Progress | bool | None = None,
) -> Tokenizer:
    """Train a tokenizer from counts. The result is that of training on the text that was counted.

    Pattern, version of Unicode, special tokens and normalization of newlines are those of the counts.

    Parameters
    ----------
    counts : Counts
        From `bpejit.count`, `Counts.load` or `merge_counts`.
    vocab_size, special_tokens_first, tie_break, min_frequency, max_token_bytes, model_max_length, chat_template
        As for `train`.
    bos_token, eos_token, pad_token : str, optional
        As for `train`, but they must be special tokens of the counts.
    workers : int, optional
        Number of threads that learn merges. The default is the number of processors. Does not change the result.
    progress : callable or bool, optional
        Called as `progress(stage, done, total, unit)`. True shows a line about the progress on standard error.

    Returns
    -------
    Tokenizer

    Raises
    ------
    ArgumentTypeError, CorpusError, CountsError, SpecialTokenError, TrainingError
    """
    model = train_model_from_counts(
        arguments.instance("counts", counts, Counts, "load them with `bpejit.Counts.load`"),
        vocab_size=vocab_size,
        special_tokens_first=special_tokens_first,
        tie_break=tie_break,
        min_frequency=min_frequency,
        max_token_bytes=max_token_bytes,
        bos_token=bos_token,
        eos_token=eos_token,
        pad_token=pad_token,
        model_max_length=model_max_length,
        chat_template=chat_template,
        workers=workers,
        progress=progress,
    )
    _warn(model, stacklevel=4)  # the decorator is one level
    return Tokenizer.from_model(model, lazy=True)


def train_model_from_counts(
    counts: Counts,
    *,
    vocab_size: int,
    special_tokens_first: bool = False,
    tie_break: str = "greatest-bytes",
    min_frequency: int = 1,
    max_token_bytes: int | None = None,
    bos_token: str | None = None,
    eos_token: str | None = None,
    pad_token: str | None = None,
    model_max_length: int | None = None,
    chat_template: str | None = None,
    workers: int | None = None,
    engine: str = "auto",
    progress: Progress | bool | None = None,
    inspect_counts: Callable[[Counts, Model], None] | None = None,
    inspect_sizes: Callable[[int, int], None] | None = None,
) -> Model:
    """Train from counts, and return the tokenizer as data. The parameters are those of `train_from_counts` and `train_model`.

    Raises
    ------
    ArgumentTypeError, CorpusError, CountsError, SpecialTokenError, TrainingError
    """
    config = TokenizerConfig.checked(
        bos_token=bos_token,
        eos_token=eos_token,
        pad_token=pad_token,
        model_max_length=model_max_length,
        chat_template=chat_template,
    )
    merges = MergeSettings(tie_break, min_frequency, max_token_bytes)
    settings = VocabularySettings.checked(vocab_size, counts.special_tokens, special_tokens_first, merges, config)
    workers, engine, _ = check_engine_options(workers, engine, CHUNK_BYTES, clusters=True)
    report = arguments.progress(progress) or no_progress
    threads = thread_count(workers, engine)
    take = lambda: counts.any_order  # noqa: E731
    model = model_from_counts(counts.header, take, settings, inspect_sizes, workers=threads, report=report)
    if inspect_counts is not None:
        inspect_counts(counts, model)
    return model


def thread_count(workers: int | None, engine: str) -> int:
    """Return the number of threads that learn merges."""
    if engine == RAY:
        workers = None  # the number of tasks on a cluster
    return 1 if engine == "serial" else workers or count_cpus()


def way_to_more(min_frequency: int) -> str:
    """Return what gives more tokens where nothing was left to merge."""
    return "more text gives more" if min_frequency == 1 else "more text, or a lower `min_frequency=`, gives more"


def training_notes(model: Model) -> list[str]:
    """Return messages about the training of a model that its user should know."""
    notes = []
    wanted = model.training["vocab_size"]
    if model.vocab_size < wanted:
        notes.append(
            f"nothing was left to merge after {len(model.merges):,} merges: the vocabulary has {model.vocab_size:,} tokens "
            f"instead of {wanted:,}; {way_to_more(model.training['min_frequency'])}"
        )
    marked = model.training.get(BOM_INPUTS)
    if marked:
        notes.append(f"skipped the UTF-8 byte-order mark of {named_inputs(marked)}")
    lost = model.training.get(SKIPPED_RECORDS)
    if lost:
        first = [record for entry in lost for record in entry["first"]]
        notes.append(skipped_note(sum(entry["count"] for entry in lost), first))
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
        Any other parameter of `train` that does not concern saving (`out`, `also`, `resume`, `overwrite`).

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
