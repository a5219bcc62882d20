"""Fingerprints of inputs, by which a later run recognizes them."""

from __future__ import annotations

import hashlib
import os

from bpejit.corpus.input_streams import is_remote, remote_errors, remote_file_system
from bpejit.corpus.sources import Source
from bpejit.errors import CorpusError

SAMPLE_BYTES = 1 << 16
"""Bytes at each end of a file that are hashed."""


def fingerprint(source: Source) -> str | None:
    """Return the SHA-256 of the size, the head and the tail of a file, or None for a pipe.

    Modification times are not used, since they change when files are copied. A remote file is identified by what its storage
    says of it, such as the ETag.

    Raises
    ------
    CorpusError
        If the file cannot be read.
    """
    if source.size is None:
        return None
    digest = hashlib.sha256(b"%d " % source.size)
    if is_remote(source.path):
        with remote_errors(source.path):
            file_system, name = remote_file_system(source.path)
            digest.update(str(file_system.ukey(name)).encode())
        return digest.hexdigest()
    if source.kept is not None:
        digest.update(source.kept)
        return digest.hexdigest()
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
    return digest.hexdigest()
