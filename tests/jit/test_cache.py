"""The cache on disk: what is damaged, foreign or old is never used, and whatever goes wrong, nothing is left or lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from cli_helpers import ENVIRONMENT

from bpejit.errors import OptionError
from bpejit.jit import cache, dispatch, fingerprint, folders, upkeep

CODE = cache.Code(b"\x00\n\xff" * 100, ("uint", "bool"))


@dispatch.inline
def first(number):
    """A kernel that is never compiled."""
    return number


@dispatch.inline
def second(number):
    """Another one."""
    return number + 1


pytestmark = pytest.mark.skipif(
    not dispatch.JIT_ENABLED or dispatch.BY_NUMBA, reason="about kernels that bpejit compiles itself"
)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """The folder of the cache, which does not exist yet; as in a new process."""
    monkeypatch.setenv("BPEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("BPEJIT_CACHE", "1")
    monkeypatch.setattr(cache, "_state", cache._State())
    return tmp_path / "cache"


def store_both(root: Path) -> tuple[Path, Path]:
    """Store code for two kernels; return the files."""
    cache.save(first, "types", CODE)
    (one,) = root.rglob("*.o")
    cache.save(second, "types", CODE._replace(machine_code=b"other"))
    (other,) = set(root.rglob("*.o")) - {one}
    return one, other


def test_what_is_stored_is_found_again(root):
    assert cache.load(first, "types") is None
    assert not root.exists()  # reading makes no folders
    assert cache.is_empty()
    cache.save(first, "types", CODE)
    assert cache.load(first, "types") == CODE
    assert cache.load(first, "others") is None
    assert cache.load(second, "types") is None
    assert not cache.is_empty()
    assert cache.find_problem() is None
    cache.save(first, "types", cache.Code(b"x", "none"))
    assert cache.load(first, "types") == cache.Code(b"x", "none")
    assert [path.suffix for path in root.rglob("*") if path.is_file()] == [".o"]


def test_the_switch(monkeypatch):
    cache.save(first, "types", CODE)
    monkeypatch.setenv("BPEJIT_CACHE", "0")
    assert cache.load(first, "types") is None
    assert not cache.is_empty()
    assert cache.find_problem() == "BPEJIT_CACHE=0 turns the cache off"
    with pytest.raises(folders.FolderError, match="BPEJIT_CACHE=0"):
        cache.make_numba_folder()
    monkeypatch.setenv("BPEJIT_CACHE", "2")
    with pytest.raises(OptionError, match="BPEJIT_CACHE is '2', expected 0 or 1"):
        cache.load(first, "types")


def test_swapped_files_are_not_used(root):
    one, other = store_both(root)
    one_data, other_data = one.read_bytes(), other.read_bytes()
    one.write_bytes(other_data)
    other.write_bytes(one_data)
    assert cache.load(first, "types") is None
    assert cache.load(second, "types") is None
    one.write_bytes(one_data)
    assert cache.load(first, "types") == CODE


def test_a_file_from_the_folder_of_another_version_is_not_used(root, monkeypatch):
    one, _ = store_both(root)
    monkeypatch.setattr(fingerprint, "of_machine", lambda: "0" * 24)
    (root / f"kernels-{'0' * 24}").mkdir()
    (root / f"kernels-{'0' * 24}" / one.name).write_bytes(one.read_bytes())
    assert cache.load(first, "types") is None


def test_damaged_files_are_not_used(root):
    one, _ = store_both(root)
    whole = one.read_bytes()
    damaged = [b"", whole[:10], whole[:-1], whole + b"\0", bytes(len(whole)), whole[::-1]]
    damaged += [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in range(0, len(whole), 7)]
    for data in damaged:
        one.write_bytes(data)
        assert cache.load(first, "types") is None
    one.unlink()
    one.mkdir()
    assert cache.load(first, "types") is None
    one.rmdir()
    os.mkfifo(one)  # opening it to read would wait for a writer
    assert cache.load(first, "types") is None
    one.unlink()
    one.write_bytes(whole)
    assert cache.load(first, "types") == CODE


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b'"int"\n',
        b"int\ncode",
        b"{}\ncode",
        b"[1]\ncode",
        b'"float"\ncode',
        b'["int", null]\ncode',
        b"[" * 99_999 + b"\nx",
    ],
)
def test_a_header_that_cannot_be_parsed(content):
    assert cache.Code.from_bytes(content) is None
    assert cache.unpack("key", cache.pack("key", content)) == content
    assert cache.unpack("other key", cache.pack("key", content)) is None


def test_folders_and_files_are_private_whatever_the_umask(root, monkeypatch):
    monkeypatch.setenv("BPEJIT_CACHE_DIR", str(root / "a" / "b"))
    before = os.umask(0)
    try:
        cache.save(first, "types", CODE)
        cache.write("pattern", b"tables")
        cache.make_numba_folder()
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o7777 for path in (root, *root.rglob("*"))}
    assert len(modes) == 3 + 3 + 2
    assert all(mode == (0o700 if path.is_dir() else 0o600) for path, mode in modes.items())


def test_planted_links_are_not_followed(root, tmp_path, monkeypatch):
    one, _ = store_both(root)
    precious = tmp_path / "precious"
    precious.write_bytes(one.read_bytes())
    one.unlink()
    one.symlink_to(precious)
    assert cache.load(first, "types") is None
    cache.save(first, "types", cache.Code(b"new", "int"))  # the link is replaced
    assert not one.is_symlink()
    assert cache.load(first, "types") == cache.Code(b"new", "int")
    before = precious.read_bytes()
    monkeypatch.setattr(os, "urandom", lambda size: bytes(size))  # if somebody guesses the temporary name
    (one.parent / f".{'00' * 8}.tmp").symlink_to(precious)
    with pytest.warns(cache.CacheWarning, match="File exists"):
        cache.save(first, "types", CODE)
    assert precious.read_bytes() == before


@pytest.mark.parametrize("mode", [0o777, 0o707, 0o1777])
@pytest.mark.parametrize("which", ["folder", "root"])
def test_a_folder_that_others_can_write_to_is_not_used(which, mode, root):
    one, _ = store_both(root)
    folder = one.parent if which == "folder" else root
    folder.chmod(mode)
    cache._state.checked.clear()
    assert cache.load(first, "types") is None
    with pytest.warns(
        cache.CacheWarning, match=rf"`{folder}` can be written to by every user \(mode {mode:04o}\).*BPEJIT_CACHE_DIR"
    ):
        cache.save(first, "types", CODE)
    assert not cache.is_empty()
    assert "can be written to by every user" in cache.find_problem()
    folder.chmod(0o755)
    assert cache.load(first, "types") == CODE


def test_a_folder_above_needs_the_sticky_bit(root, tmp_path):
    store_both(root)
    for mode, found in ((0o777, None), (0o1777, CODE), (0o702, None), (0o755, CODE)):
        tmp_path.chmod(mode)
        cache._state.checked.clear()
        assert cache.load(first, "types") == found


def test_a_file_that_others_can_write_to_is_not_used(root):
    one, _ = store_both(root)
    one.chmod(0o646)
    assert cache.load(first, "types") is None
    one.chmod(0o644)
    assert cache.load(first, "types") == CODE


def test_a_group_may_write_if_it_is_the_user_s_own(root, monkeypatch):
    import grp
    import pwd

    store_both(root)
    root.chmod(0o770)
    number = 4_242 if os.geteuid() == 0 else os.getegid()
    os.chown(root, -1, number)
    monkeypatch.setattr(pwd, "getpwuid", lambda user: pwd.struct_passwd(("alice", "x", user, number, "", "/", "sh")))
    group = grp.struct_group(("alice", "x", number, []))

    def found() -> object:
        cache._state.checked.clear()
        return cache.load(first, "types")

    monkeypatch.setattr(grp, "getgrgid", lambda number: group)
    assert found() == CODE
    for other in (
        grp.struct_group(("alice", "x", number, ["mallory"])),
        grp.struct_group(("staff", "x", number, [])),
        grp.struct_group(("alice", "x", number + 1, [])),
    ):
        monkeypatch.setattr(grp, "getgrgid", lambda number, other=other: other)
        assert found() is None
    assert "can be written to by its group (mode 0770)" in cache.find_problem()


def test_links_and_dots_in_the_path(root, tmp_path, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/b/../b")
    (tmp_path / "absolute").symlink_to(tmp_path / "link")
    (tmp_path / "loop").symlink_to("loop")
    resolved = folders.resolve(tmp_path / "absolute" / ".." / "b" / "new", create=True)
    assert resolved == (tmp_path / "a" / "b" / "new").resolve()
    assert resolved.stat().st_mode & 0o777 == 0o700
    assert folders.resolve(tmp_path / "link" / "missing" / "more") is None
    with pytest.raises(folders.FolderError, match="more than 40 symbolic links"):
        folders.resolve(tmp_path / "loop" / "cache")
    (tmp_path / "file").touch()
    with pytest.raises(folders.FolderError, match=r"`.*file` is not a folder"):
        folders.resolve(tmp_path / "file" / "cache")


def test_where_the_cache_is(tmp_path, monkeypatch):
    platformdirs = pytest.importorskip("platformdirs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BPEJIT_CACHE_DIR", "here")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/there")
    assert folders.find_place() == (tmp_path / "here", "BPEJIT_CACHE_DIR")
    monkeypatch.setenv("BPEJIT_CACHE_DIR", "")
    assert folders.find_place() == (Path("/there/bpejit"), "NUMBA_CACHE_DIR")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    for folder in ("", str(tmp_path)):
        monkeypatch.setenv("XDG_CACHE_HOME", folder)
        assert folders.find_place() == (Path(platformdirs.user_cache_dir("bpejit")), "")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert folders.find_place().path == Path.home() / ("Library/Caches/bpejit" if sys.platform == "darwin" else ".cache/bpejit")
    monkeypatch.setenv("HOME", "~")
    with pytest.raises(folders.FolderError, match="no home directory"):
        folders.find_place()
    assert cache.find_problem() == "the user has no home directory"


def test_a_working_directory_that_is_gone(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    cache.save(first, "types", CODE)
    assert cache.load(first, "types") == CODE
    monkeypatch.setenv("BPEJIT_CACHE_DIR", "relative")
    assert cache.load(first, "types") is None
    with pytest.warns(cache.CacheWarning, match="BPEJIT_CACHE_DIR is 'relative', and there is no working directory"):
        cache.save(first, "types", CODE)


def test_a_full_disk_leaves_nothing(root):
    cache.save(second, "types", CODE)
    before = sorted(root.rglob("*"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.warns(cache.CacheWarning, match="File too large"):
            cache.save(first, "types", CODE._replace(machine_code=bytes(100_000)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cache.save(first, "types", CODE._replace(machine_code=bytes(100_000)))  # said once
        cache.write("pattern", bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(path for path in root.rglob("*") if path.is_file()) == [path for path in before if path.is_file()]
    assert "File too large" in cache.find_problem()


def test_an_interrupt_leaves_nothing(root, monkeypatch):
    store_both(root)
    before = sorted(root.rglob("*"))

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.save(first, "others", CODE)
    assert sorted(root.rglob("*")) == before


LOOP = """
import sys
from bpejit.jit import cache, folders, upkeep
text, role, seconds = b"tables" * 20_000, sys.argv[1], 1.5
import time
end, found = time.monotonic() + seconds, 0
while time.monotonic() < end:
    if role == "clear":
        upkeep.clear(folders.resolve(folders.find_place().path, create=True))
        time.sleep(0.002)
    else:
        cache.write("pattern", text)
        read = cache.read("pattern")
        assert read in (None, text), len(read)
        found += read == text
print(found)
"""


def test_processes_at_once(root):
    roles = ("write", "write", "clear")
    environment = {**ENVIRONMENT, "BPEJIT_CACHE_DIR": str(root), "BPEJIT_CACHE": "1"}
    running = [
        subprocess.Popen([sys.executable, "-c", LOOP, role], env=environment, stdout=subprocess.PIPE, text=True)
        for role in roles
    ]
    found = [int(process.communicate(timeout=60)[0]) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert min(found[:2]) > 0
    assert {path.name for path in root.iterdir()} <= {"patterns"}
    assert not list(root.rglob("*.tmp"))


def age(path: Path, days: float) -> None:
    stamp = time.time() - days * 86_400
    os.utime(path, (stamp, stamp))


def test_reading_tells_that_a_file_is_used(root):
    one, other = store_both(root)
    for days, is_touched in ((0.5, False), (1.5, True), (80, True)):
        age(one, days)
        before = one.stat().st_mtime
        assert cache.load(first, "types") == CODE
        assert (one.stat().st_mtime > before) == is_touched
    os.utime(other, (0, 2**33))  # in the future: a clock was wrong
    assert cache.load(second, "types") is not None
    assert other.stat().st_mtime < time.time() + 1


def test_what_is_old_is_removed_when_something_is_written(root):
    one, other = store_both(root)
    stays = {one}
    for name, days, is_kept in (
        ("kernels-" + "1" * 24, 91, False),
        ("kernels-" + "2" * 24, 80, True),
        ("numba-" + "3" * 16, 91, False),
        ("4" * 24, 91, False),
        ("something of the user", 200, True),
        ("patterns", 0, True),
    ):
        inner = root / name / "inner"
        inner.mkdir(parents=True)
        for path in (inner / "file", inner.parent / "file"):
            path.touch()
            age(path, days)
            if is_kept:
                stays.add(path)
        for path in (inner, inner.parent):
            age(path, days)
    age(other, 91)
    for name, days in ((".left.tmp", 1), (".written.tmp", 0)):
        (one.parent / name).touch()
        age(one.parent / name, days)
    stays.add(one.parent / ".written.tmp")
    cache.save(first, "more", CODE)  # not the first that this process writes
    assert other.exists()
    cache._state.pruned = False
    cache.save(first, "more", CODE)
    left = {path for path in root.rglob("*") if path.is_file()}
    (more,) = left - stays
    assert more.parent == one.parent
    assert left == stays | {more}


def test_of_many_versions_the_last_ones_stay(root):
    one, _ = store_both(root)
    for number in range(2 * upkeep.MOST_FOLDERS):
        folder = root / f"kernels-{number:024}"
        folder.mkdir()
        (folder / "file").touch()
        for path in (folder / "file", folder):
            age(path, 8 + number / 10 if number >= 4 else 1)
    upkeep.prune(root, one.parent.name)
    assert {folder.name for folder in upkeep.list_folders(root)} == {
        one.parent.name,
        *(f"kernels-{number:024}" for number in range(upkeep.MOST_FOLDERS - 1)),
    }
    for folder in upkeep.list_folders(root):
        for path in (root / folder.name, *(root / folder.name).iterdir()):
            age(path, 2)
    for number in range(100, 110):
        (root / f"kernels-{number:024}").mkdir()
    upkeep.prune(root, one.parent.name)
    assert len(upkeep.list_folders(root)) == upkeep.MOST_FOLDERS + 10  # all were used this week
