"""Hashes of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

_BLOCK_BYTES = 1 << 18


def file_sha256(path: Path, stop: int | None = None, start: int = 0) -> str:
    """Return the hash of a file, or of the bytes `start:stop`.

    Raises
    ------
    OSError
    """
    digest = hashlib.sha256()
    block = memoryview(bytearray(_BLOCK_BYTES))  # reused, since new memory takes longer than reading
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while size := file.readinto(block if stop is None else block[: stop - start]):
            digest.update(block[:size])
            start += size
    return digest.hexdigest()
