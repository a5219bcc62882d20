"""Token files as the outputs of a job: the spools of its parts are joined, and turned into the files of its outputs."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.blocks import no_texts
from bpejit.engines import Engine
from bpejit.errors import BpejitError
from bpejit.jobs.final_files import SCHEMA, FinalFiles, StoredColumns, columns_path
from bpejit.jobs.folder_store import COMBINED
from bpejit.jobs.job_folder import Fields, check_file, damaged, part_folder, read_record, sync_paths, write_record
from bpejit.jobs.job_records import FORMAT, FORMAT_VERSION, finished_manifest
from bpejit.jobs.job_totals import Finished, Totals
from bpejit.jobs.spools import SinkOptions, SpoolRecord, SpoolSink, ids_path, read_closed, read_spool
from bpejit.jobs.store import CompleteParts, FilePairs, JobOutputs, listed_outputs
from bpejit.progress_bar import Progress
from bpejit.tokenfiles import load_format
from bpejit.tokenfiles.base import MappedFormat, TokenFileFormat

LENGTHS = "token_lengths.npy"
"""The number of bytes of each token, in the folder of a job whose parts are divided into shards when they are joined."""

ASIDE = "-val"
"""What the names of files with the documents that are set aside end in, before the number of a shard and the suffix."""

SHARED = (LENGTHS, SCHEMA)
"""Files that all parts of a job write, equally, and that joining reads."""


@dataclass(frozen=True)
class EncodingOutputs(JobOutputs):
    """The outputs of an encoding job, and their names.

    Parameters
    ----------
    out : Path
        A file, or a folder of outputs.
    inputs : list of Path, optional
        The name of the output of each input in the folder, without suffix; None for a single output.
    divided : bool
        Whether the output is divided into shards.
    format : TokenFileFormat
    """

    inputs: list[Path] | None
    divided: bool
    format: TokenFileFormat

    @classmethod
    def of_job(cls, out: Path, job: Fields) -> EncodingOutputs:
        """Return the outputs of what was asked for, as in a manifest."""
        inputs = None if job["per_input"] is None else [Path(name) for name in job["per_input"]]
        return cls(out, inputs, job["shard_tokens"] is not None, load_format(job["format"]))

    @property
    def per_input(self) -> bool:
        """Whether `out` is a folder with an output for each input."""
        return self.inputs is not None

    @property
    def has_many_files(self) -> bool:
        """Whether the output is divided into shards."""
        return self.divided

    def first_files(self) -> list[Path]:
        """Return the files of the first output."""
        return [Path(file) for file in self.format.files(self.path(SpoolRecord(0, 0, False, 0)))]

    def path(self, record: SpoolRecord) -> Path:
        """Return the token file that a spool becomes."""
        if self.inputs is None:
            base = self.out
        else:
            name = self.inputs[record.output]
            base = self.out / name.with_name(f"{name.name}{self.format.suffix}")
        suffix = "".join(base.suffixes[-1:])
        stem = base.name[: len(base.name) - len(suffix)]
        number = f"-{record.shard:05d}" if self.divided else ""
        return base.with_name(f"{stem}{ASIDE if record.aside else ''}{number}{suffix}")

    def existing(self) -> list[Path]:
        """Return the files of an earlier job with these outputs, without its manifest."""
        found: list[Path] = []
        for output in range(len(self.inputs or [0])):
            if not self.divided:  # without a second set, a file that has the name of one may be anything
                found.append(self.path(SpoolRecord(0, output, False, 0)))
                continue
            for aside in (False, True):
                first = self.path(SpoolRecord(0, output, aside, 0))
                pattern = re.compile(re.escape(first.name).replace(r"\-00000", r"-\d{5,}"))
                with suppress(OSError):
                    found += sorted(path for path in first.parent.iterdir() if pattern.fullmatch(path.name))
        home = self.manifest.parent
        for name in listed_outputs(self.manifest):
            if Path(os.path.realpath((home / name).parent)).is_relative_to(os.path.realpath(home)):  # no link leads elsewhere
                found.append(home / name)
        files = dict.fromkeys(Path(file) for path in found for file in self.format.files(path))
        return [file for file in files if os.path.lexists(file)]

    def read_complete(self, fields: Fields) -> Finished | None:
        """Return the outputs that a manifest describes; None if one is missing, or the manifest is broken."""
        if fields.get("format") != FORMAT or fields.get("format_version") != FORMAT_VERSION:
            return None
        paths = [self.manifest.parent / name for name in listed_outputs(self.manifest)]
        totals = Totals.of_manifest(fields)
        try:
            form, dtype = load_format(fields["job"]["format"]), str(fields["job"]["dtype"])
        except (KeyError, TypeError, ValueError, BpejitError):
            return None
        if totals is None or not paths or not all(any(map(os.path.exists, form.files(path))) for path in paths):
            return None
        return Finished(tuple(paths), self.manifest, totals, dtype, int(fields.get("left_out", 0)))

    def check_totals(self, job: Fields, totals: Totals) -> None:  # noqa: ARG002
        """Raise CorpusError if all records were skipped."""
        if totals.skipped and not totals.documents:
            raise no_texts(totals.skipped)

    def write_final(
        self,
        parts: CompleteParts,
        report: Progress,
        engine: Engine | None,  # noqa: ARG002 - one process writes all files
    ) -> tuple[FilePairs, Finished]:
        """Join the spools of the parts, and write them as token files (see `JobOutputs`)."""
        folder = self.folder
        job, checkpoints, fresh = parts.job, parts.checkpoints, parts.fresh
        totals = parts.totals
        has_ends = wants_ends(self.format, job["document_index"], len(checkpoints))
        if not fresh:
            _check_parts(folder, checkpoints)
        spools = part_folder(folder, 0, 1)
        joined = checkpoints[0]
        if len(checkpoints) > 1:
            spools = folder / COMBINED
            joined = read_record(spools / "complete") or {}
            if "closed_sha256" not in joined:
                fresh = True
                joined = {"closed_sha256": _join_spools(self, spools, parts, report)}
                write_record(spools / "complete", joined)
        files = FinalFiles(self, job, spools, has_ends=has_ends, fresh=fresh)
        found = read_closed(spools, sha256=joined["closed_sha256"])
        # In the order of the outputs, not in that of their completion.
        records = sorted(found, key=lambda record: (record.output, record.aside, record.shard))
        pack = job.get("pack")
        outputs = [self._described(record, pack) for record in records]
        left_out = sum(record.tokens for record in records) - sum(output["tokens"] for output in outputs)
        totals.tokens -= left_out
        sums = {
            "tokens": sum(output["tokens"] for output in outputs),
            **({} if pack is None else {"left_out": left_out}),
            "documents": totals.documents,
            "bytes_read": totals.bytes,
            "skipped": totals.skipped.count,
        }
        columns = None
        if job.get("keep_columns"):
            places = [part_folder(folder, index, len(checkpoints)) for index in range(len(checkpoints))]
            columns = StoredColumns.of(folder, places, job["keep_columns"])
        pairs = files.write_all(records, finished_manifest(job, sums, outputs), columns)
        return pairs, Finished(tuple(map(self.path, records)), self.manifest, totals, files.dtype.name, left_out)

    def _described(self, record: SpoolRecord, pack: int | None) -> Fields:
        """Return the description of an output: with `pack`, of the ids in its rows, and of those that do not fill a row."""
        rows, left_out = divmod(record.tokens, pack or 1)
        return {
            "path": self.path(record).relative_to(self.manifest.parent).as_posix(),
            "tokens": record.tokens - left_out,
            "documents": record.documents,
            "bytes_read": record.bytes,
            **({"validation": True} if record.aside else {}),
            **({} if pack is None else {"rows": rows, "left_out": left_out}),
        }


def wants_ends(form: TokenFileFormat, document_index: bool, parts: int) -> bool:
    """Return True if the spools of a job need the ends of documents: for the files, or for dividing them into shards later."""
    return document_index or parts > 1 or form.stores_documents


def sink_options(job: Fields, form: TokenFileFormat, parts: int, token_lengths: Array | None, *, is_whole: bool) -> SinkOptions:
    """Return how ids are divided among the spools of one of `parts`, or, with `is_whole`, among those of the whole job."""
    return SinkOptions(
        dtype=np.dtype(job["dtype"]).newbyteorder("<"),
        has_ends=wants_ends(form, job["document_index"], parts),
        sides=(False, True) if job["val_fraction"] else (False,),
        shard_tokens=job["shard_tokens"] if is_whole else None,
        shard_exact=job["shard_exact"],
        token_lengths=token_lengths,
        ids_position=form.ids_position if is_whole and isinstance(form, MappedFormat) else 0,
    )


def _check_parts(folder: Path, checkpoints: Sequence[Fields]) -> None:
    """Compare columns, and the files that all parts share, with the hashes in the checkpoints of the parts."""
    for part, one in enumerate(checkpoints):
        for aside, (_, found) in enumerate(one.get("columns", ())):
            path = columns_path(part_folder(folder, part, len(checkpoints)), bool(aside))
            check_file(path, found, folder=path.parent)
        for name, found in one["shared"].items():
            check_file(folder / name, found, folder=folder)


def _join_spools(names: EncodingOutputs, target: Path, parts: CompleteParts, report: Progress) -> str:
    """Write the spools of all parts, in order, to new ones that are divided into shards; return the hash of their records."""
    job, n_parts, n_tokens = parts.job, len(parts.checkpoints), parts.totals.tokens
    folder = names.folder
    lengths = np.load(folder / LENGTHS) if job["shard_tokens"] is not None else None
    options = sink_options(job, names.format, n_parts, lengths, is_whole=True)
    records: defaultdict[tuple[int, bool], list[tuple[Path, SpoolRecord]]] = defaultdict(list)
    for index, one in enumerate(parts.checkpoints):
        spools = part_folder(folder, index, n_parts)
        for record in read_closed(spools, sha256=one["closed_sha256"]):
            records[record.output, record.aside].append((spools, record))
    done = 0
    with closing(SpoolSink(target, options)) as sink:
        report("combine", 0, n_tokens, "tokens")
        for output, aside in sorted(records):
            sink.begin_output(output)
            for spools, record in records[output, aside]:
                n_bytes = record.bytes
                for ids, ends in read_spool(spools, record, options.dtype, has_ends=options.has_ends):
                    try:
                        sink.write(aside, ids, ends, n_bytes)
                    except IndexError as cause:  # of the lengths of tokens; the hash is compared at the end
                        raise damaged(ids_path(spools, record.number), folder=spools) from cause
                    n_bytes = 0
                    done += int(ids.size)
                    report("combine", done, n_tokens, "tokens")
        sink.finish()
        sync_paths(sink.changed())
    return sink.closed_sha256
