"""Spools: token ids and document ends in raw files that only grow, until they become a token file.

A spool is `<number>.ids`, little-endian ids, and `<number>.ends`, the ends of its documents as little-endian int64. Bytes after
the lengths of the last checkpoint belong to no finished unit, and are cut off when the job is resumed. If the ids are to become
a token file without being copied, they follow space for its header. A checkpoint has the hashes of both files up to there,
which are compared when a later run reads them.

A sink divides a stream of encoded documents among spools: one for each output, shard and validation set.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.jobs.job_folder import Fields, GrowingFile, check_file, damaged
from bpejit.kernels.common.document_tokens import add_lengths
from bpejit.packed_tokens import pack_tokens
from bpejit.tokenfiles.mapping import EndReader, read_ends

END_DTYPE = np.dtype("<i8")

BLOCK_TOKENS = 1 << 20
"""Number of ids that are read from a spool at a time."""


@dataclass(frozen=True)
class SpoolRecord:
    """What a spool contains.

    Parameters
    ----------
    number : int
        Names its files.
    output : int
        The output to which it belongs: the index of an input if each has its own output, otherwise 0.
    aside : bool
        True if it contains the documents that are set aside for validation.
    shard : int
        The index of the shard; 0 if the output is not divided.
    tokens, documents, bytes : int
        Ids, documents that end in it, and bytes of text.
    ids_sha256, ends_sha256 : str, optional
        The hashes of the ids, and of the file of ends, of a complete spool or at a checkpoint.
    continues : bool
        Whether its last document continues in the next shard.
    position : int
        Bytes before the ids, space for a header.
    """

    number: int
    output: int
    aside: bool
    shard: int
    tokens: int = 0
    documents: int = 0
    bytes: int = 0
    ids_sha256: str | None = None
    ends_sha256: str | None = None
    continues: bool = False
    position: int = 0


def ids_path(folder: Path, number: int) -> Path:
    """Return the file with the ids of a spool."""
    return folder / f"{number:06d}.ids"


def ends_path(folder: Path, number: int) -> Path:
    """Return the file with the document ends of a spool."""
    return folder / f"{number:06d}.ends"


class Spool:
    """A spool that is being written.

    Parameters
    ----------
    folder : Path
    record : SpoolRecord
        That of a checkpoint, up to which the files are kept, or of a new spool.
    options : SinkOptions
    in_document : bool
        Whether the ids that follow continue a document.

    Attributes
    ----------
    record : SpoolRecord
        What the spool contains, without the hashes.
    files : list of GrowingFile

    Raises
    ------
    OSError
        If a file cannot be written, or is shorter than the record.
    OutputError
        If the content of a file is not that of the record.
    """

    def __init__(self, folder: Path, record: SpoolRecord, options: SinkOptions, *, in_document: bool = False) -> None:
        self.record = replace(record, ids_sha256=None, ends_sha256=None)
        self.dtype = options.dtype
        self.in_document = in_document
        size = record.tokens * self.dtype.itemsize
        self._ids = GrowingFile(ids_path(folder, record.number), size, record.ids_sha256, position=record.position)
        size = record.documents * END_DTYPE.itemsize
        self._ends = GrowingFile(ends_path(folder, record.number), size, record.ends_sha256) if options.has_ends else None
        self.files = [file for file in (self._ids, self._ends) if file is not None]

    def write(self, ids: Array, ends: Array, n_bytes: int) -> None:
        """Append ids, the ends of documents as positions in `ids`, and the number of bytes of text.

        Raises
        ------
        OSError
        """
        record = self.record
        if ids.size or ends.size:
            self.in_document = bool(ids.size > (ends[-1] if ends.size else 0))
        if self._ends is not None:
            self._ends.write((ends + record.tokens).astype(END_DTYPE).data)
        self._ids.write(np.ascontiguousarray(ids, self.dtype).data)
        self.record = replace(
            record,
            tokens=record.tokens + int(ids.size),
            documents=record.documents + int(ends.size),
            bytes=record.bytes + n_bytes,
        )

    def checkpoint(self, *, continues: bool = False) -> SpoolRecord:
        """Return what the spool contains, with the hashes."""
        ends_sha256 = None if self._ends is None else self._ends.sha256
        return replace(self.record, ids_sha256=self._ids.sha256, ends_sha256=ends_sha256, continues=continues)

    def close(self) -> None:
        """Close the files, which are not flushed to disk yet."""
        for file in self.files:
            file.close()


def read_spool(folder: Path, record: SpoolRecord, dtype: np.dtype[Any], *, has_ends: bool) -> Iterator[tuple[Array, Array]]:
    """Yield blocks of the ids of a spool, and the ends of the documents in each as positions in the block.

    Parameters
    ----------
    folder : Path
    record : SpoolRecord
        Of the complete spool; without the hash of the ids, the content is not compared.
    dtype : np.dtype
    has_ends : bool
        Whether the spool has the ends of documents.

    Raises
    ------
    OSError
        If a file cannot be read, or is shorter than the record.
    OutputError
        If the content of a complete spool is not that of the record; for ids, after the last block.
    """
    checked = record.ids_sha256 is not None
    path = ids_path(folder, record.number)
    ends_file = ends_path(folder, record.number)
    if checked and has_ends:
        check_file(ends_file, record.ends_sha256, folder=folder)
    digest = hashlib.sha256()
    with path.open("rb") as file, ends_file.open("rb") if has_ends else nullcontext() as borders:
        ends = EndReader(iter(()) if borders is None else read_ends(borders))
        file.seek(record.position)
        for position in range(0, max(record.tokens, 1), BLOCK_TOKENS):  # once if there are no ids
            size = min(BLOCK_TOKENS, record.tokens - position)
            wanted = size * dtype.itemsize
            data = file.read(wanted)
            if len(data) != wanted:
                raise OSError(None, f"it ends {wanted - len(data)} bytes early", str(path))
            if checked:
                digest.update(data)
            yield np.frombuffer(data, dtype), ends.up_to(position + size) - position
    if checked and digest.hexdigest() != record.ids_sha256:
        raise damaged(path, folder=folder)


CLOSED = "closed.jsonl"
"""The records of complete spools, one a line. A checkpoint has the length of the file."""


class SinkOptions(NamedTuple):
    """How a stream is divided.

    Parameters
    ----------
    dtype : np.dtype
        Little-endian.
    has_ends : bool
        Whether the ends of documents are written.
    sides : tuple of bool
        `(False,)`, or `(False, True)` if documents are set aside.
    shard_tokens : int, optional
        Minimum number of ids of a shard; None for a single one.
    shard_exact : bool
        Whether shards end after exactly that many ids, also in the middle of a document.
    token_lengths : uint32 [vocab_size], optional
        The number of bytes of each token, if the bytes of text are to be counted by token.
    ids_position : int
        Bytes before the ids of a spool, space for a header.
    """

    dtype: np.dtype[Any]
    has_ends: bool = True
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
        The state at a checkpoint (see `state`); None to begin.

    Raises
    ------
    OSError
    """

    def __init__(self, folder: Path, options: SinkOptions, state: Fields | None = None) -> None:
        self._folder = folder
        self._options = options
        self._open: dict[bool, Spool] = {}
        self._completed: list[Path] = []
        known = state or {"next": 0, "output": -1, "closed_bytes": 0, "closed_sha256": None, "open": ()}
        self._next = known["next"]
        self._output = known["output"]
        self._closed = GrowingFile(folder / CLOSED, known["closed_bytes"], known["closed_sha256"])
        for fields in known["open"]:
            record = SpoolRecord(**fields["spool"])
            self._open[record.aside] = Spool(folder, record, options, in_document=fields["in_document"])

    @property
    def closed_sha256(self) -> str:
        """The hash of the records of complete spools."""
        return self._closed.sha256

    def begin_output(self, output: int) -> None:
        """Set the output of the next blocks; the spools of an earlier one are completed.

        Raises
        ------
        OSError
        """
        if output == self._output:
            return
        self.finish()
        self._output = output
        for side in self._options.sides:
            self._begin_shard(side, 0)

    def _begin_shard(self, side: bool, shard: int, *, in_document: bool = False) -> None:
        record = SpoolRecord(self._next, self._output, side, shard, position=self._options.ids_position)
        self._open[side] = Spool(self._folder, record, self._options, in_document=in_document)
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
                n_bytes = add_lengths(part, lengths)
                if n_bytes < 0:
                    raise IndexError(f"an id is not below {lengths.size}")
            spool.write(part, part_ends, n_bytes)

    def _cut(self, side: bool, ids: Array, ends: Array) -> Iterator[tuple[Array, Array]]:
        """Yield the blocks of each shard; a new shard begins between two of them."""
        limit = self._options.shard_tokens
        while limit is not None and (ids.size or ends.size):
            spool = self._open[side]
            if spool.in_document and ends.size and ends[0] == 0:
                yield ids[:0], ends[:1]
                ends = ends[1:]
                continue
            # A shard that has reached its size ends as soon as something follows, so that the last one is never empty.
            if spool.record.tokens >= limit and (self._options.shard_exact or not spool.in_document):
                self._begin_shard(side, spool.record.shard + 1, in_document=self._end_shard(side))
                continue
            room = limit - spool.record.tokens
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

    def _end_shard(self, side: bool) -> bool:
        """Complete a spool; return True if its last document continues in the next one."""
        spool = self._open.pop(side)
        continues = spool.in_document
        if continues and self._options.has_ends:
            # The rest of the document is in the next shard; a file of documents contains no other ids.
            spool.write(np.empty(0, spool.dtype), np.zeros(1, np.int64), 0)
        spool.close()
        # Flushed with the next checkpoint, in its thread, or at the end: here it would take a tenth of a second.
        self._completed += [file.path for file in spool.files]
        record = spool.checkpoint(continues=continues)
        self._closed.write(json.dumps(asdict(record)).encode("ascii") + b"\n")
        return continues

    def finish(self) -> None:
        """Complete all spools.

        Raises
        ------
        OSError
        """
        for side in [*self._open]:
            self._end_shard(side)

    def state(self) -> Fields:
        """Return the state for a checkpoint."""
        spools = [{"spool": asdict(spool.checkpoint()), "in_document": spool.in_document} for spool in self._open.values()]
        closed = {"closed_bytes": self._closed.size, "closed_sha256": self.closed_sha256}
        return {"next": self._next, "output": self._output, **closed, "open": spools}

    def changed(self) -> list[Path]:
        """Return the files that may have changed since the last call."""
        completed, self._completed = self._completed, []
        opened = [file.path for spool in self._open.values() for file in spool.files]
        return [*completed, *opened, self._closed.path]

    def close(self) -> None:
        """Close all files, without completing the spools."""
        for spool in self._open.values():
            spool.close()
        self._closed.close()


def read_closed(folder: Path, *, sha256: str | None = None) -> list[SpoolRecord]:
    """Return the records of the complete spools of a folder.

    Parameters
    ----------
    folder : Path
    sha256 : str, optional
        The hash of the file, if another run has written it.

    Raises
    ------
    OSError
    OutputError
        If they are not those that were written.
    """
    data = (folder / CLOSED).read_bytes()
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise damaged(folder / CLOSED, folder=folder)
    return [SpoolRecord(**json.loads(line)) for line in data.splitlines()]


def count_lengths(tokens: Mapping[int, bytes], special_tokens: Mapping[str, int], vocab_size: int) -> Array:
    """Return the number of bytes of each id, as uint16 or int64 [vocab_size]; 0 for ids that are not used."""
    lengths = np.zeros(vocab_size, np.int64)
    strings, numbers = pack_tokens(tokens)
    lengths[numbers] = np.diff(strings.starts)
    for text, number in special_tokens.items():
        lengths[number] = len(text.encode("utf-8", "surrogateescape"))
    return lengths.astype(np.uint16) if lengths.max(initial=0) < 1 << 16 else lengths
