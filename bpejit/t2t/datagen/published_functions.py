"""Functions of Tensor2Tensor's `tokenizer` and `text_problems`, under their published names."""

from __future__ import annotations

import glob
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from bpejit.corpus.contents import Contents
from bpejit.corpus.registry import TEXT
from bpejit.corpus.sources import find_sources
from bpejit.storage.files import StrPath
from bpejit.t2t.subword_files import line_blocks
from bpejit.t2t.text_encoders import EOS_ID, TextEncoder
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
    return Counter(counter.counts())


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
