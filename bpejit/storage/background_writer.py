"""Write in a second thread, while the caller makes what is written next."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from types import TracebackType

_LEAST_BYTES = 1 << 17
"""Bytes of a first block for which a thread is started, which takes as long as writing them."""


class BackgroundWriter:
    """Write blocks of bytes in a second thread, in order.

    A context manager: when it exits without an exception, all blocks have been written. With an executor of the standard
    library, a block takes 50 microseconds more, and importing it 10 to 20 ms.

    Parameters
    ----------
    write : callable
        Writes all bytes of a block.
    n_buffers : int
        The number of buffers whose content the caller passes in turn. There is no thread if it is 1.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> with BackgroundWriter(file.write, n_buffers=2) as writer:
    ...     writer.write(memoryview(b"some "))
    ...     writer.write(memoryview(b"bytes"))
    >>> file.getvalue()
    b'some bytes'
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
