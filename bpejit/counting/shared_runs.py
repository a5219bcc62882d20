"""Sorted runs that several machines write and read: in a folder that all of them see, or objects below a URL.

Storage at a URL has no file to append to, so a run is written in a scratch folder of the machine, and stored as one object when
it is complete. It is read by ranges.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from bpejit.counting.counts_file import write_counts
from bpejit.counting.header import CountsHeader
from bpejit.counting.spilling import Run, SpilledRuns
from bpejit.errors import OutputError
from bpejit.storage.remote import check_container, is_remote, remote_errors, remote_file_system, stored_file
from bpejit.storage.scratch import scratch_folder


@contextmanager
def shared_runs_folder(parent: str) -> Iterator[str]:
    """Yield a hidden folder for runs, and remove it with its content when the context exits.

    Parameters
    ----------
    parent : str
        An existing folder, or a URL.

    Raises
    ------
    OutputError
        If the folder cannot be created, or the storage at the URL cannot be used.
    """
    if not is_remote(parent):
        with scratch_folder(Path(parent), "counting") as folder:
            yield str(folder)
        return
    file_system, name = remote_file_system(parent, error=OutputError, what="the temporary folder")
    with remote_errors(parent, error=OutputError, what="write"):
        check_container(parent, file_system, name)
    url = f"{parent.rstrip('/')}/.counting.bpejit-{secrets.token_hex(6)}.scratch"
    try:
        yield url
    finally:
        _remove_below(url)


def _remove_below(url: str) -> None:
    """Remove all files below a URL. An error is ignored, as for local files: it would hide the result, or another error."""
    with suppress(Exception):
        file_system, name = remote_file_system(url, error=OutputError)
        file_system.invalidate_cache()
        if found := file_system.find(name):
            file_system.rm(found)
        if file_system.exists(name):  # an empty folder, which object stores do not have
            file_system.rm(name, recursive=True)


@contextmanager
def node_runs_folder(shared: str) -> Iterator[Path]:
    """Yield the folder in which this machine writes runs: `shared` itself, or a scratch folder for one at a URL.

    Raises
    ------
    OutputError
        If it cannot be created.
    """
    if not is_remote(shared):
        yield Path(shared)
        return
    with scratch_folder(Path(tempfile.gettempdir()), "counting") as folder:
        yield folder


def store_runs(runs: Sequence[Run], shared: str) -> list[Run]:
    """Return runs that all machines see: those of `node_runs_folder`, stored under new names if `shared` is a URL.

    Raises
    ------
    OutputError
        If they cannot be stored.
    """
    if not is_remote(shared):
        return list(runs)
    file_system, home = remote_file_system(shared, error=OutputError, what="the temporary folder")
    # Names are new in each attempt: a task may run twice if its node was lost without having ended.
    prefix = secrets.token_hex(8)
    with remote_errors(shared, error=OutputError, what="write"):
        if {"file", "memory"} & set(_protocols(file_system)):
            file_system.makedirs(home, exist_ok=True)
        for number, run in enumerate(runs):
            file_system.put_file(run.path, f"{home}/{prefix}-{number}.run")
    return [replace(run, path=f"{shared}/{prefix}-{number}.run") for number, run in enumerate(runs)]


def _protocols(file_system: object) -> tuple[str, ...]:
    found = getattr(file_system, "protocol", ())
    return (found,) if isinstance(found, str) else tuple(found)


def remove_runs(runs: Sequence[Run]) -> None:
    """Remove runs of one folder. An error is ignored, since the folder is removed later."""
    if not (runs and is_remote(runs[0].path)):
        for run in runs:
            with suppress(OSError):
                Path(run.path).unlink()
        return
    with suppress(Exception):  # one request for all: there are many runs, and the driver removes them
        file_system, _ = remote_file_system(runs[0].path, error=OutputError)
        file_system.rm([remote_file_system(run.path, error=OutputError)[1] for run in runs])


def write_shared_counts(
    out: str, header: CountsHeader, runs: Sequence[Run], report: Callable[[str, int, int | None, str], None]
) -> None:
    """Write the counts file of at most `MOST_RUNS` runs, to a path or a URL. An existing one is replaced.

    Raises
    ------
    OutputError
    """
    blocks = SpilledRuns("", runs).blocks()
    if not is_remote(out):
        write_counts(out, header, blocks, report)
        return
    with stored_file(out, overwrite=True) as path:
        write_counts(path, header, blocks, report)
