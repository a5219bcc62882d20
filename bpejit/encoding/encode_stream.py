"""Encode a text that arrives in pieces, or one too long for the text buffer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeGuard

import numpy as np

from bpejit.arguments import as_bytes
from bpejit.arrays import Array
from bpejit.encoding.kernel_runner import AnySplitter, BytesLike, KernelRunner
from bpejit.encoding.workspace import Workspace
from bpejit.kernels.common.python_text import address_of_text, is_layout_known
from bpejit.kernels.constants import MAX_TEXT_BYTES, TEXT_PADDING
from bpejit.kernels.encoding import pretoken_cache
from bpejit.kernels.splitting.spans import STATE_SIZE, shift_state
from bpejit.process_memory import retained_empty
from bpejit.splitting import Splitter
from bpejit.utf8 import encode_slices, encode_utf8, is_high_surrogate

READ_AHEAD = 1 << 14
"""Characters or bytes of a stream of pieces that are read before they are encoded."""

_MAX_PIECES = 1 << 12
"""Number of pieces of a list that are joined at most."""

_LIST_FACTOR = 4
"""A list or tuple, which is in memory already, is joined to texts of up to this many times READ_AHEAD. A first pass takes 0.9
of the time, since more new pre-tokens are merged together.
"""

_FULL_OUTPUT_BYTES = 1 << 24
"""Texts up to this length get an output array for one id per byte, since unused pages take no memory. Moving the ids of five
megabytes of Chinese to a larger array took 15% of the time.
"""


LONG_TEXT_BYTES = 1 << 20
"""Size of the text buffer for texts of many megabytes that are copied to it, and an eighth of it for shorter ones: 5% to 15%
faster than TEXT_BYTES, since each block costs a call.
"""

_IN_PLACE_BYTES = 1 << 19
"""Bytes of a text that is not copied for each call. The cache grows between calls, and is cleared if it becomes full in one."""


_SAMPLE = 1 << 10
"""Number of characters from which the size of a string in UTF-8 is estimated. Room for three times as many ids as characters is
more than the allocator retains from four megabytes on, and touching new memory takes a quarter of the time.
"""


class EncodeStream:
    """Encode a text that arrives in pieces; the ids do not depend on how the text is divided.

    Text that is not yet encoded stays in the workspace's buffer, with the state of the splitter, so that nothing is read
    twice. The buffer grows only for a pre-token that exceeds it. The exception is a pattern that runs through the `regex`
    package: its text is buffered until the next special token or the end.

    Parameters
    ----------
    runner : KernelRunner
    splitter : Splitter or TextPipeline
        Finds the special tokens that apply to this text.
    workspace : Workspace
        Must not be used for anything else until `finish`.
    grows : bool
        If True, the cache of the workspace may grow to its limit. Otherwise nothing is allocated beyond the workspace.
    """

    def __init__(self, runner: KernelRunner, splitter: AnySplitter, workspace: Workspace, *, grows: bool = False) -> None:
        self._grows = grows
        self._runner = runner
        self._workspace = workspace
        self._splitter = splitter
        # For patterns that run through the `regex` package: how far special tokens have been searched for.
        self._search = np.zeros(STATE_SIZE, np.int64)
        self.restart()

    def restart(self) -> None:
        """Give up the text, if it is not finished. The stream can then be used for another one."""
        if self._workspace.text_capacity > self._workspace.text_bytes:
            self._workspace.resize_text(self._workspace.text_bytes)
        self._fresh = True
        self._filled = 0
        self._surrogate = ""
        self._search[:] = 0
        self._workspace.progress[pretoken_cache.NEXT_START] = 0

    def feed(self, data: BytesLike | str) -> Array:
        """Add a piece of text; return the ids that no later text can change, as a new array."""
        return join_blocks([ids.copy() for ids in self.blocks(data)])

    def finish(self) -> Array:
        """End the text; return the remaining ids, as a new array. The stream can then be used for another text."""
        return join_blocks([ids.copy() for ids in self.blocks(b"", final=True)])

    def blocks(self, data: BytesLike | str, *, final: bool = False) -> Iterator[Array]:
        """Add a piece of text, and yield the ids that no later text can change, block by block, in bounded memory.

        A block is a view into the workspace, valid until the next iteration. If `final` is True, the text ends with this piece.
        """
        workspace = self._workspace
        for last in self._fill(data, final):
            workspace.progress[pretoken_cache.N_OUT] = 0
            out = self._encode(last, workspace.out)
            yield self._runner.finished(workspace, out)

    def encode_rest(self, data: BytesLike | str) -> Array:
        """Add the last piece; return all remaining ids as one array."""
        out = self.append_rest(data, empty_output(data), 0)
        return self._runner.check_ids(trimmed(out, int(self._workspace.progress[pretoken_cache.N_OUT])))

    def append_rest(self, data: BytesLike | str, out: Array, done: int) -> Array:
        """Add the last piece, and write all remaining ids to `out[done:]`; return `out`, or a larger array that replaces it.

        N_OUT of the progress is then the end of the ids.
        """
        workspace = self._workspace
        is_new = self._fresh and not self._filled
        has_automaton = isinstance(self._splitter, Splitter) and self._splitter.automaton is not None
        # Another thread could change text that is not immutable while a kernel reads it twice.
        if is_new and has_automaton and is_in_place(data) and len(data) > workspace.text_bytes:
            workspace.progress[pretoken_cache.N_OUT] = done
            out, n_encoded = self._encode_in_place(data, self._splitter.addresses, out)
            done = int(workspace.progress[pretoken_cache.N_OUT])
            data = data[n_encoded:]
        else:
            self._enlarge_text(len(data))
        for last in self._fill(data, True):
            workspace.progress[pretoken_cache.N_OUT] = done
            out = self._encode(last, out)
            done = int(workspace.progress[pretoken_cache.N_OUT])
        return out

    def _enlarge_text(self, length: int) -> None:
        """Enlarge the text buffer for a long text that is copied to it, where that takes less time than the calls it saves."""
        for size in (LONG_TEXT_BYTES, LONG_TEXT_BYTES >> 3):
            if length >= 8 * size:
                if self._workspace.text_capacity < size:
                    self._workspace.resize_text(size)
                return

    def _encode_in_place(self, data: bytes | str, automaton: Array, out: Array) -> tuple[Array, int]:
        """Encode a new text where it is, except for its end, after which kernels read; return `out`, and the number of bytes.

        The text buffer, empty on entry, is then large enough for the rest, which the splitter may have read already.
        """
        workspace = self._workspace
        text = writable_view(data)
        most = len(data) - TEXT_PADDING
        begin = stop = 0
        width = _IN_PLACE_BYTES
        while stop < most and width <= MAX_TEXT_BYTES:
            stop = min(begin + width, most)
            if self._grows:
                workspace.grow_cache()
            size = stop - begin
            out = self._runner.run_text(workspace, automaton, text[begin:], size, size, False, self._fresh, out)
            self._fresh = False
            first = int(workspace.progress[pretoken_cache.NEXT_START])
            workspace.progress[pretoken_cache.NEXT_START] = 0
            shift_state(workspace.split_state, first)
            begin += first
            if 2 * first < width:
                width *= 2  # a long pre-token
        if len(data) - begin > workspace.text_capacity:
            workspace.resize_text(len(data) - begin)
        return out, begin

    def _fill(self, data: BytesLike | str, final: bool) -> Iterator[bool]:
        """Copy a piece into the text buffer; yield True when the buffer has to be encoded for the last time, False before."""
        workspace = self._workspace
        for block in self._as_bytes(data, final):
            view = memoryview(block).cast("B")  # type: ignore[arg-type]
            while len(view):
                if self._filled == workspace.text_capacity:
                    yield False
                    self._free_space()
                count = min(workspace.text_capacity - self._filled, len(view))
                workspace.view[self._filled : self._filled + count] = view[:count]
                self._filled += count
                view = view[count:]
        yield final
        if final:
            self.restart()

    def _as_bytes(self, data: BytesLike | str, final: bool) -> Iterator[BytesLike]:
        """Yield a piece as bytes. The first half of a surrogate pair is held until the second, which may come next."""
        text = self._surrogate
        self._surrogate = ""
        if isinstance(data, str):
            text += data
            if text and is_high_surrogate(text[-1]) and not final:
                self._surrogate = text[-1]
                text = text[:-1]
        yield from encode_slices(text)
        if not isinstance(data, str):
            yield data

    def _free_space(self) -> None:
        """Free space in a full buffer: move the remaining text to its start, after doubling it if most of the text remains."""
        workspace = self._workspace
        first = int(workspace.progress[pretoken_cache.NEXT_START])
        text = workspace.text
        if first < workspace.text_capacity // 2:
            workspace.resize_text(2 * workspace.text_capacity)
        self._filled -= first
        # At most half of the buffer, once per half that was encoded: linear in total.
        workspace.text[: self._filled] = text[first : first + self._filled]
        workspace.progress[pretoken_cache.NEXT_START] = 0
        shift_state(self._search, first)
        shift_state(workspace.split_state, first)

    def _encode(self, last: bool, out: Array) -> Array:
        """Encode the buffer as far as no later text can change the ids; return `out`, or a larger array that replaces it."""
        workspace, runner = self._workspace, self._runner
        if self._grows:
            workspace.grow_cache()
        splitter, filled = self._splitter, self._filled
        if isinstance(splitter, Splitter) and splitter.automaton is not None:
            out = runner.run_text(workspace, splitter.addresses, workspace.text, filled, filled, last, self._fresh, out)
            self._fresh = False
            return out
        first = int(workspace.progress[pretoken_cache.NEXT_START])
        cut = stop = filled
        if not isinstance(splitter, Splitter):
            cut = filled if last else splitter.find_last_cut(workspace.text, first, filled)
            stop = splitter.margin_end(cut, filled)
        elif not last:
            spans = splitter.finder.next_spans(workspace.text, filled, False, self._search)
            cut = stop = max((end for _, end in spans), default=first)
        if cut > first:
            out = runner.run_chunk(workspace, splitter, workspace.text[first:], cut - first, stop - first, last, out)
            if not isinstance(splitter, Splitter):
                self._splitter = splitter.later
        workspace.progress[pretoken_cache.NEXT_START] = cut
        return out


def is_in_place(text: object) -> TypeGuard[bytes | str]:
    """Return True if UTF-8 of a text is in memory that does not change: it is `bytes`, or a string of ASCII."""
    return isinstance(text, bytes) or (isinstance(text, str) and text.isascii() and is_layout_known())


def writable_view(text: bytes | str) -> Array:
    """Return a text that is in place as a writable array: kernels take only such, although they do not write to a text."""
    return np.asarray(_WritableView(text))


class _WritableView:
    """Describes the bytes to NumPy."""

    def __init__(self, text: bytes | str) -> None:
        self._text = text  # the array refers to this object
        address = address_of_text(text) if isinstance(text, str) else np.frombuffer(text, np.uint8).ctypes.data
        self.__array_interface__ = {"version": 3, "shape": (len(text),), "typestr": "|u1", "data": (address, False)}


def join_pieces(pieces: Iterable[str | bytes], name: str) -> Iterator[str | bytes]:
    """Join adjacent pieces of a text, since each step of a stream takes as long as encoding some hundred words.

    Reads up to READ_AHEAD characters or bytes ahead, and _LIST_FACTOR times as many of a list or tuple. If reading a piece
    fails, the text before it is yielded first.

    Parameters
    ----------
    pieces : iterable of str, bytes, or other bytes-like objects
    name : str
        Name of the argument, for the message about a piece of another type.

    Yields
    ------
    str or bytes
        Adjacent pieces of the same type, longer than these limits only if a single piece is.
    """
    if type(pieces) not in (list, tuple):
        yield from _join_each(enumerate(pieces), name)
        return
    # Slices of a list take a third of the time of one step for each piece.
    start, count, room = 0, 1, _LIST_FACTOR * READ_AHEAD
    while True:
        group: Any = pieces[start : start + count]  # type: ignore[index]
        try:
            size = sum(map(len, group))
            if size > room and count > 1:
                count //= 2
                continue
            text = "".join(group)
        except TypeError:  # not all of them are strings
            yield from _join_each(enumerate(islice(pieces, start, None), start), name)
            return
        yield text
        if not group:
            return
        start += len(group)
        if 2 * size <= room and count < _MAX_PIECES:
            count *= 2


def _join_each(pieces: Iterable[tuple[int, Any]], name: str) -> Iterator[str | bytes]:
    """Do the same for numbered pieces of any types."""
    group: list[Any] = []
    kind: type[str | bytes] = str
    room = READ_AHEAD
    try:
        for index, piece in pieces:
            if type(piece) is kind:  # nearly always
                part = piece
                changes = False
            else:
                part = piece if isinstance(piece, str) else as_bytes(f"{name}[{index}]", piece)
                changes = isinstance(part, str) is not (kind is str)
            # One more, so that there is a limit to empty pieces as well.
            size = len(part) + 1
            room -= size
            if (room < 0 or changes) and group:
                yield kind().join(group)  # type: ignore[arg-type]
                group = []
                room = READ_AHEAD - size
            if changes:
                kind = str if isinstance(part, str) else bytes
            group.append(part)
    except Exception:
        yield kind().join(group)  # type: ignore[arg-type]
        raise
    yield kind().join(group)  # type: ignore[arg-type]


def join_blocks(blocks: list[Array]) -> Array:
    """Concatenate arrays of ids; none give an empty array."""
    return np.concatenate(blocks) if blocks else np.empty(0, np.uint32)


def empty_output(data: BytesLike | str) -> Array:
    """Return an array without initial values for the ids of a text, uint32; texts with more ids need a larger one."""
    n_bytes = len(data)
    if isinstance(data, str) and not data.isascii():
        sample = data[:: max(1, n_bytes // _SAMPLE)]
        n_bytes = min(3 * n_bytes, len(encode_utf8(sample)) * n_bytes // len(sample) * 9 // 8)
    return retained_empty(max(n_bytes // 3, min(n_bytes, _FULL_OUTPUT_BYTES)) + 64, np.uint32)


def trimmed(out: Array, size: int) -> Array:
    """Shrink an array in place, and return it."""
    out.resize(size, refcheck=False)
    return out
