"""Helpers that start a Ray cluster of several local nodes, and kill its workers and nodes."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from bpejit.engines.ray_cluster import silence
from bpejit.storage.files import write_error

STORE_BYTES = 100 << 20
"""The smallest object stores that work well; nothing large is stored in them."""

HEALTH = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
"""A node that was killed is dead after some two seconds, not after twenty."""


@contextmanager
def stdout_to_null() -> Iterator[None]:
    """Discard standard output, also that of processes that are started: Ray's write logs to it."""
    sys.stdout.flush()
    before = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 1)
        yield
        sys.stdout.flush()
    finally:
        os.dup2(before, 1)
        os.close(before)
        os.close(null)


class LocalCluster:
    """A cluster of nodes of one processor each on this machine, in which nodes can be killed and added."""

    def __init__(self, nodes: int) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)  # for the functions below that tasks run
        with warnings.catch_warnings(), stdout_to_null():
            warnings.simplefilter("ignore")
            from ray.cluster_utils import Cluster

            self._cluster = Cluster(
                initialize_head=True,
                head_node_args={
                    "num_cpus": 1,
                    "object_store_memory": STORE_BYTES,
                    "include_dashboard": False,
                    "_system_config": HEALTH,
                },
            )
        import ray

        silence(ray)
        self.address: str = self._cluster.address
        self.others: list[Any] = []
        self.fill(nodes)

    def fill(self, nodes: int) -> None:
        """Add nodes until there are as many."""
        missing = nodes - 1 - len(self.others)
        if missing <= 0:
            return
        with stdout_to_null():
            for _ in range(missing):
                self.others.append(self._cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES, wait=False))
            self._cluster.wait_for_nodes()

    def kill_node(self) -> bool:
        """Kill a node that is not the head, with its workers."""
        if not self.others:
            return False
        node = self.others.pop()
        workers = worker_pids(node, "ray::")
        with stdout_to_null():
            self._cluster.remove_node(node, allow_graceful=False)
        for pid in workers:  # a machine that fails takes all of its processes with it
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return True

    def kill_worker(self, title: str = "ray::bpejit") -> bool:
        """Kill a worker that runs a task of bpejit; return False if there is none."""
        for node in (*self.others, self._cluster.head_node):
            for pid in worker_pids(node, title):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return True
        return False

    def close(self) -> None:
        self._cluster.shutdown()


@contextmanager
def connected_cluster() -> Iterator[LocalCluster]:
    """Start a cluster of three nodes with access to the S3 server, and connect this process, so that jobs share workers."""
    import ray

    from helpers.s3 import server_environment

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (server_environment() if find_spec("moto") and find_spec("s3fs") else {}).items():
                patch.setenv(name, value)
            cluster = LocalCluster(3)
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        yield cluster
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.shutdown()
            cluster.close()


def worker_pids(node: Any, title: str) -> list[int]:
    """Return the workers of a node whose current task has a name that begins with `title`."""
    raylet = node.all_processes["raylet"][0].process.pid
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == raylet and (entry / "cmdline").read_bytes().startswith(title.encode()):
                    found.append(int(entry.name))
    return sorted(found)


class Midway:
    """A progress callback that does something once in the middle of a stage.

    Parameters
    ----------
    stage : str
    act : callable
        Returns False to be called again at the next report.
    """

    def __init__(self, stage: str, act: Callable[[], bool]) -> None:
        self._stage = stage
        self._act = act
        self.acted = False

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        if stage == self._stage and not self.acted and 0 < done < (total or 0):
            self.acted = self._act()


def die(shared: object) -> None:
    """Kill the worker: a task."""
    os.kill(os.getpid(), signal.SIGKILL)


def fill_disk(shared: object) -> None:
    """Fail as on a full disk: a task."""
    raise write_error("/scratch/part", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for a condition.

    Raises
    ------
    TimeoutError
    """
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("the condition does not become true")
        time.sleep(0.05)
