"""Read tokenizer files, which may be compressed with gzip."""

from __future__ import annotations

import zlib
from pathlib import Path

from bpejit.errors import TokenizerFormatError
from bpejit.storage.files import StrPath, read_file

GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of a gzip file. No text begins with them."""

GZIP_SUFFIX = ".gz"

MOST_BYTES = 1 << 30
"""Maximum size of a decompressed file, since a small file can decompress to more than fits into memory."""

_GZIP = 16 + zlib.MAX_WBITS


def read_tokenizer_file(path: StrPath, *, what: str = "tokenizer file") -> bytes:
    """Return the content of a file, decompressed if necessary.

    Parameters
    ----------
    path : path
    what : str
        Noun for the message.

    Raises
    ------
    TokenizerFormatError
        If the file cannot be read, or its compressed data is broken.
    """
    data = read_file(path, error=TokenizerFormatError, what=what)
    parts: list[bytes] = []
    size = 0
    rest = data if data.startswith(GZIP_MAGIC) else b""
    if not rest:
        return data
    while rest.startswith(GZIP_MAGIC):  # gzip files may have several members
        member = zlib.decompressobj(_GZIP)
        try:
            parts.append(member.decompress(rest, MOST_BYTES + 1 - size))
        except zlib.error as cause:
            raise _broken(path, str(cause)) from cause
        size += len(parts[-1])
        if size > MOST_BYTES:
            raise TokenizerFormatError(
                f"`{path}` decompresses to more than {MOST_BYTES:,} bytes; expected a tokenizer file: check the file"
            )
        if not member.eof:
            raise _broken(path, "it is truncated")
        rest = member.unused_data
    return b"".join(parts)


def _broken(path: StrPath, found: str) -> TokenizerFormatError:
    return TokenizerFormatError(
        f"`{path}` is compressed with gzip and broken: {found}; expected a complete file: download it again"
    )


def decompressed_head(head: bytes, n_bytes: int) -> bytes:
    """Return the first bytes of a file, of which `head` are the first bytes on disk; up to `n_bytes` if it is compressed."""
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(_GZIP).decompress(head, n_bytes)
    except zlib.error:
        return head


def without_gz(path: StrPath) -> Path:
    """Return a path without the suffix `.gz`."""
    file = Path(path)
    return file.with_suffix("") if file.suffix == GZIP_SUFFIX else file
