"""`bpejit cache` and `bpejit warmup`."""

from __future__ import annotations

import time
from typing import Any

import click

from bpejit.errors import BpejitError

from .command_types import Group, command
from .output_lines import write_line
from .progress import format_bytes, format_seconds, watch
from .reporting import debug_option, is_quiet, report_options, wants_json, write_json, write_table


@command("warmup")
@report_options
def warmup_command() -> None:
    """Compile all kernels for this machine before the first run.

    \b
    Example:
        bpejit warmup
    """
    from bpejit.jit.listening import run_preparation
    from bpejit.warmup import warmup

    begun = time.perf_counter()
    with watch() as progress:
        run_preparation()  # two processes compile most kernels
        warmup()
    compiled, seconds = progress.n_compiled, time.perf_counter() - begun
    # After compiling, `watch` has reported the time already.
    summary = "" if compiled else f"all kernels are already compiled; loading them took {format_seconds(seconds)}"
    progress.finish(summary, compiled=compiled, seconds=seconds)


@click.group("cache", cls=Group)
@debug_option
def cache_command() -> None:
    """Show or clear the cache of compiled kernels.

    \b
    Example:
        bpejit cache info
        bpejit cache clear
    """


@command("info")
@report_options
def info() -> None:
    """Show the location of the cache, whether it is usable, and its contents.

    \b
    Example:
        bpejit cache info
        bpejit cache info --json
    """
    found = _describe()
    if wants_json():
        write_json(**found)
        return
    shipped = "kernels that came with the package are used" if found["shipped"] else "none"
    write_table(
        (
            ("folder", (found["folder"] or "none") + (f" ({found['named_by']})" if found["named_by"] else "")),
            ("usable", "yes" if found["problem"] is None else f"no: {found['problem']}"),
            ("size", format_bytes(found["bytes"])),
            ("shipped", shipped),
            ("this version", found["current"]),
        )
    )
    for folder in found["contents"]:
        files, days = folder["files"], folder["days_unused"]
        used = "today" if days == 0 else f"{days} day{'' if days == 1 else 's'} ago"
        size = format_bytes(folder["bytes"])
        write_line(f"{folder['name']:<33}{files:>5} file{' ' if files == 1 else 's'}{size:>11}  last used {used}")


@command("clear")
@report_options
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
    if wants_json():
        write_json(folder=str(path), files=n_files, bytes=n_bytes)
    elif not is_quiet():
        write_line(f"removed {n_files:,} file{'' if n_files == 1 else 's'} ({format_bytes(n_bytes)}) from `{path}`")


cache_command.add_command(info)
cache_command.add_command(clear)


def _describe() -> dict[str, Any]:
    from bpejit.jit import cache, folders, shipped, upkeep

    path = root = None
    variable = ""
    try:
        path, variable = folders.find_cache_folder()
        root = folders.resolve(path)
    except folders.FolderError:
        pass  # `find_problem` returns the reason
    contents = [] if root is None else upkeep.list_folders(root)
    now = time.time()
    return {
        "folder": None if path is None else str(path),
        "named_by": variable or None,
        "problem": cache.find_problem(),
        "bytes": sum(folder.n_bytes for folder in contents),
        "shipped": shipped.is_available(),
        "current": cache.name_of_kernels(),
        "contents": [
            {
                "name": folder.name,
                "files": folder.n_files,
                "bytes": folder.n_bytes,
                "days_unused": max(0, int((now - folder.last_used) // 86_400)),
            }
            for folder in contents
        ],
    }
