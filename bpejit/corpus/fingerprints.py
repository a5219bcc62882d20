"""Fingerprints of inputs, by which a later run recognizes them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import Any

from bpejit.corpus.input_streams import open_ranges
from bpejit.corpus.sources import Source
from bpejit.errors import CorpusError
from bpejit.storage.remote import find_checksum, is_remote, remote_errors, remote_file_system

SAMPLE_BYTES = 1 << 16
"""Bytes at each end of a file that are hashed."""


def identify_inputs(sources: Iterable[Source]) -> list[dict[str, Any]]:
    """Return the path, the size and the fingerprint of inputs, as fields for a manifest.

    Raises
    ------
    CorpusError
        If a file cannot be read.
    """
    return [
        {"path": source.path, "size": source.size, "sha256": source.sha256}
        if source.sha256 is not None  # known already: there may be 10,000 small files
        else {"path": source.path, "size": source.size, **identify_input(source)}
        for source in sources
    ]


def identify_input(source: Source) -> dict[str, str | None]:
    """Return what identifies the content of an input, as a field for a manifest.

    That is `checksum`, what the storage of a remote file says of its content, such as the ETag of an object. Without that it is
    `sha256`, the hash of the size, the head and the tail of the file, or None for a pipe. Modification times are not used,
    since they change when files are copied.

    Raises
    ------
    CorpusError
        If the file cannot be read.
    """
    if source.size is None or source.sha256 is not None:
        return {"sha256": source.sha256}
    if is_remote(source.path):
        file_system, name = remote_file_system(source.path, error=CorpusError)
        with remote_errors(source.path, error=CorpusError):
            checksum = find_checksum(file_system.info(name))
        if checksum is not None:
            return {"checksum": checksum}
    digest = hashlib.sha256(b"%d " % source.size)
    if source.kept is not None:
        digest.update(source.kept)
        return {"sha256": digest.hexdigest()}
    if is_remote(source.path):
        with open_ranges(source.path) as file:
            for start in dict.fromkeys((0, max(source.size - SAMPLE_BYTES, 0))):
                file.seek(start)
                digest.update(file.read(min(SAMPLE_BYTES, source.size - start)))
        return {"sha256": digest.hexdigest()}
    try:
        # Not through Path: there may be 10,000 small files, whose head is all that they contain.
        number = os.open(source.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            for start in (0, max(source.size - SAMPLE_BYTES, 0)):
                if start:
                    os.lseek(number, start, os.SEEK_SET)
                data = os.read(number, SAMPLE_BYTES)
                digest.update(data)
                if start == 0 and len(data) == source.size:
                    break
        finally:
            os.close(number)
    except OSError as error:
        raise CorpusError(
            f"cannot read the input `{source.path}`: {error.strerror or error}; expected a readable file: check the disk, and "
            "run again"
        ) from error
    return {"sha256": digest.hexdigest()}
