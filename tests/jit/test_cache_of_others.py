"""The cache on a machine with several users: what another user may have written is never executed.

The tests take on the identities of other users, which only root can do.
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
from cli_helpers import ENVIRONMENT

from bpejit.jit import cache, dispatch, fingerprint, folders, upkeep

ROOT, ALICE, MALLORY, NOBODY = 0, 1_001, 1_002, 65_534

CODE = cache.Code(b"machine code", "int")


@dispatch.inline
def first(number):
    """A kernel that is never compiled."""
    return number


pytestmark = [
    pytest.mark.skipif(not dispatch.JIT_ENABLED or dispatch.BY_NUMBA, reason="about kernels that bpejit compiles itself"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can act as other users"),
]


@contextmanager
def acting_as(user: int) -> Iterator[None]:
    """Run the block as a new process of another user would."""
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
def place(monkeypatch):
    """A folder such as `/tmp`: every user may write to it, and it has the sticky bit."""
    monkeypatch.setenv("BPEJIT_CACHE", "1")
    monkeypatch.delenv("BPEJIT_CACHE_DIR", raising=False)
    for module in ("grp", "pwd"):  # other users may have no access to what is read for it
        importlib.import_module(module)
    fingerprint.of_machine()
    folders._nobody()
    place = Path(tempfile.mkdtemp())  # that of pytest is closed to others
    place.chmod(0o1777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(place))
    try:
        folders.resolve(place / "test")
    except folders.FolderError as error:
        pytest.skip(f"the folder for temporary files is not safe: {error}")
    yield place
    shutil.rmtree(place)


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
def test_files_of_another_user_are_not_executed(victim, mode, place):
    file = save(MALLORY)
    for folder in (file.parent, file.parent.parent):
        folder.chmod(mode)
    file.chmod(0o644)
    assert find(MALLORY) == (CODE if mode < 0o777 else None)
    assert find(victim) is None
    with acting_as(victim):
        with pytest.warns(cache.CacheWarning, match=f"`{place}/bpejit` belongs to user {MALLORY}, expected .*root"):
            cache.save(first, "types", CODE)
        assert not cache.is_empty()
        with pytest.raises(folders.FolderError, match="belongs to"):
            cache.make_numba_folder()


def test_a_file_that_another_user_put_into_a_folder_of_ours(place):
    file = save(ALICE)
    assert find(ALICE) == CODE
    os.chown(file, MALLORY, MALLORY)  # as if the folder had been open for a while
    file.chmod(0o644)
    assert find(ALICE) is None
    save(ALICE)
    assert find(ALICE) == CODE
    assert file.stat().st_uid == ALICE


def test_a_folder_that_another_user_put_into_a_folder_of_ours(place):
    file = save(ALICE)
    os.chown(file.parent, MALLORY, MALLORY)
    file.parent.chmod(0o755)
    assert find(ALICE) is None


def test_root_s_cache_is_read_by_all(place):
    file = save(ROOT)
    assert find(ALICE) is None  # it is private
    for path in (file, file.parent, file.parent.parent):
        path.chmod(0o755)
    assert find(ALICE) == CODE
    with acting_as(ALICE), pytest.warns(cache.CacheWarning, match="Permission denied"):
        cache.save(first, "others", CODE)
    with acting_as(ALICE):
        assert "cannot be written to" in cache.find_problem()


def test_a_link_of_another_user_is_not_followed(place):
    own = place / "own"
    with acting_as(ALICE):
        own.mkdir(mode=0o700)
    with acting_as(MALLORY):
        (place / "bpejit").symlink_to(own)
    with acting_as(ALICE), pytest.warns(cache.CacheWarning, match=f"`{place}/bpejit` belongs to user {MALLORY}"):
        cache.save(first, "types", CODE)
    assert not list(own.iterdir())
    with acting_as(MALLORY):
        (place / "bpejit").unlink()
    with acting_as(ALICE):
        (place / "bpejit").symlink_to(own)
        cache.save(first, "types", CODE)
    assert find(ALICE) == CODE


def test_each_user_of_a_shared_place_is_on_his_own(place, monkeypatch):
    with acting_as(ALICE):
        cache.save(first, "types", CODE)
    with acting_as(MALLORY), pytest.warns(cache.CacheWarning, match=f"belongs to user {ALICE}"):
        cache.save(first, "types", CODE._replace(machine_code=b"evil"))
    assert find(ALICE) == CODE


def test_nobody_clears_the_cache_of_another(place):
    file = save(ALICE)
    with acting_as(MALLORY), pytest.raises(folders.FolderError):
        folders.resolve(folders.find_place().path)
    with acting_as(ALICE):
        assert upkeep.clear(folders.resolve(folders.find_place().path))[0] == 1
    assert not file.exists()


def test_in_a_container_nobody_may_be_root(place, monkeypatch):
    above, own = place / "above", place / "above" / "own"
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
def test_who_is_known_in_a_container(known, expected):
    assert folders._is_known(NOBODY, known) == expected


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


@pytest.mark.compiled
def test_planted_code_is_not_run_by_root(place):
    """Code with a valid checksum that another user has stored for a real kernel."""

    def run() -> tuple[int, int, str]:
        done = subprocess.run(
            [sys.executable, "-c", PROCESS],
            env={**ENVIRONMENT, "NUMBA_CACHE_DIR": str(place), "BPEJIT_CACHE": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        compiled, value = map(int, done.stdout.split())
        return compiled, value, done.stderr

    compiled, value, said = run()
    assert (compiled, said) == (1, "")
    assert run() == (0, value, "")
    for path in (place / "bpejit", *(place / "bpejit").rglob("*")):
        os.chown(path, MALLORY, MALLORY)
    compiled, same, said = run()
    assert (compiled, same) == (1, value)
    assert said.count("compiled kernels cannot be stored") == 1
    assert f"belongs to user {MALLORY}, expected root" in said
