"""What Ray's workers run: the functions of tasks, after a check of versions, and the preparation of a node."""

from __future__ import annotations

import functools
import importlib
import os
import pickle
import platform
import socket
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any

from bpejit.errors import BpejitError, EngineError, shorten
from bpejit.jit import listening
from bpejit.storage.temporary import lock

NOTE_SECONDS = 0.25
"""Time between two reports of a task."""

Note = tuple[int, dict[str, int]]
"""The amount that a task has done, and its further counts."""

_shared: dict[str, Any] = {}

_warm: set[Callable[[], object]] = set()


@functools.cache
def installed_versions() -> dict[str, str]:
    """Return the versions that all nodes must have in common."""
    from bpejit import __version__

    found = {"bpejit": __version__, "Python": ".".join(platform.python_version_tuple()[:2])}
    return found | {package: version(package) for package in ("numba", "numpy")}


def node_name() -> str:
    """Return host name and address of this node."""
    with suppress(Exception):
        ray: Any = importlib.import_module("ray")
        return f"{socket.gethostname()} ({ray.util.get_node_ip_address()})"
    return socket.gethostname()


class TaskReport:
    """The progress of a task, sent to the driver.

    Parameters
    ----------
    tally : actor, optional
    index : int
        The index of the task.

    Attributes
    ----------
    last : Note
    """

    def __init__(self, tally: Any, index: int) -> None:
        self._tally = tally
        self._index = index
        self.last: Note = 0, {}
        self._next = 0.0

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:  # noqa: ARG002
        """Report an amount, not more often than the driver looks."""
        self.last = done, self.last[1]
        now = time.monotonic()
        if self._tally is not None and now >= self._next:
            self._next = now + NOTE_SECONDS
            self._tally.note.remote(self._index, *self.last)

    def details(self, **counted: int) -> None:
        """Report further counts with the next amount."""
        self.last = self.last[0], counted


class TaskTally:
    """The progress of all tasks, which an actor on the node of the driver collects. It is shown only, so errors do no harm.

    Attributes
    ----------
    actor : actor
    noted : dict of int to Note
        The last note of each task.
    """

    def __init__(self, ray: Any) -> None:
        class Notes:
            def __init__(self) -> None:
                self.notes: dict[int, Note] = {}

            def note(self, index: int, done: int, counted: dict[str, int]) -> None:
                self.notes[index] = done, counted

            def read(self) -> dict[int, Note]:
                notes, self.notes = self.notes, {}
                return notes

        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self.actor = ray.remote(Notes).options(num_cpus=0, scheduling_strategy=here, max_restarts=-1).remote()
        self.noted: dict[int, Note] = {}
        self._ray = ray
        self._asked: Any = None

    def sums(self) -> Note:
        """Return the amount that tasks have done, and the sums of their further counts."""
        counted: Counter[str] = Counter()
        for _, counts in self.noted.values():
            counted.update(counts)
        return sum(done for done, _ in self.noted.values()), counted

    def read(self) -> None:
        """Add the notes that have arrived, and ask for more."""
        with suppress(self._ray.exceptions.RayError):
            asked, self._asked = self._asked, None
            if asked is not None:
                ready, _ = self._ray.wait([asked], timeout=0)
                if not ready:
                    self._asked = asked
                    return
                for index, note in self._ray.get(asked).items():
                    if note[0] >= self.noted.get(index, note)[0]:  # not an older one, or one of an earlier attempt
                        self.noted[index] = note
            self._asked = self.actor.read.remote()

    def close(self) -> None:
        """End the actor."""
        with suppress(Exception):
            self.actor.__ray_terminate__.remote()  # an actor that is killed is shown as failed


def run_task(
    shared: bytes, versions: Mapping[str, str], function: str, key: str, arguments: bytes, index: int, tally: Any
) -> tuple[str, str, Any]:
    """Run a task; return what became of it, the name of the node, and the result with the last report, or the error.

    Parameters
    ----------
    shared, arguments : bytes
        Pickled.
    versions : dict
        Those of the driver.
    function : str
        Location of the function.
    key : str
        Identifies `shared`.
    index : int
    tally : actor, optional
    """
    mine = installed_versions()
    wrong = [name for name, found in versions.items() if mine.get(name) != found]
    if wrong:
        return "versions", node_name(), ", ".join(f"{name} {versions[name]} here, and {mine.get(name)} there" for name in wrong)
    try:
        module, _, name = function.partition(":")
        run = getattr(importlib.import_module(module), name)
        if key not in _shared:
            _shared.clear()
            _shared[key] = pickle.loads(shared)  # by the driver
        report = TaskReport(tally, index)
        result = run(_shared[key], *pickle.loads(arguments), report=report)
        return "done", "", (result, report.last)
    except BpejitError as error:
        return "failed", node_name(), error
    except Exception as error:
        return "failed", node_name(), f"{shorten(error, 300)}: {traceback.format_exc(limit=-4)}"


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Hold a lock of this node's kernel cache, if there is one."""
    from bpejit.jit import cache, folders

    descriptor = None
    if cache.find_problem() is None:
        with suppress(OSError, folders.FolderError):
            folder = folders.resolve(folders.find_cache_folder().path, create=True)
            assert folder is not None
            descriptor = os.open(folder, os.O_RDONLY)  # the folder itself: a lock file would stay
            lock(descriptor)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def warm_up(call_kernels: Callable[[], object]) -> int:
    """Compile kernels by a function that calls them, unless this node has them; return how many were compiled now.

    Workers of a node wait for each other, so each kernel is compiled once, also on a node that joins later.
    """
    from bpejit.jit.dispatch import JIT_ENABLED

    if not JIT_ENABLED or call_kernels in _warm:
        return 0
    _warm.add(call_kernels)
    with _one_at_a_time(), listening.counting_compilations() as compiled:
        call_kernels()
    return compiled()


def prepare_node(
    shared: Any,  # noqa: ARG001
    kernels: Sequence[Callable[[], object]],
    paths: Sequence[str],
    *,
    report: TaskReport,  # noqa: ARG001
) -> tuple[int, float]:
    """Check that this node sees files, and compile what tasks need; return the number of kernels and the seconds."""
    before = listening.compiling_time()
    for path in paths:
        if not os.path.exists(path):  # noqa: PTH110
            raise EngineError(
                f"node {node_name()} cannot see `{path}`, which the driver sees; expected storage that all nodes share: mount "
                "it there under the same path, or use a URL such as s3://"
            )
    return sum(map(warm_up, kernels)), listening.compiling_time() - before
