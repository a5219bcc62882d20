"""`bpejit warmup`."""

from __future__ import annotations

import time

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
