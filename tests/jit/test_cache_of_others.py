"""Tests of the cache on a machine with several users: code that another user may have written is never executed.

The tests act as other users, which only root can do.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.cli import ENVIRONMENT

from bpejit.jit import cache, dispatch, fingerprint, folders, upkeep

ROOT, ALICE, MALLORY, NOBODY = 0, 1_001, 1_002, 65_534

CODE = cache.Code(b"machine code", "int")


@dispatch.inline
def first(number):
    """Do nothing; this kernel is never compiled."""
    return number


pytestmark = [
    pytest.mark.skipif(not dispatch.JIT_ENABLED or dispatch.BY_NUMBA, reason="about kernels that bpejit compiles itself"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can act as other users"),
]


@contextmanager
def acting_as(user: int) -> Iterator[None]:
    """Run the block as a new process of another user."""
    before = cache._state
    groups = os.getgroups()
    cache._state = cache._State()
    os.setgroups([])
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
        cache._state = before


@pytest.fixture
def shared_folder(monkeypatch):
    """Return a folder like `/tmp`: writable by every user, with the sticky bit."""
    monkeypatch.setenv("BPEJIT_CACHE", "1")
    monkeypatch.delenv("BPEJIT_CACHE_DIR", raising=False)
    for module in ("grp", "pwd"):  # other users may lack access to the files that it is computed from
        importlib.import_module(module)
    fingerprint.of_machine()
    folders._nobody()
    shared_folder = Path(tempfile.mkdtemp())  # other users cannot access the folder of pytest
    shared_folder.chmod(0o1777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(shared_folder))
    try:
        folders.resolve(shared_folder / "test")
    except folders.FolderError as error:
        pytest.skip(f"the folder for temporary files is not safe: {error}")
    yield shared_folder
    shutil.rmtree(shared_folder)


def find(user: int) -> cache.Code | None:
    """Return the code that a process of a user would execute."""
    with acting_as(user):
        return cache.load(first, "types")


def save(user: int) -> Path:
    with acting_as(user):
        cache.save(first, "types", CODE)
    return next(Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.o"))


@pytest.mark.parametrize("victim", [ALICE, ROOT])
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o777, 0o1777])
def test_files_of_another_user_are_not_executed(victim, mode, shared_folder):
    file = save(MALLORY)
    for folder in (file.parent, file.parent.parent):
        folder.chmod(mode)
    file.chmod(0o644)
    assert find(MALLORY) == (CODE if mode < 0o777 else None)
    assert find(victim) is None
    with acting_as(victim):
        with pytest.warns(cache.CacheWarning, match=f"`{shared_folder}/bpejit` belongs to user {MALLORY}; expected .*root"):
            cache.save(first, "types", CODE)
        assert not cache.lacks_mark()
        with pytest.raises(folders.FolderError, match="belongs to"):
            cache.make_numba_folder()


def test_planted_file_in_own_folder(shared_folder):
    file = save(ALICE)
    assert find(ALICE) == CODE
    os.chown(file, MALLORY, MALLORY)  # as if the folder had been writable for a while
    file.chmod(0o644)
    assert find(ALICE) is None
    save(ALICE)
    assert find(ALICE) == CODE
    assert file.stat().st_uid == ALICE


def test_planted_folder_in_own_folder(shared_folder):
    file = save(ALICE)
    os.chown(file.parent, MALLORY, MALLORY)
    file.parent.chmod(0o755)
    assert find(ALICE) is None


def test_cache_of_root_is_read_by_all_users(shared_folder):
    file = save(ROOT)
    assert find(ALICE) is None  # it is private
    for path in (file, file.parent, file.parent.parent):
        path.chmod(0o755)
    assert find(ALICE) == CODE
    with acting_as(ALICE), pytest.warns(cache.CacheWarning, match="Permission denied"):
        cache.save(first, "others", CODE)
    with acting_as(ALICE):
        assert "is not writable" in cache.find_problem()


def test_link_of_another_user_is_not_followed(shared_folder):
    own = shared_folder / "own"
    with acting_as(ALICE):
        own.mkdir(mode=0o700)
    with acting_as(MALLORY):
        (shared_folder / "bpejit").symlink_to(own)
    with acting_as(ALICE), pytest.warns(cache.CacheWarning, match=f"`{shared_folder}/bpejit` belongs to user {MALLORY}"):
        cache.save(first, "types", CODE)
    assert not list(own.iterdir())
    with acting_as(MALLORY):
        (shared_folder / "bpejit").unlink()
    with acting_as(ALICE):
        (shared_folder / "bpejit").symlink_to(own)
        cache.save(first, "types", CODE)
    assert find(ALICE) == CODE


def test_users_of_shared_folder_are_isolated(shared_folder, monkeypatch):
    with acting_as(ALICE):
        cache.save(first, "types", CODE)
    with acting_as(MALLORY), pytest.warns(cache.CacheWarning, match=f"belongs to user {ALICE}"):
        cache.save(first, "types", CODE._replace(machine_code=b"evil"))
    assert find(ALICE) == CODE


def test_clear_preserves_caches_of_other_users(shared_folder):
    file = save(ALICE)
    with acting_as(MALLORY), pytest.raises(folders.FolderError):
        folders.resolve(folders.find_cache_folder().path)
    with acting_as(ALICE):
        assert upkeep.clear(folders.resolve(folders.find_cache_folder().path))[0] == 1
    assert not file.exists()


def test_root_may_appear_as_nobody_in_container(shared_folder, monkeypatch):
    above, own = shared_folder / "above", shared_folder / "above" / "own"
    own.mkdir(parents=True)
    own.chmod(0o700)
    os.chown(above, NOBODY, NOBODY)
    os.chown(own, ALICE, ALICE)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(own))

    def find_as(nobody: int | None) -> object:
        monkeypatch.setattr(folders, "_nobody", lambda: nobody)
        return find(ALICE)

    monkeypatch.setattr(folders, "_nobody", lambda: NOBODY)
    file = save(ALICE)
    assert find_as(NOBODY) == CODE
    assert find_as(None) is None
    above.chmod(0o775)
    assert find_as(NOBODY) is None
    above.chmod(0o755)
    for path in (own / "bpejit", file.parent, file):
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o755)
        assert find_as(NOBODY) is None
        os.chown(path, ALICE, ALICE)
    assert find_as(NOBODY) == CODE


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ("         0          0 4294967295\n", True),  # not in a container
        ("      1001       1001          1\n", False),
        ("0 1001 1\n1 100000 65536\n", True),
        ("0 1001 1\n1 100000 65533\n", False),
    ],
)
def test_unmapped_users_in_container(known, expected):
    assert folders._is_mapped(NOBODY, known) == expected


PROCESS = """
import sys
import numpy as np
from bpejit.jit import dispatch
from bpejit.kernels.encoding import span_encoding as encoding
compiled = []
dispatch.on_compile(lambda event, seconds: compiled.append(event))
hashes = np.zeros(1, np.uint64)
encoding.hash_strings(np.full(24, 97, np.uint8), np.array([0, 3], np.int64), hashes)
print(len(compiled) // 2, hashes[0])
"""


@pytest.mark.slow
@pytest.mark.compiled
def test_root_does_not_run_planted_code(shared_folder):
    """Code with a valid checksum that another user has stored for a real kernel."""

    def run() -> tuple[int, int, str]:
        done = subprocess.run(
            [sys.executable, "-c", PROCESS],
            env={**ENVIRONMENT, "BPEJIT_CACHE_DIR": str(shared_folder / "bpejit"), "BPEJIT_CACHE": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        compiled, value = map(int, done.stdout.split())
        return compiled, value, done.stderr

    compiled, value, stderr = run()
    assert (compiled, stderr) == (1, "")
    assert run() == (0, value, "")
    for path in (shared_folder / "bpejit", *(shared_folder / "bpejit").rglob("*")):
        os.chown(path, MALLORY, MALLORY)
    compiled, same, stderr = run()
    assert (compiled, same) == (1, value)
    assert stderr.count("compiled kernels cannot be stored") == 1
    assert f"belongs to user {MALLORY}; expected root" in stderr
