"""Tests of the disk cache: damaged, foreign and outdated files are never used, and errors leave no files behind."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from helpers.cli import ENVIRONMENT

from bpejit.errors import OptionError
from bpejit.jit import cache, dispatch, fingerprint, folders, upkeep

CODE = cache.Code(b"\x00\n\xff" * 100, ("uint", "bool"))


@dispatch.inline
def first(number):
    """Do nothing; this kernel is never compiled."""
    return number


@dispatch.inline
def second(number):
    """Do nothing, like `first`."""
    return number + 1


pytestmark = pytest.mark.skipif(
    not dispatch.JIT_ENABLED or dispatch.BY_NUMBA, reason="about kernels that bpejit compiles itself"
)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """Return the cache folder, which does not exist yet, and reset the state of the process."""
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


def test_stored_code_is_loaded(root):
    assert cache.load(first, "types") is None
    assert not root.exists()  # reading creates no folders
    cache.save(first, "types", CODE)
    assert cache.load(first, "types") == CODE
    assert cache.load(first, "others") is None
    assert cache.load(second, "types") is None
    assert cache.find_problem() is None
    cache.save(first, "types", cache.Code(b"x", "none"))
    assert cache.load(first, "types") == cache.Code(b"x", "none")
    assert [path.suffix for path in root.rglob("*") if path.is_file()] == [".o"]


def test_mark_holds_for_the_same_sources(root, monkeypatch):
    assert cache.lacks_mark()
    assert not root.exists()
    cache.save(first, "types", CODE)  # as in a first run that is interrupted
    assert cache.lacks_mark()
    cache.mark()
    assert not cache.lacks_mark()
    assert cache.count_kernels() == 1
    monkeypatch.setattr(cache.fingerprint, "of_sources", lambda: "of another version")
    assert cache.lacks_mark()


def test_cache_can_be_disabled(monkeypatch):
    cache.save(first, "types", CODE)
    monkeypatch.setenv("BPEJIT_CACHE", "0")
    assert cache.load(first, "types") is None
    assert not cache.lacks_mark()
    assert cache.find_problem() == "BPEJIT_CACHE=0 turns the cache off"
    with pytest.raises(folders.FolderError, match="BPEJIT_CACHE=0"):
        cache.make_numba_folder()
    monkeypatch.setenv("BPEJIT_CACHE", "2")
    with pytest.raises(OptionError, match="BPEJIT_CACHE is '2'; expected 0 or 1"):
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


def test_file_of_another_version_is_not_used(root, monkeypatch):
    one, _ = store_both(root)
    monkeypatch.setattr(fingerprint, "of_machine", lambda: "0" * 24)
    (root / f"kernels-{'0' * 24}").mkdir()
    (root / f"kernels-{'0' * 24}" / one.name).write_bytes(one.read_bytes())
    assert cache.load(first, "types") is None


def test_damaged_files_are_not_used(root):
    one, _ = store_both(root)
    content = one.read_bytes()
    damaged = [b"", content[:10], content[:-1], content + b"\0", bytes(len(content)), content[::-1]]
    damaged += [
        content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :] for position in range(0, len(content), 7)
    ]
    for data in damaged:
        one.write_bytes(data)
        assert cache.load(first, "types") is None
    one.unlink()
    one.mkdir()
    assert cache.load(first, "types") is None
    one.rmdir()
    os.mkfifo(one)  # opening it for reading would wait for a writer
    assert cache.load(first, "types") is None
    one.unlink()
    one.write_bytes(content)
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
def test_invalid_header(content):
    assert cache.Code.from_bytes(content) is None
    assert cache.unpack("key", cache.pack("key", content)) == content
    assert cache.unpack("other key", cache.pack("key", content)) is None


def test_files_are_private_for_any_umask(root, monkeypatch):
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
    monkeypatch.setattr(os, "urandom", lambda size: bytes(size))  # as if an attacker had guessed the temporary name
    (one.parent / f".{'00' * 8}.tmp").symlink_to(precious)
    with pytest.warns(cache.CacheWarning, match="File exists"):
        cache.save(first, "types", CODE)
    assert precious.read_bytes() == before


@pytest.mark.parametrize("mode", [0o777, 0o707, 0o1777])
@pytest.mark.parametrize("which", ["folder", "root"])
def test_folder_writable_by_others_is_not_used(which, mode, root):
    one, _ = store_both(root)
    folder = one.parent if which == "folder" else root
    folder.chmod(mode)
    cache._state.checked.clear()
    assert cache.load(first, "types") is None
    with pytest.warns(cache.CacheWarning, match=rf"`{folder}` is writable by every user \(mode {mode:04o}\).*BPEJIT_CACHE_DIR"):
        cache.save(first, "types", CODE)
    assert not cache.lacks_mark()
    assert "is writable by every user" in cache.find_problem()
    folder.chmod(0o755)
    assert cache.load(first, "types") == CODE


def test_parent_folder_needs_sticky_bit(root, tmp_path):
    store_both(root)
    for mode, found in ((0o777, None), (0o1777, CODE), (0o702, None), (0o755, CODE)):
        tmp_path.chmod(mode)
        cache._state.checked.clear()
        assert cache.load(first, "types") == found


def test_file_writable_by_others_is_not_used(root):
    one, _ = store_both(root)
    one.chmod(0o646)
    assert cache.load(first, "types") is None
    one.chmod(0o644)
    assert cache.load(first, "types") == CODE


def test_group_write_is_allowed_for_private_group(root, monkeypatch):
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
    assert "is writable by its group (mode 0770)" in cache.find_problem()


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


def test_location_of_cache(tmp_path, monkeypatch):
    platformdirs = pytest.importorskip("platformdirs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BPEJIT_CACHE_DIR", "here")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/there")
    assert folders.find_cache_folder() == (tmp_path / "here", "BPEJIT_CACHE_DIR")
    monkeypatch.setenv("BPEJIT_CACHE_DIR", "")
    assert folders.find_cache_folder() == (Path("/there/bpejit"), "NUMBA_CACHE_DIR")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    for folder in ("", str(tmp_path)):
        monkeypatch.setenv("XDG_CACHE_HOME", folder)
        assert folders.find_cache_folder() == (Path(platformdirs.user_cache_dir("bpejit")), "")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    inner = "Library/Caches/bpejit" if sys.platform == "darwin" else ".cache/bpejit"
    assert folders.find_cache_folder().path == Path.home() / inner
    monkeypatch.setenv("HOME", "~")
    with pytest.raises(folders.FolderError, match="no home directory"):
        folders.find_cache_folder()
    assert cache.find_problem() == "the user has no home directory"


def test_deleted_working_directory(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    cache.save(first, "types", CODE)
    assert cache.load(first, "types") == CODE
    monkeypatch.setenv("BPEJIT_CACHE_DIR", "relative")
    assert cache.load(first, "types") is None
    with pytest.warns(cache.CacheWarning, match="BPEJIT_CACHE_DIR is 'relative', but there is no working directory"):
        cache.save(first, "types", CODE)


def test_full_disk_leaves_no_files(root):
    cache.save(second, "types", CODE)
    before = sorted(root.rglob("*"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.warns(cache.CacheWarning, match="File too large"):
            cache.save(first, "types", CODE._replace(machine_code=bytes(100_000)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cache.save(first, "types", CODE._replace(machine_code=bytes(100_000)))  # warns once
        cache.write("pattern", bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(path for path in root.rglob("*") if path.is_file()) == [path for path in before if path.is_file()]
    assert "File too large" in cache.find_problem()


def test_interrupt_leaves_no_files(root, monkeypatch):
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
        upkeep.clear(folders.resolve(folders.find_cache_folder().path, create=True))
        time.sleep(0.002)
    else:
        cache.write("pattern", text)
        read = cache.read("pattern")
        assert read in (None, text), len(read)
        found += read == text
print(found)
"""


@pytest.mark.slow
def test_concurrent_processes(root):
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


def test_reading_updates_modification_time(root):
    one, other = store_both(root)
    for days, is_touched in ((0.5, False), (1.5, True), (80, True)):
        age(one, days)
        before = one.stat().st_mtime
        assert cache.load(first, "types") == CODE
        assert (one.stat().st_mtime > before) == is_touched
    os.utime(other, (0, 2**33))  # in the future, because of a wrong clock
    assert cache.load(second, "types") is not None
    assert other.stat().st_mtime < time.time() + 1


def test_unused_files_are_removed_on_write(root):
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
    cache.save(first, "more", CODE)  # not the first write of this process
    assert other.exists()
    cache._state.pruned = False
    cache.save(first, "more", CODE)
    left = {path for path in root.rglob("*") if path.is_file()}
    (more,) = left - stays
    assert more.parent == one.parent
    assert left == stays | {more}


def test_only_recent_versions_are_retained(root):
    one, _ = store_both(root)
    for number in range(2 * upkeep.MAX_FOLDERS):
        folder = root / f"kernels-{number:024}"
        folder.mkdir()
        (folder / "file").touch()
        for path in (folder / "file", folder):
            age(path, 8 + number / 10 if number >= 4 else 1)
    upkeep.prune(root, one.parent.name)
    assert {folder.name for folder in upkeep.list_folders(root)} == {
        one.parent.name,
        *(f"kernels-{number:024}" for number in range(upkeep.MAX_FOLDERS - 1)),
    }
    for folder in upkeep.list_folders(root):
        for path in (root / folder.name, *(root / folder.name).iterdir()):
            age(path, 2)
    for number in range(100, 110):
        (root / f"kernels-{number:024}").mkdir()
    upkeep.prune(root, one.parent.name)
    assert len(upkeep.list_folders(root)) == upkeep.MAX_FOLDERS + 10  # all of them were used this week
