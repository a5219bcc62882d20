"""Join the spools of the parts of a job, and turn them into token files, which get their names later.

`columns-<0 or 1>.rows` in the folder of a part has the rows of columns that pass through, of the documents that remain, or that
are set aside: the number of the output as little-endian int64, and a stream of Arrow with a record batch, for each chunk.
Outputs follow each other, and shards do not divide them: the documents of a shard are a range of the rows of its output.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.kept_columns import final_batch, final_schema, json_schema, merge_schemas, read_schema, stored_rows
from bpejit.engines import count_cpus
from bpejit.jobs.folder_store import COMBINED
from bpejit.jobs.job_folder import FINAL, Fields, check_file, damaged, part_folder
from bpejit.jobs.job_options import Finished
from bpejit.jobs.job_records import CompleteParts, FilePairs, finished_manifest
from bpejit.jobs.spools import BLOCK_TOKENS, SinkOptions, SpoolRecord, SpoolSink, ends_path, ids_path, read_closed, read_spool
from bpejit.progress_bar import Progress
from bpejit.storage.arrow_columns import ColumnRows
from bpejit.storage.temporary import sync_file
from bpejit.tokenfiles.base import MappedFormat, TokenFileFormat
from bpejit.tokenfiles.description import Description

_THREADS = 4
"""Threads that copy spools. Each takes the memory of some row groups."""

_FLUSHED = 8
"""Files that are flushed to disk at a time, if their ids are not copied."""

LENGTHS = "token_lengths.npy"
"""The number of bytes of each token, in the folder of a job whose parts are divided into shards when they are joined."""

SCHEMA = "columns.schema"
"""The types that were planned, in the folder of a job."""

SHARED = (LENGTHS, SCHEMA)
"""Files that all parts of a job write, equally, and that joining reads."""


def columns_path(folder: Path, aside: bool) -> Path:
    """Return the file of the rows of a part."""
    return folder / f"columns-{int(aside)}.rows"


def wants_ends(form: TokenFileFormat, document_index: bool) -> bool:
    """Return True if the files of a job need the ends of documents."""
    return document_index or form.stores_documents


def sink_options(job: Fields, form: TokenFileFormat, token_lengths: Array | None, *, is_whole: bool) -> SinkOptions:
    """Return how ids are divided among the spools of the whole job, or, without `is_whole`, among those of a part.

    Those of a part have the ends of documents, since they are divided into shards later.
    """
    return SinkOptions(
        dtype=np.dtype(job["dtype"]).newbyteorder("<"),
        has_ends=not is_whole or wants_ends(form, job["document_index"]),
        sides=(False, True) if job["val_fraction"] else (False,),
        shard_tokens=job["shard_tokens"] if is_whole else None,
        shard_exact=job["shard_exact"],
        token_lengths=None if token_lengths is None else token_lengths.astype(np.uint32),
        ids_position=form.ids_position if is_whole and isinstance(form, MappedFormat) else 0,
    )


def column_rows(
    folder: Path, folders: Sequence[Path], names: Sequence[str], records: Sequence[SpoolRecord]
) -> list[ColumnRows]:
    """Return the rows of the documents of each spool of a job, whose types follow from all rows.

    A document that continues in the next shard belongs to both.

    Parameters
    ----------
    folder : Path
        Of the job.
    folders : list of Path
        Of the parts.
    names : list of str
        Of the columns.
    records : list of SpoolRecord
        Of all spools, in the order of outputs and shards.

    Raises
    ------
    CorpusError, OSError
    """
    try:
        schema = read_schema((folder / SCHEMA).read_bytes())
    except FileNotFoundError:
        schema = None
    # For each output and its side, the files that have its rows, and the positions of its first item in them.
    starts: defaultdict[tuple[int, bool], list[tuple[Path, int]]] = defaultdict(list)
    for part in folders:
        for aside in (False, True):
            path = columns_path(part, aside)
            last = -1
            for position, output, batch in stored_rows(path):
                if output != last:
                    starts[output, aside].append((path, position))
                    last = output
                schema = merge_schemas(schema, batch.schema)
    known = json_schema(names) if schema is None else schema
    final = final_schema(known)

    def batches(record: SpoolRecord, start: int) -> Iterator[Any]:
        for path, position in starts.get((record.output, record.aside), ()):
            for _, _, batch in takewhile(lambda item: item[1] == record.output, stored_rows(path, position)):
                if start < batch.num_rows:
                    yield final_batch(batch.slice(start), known, final)
                start = max(start - batch.num_rows, 0)

    found = []
    following: defaultdict[tuple[int, bool], int] = defaultdict(int)
    for record in records:
        place = record.output, record.aside
        found.append(ColumnRows(final, batches(record, following[place])))
        following[place] += record.documents - int(record.continues)
    return found


class FinalFiles:
    """Writes the token files of a job, each in a folder of its own below the folder `final` of the job.

    Several large files are written in further threads; their bytes are the same. The spools stay until the job is complete, so
    that a run that was interrupted here begins with them again; that of a MappedFormat becomes its file. If this process has
    written all spools of the job, they are not compared with their hashes (`CompleteParts.fresh`).

    Parameters
    ----------
    names : EncodingOutputs
    parts : CompleteParts
    """

    def __init__(self, names: Any, parts: CompleteParts) -> None:
        n_parts = len(parts.checkpoints)
        self.names = names
        self.dtype = np.dtype(parts.job["dtype"]).newbyteorder("<")
        self._folder: Path = names.folder
        self._parts = parts
        self._job = parts.job
        self._places = [part_folder(self._folder, index, n_parts) for index in range(n_parts)]
        self._spools = self._places[0] if n_parts == 1 else self._folder / COMBINED
        self._has_ends = wants_ends(names.format, self._job["document_index"])
        self._fresh = parts.fresh
        self._failure: BaseException | None = None

    def write_all(self, report: Progress) -> tuple[FilePairs, Finished]:
        """Join the parts, and write their files and the manifest (see `JobOutputs`)."""
        job, names, totals = self._job, self.names, self._parts.totals
        if not self._fresh:
            self._check_parts()
        found = read_closed(self._spools, sha256=self._join(report))
        # In the order of the outputs, not in that of their completion.
        records = sorted(found, key=lambda record: (record.output, record.aside, record.shard))
        outputs = [self._described(record) for record in records]
        left_out = sum(record.tokens for record in records) - sum(output["tokens"] for output in outputs)
        totals.tokens -= left_out
        sums = {
            "tokens": totals.tokens,
            **({} if job.get("pack") is None else {"left_out": left_out}),
            "documents": totals.documents,
            "bytes_read": totals.bytes,
            "skipped": totals.skipped.count,
        }
        final = self._folder / FINAL
        shutil.rmtree(final, ignore_errors=True)  # of a run that was interrupted
        final.mkdir()
        self._write_files(records)
        pairs: list[tuple[Path, Path]] = []
        for record in records:
            staged = [Path(file) for file in names.format.files(self._staged(record))]
            targets = map(Path, names.format.files(names.path(record)))
            if isinstance(names.format, MappedFormat):
                staged[0] = ids_path(self._spools, record.number)
            pairs += [pair for pair in zip(staged, targets, strict=True) if pair[0].exists()]
        written = final / names.manifest.name
        with written.open("wb") as file:  # nothing reads it before its last name is given to it
            file.write(finished_manifest(job, sums, outputs))
            file.flush()
            sync_file(file.fileno())
        # The last file of an exchange is what a reader misses first: the description of a single output, else the manifest.
        pairs.insert(0 if len(records) == 1 else len(pairs), (written, names.manifest))
        return pairs, Finished(tuple(map(names.path, records)), names.manifest, totals, self.dtype.name, left_out)

    def _described(self, record: SpoolRecord) -> Fields:
        """Return the description of an output: with `pack`, of the ids in its rows, and of those that do not fill a row."""
        pack = self._job.get("pack")
        rows, left_out = divmod(record.tokens, pack or 1)
        return {
            "path": self.names.path(record).relative_to(self.names.manifest.parent).as_posix(),
            "tokens": record.tokens - left_out,
            "documents": record.documents,
            "bytes_read": record.bytes,
            **({"validation": True} if record.aside else {}),
            **({} if pack is None else {"rows": rows, "left_out": left_out}),
        }

    def _check_parts(self) -> None:
        """Compare columns, and the files that all parts share, with the hashes in the checkpoints of the parts."""
        for place, one in zip(self._places, self._parts.checkpoints, strict=True):
            for aside, (_, found) in enumerate(one.get("columns", ())):
                check_file(columns_path(place, bool(aside)), found, folder=place)
            for name, found in one["shared"].items():
                check_file(self._folder / name, found, folder=self._folder)

    def _join(self, report: Progress) -> str:
        """Write the spools of several parts, in order, to new ones with other shards; return the hash of the records.

        Nothing is done for a single part.
        """
        checkpoints = self._parts.checkpoints
        if len(checkpoints) == 1:
            return str(checkpoints[0]["closed_sha256"])
        self._fresh = True
        n_tokens, done = self._parts.totals.tokens, 0
        lengths = np.load(self._folder / LENGTHS) if self._job["shard_tokens"] is not None else None
        options = sink_options(self._job, self.names.format, lengths, is_whole=True)
        records: defaultdict[tuple[int, bool], list[tuple[Path, SpoolRecord]]] = defaultdict(list)
        for place, one in zip(self._places, checkpoints, strict=True):
            for record in read_closed(place, sha256=one["closed_sha256"]):
                records[record.output, record.aside].append((place, record))
        with closing(SpoolSink(self._spools, options)) as sink:
            report("combine", 0, n_tokens, "tokens")
            for output, aside in sorted(records):
                sink.begin_output(output)
                for place, record in records[output, aside]:
                    n_bytes = record.bytes
                    for ids, ends in read_spool(place, record, options.dtype, has_ends=True):
                        try:
                            sink.write(aside, ids, ends, n_bytes)
                        except IndexError as cause:  # of the lengths of tokens; the hash is compared at the end
                            raise damaged(ids_path(place, record.number), folder=place) from cause
                        n_bytes = 0
                        done += int(ids.size)
                        report("combine", done, n_tokens, "tokens")
            sink.finish()
        return sink.closed_sha256

    def _place(self, record: SpoolRecord) -> Path:
        """Return the folder for the files of a spool."""
        return self._folder / FINAL / f"{record.number:06d}"

    def _staged(self, record: SpoolRecord) -> Path:
        """Return the path of the token file of a spool in its folder."""
        name: str = self.names.path(record).name
        return self._place(record) / name

    def _write_files(self, records: Sequence[SpoolRecord]) -> None:
        """Write the files of spools, in several threads."""
        form, names = self.names.format, self._job.get("keep_columns")
        if isinstance(form, MappedFormat):
            threads = _FLUSHED
            tasks = [partial(self._adopt, form, record) for record in records]
        else:
            threads = min(count_cpus(), _THREADS) if sum(record.tokens for record in records) > BLOCK_TOKENS else 1
            rows: list[Any] = [None] * len(records)
            if names:
                rows = column_rows(self._folder, self._places, names, records)
            tasks = [partial(self._copy, *one) for one in zip(records, rows, strict=True)]
        rest = iter(tasks)

        def work() -> None:
            try:
                for task in rest:
                    if self._failure is None:
                        task()
            except BaseException as error:
                self._failure = error

        with ThreadPoolExecutor(threads) as pool:
            helpers = []
            with suppress(RuntimeError):  # no thread can be started: this one writes all files
                helpers += [pool.submit(work) for _ in tasks[1:threads]]
            work()
            try:
                wait(helpers)
            except BaseException as error:  # this thread is interrupted
                self._failure = error
        if self._failure is not None:
            raise self._failure

    def _copy(self, record: SpoolRecord, rows: ColumnRows | None) -> None:
        """Write the token file of a spool; `rows` are those of its documents."""
        known = replace(record, ids_sha256=None) if self._fresh else record  # it is not compared
        self._place(record).mkdir(parents=True, exist_ok=True)
        options = {"pack": self._job.get("pack"), "columns": rows}
        writer = self.names.format.writer(
            self._staged(record),
            dtype=self.dtype.name,
            vocab_size=self._job["vocab_size"],
            tokenizer_sha256=self._job["tokenizer_sha256"],
            overwrite=True,
            document_index=self._job["document_index"],
            **{name: value for name, value in options.items() if value is not None},
        )
        with writer:
            for ids, ends in read_spool(self._spools, known, self.dtype, has_ends=self._has_ends):
                if self._failure is not None:
                    raise self._failure
                writer.write(ids, ends=ends if self._has_ends else None)
            writer.write(np.empty(0, self.dtype), n_bytes=record.bytes)

    def _adopt(self, form: MappedFormat, record: SpoolRecord) -> None:
        """Write what belongs to a token file beside the ids, and the header before the ids."""
        staged = self._staged(record)
        has_borders = self._job["document_index"] or form.stores_documents
        source = ids_path(self._spools, record.number)
        if not self._fresh:
            check_file(source, record.ids_sha256, folder=self.names.folder, start=record.position)
            if self._has_ends:
                check_file(ends_path(self._spools, record.number), record.ends_sha256, folder=self.names.folder)
        self._place(record).mkdir(parents=True, exist_ok=True)
        described = Description(
            dtype=self.dtype.name,
            tokens=record.tokens,
            bytes_read=record.bytes,
            vocab_size=self._job["vocab_size"],
            tokenizer_sha256=self._job["tokenizer_sha256"],
            ids_sha256=record.ids_sha256,
            documents=record.documents if has_borders else None,
            file_format=form.name,
            documents_sha256=record.ends_sha256 if has_borders else None,
        )
        header = form.header(described)
        form.write_others(staged, described, ends_path(self._spools, record.number))
        with source.open("r+b", buffering=0) as file:
            file.write(header)
            sync_file(file.fileno())
