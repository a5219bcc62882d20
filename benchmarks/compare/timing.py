"""Timers for the jobs in worker processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STOP_SAMPLING = "BENCHMARK_STOP_SAMPLING"
"""Environment variable: a file whose creation ends the sampling of memory."""


def timed(job: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call, and its wall time in seconds."""
    begun = time.perf_counter()
    result = job()
    return result, time.perf_counter() - begun


def stop_sampling() -> None:
    """End the sampling of memory: what follows only prepares the comparison of results."""
    if path := os.environ.get(STOP_SAMPLING):
        Path(path).touch()
