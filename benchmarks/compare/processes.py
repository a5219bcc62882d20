"""Jobs in fresh processes, with the memory that all their processes hold together.

Memory is the proportional set size: pages that several processes share count once in all. It is sampled from outside, which
takes time from the job; so it is asked for in a run of its own, whose time does not count. It is sampled up to the end of the
work: what a job does afterwards, to compare its result, is not the tool's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from .corpora import ROOT

ONE_PROCESSOR = "BENCHMARK_ONE_PROCESSOR"
"""Environment variable: a job runs on one processor, whatever number of threads its tool starts."""


class JobError(Exception):
    """A job that failed or took too long."""


class JobTimeoutError(JobError):
    """A job that took too long."""


def run_job(
    job: str,
    params: dict[str, Any],
    *,
    environment: dict[str, str] | None = None,
    memory: bool = False,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Run a job of `worker` in a fresh process and return what it returns.

    `process_seconds` is added, the time from start to end, and `peak_mb` if the memory was asked for. The answer goes through
    a file, because some tools print as they work.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer, worked = Path(folder) / "answer.json", Path(folder) / "worked"
        given = json.dumps({**params, "worked": str(worked)})
        command = [sys.executable, "-m", "benchmarks.compare.worker", job, given, str(answer)]
        result = run_command(command, environment=environment, memory=memory, until=worked, timeout=timeout)
        if not answer.is_file():
            raise JobError(f"{job} failed with exit code {result['exit_code']}:\n{result['stderr'][-2000:]}")
        found: dict[str, Any] = json.loads(answer.read_text())
    del result["stderr"]
    return {**result, **found}


def run_command(
    command: list[str],
    *,
    environment: dict[str, str] | None = None,
    memory: bool = False,
    until: Path | None = None,
    timeout: float | None = None,
    cwd: Path = ROOT,
) -> dict[str, Any]:
    """Run a command; its output is dropped, its standard error kept. Memory is sampled until the file `until` is there."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryFile() as errors:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        # Not the timeout of wait(), which looks only every 50 ms.
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
            raise JobTimeoutError(f"stopped after {timeout:.0f} s")
        errors.seek(0)
        result: dict[str, Any] = {
            "process_seconds": seconds,
            "exit_code": process.returncode,
            "stderr": errors.read().decode("utf-8", "replace"),
        }
    if peak is not None:
        result["peak_mb"] = peak / 1e6
    return result


def watch_memory(process: subprocess.Popen[bytes], until: Path | None) -> int | None:
    """Highest sum of the memory of a process and its descendants, in bytes; None where the system does not tell it."""
    if not Path("/proc/self/smaps_rollup").exists():
        return None
    peak = 0
    while process.poll() is None and not (until and until.exists()):
        sampled = time.perf_counter()
        peak = max(peak, sum(held_memory(one) for one in family(process.pid)))
        # Reading walks the page tables: a tenth of the time at most.
        time.sleep(max(0.005, 9 * (time.perf_counter() - sampled)))
    return peak


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue  # it has ended
    return found


def held_memory(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # it has ended
    return 0
