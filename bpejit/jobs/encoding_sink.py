"""What a part of an encoding job writes: spools of ids and of columns, and token files that grow with them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bpejit.corpus.kept_columns import unpack_rows
from bpejit.corpus.units import Unit
from bpejit.encoding.codec import CarriageReturns
from bpejit.errors import CorpusError
from bpejit.jobs.column_spools import ColumnSpools
from bpejit.jobs.document_tokens import DocumentChoice, DocumentTokens
from bpejit.jobs.encode_job import EncodedChunk
from bpejit.jobs.encoding_outputs import SHARED
from bpejit.jobs.final_files import FinalFiles
from bpejit.jobs.job_folder import file_sha256
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.job_plan import PartSink
from bpejit.jobs.spool_sink import SinkOptions, SpoolSink, read_closed


class EncodingSink(PartSink):
    """Passes encoded chunks through the stages of a job, to spools.

    Parameters
    ----------
    folder : Path
        The folder of the part.
    options : JobOptions
    sink_options : SinkOptions
    checkpoint : dict, optional
        The last checkpoint of the part; None to begin.
    keeps_columns : bool
        Whether columns pass through.
    schema : bytes, optional
        Their types, as far as they are planned.
    files : FinalFiles, optional
        Writes token files while the spools grow.
    watch : CarriageReturns, optional
        Looks for carriage returns in ids.

    Raises
    ------
    OSError, OutputError
    """

    def __init__(
        self,
        folder: Path,
        options: JobOptions,
        sink_options: SinkOptions,
        checkpoint: Mapping[str, Any] | None,
        *,
        keeps_columns: bool,
        schema: bytes | None,
        files: FinalFiles | None,
        watch: CarriageReturns | None,
    ) -> None:
        self._folder = folder
        self._options = options
        self._files = files
        self._watch = watch
        self._tokens = DocumentTokens(options.prepend, options.append)
        self._choice = DocumentChoice(options.val_fraction, options.seed)
        self._output = 0
        known = checkpoint or {}
        if checkpoint is not None:
            self._tokens.last = checkpoint["last"]
            self._choice.open, self._choice.unit, self._choice.begun = checkpoint["drawn"]
        with ExitStack() as stack:
            self._columns: ColumnSpools | None = None
            if keeps_columns:
                self._columns = ColumnSpools(folder, options.sides, schema, known.get("columns"))
                stack.callback(self._columns.close)
            if files is not None:
                state = known.get("sink")
                files.begin([] if state is None else read_closed(folder, state["closed_bytes"], sha256=state["closed_sha256"]))
            self._spools = SpoolSink(folder, sink_options, known.get("sink"), None if files is None else files.note)
            stack.callback(self._spools.close)
            if files is not None:
                stack.callback(files.close)  # before the spools that it reads
            if not options.per_input:
                self._spools.begin_output(0)
            self._stack = stack.pop_all()

    def begin_unit(self, unit: Unit) -> None:
        """Set the output and the documents of the next chunks."""
        if self._options.per_input:
            self._output = unit.first_source
            self._spools.begin_output(self._output)
        if self._choice.unit != unit.number:
            self._choice.begin_unit(unit.number)

    def write(self, result: EncodedChunk) -> tuple[int, int]:
        """Append an encoded chunk; return the numbers of ids, with those that were added, and of documents."""
        if self._watch is not None:
            self._watch.check(result.ids)
        ids, ends = self._tokens.add(result.ids, result.ends)
        divides = self._options.val_fraction > 0
        for aside, (some, some_ends) in enumerate(self._choice.divide(ids, ends) if divides else [(ids, ends)]):
            self._spools.write(bool(aside), some, some_ends, result.n_bytes)
        if self._columns is not None:
            rows = rows_of(result)
            for aside in self._options.sides:
                chosen = rows.filter(self._choice.ended == aside) if divides else rows
                self._columns.write(self._output, aside, chosen)
        return int(ids.size), result.n_documents

    def state(self) -> dict[str, Any]:
        """Return the states of all stages."""
        choice = self._choice
        columns = {} if self._columns is None else {"columns": self._columns.state()}
        drawn = [choice.open, choice.unit, choice.begun]
        return {"last": self._tokens.last, "drawn": drawn, "sink": self._spools.state(), **columns}

    def changed(self) -> list[Path]:
        """Return the files that may have changed since the last call."""
        return [*self._spools.changed(), *([] if self._columns is None else self._columns.paths)]

    def finish(self) -> dict[str, Any]:
        """Complete the spools; return their hashes, and those of the files that all parts write."""
        self._spools.finish()
        if self._files is not None:
            self._files.finish()
        shared = {name: file_sha256(path) for name in SHARED if (path := self._folder.parent / name).exists()}
        columns = {} if self._columns is None else {"columns": self._columns.state()}
        return {"shared": shared, "closed_sha256": self._spools.closed_sha256, **columns}

    def close(self) -> None:
        """Close all files."""
        self._stack.close()


def rows_of(encoded: EncodedChunk) -> Any:
    """Return the rows of the columns to keep of a chunk, as a record batch.

    Raises
    ------
    CorpusError
        If there is not one for each document.
    """
    rows = unpack_rows(encoded.columns)
    if rows.num_rows != encoded.n_documents:
        raise CorpusError(
            f"an input has {rows.num_rows} rows of columns to keep, and {encoded.n_documents} documents; expected one for "
            "each: its format (see `bpejit.corpus.registry`) has to return them"
        )
    return rows
