"""Encode text in chunks, and change the documents of the stream of ids: tokens are added, and some documents are set aside.

Engines run `encode_job` in workers; the other stages receive the ids in blocks, in order.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array, random_numbers
from bpejit.corpus.blocks import NOTHING_SKIPPED, AnyChunk, Block, Skipped
from bpejit.corpus.chunks import ChunkReader
from bpejit.corpus.fingerprints import checksum
from bpejit.encoding.encoder import Encoder
from bpejit.engines import FunctionJob
from bpejit.formats.missing_parts import END_OF_TEXT
from bpejit.model import Model


class EncodedChunk(NamedTuple):
    """The ids of a chunk.

    Parameters
    ----------
    n_bytes : int
        Bytes of text.
    ids : uint16 or uint32 [tokens]
    ends : int64 [documents]
        Positions in `ids` where documents end, ascending. The ids after the last one belong to a document that goes on in the
        next chunk. Empty documents end where the previous one does.
    n_read : int
        Bytes of the input (see `Block`).
    skipped : Skipped
        Records without text.
    columns : bytes, optional
        The values of the columns to keep, a row for each document.
    checksum : bytes
        Of what was read (see `block_checksum`).
    """

    n_bytes: int
    ids: Array
    ends: Array
    n_read: int = 0
    skipped: Skipped = NOTHING_SKIPPED
    columns: bytes | None = None
    checksum: bytes = b""

    @property
    def n_tokens(self) -> int:
        """Number of ids."""
        return self.ids.size

    @property
    def n_documents(self) -> int:
        """Number of documents that end in the chunk."""
        return self.ends.size


def block_checksum(block: Block) -> bytes:
    """Return a checksum of what is encoded of a block, and of what its last pre-token was seen to end at."""
    others = [] if block.ends is None else [block.ends]
    if block.columns is not None:
        others.append(np.frombuffer(block.columns, np.uint8))
    return checksum(block.text[: block.stop], *others, np.array([block.final, block.skipped.count]))


def checksum_chunk(reader: ChunkReader, chunk: AnyChunk) -> tuple[bytes, int]:
    """Return the checksum of a chunk, as `EncodeWorker` computes it, and its bytes of input."""
    block = chunk.read(reader)
    return block_checksum(block), block.n_read


def find_separator(model: Model) -> int | None:
    """Return the id that ends a document of plain text: that of `<|endoftext|>`, else that of the model's `eos_token`."""
    return model.special_tokens.get(END_OF_TEXT, model.special_tokens.get(model.config.eos_token or ""))


def encode_job(encoder: Encoder, dtype: str) -> FunctionJob:
    """Return the job that encodes chunks; the results of a worker are `EncodedChunk`s, with ids of a dtype."""
    return FunctionJob(EncodeWorker.run, partial(EncodeWorker, encoder, dtype))


class EncodeWorker:
    """Encode chunks with a single workspace."""

    def __init__(self, encoder: Encoder, dtype: str) -> None:
        self._encoder = encoder
        self._workspace = encoder.new_workspace()
        self._reader = ChunkReader()
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._separator = find_separator(encoder.model)

    def run(self, chunk: AnyChunk) -> EncodedChunk:
        """Encode one chunk."""
        block = chunk.read(self._reader)
        workspace = self._workspace
        if block.ends is None:
            found = self._encoder.encode_chunk(block.text, block.cut, block.stop, block.final, workspace)
            ids = found.astype(self._dtype)
            ends = self._separated_ends(ids) if block.separated else np.empty(0, np.int64)
            if block.final and (not ends.size or ends[-1] != ids.size):
                ends = np.append(ends, ids.size)
        else:
            found, ends = self._encoder.encode_block(block.text, block.ends, workspace, specials=block.specials)
            ids = found.astype(self._dtype)
            if block.separated and block.specials:
                # An empty text has no document, and a separator at the end of a text is not followed by one.
                ends = np.union1d(self._separated_ends(ids), ends[ends > 0])
        return EncodedChunk(block.n_bytes, ids, ends, block.n_read, block.skipped, block.columns, block_checksum(block))

    def _separated_ends(self, ids: Array) -> Array:
        """Return the positions after each separator, as int64 [documents]."""
        if self._separator is None:
            return np.empty(0, np.int64)
        return np.flatnonzero(ids == ids.dtype.type(self._separator)) + 1


class DocumentTokens:
    """Adds tokens to the documents of a stream of ids that arrives in blocks.

    A document that already begins or ends with the token stays as it is, so a separator in the text is never doubled.

    Parameters
    ----------
    prepend, append : int, optional
        Ids to add at the start and at the end of each document.

    Attributes
    ----------
    last : int, optional
        The last id of the document that continues in the next block. None if no document does, so that the next one begins
        with the next block.
    """

    def __init__(self, prepend: int | None = None, append: int | None = None) -> None:
        self.prepend = prepend
        self.append = append
        self.last: int | None = None

    def add(self, ids: Array, ends: Array) -> tuple[Array, Array]:
        """Return a block with the tokens added.

        Parameters
        ----------
        ids : uint16 or uint32 [tokens]
        ends : int64 [documents]
            Positions in `ids` where documents end.

        Returns
        -------
        ids : uint16 or uint32 [tokens]
        ends : int64 [documents]
        """
        begins = np.concatenate(([0], ends))
        stops = np.append(ends, ids.size)  # the last document continues in the next block, or has no ids in this one
        continued = self.last is not None
        before = self.last
        if ids.size > begins[-1]:
            self.last = int(ids[-1])
        elif ends.size:
            self.last = None
        wanted = np.zeros((begins.size, 2), bool)  # at the start and at the end of each document
        if self.prepend is not None:
            wanted[:, 0] = ~_has_id(ids, begins, begins < stops, self.prepend)
            wanted[0, 0] &= not continued
            wanted[-1, 0] &= stops[-1] > begins[-1]
        if self.append is not None:
            wanted[:-1, 1] = ~_has_id(ids, ends - 1, begins[:-1] < ends, self.append)
            if continued and ends.size and ends[0] == 0:
                wanted[0, 1] = before != self.append
        if not wanted.any():
            return ids, ends
        positions = np.column_stack((begins, stops))[wanted]
        added = np.array([self.prepend or 0, self.append or 0], ids.dtype)
        longer = np.insert(ids, positions, added[np.nonzero(wanted)[1]])
        return longer, ends + np.cumsum(wanted)[1::2][:-1]


def _has_id(ids: Array, positions: Array, inside: Array, wanted: int) -> Array:
    """Return where `ids[positions]` equals `wanted`; False where `inside` is, whose positions may lie outside of `ids`."""
    if not ids.size:
        return np.zeros(positions.size, bool)
    found: Array = inside & (ids[np.where(inside, positions, 0)] == wanted)
    return found


def draw_documents(seed: int, unit: int, first: int, count: int) -> Array:
    """Return a number from 0 to 1 for each of some consecutive documents of a unit.

    The number depends on the arguments alone: it is a hash of the seed, the unit and the document (SplitMix64).

    Parameters
    ----------
    seed, unit : int
        Not negative.
    first, count : int
        The index of the first document in the unit, and the number of documents.

    Returns
    -------
    float64 [count]
        At least 0, below 1.
    """
    numbers = random_numbers((unit,), count, first=first, state=seed)
    drawn: Array = (numbers >> np.uint64(11)) / 2.0**53
    return drawn


class DocumentChoice:
    """Divides a stream of documents into two, which contain complete documents.

    Parameters
    ----------
    fraction : float
        The share of the documents that are set aside, on average.
    seed : int

    Attributes
    ----------
    unit : int
        The unit of the next documents that begin.
    begun : int
        The number of documents that have begun in the unit.
    ended : bool [documents]
        For each document that ended in the last block, whether it is set aside.
    open : bool, optional
        Whether the document that continues in the next block is set aside. None if no document does.
    """

    def __init__(self, fraction: float, seed: int) -> None:
        self.fraction = fraction
        self.seed = seed
        self.unit = 0
        self.begun = 0
        self.ended: Array = np.zeros(0, bool)
        self.open: bool | None = None

    def begin_unit(self, unit: int) -> None:
        """Set the unit of the next blocks."""
        self.unit = unit
        self.begun = 0

    def divide(self, ids: Array, ends: Array) -> list[tuple[Array, Array]]:
        """Return ids and ends of the documents that remain, and of those that are set aside.

        Parameters
        ----------
        ids : uint16 or uint32 [tokens]
        ends : int64 [documents]
            Positions in `ids` where documents end.
        """
        begins = np.concatenate(([0], ends))
        stops = np.append(ends, ids.size)
        unfinished = bool(stops[-1] > begins[-1])
        count = ends.size + unfinished
        self.ended = np.zeros(0, bool)
        if not count:
            return [(ids, ends), (ids[:0], ends[:0])]
        continued = self.open is not None
        aside = np.empty(count, bool)
        drawn = draw_documents(self.seed, self.unit, self.begun, count - continued)
        aside[int(continued) :] = drawn < self.fraction
        if continued:
            aside[0] = self.open
        self.ended = aside[: ends.size]
        self.begun += count - continued
        self.open = bool(aside[-1]) if unfinished else None
        if not aside.any():
            return [(ids, ends), (ids[:0], ends[:0])]
        lengths = (stops - begins)[:count]
        in_second = np.repeat(aside, lengths)
        parts = []
        for found, which in ((ids[~in_second], ~aside), (ids[in_second], aside)):
            part_ends = np.cumsum(lengths[which])
            parts.append((found, part_ends[: int(which[: ends.size].sum())]))
        return parts
