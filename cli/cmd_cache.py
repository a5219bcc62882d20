"""`bpejit cache`."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from bpejit.errors import BpejitError

from .options import debug_option
from .progress import format_bytes


@click.group("cache")
def cache_command() -> None:
    """Show or empty the cache of compiled kernels.

    \b
    Example:
        bpejit cache info
        bpejit cache clear
    """


@cache_command.command("info")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@debug_option
def info(*, as_json: bool) -> None:
    """Show where the cache is, whether it can be used, and what it holds.

    \b
    Example:
        bpejit cache info
    """
    found = _describe()
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    click.echo(f"{'folder':<16}{found['folder'] or 'none'}{_named_by(found['named_by'])}")
    click.echo(f"{'usable':<16}{'yes' if found['problem'] is None else 'no: ' + found['problem']}")
    click.echo(f"{'size':<16}{format_bytes(found['bytes'])}")
    shipped = "kernels that came with the package are used" if found["shipped"] else "none"
    click.echo(f"{'shipped':<16}{shipped}")
    click.echo(f"{'this version':<16}{found['current']}")
    for folder in found["contents"]:
        files, days = folder["files"], folder["days_unused"]
        used = "today" if days == 0 else f"{days} day{'' if days == 1 else 's'} ago"
        size = format_bytes(folder["bytes"])
        click.echo(f"{folder['name']:<33}{files:>5} file{' ' if files == 1 else 's'}{size:>11}  last used {used}")


@cache_command.command("clear")
@debug_option
def clear() -> None:
    """Remove all compiled kernels and pattern tables; later runs make them again.

    Other processes may go on using bpejit meanwhile.

    \b
    Example:
        bpejit cache clear
    """
    from bpejit.jit import folders, upkeep

    try:
        path = folders.find_place().path
        root = folders.resolve(path)
    except folders.FolderError as error:
        raise BpejitError(f"the cache cannot be cleared: {error}: remove the folder yourself") from error
    n_files, n_bytes = (0, 0) if root is None else upkeep.clear(root)
    click.echo(f"removed {n_files:,} file{'' if n_files == 1 else 's'} ({format_bytes(n_bytes)}) from `{path}`")


def _describe() -> dict[str, Any]:
    from bpejit.jit import cache, folders, shipped, upkeep

    path = root = None
    variable = ""
    try:
        path, variable = folders.find_place()
        root = folders.resolve(path)
    except folders.FolderError:
        pass  # `find_problem` has the reason
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


def _named_by(variable: str | None) -> str:
    return f" ({variable})" if variable else ""
