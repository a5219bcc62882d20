"""Vocabularies of subtokens from text files, and text files to ids and back: what `bpejit subword` does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.contents import Contents
from bpejit.corpus.sources import Inputs, Source, find_sources, total_bytes
from bpejit.errors import CorpusError, TokenizerFormatError, shorten
from bpejit.storage.files import OutputFile, StrPath, replacing
from bpejit.storage.outputs import check_outputs, is_standard_output
from bpejit.t2t.subword_text_encoder import EOS, EOS_ID, RESERVED_TOKENS, SubwordTextEncoder, TokenCounter
from bpejit.tokenfiles.flat import read_tokens, token_inputs
from bpejit.tokenfiles.writer import TokenFileWriter, check_token_outputs

BLOCK_BYTES = 4 << 20
"""Bytes of whole lines that are worked on at a time; a longer line is a block by itself."""

MAX_MIN_COUNT = 1000

MOST_DIGITS = 15
"""Of a count in a file of words and counts: sums of many of these are still below 2^63."""

Report = Callable[[str, int, "int | None", str], None]


class Writable(Protocol):
    """What takes bytes."""

    def write(self, data: bytes, /) -> object:
        """Append bytes."""


@dataclass(frozen=True)
class Encoded:
    """What `encode_file` did."""

    lines: int
    bytes: int
    tokens: int
    dtype: str


def line_blocks(source: Source) -> Iterator[bytes]:
    """Yield a source in pieces that end with a line."""
    parts: list[bytes] = []
    with source.open() as file:
        while block := _read(file, source):
            cut = block.rfind(b"\n") + 1
            if cut:
                yield b"".join([*parts, block[:cut]])
                parts = []
            if cut < len(block):
                parts.append(block[cut:])
    if parts:
        yield b"".join(parts)


def _read(file: BinaryIO, source: Source) -> bytes:
    try:
        return file.read(BLOCK_BYTES)
    except OSError as error:
        raise CorpusError(
            f"cannot read the input `{source.path}`: {error.strerror or error}; expected a readable file: check the disk"
        ) from error


def sample_lines(source: Source, byte_budget: int | None) -> Iterator[tuple[bytes, int]]:
    """Yield lines of a source in blocks, each with how many bytes were read for it.

    Parameters
    ----------
    source : Source
    byte_budget : int, optional
        Where the source is larger, every n-th line is taken, from the first, until their bytes reach the budget; n is the
        size over the budget, rounded up. Of a pipe, whose size is not known, n is 1.
    """
    if byte_budget is None or (source.size is not None and source.size <= byte_budget):
        for block in line_blocks(source):
            yield block, len(block)
        return
    step = 1 if source.size is None else -(-source.size // byte_budget)
    taken = 0
    skip = 0
    for block in line_blocks(source):
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        chosen = []
        for line in lines[skip::step]:
            if taken >= byte_budget:
                break
            taken += len(line)
            chosen.append(line)
        skip = (skip - len(lines)) % step
        yield b"\n".join(chosen), len(block)
        if taken >= byte_budget:
            return


def count_tokens(
    inputs: Inputs,
    *,
    byte_budget: int | None = None,
    contents: Contents | None = None,
    progress: Report | None = None,
) -> dict[str, int]:
    """Count the tokens of files, each line of which is a text.

    Parameters
    ----------
    inputs : paths
        Files, globs or `-`. One whose name ends in `.tsv` has lines `word<TAB>count`, and its words are taken as tokens.
    byte_budget : int, optional
        For each file; see `sample_lines`.
    contents : Contents, optional
        How the first bytes of each file are checked; by default byte-order marks are skipped.
    progress : callable, optional

    Raises
    ------
    CorpusError
        If a file cannot be read or has a line that is no count, or if there is no token at all.
    """
    sources = find_sources(inputs, contents or Contents(strip_bom=True))
    total = total_bytes(sources)
    done = 0
    counter = TokenCounter()
    listed: dict[str, int] = {}
    if progress is not None:
        progress("counting", 0, total, "bytes")
    for source in sources:
        if source.path.endswith(".tsv"):
            number = 0
            for block in line_blocks(source):
                number = _add_counts(block, number, source.path, listed)
                done += len(block)
        else:
            for block, read in sample_lines(source, byte_budget):
                counter.add_lines(block)
                done += read
                if progress is not None:
                    progress("counting", done, total, "bytes")
    counts = counter.counts()
    for word, count in listed.items():
        counts[word] = counts.get(word, 0) + count
    if not counts:
        raise CorpusError(
            f"the sample is empty: no token in {len(sources)} input(s); expected text or counts: check files and byte budget"
        )
    if progress is not None:
        progress("counting", done, done, "bytes")
    return counts


def _add_counts(block: bytes, number: int, path: str, counts: dict[str, int]) -> int:
    """Add lines `word<TAB>count`; `number` lines came before. Return how many have come now."""
    lines = block.split(b"\n")
    for line in lines if lines[-1] else lines[:-1]:
        number += 1
        word, _, count = line.rstrip(b"\r").rpartition(b"\t")
        if not word or not count.isdigit() or len(count.lstrip(b"0")) > MOST_DIGITS:
            raise CorpusError(
                f"`{path}`, line {number}: {shorten(line.decode('utf-8', 'backslashreplace'))} is no count below "
                f"10^{MOST_DIGITS}; "
                "expected `word<TAB>count`: correct the line, or rename the file if it is text"
            )
        token = word.decode("utf-8", "surrogateescape")
        counts[token] = counts.get(token, 0) + int(count.lstrip(b"0") or b"0")
    return number


def reserved_tokens(given: Iterable[str]) -> list[str]:
    """Return the reserved tokens of a vocabulary: the two that all have, unless they are among those given, and those given."""
    given = list(given)
    return given if set(given) & set(RESERVED_TOKENS) else [*RESERVED_TOKENS, *given]


def train_vocabulary(
    inputs: Inputs,
    vocab_size: int,
    *,
    max_subtoken_length: int | None = None,
    byte_budget: int | None = None,
    reserved: Iterable[str] = (),
    contents: Contents | None = None,
    progress: Report | None = None,
) -> SubwordTextEncoder:
    """Build a vocabulary of about `vocab_size` subtokens from files.

    Parameters
    ----------
    inputs, byte_budget, contents, progress
        As for `count_tokens`.
    vocab_size : int
    max_subtoken_length : int, optional
    reserved : iterable of str
        See `reserved_tokens`.
    """

    def report(done: int) -> None:
        if progress is not None:
            progress("building", done, None, "iterations")

    counts = count_tokens(inputs, byte_budget=byte_budget, contents=contents, progress=progress)
    report(0)
    return SubwordTextEncoder.build_to_target_size(
        vocab_size, counts, 1, MAX_MIN_COUNT,
        max_subtoken_length=max_subtoken_length, reserved_tokens=reserved_tokens(reserved), report=report,
    )  # fmt: skip


def encode_file(
    encoder: SubwordTextEncoder,
    inputs: Inputs,
    out: StrPath | BinaryIO,
    *,
    append_eos: bool = False,
    contents: Contents | None = None,
    overwrite: bool = False,
    progress: Report | None = None,
) -> Encoded:
    """Write the ids of files, each line of which is a text, to a token file (see `bpejit.tokenfiles.flat`).

    Parameters
    ----------
    encoder : SubwordTextEncoder
    inputs : paths
        Files, globs or `-`.
    out : path or binary stream
        As for `Tokenizer.encode_files`.
    append_eos : bool
        Write EOS_ID after each line.
    contents : Contents, optional
        How the first bytes of each file are checked; by default byte-order marks are encoded.
    overwrite : bool
        Whether existing files are replaced.
    progress : callable, optional

    Raises
    ------
    CorpusError, OutputError
        If a file cannot be read, or the ids not written; also if a file exists and `overwrite` is false.
    TokenizerFormatError
        If the vocabulary cannot write a line, or lacks the end mark that is wanted.
    """
    if append_eos and encoder.all_subtoken_strings[EOS_ID : EOS_ID + 1] != (EOS,):
        found = encoder.all_subtoken_strings[EOS_ID : EOS_ID + 1]
        raise TokenizerFormatError(
            f"the vocabulary has no end mark: id {EOS_ID} is {shorten(found[0] if found else None)}; expected {EOS!r}: "
            "leave `append_eos=True` out, or build a vocabulary that begins with the reserved tokens"
        )
    sources = find_sources(inputs, contents)
    check_token_outputs(out, inputs=[source.path for source in sources], overwrite=overwrite)
    total = total_bytes(sources)
    lines = done = 0
    if progress is not None:
        progress("encoding", 0, total, "bytes")
    with TokenFileWriter(out, vocab_size=encoder.vocab_size, tokenizer_sha256=encoder.sha256, overwrite=overwrite) as writer:
        for source in sources:
            for block in line_blocks(source):
                for ids in encoder.encode_lines(block, append_eos=append_eos):
                    writer.write(ids)
                writer.write(np.zeros(0, dtype=np.uint32), n_bytes=len(block))
                lines += block.count(b"\n") + (not block.endswith(b"\n"))
                done += len(block)
                if progress is not None:
                    progress("encoding", done, total, "bytes")
        dtype, tokens = writer.dtype.name, writer.n_tokens
    return Encoded(lines, done, tokens, dtype)


def decode_file(
    encoder: SubwordTextEncoder,
    tokens: StrPath,
    out: StrPath | Writable,
    *,
    dtype: str | None = None,
    overwrite: bool = False,
    progress: Report | None = None,
) -> int:
    """Write the text of a token file, a line for each end mark; return its bytes. Without end marks it is one line.

    The parameters are those of `Tokenizer.decode_file`.

    Raises
    ------
    TokenFileError, TokenIdError, OutputError
        If the file is broken or of another vocabulary, has an id that the vocabulary lacks, or the text cannot be written.
    """
    if isinstance(out, (str, os.PathLike)):
        check_outputs([out], inputs=token_inputs(tokens), overwrite=overwrite)
        if is_standard_output(out):
            out = sys.stdout.buffer
    file = read_tokens(tokens, dtype=dtype, tokenizer_sha256=encoder.sha256, vocab_size=encoder.vocab_size)
    opened: AbstractContextManager[OutputFile | Writable]
    opened = replacing(out) if isinstance(out, (str, os.PathLike)) else nullcontext(out)
    done = written = 0
    waiting: list[Array] = []
    if progress is not None:
        progress("decoding", 0, file.n_tokens, "tokens")
    with opened as target:
        for block in file.blocks():
            start = 0
            for end in np.flatnonzero(block == EOS_ID).tolist():
                data = _line(encoder, [*waiting, block[start:end]])
                target.write(data)
                written += len(data)
                waiting = []
                start = end + 1
            if start < block.size:
                waiting.append(block[start:])
            done += block.size
            if progress is not None:
                progress("decoding", done, file.n_tokens, "tokens")
        if waiting:
            data = _line(encoder, waiting)
            target.write(data)
            written += len(data)
    return written


def _line(encoder: SubwordTextEncoder, parts: list[Array]) -> bytes:
    text = encoder.decode(np.concatenate(parts)) + "\n"
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # an escape of a surrogate: no text has one, ids that a model made may
        return text.encode("utf-8", "replace")


def check_output(path: StrPath) -> None:
    """See that a file can be written there, before the work that it is to hold.

    Raises
    ------
    OutputError
        If it cannot. Nothing is left behind.
    """
    if is_standard_output(path):
        return
    file = OutputFile(path)
    try:
        file._open(alone=True)
    finally:
        file._discard()


def load_vocabulary(path: StrPath) -> SubwordTextEncoder:
    """Load a vocabulary file."""
    return SubwordTextEncoder(Path(path))
