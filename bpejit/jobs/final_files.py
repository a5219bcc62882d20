"""Turn the spools of a job into token files, which get their final names later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpejit.arrays import Array
from bpejit.engines import count_cpus
from bpejit.jobs.column_spools import StoredColumns, first_rows
from bpejit.jobs.job_folder import damaged, file_sha256, read_record, write_record
from bpejit.jobs.output_files import FINAL, OutputNames
from bpejit.jobs.spools import BLOCK_TOKENS, END_DTYPE, SpoolRecord, check_spool, ends_path, ids_path, read_spool
from bpejit.storage.arrow_columns import ColumnRows
from bpejit.storage.temporary import remove, sync_file
from bpejit.tokenfiles.base import TokenFileFormat, TokenWriter
from bpejit.tokenfiles.description import Description
from bpejit.tokenfiles.mapped_format import MappedFormat

if TYPE_CHECKING:
    from typing import TypeGuard

_COMPLETE = "complete"

_ENDS_BYTES = 1 << 20

_THREADS = 4
"""Each takes the memory of some row groups."""


def adopts(form: TokenFileFormat) -> TypeGuard[MappedFormat]:
    """Return True if a spool becomes a token file of a format without being copied."""
    return isinstance(form, MappedFormat)


@dataclass(frozen=True)
class FinalFiles:
    """How the spools of a job become token files.

    Parameters
    ----------
    names : OutputNames
        The files are written below the folder `final` of the job, each in a folder of its own.
    dtype : np.dtype
    vocab_size : int
    tokenizer_sha256 : str
    document_index : bool
    pack : int, optional
    has_ends : bool
        Whether the spools have the ends of documents.
    fresh : bool
        Whether this process has written all spools and files of the job, so that they are not compared with their hashes.
    threads : int
        Number of files that are written at the same time; by default the number of processors, and at most four.
    """

    names: OutputNames
    dtype: np.dtype[Any]
    vocab_size: int
    tokenizer_sha256: str
    document_index: bool
    pack: int | None
    has_ends: bool
    fresh: bool
    threads: int = field(default_factory=lambda: min(count_cpus(), _THREADS))

    @classmethod
    def of_job(
        cls,
        names: OutputNames,
        job: Mapping[str, Any],
        *,
        has_ends: bool,
        fresh: bool,
    ) -> FinalFiles:
        """Return the files of a job with a manifest."""
        return cls(
            names,
            np.dtype(job["dtype"]).newbyteorder("<"),
            vocab_size=job["vocab_size"],
            tokenizer_sha256=job["tokenizer_sha256"],
            document_index=job["document_index"],
            pack=job.get("pack"),
            has_ends=has_ends,
            fresh=fresh,
        )

    @property
    def folder(self) -> Path:
        """The folder of the job."""
        return self.names.folder

    def place(self, record: SpoolRecord) -> Path:
        """Return the folder for the files of a spool."""
        return self.folder / FINAL / f"{record.number:06d}"

    def staged(self, record: SpoolRecord) -> Path:
        """Return the path of the token file of a spool in its folder."""
        return self.place(record) / self.names.path(record).name

    def is_complete(self, record: SpoolRecord) -> bool:
        """Return True if the files of a spool are complete, and those that were written."""
        place = self.place(record)
        if self.fresh:
            return (place / _COMPLETE).exists()
        hashes = (read_record(place / _COMPLETE) or {}).get("files", {})
        with suppress(OSError):
            return bool(hashes) and all(file_sha256(place / name) == found for name, found in hashes.items())
        return False

    def set_complete(self, record: SpoolRecord) -> None:
        """Note that the files of a spool are complete."""
        place = self.place(record)
        hashes = {file.name: file_sha256(file) for file in place.iterdir() if file.name != _COMPLETE}
        write_record(place / _COMPLETE, {"files": hashes}, synced=False)

    def writer(self, record: SpoolRecord, columns: ColumnRows | None = None) -> TokenWriter:
        """Return a writer for the token file of a spool; `columns` are the rows of its documents."""
        self.place(record).mkdir(parents=True, exist_ok=True)
        options: dict[str, Any] = {"document_index": True} if self.document_index else {}
        if self.pack is not None:
            options["pack"] = self.pack
        if columns is not None:
            options["columns"] = columns
        return self.names.format.writer(
            self.staged(record),
            dtype=self.dtype.name,
            vocab_size=self.vocab_size,
            tokenizer_sha256=self.tokenizer_sha256,
            overwrite=True,
            **options,
        )

    def write_all(self, spools: Path, records: Sequence[SpoolRecord], columns: StoredColumns | None) -> None:
        """Write the files that are missing, and remove the spools.

        Parameters
        ----------
        spools : Path
            The folder of the spools.
        records : list of SpoolRecord
            All of them.
        columns : StoredColumns, optional
            The rows of the columns to keep.

        Raises
        ------
        OSError, OutputError
        """
        (self.folder / FINAL).mkdir(exist_ok=True)
        missing = [
            (record, None if columns is None else columns.rows(record, first))
            for record, first in zip(records, first_rows(records), strict=True)
            if not self.is_complete(record)
        ]
        if self.threads > 1 and len(missing) > 1 and sum(record.tokens for record, _ in missing) > BLOCK_TOKENS:
            with ThreadPoolExecutor(self.threads) as pool:
                futures = [pool.submit(self._write, spools, record, rows) for record, rows in missing]
                try:
                    for future in futures:
                        future.result()
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
        else:
            for record, rows in missing:
                self._write(spools, record, rows)

    def _write(self, spools: Path, record: SpoolRecord, rows: ColumnRows | None) -> None:
        if adopts(self.names.format):
            self._adopt(spools, record)
            return
        if not ids_path(spools, record.number).exists():
            raise damaged(self.staged(record), folder=self.folder)  # its spool was removed when it was complete
        with self.writer(record, rows) as writer:
            n_bytes = record.bytes
            for ids, ends in read_spool(spools, record, self.dtype, has_ends=self.has_ends):
                writer.write(ids, n_bytes=n_bytes, ends=ends if self.has_ends else None)
                n_bytes = 0
        self.set_complete(record)
        for path_of in (ids_path, ends_path):  # so that the folder does not grow
            remove(path_of(spools, record.number))

    def _adopt(self, spools: Path, record: SpoolRecord) -> None:
        """Write what belongs to a token file beside the ids, and rename the file with the ids."""
        form, staged = self.names.format, self.staged(record)
        assert adopts(form)
        source, target = ids_path(spools, record.number), Path(form.files(staged)[0])
        source = source if source.exists() else target  # an earlier run has renamed it
        if not self.fresh:
            check_spool(spools, record, source, has_ends=self.has_ends)
        self.place(record).mkdir(parents=True, exist_ok=True)
        stores_documents = self.document_index or form.stores_documents
        described = Description(
            dtype=self.dtype.name,
            tokens=record.tokens,
            bytes_read=record.bytes,
            vocab_size=self.vocab_size,
            tokenizer_sha256=self.tokenizer_sha256,
            ids_sha256=record.ids_sha256,
            documents=record.documents if stores_documents else None,
            file_format=form.name,
        )
        header = form.header(described)
        form.write_others(staged, described, _read_ends(ends_path(spools, record.number)) if stores_documents else iter(()))
        if header:
            with source.open("r+b", buffering=0) as file:
                file.write(header)
                sync_file(file.fileno())
        source.replace(target)


def _read_ends(path: Path) -> Iterator[Array]:
    with path.open("rb") as file:
        while data := file.read(_ENDS_BYTES):
            yield np.frombuffer(data, dtype=END_DTYPE)


def write_final(
    files: FinalFiles, spools: Path, records: Sequence[SpoolRecord], manifest: bytes, columns: StoredColumns | None = None
) -> list[tuple[Path, Path]]:
    """Write the files of the outputs into the folder `final` of a job; return pairs of these files and their final paths.

    Files that exist there are complete, from this run or an earlier one, and stay.

    Parameters
    ----------
    files : FinalFiles
    spools : Path
        The folder of the spools.
    records : list of SpoolRecord
    manifest : bytes
        The content of the manifest.
    columns : StoredColumns, optional
        The rows of the columns to keep.

    Raises
    ------
    OSError, OutputError
    """
    names = files.names
    files.write_all(spools, records, columns)
    pairs: list[tuple[Path, Path]] = []
    for record in records:
        staged, targets = names.format.files(files.staged(record)), names.format.files(names.path(record))
        for made, target in zip(map(Path, staged), map(Path, targets), strict=True):
            if made.exists():
                pairs.append((made, target))
    written = files.folder / FINAL / names.manifest.name
    _write_synced(written, manifest)
    # The last file of an exchange is what a reader misses first: the description of a single output, else the manifest.
    pairs.insert(0 if len(records) == 1 else len(pairs), (written, names.manifest))
    return pairs


def _write_synced(path: Path, data: bytes) -> None:
    """Write a file of the folder `final`, and flush it to disk. Nothing reads it before its last name is given to it."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        sync_file(file.fileno())
