"""Run jobs in fresh processes, and sample the memory of all their processes together.

Memory is the proportional set size: pages that several processes share are counted once in all. Sampling slows a job down, so
it is done in the run that checks results, whose time is not recorded. It ends when the job calls `timing.stop_sampling`.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from .corpora import ROOT
from .timing import STOP_SAMPLING

ONE_PROCESSOR = "BENCHMARK_ONE_PROCESSOR"
"""Environment variable: pin the job to one processor, however many threads its tool starts."""


def thread_limits(threads: int) -> dict[str, str]:
    """Return environment variables that limit the threads of rayon and OpenMP; one thread also means one processor."""
    limits = {"RAYON_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    return limits | ({ONE_PROCESSOR: "1"} if threads == 1 else {})


class JobError(Exception):
    """A job failed or was stopped after its time limit."""


def run_job(
    command: list[str],
    job: dict[str, Any],
    *,
    environment: dict[str, str] | None = None,
    memory: bool = False,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Run a job of `worker` in a fresh process and return its answer, with `process_seconds` and, if asked for, `peak_mb`.

    The answer is passed through a file, because some tools print while they work.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer, stop = Path(folder) / "answer.json", Path(folder) / "stop"
        given = Path(folder) / "job.json"
        given.write_text(json.dumps(job))
        environment = {**(environment or {}), STOP_SAMPLING: str(stop)}
        result = run_command(
            [*command, str(given), str(answer)], environment=environment, memory=memory, until=stop, timeout=timeout
        )
        if not answer.is_file():
            raise JobError(last_line(result["stderr"]) or f"exit code {result['exit_code']}")
        found: dict[str, Any] = json.loads(answer.read_text())
    return {"process_seconds": result["process_seconds"], "peak_mb": result.get("peak_mb"), **found}


def last_line(text: str) -> str:
    """Return the last line of a traceback, which names the error."""
    return next((line[:200] for line in reversed(text.splitlines()) if line.strip()), "")


def run_command(
    command: list[str],
    *,
    environment: dict[str, str] | None = None,
    memory: bool = False,
    until: Path | None = None,
    timeout: float | None = None,
    cwd: Path = ROOT,
) -> dict[str, Any]:
    """Run a command and return its standard output and error, exit code and time; sample memory until `until` exists."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    # Without stored bytecode, each process would compile the modules of a checkout, but not those of installed packages.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**inherited, "PYTHONPATH": path, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        )
        # Not the timeout of wait(), which polls every 50 ms.
        stop = threading.Timer(timeout or 3600, process.kill)
        stop.start()
        try:
            peak = watch_memory(process, until) if memory else None
            process.wait()
            seconds = time.perf_counter() - begun
        finally:
            stop.cancel()
            if process.poll() is None:
                process.kill()
                process.wait()
        if timeout and seconds >= timeout:
            raise JobError(f"stopped after {timeout:.0f} s")
        output.seek(0)
        errors.seek(0)
        result: dict[str, Any] = {
            "process_seconds": seconds,
            "exit_code": process.returncode,
            "stdout": output.read().decode("utf-8", "replace"),
            "stderr": errors.read().decode("utf-8", "replace"),
        }
    if peak is not None:
        result["peak_mb"] = peak / 1e6
    return result


def watch_memory(process: subprocess.Popen[bytes], until: Path | None) -> int | None:
    """Return the peak of the memory of a process and its descendants in bytes, or None where /proc does not report it."""
    if not Path("/proc/self/smaps_rollup").exists():
        return None
    peak = 0
    while process.poll() is None and not (until and until.exists()):
        sampled = time.perf_counter()
        peak = max(peak, sum(proportional_set_size(one) for one in family(process.pid)))
        # Reading walks the page tables: spend a tenth of the time on it at most.
        time.sleep(max(0.005, 9 * (time.perf_counter() - sampled)))
    return peak


def family(pid: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    found = [pid]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue  # the process has ended
    return found


def proportional_set_size(pid: int) -> int:
    """Return the memory of a process in bytes, 0 if it has ended."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # the process has ended
    return 0
