"""`bpejit warmup`."""

from __future__ import annotations

import click

from .options import debug_option
from .progress import format_seconds, watch


@click.command()
@debug_option
def warmup() -> None:
    """Compile everything for this machine ahead of the first run.

    \b
    Example:
        bpejit warmup
    """
    import bpejit

    with watch(quiet=False) as progress:
        compiled, seconds = bpejit.warmup()
    if not compiled:
        progress.say(f"everything was compiled already; loading it took {format_seconds(seconds)}")
