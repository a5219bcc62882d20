"""`bpejit cache` and `bpejit warmup`."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import click

from bpejit.errors import BpejitError

from .command_types import Group, command
from .progress import counted, format_bytes, format_seconds, watch
from .reporting import this_command, write_json, write_line, write_report


@command("warmup")
def warmup_command() -> None:
    """Compile all kernels for this machine before the first run.

    \b
    Example:
        bpejit warmup
    """
    from bpejit.jit.listening import prepare_with, run_preparation
    from bpejit.warm_kernels import warmup

    begun = time.perf_counter()
    with watch() as progress:
        prepare_with(lambda: progress.compile_first(others=True))
        run_preparation()
        warmup()
    compiled, seconds = progress.n_compiled, time.perf_counter() - begun
    # After compiling, `watch` has reported the time already.
    summary = "" if compiled else f"all kernels are already compiled; loading them took {format_seconds(seconds)}"
    progress.finish(summary, compiled=compiled, seconds=seconds)


@click.group("cache", cls=Group)
def cache_command() -> None:
    """Show or clear the cache of compiled kernels.

    \b
    Example:
        bpejit cache info
        bpejit cache clear
    """


@cache_command.command("info")
def info() -> None:
    """Show the folder, the state and the contents of the cache.

    \b
    Example:
        bpejit cache info
        bpejit cache info --json
    """
    from bpejit.jit import cache, folders, shipped, upkeep

    path = root = None
    variable = ""
    with suppress(folders.FolderError):  # `find_problem` returns the reason
        path, variable = folders.find_cache_folder()
        root = folders.resolve(path)
    now = time.time()
    contents: list[dict[str, Any]] = [
        {
            "name": folder.name,
            "files": folder.n_files,
            "bytes": folder.n_bytes,
            "days_unused": max(0, int((now - folder.last_used) // 86_400)),
        }
        for folder in ([] if root is None else upkeep.list_folders(root))
    ]
    found: dict[str, Any] = {
        "folder": None if path is None else str(path),
        "named_by": variable or None,
        "problem": cache.find_problem(),
        "bytes": sum(folder["bytes"] for folder in contents),
        "shipped": shipped.is_available(),
        "current": cache.name_of_kernels(),
        "contents": contents,
    }
    rows = [
        ("folder", (found["folder"] or "none") + (f" ({variable})" if variable else "")),
        ("usable", "yes" if found["problem"] is None else f"no: {found['problem']}"),
        ("size", format_bytes(found["bytes"])),
        ("shipped", "kernels that came with the package are used" if found["shipped"] else "none"),
        ("this version", found["current"]),
    ]
    write_report(found, lambda: rows)
    for folder in () if this_command().json else contents:
        used = "today" if not folder["days_unused"] else f"{counted(folder['days_unused'], 'day')} ago"
        files = f"{folder['files']:>5} file{' ' if folder['files'] == 1 else 's'}"
        write_line(f"{folder['name']:<33}{files}{format_bytes(folder['bytes']):>11}  last used {used}")


@cache_command.command("clear")
def clear() -> None:
    """Remove all compiled kernels and pattern tables. Later runs create them again.

    This is safe while other processes use bpejit.

    \b
    Example:
        bpejit cache clear
    """
    from bpejit.jit import folders, upkeep

    try:
        path = folders.find_cache_folder().path
        root = folders.resolve(path)
    except folders.FolderError as error:
        raise BpejitError(f"the cache cannot be cleared: {error}: remove the folder yourself") from error
    n_files, n_bytes = (0, 0) if root is None else upkeep.clear(root)
    if this_command().json:
        write_json(folder=str(path), files=n_files, bytes=n_bytes)
    elif not this_command().quiet:
        write_line(f"removed {counted(n_files, 'file')} ({format_bytes(n_bytes)}) from `{path}`")
