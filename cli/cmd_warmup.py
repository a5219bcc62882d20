"""`bpejit warmup`."""

from __future__ import annotations

import click

from .options import debug_option
from .progress import format_seconds


@click.command()
@debug_option
def warmup() -> None:
    """Compile everything for this machine ahead of the first run.

    \b
    Example:
        bpejit warmup
    """
    import bpejit

    click.echo("compiling for this machine, once; this may take a minute ...", err=True)
    compiled, seconds = bpejit.warmup()
    if compiled:
        click.echo(f"compiled {compiled} kernels in {format_seconds(seconds)}; later runs load them", err=True)
    else:
        click.echo(f"everything was compiled already; loading it took {format_seconds(seconds)}", err=True)
