"""Test of the division of the tests into processes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT


@pytest.fixture(scope="module")
def run_tests() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_tests", ROOT / ".ci" / "run_tests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_tests"] = module
    spec.loader.exec_module(module)
    return module


def test_each_file_is_in_one_group(run_tests: ModuleType) -> None:
    found = run_tests.find_groups([ROOT / "tests"])
    services, groups = ([group for group in found if group.services == wanted] for wanted in (True, False))
    files = [file for group in groups for file in group.files]
    assert len(files) == len(set(files))
    assert set(files) == set((ROOT / "tests").rglob("test_*.py")) - set((ROOT / "tests" / "readers").iterdir())
    needing = [file for group in services for file in group.files]
    assert len(needing) == len(set(needing))
    assert set(needing) < set(files)
    assert {file.name for file in needing} >= {"test_ray.py", "test_s3_inputs.py", "test_report_in_browser.py"}


def test_running_groups_are_shown(run_tests: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal, one line with the shares that are done; elsewhere a line for each group."""
    output = tmp_path / "output"
    output.write_bytes(b"tests/jit/test_a.py ..  [  5%]\ntests/jit/test_b.py ....  [ 45%]\ntests/jit/test_c.py ..")
    display = run_tests.Display()
    display.is_live = False
    display.begin("tests/jit", output)
    display.refresh()
    assert capsys.readouterr().out == "running tests/jit ...\n"
    display.is_live = True
    display.begin("services", tmp_path / "absent")
    display.refresh()
    assert capsys.readouterr().out == "\r\033[K   0 s: jit 45 %, services"
    display.write("tests/cli   3 passed")
    display.end("tests/jit")
    display.end("services")
    display.refresh()
    assert capsys.readouterr().out == "\r\033[Ktests/cli   3 passed\n\r\033[K"


@pytest.mark.slow
def test_failures_are_counted_and_shown(tmp_path: Path) -> None:
    """A failed test, one that does not finish, and files without selected tests."""
    tests = tmp_path / "tests"
    writes = """from pathlib import Path
def test_a(tmp_path): Path(__file__ + ".folder").write_text(str(tmp_path.parent.parent))"""
    for name, body in {
        "good/test_a.py": writes,
        "bad/test_b.py": f"""import pytest
{writes}
@pytest.mark.skip(reason='too cold')
def test_b(): pass
def test_c(): assert 1 > 2""",
        "gone/test_d.py": "import os\ndef test_d(): os._exit(3)",
        "none/test_e.py": "",
    }.items():
        (tests / name).parent.mkdir(parents=True)
        (tests / name).write_text(body + "\n")
    (tests / "helpers").mkdir()
    (tests / "helpers" / "skips.py").write_text((ROOT / "tests" / "helpers" / "skips.py").read_text(encoding="utf-8"))
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (tmp_path / ".ci").mkdir()
    script = tmp_path / ".ci" / "run_tests.py"
    script.write_text((ROOT / ".ci" / "run_tests.py").read_text(encoding="utf-8"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stderr
    assert any(line.startswith("tests/good ") and "1 passed,   0 skipped,  0 failed" in line for line in lines)
    assert any(line.startswith("tests/bad ") and "1 passed,   1 skipped,  1 failed" in line for line in lines)
    assert "pytest did not finish, status 3:" in lines
    assert any("assert 1 > 2" in line for line in lines)
    assert not any(line.startswith("tests/none ") for line in lines)
    assert {line for line in lines if line.startswith("running ")} == {
        f"running tests/{name} ..." for name in ("good", "bad", "gone", "none")
    }
    assert lines[-2:] == ["1 skipped: too cold", "2 passed, 2 failed"]
    folders = [file.read_text(encoding="utf-8") for file in tests.rglob("*.folder")]
    assert len(set(folders)) == 2  # each process has its own temporary folder
    assert not any(Path(folder).exists() for folder in folders)
