"""Decode token files: `Tokenizer.decode_file`.

Apart from `file_encoding`, since importing jobs and input formats takes as long as decoding 20 MB.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import BinaryIO

from bpejit.arrays import Array
from bpejit.encoding.decoder import Decoder, decoded_text
from bpejit.engines import count_cpus
from bpejit.progress_bar import Progress
from bpejit.storage.files import StrPath
from bpejit.storage.outputs import check_outputs, is_device, is_standard_output, opened_output
from bpejit.tokenfiles.opening import read_tokens, token_inputs
from bpejit.tokenfiles.readers import TokenPaths, TokenReader

_LEAST_BYTES = 1 << 17
"""Bytes of a first block for which a thread is started, which takes as long as writing them."""


class BackgroundWriter:
    """Write blocks of bytes in a second thread, in order.

    A context manager: when it exits without an exception, all blocks have been written, each by a call of `write`. The caller
    passes the content of `n_buffers` buffers in turn; there is no thread if it is 1. With an executor of the standard library,
    a block takes 50 microseconds more, and importing it 10 to 20 ms.
    """

    def __init__(self, write: Callable[[memoryview], object], *, n_buffers: int) -> None:
        self._write = write
        self._blocks: SimpleQueue[memoryview | None] = SimpleQueue()
        self._free: SimpleQueue[None] = SimpleQueue()  # an entry for each buffer that the caller may fill
        for _ in range(n_buffers - 1):
            self._free.put(None)
        self._alone = n_buffers == 1
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> BackgroundWriter:  # noqa: PYI034 - typing has Self from Python 3.11 on
        return self

    def write(self, block: memoryview) -> None:
        """Have a block written, and return when the next buffer is free.

        Raises
        ------
        Exception
            What writing this block or an earlier one has raised.
        """
        if self._thread is None and (self._alone or block.nbytes < _LEAST_BYTES or not self._start()):
            self._write(block)
            return
        self._blocks.put(block)
        self._free.get()
        if self._error is not None:
            raise self._error

    def _start(self) -> bool:
        """Start the thread. Return False if there can be no more threads."""
        # A daemon: where an interrupt hits this method, nobody waits for the thread.
        thread = Thread(target=self._run, name="bpejit-write", daemon=True)
        with suppress(RuntimeError):
            thread.start()
            self._thread = thread
        return self._thread is not None

    def _run(self) -> None:
        while (block := self._blocks.get()) is not None:
            if self._error is None:
                try:
                    self._write(block)
                except BaseException as error:
                    self._error = error
            self._free.put(None)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Wait until all blocks are written. After an exception, those that the thread has not begun are left out."""
        if error is not None:
            self._error = error
        self._blocks.put(None)
        if self._thread is not None:
            self._thread.join()
        if error is None and self._error is not None:
            raise self._error


_BLOCK_IDS = 1 << 17
"""Ids that are read at a time."""

_PIECE_BYTES = 1 << 19
"""Bytes that are written at a time."""

_N_BUFFERS = 3
"""Buffers for pieces: one is filled while another one is written, and the third one waits."""


def decode_file(
    decoder: Decoder,
    path: TokenPaths,
    out: StrPath | BinaryIO,
    *,
    dtype: str | None,
    format: str,  # noqa: A002
    overwrite: bool,
    report: Progress,
) -> int:
    """Decode a token file; the parameters are the same as for `Tokenizer.decode_file`."""
    if isinstance(out, (str, os.PathLike)):
        check_outputs([out], inputs=token_inputs(path, format=format), overwrite=overwrite)
    model = decoder.model
    tokens = read_tokens(path, dtype=dtype, tokenizer_sha256=model.sha256, vocab_size=model.vocab_size, format=format)

    done = 0

    def blocks() -> Iterator[Array]:
        nonlocal done
        read: Callable[[int], Iterator[Array]] = tokens.blocks
        if isinstance(tokens, TokenReader) and tokens.dtype.startswith("u"):  # `blocks` checks signed ids
            read = tokens.stored_blocks
        for block in read(_BLOCK_IDS):
            yield block
            done += block.size
            report("decode", done, tokens.n_tokens, "tokens")

    report("decode", 0, tokens.n_tokens, "tokens")
    # Nothing interrupts a thread that writes to a pipe. On one processor, threads would only take turns.
    is_file = isinstance(out, (str, os.PathLike)) and not is_device(out) and not is_standard_output(out)
    n_buffers = _N_BUFFERS if is_file and count_cpus() > 1 else 1
    written = 0
    with opened_output(out) as file, BackgroundWriter(file.write, n_buffers=n_buffers) as writer:
        pieces = decoder.decode_blocks(blocks(), piece_bytes=_PIECE_BYTES, n_buffers=n_buffers)
        for piece in pieces if decoder.rule is None else decoded_text(decoder, blocks()):
            writer.write(piece.data if is_file else memoryview(piece.tobytes()).toreadonly())  # a stream may hold on to it
            written += piece.nbytes
    return written
