"""From text files to a token file, and back: what `Tokenizer.encode_files` and `decode_file` do."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bpejit.corpus.chunks import Chunker
from bpejit.corpus.sources import Inputs, find_sources, total_bytes
from bpejit.encoding import Encoder
from bpejit.engines import make_engine
from bpejit.engines.base import Progress
from bpejit.engines.jobs import EncodeJob
from bpejit.files import OutputFile, replacing
from bpejit.tokenfiles.flat import TokenFileWriter, open_tokens


@dataclass(frozen=True)
class EncodeReport:
    """What `Tokenizer.encode_files` did.

    Parameters
    ----------
    path : Path
        The token file.
    tokens, bytes : int
        Ids written and bytes of text read.
    dtype : str
        `uint16` or `uint32`.
    seconds : float
        Wall time, reading and writing included.
    """

    path: Path
    tokens: int
    bytes: int
    dtype: str
    seconds: float


def encode_files(
    encoder: Encoder,
    inputs: Inputs,
    out: str | os.PathLike[str],
    *,
    dtype: str,
    workers: int | None,
    engine: str,
    chunk_bytes: int,
    tell: Progress,
) -> EncodeReport:
    """Encode files into one token file; the parameters are those of `Tokenizer.encode_files`."""
    begun = time.perf_counter()
    model = encoder.model
    sources = find_sources(inputs)
    total = total_bytes(sources)
    splitter = encoder.splitter
    spread = make_engine(engine, workers, input_bytes=total, parallel="processes" if splitter.automaton is None else "threads")
    written = 0
    with TokenFileWriter(out, dtype=dtype, vocab_size=model.vocab_size, tokenizer_sha256=model.sha256) as writer:
        job = EncodeJob(model, writer.dtype.name, encoder)
        chunks = Chunker(splitter, chunk_bytes=chunk_bytes).chunks(sources)
        tell("encode", 0, total, "bytes")
        for n_bytes, ids in spread.map_chunks(job, chunks):
            writer.write(ids, n_bytes=n_bytes)
            written += n_bytes
            tell("encode", written, total, "bytes")
    return EncodeReport(Path(out), writer.n_tokens, written, writer.dtype.name, time.perf_counter() - begun)


def decode_file(
    encoder: Encoder,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | BinaryIO,
    *,
    dtype: str | None,
    tell: Progress,
) -> int:
    """Decode a token file; the parameters are those of `Tokenizer.decode_file`."""
    tokens = open_tokens(path, dtype=dtype, tokenizer_sha256=encoder.model.sha256)

    def write(target: BinaryIO | OutputFile) -> int:
        written = done = 0
        tell("decode", 0, tokens.n_tokens, "tokens")
        for block in tokens.blocks():
            data = encoder.decode(block, offset=done)
            target.write(data)
            written += len(data)
            done += block.size
            tell("decode", done, tokens.n_tokens, "tokens")
        return written

    if isinstance(out, (str, os.PathLike)):
        with replacing(out) as file:
            return write(file)
    return write(out)
