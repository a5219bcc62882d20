"""Functions of Tensor2Tensor's `tokenizer`, `text_problems` and `generator_utils`, under their published names.

They run in this process; `bpejit.generate_data` uses all cores, compares the inputs, and can be resumed.
"""

from __future__ import annotations

import glob
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.arguments import no_progress
from bpejit.arrays import Array
from bpejit.corpus.contents import Contents
from bpejit.corpus.registry import TEXT
from bpejit.corpus.sources import find_sources
from bpejit.storage.files import StrPath, replacing, replacing_all
from bpejit.t2t.datagen.problem_files import FileProblem
from bpejit.t2t.datagen.vocabularies import find_vocabularies, pack_numbers
from bpejit.t2t.example_arrays import write_examples
from bpejit.t2t.record_formats.formats import TfrecordWriter
from bpejit.t2t.shuffling import shuffle_records
from bpejit.t2t.subword_files import line_blocks
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder
from bpejit.t2t.text_encoders import EOS_ID, TextEncoder
from bpejit.t2t.tfrecords import frame_record, record_contents, serialize_example
from bpejit.t2t.vocabulary_building import TokenCounter
from bpejit.t2t.word_tokenizer import decode as decode, encode as encode, word_classes as word_classes

_logger = logging.getLogger("bpejit.subword")


def corpus_token_counts(text_filepattern: str, corpus_max_lines: int | None, split_on_newlines: bool = True) -> Counter[str]:
    """Count the tokens of the text files that match a glob. As published, none need match.

    Parameters
    ----------
    text_filepattern : str
    corpus_max_lines : int, optional
        Number of lines to read of all files together. 0 and None mean all.
    split_on_newlines : bool
        Whether each line is a text, without white space at its ends. Otherwise each file is one, without carriage returns.
    """
    lines = _matching_lines(text_filepattern, corpus_max_lines)
    texts = ("".join(line for _, line in file) for _, file in groupby(lines, itemgetter(0)))
    counter = TokenCounter()
    counter.add_texts((line.strip() for _, line in lines) if split_on_newlines else texts)
    return counter.counts()


def vocab_token_counts(text_filepattern: str, max_lines: int | None) -> dict[str, int]:
    """Read counts from files with lines `token,count`; the parameters are those of `corpus_token_counts`.

    As published, the last line of a token counts, and lines without a comma are skipped with a warning in the log.
    """
    counts = {}
    for number, (_, line) in enumerate(_matching_lines(text_filepattern, max_lines)):
        token, comma, count = line.strip().rpartition(",")
        if comma:
            counts[token] = int(count)
        else:
            _logger.warning("Malformed vocab line #%d '%s'", number, count)
    return counts


def _matching_lines(pattern: str, max_lines: int | None) -> Iterator[tuple[str, str]]:
    paths = sorted(glob.glob(pattern))  # noqa: PTH207 - the paths as they are given
    return islice(((path, line) for path in paths for line in _lines(path)), max_lines or None)


def _lines(path: StrPath) -> Iterator[str]:
    """Yield lines with their ends, and without carriage returns. A byte outside UTF-8 is a character of its own."""
    for source in find_sources([path], Contents(input_format=TEXT)):
        for block in line_blocks(source):
            for line in block.replace(b"\r", b"").splitlines(keepends=True):
                yield line.decode("utf-8", "surrogateescape")


def txt_line_iterator(txt_path: StrPath) -> Iterator[str]:
    """Yield the lines of a text file without white space at their ends. A byte outside UTF-8 is a character of its own."""
    return map(str.strip, _lines(txt_path))


def text2text_txt_iterator(source_txt_path: StrPath, target_txt_path: StrPath) -> Iterator[dict[str, str]]:
    """Yield `{"inputs": line, "targets": line}` for the lines of two files, until the shorter one ends, as published."""
    for inputs, targets in zip(txt_line_iterator(source_txt_path), txt_line_iterator(target_txt_path), strict=False):
        yield {"inputs": inputs, "targets": targets}


def text2text_generate_encoded(
    sample_generator: Iterable[dict[str, Any]],
    vocab: TextEncoder,
    targets_vocab: TextEncoder | None = None,
    has_inputs: bool = True,
    inputs_prefix: str = "",
    targets_prefix: str = "",
) -> Iterator[dict[str, Any]]:
    """Replace the texts of samples, after prefixes, by ids that end with `EOS_ID`. As published, the dicts are changed."""
    for sample in sample_generator:
        if has_inputs:
            sample["inputs"] = [*vocab.encode(inputs_prefix + sample["inputs"]), EOS_ID]
        sample["targets"] = [*(targets_vocab or vocab).encode(targets_prefix + sample["targets"]), EOS_ID]
        yield sample


def get_or_generate_vocab(
    data_dir: StrPath | None,
    tmp_dir: StrPath,
    vocab_filename: str | None,
    vocab_size: int,
    sources: Iterable[tuple[str, Sequence[str]]],
    file_byte_budget: float = 1e6,
    max_subtoken_length: int | None = None,
) -> SubwordTextEncoder:
    """Load the vocabulary of a folder, or build it from samples of files and store it there.

    Parameters
    ----------
    data_dir, vocab_filename : path, str, optional
        Without one of them, nothing is stored.
    tmp_dir : path
        The folder of the files.
    vocab_size : int
    sources : list of (str, list of str)
        A tar archive, at this path or URL, and files; those that `tmp_dir` lacks are read in the archive.
    file_byte_budget : float
        Characters of the sample of each file, which includes the tags of `.sgm` files, as published.
    max_subtoken_length : int, optional
    """
    files = [(Path(tmp_dir) / name, f"tar://{name}::{archive}") for archive, names in sources for name in names]
    settings = {
        "kind": "text2self",
        "approx_vocab_size": vocab_size,
        "file_byte_budget": int(file_byte_budget),
        "max_subtoken_length": max_subtoken_length or 1 << 30,
        "dataset_splits": [{"targets": [str(file) if file.exists() else member for file, member in files]}],
    }
    stored = Path(data_dir) / vocab_filename if data_dir and vocab_filename else None
    _logger.info("%s vocab file: %s", "Found" if stored and stored.exists() else "Generating", stored)
    with tempfile.TemporaryDirectory() as scratch:
        path = stored or Path(scratch) / "vocab"
        path.parent.mkdir(parents=True, exist_ok=True)
        problem = FileProblem(settings | {"vocab_filename": path.name})
        find_vocabularies(problem, path.parent, Path(tmp_dir), no_progress)
        return SubwordTextEncoder(path)


def generate_files(
    generator: Iterable[Mapping[str, Any] | None],
    output_filenames: Sequence[StrPath],
    max_cases: int | None = None,
    cycle_every_n: int = 1,
) -> None:
    """Write cases to TFRecord files in turn; all files appear at the end.

    Parameters
    ----------
    generator : iterable of dict
        Lists by name; the first value tells whether one has whole numbers, floats, or texts or bytes. None is left out.
    output_filenames : list of paths
        As published, nothing is done if one exists, or its name without `-unshuffled`.
    max_cases : int, optional
        0 and None mean all.
    cycle_every_n : int
        How many cases in a row go to a file.
    """
    if any(map(Path.exists, _final_paths(output_filenames))):
        _logger.info("Skipping generator because outputs files exists at %s", output_filenames)
        return
    counter = 0
    with replacing_all(output_filenames) as files:
        for case in islice((case for case in generator if case is not None), max_cases or None):
            if counter % 100_000 == 0:
                _logger.info("Generating case %d.", counter)
            lists = {name: list(values) for name, values in case.items()}
            if all(map(_are_whole, lists.values())):
                features = {name: pack_numbers([some]) for name, some in lists.items()}
                record = write_examples(features)[0].tobytes()
            else:
                record = frame_record(serialize_example(lists))
            files[counter // cycle_every_n % len(files)].write(record)
            counter += 1
    _logger.info("Generated %s Examples", counter)


def _are_whole(values: list[Any]) -> bool:
    """Return whether a list has one or more whole numbers, of 64 bits."""
    return bool(values) and all(isinstance(one, (int, np.integer)) and int(one).bit_length() < 64 for one in values)


def _final_paths(filenames: Sequence[StrPath]) -> list[Path]:
    return [Path(os.fspath(path).replace("-unshuffled", "")) for path in filenames]


def shuffle_dataset(
    filenames: Sequence[StrPath], extra_fn: Callable[[list[bytes]], Iterable[bytes]] | None = None, *, seed: int = 0
) -> None:
    """Shuffle TFRecord files, each by itself, to names without `-unshuffled`, and remove them.

    Parameters
    ----------
    filenames : list of paths
        As published, nothing is done if one exists without `-unshuffled`.
    extra_fn : callable, optional
        Returns the data of the records to write, from a list of those of the shuffled records of a file.
    seed : int
        Selects the order; the published code draws it from `random`.
    """
    targets = _final_paths(filenames)
    if any(map(Path.exists, targets)):
        _logger.info("Skipping shuffle because output files exist")
        return
    _logger.info("Shuffling data...")
    records: list[bytes] = []

    def keep(data: Array, starts: Array) -> None:
        records.extend(record_contents(data, starts))

    for shard, (source, target) in enumerate(zip(filenames, targets, strict=True)):
        records.clear()
        with replacing(target) as file:
            shuffle_records([source], TfrecordWriter(file, ()).write if extra_fn is None else keep, seed=seed, shard=shard)
            for record in extra_fn(records) if extra_fn else ():
                file.write(frame_record(record))
        Path(source).unlink()
    _logger.info("Data shuffled.")
