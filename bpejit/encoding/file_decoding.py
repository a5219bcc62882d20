"""Decode token files: `Tokenizer.decode_file`.

Apart from `file_encoding`, since importing jobs and input formats takes as long as decoding 20 MB.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

from bpejit.arrays import Array
from bpejit.encoding.decoder import BLOCK_IDS, Decoder
from bpejit.engines.base import Progress
from bpejit.storage.files import replacing
from bpejit.storage.outputs import check_outputs, is_standard_output
from bpejit.tokenfiles.mapped_tokens import MappedTokens
from bpejit.tokenfiles.opening import read_tokens, token_inputs


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
        for block in read(BLOCK_IDS):
            yield block
            done += block.size
            report("decode", done, tokens.n_tokens, "tokens")

    report("decode", 0, tokens.n_tokens, "tokens")
    pieces = decoder.decode_blocks(blocks())
    if isinstance(out, (str, os.PathLike)):
        with replacing(out) as file:
            return sum(file.write(piece.data) for piece in pieces)
    written = 0
    for piece in pieces:
        data = piece.tobytes()  # a stream may hold on to it
        out.write(data)
        written += len(data)
    return written
