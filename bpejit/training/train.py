"""Train a tokenizer on files: `train`, `train_model`, and the functions of CS336."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from bpejit import arguments
from bpejit.corpus.blocks import skipped_note
from bpejit.corpus.chunks import iterate_texts
from bpejit.corpus.contents import named_inputs
from bpejit.corpus.input_paths import Inputs
from bpejit.counting.count_corpus import count_corpus, folder_of, open_inputs
from bpejit.counting.count_options import END_OF_TEXT, Memory, RunSettings, SuperwordChoice
from bpejit.counting.counts import Counts
from bpejit.counting.header import CountSettings
from bpejit.engines import RAY, checked_work, count_cpus, peak_memory
from bpejit.errors import CorpusError, OptionError, OutputError, TrainingError, warn_user
from bpejit.formats.folder_writing import check_folder, save_folder
from bpejit.jit.listening import working_time
from bpejit.model import Model
from bpejit.options import chosen, takes
from bpejit.shrinking import first_merges
from bpejit.storage.files import StrPath
from bpejit.tokenizer import Tokenizer
from bpejit.tokenizer_config import TOKEN_FIELDS, TokenizerConfig, TransformersSettings
from bpejit.training.counts_resume import CountsFile
from bpejit.training.model_learning import BOM_INPUTS, SKIPPED_RECORDS, VocabularySettings, learn_model
from bpejit.training.symbol_models import check_symbols
from bpejit.training.symbol_settings import SymbolOptions, SymbolSettings
from bpejit.training.train_options import (
    CountsTraining,
    MergeOptions,
    ModelOptions,
    SuperwordLimits,
    TrainOptions,
    default_transition,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class TrainingOutputs:
    """Where a training saves: the folders of the tokenizer and of smaller sizes (the largest first), and counts until then."""

    out: str
    smaller: Mapping[int, str]
    counts_file: CountsFile
    overwrite: bool

    @classmethod
    def of(cls, out: str, also: Sequence[int], *, resume: bool, overwrite: bool) -> TrainingOutputs:
        """Return the outputs of the options of `train`."""
        smaller = {size: f"{out.rstrip('/')}-{size}" for size in sorted(set(also), reverse=True)}
        return cls(out, smaller, CountsFile.beside(out, resume=resume), overwrite)

    def check(self, inputs: Sequence[StrPath] = ()) -> None:
        """Raise the errors of saving that are known before hours of training. `inputs` are not replaced."""
        for folder in (self.out, *self.smaller.values()):
            check_folder(folder, inputs=inputs, overwrite=self.overwrite)

    def train(self, inputs: Inputs | Counts, **options: Any) -> tuple[Model, str | None]:
        """Train with the options of `train_model`, save, and return the model and why other tools cannot read it, if so."""
        if self.smaller and (options.get("symbols", "bytes") != "bytes" or options.get("word_end")):
            raise OptionError(
                f"also has the size {min(self.smaller)}, and pre-tokens do not begin as bytes alone; expected one size: train "
                "each of them"
            )
        if self.smaller and options.get("superwords") is not None:
            transition = options.get("transition") or default_transition(options["vocab_size"])
            if options["superwords"] != "super" or min(self.smaller) < transition:
                raise OptionError(
                    f"also has the size {min(self.smaller)}, at which superwords have not begun or are others; expected sizes "
                    'from `transition=` on, with `superwords="super"`: train each of the others'
                )
        if options.get("temporary_folder") is None:
            options["temporary_folder"] = folder_of(self.out, urls=options.get("engine") == RAY)
        model = train_model(inputs, counts_file=self.counts_file, **options)
        unreadable = save_folder(model, self.out, overwrite=self.overwrite)
        for size, folder in self.smaller.items():
            save_folder(first_merges(model, size), folder, overwrite=self.overwrite)
        self.counts_file.remove()
        return model, unreadable


@takes(TrainOptions)
def train(inputs: Inputs, *, vocab_size: int, **options: Unpack[TrainOptions]) -> Tokenizer:
    """Train a tokenizer on files, or on the texts of an iterator.

    Parameters
    ----------
    inputs : path, list of paths, or iterator of texts
        Files, folders, globs, URLs, or `-` for standard input. A UTF-8 byte-order mark at the start of an input is skipped. A
        generator or another iterator yields texts (see `train_from_iterator`).
    vocab_size : int
        Number of tokens, including the 256 bytes and the special tokens. The vocabulary is smaller if the text does not
        have enough pairs to merge, in which case there is a `BpejitWarning`.
    {options}

    Returns
    -------
    Tokenizer
        Its `training` has `tokens`, `bytes_per_token` and `peak_memory` as well. If characters are left out of the vocabulary,
        the first two are estimates: the characters around them count as adjacent, as in training.

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
    return _announced(_train_and_save, inputs, vocab_size=vocab_size, **options)


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
    return _announced(_train_and_save, iterate_texts(texts), **settings)


def _train_and_save(
    inputs: Inputs,
    *,
    vocab_size: int,
    out: StrPath | None = None,
    also: Sequence[int] = (),
    resume: bool = False,
    overwrite: bool = False,
    **options: Any,
) -> Model:
    """Train, and save the model and smaller ones if there is a folder for them; the parameters are those of `train`."""
    resume, overwrite = arguments.flag("resume", resume), arguments.flag("overwrite", overwrite)
    if isinstance(also, (str, bytes)) or not arguments.is_iterable(also):
        raise arguments.wrong_type("also", also, "a list of whole numbers", "give one such as [64000, 32000]")
    sizes = [arguments.whole_number(f"also[{index}]", size) for index, size in enumerate(also)]
    if out is None:
        if resume or sizes:
            given = "resume is True" if resume else f"also is {sizes}"
            raise OptionError(f"{given}, and out is None; expected the folder of the tokenizer: give `out=`")
        return train_model(inputs, vocab_size=vocab_size, **options)
    out = arguments.path("out", out, error=OutputError)
    if sizes:
        tokens = arguments.special_tokens("special_tokens", options.get("special_tokens", (END_OF_TEXT,)), error=TrainingError)
        tokens += [options[name] for name in TOKEN_FIELDS if options.get(name) is not None]
        least, most = 256 + len(set(tokens)), arguments.whole_number("vocab_size", vocab_size) - 1
        for size in sizes:
            if not least <= size <= most:
                raise OptionError(
                    f"also contains {size}; expected sizes from {least}, the bytes and the special tokens, up to {most}, below "
                    "`vocab_size=`: correct it"
                )
    named = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    listed = [] if isinstance(named, (Iterator, Counts)) or not arguments.is_iterable(named) else list(named)
    files = [path for path in listed if isinstance(path, (str, os.PathLike)) and Path(path).is_file()]
    outputs = TrainingOutputs.of(out, sizes, resume=resume, overwrite=overwrite)
    outputs.check(files)
    return outputs.train(inputs, vocab_size=vocab_size, **options)[0]


@takes(ModelOptions)
def train_model(
    inputs: Inputs | Counts,
    *,
    vocab_size: int,
    counts_file: CountsFile | None = None,
    inspect_counts: Callable[[Counts, Model], None] | None = None,
    inspect_sizes: Callable[[int, int], None] | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Train on files or from counts, and return the tokenizer as data, without the tables that encoding needs.

    There are no warnings; see `training_notes`. From counts, the options of counting are ignored.

    Parameters
    ----------
    inputs, vocab_size
        As for `train`, or counts.
    counts_file : CountsFile, optional
        Saves the counts before merges are learned, or has those of an earlier run.
    inspect_counts : callable, optional
        Called with the counts and the model before the memory of the counts is freed.
    inspect_sizes : callable, optional
        Called with the numbers of bytes and of tokens of the text, without special tokens.
    {options}

    Returns
    -------
    Model

    Raises
    ------
    ArgumentTypeError, CorpusError, CountsError, PatternError, SpecialTokenError, TrainingError, EngineError
    """
    symbols = SymbolSettings.checked(max_token_bytes=options["max_token_bytes"], **chosen(SymbolOptions, options))
    config = TokenizerConfig.checked(**chosen(TransformersSettings, options), unk_token=options["unk_token"])
    if isinstance(inputs, Counts):
        specials = list(inputs.special_tokens)
        options["ray_address"] = None
    else:
        specials = arguments.special_tokens("special_tokens", options["special_tokens"], error=TrainingError)
        specials = arguments.special_tokens("special_tokens", [*specials, *config.tokens.values()], error=TrainingError)
    settings = VocabularySettings.checked(vocab_size, specials, config, symbols=symbols, **chosen(MergeOptions, options))
    work = checked_work(options)
    threads = thread_count(work["workers"], work["engine"])
    learner: Callable[..., Model] = learn_model
    superwords = chosen(SuperwordChoice, options) | chosen(SuperwordLimits, options)
    if any(value is not None for value in superwords.values()):
        from bpejit.training.superwords import SuperwordSettings, learn_superwords

        learner = partial(learn_superwords, SuperwordSettings.checked(settings, **superwords))
    learn = partial(learner, settings, inspect_counts, inspect_sizes, workers=threads, report=work["report"])
    if isinstance(inputs, Counts):
        check_symbols(symbols, inputs.header.settings)
        return learn(inputs, keep=True)
    if symbols is not None:
        options["pattern"] = symbols.pattern(options["pattern"])
    count_settings = CountSettings.checked(**chosen(RunSettings, options) | {"special_tokens": specials})
    check_symbols(symbols, count_settings)
    contents, found = open_inputs(inputs, options)
    if counts_file is not None and counts_file.resumes:
        return learn(counts_file.load(count_settings, found, contents))
    start = working_time()
    with count_corpus(count_settings, found, contents, **work, **chosen(Memory, options)) as counts:
        if counts_file is not None:
            counts = counts_file.save(counts, working_time() - start)
        return learn(counts)


@takes(CountsTraining)
def train_from_counts(counts: Counts, *, vocab_size: int, **options: Unpack[CountsTraining]) -> Tokenizer:
    """Train a tokenizer from counts. The result is that of training on the text that was counted.

    Pattern, version of Unicode, special tokens and normalization of newlines are those of the counts. The tokens for
    `transformers` must be special tokens of the counts.

    Parameters
    ----------
    counts : Counts
        From `bpejit.count`, `Counts.load` or `merge_counts`.
    vocab_size : int
        As for `train`.
    {options}

    Returns
    -------
    Tokenizer

    Raises
    ------
    ArgumentTypeError, CorpusError, CountsError, SpecialTokenError, TrainingError
    """
    found = arguments.instance("counts", counts, Counts, "load them with `bpejit.Counts.load`")
    return _announced(train_model, found, vocab_size=vocab_size, **options)


def thread_count(workers: int | None, engine: str) -> int:
    """Return the number of threads that learn merges."""
    if engine == RAY:
        workers = None  # the number of tasks on a cluster
    return 1 if engine == "serial" else workers or count_cpus()


def shortage_notes(model: Model, merges: str, wanted: int, min_frequency: int) -> list[str]:
    """Return a message if nothing was left to merge after `merges`, so that the vocabulary is smaller than `wanted`."""
    if model.vocab_size >= wanted:
        return []
    way = "more text gives more" if min_frequency == 1 else "more text, or a lower `min_frequency=`, gives more"
    return [
        f"nothing was left to merge after {merges}: the vocabulary has {model.vocab_size:,} tokens instead of {wanted:,}; {way}"
    ]


def training_notes(model: Model) -> list[str]:
    """Return messages about the training of a model that its user should know."""
    training = model.training
    notes = shortage_notes(model, f"{len(model.merges):,} merges", training["vocab_size"], training["min_frequency"])
    marked = training.get(BOM_INPUTS)
    if marked:
        notes.append(f"skipped the UTF-8 byte-order mark of {named_inputs(marked)}")
    lost = training.get(SKIPPED_RECORDS)
    if lost:
        first = [record for entry in lost for record in entry["first"]]
        notes.append(skipped_note(sum(entry["count"] for entry in lost), first))
    return notes


def _announced(learn: Callable[..., Model], inputs: Inputs | Counts, **options: Any) -> Tokenizer:
    """Learn a model, warn of what its user should know, and return its tokenizer with what was measured."""
    sizes: list[int] = []
    model = learn(inputs, inspect_sizes=lambda *found: sizes.extend(found), **options)
    for note in training_notes(model):
        warn_user(note)
    n_bytes, n_tokens = sizes
    tokenizer = Tokenizer.from_model(model, lazy=True)
    tokenizer._measured = {"tokens": n_tokens, "bytes_per_token": n_bytes / max(n_tokens, 1), "peak_memory": peak_memory()[0]}
    return tokenizer


def train_bpe(
    input_path: StrPath,
    vocab_size: int,
    special_tokens: Sequence[str],
    *,
    num_chunks: int | None = None,
    **options: Any,
) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Train on one file, and return the vocabulary and the merges, as in Stanford's CS336 assignment 1.

    Parameters
    ----------
    input_path : path
    vocab_size : int
    special_tokens : sequence of str
    num_chunks : int, optional
        The number of chunks of a file of this machine, instead of their size (`chunk_bytes`). The result does not depend on it.
    **options
        Any other parameter of `train` that does not concern saving (`out`, `also`, `resume`, `overwrite`).

    Returns
    -------
    vocab : dict of int to bytes
    merges : list of (bytes, bytes)
        In the order of creation.
    """
    path = arguments.path("input_path", input_path, error=CorpusError)
    settings: dict[str, Any] = {"vocab_size": vocab_size, "special_tokens": special_tokens, **options}
    arguments.bound("train_bpe", inspect.signature(train_model), (input_path,), settings)
    if num_chunks is not None:
        number = arguments.whole_number("num_chunks", num_chunks, least=1)
        if Path(path).is_file():
            settings["chunk_bytes"] = max(-(-Path(path).stat().st_size // number), 1)
    model = _announced(train_model, [input_path], **settings).model
    return dict(model.vocab), list(model.merges)


def find_chunk_boundaries(file: BinaryIO, desired_num_chunks: int, split_special_token: bytes) -> list[int]:
    """Return the positions that divide a file into chunks of about the same size, with equal results as in CS336.

    Parameters
    ----------
    file : binary file
    desired_num_chunks : int
        There are fewer if boundaries fall on the same position.
    split_special_token : bytes
        A boundary moves from a multiple of the size of a chunk to the next token, or to the end of the file. As in CS336, the
        file is searched in blocks of 4,096 bytes from there, and a token across two blocks is passed over.

    Raises
    ------
    ArgumentTypeError, OptionError

    Examples
    --------
    >>> import io
    >>> find_chunk_boundaries(io.BytesIO(b"one<e>two<e>three<e>four"), 3, b"<e>")
    [0, 9, 17, 24]
    """
    n_chunks = arguments.whole_number("desired_num_chunks", desired_num_chunks, least=1)
    token = split_special_token
    if not isinstance(token, bytes):
        raise arguments.wrong_type("split_special_token", token, "bytes", "encode it, as in '<|endoftext|>'.encode()")
    if not hasattr(file, "seek"):
        raise arguments.wrong_type("file", file, "a binary file", "open one, as in open(path, 'rb')")
    size = file.seek(0, os.SEEK_END)
    found = {0, size}
    step = size // n_chunks
    for position in range(step, step * n_chunks, step) if step else [0]:
        start = file.seek(position)
        while (block := file.read(4096)) and token not in block:
            start += len(block)
        found.add(start + block.find(token) if block else size)
    return sorted(found)
