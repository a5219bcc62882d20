"""Build subword vocabularies from text files, encode text files and decode token files, as `bpejit subword` does."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from bpejit.arguments import no_progress
from bpejit.arrays import Array
from bpejit.corpus.blocks import NOTHING_SKIPPED, AnyChunk, ChunkReader, no_texts
from bpejit.corpus.contents import Contents
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.registry import TEXT, load_format
from bpejit.corpus.sources import Source, find_sources, total_bytes
from bpejit.errors import CorpusError, TokenIdError, TokenizerFormatError, shorten
from bpejit.options import AUTO
from bpejit.progress_bar import Progress
from bpejit.storage.files import StrPath
from bpejit.storage.outputs import check_outputs, opened_output
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder, TokenCounter
from bpejit.t2t.text_encoders import EOS, EOS_ID, RESERVED_TOKENS
from bpejit.tokenfiles import check_token_outputs, load_format as load_token_format, output_format
from bpejit.tokenfiles.opening import read_tokens, token_inputs
from bpejit.tokenfiles.readers import TokenPaths, TokenSource

BLOCK_BYTES = 4 << 20
"""Size of a block of whole lines. A longer line is a block of its own."""

MAX_MIN_COUNT = 1000

MAX_COUNT_DIGITS = 15
"""Maximum number of digits of a count in a TSV file, so that the sum of many counts stays below 2^63."""

_SPACES = [chr(point).encode() for point in range(0x3001) if chr(point).isspace()]
_MAY_LEAD, _MAY_TRAIL = (np.isin(np.arange(256), [space[i] for space in _SPACES]) for i in (0, -1))
"""Bytes that are the first or the last one of a white-space character in UTF-8."""

_SPACE_CODES = [np.array([int.from_bytes(space, "big") for space in _SPACES if len(space) == width]) for width in (1, 2, 3)]
"""The bytes of white-space characters of one, two and three bytes, as big-endian numbers."""


@dataclass(frozen=True)
class Encoded:
    """The result of `encode_file`."""

    lines: int
    bytes: int
    tokens: int
    dtype: str
    format: str


def line_blocks(source: Source, contents: Contents | None = None) -> Iterator[bytes]:
    """Yield the content of a source in blocks of whole lines; of records, the lines of their texts.

    Parameters
    ----------
    source : Source
    contents : Contents, optional
        Counts the records without text.
    """
    if source.input_format != TEXT and not source.is_stream:
        yield from _record_lines(load_format(source.input_format).chunks(source, BLOCK_BYTES), contents)
        return
    with source.open_stream() as stream:
        chunks: Iterator[Any] = load_format(stream.input_format).stream_chunks(stream, source, BLOCK_BYTES)
        if stream.input_format == TEXT:
            yield from (chunk.data for chunk in chunks)
        else:
            yield from _record_lines(chunks, contents)


def _record_lines(chunks: Iterator[AnyChunk], contents: Contents | None) -> Iterator[bytes]:
    reader = ChunkReader()
    skipped = NOTHING_SKIPPED
    n_documents = 0
    for chunk in chunks:
        block = chunk.read(reader)
        skipped += block.skipped
        ends = np.empty(0, np.int64) if block.ends is None else block.ends
        n_documents += ends.size
        if ends.size:
            yield np.insert(block.text[: block.cut], ends, ord("\n")).tobytes()
    if skipped and not n_documents:
        raise no_texts(skipped)
    if contents is not None:
        contents.skipped += skipped


def _text_bytes(sources: list[Source]) -> int | None:
    """Return the size of plain text, or None if there are other inputs, the size of whose texts is not known."""
    plain = all(source.input_format == TEXT and source.compression is None for source in sources)
    return total_bytes(sources) if plain else None


def strip_lines(block: bytes) -> bytes:
    """Remove white space at both ends of each line, and all carriage returns, as the published code does when it reads a line.

    Only lines that start or end with a white-space character are decoded. To decode all takes twice as long for English, and to
    decode those that end with a byte of such a character ten times as long for Japanese.
    """
    block = block.replace(b"\r", b"")
    data = np.frombuffer(b"\n\n\n" + block + b"\n\n\n", np.uint8)
    breaks = np.flatnonzero(data == 0x0A)[2:-2]
    starts, ends = breaks[:-1] + 1, breaks[1:]
    chosen = np.flatnonzero((starts < ends) & (_MAY_LEAD[data[starts]] | _MAY_TRAIL[data[ends - 1]]))
    starts, ends = starts[chosen], ends[chosen]
    found = np.zeros(starts.size, bool)
    for width, codes in enumerate(_SPACE_CODES, start=1):
        for first in (starts, ends - width):
            number = np.zeros(first.size, np.int64)
            for i in range(width):
                number = number << 8 | data[first + i]
            found |= np.isin(number, codes)
    parts = []
    done = 0
    for start, end in zip((starts[found] - 3).tolist(), (ends[found] - 3).tolist(), strict=True):
        parts += [
            block[done:start],
            block[start:end].decode("utf-8", "surrogateescape").strip().encode("utf-8", "surrogateescape"),
        ]
        done = end
    return b"".join([*parts, block[done:]])


def _line_bytes(source: Source) -> int | None:
    """Return the size of the lines of a source without compression; None for a pipe."""
    if source.size is None or (source.input_format == TEXT and source.compression is None):
        return source.size
    return sum(map(len, line_blocks(source)))


class Sampler:
    """Takes every n-th text, starting with text n, until a budget of characters is used, as the published code does.

    Parameters
    ----------
    size : int, optional
        Of all texts: n is half of it divided by the budget, rounded down, plus 1; without a size it is 1.
    budget : int

    Attributes
    ----------
    left : int
        What is left of the budget.
    """

    def __init__(self, size: int | None, budget: int) -> None:
        self._step = 1 + int((size or 0) / budget / 2)
        self._next = self._step - 1
        self.left = budget

    def take(self, texts: list[bytes]) -> list[bytes]:
        """Return the chosen ones of the next texts."""
        chosen = []
        for text in texts[self._next :: self._step]:
            if self.left <= 0:
                break
            self.left -= len(text.decode("utf-8", "surrogateescape"))
            chosen.append(text)
        self._next = (self._next - len(texts)) % self._step
        return chosen


def sample_lines(source: Source, byte_budget: int | None, contents: Contents | None = None) -> Iterator[tuple[bytes, int]]:
    """Yield sampled lines of a source in blocks, each with the number of bytes read for it. Lines are stripped.

    Parameters
    ----------
    source : Source
    byte_budget : int, optional
        Without one, all lines are taken. Otherwise the same lines as by Tensor2Tensor with this `file_byte_budget` (see
        `Sampler`). The size of compressed text and of records is that of their lines, so they are read twice; that of a pipe is
        unknown.
    contents : Contents, optional
        Counts the records without text.
    """
    if byte_budget is None:
        for block in line_blocks(source, contents):
            yield strip_lines(block), len(block)
        return
    sampler = Sampler(_line_bytes(source), byte_budget)
    for block in line_blocks(source, contents):
        yield b"\n".join(sampler.take(strip_lines(block).removesuffix(b"\n").split(b"\n"))), len(block)
        if sampler.left <= 0:
            return


def count_tokens(
    inputs: Inputs,
    *,
    byte_budget: int | None = None,
    contents: Contents | None = None,
    progress: Progress = no_progress,
) -> Counter[str]:
    """Count the tokens of files in which each line is a text.

    Parameters
    ----------
    inputs : paths
        As for `bpejit.train`; each line of a record's text is a text. White space at the ends of lines is not counted. A file
        whose name ends in `.tsv` contains lines `word<TAB>count`, and each word is a token.
    byte_budget : int, optional
        Budget of each file; see `sample_lines`.
    contents : Contents, optional
        How the first bytes of each file are checked. By default byte-order marks are skipped.
    progress : callable, optional

    Raises
    ------
    CorpusError
        If a file cannot be read, or if a TSV file contains a malformed line.
    """
    contents = contents or Contents(strip_bom=True)
    sources = find_sources(inputs, contents)
    total = _text_bytes(sources)
    done = 0
    counter = TokenCounter()
    listed: Counter[str] = Counter()
    progress("count", 0, total, "bytes")
    for source in sources:
        if source.path.endswith(".tsv"):
            n_lines = 0
            for block in line_blocks(source, contents):
                n_lines = _add_counts(block, n_lines, source.path, listed)
                done += len(block)
        else:
            for block, read in sample_lines(source, byte_budget, contents):
                counter.add_lines(block)
                done += read
                progress("count", done, total, "bytes")
    counts = counter.counts()
    counts.update(listed)
    progress("count", done, done, "bytes")
    return counts


def _add_counts(block: bytes, n_lines: int, path: str, counts: Counter[str]) -> int:
    """Add lines `word<TAB>count` that follow `n_lines` others. Return the new number of lines."""
    lines = block.split(b"\n")
    for line in lines if lines[-1] else lines[:-1]:
        n_lines += 1
        word, _, count = line.rstrip(b"\r").rpartition(b"\t")
        if not word or not count.isdigit() or len(count.lstrip(b"0")) > MAX_COUNT_DIGITS:
            raise CorpusError(
                f"`{path}`, line {n_lines}: found {shorten(line.decode('utf-8', 'backslashreplace'))}; expected "
                f"`word<TAB>count` with a count below 10^{MAX_COUNT_DIGITS}: correct the line, or rename the file if it is text"
            )
        counts[word.decode("utf-8", "surrogateescape")] += int(count.lstrip(b"0") or b"0")
    return n_lines


def reserved_tokens(given: Iterable[str]) -> list[str]:
    """Return the given reserved tokens, preceded by the default ones unless these are among them."""
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
    progress: Progress = no_progress,
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
    counts = count_tokens(inputs, byte_budget=byte_budget, contents=contents, progress=progress)
    return build_vocabulary(counts, vocab_size, progress, max_subtoken_length, reserved_tokens(reserved))


def build_vocabulary(
    counts: Counter[str], vocab_size: int, progress: Progress, max_subtoken_length: int | None, reserved: list[str]
) -> SubwordTextEncoder:
    """Build a vocabulary of about `vocab_size` subtokens from counts."""
    progress("build", 0, None, "iterations")
    return SubwordTextEncoder.build_to_target_size(
        vocab_size, counts, 1, MAX_MIN_COUNT,
        max_subtoken_length=max_subtoken_length, reserved_tokens=reserved,
        report=lambda done: progress("build", done, None, "iterations"),
    )  # fmt: skip


def encode_file(
    encoder: SubwordTextEncoder,
    inputs: Inputs,
    out: StrPath | BinaryIO,
    *,
    append_eos: bool = False,
    format: str = AUTO,  # noqa: A002
    contents: Contents | None = None,
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> Encoded:
    """Encode files in which each line is a text, and write the ids to a token file.

    Parameters
    ----------
    encoder : SubwordTextEncoder
    inputs : paths
        As for `bpejit.train`; each line of a record's text is a text.
    out : path or binary stream
        As for `Tokenizer.encode_files`.
    append_eos : bool
        Append EOS_ID to each line.
    format : str
        A format of token files, or `auto` for the one with the suffix of `out`, and `bin` for others.
    contents : Contents, optional
        How the first bytes of each file are checked. By default byte-order marks are encoded.
    overwrite : bool
        Whether to replace existing files.
    progress : callable, optional

    Raises
    ------
    CorpusError, OutputError
        If a file cannot be read or written, or if an output exists and `overwrite` is false.
    TokenFileError
        If the format is unknown.
    TokenizerFormatError
        If the vocabulary cannot encode a line, or lacks an end-of-sentence token and `append_eos` is true.
    """
    if append_eos and encoder.all_subtoken_strings[EOS_ID : EOS_ID + 1] not in ((EOS,), (f"{EOS}_",)):
        found = encoder.all_subtoken_strings[EOS_ID : EOS_ID + 1]
        raise TokenizerFormatError(
            f"the vocabulary has no end-of-sentence token: id {EOS_ID} is {shorten(found[0] if found else None)}; expected "
            f"{EOS!r}: leave out `append_eos=True`, or build a vocabulary that starts with the reserved tokens"
        )
    contents = contents or Contents()
    format = output_format(out, format)  # noqa: A001
    sources = find_sources(inputs, contents)
    read = [*(source.path for source in sources), *([encoder.filename] if encoder.filename else [])]
    check_token_outputs(out, inputs=read, overwrite=overwrite, format=format)
    total = _text_bytes(sources)
    lines = done = 0
    progress("encode", 0, total, "bytes")
    form = load_token_format(format)
    with form.writer(out, vocab_size=encoder.vocab_size, tokenizer_sha256=encoder.sha256, overwrite=overwrite) as writer:
        for source in sources:
            for block in line_blocks(source, contents):
                for ids in encoder.encode_lines(block, append_eos=append_eos):
                    writer.write(ids)
                writer.write(np.zeros(0, np.uint32), n_bytes=len(block))
                lines += block.count(b"\n") + (not block.endswith(b"\n"))
                done += len(block)
                progress("encode", done, total, "bytes")
        dtype, tokens = writer.dtype.name, writer.n_tokens
    return Encoded(lines, done, tokens, dtype, format)


def decode_file(
    encoder: SubwordTextEncoder,
    tokens: TokenPaths,
    out: StrPath | BinaryIO,
    *,
    dtype: str | None = None,
    format: str = AUTO,  # noqa: A002
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> int:
    """Decode token files, one line for each EOS_ID. Return the number of bytes written.

    The parameters are the same as for `Tokenizer.decode_file`.

    Raises
    ------
    TokenFileError, TokenIdError, OutputError
        If the file is damaged or was encoded with another vocabulary, if it contains an id that is not in the vocabulary, or if
        the text cannot be written.
    """
    if isinstance(out, (str, os.PathLike)):
        read = [*token_inputs(tokens, format=format), *([encoder.filename] if encoder.filename else [])]
        check_outputs([out], inputs=read, overwrite=overwrite)
    file = read_tokens(tokens, dtype=dtype, tokenizer_sha256=encoder.sha256, vocab_size=encoder.vocab_size, format=format)
    written = 0
    with opened_output(out) as target:
        for line in _decoded_lines(encoder, file, progress):
            target.write(line)
            written += len(line)
    return written


def _decoded_lines(encoder: SubwordTextEncoder, file: TokenSource, progress: Progress) -> Iterator[bytes]:
    """Yield the lines of a token file, each of which ends with EOS_ID, except perhaps the last one."""
    done = 0
    waiting: list[Array] = []
    progress("decode", 0, file.n_tokens, "tokens")
    for block in file.blocks():
        _check_ids(block, encoder.vocab_size, done)
        start = 0
        for end in np.flatnonzero(block == EOS_ID).tolist():
            yield _line(encoder, [*waiting, block[start:end]])
            waiting, start = [], end + 1
        if start < block.size:
            waiting.append(block[start:])
        done += block.size
        progress("decode", done, file.n_tokens, "tokens")
    if waiting:
        yield _line(encoder, waiting)


def _check_ids(block: Array, vocab_size: int, position: int) -> None:
    wrong = np.flatnonzero(block >= vocab_size)
    if wrong.size:
        raise TokenIdError(
            f"id {int(block[wrong[0]])} at position {position + int(wrong[0])} is not in the vocabulary; expected 0 to "
            f"{vocab_size - 1}: decode with the vocabulary that was used for encoding"
        )


def _line(encoder: SubwordTextEncoder, parts: list[Array]) -> bytes:
    text = encoder.decode(np.concatenate(parts)) + "\n"
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # an escaped surrogate, which does not occur in text, but may in the output of a model
        return text.encode("utf-8", "replace")
