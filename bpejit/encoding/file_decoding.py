"""Decode token files: `Tokenizer.decode_file`.

Apart from `file_encoding`, since importing jobs and input formats takes as long as decoding 20 MB.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

from bpejit.arrays import Array
from bpejit.encoding.decoder import Decoder
from bpejit.engines import count_cpus
from bpejit.engines.base import Progress
from bpejit.storage.background_writer import BackgroundWriter
from bpejit.storage.files import replacing
from bpejit.storage.outputs import check_outputs, is_device, is_standard_output
from bpejit.tokenfiles.mapped_tokens import MappedTokens
from bpejit.tokenfiles.opening import read_tokens, token_inputs

_BLOCK_IDS = 1 << 17
"""Ids that are read at a time."""

_PIECE_BYTES = 1 << 19
"""Bytes that are written at a time."""

_N_BUFFERS = 3
"""Buffers for pieces: one is filled while another one is written, and the third one waits."""


def decode_file(
    decoder: Decoder,
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
    model = decoder.model
    tokens = read_tokens(path, dtype=dtype, tokenizer_sha256=model.sha256, vocab_size=model.vocab_size, format=format)

    done = 0

    def blocks() -> Iterator[Array]:
        nonlocal done
        read: Callable[[int], Iterator[Array]] = tokens.blocks
        if isinstance(tokens, MappedTokens) and tokens.ids.dtype.kind == "u":  # `blocks` checks signed ids
            read = tokens.stored_blocks
        for block in read(_BLOCK_IDS):
            yield block
            done += block.size
            report("decode", done, tokens.n_tokens, "tokens")

    report("decode", 0, tokens.n_tokens, "tokens")
    if isinstance(out, (str, os.PathLike)):
        # Nothing interrupts a thread that writes to a pipe. On one processor, threads would only take turns.
        n_buffers = 1 if is_device(out) or count_cpus() == 1 else _N_BUFFERS
        with replacing(out) as file, BackgroundWriter(file.write, n_buffers=n_buffers) as writer:
            for piece in decoder.decode_blocks(blocks(), piece_bytes=_PIECE_BYTES, n_buffers=n_buffers):
                writer.write(piece.data)
        return file.n_bytes
    written = 0
    for piece in decoder.decode_blocks(blocks()):
        data = piece.tobytes()  # a stream may hold on to it
        out.write(data)
        written += len(data)
    return written
