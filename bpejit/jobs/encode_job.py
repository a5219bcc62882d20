"""Encoding as a kind of job: workers encode chunks, and a sink changes the documents of the stream of ids, and writes them.

Engines run `encode_job` in workers; the other stages receive the ids in blocks, in order: tokens are added to documents, and
some documents are set aside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bpejit.arrays import Array, distinct, random_numbers
from bpejit.corpus.blocks import NOTHING_SKIPPED, AnyChunk, Block, Skipped
from bpejit.corpus.chunks import ChunkReader
from bpejit.corpus.fingerprints import checksum
from bpejit.corpus.kept_columns import merge_schemas, pack_rows, read_schema, unpack_rows
from bpejit.corpus.units import Unit
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.kernel_runner import CarriageReturns
from bpejit.engines import FunctionJob
from bpejit.errors import CorpusError
from bpejit.formats.missing_parts import END_OF_TEXT
from bpejit.jobs.final_files import LENGTHS, SCHEMA, SHARED, columns_path, sink_options
from bpejit.jobs.job_folder import Fields, GrowingFile
from bpejit.jobs.job_plan import JobPlan, PartSink
from bpejit.jobs.spools import SpoolSink, count_lengths
from bpejit.kernels.common.document_tokens import insert_tokens
from bpejit.model import Model
from bpejit.storage.files import file_sha256
from bpejit.storage.temporary import hidden
from bpejit.tokenfiles import load_format


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
    ends_open : bool
        Whether the chunk has no ids, and its end is that of the text, which is one of a document only if one continues there.
    """

    n_bytes: int
    ids: Array
    ends: Array
    n_read: int = 0
    skipped: Skipped = NOTHING_SKIPPED
    columns: bytes | None = None
    checksum: bytes = b""
    ends_open: bool = False

    @property
    def n_tokens(self) -> int:
        """Number of ids."""
        return self.ids.size

    @property
    def n_documents(self) -> int:
        """Number of documents that end in the chunk."""
        return self.ends.size

    def following(self, is_open: bool) -> EncodedChunk:
        """Return the chunk as it is after others; `is_open` tells whether a document continues in it."""
        return self._replace(ends=self.ends[:0]) if self.ends_open and not is_open else self


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
        ends_open = False
        if block.ends is None:
            found = self._encoder.encode_chunk(block.text, block.cut, block.stop, block.final, workspace)
            ids = found.astype(self._dtype)
            ends = self._separated_ends(ids) if block.separated else np.empty(0, np.int64)
            if block.final and (not ends.size or ends[-1] != ids.size):
                ends = np.append(ends, ids.size)
                ends_open = block.separated and not ids.size
        else:
            found, ends = self._encoder.encode_block(block.text, block.ends, workspace, specials=block.specials)
            ids = found.astype(self._dtype)
            if block.separated and block.specials:
                # A text without ids has no document, and a separator at the end of a text is not followed by one.
                ends = distinct(np.concatenate((self._separated_ends(ids), ends[ends > 0])))
        checked = block_checksum(block)
        return EncodedChunk(block.n_bytes, ids, ends, block.n_read, block.skipped, block.columns, checked, ends_open)

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
        last = -1 if self.last is None else self.last
        if ids.size > (ends[-1] if ends.size else 0):
            self.last = int(ids[-1])
        elif ends.size:
            self.last = None
        if self.prepend is None and self.append is None:
            return ids, ends
        prepend, append = (-1 if token is None else token for token in (self.prepend, self.append))
        longer = np.empty(ids.size + 2 * ends.size + 1, ids.dtype)
        new_ends = np.empty(ends.size, np.int64)
        size = insert_tokens(ids, ends, prepend, append, last, longer, new_ends)
        return longer[:size], new_ends


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


class EncodingSink(PartSink):
    """Passes encoded chunks through the stages of a job, to spools of ids and of columns.

    Parameters
    ----------
    plan : JobPlan
        Of the part.
    model : Model
    columns : bytes, optional
        The types of the columns to keep, as far as they are known.
    folder : Path
        The folder of the part.
    checkpoint : dict, optional
        The last checkpoint of the part; None to begin.

    Raises
    ------
    OSError, OutputError
    """

    def __init__(self, plan: JobPlan, model: Model, columns: bytes | None, folder: Path, checkpoint: Fields | None) -> None:
        job = plan.job
        self._folder = folder
        self._per_input = plan.options.per_input
        self._watch = CarriageReturns.of(model)
        self._tokens = DocumentTokens(job["prepend"], job["append"])
        self._choice = DocumentChoice(job["val_fraction"], job["seed"] or 0)
        self._output = 0
        known = checkpoint or {}
        if checkpoint is not None:
            self._tokens.last = checkpoint["last"]
            self._choice.open, self._choice.unit, self._choice.begun = checkpoint["drawn"]
        _, parts = plan.options.part or (0, 1)
        lengths = None
        if job["shard_tokens"] is not None or job["val_fraction"]:
            lengths = count_lengths(model.tokens, model.special_tokens, model.vocab_size)
        if lengths is not None and parts > 1:
            self._write_shared(LENGTHS, partial(np.save, arr=lengths))
        spools = sink_options(job, load_format(job["format"]), lengths, is_whole=parts == 1)
        self._sides = spools.sides
        self._columns = []
        self._schema = None
        if columns is not None:
            self._write_shared(SCHEMA, partial(Path.write_bytes, data=columns))
            self._schema = read_schema(columns)
        if job.get("keep_columns"):
            found = known.get("columns", [(0, None)] * len(self._sides))
            self._columns += [
                GrowingFile(columns_path(folder, side), *one) for side, one in zip(self._sides, found, strict=True)
            ]
        self._spools = SpoolSink(folder, spools, known.get("sink"))
        if not self._per_input:
            self._spools.begin_output(0)

    def _write_shared(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a file that all parts write, equally, into the folder of the job."""
        path = self._folder.parent / name
        written = hidden(path, f"tmp{path.suffix}")
        write(written)
        written.replace(path)

    def begin_unit(self, unit: Unit) -> None:
        """Set the output and the documents of the next chunks."""
        if self._per_input:
            self._output = unit.first_source
            self._spools.begin_output(self._output)
        if self._choice.unit != unit.number:
            self._choice.begin_unit(unit.number)

    def write(self, result: EncodedChunk) -> tuple[int, int]:
        """Append an encoded chunk; return the numbers of ids, with those that were added, and of documents."""
        if self._watch is not None:
            self._watch.check(result.ids)
        result = result.following(self._tokens.last is not None)
        ids, ends = self._tokens.add(result.ids, result.ends)
        sides = self._sides
        divided = self._choice.divide(ids, ends) if len(sides) > 1 else [(ids, ends)]
        for aside, documents in zip(sides, divided, strict=True):
            self._spools.write(aside, *documents, result.n_bytes)
        rows: Any = unpack_rows(result.columns) if self._columns else None
        if rows is not None and rows.num_rows != result.n_documents:
            raise CorpusError(
                f"an input has {rows.num_rows} rows of columns to keep, and {result.n_documents} documents; expected one for "
                "each: its format (see `bpejit.corpus.registry`) has to return them"
            )
        for aside, file in zip(sides, self._columns, strict=False):
            chosen = rows.filter(self._choice.ended == aside) if len(sides) > 1 else rows
            if chosen.num_rows:
                self._schema = merge_schemas(self._schema, chosen.schema)
                file.write(self._output.to_bytes(8, "little") + pack_rows(chosen))
        return int(ids.size), result.n_documents

    def state(self) -> Fields:
        """Return the states of all stages."""
        choice = self._choice
        drawn = [choice.open, choice.unit, choice.begun]
        return {"last": self._tokens.last, "drawn": drawn, "sink": self._spools.state(), **self._column_state()}

    def _column_state(self) -> Fields:
        """Return the size and the hash of each file of columns."""
        return {"columns": [(file.size, file.sha256) for file in self._columns]} if self._columns else {}

    def changed(self) -> list[Path]:
        """Return the files that may have changed since the last call."""
        return [*self._spools.changed(), *(file.path for file in self._columns)]

    def finish(self) -> Fields:
        """Complete the spools; return their hashes, and those of the files that all parts write."""
        self._spools.finish()
        shared = {name: file_sha256(path) for name in SHARED if (path := self._folder.parent / name).exists()}
        return {"shared": shared, "closed_sha256": self._spools.closed_sha256, **self._column_state()}

    def close(self) -> None:
        """Close all files."""
        self._spools.close()
        for file in self._columns:
            file.close()
