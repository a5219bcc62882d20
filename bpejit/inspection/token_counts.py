"""Count the tokens of inputs, at the speed of encoding; the arguments of the functions that do so."""

from __future__ import annotations

import fnmatch
import os
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bpejit import arguments
from bpejit.arguments import no_progress
from bpejit.arrays import Array
from bpejit.corpus.blocks import NOTHING_SKIPPED, AnyChunk, Skipped, check_texts
from bpejit.corpus.chunks import CHUNK_BYTES, Chunker, ChunkReader
from bpejit.corpus.contents import Contents
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.input_streams import STANDARD_INPUT
from bpejit.corpus.reading_options import ReadingOptions
from bpejit.corpus.sources import Source, find_sources, total_bytes
from bpejit.encoding.codec import Codec
from bpejit.encoding.encoder import Encoder
from bpejit.engines import FunctionJob, checked_work, make_engine
from bpejit.errors import OptionError, shorten
from bpejit.formats.any_format import load_model
from bpejit.inspection.names import tokenizer_names
from bpejit.inspection.tables import Row
from bpejit.inspection.text_measures import (
    OTHER,
    SCRIPTS,
    UNDETERMINED,
    ScriptTable,
    TextMeasures,
    measure_text,
    scripts_around,
    token_scripts,
)
from bpejit.inspection.vocabulary_measures import token_properties
from bpejit.kernels.inspection.amounts import count_ids
from bpejit.model import Model
from bpejit.options import chosen
from bpejit.progress_bar import Progress

AnyTokenizer: TypeAlias = Any
"""A `bpejit.Tokenizer`, the path of one, or a `GivenModel`."""


class GivenModel(NamedTuple):
    """The model of a tokenizer that a user gave, and its path; for an object `tokenizer`, with a number after the first."""

    path: str
    model: Model


class Study(NamedTuple):
    """What a user gave: tokenizers and their names, the sources of inputs, and the options with which these are counted."""

    models: list[GivenModel]
    names: list[str]
    codecs: list[Codec]
    sources: list[Source]
    counting: dict[str, Any]

    def count_each(self, first: int = 0, **options: Any) -> Iterator[InputCounts]:
        """Yield the counts of each tokenizer from the `first` on, or nothing if there are no inputs."""
        codecs = self.codecs[first:] if self.sources else []
        for number, codec in enumerate(codecs):
            yield count_inputs(codec, self.sources, turn=(number, len(codecs)), **self.counting, **options)

    def hashes(self) -> list[Row]:
        """Return the path and the hash of each tokenizer."""
        return [{"path": entry.path, "sha256": entry.model.sha256} for entry in self.models]


@contextmanager
def given_inputs(
    tokenizers: Sequence[AnyTokenizer],
    inputs: Inputs | None,
    labels: Mapping[str, str] | None,
    options: Mapping[str, Any],
    *,
    more_reads: int = 0,
) -> Iterator[Study]:
    """Return a context manager that yields tokenizers and inputs, which can be read once for each of these, and further times.

    If they are read more than once, standard input and pipes are copied to temporary files, whose labels are their names, and
    texts are kept in memory. Without inputs there are no sources.

    Raises
    ------
    ArgumentTypeError, CorpusError, EngineError, OptionError, TokenizerFormatError
    """
    models = _given_models(tokenizers)
    names = tokenizer_names([entry.path for entry in models], options["names"])
    counting = checked_work(options)
    labels = {} if labels is None else labels
    if not isinstance(labels, Mapping) or not all(isinstance(part, str) for item in labels.items() for part in item):
        raise arguments.wrong_type("labels", labels, "a dict of globs to labels", "write labels={'en/*.txt': 'english'}")
    counting["labels"] = all_labels = dict(labels)
    if isinstance(inputs, (list, tuple)) and not inputs:
        inputs = None
    if all_labels and inputs is None:
        raise OptionError("labels groups inputs, and there are none; expected some: name them, or leave `labels=` out")
    contents = Contents(**chosen(ReadingOptions, options))
    found: list[Source] = []
    with ExitStack() as copies:
        for number, source in enumerate(() if inputs is None else find_sources(inputs, contents)):
            if len(models) + more_reads == 1 or source.size is not None:
                found.append(source)
            elif source.texts is not None:
                found.append(replace(source, texts=list(source.texts)))  # type: ignore[arg-type] # which is only iterated
            else:
                copy = Path(copies.enter_context(tempfile.TemporaryDirectory(prefix="bpejit-"))) / str(number)
                stream = sys.stdin.buffer if source.path == STANDARD_INPUT else Path(source.path).open("rb")  # noqa: SIM115
                with stream as file, copy.open("wb") as target:
                    shutil.copyfileobj(file, target, 1 << 20)
                all_labels[str(copy)] = source.path
                found += find_sources([copy], contents)
        yield Study(models, names, [Codec(entry.model) for entry in models], found, counting)


def _given_models(tokenizers: Sequence[AnyTokenizer]) -> list[GivenModel]:
    found = []
    n_objects = 0
    for given in tokenizers:
        model = getattr(given, "model", None)
        if isinstance(model, Model):
            n_objects += 1
            found.append(GivenModel(getattr(given, "path", f"tokenizer {n_objects}".removesuffix(" 1")), model))
        elif isinstance(given, (str, os.PathLike)):
            found.append(GivenModel(arguments.path("tokenizer", given), load_model(given)))
        else:
            expected = "a Tokenizer, or the path of one"
            raise arguments.wrong_type("tokenizer", given, expected, "load it with `bpejit.load`")
    return found


_Used = tuple[Array, Array]
"""The ids that occur, and how often, int64 [used] each, in ascending order."""

_MOST_PARTS = 16
"""Number of counts of chunks that are summed together."""


@dataclass(frozen=True)
class TokenCounts:
    """The ids that occur in a text, and how often, int64 [used] each, in ascending order of ids; the amounts of the text."""

    ids: Array
    counts: Array
    measures: TextMeasures

    @property
    def total(self) -> int:
        """Number of tokens of the text."""
        return int(self.counts.sum())

    def dense(self, vocab_size: int) -> Array:
        """Return the count of each id, as int64 [vocab_size]."""
        counts = np.zeros(vocab_size, np.int64)
        counts[self.ids] = self.counts
        return counts


def text_figures(tokens: int, n_bytes: int, characters: int, words: int) -> Row:
    """Return the amounts of a text as fields of a report, and how much there is for each token; None if there are no tokens."""
    amounts = {"bytes": n_bytes, "characters": characters, "words": words}
    each = {f"{name}_per_token": amount / tokens if tokens else None for name, amount in amounts.items()}
    return {**amounts, "tokens": tokens, **each}


def sum_counts(parts: Sequence[_Used], vocab_size: int) -> _Used:
    """Return the sum of several counts."""
    if len(parts) == 1:
        return parts[0]
    dense = np.zeros(vocab_size, np.int64)
    for ids, counts in parts:
        dense[ids] += counts
    used = np.flatnonzero(dense)
    return used, dense[used]


def count_distinct(ids: Array, vocab_size: int) -> _Used:
    """Return the ids that occur, and how often, for `sum_counts`."""
    if ids.size < vocab_size // 4:  # a small file needs no array of the size of the vocabulary
        ordered = np.sort(ids).astype(np.int64)
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        return ordered[starts], np.diff(np.append(starts, ordered.size))
    dense = np.zeros(vocab_size, np.int64)
    count_ids(ids, dense)
    used = np.flatnonzero(dense)
    return used, dense[used]


@dataclass(frozen=True)
class InputCounts:
    """The counts of several inputs.

    Parameters
    ----------
    total : TokenCounts
    groups : dict of str to TokenCounts
        By label or file, in the order of the inputs.
    scripts : list of dict
        In descending order of bytes; empty if they were not requested. Each has the name `script` and figures
        (see `text_figures`): of the tokens of the script, and its words. A script that occurs only inside tokens of other
        scripts, such as special tokens, may have words and no tokens.
    skipped : Skipped
        The records without text.
    """

    total: TokenCounts
    groups: dict[str, TokenCounts]
    scripts: list[Row] = field(default_factory=list)
    skipped: Skipped = NOTHING_SKIPPED

    @property
    def rows(self) -> dict[str, TokenCounts]:
        """The groups, and then the `total`."""
        return {**self.groups, "total": self.total}


class ChunkTokens(NamedTuple):
    """The tokens of one chunk, of which `n_read` bytes were read.

    `by_script` has the numbers of tokens of each script, and of their bytes and characters, as int64 [scripts, 3].
    """

    counts: _Used
    measures: TextMeasures
    by_script: Array | None
    n_read: int
    skipped: Skipped


class CountTokensWorker:
    """Encode chunks with a single workspace, and measure their text."""

    def __init__(self, encoder: Encoder, by_script: bool) -> None:
        self._encoder = encoder
        self._workspace = encoder.new_workspace()
        self._vocab_size = encoder.model.vocab_size
        self._reader = ChunkReader()
        self._table = ScriptTable(by_script=by_script)
        self._scripts = token_scripts(encoder.model, self._table) if by_script else None

    def run(self, chunk: AnyChunk) -> ChunkTokens:
        """Encode one chunk, and measure its text."""
        block = chunk.read(self._reader)
        measures = measure_text(block.text, block.cut, self._table, block.ends)
        if block.ends is None:
            ids = self._encoder.encode_chunk(block.text, block.cut, block.stop, block.final, self._workspace)
        else:
            ids, _ = self._encoder.encode_block(block.text, block.ends, self._workspace, specials=block.specials)
        counts = count_distinct(ids, self._vocab_size)
        return ChunkTokens(counts, measures, self._count_scripts(ids, block.text, block.cut), block.n_read, block.skipped)

    def _count_scripts(self, ids: Array, text: Array, cut: int) -> Array | None:
        """Return the sums of all tokens; those whose script depends on the text are looked up there."""
        if self._scripts is None:
            return None
        properties = token_properties(self._encoder.model)
        scripts = self._scripts[ids]
        lengths = properties.lengths[ids]
        characters = properties.characters[ids]
        unknown = np.flatnonzero(scripts == UNDETERMINED)
        ends = np.cumsum(lengths)
        if unknown.size and int(ends[-1]) == cut:
            ends = ends[unknown]
            scripts[unknown] = scripts_around(text, ends - lengths[unknown], ends, self._table)
        else:  # a normalizer changed the text
            scripts[unknown] = OTHER
            characters[unknown] = 0
        columns = (np.ones(ids.size), lengths, characters)
        sums = [np.bincount(scripts, weights=column, minlength=len(SCRIPTS)) for column in columns]
        return np.stack(sums, axis=1).astype(np.int64)


def count_inputs(
    codec: Codec,
    sources: Sequence[Source],
    *,
    labels: Mapping[str, str] | None = None,
    by_script: bool = False,
    workers: int | None = None,
    engine: str = "auto",
    chunk_bytes: int = CHUNK_BYTES,
    report: Progress = no_progress,
    stage: str = "encode",
    turn: tuple[int, int] = (0, 1),
) -> InputCounts:
    """Encode inputs and count their tokens.

    Parameters
    ----------
    codec : Codec
    sources : sequence of Source
    labels : mapping of str to str, optional
        Label of the files that match a glob, of which there must be one. Other files are labeled by their paths.
    by_script : bool
        Whether to count by script as well.
    workers, engine, chunk_bytes
        How the work is distributed (see `bpejit.engines`). The result does not depend on it.
    report : callable
    stage : str
        Its name for the progress.
    turn : tuple of (int, int)
        How many tokenizers have counted the inputs before in the same stage, and how many do so in all.

    Raises
    ------
    CorpusError
        If there is no text.
    OptionError
        If a glob matches no input.
    """
    names = group_names([source.path for source in sources], labels or {})
    encoder = codec.encoder
    size = codec.model.vocab_size
    total = total_bytes(list(sources))
    splitter = encoder.splitter
    spread = make_engine(
        engine,
        workers,
        input_bytes=total,
        releases_gil=splitter.automaton is not None,
        returns_arrays=True,
    )
    chunker = Chunker(splitter, chunk_bytes=chunk_bytes, group_files=False)
    job = FunctionJob(CountTokensWorker.run, partial(CountTokensWorker, encoder, by_script))
    begun: deque[int] = deque()  # the source of each chunk whose result is awaited

    def chunks() -> Iterator[AnyChunk]:
        for index, source in enumerate(sources):
            for chunk in chunker.chunks([source]):
                begun.append(index)
                yield chunk

    def tell(n_read: int) -> None:
        report(stage, turn[0] * (total or 0) + n_read, total and turn[1] * total, "bytes")

    tell(0)
    nothing = np.zeros(0, np.int64)
    groups = dict.fromkeys(names, TokenCounts(nothing, nothing, TextMeasures()))  # also of sources without chunks
    sums = np.zeros((len(SCRIPTS), 3), np.int64)
    done, skipped = 0, NOTHING_SKIPPED
    results: Iterator[tuple[int, ChunkTokens]] = ((begun.popleft(), result) for result in spread.map_chunks(job, chunks()))
    for name, of_label in groupby(results, key=lambda entry: names[entry[0]]):
        earlier = groups[name]  # of other sources with the same label
        parts = [(earlier.ids, earlier.counts)] if earlier.ids.size else []
        measures = earlier.measures
        for _, of_source in groupby(of_label, key=itemgetter(0)):
            text = TextMeasures()
            for _, result in of_source:
                parts.append(result.counts)
                if len(parts) == _MOST_PARTS:
                    parts = [sum_counts(parts, size)]
                text = text.followed_by(result.measures)
                sums += 0 if result.by_script is None else result.by_script
                done += result.n_read
                skipped += result.skipped
                tell(done)
            measures = measures.beside(text)
        groups[name] = TokenCounts(*sum_counts(parts, size), measures)
    merged = sum_counts([(counts.ids, counts.counts) for counts in groups.values()], size)
    measured = reduce(TextMeasures.beside, (counts.measures for counts in groups.values()), TextMeasures())
    check_texts(measured.bytes, skipped, [source.path for source in sources])
    counted = TokenCounts(*merged, measured)
    scripts = _script_rows(sums, measured.word_counts) if by_script else []
    return InputCounts(counted, groups, scripts, skipped)


def group_names(paths: Sequence[str], labels: Mapping[str, str]) -> list[str]:
    """Return the label of each path, that of the first glob that matches it; without one, the path itself."""
    found: dict[str, str] = {}
    for glob, label in labels.items():
        matched = [path for path in paths if path == glob or fnmatch.fnmatch(path, glob)]
        found = dict.fromkeys(matched, label) | found
        if not matched:
            shown = ", ".join(f"`{path}`" for path in paths[:3])
            raise OptionError(
                f"labels has {shorten(label)} for `{glob}`, which matches none of the inputs ({shown}); expected a glob of the "
                "paths as they are given: name these files as inputs too, or correct the glob"
            )
    return [found.get(path, path) for path in paths]


def _script_rows(sums: Array, word_counts: Array) -> list[Row]:
    """Return the figures of scripts that have tokens or words, in descending order of bytes."""
    rows = []
    for script, (tokens, n_bytes, characters), words in zip(SCRIPTS, sums.tolist(), word_counts.tolist(), strict=True):
        if tokens or words:
            rows.append({"script": script, **text_figures(tokens, n_bytes, characters, words)})
    return sorted(rows, key=lambda row: -row["bytes"])
