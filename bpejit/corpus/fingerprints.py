"""Fingerprints of inputs, by which a later run recognizes them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np

from bpejit.arrays import Array, random_numbers
from bpejit.corpus.input_streams import open_input, read_bytes
from bpejit.corpus.sources import Source, hash_content
from bpejit.errors import CorpusError
from bpejit.storage.files import is_remote
from bpejit.storage.remote import find_checksum, remote_access

SAMPLE_BYTES = 1 << 16
"""Bytes at each end of a file that are hashed."""

_BLOCK_WORDS = 1 << 17


class IdentifiedInputs(list[dict[str, Any]]):
    """The path, the size and the fingerprint of inputs, as fields for manifests."""

    @cached_property
    def texts(self) -> list[str]:
        """The JSON of each, made once: there may be 10,000 inputs, and several manifests."""
        return [*map(_as_json, self)]


def _as_json(fields: dict[str, Any]) -> str:
    """Return `json.dumps(fields)`, in a third of the time for a file with a hash."""
    if fields.get("sha256") is None:
        return json.dumps(fields)
    return f'{{"path": {encode_basestring_ascii(fields["path"])}, "size": {fields["size"]}, "sha256": "{fields["sha256"]}"}}'


def identify_inputs(sources: Iterable[Source]) -> IdentifiedInputs:
    """Return the path, the size and the fingerprint of inputs (see `identify_input`)."""
    return IdentifiedInputs({"path": source.path, "size": source.size, **identify_input(source)} for source in sources)


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
        with remote_access(source.path, "read the input", error=CorpusError, noun="the input") as (file_system, name):
            checksum = find_checksum(file_system.info(name))
        if checksum is not None:
            return {"checksum": checksum}
    if source.kept is not None:
        return {"sha256": hash_content(source.kept)}
    digest = hashlib.sha256(b"%d " % source.size)
    with open_input(source.path) as file:
        for start in dict.fromkeys((0, max(source.size - SAMPLE_BYTES, 0))):
            file.seek(start)
            digest.update(read_bytes(file, source.path, min(SAMPLE_BYTES, source.size - start), partly=True))
    return {"sha256": digest.hexdigest()}


def modified_times(paths: Iterable[str], known: Mapping[str, int] | None = None) -> dict[str, int | None]:
    """Return the modification time of each local file, in nanoseconds, if it is not `known`; None if there is no such file."""
    times: dict[str, int | None] = {}
    known = known or {}
    for path in paths:
        if path in known:
            times[path] = known[path]
        elif path not in times:
            try:
                times[path] = None if is_remote(path) else os.stat(path).st_mtime_ns  # noqa: PTH116 - there may be 10,000
            except OSError:
                times[path] = None
    return times


def times_sha256(times: Mapping[str, int | None]) -> str:
    """Return a hash of paths and their modification times."""
    return hashlib.sha256(repr(times).encode("utf-8", "surrogateescape")).hexdigest()


def check_times(times: Mapping[str, int | None]) -> None:
    """Raise CorpusError if a file of this machine has another modification time than `modified_times` gave elsewhere."""
    for path, found in modified_times(times).items():
        if found != times[path]:
            import socket

            raise CorpusError(
                f"the input `{path}` is another file on the node {socket.gethostname()}: it was modified at {_shown(found)}, "
                f"and that of the driver at {_shown(times[path])}; expected the same file on all nodes: use a folder that they "
                "share, or copy the file with its times, for example with `rsync --times`"
            )


def _shown(time: int | None) -> str:
    return "an unknown time" if time is None else f"{time / 1e9:.6f} seconds since 1970"


def checksum(*arrays: Array) -> bytes:
    """Return 32 bytes that depend on all bytes of some arrays, at several gigabytes per second.

    The words of a block are multiplied by odd random numbers and added up, so any difference in one word is seen, and others
    with a probability of about 1 - 2**-64. This finds accidents, not forgeries.
    """
    digest = hashlib.sha256()
    for array in arrays:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        digest.update(b"%d " % data.size)
        words = data[: data.size & ~7].view(np.uint64)
        for start in range(0, words.size, _BLOCK_WORDS):
            block = words[start : start + _BLOCK_WORDS]
            digest.update(np.dot(block, _factors()[: block.size]).tobytes())
        digest.update(data[data.size & ~7 :].tobytes())
    return digest.digest()


def chain_checksum(sha256: str, checksum: bytes) -> str:
    """Return the hash of what was read from that of earlier chunks and the checksum of the next one."""
    return hashlib.sha256(sha256.encode() + checksum).hexdigest()


@lru_cache(maxsize=1)
def _factors() -> Array:
    """Return odd numbers, as uint64, that look random and never change."""
    factors: Array = random_numbers((), _BLOCK_WORDS) | np.uint64(1)
    return factors
