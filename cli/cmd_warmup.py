"""`bpejit warmup`."""

from __future__ import annotations

import click

from .options import debug_option
from .progress import format_seconds, watch


@click.command("warmup")
@debug_option
def warmup_command() -> None:
    """Compile everything for this machine ahead of the first run.

    \b
    Example:
        bpejit warmup
    """
    from bpejit.warmup import compiling_meanwhile, warmup

    with watch(quiet=False) as progress:
        with compiling_meanwhile("encoding"):
            compiled, seconds = warmup("training")
        for part in ("others", "encoding"):
            more, longer = warmup(part)
            compiled += more
            seconds += longer
    if not compiled:
        progress.say(f"everything was compiled already; loading it took {format_seconds(seconds)}")
