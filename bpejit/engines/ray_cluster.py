"""Run tasks on the nodes of a Ray cluster.

This is not an engine in the sense of `bpejit.engines`: chunks would be too small, and their results would pass through the
driver. Jobs divide their input into parts instead, and run each part as a task: a function that is named by its location, with
arguments that describe what to do. Tasks read and write files that all nodes see, and return a few numbers.

The driver repeats a task whose worker or node dies. A task that raises an error fails, and so does the job.
"""

from __future__ import annotations

import importlib
import os
import pickle
import platform
import shutil
import signal
import socket
import tempfile
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from bpejit.engines import count_cpus
from bpejit.errors import BpejitError, EngineError, shorten
from bpejit.extras import import_extra

CONNECT_SECONDS = 5.0
"""How long the driver waits for the address of a cluster. Ray itself waits a minute, and then ends the process."""

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What a gRPC client sends first (RFC 9113, section 3.4), with an empty SETTINGS frame; a server sends such a frame too."""

SETTINGS_FRAME = 4

MOST_DEATHS = 4
"""How often the workers of a task may die."""

QUEUED = 1000
"""Tasks that are submitted at a time, and at least four for each processor of the cluster."""

WAIT_SECONDS = 0.25

CANCEL_SECONDS = 1.0
"""How long cancelled tasks have to save their progress, before their workers are killed."""

LOCAL_OBJECT_BYTES = 100 << 20
"""The object store of a local Ray, which contains descriptions of tasks and nothing else. Ray would take 30 % of the memory."""


@dataclass(frozen=True)
class ClusterTask:
    """A task.

    Parameters
    ----------
    name : str
        What Ray's dashboard shows.
    function : str
        The location `package.module:name` of a function `f(shared, *arguments)`.
    arguments : tuple
        Can be pickled.
    node : str, optional
        The id of the node that has to run it.
    progress : callable
        Returns how much is done, as the driver sees it. Workers that die without progress end the job.
    """

    name: str
    function: str
    arguments: tuple[Any, ...]
    node: str | None = None
    progress: Callable[[], object] = lambda: None


class RayCluster:
    """A connection to a cluster; made by `connected`.

    Parameters
    ----------
    ray : module
    address : str
    is_local : bool
        Whether this process has started it.
    workers : int, optional
        Most tasks that run at the same time.

    Attributes
    ----------
    nodes : list of dict
        Those with processors, as Ray describes them.
    cpus : int
    slots : int
        Tasks that run at the same time.
    """

    def __init__(self, ray: Any, address: str, *, is_local: bool, workers: int | None) -> None:
        self._ray = ray
        self.address = address
        self.is_local = is_local
        self._workers = workers
        self.nodes = [node for node in ray.nodes() if node["Alive"] and int(node["Resources"].get("CPU", 0))]
        self.cpus = sum(int(node["Resources"]["CPU"]) for node in self.nodes)
        if not self.cpus:
            raise EngineError(
                f"the Ray cluster at {address} has no node with processors; expected at least one: start workers "
                "(`ray start --address=...`)"
            )
        self.slots = min(self.cpus, workers or self.cpus)
        self._remote = _make_remote(ray)
        self._environment = {name: value for name, value in os.environ.items() if name.startswith(("BPEJIT_", "NUMBA_"))}

    def describe(self) -> str:
        """Return a phrase for reports, such as `the Ray cluster at 10.0.0.1:6379 (3 nodes, 12 processors)`."""
        size = f"{len(self.nodes)} node{'s' * (len(self.nodes) > 1)}, {self.cpus} processor{'s' * (self.cpus > 1)}"
        return f"a local Ray ({size})" if self.is_local else f"the Ray cluster at {self.address} ({size})"

    def prepare_nodes(self, stage: str, kernels: Sequence[Callable[[], object]], paths: Sequence[str]) -> None:
        """Check versions and storage on each node, and have it compile what tasks need, once.

        Parameters
        ----------
        stage : str
            Beginning of the names of tasks.
        kernels : sequence of callable
            Functions that call the kernels that tasks need.
        paths : sequence of str
            Files that all nodes must see.

        Raises
        ------
        EngineError
        """
        function = f"{__name__}:prepare_node"
        arguments = (tuple(kernels), list(paths))
        places = [(node["NodeManagerAddress"], node["NodeID"]) for node in self.nodes]
        tasks = [ClusterTask(f"{stage} prepare {address}", function, arguments, number) for address, number in places]
        list(self.run(tasks))

    def run(self, tasks: Sequence[ClusterTask], shared: Any = None) -> Iterator[tuple[int, Any]]:
        """Run tasks, and yield the index and the result of each as it ends.

        Parameters
        ----------
        tasks : sequence of ClusterTask
        shared : object
            The first argument of all functions, sent once to each node.

        Raises
        ------
        BpejitError
            If a task fails, or its workers die again and again. All others are cancelled.
        """
        ray = self._ray
        shared_ref = ray.put(pickle.dumps(shared))
        deaths: Counter[int] = Counter()
        reached: dict[int, object] = {}
        waiting = deque(range(len(tasks)))
        running: dict[Any, int] = {}
        most = max(QUEUED, 4 * self.slots) if self._workers is None else self.slots
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    index = waiting.popleft()
                    running[self._submit(tasks[index], shared_ref)] = index
                ready, _ = ray.wait(list(running), num_returns=1, timeout=WAIT_SECONDS)
                for ref in ready:
                    index = running.pop(ref)
                    task = tasks[index]
                    try:
                        outcome = ray.get(ref)
                    except ray.exceptions.RayTaskError as error:
                        raise EngineError(f"the task `{task.name}` failed: {_last_line(error)}") from error
                    except ray.exceptions.RayError as error:
                        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
                        if task.node is not None and task.node not in alive:
                            continue  # the node has left the cluster: its work goes to others
                        before, reached[index] = reached.get(index), task.progress()
                        deaths[index] = deaths[index] + 1 if reached[index] == before else 1
                        if deaths[index] >= MOST_DEATHS:
                            raise EngineError(
                                f"the workers of the task `{task.name}` died {MOST_DEATHS} times without progress, the last "
                                f"one with: {_last_line(error)}; expected it to finish: look at the memory of the nodes and "
                                "at Ray's logs, and continue with `resume=True`"
                            ) from error
                        waiting.append(index)
                        continue
                    yield index, _unpack(outcome, task)
        finally:
            self._cancel(list(running))

    def _submit(self, task: ClusterTask, shared: Any) -> Any:
        options: dict[str, Any] = {"name": task.name, "num_cpus": 1, "max_retries": 0}
        if task.node is not None:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(task.node, soft=False)
        call = installed_versions(), task.function, shared, pickle.dumps(task.arguments)
        return self._remote.options(**options).remote(self._environment, *call)

    def _cancel(self, refs: list[Any]) -> None:
        if not refs:
            return
        ray = self._ray
        with suppress(Exception):
            for ref in refs:
                ray.cancel(ref)
            _, left = ray.wait(refs, num_returns=len(refs), timeout=CANCEL_SECONDS)
            for ref in left:
                ray.cancel(ref, force=True)


def _unpack(outcome: Any, task: ClusterTask) -> Any:
    """Return the result of a task, or raise its error."""
    kind, node, value = outcome
    if kind == "done":
        return value
    if kind == "versions":
        raise EngineError(
            f"node {node} and this process have different versions: {value}; expected equal ones: install the same versions on "
            "all nodes"
        )
    if isinstance(value, BpejitError):
        where = "" if f"node {node}" in str(value) else f" on node {node}"
        raise type(value)(f"{value} (in the task `{task.name}`{where})") from value
    raise EngineError(f"the task `{task.name}` failed on node {node}: {value}")


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [repr(error)]
    return shorten(f"{type(error).__name__}: {lines[-1]}", 300)[1:-1]


def _make_remote(ray: Any) -> Any:
    """Return the function that all tasks run.

    It is sent to the workers as code, since it is local, so that it runs there even if bpejit is missing.
    """

    def run(environment: Mapping[str, str], versions: Mapping[str, str], *call: Any) -> tuple[str, str, Any]:
        import os
        import socket

        os.environ.update(environment)  # before anything of bpejit is imported
        try:
            from bpejit.engines.ray_cluster import run_task
        except ImportError as error:
            return "versions", socket.gethostname(), f"bpejit {versions['bpejit']} here, and there none ({error})"
        return run_task(versions, *call)

    return ray.remote(run)


def installed_versions() -> dict[str, str]:
    """Return the versions that all nodes must have in common."""
    from bpejit import __version__

    found = {"bpejit": __version__, "Python": ".".join(platform.python_version_tuple()[:2])}
    return found | {package: version(package) for package in ("numba", "numpy")}


def run_task(versions: Mapping[str, str], function: str, shared: bytes, arguments: bytes) -> tuple[str, str, Any]:
    """Run a task; return what became of it, the name of the node, and the result or the error.

    Parameters
    ----------
    versions : dict
        Those of the driver.
    function : str
        Location of the function.
    shared, arguments : bytes
        Pickled.
    """
    mine, node = installed_versions(), socket.gethostname()
    wrong = [f"{name} {found} here, and {mine.get(name)} there" for name, found in versions.items() if mine.get(name) != found]
    if wrong:
        return "versions", node, ", ".join(wrong)
    try:
        module, _, name = function.partition(":")
        run = getattr(importlib.import_module(module), name)
        return "done", "", run(pickle.loads(shared), *pickle.loads(arguments))  # by the driver
    except BpejitError as error:
        return "failed", node, error
    except Exception as error:
        return "failed", node, f"{shorten(error, 300)}: {traceback.format_exc(limit=-4)}"


def prepare_node(shared: None, kernels: Sequence[Callable[[], object]], paths: Sequence[str]) -> None:  # noqa: ARG001
    """Check that this node sees files, and compile what tasks need."""
    for path in paths:
        if not os.path.exists(path):  # noqa: PTH110
            raise EngineError(
                f"node {socket.gethostname()} cannot see `{path}`, which the driver sees; expected storage that all nodes "
                "share: mount it there under the same path, or use a URL such as s3://"
            )
    for call_kernels in kernels:
        call_kernels()


@contextmanager
def connected(address: str | None, *, workers: int | None = None) -> Iterator[RayCluster]:
    """Connect to a cluster for the duration of the context.

    Parameters
    ----------
    address : str, optional
        `host:port` of the head node, `ray://host:port` of a Ray client server, or `local` for a new Ray on this machine. The
        default is that of a program that is connected already, the variable `RAY_ADDRESS`, a cluster that runs on this machine,
        or a new local Ray, in this order.
    workers : int, optional
        Most tasks that run at the same time; for a local Ray, its number of processors.

    Raises
    ------
    EngineError
        If Ray is not installed, the address does not answer within `CONNECT_SECONDS`, or the cluster has other versions.
    """
    ray = import_extra("ray", "engine='ray'", extra="ray", error=EngineError)
    if ray.is_initialized():
        address = ray.get_runtime_context().gcs_address
        yield RayCluster(ray, address, is_local=False, workers=workers)
        return
    found = find_address(address)
    temporary = None
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "namespace": "bpejit"}
    try:
        with _own_signals():
            if found is not None:
                try:
                    ray.init(address=found, **quiet)
                except (ray.exceptions.RayError, RuntimeError, ConnectionError, ValueError, OSError) as cause:
                    raise _unreachable(found, " ".join(str(cause).split())) from cause
            else:
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
                # Not the folder that all programs share: it is removed, and no other program finds this Ray. The paths of
                # sockets below it may have some 100 bytes only.
                parent = tempfile.gettempdir()
                temporary = tempfile.mkdtemp(prefix="bpejit-ray-", dir=parent if len(parent) < 24 else "/tmp")
                ray.init(
                    address="local",
                    num_cpus=workers or count_cpus(),
                    include_dashboard=False,
                    object_store_memory=LOCAL_OBJECT_BYTES,
                    _temp_dir=temporary,
                    **quiet,
                )
        silence(ray)
        yield RayCluster(ray, found or "this machine", is_local=found is None, workers=workers)
    finally:
        with suppress(Exception):
            ray.shutdown()
        silence(ray, prints=True)
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def silence(ray: Any, *, prints: bool = False) -> None:
    """Have Ray print nothing about workers and nodes that die to standard output, which may be a report, or print again."""
    with suppress(AttributeError):  # no public function does this
        ray._private.worker._worker_logs_enabled = prints


def find_address(address: str | None) -> str | None:
    """Return the address of the cluster to use; None to start a local one.

    Raises
    ------
    EngineError
        If a cluster that was named does not answer.
    """
    if address == "local":
        return None
    named = address if address not in (None, "auto") else os.environ.get("RAY_ADDRESS")
    if named:
        problem = _probe(named)
        if problem is not None:
            raise _unreachable(named, problem)
        return named
    folder = os.environ.get("RAY_TMPDIR") or "/tmp"
    with suppress(OSError), open(os.path.join(folder, "ray", "ray_current_cluster"), encoding="ascii") as file:  # noqa: PTH118, PTH123
        running = file.read().strip()
        if running and _probe(running) is None:
            return running
    if address == "auto":
        raise _unreachable("auto", "no cluster runs on this machine")
    return None


def _probe(address: str) -> str | None:
    """Return why nothing answers at an address, or None."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        return "it is not of the form host:port"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS) as connection:
            connection.sendall(HTTP2_PREFACE)
            answer = connection.makefile("rb").read(4)
    except (OSError, OverflowError) as error:
        return str(getattr(error, "strerror", None) or error)
    # Ray tries for two minutes to talk to a server that is not its own.
    return None if len(answer) == 4 and answer[3] == SETTINGS_FRAME else "the server at this port is not Ray's"


def _unreachable(address: str, problem: str) -> EngineError:
    return EngineError(
        f"no Ray cluster answers at {shorten(address)[1:-1]}: {problem}; expected the address of a head node, such as "
        "10.0.0.1:6379: check it, the network (`ray status`), and the token if the cluster requires one (RAY_AUTH_MODE=token, "
        "and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH), or start a cluster with `ray start --head`"
    )


@contextmanager
def _own_signals() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def describe_cluster(address: str | None, workers: int | None) -> tuple[int, str]:
    """Return how many tasks a cluster runs at the same time, and a phrase for reports. A local one is not started.

    Parameters
    ----------
    address, workers
        As for `connected`.

    Raises
    ------
    EngineError
    """
    ray = import_extra("ray", "engine='ray'", extra="ray", error=EngineError)
    if not ray.is_initialized() and find_address(address) is None:
        return workers or count_cpus(), "a local Ray, not started yet"
    with connected(address, workers=workers) as cluster:
        return cluster.slots, cluster.describe()
