"""Encode short texts with as few steps in Python as possible.

For a sentence, the kernel takes a third of a microsecond, and checking and packing its arguments three times as long. So a call
is prepared once for each workspace. The text is copied to the same buffer each time, and only its length is replaced.
"""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import numpy as np

from bpejit.encoding.encode_stream import BytesLike
from bpejit.encoding.kernel_runner import AnySplitter, KernelRunner
from bpejit.encoding.workspace import SHORT_TEXT_BYTES, Workspace
from bpejit.kernels.constants import DONE
from bpejit.kernels.encoding.interleaved_merging import GAP, MAX_DEFERRED
from bpejit.kernels.encoding.pretoken_cache import N_OUT
from bpejit.kernels.encoding.span_encoding import OUT_SLACK
from bpejit.kernels.encoding.string_encoding import LIMIT, STOP, make_string_encoder

_BLOCK_PADDING = 128
"""Bytes after the text buffer: local rules read blocks of 64 bytes and the characters next to them."""

_OUT_WORDS = SHORT_TEXT_BYTES + OUT_SLACK + GAP * MAX_DEFERRED
"""With room for gaps, so that several new pre-tokens of a text are merged together: 0.6 to 1 of 4.5 microseconds for 490 bytes
that have 2.4 of them.
"""


class ShortTextCall:
    """A prepared call of the kernel for texts of up to SHORT_TEXT_BYTES.

    It is valid for the current arrays of its workspace, and for one splitter. It is used with the workspace, by one thread at a
    time.

    Parameters
    ----------
    runner : KernelRunner
    splitter : Splitter
        Has an automaton.
    workspace : Workspace

    Attributes
    ----------
    splitter : Splitter
    ids : array of uint32
        The ids of the last text, and after them undefined values. `array.array` converts them to a list in half the time of
        NumPy.
    out : uint32 array
        The same memory.
    """

    __slots__ = ("_call", "_progress", "_run", "_text", "_view", "_words", "ids", "out", "splitter")

    def __init__(self, runner: KernelRunner, splitter: AnySplitter, workspace: Workspace) -> None:
        self.splitter = splitter
        self.ids = array.array("I", bytes(4 * _OUT_WORDS))
        self.out = np.frombuffer(self.ids, dtype=np.uint32)
        text = np.zeros(SHORT_TEXT_BYTES + _BLOCK_PADDING, dtype=np.uint8)
        self._view = memoryview(text)  # type: ignore[arg-type]
        self._progress = memoryview(workspace.progress)  # type: ignore[arg-type]
        self._text = text
        self._call = runner.bind_text(workspace, splitter.addresses, text, self.out)
        self._run = self._call.run
        self._words = self._call.words

    def run(self, data: BytesLike) -> int:
        """Encode a text; return the number of ids written to `out`, or -1 if it has to be encoded in another way."""
        n_bytes = len(data)
        self._view[:n_bytes] = data  # type: ignore[assignment]
        words = self._words
        words[LIMIT] = n_bytes
        words[STOP] = n_bytes
        progress = self._progress
        progress[N_OUT] = 0
        if self._run() != DONE:
            return -1
        n_ids: int = progress[N_OUT]
        return n_ids

    def on_strings(
        self, workspace: Workspace, pool: list[Any], limit: int, ascii_only: bool
    ) -> Callable[[object], list[int] | None] | None:
        """Return a builtin function that does the same for strings, and returns a list of ids.

        Parameters
        ----------
        workspace : Workspace
            The one of this call, of which it is the only user.
        pool : list of Workspace
            The function uses the workspace while it is in this list.
        limit : int
            Ids from this one on are not returned.
        ascii_only : bool
            Whether only strings of ASCII are encoded.

        Returns
        -------
        callable, optional
            Takes any object; returns None if it has to be encoded in another way. The arguments and this object must outlive
            it. None if such functions are not possible (see `bpejit.jit.methods`).
        """
        text = self._text[:SHORT_TEXT_BYTES]
        return make_string_encoder(self._call, text, self.out, workspace.progress, pool, workspace, limit, ascii_only)
