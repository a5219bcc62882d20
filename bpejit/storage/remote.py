"""Files at URLs such as `s3://bucket/key`, through fsspec, which is imported only for them.

An object store has neither renames nor locks. What it has, and what is used here: an object appears complete or not at all, it
can be read by ranges, and it can be created on the condition that it does not exist.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bpejit.errors import BpejitError, CorpusError, OutputError
from bpejit.extras import import_extra
from bpejit.storage.files import scratch_folder

_PACKAGES = {"s3": "s3", "s3a": "s3"}
"""The extra of bpejit that installs the package for a kind of URL."""

_OBJECT_STORES = ("s3", "s3a", "gs", "gcs")

_WITH_FOLDERS = {"file", "local", "memory", "sftp", "ssh", "hdfs", "arrow_hdfs", "webhdfs", "smb", "ftp"}
"""Kinds of file systems in which a file needs a folder."""

_CHECKSUMS = ("ETag", "etag", "md5Hash", "content_md5", "crc32c")
"""The fields in which storages describe the content of a file."""


@contextmanager
def remote_errors(path: str, *, error: type[BpejitError], what: str = "read the input") -> Iterator[None]:
    """Raise errors of a remote file system as `error`, with the reason and what to do.

    Parameters
    ----------
    path : str
        The URL.
    error : type
    what : str
        What fails, after "cannot".
    """
    try:
        yield
    except (BpejitError, KeyboardInterrupt):
        raise
    except Exception as cause:
        found, action = _explain(path, cause)
        raise error(f"cannot {what} `{path}`: {found}; {action}") from cause


@contextmanager
def remote_access(
    url: str, what: str = "write", *, error: type[BpejitError] = OutputError, noun: str = "the output"
) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a URL from fsspec, and the name of the file there; raise errors as `error`.

    Parameters
    ----------
    url : str
    what : str
        What is done, after "cannot".
    error : type
    noun : str
        What the file is.
    """
    core = import_extra("fsspec.core", f"{noun} `{url}`", error=error)
    # fsspec does not recognize the names of compressed archives, as in `tar://train.txt::corpus.tgz`.
    archive = {"tar": {"compression": "gzip"}} if url.startswith("tar://") and url.endswith(".tgz") else {}
    try:
        found = core.url_to_fs(url, **archive)
    except ImportError as cause:
        extra = _PACKAGES.get(url.partition("://")[0])
        run = f"`pip install 'bpejit[{extra}]'`" if extra else "`pip install` for the package that it names"
        raise error(f"{noun} `{url}` needs a package that is not installed ({cause}); expected it: run {run}") from cause
    except FileNotFoundError as cause:
        raise error(
            f"cannot use {noun} `{url}`: there is no file `{cause.filename or url}`; expected an existing one: check the path"
        ) from cause
    except Exception as cause:  # an unknown scheme, or wrong settings
        raise error(f"cannot use {noun} `{url}`: {cause}; expected a URL that fsspec knows: check the address") from cause
    with remote_errors(url, error=error, what=what):
        yield found


def _explain(path: str, cause: Exception) -> tuple[str, str]:
    """Return the reason of an error, and what was expected and what to do."""
    reason = " ".join(str(cause).split()) or type(cause).__name__
    kinds = {kind.__name__ for kind in type(cause).__mro__}
    container = path.partition("://")[2].partition("/")[0]
    if "credentials" in reason.lower() and kinds & {"NoCredentialsError", "PartialCredentialsError", "BotoCoreError"}:
        return f"no credentials were found ({reason})", (
            "expected those of the storage: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws; for "
            "public data, set FSSPEC_S3_ANON=true"
        )
    if "bucket does not exist" in reason or "NoSuchBucket" in reason:
        return f"the bucket `{container}` does not exist", "expected an existing one: check the address, or create it"
    if isinstance(cause, FileNotFoundError):
        return "there is no such file", "expected an existing one: check the address"
    if isinstance(cause, PermissionError):
        return f"access is denied ({reason})", "expected the permission: check the credentials, and the policy of the bucket"
    if kinds & {"EndpointConnectionError", "ConnectTimeoutError", "ClientConnectorError"}:
        return f"the storage cannot be reached ({reason})", "expected a server: check the network, and AWS_ENDPOINT_URL if set"
    return reason, "expected a remote file system that works: check the address, the credentials and the network, and try again"


def check_container(path: str, file_system: Any, name: str) -> None:
    """Raise FileNotFoundError if the bucket of a URL of an object store does not exist. Listing it gives no error."""
    bucket = name.partition("/")[0]
    if path.partition("://")[0] in _OBJECT_STORES and not file_system.exists(bucket):
        raise FileNotFoundError("The specified bucket does not exist")


class RemoteFile(io.RawIOBase):
    """A remote input that is read by ranges: each `read` is one request for exactly the bytes that are asked for."""

    def __init__(self, url: str) -> None:
        super().__init__()
        with remote_access(url, error=CorpusError, noun="the input") as found:
            self._file_system, self._name = found
        self._path = url
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        """Set the position."""
        if whence == os.SEEK_CUR:
            position += self._position
        elif whence == os.SEEK_END:
            position += self._size()
        self._position = position
        return position

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, fewer only at the end of the file."""
        stop = self._size() if size < 0 else self._position + size
        if stop <= self._position:
            return b""
        with remote_errors(self._path, error=CorpusError):
            try:
                data: bytes = self._file_system.cat_file(self._name, start=self._position, end=stop)
            except Exception:
                # Object stores refuse a range after the end, for example `InvalidRange`.
                if self._position < self._size():
                    raise
                return b""
        self._position += len(data)
        return data

    def readinto(self, target: Any) -> int:
        """Fill a buffer; return the number of bytes."""
        view = memoryview(target).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def _size(self) -> int:
        with remote_errors(self._path, error=CorpusError):
            return int(self._file_system.size(self._name))


def make_parent(file_system: Any, name: str) -> None:
    """Create the folder of a file. Object stores have none, and would create a bucket."""
    protocol = file_system.protocol
    if _WITH_FOLDERS & set((protocol,) if isinstance(protocol, str) else protocol):
        file_system.makedirs(name.rpartition("/")[0], exist_ok=True)


def has_ranges(path: str, file_system: Any, name: str) -> bool:
    """Return True if a remote file can be read by ranges at the cost of the ranges."""
    scheme = path.partition("://")[0]
    if "::" in path:  # a member of an archive, or a file system on top of another one
        return False
    if scheme not in ("http", "https"):
        return True
    return bool(file_system.info(name).get("partial"))


def find_checksum(info: dict[str, Any]) -> str | None:
    """Return what a storage says of the content of a file, such as its ETag; None if it says nothing."""
    for name in _CHECKSUMS:
        if info.get(name):
            return f"{name.lower()} {str(info[name]).strip(chr(34))}"
    return None


@contextmanager
def stored_file(url: str) -> Iterator[str]:
    """Yield a path in a temporary folder, and store the file that is written there, which appears complete.

    Raises
    ------
    OutputError
        If it cannot be stored.
    """
    with scratch_folder(None, "storing") as folder:
        path = folder / "file"
        yield str(path)
        UrlFiles().put_file(path, url)


def check_remote_output(url: str, *, overwrite: bool) -> None:
    """Raise OutputError if an output at a URL exists and `overwrite` is false, or if the storage cannot be used."""
    with remote_access(url) as (file_system, name):
        file_system.invalidate_cache()
        check_container(url, file_system, name)
        exists = file_system.exists(name)
    if exists and not overwrite:
        raise OutputError(
            f"cannot write `{url}`: it already exists; expected a new file: choose another name, or replace it with "
            "`overwrite=True`"
        )


class UrlFiles:
    """Files at URLs that belong to an output: a mixin, whose methods raise OutputError."""

    access = staticmethod(remote_access)

    def list_files(self, url: str) -> list[str]:
        """Return the names of all files below a URL, relative to it."""
        with self.access(url, "read") as (file_system, name):
            file_system.invalidate_cache()
            try:
                found = file_system.find(name)
            except FileNotFoundError:
                return []
        return [str(file)[len(name) :].lstrip("/") for file in found if str(file) != name]

    def put_file(self, path: Path, url: str) -> None:
        """Store a file, which appears complete."""
        with self.access(url) as (file_system, name):
            make_parent(file_system, name)
            file_system.put_file(str(path), name)

    def put_bytes(self, url: str, data: bytes) -> None:
        """Store a small file."""
        with self.access(url) as (file_system, name):
            make_parent(file_system, name)
            file_system.pipe_file(name, data)

    def has_file(self, url: str) -> bool:
        """Return True if a file exists."""
        with self.access(url, "read") as (file_system, name):
            file_system.invalidate_cache()
            return bool(file_system.isfile(name))

    def remove(self, urls: list[str]) -> None:
        """Remove files; those that do not exist are no error."""
        for url in urls:
            with self.access(url, "remove") as (file_system, name), suppress(FileNotFoundError):
                file_system.rm_file(name)
