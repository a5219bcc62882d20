"""Finish a job: join the spools of its parts, and turn them into the files of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bpejit.corpus.blocks import Skipped
from bpejit.engines.base import Progress
from bpejit.errors import BpejitError, OutputError
from bpejit.jobs.checkpoints import complete_checkpoints
from bpejit.jobs.column_spools import StoredColumns, check_rows
from bpejit.jobs.early_files import EarlyFiles
from bpejit.jobs.final_files import FinalFiles, adopts, write_final
from bpejit.jobs.job_folder import (
    MANIFEST,
    damaged,
    file_sha256,
    job_folder,
    part_folder,
    read_record,
    write_record,
)
from bpejit.jobs.job_manifest import FORMAT, FORMAT_VERSION, find_difference, finished_manifest, manifest_path
from bpejit.jobs.job_run import LENGTHS
from bpejit.jobs.joining import COMBINED, check_all_parts, check_version, joined_by_another, joining_parts, no_parts
from bpejit.jobs.output_files import (
    OutputNames,
    check_job_outputs,
    created_folders,
    exchange,
    listed_outputs,
)
from bpejit.jobs.spool_sink import SinkOptions, SpoolSink, read_closed
from bpejit.jobs.spools import SpoolRecord, ids_path, read_spool
from bpejit.jobs.unfinished import naming_output
from bpejit.jobs.unit_loop import Seconds, Totals
from bpejit.storage.exchange import recover
from bpejit.storage.outputs import InputFiles
from bpejit.tokenfiles.base import TokenFileFormat
from bpejit.tokenfiles.registry import load_format


class Finished(NamedTuple):
    """The outputs of a complete job.

    Parameters
    ----------
    paths : tuple of Path or str
        The token files: paths, or URLs.
    manifest : Path or str
    totals : Totals
    dtype : str
    left_out : int
        Ids that do not fill a row, which `totals` does not count.
    """

    paths: tuple[Path | str, ...]
    manifest: Path | str
    totals: Totals
    dtype: str
    left_out: int = 0


@dataclass
class JobResult:
    """What a run of a job did.

    Parameters
    ----------
    totals : Totals
        Of the part, or of the job once it is complete.
    finished : Finished, optional
        The outputs; None if other parts are missing.
    units, kept : int
        Units of the part, and those that an earlier run had finished.
    missing : int
        Parts that are not complete yet.
    seconds : Seconds
    worker_memory : int
        Peak resident memory of the largest worker on a cluster, in bytes.
    parts : int
        The number of parts of the job.
    new_bytes : int
        Bytes of text that this run has encoded.
    """

    totals: Totals
    finished: Finished | None
    units: int
    kept: int
    missing: int
    seconds: Seconds = field(default_factory=Seconds)
    worker_memory: int = 0
    parts: int = 1
    new_bytes: int = 0


def wants_ends(form: TokenFileFormat, document_index: bool, parts: int) -> bool:
    """Return True if the spools of a job need the ends of documents: for the files, or for dividing them into shards later."""
    return document_index or parts > 1 or bool(getattr(form, "stores_documents", False))


def _read_complete(out: Path) -> Finished | None:
    """Return the outputs of a complete job with the output `out`, if all of them exist."""
    manifest = manifest_path(out, per_input=out.is_dir())
    recover([manifest], tree=out if out.is_dir() else None)
    fields = read_record(manifest)
    return None if fields is None else _read_outputs(manifest, fields)


def read_finished(names: OutputNames, job: Mapping[str, Any]) -> Finished | None:
    """Return the outputs of the same job if all of them exist, and None otherwise."""
    fields = read_record(names.manifest)
    if fields is None or find_difference(fields.get("job"), job) is not None:
        return None
    return _read_outputs(names.manifest, fields)


def _read_outputs(manifest: Path, fields: Mapping[str, Any]) -> Finished | None:
    if fields.get("format") != FORMAT or fields.get("format_version") != FORMAT_VERSION:
        return None
    paths = [manifest.parent / name for name in listed_outputs(manifest)]
    try:
        form = load_format(fields["job"]["format"])
    except (KeyError, TypeError, BpejitError):
        return None
    if not paths or not all(any(Path(file).exists() for file in form.files(path)) for path in paths):
        return None
    try:
        totals = Totals(
            tokens=int(fields["tokens"]),
            documents=int(fields["documents"]),
            bytes=int(fields["bytes_read"]),
            skipped=Skipped(int(fields["skipped"])),
        )
        dtype = str(fields["job"]["dtype"])
    except (KeyError, TypeError, ValueError):
        return None
    return Finished(tuple(paths), manifest, totals, dtype, int(fields.get("left_out", 0)))


def finish_job(
    folder: Path,
    names: OutputNames,
    *,
    report: Progress,
    begun: Mapping[str, Any] | None = None,
    totals: Totals | None = None,
    read: InputFiles | None = None,
    fresh: bool = False,
) -> Finished | None:
    """Write the outputs of a job whose parts are complete, and remove its folder.

    Parameters
    ----------
    folder : Path
        The folder of the job.
    names : OutputNames
    report : callable
        Progress.
    begun : dict, optional
        The manifest of the unfinished job; read from the folder by default.
    totals : Totals, optional
        Of a job that is not divided; read from the folder by default.
    read : InputFiles, optional
        The inputs; those of the manifest by default.
    fresh : bool
        Whether this process has written all of the unfinished job, which then is not compared with its hashes.

    Returns
    -------
    Finished, optional
        None if another process does this.

    Raises
    ------
    OSError, OutputError
        If a file cannot be written, or what is left of another run is damaged. The parts stay.
    """
    begun = begun or read_record(folder / MANIFEST)
    if begun is None:
        return None
    parts = int(begun["parts"])
    finished = None
    with joining_parts(folder, parts) as is_mine:
        if is_mine:
            finished = _write_outputs(folder, names, begun, parts, totals, report, read, fresh=fresh)
    return finished


def _write_outputs(
    folder: Path,
    names: OutputNames,
    begun: Mapping[str, Any],
    parts: int,
    totals: Totals | None,
    report: Progress,
    read: InputFiles | None,
    *,
    fresh: bool,
) -> Finished:
    job = begun["job"]
    dtype = np.dtype(job["dtype"]).newbyteorder("<")
    checkpoints: list[dict[str, Any]] = []
    if totals is None or not fresh:
        checkpoints = complete_checkpoints(folder, begun)
        totals = sum((Totals.from_json(one["totals"]) for one in checkpoints), Totals())
        _check_parts(folder, checkpoints)
    has_ends = wants_ends(names.format, job["document_index"], parts)
    files = FinalFiles.of_job(folder, names, job, dtype, has_ends=has_ends, fresh=fresh)
    spools = part_folder(folder, 0, 1) if parts == 1 else folder / COMBINED
    joined = checkpoints[0] if parts == 1 and checkpoints else None
    if parts > 1:
        joined = read_record(spools / "complete")
        if joined is None or "closed_sha256" not in joined:
            hashes = [one["closed_sha256"] for one in checkpoints]
            files = replace(files, fresh=True)
            joined = {"closed_sha256": _join(files, spools, job, hashes, totals.tokens, report)}
            write_record(spools / "complete", joined)
    found = read_closed(spools, sha256=None if joined is None else joined["closed_sha256"])
    # In the order of the outputs, not in that of their completion.
    records = sorted(found, key=lambda record: (record.output, record.aside, record.shard))
    outputs = [_described(record, names) for record in records]
    pack = job.get("pack")
    if pack is not None:  # ids that do not fill a row are left out
        outputs = [_packed(output, pack) for output in outputs]
    left_out = sum(record.tokens for record in records) - sum(output["tokens"] for output in outputs)
    totals.tokens -= left_out
    sums = {
        "tokens": sum(output["tokens"] for output in outputs),
        **({} if pack is None else {"left_out": left_out}),
        "documents": totals.documents,
        "bytes_read": totals.bytes,
        "skipped": totals.skipped.count,
    }
    read = read or InputFiles([entry["path"] for entry in job["inputs"]])
    check_job_outputs(names, inputs=read, overwrite=bool(begun.get("overwrite")))
    columns = None
    if job.get("keep_columns"):
        columns = StoredColumns.of(
            folder, [part_folder(folder, index, parts) for index in range(parts)], records, job["keep_columns"]
        )
    old = names.existing()
    pairs = write_final(files, spools, records, finished_manifest(job, sums, outputs), columns)
    for _ in created_folders(pairs):
        pass
    exchange(folder, pairs, old)
    return Finished(tuple(names.path(record) for record in records), names.manifest, totals, dtype.name, left_out)


def _check_parts(folder: Path, checkpoints: list[dict[str, Any]]) -> None:
    """Compare columns, and the files that all parts share, with the hashes in the checkpoints of the parts."""
    for part, one in enumerate(checkpoints):
        check_rows(part_folder(folder, part, len(checkpoints)), one.get("columns_sha256", ()))
        for name, found in one["shared"].items():
            if not (folder / name).exists() or file_sha256(folder / name) != found:
                raise damaged(folder / name, folder=folder)


def _described(record: SpoolRecord, names: OutputNames) -> dict[str, Any]:
    path = names.path(record).relative_to(names.manifest.parent).as_posix()
    counts = {"tokens": record.tokens, "documents": record.documents, "bytes_read": record.bytes}
    return {"path": path, **counts, **({"validation": True} if record.aside else {})}


def _packed(output: dict[str, Any], pack: int) -> dict[str, Any]:
    """Return the description of an output with the ids in its rows, their number, and the ids that do not fill a row."""
    rows, left_out = divmod(output["tokens"], pack)
    return {**output, "tokens": rows * pack, "rows": rows, "left_out": left_out}


def _join(
    files: FinalFiles, target: Path, job: Mapping[str, Any], hashes: Sequence[str], n_tokens: int, report: Progress
) -> str:
    """Write the spools of all parts, in order, to new ones that are divided into shards; return the hash of their records.

    `hashes` are those of the records of each part.
    """
    folder, form, dtype, has_ends = files.folder, files.names.format, files.dtype, files.has_ends
    lengths = np.load(folder / LENGTHS) if job["shard_tokens"] is not None else None
    options = SinkOptions(
        dtype=dtype,
        has_ends=has_ends,
        adopted=adopts(form),
        sides=(False, True) if job["val_fraction"] else (False,),
        shard_tokens=job["shard_tokens"],
        shard_exact=job["shard_exact"],
        token_lengths=lengths,
        ids_position=form.ids_position or 0,
    )
    early = None if adopts(form) or job.get("keep_columns") else EarlyFiles(files, target, ())
    records: dict[tuple[int, bool], list[tuple[Path, SpoolRecord]]] = {}
    for index, found in enumerate(hashes):
        spools = part_folder(folder, index, len(hashes))
        for record in read_closed(spools, sha256=found):
            records.setdefault((record.output, record.aside), []).append((spools, record))
    sink = SpoolSink(target, options, None, None if early is None else early.note)
    done = 0
    try:
        report("combine", 0, n_tokens, "tokens")
        for output, aside in sorted(records):
            sink.begin_output(output)
            for spools, record in records[output, aside]:
                n_bytes = record.bytes
                for ids, ends in read_spool(spools, record, dtype, has_ends=has_ends):
                    try:
                        sink.write(aside, ids, ends, n_bytes)
                    except IndexError as cause:  # of the lengths of tokens; the hash is compared at the end
                        raise damaged(ids_path(spools, record.number), folder=spools) from cause
                    n_bytes = 0
                    done += int(ids.size)
                    report("combine", done, n_tokens, "tokens")
        sink.finish()
        if early is not None:
            early.finish()
    finally:
        sink.close()
        if early is not None:
            early.close()
    return sink.closed_sha256


def combine_parts(out: Path, *, overwrite: bool, report: Progress) -> Finished:
    """Join the parts of a divided job; see `bpejit.combine`.

    Raises
    ------
    OutputError
        If there are no parts, some are missing, or another process joins them.
    """
    folder = next((path for path in (out / ".bpejit-job", job_folder(out)) if (path / MANIFEST).exists()), None)
    if folder is None:
        done = _read_complete(out)
        if done is not None:
            return done
        raise no_parts(out)
    begun = read_record(folder / MANIFEST)
    check_version(begun, str(folder))
    try:
        job = begun["job"]  # type: ignore[index]
        parts = int(begun["parts"])  # type: ignore[index]
        inputs = None if job["per_input"] is None else [Path(name) for name in job["per_input"]]
        names = OutputNames(out, inputs, job["shard_tokens"] is not None, load_format(job["format"]))
    except (KeyError, TypeError, ValueError) as cause:
        raise OutputError(
            f"`{folder / MANIFEST}` is broken; expected the manifest of a job: remove the folder, and encode again"
        ) from cause
    check_all_parts(out, folder, parts)
    if overwrite:
        begun["overwrite"] = True  # type: ignore[index]
        write_record(folder / MANIFEST, begun)  # type: ignore[arg-type]
    with naming_output(out):
        finished = finish_job(folder, names, report=report)
    if finished is None:
        raise joined_by_another(out)
    return finished
