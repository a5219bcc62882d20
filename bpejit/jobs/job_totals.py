"""What jobs count and time, what is reported of a run, and the time that is expected from a sample."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped, SkippedRecord
from bpejit.engines import peak_memory
from bpejit.jobs.job_folder import Fields
from bpejit.jobs.job_options import Part

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass
class Totals:
    """Sums over the units of a part.

    Parameters
    ----------
    units : int
    tokens, documents, bytes, read : int
        Ids, documents, bytes of text, and bytes of input.
    skipped : Skipped
    """

    units: int = 0
    tokens: int = 0
    documents: int = 0
    bytes: int = 0
    read: int = 0
    skipped: Skipped = NOTHING_SKIPPED

    def __add__(self, other: Totals) -> Totals:
        return Totals(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def as_json(self) -> dict[str, Any]:
        """Return the fields for a checkpoint."""
        first = [[record.path, record.place, record.reason] for record in self.skipped.first]
        return {**self.__dict__, "skipped": [self.skipped.count, first]}

    @classmethod
    def of_checkpoint(cls, checkpoint: Fields | None) -> Totals:
        """Return the totals of a checkpoint; nothing for None."""
        if checkpoint is None:
            return cls()
        fields = checkpoint["totals"]
        count, first = fields["skipped"]
        return cls(**{**fields, "skipped": Skipped(count, tuple(SkippedRecord(*record) for record in first))})

    @classmethod
    def of_manifest(cls, fields: Fields, *, tokens: str = "tokens", documents: str = "documents") -> Totals | None:
        """Return the totals in the manifest of a complete job; None if it is broken. The keywords are the names of fields."""
        try:
            return cls(
                tokens=int(fields[tokens]),
                documents=int(fields[documents]),
                bytes=int(fields["bytes_read"]),
                skipped=Skipped(int(fields["skipped"])),
            )
        except (KeyError, TypeError, ValueError):
            return None


def no_seconds() -> dict[str, float]:
    """Return the stages where the time of a job goes, each with 0 seconds of the main thread (see `JobReport`)."""
    return dict.fromkeys(("plan", "encode", "write", "finish"), 0.0)


class Finished(NamedTuple):
    """The outputs of a complete job.

    Parameters
    ----------
    paths : tuple of Path or str
        The files: paths, or URLs.
    manifest : Path or str
    totals : Totals
    dtype : str
        Of ids in token files.
    left_out : int
        Ids that do not fill a row, which `totals` does not count.
    """

    paths: tuple[Path | str, ...]
    manifest: Path | str
    totals: Totals
    dtype: str = ""
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
    seconds : dict of str to float
        Of each stage.
    units, kept_units, missing_parts, worker_memory, parts, new_bytes, cluster
        See `JobReport`.
    """

    totals: Totals
    finished: Finished | None
    units: int
    kept_units: int
    missing_parts: int
    seconds: dict[str, float] = field(default_factory=no_seconds)
    worker_memory: int = 0
    parts: int = 1
    new_bytes: int = 0
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class JobReport:
    """What reports about all kinds of jobs tell.

    Parameters
    ----------
    paths : tuple of Path or str
        All files, or their URLs. Empty for a stream or a device, after a dry run, and while parts of the job are missing.
    manifest : Path or str, optional
        The manifest, which describes the job and its outputs.
    bytes : int
        Bytes of text; those of the part, if other parts of the job are missing. After a dry run, bytes of input.
    skipped : Skipped
        Records without text, or incomplete samples: their number (`count`), and the first few (`first`).
    seconds : float
        Wall time, reading and writing included; after a dry run, the expected time.
    units, kept_units : int
        Units of the job, or of the part, and those that an earlier run had finished.
    missing_parts : int
        Parts of the job that are not complete.
    stages : dict of str to float
        Where the time went, in seconds: `plan`, `encode` (waiting for results), `write` and `finish`.
    peak_memory, worker_memory : int
        Peak resident memory of this process, and of the largest worker, in bytes; 0 if unknown.
    parts : int
        Parts of the job.
    cluster : str
        The Ray cluster that the job ran on, in words.
    new_bytes : int
        Bytes of text that this run has encoded: fewer than `bytes` if an earlier run had finished units, or other runs parts.
    part : str
        The part of the job that this run worked on, such as 0/2; empty for the whole job.
    """

    paths: tuple[Path | str, ...] = ()
    manifest: Path | str | None = None
    bytes: int = 0
    skipped: Skipped = NOTHING_SKIPPED
    seconds: float = 0.0
    units: int = 0
    kept_units: int = 0
    missing_parts: int = 0
    stages: Mapping[str, float] = field(default_factory=dict)
    peak_memory: int = 0
    worker_memory: int = 0
    parts: int = 1
    cluster: str = ""
    new_bytes: int = 0
    part: str = ""

    @classmethod
    def of(cls, result: JobResult, seconds: float, part: Part | None = None, **own: Any) -> Self:
        """Return the report of what a run did; `own` are the fields of the kind of job."""
        finished = result.finished
        memory, worker_memory = peak_memory()
        shared = {name: value for name, value in vars(result).items() if name not in ("totals", "finished", "seconds")}
        return cls(
            paths=() if finished is None else finished.paths,
            manifest=None if finished is None else finished.manifest,
            bytes=result.totals.bytes,
            skipped=result.totals.skipped,
            seconds=seconds,
            stages=result.seconds,
            peak_memory=memory,
            part="/".join(map(str, part or ())),
            **shared | ({} if result.cluster else {"worker_memory": worker_memory}),
            **own,
        )


def chain_checksum(sha256: str, checksum: bytes) -> str:
    """Return the hash of what was read from that of earlier chunks and the checksum of the next one."""
    return hashlib.sha256(sha256.encode() + checksum).hexdigest()


def size_of_units(units: Sequence[Any]) -> int | None:
    """Return the bytes of input of units, or None if that of one is unknown."""
    sizes = [unit.size for unit in units]
    return None if None in sizes else sum(size for size in sizes if size is not None)
