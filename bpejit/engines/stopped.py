"""Notice worker processes that are stopped, by SIGSTOP or a debugger: they never answer, and nothing else would say so."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

INTERVAL = 5.0
"""Seconds between two looks at the workers; one that is stopped both times is reported."""

_logger = logging.getLogger("bpejit")


def watch_for_stopped(pids: Sequence[int]) -> Callable[[], None]:
    """Log a warning for each process that stays stopped, until the function that is returned is called.

    Parameters
    ----------
    pids : sequence of int
        Child processes.

    Returns
    -------
    callable
        Ends the watch. It may be called more than once.
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
                    "worker process %d of %d (pid %d) is stopped, and the work waits for it: continue it with `kill -CONT %d`, "
                    "or end it with `kill %d; kill -CONT %d`",
                    *(number, len(pids), pid, pid, pid, pid),
                )
            reported = (reported | (stopped & before)) & stopped
            before = stopped

    thread = threading.Thread(target=watch, name="bpejit-watch", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return lambda: None  # no room for a thread; the work can do without

    def end() -> None:
        ended.set()
        thread.join()

    return end


def _is_stopped(pid: int) -> bool:
    """Whether a process is stopped; False if that cannot be found out."""
    try:
        # What follows the name of the program, which may have any characters: the state, as in `man 5 proc`.
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return _state_by_ps(pid).startswith("T")
    except (OSError, IndexError):
        return False
    return state in ("T", "t")


def _state_by_ps(pid: int) -> str:
    if Path("/proc/self").exists():
        return ""  # Linux, where that process is gone
    try:
        done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
