"""Shared fixtures and helpers: sizes for each kind of run, texts, and the settings of hypothesis.

Test files import the helpers by name (`from conftest import JIT, data_text, read_shared, small`).

Environment:

- `NUMBA_DISABLE_JIT=1` runs the kernels as plain Python: tests marked `compiled` are skipped, `small` picks its second size;
- `BPEJIT_PARITY=1` selects the tests marked `parity`, and larger texts in some others;
- `BPEJIT_EXAMPLES` is the usual number of hypothesis examples per test, which `make thorough` raises;
- `BPEJIT_SHARED_DATA` is a folder of larger corpora and published vocabularies, by default `../shared/data` beside the
  checkout. It is optional: the tests that need it are skipped if it is absent, or if the variable is empty.
"""

from __future__ import annotations

import gc
import gzip
import os
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from helpers.skips import NEEDS_DATA, summarize_skips
from hypothesis import HealthCheck, settings

from bpejit.jit.dispatch import JIT_ENABLED as JIT

if TYPE_CHECKING:
    from helpers.cluster import LocalCluster

Size = TypeVar("Size")

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""

DATA = ROOT / "tests" / "data"
"""The folder of texts in the repository."""

PARITY = os.environ.get("BPEJIT_PARITY") == "1"
"""Whether to run the long comparisons with other tools."""

FLUSH = os.fsync
"""The function that waits for the disk, which tests do without: see `_without_waiting_for_the_disk`."""

settings.register_profile(
    "bpejit",
    max_examples=int(os.environ.get("BPEJIT_EXAMPLES", "50" if JIT else "20")),
    deadline=None,  # the first example of a test may compile kernels
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("bpejit")


def small(jit: Size, nojit: Size) -> Size:
    """Return the first size for compiled kernels, the second for plain Python, which is some 200 times slower."""
    return jit if JIT else nojit


def examples(share: float) -> settings:
    """Multiply the number of hypothesis examples, for tests whose examples take less or more time than usual."""
    return settings(max_examples=max(1, round(settings().max_examples * share)))


@lru_cache(maxsize=8)
def data_text(name: str) -> bytes:
    """Return the bytes of a file of tests/data, such as "prose.txt"."""
    return (DATA / name).read_bytes()


@pytest.fixture(scope="session", autouse=True)
def _without_waiting_for_the_disk() -> Iterator[None]:
    """Leave out the wait of `os.fsync`, since files of a killed process, unlike those of a failed machine, are complete.

    The tests and the processes that they fork flush tens of thousands of times, which takes up to several milliseconds
    each. Processes that they start, such as those of commands, do flush.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which fails as well if the file is closed
        yield


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A Ray cluster of up to three nodes, which all tests of a process share, since it takes seconds to start."""
    pytest.importorskip("ray", reason="ray is not installed")
    from helpers.cluster import connected_cluster

    with connected_cluster() as cluster:
        yield cluster


def _shared_folder() -> Path:
    named = os.environ.get("BPEJIT_SHARED_DATA")
    if named == "":
        pytest.skip(f"{NEEDS_DATA}, which are switched off")
    if named:
        folder = Path(named)
        if not folder.is_dir():
            pytest.fail(
                f"BPEJIT_SHARED_DATA names {folder}, which is not a folder: correct it, or unset it to skip these tests"
            )
        return folder
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"{NEEDS_DATA}, which are absent here")
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the optional folder of larger corpora and published vocabularies; skip the test if it is absent."""
    return _shared_folder()


@lru_cache(maxsize=4)
def _unpack(path: Path) -> bytes:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return file.read()


def read_shared(name: str) -> bytes:
    """Return the bytes of an unpacked file of the optional folder, such as "corpora/english.txt"; skip the test if absent."""
    folder = _shared_folder()
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return _unpack(path)
    pytest.skip(f"{NEEDS_DATA}: there is no {name} in {folder}")


def _needs_service(item: pytest.Item) -> bool:
    return not {"cluster", "bucket", "browser"}.isdisjoint(getattr(item, "fixturenames", ()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long comparisons, and skip the tests that need compiled kernels if these are disabled."""
    if not PARITY:
        left_out = [item for item in items if item.get_closest_marker("parity")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("parity")]
    for item in items:
        if _needs_service(item):
            item.add_marker("services")
    # The servers and clusters of these tests leave threads, and a process with threads does not fork workers but spawns
    # them: each takes a second of processor time instead of a hundredth. So they come after all other tests.
    items.sort(key=_needs_service)
    if JIT:
        return
    for item in items:
        if item.get_closest_marker("compiled"):
            item.add_marker(pytest.mark.skip(reason="needs compiled kernels, and NUMBA_DISABLE_JIT is set"))


def pytest_collection_finish() -> None:
    """Look for garbage among all objects rarely: modules and tests are many, and stay."""
    gc.set_threshold(100_000, 50, 100)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Summarize the skipped tests and the causes; `-rs` lists each test."""
    reasons = [
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, (tuple, list))
    ]
    if reasons:
        terminalreporter.section("skipped")
    for line in summarize_skips(reasons):
        terminalreporter.write_line(line)


def tracked_files() -> list[Path]:
    """Return the files of the project: those that git tracks, and new ones that it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout: nothing says which files belong to the project")
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]
