"""What Ray's workers run: the functions of tasks, after a check of versions, and the preparation of a node."""

from __future__ import annotations

import functools
import importlib
import os
import pickle
import platform
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from bpejit.errors import BpejitError, EngineError, shorten
from bpejit.jit import listening


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
    mine = installed_versions()
    wrong = [name for name, found in versions.items() if mine.get(name) != found]
    if wrong:
        return "versions", node_name(), ", ".join(f"{name} {versions[name]} here, and {mine.get(name)} there" for name in wrong)
    try:
        module, _, name = function.partition(":")
        run = getattr(importlib.import_module(module), name)
        return "done", "", run(pickle.loads(shared), *pickle.loads(arguments))  # by the driver
    except BpejitError as error:
        return "failed", node_name(), error
    except Exception as error:
        return "failed", node_name(), f"{shorten(error, 300)}: {traceback.format_exc(limit=-4)}"


def prepare_node(shared: None, kernels: Sequence[Callable[[], object]], paths: Sequence[str]) -> float:  # noqa: ARG001
    """Check that this node sees files, and compile what tasks need; return the seconds."""
    for path in paths:
        if not os.path.exists(path):  # noqa: PTH110
            raise EngineError(
                f"node {node_name()} cannot see `{path}`, which the driver sees; expected storage that all nodes share: mount "
                "it there under the same path, or use a URL such as s3://"
            )
    before = listening.compiling_time()
    for call_kernels in kernels:
        call_kernels()
    return listening.compiling_time() - before
