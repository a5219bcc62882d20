"""Divide a stream of encoded documents among spools: one for each output, shard and validation set."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.jobs.job_folder import damaged
from bpejit.jobs.spools import IDS_SUFFIX, Hasher, Spool, SpoolRecord
from bpejit.packed_tokens import pack_tokens
from bpejit.storage.temporary import sync_file

CLOSED = "closed.jsonl"
"""The records of complete spools, one a line. A checkpoint has the length of the file."""


class SinkOptions(NamedTuple):
    """How a stream is divided.

    Parameters
    ----------
    dtype : np.dtype
    has_ends : bool
        Whether the ends of documents are written.
    adopted : bool
        Whether the files of ids become files of the output.
    sides : tuple of bool
        `(False,)`, or `(False, True)` if documents are set aside.
    shard_tokens : int, optional
        Minimum number of ids of a shard; None for a single one.
    shard_exact : bool
        Whether shards end after exactly that many ids, also in the middle of a document.
    token_lengths : integers [ids], optional
        The number of bytes of each token, if the bytes of text are to be counted by token.
    ids_position : int
        Bytes before the ids of a spool, space for a header.
    """

    dtype: np.dtype[Any]
    has_ends: bool = True
    adopted: bool = False
    sides: tuple[bool, ...] = (False,)
    shard_tokens: int | None = None
    shard_exact: bool = False
    token_lengths: Array | None = None
    ids_position: int = 0


class SpoolSink:
    """Writes streams of documents to spools.

    Parameters
    ----------
    folder : Path
        Exists.
    options : SinkOptions
    state : dict, optional
        The state at a checkpoint (see `snapshot`); None to begin.
    note : callable, optional
        Called with the record of a spool that has grown, and with `complete=True` if it is complete.

    Raises
    ------
    OSError
    """

    def __init__(
        self,
        folder: Path,
        options: SinkOptions,
        state: Mapping[str, Any] | None = None,
        note: Callable[..., None] | None = None,
    ) -> None:
        self._folder = folder
        self._note = note
        self._options = options
        self._open: dict[bool, Spool] = {}
        self._unsynced: set[Path] = set()
        self._in_document: dict[bool, bool] = dict.fromkeys(options.sides, False)
        self._next = 0 if state is None else int(state["next"])
        self._output = -1 if state is None else int(state["output"])
        self._hashers = {side: Hasher() for side in options.sides}
        self._closed: BinaryIO = (folder / CLOSED).open("ab", buffering=0)
        self._closed_hash = hashlib.sha256()
        size = 0 if state is None else int(state["closed_bytes"])
        try:
            if self._closed.seek(0, os.SEEK_END) < size:
                raise OSError(None, "it is shorter than at the last checkpoint", str(folder / CLOSED))
            self._closed.truncate(size)
            if size:
                self._closed_hash.update((folder / CLOSED).read_bytes())
                if state is not None and self.closed_sha256 != state["closed_sha256"]:
                    raise damaged(folder / CLOSED, folder=folder)
            for fields in () if state is None else state["open"]:
                record = SpoolRecord(**fields["spool"])
                self._open[record.aside] = self._new_spool(record)
                self._in_document[record.aside] = bool(fields["in_document"])
        except BaseException:
            self.close()
            raise

    @property
    def closed_sha256(self) -> str:
        """The hash of the records of complete spools."""
        return self._closed_hash.hexdigest()

    def _new_spool(self, record: SpoolRecord) -> Spool:
        hasher = self._hashers[record.aside]
        return Spool(self._folder, record, self._options.dtype, has_ends=self._options.has_ends, hasher=hasher)

    def begin_output(self, output: int) -> None:
        """Set the output of the next blocks; the spools of an earlier one are completed.

        Raises
        ------
        OSError
        """
        if output == self._output:
            return
        self._complete_all()
        self._output = output
        for side in self._options.sides:
            self._begin_shard(side, 0)

    def _begin_shard(self, side: bool, shard: int) -> None:
        self._open[side] = self._new_spool(
            SpoolRecord(self._next, self._output, side, shard, position=self._options.ids_position)
        )
        self._next += 1

    def write(self, side: bool, ids: Array, ends: Array, n_bytes: int) -> None:
        """Append a block to the current output.

        Parameters
        ----------
        side : bool
            Whether the documents are set aside.
        ids : uint16 or uint32 [tokens]
        ends : int64 [documents]
            Positions in `ids` where documents end.
        n_bytes : int
            Bytes of text, unless they are counted by token.

        Raises
        ------
        OSError
        """
        for part, part_ends in self._cut(side, ids, ends):
            spool = self._open[side]
            lengths = self._options.token_lengths
            if lengths is not None:
                n_bytes = int(lengths[part].sum(dtype=np.int64))
            spool.write(part, part_ends, n_bytes)
            if self._note is not None:
                self._note(spool.snapshot())
            if part.size > (int(part_ends[-1]) if part_ends.size else 0):
                self._in_document[side] = True
            elif part_ends.size:
                self._in_document[side] = False

    def _cut(self, side: bool, ids: Array, ends: Array) -> Iterator[tuple[Array, Array]]:
        """Yield the blocks of each shard; a new shard begins between two of them."""
        limit = self._options.shard_tokens
        while limit is not None and (ids.size or ends.size):
            spool = self._open[side]
            if self._in_document[side] and ends.size and ends[0] == 0:
                yield ids[:0], ends[:1]
                ends = ends[1:]
                continue
            # A shard that has reached its size ends as soon as something follows, so that the last one is never empty.
            if spool.tokens >= limit and (self._options.shard_exact or not self._in_document[side]):
                self._end_shard(side)
                self._begin_shard(side, spool.record.shard + 1)
                continue
            room = limit - spool.tokens
            n_ends = int(np.searchsorted(ends, room, side="left"))  # all before the limit, and the first one from there on
            if self._options.shard_exact:
                cut = min(room, ids.size)
                n_ends += n_ends < ends.size and int(ends[n_ends]) == room
            elif n_ends < ends.size:
                cut = int(ends[n_ends])
                n_ends += 1
            else:
                cut = ids.size
            yield ids[:cut], ends[:n_ends]
            ids, ends = ids[cut:], ends[n_ends:] - cut
        if limit is None:
            yield ids, ends

    def _end_shard(self, side: bool) -> None:
        spool = self._open.pop(side)
        continues = self._in_document[side]
        if continues and self._options.has_ends:
            # The rest of the document is in the next shard; a file of documents contains no other ids.
            spool.write(np.empty(0, dtype=spool.dtype), np.zeros(1, dtype=np.int64), 0)
        # Flushed with the next checkpoint, in its thread, or at the end: here it would take a tenth of a second.
        self._unsynced.update(spool.paths)
        record = spool.complete(continues=continues)
        self._log(record)
        if self._note is not None:
            self._note(record, complete=True)

    def _log(self, record: SpoolRecord) -> None:
        data = json.dumps(record.as_json()).encode("ascii") + b"\n"
        self._closed_hash.update(data)
        while data:
            data = data[self._closed.write(data) :]

    def _complete_all(self) -> None:
        for side in [*self._open]:
            self._end_shard(side)
            self._in_document[side] = False

    def finish(self, *, brief: bool = False) -> None:
        """Complete all spools.

        Parameters
        ----------
        brief : bool
            Whether only the files that become files of the output are flushed to disk.

        Raises
        ------
        OSError
        """
        self._complete_all()
        for path in tuple(self._unsynced):
            if not brief or (self._options.adopted and path.suffix == IDS_SUFFIX):
                self._sync(path)
        if not brief:
            sync_file(self._closed.fileno())

    def _sync(self, path: Path) -> None:
        """Flush a complete file to disk."""
        with path.open("rb") as file:
            sync_file(file.fileno())
        self._unsynced.discard(path)

    def snapshot(self) -> tuple[dict[str, Any], list[Callable[[], None]]]:
        """Return the state for a checkpoint, and functions that flush what it refers to."""
        spools = [
            {"spool": spool.checkpoint().as_json(), "in_document": self._in_document[side]}
            for side, spool in self._open.items()
        ]
        closed = {"closed_bytes": self._closed.tell(), "closed_sha256": self.closed_sha256}
        state = {"next": self._next, "output": self._output, **closed, "open": spools}
        complete = [partial(self._sync, path) for path in tuple(self._unsynced)]
        return state, [*complete, *(spool.sync for spool in self._open.values()), lambda: sync_file(self._closed.fileno())]

    def close(self) -> None:
        """Close all files, without completing the spools."""
        for spool in self._open.values():
            spool.close()
        with suppress(OSError):
            self._closed.close()
        for hasher in self._hashers.values():
            hasher.close()


def read_closed(folder: Path, size: int | None = None, *, sha256: str | None = None) -> list[SpoolRecord]:
    """Return the records of the complete spools of a folder.

    Parameters
    ----------
    folder : Path
    size : int, optional
        Bytes of the file that are read; by default all.
    sha256 : str, optional
        The hash of these bytes, if another run has written them.

    Raises
    ------
    OSError
    OutputError
        If they are not those that were written.
    """
    data = (folder / CLOSED).read_bytes()[:size]
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise damaged(folder / CLOSED, folder=folder)
    return [SpoolRecord(**json.loads(line)) for line in data.splitlines()]


def count_lengths(tokens: Mapping[int, bytes], special_tokens: Mapping[str, int], vocab_size: int) -> Array:
    """Return the number of bytes of each id, as uint16 or int64 [vocab_size]; 0 for ids that are not used."""
    lengths = np.zeros(vocab_size, dtype=np.int64)
    strings, numbers = pack_tokens(tokens)
    lengths[numbers] = np.diff(strings.starts)
    for text, number in special_tokens.items():
        lengths[number] = len(text.encode("utf-8", "surrogateescape"))
    return lengths.astype(np.uint16) if lengths.max(initial=0) < 1 << 16 else lengths
