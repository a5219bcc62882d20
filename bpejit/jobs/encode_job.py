"""The job that engines run to encode text in chunks."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.blocks import NOTHING_SKIPPED, AnyChunk, Block, Skipped
from bpejit.corpus.chunks import ChunkReader
from bpejit.corpus.fingerprints import checksum
from bpejit.encoding.encoder import Encoder
from bpejit.engines.base import FunctionJob
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
