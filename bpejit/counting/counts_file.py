"""Counts files: a header, the sorted table of pre-tokens in blocks, totals, and a hash of everything.

    bpejit counts 1, and a newline
    length of the header (8 bytes), header: JSON (see `bpejit.counting.header`)
    blocks (see `bpejit.counting.table_streams`), the last of them empty
    distinct pre-tokens, their bytes, the sum of their counts (8 bytes each)
    SHA-256 of all bytes before it (32 bytes)

All numbers are little-endian. Equal counts of equal inputs give equal files. A file is read and written block by block, so
files of any size are merged with little memory; a damaged file is noticed by its hash, at the latest at its end.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bpejit.arguments import no_progress
from bpejit.arrays import PretokenTable
from bpejit.counting.header import CountsHeader
from bpejit.counting.table_streams import BlockError, even_blocks, read_blocks, read_exactly, read_table, write_stream
from bpejit.errors import CountsError, shorten
from bpejit.progress_bar import Progress
from bpejit.storage.files import StrPath, is_remote, read_error, replacing
from bpejit.storage.remote import stored_file

MAGIC = b"bpejit counts 1\n"

TRAILER_BYTES = 3 * 8 + 32

MOST_HEADER_BYTES = 1 << 30


def write_counts(
    path: StrPath,
    header: CountsHeader,
    stream: Iterator[PretokenTable],
    report: Progress = no_progress,
) -> int:
    """Write a counts file, or replace one. It appears when it is complete.

    Parameters
    ----------
    path : path
        A path or a URL.
    header : CountsHeader
    stream : iterator of PretokenTable
        Sorted by bytes; blocks of any size.
    report : callable, optional
        Called as `report("write", done, total, "pre-tokens")`.

    Returns
    -------
    int
        Number of distinct pre-tokens.

    Raises
    ------
    OutputError
    """
    if is_remote(path):
        with stored_file(os.fspath(path)) as local:
            return write_counts(local, header, stream, report)
    digest = hashlib.sha256()
    with replacing(path) as file:

        def write(data: bytes) -> None:
            digest.update(data)
            file.write(data)

        head = header.to_json()
        write(MAGIC + len(head).to_bytes(8, "little") + head)
        n, n_bytes, _ = write_stream(write, _reported(even_blocks(stream), header.n_pretokens, report))
        write(np.array([n, n_bytes, header.n_pretokens], "<i8").tobytes())
        file.write(digest.digest())
    return n


def _reported(stream: Iterator[PretokenTable], total: int, report: Progress) -> Iterator[PretokenTable]:
    done = 0
    for table in stream:
        yield table
        done += int(table.counts.sum())
        report("write", done, total, "pre-tokens")


class CountsReader:
    """A counts file that is read block by block.

    Parameters
    ----------
    path : path

    Attributes
    ----------
    header : CountsHeader
    n_distinct, n_pool_bytes : int
        Number of distinct pre-tokens, and of their bytes. They are at the end of the file, so a file that ends too early is
        refused when it is opened.

    Raises
    ------
    CountsError
        If the file cannot be read or is not a counts file.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = os.fspath(path)
        try:
            with Path(path).open("rb") as file:
                magic = file.read(len(MAGIC))
                if magic != MAGIC:
                    raise CountsError(_not_counts(self.path, magic))
                self._size = os.fstat(file.fileno()).st_size
                length = int.from_bytes(read_exactly(file.read, 8), "little")
                if length > min(self._size, MOST_HEADER_BYTES):
                    raise BlockError(f"a header of {length} bytes")
                self.header = CountsHeader.from_json(read_exactly(file.read, length))
                self._begin = file.tell()
                file.seek(max(self._size - TRAILER_BYTES, self._begin))
                totals = read_exactly(file.read, TRAILER_BYTES)[:24]
                self.n_distinct, self.n_pool_bytes, n_pretokens = np.frombuffer(totals, "<i8").tolist()
                if n_pretokens != self.header.n_pretokens or not 0 <= self.n_distinct <= self.n_pool_bytes <= self._size:
                    raise BlockError("impossible totals")
        except OSError as cause:
            raise read_error(path, cause, error=CountsError, what="counts file") from cause
        except (BlockError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as cause:
            if isinstance(cause, CountsError):
                raise
            raise self._damaged(str(cause)) from cause

    def blocks(self) -> Iterator[PretokenTable]:
        """Yield the blocks of the file.

        Raises
        ------
        CountsError
            If the file is damaged. This may be after the last block, when all of the file has been hashed.
        """
        digest = hashlib.sha256()
        try:
            with Path(self.path).open("rb") as file:

                def read(size: int) -> bytes:
                    data = file.read(size)
                    digest.update(data)
                    return data

                read(self._begin)
                n = n_bytes = n_pretokens = 0
                for table in read_blocks(read):
                    n += len(table)
                    n_bytes += table.pool.size
                    n_pretokens += int(table.counts.sum())
                    yield table
                totals = np.frombuffer(read_exactly(read, 24), "<i8").tolist()
                if totals != [n, n_bytes, n_pretokens]:
                    raise BlockError("totals that differ from the content")
                if file.read() != digest.digest():
                    raise BlockError("another SHA-256 than that of its content")
        except OSError as cause:
            raise read_error(self.path, cause, error=CountsError, what="counts file") from cause
        except BlockError as cause:
            raise self._damaged(str(cause)) from cause

    def read_table(self) -> PretokenTable:
        """Return the table, in memory.

        Raises
        ------
        CountsError
            If the file is damaged.
        """
        try:
            return read_table(self.blocks(), self.n_distinct, self.n_pool_bytes)
        except BlockError as cause:
            raise self._damaged(str(cause)) from cause

    def _damaged(self, found: str) -> CountsError:
        return CountsError(
            f"the counts file `{self.path}` is damaged: found {found}; expected the content that was written: count again, or "
            "copy the file again"
        )


def _not_counts(path: str, found: bytes) -> str:
    if found.startswith(MAGIC[:-2]):
        version = found[len(MAGIC) - 2 :].decode("ascii", "replace").strip()
        return (
            f"the counts file `{path}` has the format version {shorten(version)}; expected version 1: read it with a newer "
            "release of bpejit"
        )
    return (
        f"`{path}` is not a counts file: it begins with {shorten(found)}; expected a file written by `bpejit count`: check the "
        "path, or convert a table of `count<TAB>word` with `bpejit counts import`"
    )
