"""Tests of atomic writing under all kinds of errors, and of reading: errors contain the path."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from bpejit.errors import CorpusError, OutputError, TokenizerFormatError
from bpejit.storage import exchange, files, temporary
from bpejit.storage.files import parse_json, read_file, replacing, replacing_all

needs_permissions = pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the super-user may write everywhere")


def write_all(paths: Iterable[Path], data: bytes, *, then: BaseException | None = None, remove: Iterable[Path] = ()) -> None:
    """Write `data` to each path, then fail if so asked."""
    with replacing_all(paths, remove=remove) as written:
        for file in written:
            file.write(data)
        if then is not None:
            raise then


def content(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files of a folder, including hidden ones."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ---- one file


def test_file_appears_when_complete(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    with replacing(target) as file:
        assert file.write(b"one ") == 4
        file.write(memoryview(bytearray(b"two")))
        assert not target.exists()
        assert file.n_bytes == 7
    assert content(tmp_path) == {"out.bin": b"one two"}


def test_existing_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    with replacing(target) as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
    assert content(tmp_path) == {"out.bin": b"new"}


@pytest.mark.parametrize("exception", [RuntimeError, KeyboardInterrupt, GeneratorExit, SystemExit])
def test_failed_block_leaves_no_files(tmp_path: Path, exception: type[BaseException]) -> None:
    (tmp_path / "out.bin").write_bytes(b"old")
    with pytest.raises(exception):
        write_all([tmp_path / "out.bin"], b"new", then=exception())
    assert content(tmp_path) == {"out.bin": b"old"}


# If the interrupt precedes the line that closes a file, the garbage collector closes it.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("n_files", [1, 3])
def test_interrupt_at_any_line(tmp_path: Path, existing: bool, n_files: int) -> None:
    paths = [tmp_path / f"{number}.bin" for number in range(n_files)]
    old = {path.name: b"old" for path in paths} if existing else {}
    new = {path.name: b"new" for path in paths}
    outcomes = []
    for line in itertools.count(1):
        for path in tmp_path.iterdir():
            path.unlink()
        for name, data in old.items():
            (tmp_path / name).write_bytes(data)
        with interrupted_at(line) as interrupted, suppress(KeyboardInterrupt):
            write_all(paths, b"new")
        outcomes.append(content(tmp_path))
        assert outcomes[-1] in (old, new), interrupted
        if not interrupted:
            break
    assert outcomes[0] == old
    assert outcomes[-1] == new
    assert len(outcomes) > 30


@contextmanager
def interrupted_at(line: int) -> Iterator[list[str]]:
    """Interrupt the block once, after a number of executed lines of the writing modules; record the location."""
    interrupted: list[str] = []
    seen = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in (files.__file__, exchange.__file__, temporary.__file__):
            return None
        if event == "line" and not interrupted:
            seen += 1
            if seen == line:
                interrupted.append(f"line {frame.f_lineno} of {frame.f_code.co_name}")
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield interrupted
    finally:
        sys.settrace(before)


def test_other_errors_are_propagated(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "out.bin"):
        (tmp_path / "input").read_bytes()
    assert content(tmp_path) == {}


def test_temporary_name_of_a_long_name(tmp_path: Path) -> None:
    name = "n" * 250
    with replacing(tmp_path / name) as file:
        file.write(b"x")
    assert content(tmp_path) == {name: b"x"}


def test_links_are_preserved(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "real.bin").write_bytes(b"old")
    (tmp_path / "link.bin").symlink_to(tmp_path / "disk" / "real.bin")
    with replacing(tmp_path / "link.bin") as file:
        file.write(b"new")
        assert len(content(tmp_path / "disk")) == 2, "the temporary file is on the disk of the target"
    assert (tmp_path / "link.bin").is_symlink()
    assert content(tmp_path / "disk") == {"real.bin": b"new"}


@pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
def test_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with replacing(tmp_path / "new") as file:
        file.write(b"x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "new").chmod(0o640)
    with replacing(tmp_path / "new") as file:
        file.write(b"y")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="needs /dev/null")
def test_device_is_written_to_and_not_replaced() -> None:
    with replacing("/dev/null") as file:
        file.write(b"x")
    assert Path("/dev/null").is_char_device()


def test_missing_folder(tmp_path: Path) -> None:
    target = tmp_path / "missing" / "out.bin"
    with pytest.raises(OutputError, match=r"does not exist.*create it") as caught, replacing(target):
        pytest.fail("the block must not run")
    assert str(target) in str(caught.value)
    assert caught.value.errno == errno.ENOENT


def test_folder_instead_of_file(tmp_path: Path) -> None:
    (tmp_path / "out.bin").mkdir()
    with pytest.raises(OutputError, match="it is a folder"), replacing(tmp_path / "out.bin"):
        pytest.fail("the block must not run")


def test_file_instead_of_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is not a folder"), replacing(tmp_path / "file" / "out.bin"):
        pytest.fail("the block must not run")


@needs_permissions
def test_no_permission(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"old")
    (tmp_path / "kept").chmod(0o444)
    with pytest.raises(OutputError, match="no permission"), replacing(tmp_path / "kept"):
        pytest.fail("the block must not run")
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(OutputError, match="no permission"), replacing(tmp_path / "new"):
            pytest.fail("the block must not run")
    finally:
        tmp_path.chmod(0o755)
    assert content(tmp_path) == {"kept": b"old"}


# ---- full disks


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs Linux's /dev/full")
@pytest.mark.parametrize("size", [1, 1 << 20], ids=["found when closing", "found when writing"])
def test_full_device(size: int) -> None:
    with pytest.raises(OutputError, match="cannot write `/dev/full`: the disk is full") as caught:
        write_all([Path("/dev/full")], bytes(size))
    assert caught.value.errno == errno.ENOSPC
    assert Path("/dev/full").is_char_device()


LIMITED = """
import resource, sys
from bpejit.errors import OutputError
from bpejit.storage.files import replacing_all
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    with replacing_all(sys.argv[1:]) as files:
        for file in files:
            for _ in range(100):
                file.write(bytes(200))
except OutputError as error:
    print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs resource limits")
@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_limit_on_file_size(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"old")
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, *(str(tmp_path / name) for name in names)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(files.__file__).parent.parent)},
    )
    assert f"cannot write `{tmp_path / 'a'}`: a limit on the size of files was reached" in run.stdout
    assert content(tmp_path) == dict.fromkeys(names, b"old")


# ---- sets of files


def test_all_appear_or_none(tmp_path: Path) -> None:
    for name in "abz":
        (tmp_path / name).write_bytes(b"old " + name.encode())
    before = content(tmp_path)
    paths = [tmp_path / "a", tmp_path / "c", tmp_path / "b"]
    with pytest.raises(RuntimeError):
        write_all(paths, b"new", then=RuntimeError(), remove=[tmp_path / "z"])
    assert content(tmp_path) == before
    write_all(paths, b"new", remove=[tmp_path / "z", tmp_path / "y"])
    assert content(tmp_path) == dict.fromkeys("abc", b"new")


def test_failure_to_open_one(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(OutputError, match="it is a folder"), replacing_all([tmp_path / "a", tmp_path / "b"]):
        pytest.fail("the block must not run")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="needs /dev/null")
def test_devices_cannot_be_part_of_a_set(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="a device or a pipe"), replacing_all(["/dev/null", tmp_path / "b"]):
        pytest.fail("the block must not run")
    assert content(tmp_path) == {}


class Step:
    """Make the n-th change of the folder fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, fail_at: int, links: bool) -> None:
        self.seen = 0
        self.states: list[dict[str, bytes]] = []

        def counted(name: str) -> None:
            original = getattr(Path, name)

            def change(path: Path, *args: Path) -> object:
                self.states.append({name: data for name, data in content(folder).items() if not name.startswith(".")})
                self.seen += 1
                if self.seen == fail_at:
                    raise OSError(errno.EIO, "broken disk")
                if name == "hardlink_to" and not links:
                    raise OSError(errno.EPERM, "no links here")
                return original(path, *args)

            monkeypatch.setattr(Path, name, change)

        counted("rename")
        counted("replace")
        counted("hardlink_to")


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
@pytest.mark.parametrize("existing", ["abc", "bc", "c", "a", ""])
def test_failed_rename_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existing: str, links: bool) -> None:
    """All files are restored; between any two steps, the description is missing or correct."""
    failures = 0
    for fail_at in range(1, 20):
        folder = tmp_path / str(fail_at)
        folder.mkdir()
        for name in existing:
            (folder / name).write_bytes(b"old")
        (folder / "gone").write_bytes(b"old")
        before = content(folder)
        with monkeypatch.context() as patch:
            step = Step(patch, folder, fail_at, links)
            error = None
            try:
                write_all([folder / "a", folder / "b", folder / "c"], b"new", remove=[folder / "gone"])
            except OutputError as raised:
                error = raised
        # (Without an error, the failed step was a hard link, which has a substitute.)
        assert error is None or "broken disk" in str(error)
        assert content(folder) == (before if error else dict.fromkeys("abc", b"new"))
        for state in step.states:
            if "c" in state:  # with the description present, all files are old or all are new
                # The old description is also restored last.
                assert state == before or state == dict.fromkeys("abc", b"new")
        failures += error is not None
        if step.seen < fail_at:
            assert failures >= 5, "three new names, and two old files go"
            return
    pytest.fail("there are more steps than thought")


# ---- reading


def test_missing_file_raises_the_requested_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no such file") as caught:
        read_file(tmp_path / "missing.txt", error=CorpusError, what="text")
    assert str(tmp_path / "missing.txt") in str(caught.value)


def test_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(TokenizerFormatError, match="it is a folder"):
        read_file(tmp_path, error=TokenizerFormatError)


@needs_permissions
def test_file_without_read_permission(tmp_path: Path) -> None:
    (tmp_path / "secret").touch(mode=0)
    with pytest.raises(TokenizerFormatError, match="no permission"):
        read_file(tmp_path / "secret", error=TokenizerFormatError)


@pytest.mark.parametrize(
    ("data", "location"),
    [
        (b'{"a": 1,', "line 1, column 9"),
        (b'{"a": 1,\n "b" 2}', "line 2, column 6"),
        (b"", "line 1, column 1"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b"[" * 100_000, "nested too deep"),
        (b"1" * 5000, "4300"),
    ],
)
def test_invalid_json_is_reported_with_its_location(data: bytes, location: str) -> None:
    with pytest.raises(TokenizerFormatError, match=location) as caught:
        parse_json(data, "some/where.json", error=TokenizerFormatError)
    assert "some/where.json" in str(caught.value)


def test_replacing__many_writes(tmp_path):
    """The system starts to write long outputs to disk before they are complete."""
    data = bytes(range(256)) * 4096
    with replacing(tmp_path / "long") as file:
        for size in (len(data), 3, 2 * files.SYNC_BYTES - 3):
            for start in range(0, size, len(data)):
                file.write(data[: min(size - start, len(data))])
    written = (tmp_path / "long").read_bytes()
    assert written == data + data[:3] + data * 3 + data[: len(data) - 3]
