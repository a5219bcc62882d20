"""Texts that are changed and encoded again, such as conversations: only what a change can affect is encoded.

The text is stored in blocks of some kilobytes between restarts (see `bpejit.encoding.restarts`), each with its ids, and a tail
after the last restart that no continuation can move. Whether a position is a restart depends only on the bytes around it. So a
change replaces the blocks from the last restart well before it to the first one well after it, and the ids of all others stay.
Blocks are immutable: a fork of a session has a list of the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.encoding.codec import Codec
from bpejit.encoding.encode_stream import EncodeStream, join_blocks
from bpejit.encoding.kernel_runner import AnySplitter
from bpejit.encoding.restarts import ahead_of, find_last_restart, find_restart, reach_of
from bpejit.encoding.workspace import Workspace
from bpejit.errors import OptionError, UnsupportedError
from bpejit.splitting import Splitter

BLOCK_BYTES = 1 << 11
"""Bytes of a block, unless there is no restart. A change encodes one or two of them; the objects of one take some 300 bytes."""


LONG_TAIL_BYTES = 1 << 12
"""Bytes of a tail from which on each continuation looks for a restart in it."""


class Appended(NamedTuple):
    """What an appended text does to the ids of a session.

    Parameters
    ----------
    kept : int
        How many of the ids before stay; those after them are replaced.
    ids : uint32 [tokens]
        The ids that follow them now.
    """

    kept: int
    ids: Array


class Edited(NamedTuple):
    """What a change of a text does to its ids: `ids[start:stop]` are replaced.

    Parameters
    ----------
    start, stop : int
        Indices of the ids before the change.
    ids : uint32 [tokens]
        What replaces them.
    """

    start: int
    stop: int
    ids: Array


class _Block(NamedTuple):
    """Text between two restarts, its length in characters (or bytes, for a session of bytes), and its ids."""

    data: bytes
    length: int
    ids: Array


_NOTHING = _Block(b"", 0, np.empty(0, np.uint32))


class _Turn:
    """Refuses that two threads use a session at the same time."""

    def __init__(self) -> None:
        self._lock = Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise UnsupportedError(
                "a session is used by two threads at the same time; expected one thread for each session: give each thread a "
                "fork of it"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@dataclass(frozen=True)
class Canonical:
    """Whether ids are those of their text; it is true or false as such.

    Parameters
    ----------
    first_violation : int or None
        Index of the first id that is not that of the text's encoding, or its number of ids if that is longer; None if they are.
    """

    first_violation: int | None

    def __bool__(self) -> bool:
        return self.first_violation is None


def find_violation(codec: Codec, ids: Iterable[int] | Array) -> Canonical:
    """Compare ids with those of the text that they decode to."""
    numbers = ids if isinstance(ids, np.ndarray) else list(arguments.ids("ids", ids))
    expected = codec.encode(codec.decode_bytes(numbers))
    given = np.array(numbers, np.int64)
    same = _common(given, expected)
    return Canonical(None if same == given.size == expected.size else same)


def session_from_ids(codec: Codec, ids: Iterable[int] | Array) -> Session:
    """Return a session that keeps ids (see `bpejit.Tokenizer.session_from_ids`)."""
    if codec.encoder.splitter.automaton is None and not isinstance(codec.encoder.splitter, Splitter):
        raise UnsupportedError(
            "session_from_ids was called for a tokenizer that changes text depending on the text before it; expected one that "
            "encodes what follows the ids like a text of its own: use `session` with the text of the ids"
        )
    numbers = ids if isinstance(ids, np.ndarray) else list(arguments.ids("ids", ids))
    before = codec.decode_bytes(numbers)
    return Session(codec, b"", kept=(np.array(numbers, np.uint32), before))


def _common(one: Array, other: Array) -> int:
    """Return the number of equal elements at the start of two arrays."""
    size = min(one.size, other.size)
    differing = one[:size] != other[:size]
    place = int(differing.argmax()) if size else 0
    return place if size and differing[place] else size


class Session:
    """A text and its ids, which are encoded again only where the text changes.

    The ids always equal those of encoding the whole text. A session of a `str` counts positions in characters, and one of bytes
    in bytes; a character may then end in the next append. It is for one thread; `fork` gives another session.

    Attributes
    ----------
    fallbacks : int
        The number of changes for which more than some kilobytes of unchanged text were encoded anew, since the tokenizer has
        no place near them at which encoding can be restarted: its pattern runs through the `regex` package, it changes text
        in a way that is not local, or the text has no such place.
    """

    def __init__(self, codec: Codec, text: str | bytes = "", *, kept: tuple[Array, bytes] | None = None) -> None:
        encoder = codec.encoder
        self._codec, self._encoder = codec, encoder
        # Of the first part of a text, and of the others.
        self._first = encoder.splitter if isinstance(encoder.splitter, Splitter) else encoder.splitter.local
        self._splitter = self._first if isinstance(self._first, Splitter) else self._first.later
        self._reach, self._ahead = reach_of(self._splitter), ahead_of(self._splitter)
        self._is_text = isinstance(text, str)
        self._kept, self._before = kept or (np.empty(0, np.uint32), b"")
        self._blocks: list[_Block] = []
        self._sizes = np.zeros((0, 3), np.int64)  # of each block: bytes, length, ids
        self._n_ids = self._length = 0  # of all blocks
        self._recent: list[_Block] = []  # what has been appended since the last block
        self._n_recent = 0
        self._tail = _NOTHING
        self._turn, self.fallbacks = _Turn(), 0
        self._replace(0, 1, self._data(text), 0)

    def __len__(self) -> int:
        """Return the length of the text, in characters or bytes."""
        return len(self._before) + self._length + self._tail.length

    @property
    def ids(self) -> Array:
        """The ids of the text, as uint32 [tokens]: a new array."""
        self._settle()
        return np.concatenate([self._kept, *(block.ids for block in self._blocks), self._tail.ids])

    @property
    def text(self) -> str | bytes:
        """The text: a str or bytes, as it was given."""
        self._settle()
        data = b"".join([self._before, *(block.data for block in self._blocks), self._tail.data])
        return data.decode() if self._is_text else data

    def stable_prefix(self) -> Array:
        """Return the ids that no continuation of the text can change, as uint32 [tokens]."""
        with self._turn, self._codec.workspace() as workspace:
            self._settle()
            splitter = self._splitter if self._length or self._before else self._first
            stable = EncodeStream(self._encoder.runner, splitter, workspace, grows=True).feed(self._tail.data)
            return np.concatenate([self._kept, *(block.ids for block in self._blocks), stable])

    def fork(self) -> Session:
        """Return a session with the same text, which is changed independently. Their blocks are in memory once."""
        with self._turn:
            self._settle()
            other = Session.__new__(Session)
            vars(other).update(vars(self))
            other._blocks, other._sizes, other._turn = self._blocks.copy(), self._sizes, _Turn()
            other._recent = []
            return other

    def append(self, text: str | bytes) -> Appended:
        """Add text at the end; return how many ids stay, and the new ones after them.

        Parameters
        ----------
        text : str or bytes
            A session of a str takes only str.

        Raises
        ------
        ArgumentTypeError, OptionError
            If the text has another type, or lone surrogates.
        CorpusError
            If the text cannot be encoded. The session is not changed then.
        """
        with self._turn:
            data = self._data(text)
            if not data:
                return Appended(self._kept.size + self._n_ids + self._tail.ids.size, _NOTHING.ids)
            if len(self._tail.data) < LONG_TAIL_BYTES and len(data) <= BLOCK_BYTES:
                return self._append_short(data)
            self._settle()
            n_blocks, tail = len(self._blocks), self._tail.data
            change = self._replace(n_blocks, n_blocks + 1, tail + data, len(tail), appends=True)
            return Appended(change.start, change.ids)

    def edit(self, start: int, stop: int, text: str | bytes) -> Edited:
        """Replace the text from `start` to `stop`; return which ids are replaced, and by which.

        Parameters
        ----------
        start, stop : int
            Positions in characters, or in bytes for a session of bytes; equal ones insert text.
        text : str or bytes
            As for `append`.

        Raises
        ------
        OptionError
            If a position is not in the text, or in the text of ids that `Tokenizer.session_from_ids` keeps.
        ArgumentTypeError, CorpusError
            As for `append`.
        """
        with self._turn:
            self._settle()
            least = len(self._before)
            start = arguments.whole_number("start", start, least=least, most=len(self)) - least
            stop = arguments.whole_number("stop", stop, least=start + least, most=len(self)) - least
            data = self._data(text)
            ends = np.cumsum(self._sizes, axis=0)
            begins = np.concatenate([[0], ends[:, 0]])
            low, high = self._byte_position(start, ends), self._byte_position(stop, ends)
            # The last restart before, and the first one after, around which no byte changes.
            first = max(int(np.searchsorted(begins, low - self._reach, side="right")) - 1, 0)
            last = int(np.searchsorted(begins, high + self._reach))
            old = b"".join(block.data for block in self._blocks[first:last])
            if last > len(self._blocks):
                old += self._tail.data
            low, high = low - int(begins[first]), high - int(begins[first])
            return self._replace(first, last, old[:low] + data + old[high:], len(old) - (high - low))

    def _data(self, text: str | bytes) -> bytes:
        """Return a text that is added, in UTF-8."""
        found = arguments.as_bytes("text", text)
        if not isinstance(found, str):
            if self._is_text:
                raise arguments.wrong_type("text", text, "a str, as the text of the session", "decode it")
            return found
        try:
            return found.encode()
        except UnicodeEncodeError as error:
            raise OptionError(
                f"text has half of a surrogate pair at character {error.start}; expected text that UTF-8 can represent, since "
                "the other half could come later: replace it, for example by '\N{REPLACEMENT CHARACTER}'"
            ) from None

    def _byte_position(self, position: int, ends: Array) -> int:
        """Return a position in bytes; `ends` are the sums of the sizes of the blocks."""
        index = int(np.searchsorted(ends[:, 1], position, side="right"))
        n_bytes, length = ends[index - 1, :2].tolist() if index else (0, 0)
        data = self._blocks[index].data if index < len(self._blocks) else self._tail.data
        rest = position - length
        if self._is_text and not data.isascii():
            rest = len(data.decode()[:rest].encode())
        return int(n_bytes) + rest

    def _append_short(self, data: bytes) -> Appended:
        """Append some text to a tail that is not long: `_replace` in a quarter of the time."""
        before, start = self._tail.ids, self._kept.size + self._n_ids
        splitter = self._splitter if self._length or self._before else self._first
        with self._codec.workspace() as workspace:
            *pieces, tail = self._encoded(self._tail.data + data, None, splitter, workspace)
        ids = join_blocks([*(piece.ids for piece in pieces), tail.ids]) if pieces else tail.ids
        self._checked(ids)
        self._tail = tail
        for piece in pieces:
            self._recent.append(piece)
            self._length += piece.length
            self._n_ids += piece.ids.size
            self._n_recent += len(piece.data)
        if self._n_recent > BLOCK_BYTES:
            self._settle()
        same = _common(before, ids)
        return Appended(start + same, ids[same:])

    def _settle(self) -> None:
        """Make one block of the text that was appended in short pieces."""
        if self._recent:
            data, lengths, ids = zip(*self._recent, strict=True)
            block = _Block(b"".join(data), sum(lengths), np.concatenate(ids))
            self._blocks.append(block)
            self._sizes = np.concatenate([self._sizes, [[len(block.data), block.length, block.ids.size]]])
            self._recent, self._n_recent = [], 0

    def _replace(self, first: int, last: int, data: bytes, unchanged: int, *, appends: bool = False) -> Edited:
        """Replace the blocks from `first` to `last` by a text, of which some bytes are not new; the tail is a last block.

        If a text is appended, the change goes up to the last id.
        """
        is_last = last > len(self._blocks)
        with self._codec.workspace() as workspace:
            splitter = self._splitter if first or self._before else self._first
            blocks = self._encoded(data, None if is_last else self._following(last), splitter, workspace)
        old = [block.ids for block in self._blocks[first:last]]
        start = self._kept.size + (self._n_ids if first == len(self._blocks) else int(self._sizes[:first, 2].sum()))
        replaced, ids = join_blocks([*old, self._tail.ids] if is_last else old), join_blocks([block.ids for block in blocks])
        same = _common(replaced, ids)
        after = 0 if appends else _common(replaced[same:][::-1], ids[same:][::-1])
        change = Edited(start + same, start + replaced.size - after, ids[same : ids.size - after])
        self._checked(change.ids)
        self.fallbacks += unchanged > LONG_TAIL_BYTES + 3 * BLOCK_BYTES + 4 * self._reach
        if is_last:
            self._tail = blocks.pop()
        self._blocks[first:last] = blocks
        sizes = np.array([(len(block.data), block.length, block.ids.size) for block in blocks], np.int64).reshape(-1, 3)
        _, length, n_ids = (sizes.sum(axis=0) - self._sizes[first:last].sum(axis=0)).tolist()
        self._sizes = np.concatenate([self._sizes[:first], sizes, self._sizes[last:]])
        self._length += length
        self._n_ids += n_ids
        return change

    def _following(self, index: int) -> bytes:
        """Return the bytes after a block that decide whether it ends at a restart."""
        data = b""
        for block in self._blocks[index:]:
            data += block.data
            if len(data) >= self._reach:
                return data[: self._reach]
        return (data + self._tail.data)[: self._reach]

    def _encoded(self, data: bytes, following: bytes | None, splitter: AnySplitter, workspace: Workspace) -> list[_Block]:
        """Return a text in blocks; without text that follows, the last one is the tail. `splitter` is for the first one."""
        reach = self._reach
        text = data if following is None else data + following
        high = len(text) - reach + 1
        places = [0]
        while places[-1] + BLOCK_BYTES < high:
            place = find_restart(splitter, text, places[-1] + BLOCK_BYTES, high)
            if place < 0:
                break
            places.append(place)
        if following is None:
            # To look for a restart takes as long as to encode a kilobyte.
            places += [find_last_restart(splitter, text, places[-1] + 1, high)] if 2 * len(text) > BLOCK_BYTES else []
        elif places[-1] < len(data):
            places.append(len(data))
        blocks: list[_Block] = []
        start = 0
        for stop in places[1:]:
            if stop > 0:
                part = text[start : stop + self._ahead]
                ids = self._encoder.encode_before(part, stop - start, workspace, splitter)
                splitter = self._splitter
                blocks.append(self._block(data[start:stop], ids))
                start = stop
        if following is None:
            rest = data[start:]
            blocks.append(self._block(rest, self._encoder.encode(rest, workspace, splitter)))
        return blocks

    def _block(self, data: bytes, ids: Array) -> _Block:
        return _Block(data, self._length_of(data), ids)

    def _length_of(self, data: bytes) -> int:
        return len(data) if not self._is_text or data.isascii() else len(data.decode())

    def _checked(self, ids: Array) -> None:
        if self._codec.carriage_returns is not None:
            self._codec.carriage_returns.check(ids)
