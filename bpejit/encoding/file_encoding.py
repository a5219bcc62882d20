"""Encode text files into a token file, and decode token files: `Tokenizer.encode_files` and `decode_file`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bpejit.arrays import Array
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.contents import Contents
from bpejit.corpus.sources import Inputs, find_sources, total_bytes
from bpejit.encoding.decoder import BLOCK_IDS
from bpejit.encoding.encode_job import EncodeJob
from bpejit.encoding.encoder import Encoder
from bpejit.engines import make_engine
from bpejit.engines.base import Progress
from bpejit.storage.files import replacing
from bpejit.storage.outputs import check_outputs, is_standard_output
from bpejit.tokenfiles.opening import check_token_outputs, read_tokens, token_inputs, token_writer


@dataclass(frozen=True)
class EncodeReport:
    """Result of `Tokenizer.encode_files`.

    Parameters
    ----------
    path : Path, optional
        The token file; None for a stream or a device.
    tokens, bytes : int
        Ids written and bytes of text read.
    dtype : str
        `uint16` or `uint32`.
    seconds : float
        Wall time, reading and writing included.
    byte_order_marks : tuple of str
        The inputs that begin with a UTF-8 byte-order mark, whether or not it was left out.
    """

    path: Path | None
    tokens: int
    bytes: int
    dtype: str
    seconds: float
    byte_order_marks: tuple[str, ...] = ()


def encode_files(
    encoder: Encoder,
    inputs: Inputs,
    out: str | os.PathLike[str] | BinaryIO,
    *,
    dtype: str,
    format: str,  # noqa: A002
    workers: int | None,
    engine: str,
    chunk_bytes: int,
    overwrite: bool,
    contents: Contents,
    report: Progress,
) -> EncodeReport:
    """Encode files into one token file; the parameters are the same as for `Tokenizer.encode_files`."""
    begun = time.perf_counter()
    model = encoder.model
    sources = find_sources(inputs, contents)
    check_token_outputs(out, inputs=[source.path for source in sources], overwrite=overwrite, format=format)
    total = total_bytes(sources)
    splitter = encoder.splitter
    spread = make_engine(engine, workers, input_bytes=total, releases_gil=splitter.automaton is not None, returns_arrays=True)
    written = read = 0
    with token_writer(
        out, dtype=dtype, vocab_size=model.vocab_size, tokenizer_sha256=model.sha256, overwrite=overwrite, format=format
    ) as writer:
        job = EncodeJob(model, writer.dtype.name, encoder)
        chunks = Chunker(splitter, chunk_bytes=chunk_bytes).chunks(sources)
        report("encode", 0, total, "bytes")
        for chunk in spread.map_chunks(job, chunks):
            writer.write(chunk.ids, n_bytes=chunk.n_bytes)
            written += chunk.n_bytes
            read += chunk.n_read
            report("encode", read, total, "bytes")
    seconds = time.perf_counter() - begun
    return EncodeReport(writer.path, writer.n_tokens, written, writer.dtype.name, seconds, tuple(contents.marked))


def decode_file(
    encoder: Encoder,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | BinaryIO,
    *,
    dtype: str | None,
    format: str,  # noqa: A002
    overwrite: bool,
    report: Progress,
) -> int:
    """Decode a token file; the parameters are the same as for `Tokenizer.decode_file`."""
    if isinstance(out, (str, os.PathLike)):
        check_outputs([out], inputs=token_inputs(path, format=format), overwrite=overwrite)
        if is_standard_output(out):
            out = sys.stdout.buffer
    model = encoder.model
    tokens = read_tokens(path, dtype=dtype, tokenizer_sha256=model.sha256, vocab_size=model.vocab_size, format=format)

    done = 0

    def blocks() -> Iterator[Array]:
        nonlocal done
        for block in tokens.blocks(BLOCK_IDS):
            yield block
            done += block.size
            report("decode", done, tokens.n_tokens, "tokens")

    report("decode", 0, tokens.n_tokens, "tokens")
    pieces = encoder.decode_blocks(blocks())
    if isinstance(out, (str, os.PathLike)):
        with replacing(out) as file:
            return sum(file.write(piece.data) for piece in pieces)
    written = 0
    for piece in pieces:
        data = piece.tobytes()  # a stream may hold on to it
        out.write(data)
        written += len(data)
    return written
