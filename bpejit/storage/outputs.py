"""Checks on outputs before any work is done: files that must not be overwritten, and paths that cannot be written.

The same rule holds for all commands and functions: an existing output is an error unless the caller allows replacing it, and an
output that is also an input is always an error.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

from bpejit import arguments
from bpejit.errors import OutputError
from bpejit.storage.exchange import recover
from bpejit.storage.files import StrPath, replacing
from bpejit.storage.temporary import sync_folders

_STANDARD_OUTPUT_NAMES = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""If standard output is redirected to a file, the devices refer to that file, which must not be replaced."""

JOB_FOLDER = ".bpejit-job"
"""The name of the folder of an unfinished job, or, beside a single output, its end."""

MANIFEST = "manifest.json"
"""The name of the manifest of a job, or, beside a single output, its end."""


def manifest_path(out: Path, *, per_input: bool) -> Path:
    """Return the path of the manifest of an output."""
    return out / MANIFEST if per_input else out.with_name(f"{out.name}.{MANIFEST}")


def job_folder(out: Path, *, per_input: bool = False) -> Path:
    """Return the folder of an unfinished job with the output `out`, which exists only while there is one.

    It is beside the output, or within it if that is a folder with an output for each input.
    """
    if per_input:
        return out / JOB_FOLDER
    resolved = Path(os.path.realpath(out))
    return resolved.with_name(folder_beside(resolved.name))


def folder_beside(name: str) -> str:
    """Return the name of the folder of an unfinished job, beside an output with a name."""
    return f".{name[:200]}{JOB_FOLDER}"


class InputFiles:
    """The inputs of several calls of `check_outputs`, which are looked up once: there may be 10,000, at 4 microseconds each.

    Parameters
    ----------
    paths : paths
        `-` is standard input.
    """

    def __init__(self, paths: Iterable[StrPath]) -> None:
        self.paths = paths

    @cached_property
    def ids(self) -> dict[tuple[int, int], str]:
        """The inputs that are regular files, by device and inode."""
        found: dict[tuple[int, int], str] = {}
        for path in self.paths:
            try:
                name = os.fspath(path)
                status = os.fstat(sys.stdin.fileno()) if name == "-" else os.stat(name)  # noqa: PTH116 - a third of the time
            except (OSError, ValueError, AttributeError):  # missing files, and streams without a descriptor
                continue
            if stat.S_ISREG(status.st_mode):
                found[status.st_dev, status.st_ino] = name
        return found


def is_standard_output(path: StrPath) -> bool:
    """Return True if a path is standard output: `-`, or a device such as `/dev/stdout`."""
    return os.fspath(path) in _STANDARD_OUTPUT_NAMES


def is_device(path: StrPath) -> bool:
    """Return True if a path is written to directly: a device, a pipe or a socket."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):  # a NUL, or half of a surrogate pair, is reported when the file is opened
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def check_outputs(
    outputs: Iterable[StrPath],
    *,
    inputs: Iterable[StrPath] | InputFiles = (),
    overwrite: bool = False,
    folder: StrPath | None = None,
) -> None:
    """Raise an exception if writing these files would destroy data without permission.

    Call this before anything is read, so that a long run does not fail at its end. Devices, pipes and standard output pass.
    If an earlier run was interrupted while it replaced these files, they are recovered first.

    Parameters
    ----------
    outputs : paths
        The files that will be written, replaced or removed.
    inputs : paths, or InputFiles
        The files that will be read; `-` is standard input.
    overwrite : bool
        Allow replacing existing files.
    folder : path, optional
        The output that the user named, if it is a folder for these files.

    Raises
    ------
    OutputError
        If an output is one of the inputs (the same device and inode), is a folder, or exists and `overwrite` is false.
    """
    outputs = list(outputs)
    recover(Path(path) for path in outputs if not is_standard_output(path))
    read = inputs if isinstance(inputs, InputFiles) else InputFiles(inputs)
    for path in outputs:
        try:
            status = os.fstat(sys.stdout.fileno()) if is_standard_output(path) else Path(path).stat()
        except (OSError, ValueError, AttributeError):  # missing files, and streams without a descriptor
            continue  # so that the inputs, of which there may be 10,000, are not examined
        source = read.ids.get((status.st_dev, status.st_ino))
        if source is not None:
            name = "standard output" if is_standard_output(path) else f"`{os.fspath(path)}`"
            read_from = "standard input" if source == "-" else f"`{source}`"
            same = "" if source == os.fspath(path) else f" (it is the same file as {read_from})"
            raise OutputError(
                f"cannot write {name}: it is one of the inputs{same}, which would be lost; "
                "expected a different file: choose another name for the output"
            )
    for path in outputs:
        _check_existing(os.fspath(path), overwrite, folder)


def check_output_folder(folder: StrPath, names: Iterable[str]) -> None:
    """Raise an exception if files cannot be written to a folder, which may not exist yet.

    Parameters
    ----------
    folder : path
    names : str
        The files, for the message.

    Raises
    ------
    OutputError
    """
    check_not_stream(folder, names)
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"cannot save to `{folder}`: it is a file; expected an existing or new folder: choose another path")
    existing = existing_parent(folder / "file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise OutputError(
            f"cannot save to `{folder}`: no permission to write to `{existing}`; "
            "expected a writable folder: change its permissions or choose another"
        )


@contextmanager
def opened_output(out: StrPath | BinaryIO) -> Iterator[Any]:
    """Open an output that is written in order: a stream, standard output, or a file as by `replacing`."""
    if not isinstance(out, (str, os.PathLike)):
        yield out
    elif is_standard_output(out):
        yield sys.stdout.buffer
        sys.stdout.flush()  # an error must not be lost when the interpreter exits
    else:
        with replacing(out) as file:
            yield file


def write_output(path: StrPath, data: bytes, *, overwrite: bool, name: str = "path") -> None:
    """Write an output at once; `name` is the argument with its path, for messages.

    Raises
    ------
    OutputError
        If the file cannot be written, or exists and `overwrite` is false.
    """
    path = arguments.path(name, path, error=OutputError)
    check_outputs([path], overwrite=arguments.flag("overwrite", overwrite))
    with opened_output(path) as file:
        file.write(data)


@contextmanager
def creating_folder(folder: Path) -> Iterator[None]:
    """Create a folder and its missing parents. If the block raises an exception, those that are still empty are removed.

    Raises
    ------
    OutputError
        If the folder cannot be created.
    """
    missing = list(takewhile(lambda path: not path.exists(), (folder, *folder.parents)))
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as cause:
            raise OutputError(
                f"cannot create the folder `{folder}`: {cause.strerror}; expected a path that can be written to: choose another"
            ) from cause
        sync_folders([new.parent for new in missing])
        yield
    except BaseException:
        for new in missing:
            with suppress(OSError):  # another process may have put a file there
                new.rmdir()
        raise


def existing_parent(path: StrPath) -> Path:
    """Return the folder in which an output will be, or the nearest one above it that exists."""
    return next(folder for folder in Path(path).absolute().parents if folder.exists())


def check_not_stream(path: StrPath, names: Iterable[str]) -> None:
    """Raise an exception if `path` is standard output or a device, because the result is several files.

    Parameters
    ----------
    path : path
    names : str
        The files, for the message.

    Raises
    ------
    OutputError
    """
    if is_standard_output(path) or is_device(path):
        raise OutputError(
            f"cannot write to `{os.fspath(path)}`: the result is several files ({', '.join(names)}); "
            "expected a path on a disk: choose one"
        )


def _check_existing(path: str, overwrite: bool, folder: StrPath | None) -> None:
    if is_standard_output(path):
        return
    if path.endswith((os.sep, os.altsep or os.sep)):
        raise OutputError(
            f"cannot write `{path}`: the name ends with `{path[-1]}`, so it is a folder; "
            "expected the name of a file: add one, or remove the last character"
        )
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return  # missing or inaccessible: opening it raises the right error
    if stat.S_ISDIR(mode):
        raise OutputError(f"cannot write `{path}`: it is a folder; expected the name of a file: choose another name")
    if overwrite or not stat.S_ISREG(mode):
        return
    if folder is None:
        raise OutputError(
            f"cannot write `{path}`: it already exists; expected a new file: choose another name, or replace it with "
            "`overwrite=True`"
        )
    raise OutputError(
        f"cannot save to `{os.fspath(folder)}`: `{Path(path).name}` already exists there; expected a folder without it: "
        "choose another folder, or replace what is there with `overwrite=True`"
    )
