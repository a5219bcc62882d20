"""Tests of `bpejit cache`, and of the messages of commands without a usable cache."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys

import pytest
from helpers.cli import ENVIRONMENT, MODULE, invoke

from bpejit.jit import cache, dispatch, listening


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """Return the cache folder, which does not exist yet."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("BPEJIT_CACHE_DIR", raising=False)
    monkeypatch.setenv("BPEJIT_CACHE", "1")
    monkeypatch.setattr(cache, "_state", cache._State())
    monkeypatch.setattr(listening._state, "preparation", None)
    return tmp_path / "bpejit"


def fill(root):
    cache.write("pattern", bytes(100))
    (root / "kernels-0123456789abcdef01234567").mkdir(mode=0o700)
    (root / "kernels-0123456789abcdef01234567" / "kernel.o").write_bytes(bytes(1000))
    (root / "notes.txt").write_text("not ours")


def test_info_and_clear(root):
    assert re.search(r"size +0 bytes\n", invoke("cache", "info").stdout)
    fill(root)
    lines = invoke("cache", "info").stdout.splitlines()
    assert lines[0] == f"folder          {root} (NUMBA_CACHE_DIR)"
    assert lines[1] == "usable          yes"
    assert lines[2] == "size            1.1 kB"
    assert re.fullmatch(r"shipped         (none|kernels that came with the package are used)", lines[3])
    assert re.fullmatch(r"this version    kernels-[0-9a-f]{24}", lines[4])
    assert re.fullmatch(r"kernels-0123456789abcdef01234567 +1 file +1\.0 kB  last used today", lines[5])
    assert re.fullmatch(r"patterns +1 file +140 bytes  last used today", lines[6])
    found = json.loads(invoke("cache", "info", "--json").stdout)
    assert (found["folder"], found["named_by"], found["problem"]) == (str(root), "NUMBA_CACHE_DIR", None)
    assert (found["bytes"], [folder["files"] for folder in found["contents"]]) == (1140, [1, 1])
    result = invoke("cache", "clear")
    assert result.stdout == f"removed 2 files (1.1 kB) from `{root}`\n"
    assert [path.name for path in root.iterdir()] == ["notes.txt"]
    assert invoke("cache", "clear").stdout == f"removed 0 files (0 bytes) from `{root}`\n"


def test_unusable_cache(root):
    fill(root)
    root.chmod(0o777)
    reason = f"`{root}` is writable by every user (mode 0777)"
    assert f"usable          no: {reason}\n" in invoke("cache", "info").stdout
    assert json.loads(invoke("cache", "info", "--json").stdout)["problem"] == reason
    result = invoke("cache", "clear")
    assert (result.exit_code, result.stderr) == (
        1,
        f"bpejit: error: the cache cannot be cleared: {reason}: remove the folder yourself\n",
    )
    assert (root / "patterns" / "pattern").exists()


def test_info_without_a_home_directory(monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "nowhere")
    result = invoke("cache", "info")
    assert result.exit_code == 0
    assert "folder          none\nusable          no: the user has no home directory\n" in result.stdout


def test_info_imports_no_heavy_modules():
    code = f"""
import sys
from {MODULE}.app import program
try:
    program.main(["cache", "info"], prog_name="bpejit")
except SystemExit as end:
    assert end.code == 0
assert not {{"numba", "regex", "rich"}} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, timeout=60, check=True)


@pytest.mark.compiled
@pytest.mark.skipif(dispatch.BY_NUMBA, reason="Numba runs the kernels itself")
@pytest.mark.parametrize("unusable", ["foreign", "off", "checked", None])
def test_summary_of_first_run(unusable, root, monkeypatch, tmp_path):
    """The summary states whether later runs load the compiled code."""
    if unusable == "foreign":
        root.mkdir()
        root.chmod(0o777)
    if unusable == "off":
        monkeypatch.setenv("BPEJIT_CACHE", "0")

    nothing = new_kernel()
    module = importlib.import_module("bpejit.warm_kernels")

    def warmup(part=None):
        compiled = nothing(1)
        if unusable == "checked":  # not earlier, since Numba would read it
            monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
        return compiled, 0.0

    monkeypatch.setattr(module, "warmup", warmup)
    monkeypatch.setattr(dispatch, "is_first_run", lambda: False)
    lines_shown = invoke("warmup").stderr.splitlines()
    assert len(lines_shown) == 2
    assert lines_shown[0].startswith("compiling for this machine")
    match = re.fullmatch(r"compiled for this machine in .* s; (.*)", lines_shown[1])
    assert match is not None
    not_stored = "the result could not be stored, and later runs compile again: "
    expected = {
        "foreign": f"{not_stored}`{root}` is writable by every user (mode 0777): "
        "set BPEJIT_CACHE_DIR (or NUMBA_CACHE_DIR) to a folder that only you can write to",
        "off": f"{not_stored}BPEJIT_CACHE=0 turns the cache off: unset it",
        "checked": f"{not_stored}NUMBA_BOUNDSCHECK turns the cache off: unset it",
        None: "later runs load the result",
    }
    assert match[1] == expected[unusable]


def new_kernel():
    """Return a kernel that compiles quickly."""

    @dispatch.kernel
    def nothing(number):
        """Return the number."""
        return number

    dispatch.KERNELS.remove(nothing)
    return nothing


@pytest.mark.compiled
@pytest.mark.skipif(dispatch.BY_NUMBA, reason="Numba runs the kernels itself")
def test_kernels_are_prepared_if_one_is_missing(monkeypatch):
    monkeypatch.setattr(dispatch.shipped, "is_available", lambda: False)
    calls = []
    listening.prepare_with(lambda: calls.append("prepared"))
    assert new_kernel()(1) == 1
    assert calls == ["prepared"]
    listening.prepare_with(lambda: calls.append("again"))
    assert new_kernel()(1) == 1  # it is stored
    assert calls == ["prepared"]
    monkeypatch.setenv("BPEJIT_CACHE", "0")
    assert new_kernel()(1) == 1
    assert calls == ["prepared", "again"]


@pytest.mark.compiled
@pytest.mark.skipif(dispatch.BY_NUMBA, reason="Numba runs the kernels itself")
def test_first_kernels_are_compiled_unless_they_are_marked(root, monkeypatch, capsys):
    monkeypatch.setattr(dispatch.shipped, "is_available", lambda: False)
    warmup_module = importlib.import_module("bpejit.warm_kernels")
    progress_module = importlib.import_module(f"{MODULE}.progress")
    ran = []
    monkeypatch.setattr(warmup_module, "warmup", ran.append)
    monkeypatch.setattr(warmup_module.subprocess, "Popen", lambda command, **_: Ended(ran.append(command[2])))
    root.mkdir(mode=0o700)
    folder = root / cache.name_of_kernels()
    folder.mkdir(mode=0o700)
    (folder / "one.o").write_bytes(b"")  # an earlier run was interrupted
    progress = progress_module.Progress()
    progress.compile_first()
    assert ran == ["from bpejit.warm_kernels import warmup; warmup('encoding')", "training", "encoding"]
    assert progress.compile_seconds > 0
    assert "this may take a minute" in capsys.readouterr().err
    later = progress_module.Progress()
    later.compile_first()
    assert len(ran) == 3
    assert later.compile_seconds == 0
    later.compiled("start", 0.0)
    assert "this may take some seconds" in capsys.readouterr().err
    monkeypatch.setattr(cache.fingerprint, "of_sources", lambda: "of another version")
    progress.compile_first()
    assert len(ran) == 6
    monkeypatch.setattr(cache.fingerprint, "of_sources", lambda: "of a third version")
    progress.compile_first(others=True)
    processes = [f"from bpejit.warm_kernels import warmup; warmup({part!r})" for part in ("encoding", "others")]
    assert ran[6:] == [*processes, "training", "encoding", "others"]


class Ended:
    """A process that has ended."""

    def __init__(self, _):
        pass

    def poll(self):
        """Return the exit code."""
        return 0

    def kill(self):
        """Do nothing."""

    def wait(self):
        """Do nothing."""
