"""Fingerprints of inputs, by which a later run recognizes them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from bpejit.corpus.sources import Source
from bpejit.errors import CorpusError

SAMPLE_BYTES = 1 << 16
"""Bytes at each end of a file that are hashed."""


def fingerprint(source: Source) -> str | None:
    """Return the SHA-256 of the size, the head and the tail of a file, or None for a pipe.

    Modification times are not used, since they change when files are copied.

    Raises
    ------
    CorpusError
        If the file cannot be read.
    """
    if source.size is None:
        return None
    digest = hashlib.sha256(b"%d " % source.size)
    try:
        with Path(source.path).open("rb") as file:
            digest.update(file.read(SAMPLE_BYTES))
            file.seek(max(source.size - SAMPLE_BYTES, 0))
            digest.update(file.read(SAMPLE_BYTES))
    except OSError as error:
        raise CorpusError(
            f"cannot read the input `{source.path}`: {error.strerror or error}; expected a readable file: check the disk, and "
            "run again"
        ) from error
    return digest.hexdigest()
