"""Report worker processes that are stopped by SIGSTOP or a debugger. They never answer, and nothing else reports them."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

INTERVAL = 5.0
"""Seconds between two checks of the workers. A process that is stopped in both is reported."""

_logger = logging.getLogger("bpejit")


def watch_for_stopped(pids: Sequence[int]) -> Callable[[], None]:
    """Log a warning for each process that stays stopped, until the returned function is called.

    Parameters
    ----------
    pids : sequence of int
        Child processes.

    Returns
    -------
    callable
        Function that ends the checks. It may be called more than once.
    """
    ended = threading.Event()
    interval = INTERVAL

    def watch() -> None:
        before: set[int] = set()
        reported: set[int] = set()
        while not ended.wait(interval):
            stopped = {pid for pid in pids if _is_stopped(pid)}
            for pid in sorted(stopped & before - reported):
                number = pids.index(pid) + 1
                _logger.warning(
                    "worker process %d of %d (pid %d) is stopped, and the run waits for it: continue it with `kill -CONT %d`, "
                    "or end it with `kill %d; kill -CONT %d`",
                    *(number, len(pids), pid, pid, pid, pid),
                )
            reported = (reported | (stopped & before)) & stopped
            before = stopped

    thread = threading.Thread(target=watch, name="bpejit-watch", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return lambda: None  # no thread can be started; the check is optional

    def end() -> None:
        ended.set()
        thread.join()

    return end


def _is_stopped(pid: int) -> bool:
    """Return True if the process is stopped, and False if its state cannot be read."""
    try:
        # The state follows the program name, which may contain any character (`man 5 proc`).
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return _state_by_ps(pid).startswith("T")
    except (OSError, IndexError):
        return False
    return state in ("T", "t")


def _state_by_ps(pid: int) -> str:
    if Path("/proc/self").exists():
        return ""  # on Linux: the process has ended
    try:
        done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
