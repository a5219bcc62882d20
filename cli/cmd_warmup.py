"""`bpejit warmup`."""

from __future__ import annotations

from .command_types import command
from .progress import format_seconds, watch
from .reporting import report_options


@command("warmup")
@report_options
def warmup_command() -> None:
    """Compile all kernels for this machine before the first run.

    \b
    Example:
        bpejit warmup
    """
    from bpejit.warmup import compiling_meanwhile, warmup

    with watch() as progress:
        with compiling_meanwhile("encoding"):
            compiled, seconds = warmup("training")
        for part in ("others", "encoding"):
            n_kernels, part_seconds = warmup(part)
            compiled += n_kernels
            seconds += part_seconds
    # After compiling, `watch` has reported the time already.
    summary = "" if compiled else f"all kernels are already compiled; loading them took {format_seconds(seconds)}"
    progress.finish(summary, compiled=compiled, seconds=seconds)
