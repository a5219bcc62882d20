"""Build what a release publishes, and try each file in an empty environment: `make release`.

    python .ci/release.py dist                build and try the files of this checkout
    python .ci/release.py dist --tag v0.1.0   refuse another version, or one that CHANGELOG.md does not describe
    python .ci/release.py --try FILE...       try files that are there

The folder has the source distribution, the plain wheel that is built from it, and, on Linux on x86-64, a wheel with compiled
kernels. Each is installed alone, and runs the demonstration outside the checkout. Needs the packages of the extra `release`.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEMO = ".ci/demo.py", "tests/data/prose.txt", "tests/data/code.txt", "tests/data/cjk.txt"
"""Files that the demonstration needs."""


def run(*command: str | Path, cwd: Path = ROOT, log: Path | None = None) -> None:
    """Run a command without the settings of this project; print its output, or keep it and print it if the command fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("BPEJIT_", "NUMBA_", "PYTHON"))}
    if log is None:
        subprocess.run(command, check=True, cwd=cwd, env=environment)
        return
    with log.open("wb") as file:
        status = subprocess.run(command, cwd=cwd, env=environment, stdout=file, stderr=file, check=False).returncode
    if status:
        sys.exit(f"{log.read_text(errors='replace')}\nrelease: {' '.join(map(str, command))} failed with status {status}")


def check_version(tag: str) -> None:
    """Compare a tag with the version of the package and with the sections of CHANGELOG.md."""
    found = re.search(r'^__version__ = "(.+)"', (ROOT / "bpejit" / "__init__.py").read_text(encoding="utf-8"), re.MULTILINE)
    version = found[1] if found else None
    if tag != f"v{version}":
        sys.exit(f"release: the tag is {tag}, and the version in bpejit/__init__.py is {version}; expected the tag v{version}")
    section = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    if not re.search(section, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        sys.exit(f"release: CHANGELOG.md has no section of {version}; expected a line `## [{version}] - YEAR-MONTH-DAY`")


def build(out: Path) -> list[Path]:
    """Build the source distribution and the wheels in a folder that has none, and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    if old := [path.name for path in out.iterdir()]:
        sys.exit(f"release: {out} has to be empty, found {', '.join(sorted(old)[:3])}: remove it first")
    run(sys.executable, "-m", "build", "--outdir", out, ".", log=out / "build.log")  # the wheel is built from the sdist
    (out / "build.log").unlink()
    if sys.platform == "linux" and platform.machine() == "x86_64":
        run(sys.executable, ".ci/make_wheel.py", out)
    files = sorted(out.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    return files


def try_file(path: Path) -> float:
    """Install a file into an empty environment, run the demonstration with it, and return the seconds that took."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for needed in DEMO:
            (folder / needed).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / needed, folder / needed)
        python = folder / ".venv" / "bin" / "python"
        run(sys.executable, "-m", "venv", python.parent.parent)
        run(python, "-m", "pip", "install", "--disable-pip-version-check", path, log=folder / "install.log")
        run(python, ".ci/demo.py", cwd=folder, log=folder / "demo.log")
    return time.monotonic() - begun


def main() -> None:
    """Build the files, try them, and print their sizes."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("out", type=Path, nargs="?", help="an empty folder, or none: it is created")
    parser.add_argument("--tag")
    parser.add_argument("--try", type=Path, nargs="+", dest="files", metavar="FILE")
    options = parser.parse_args()
    if (options.out is None) == (options.files is None):
        parser.error("name either a folder or files to try")
    if options.tag is not None:
        check_version(options.tag)
    for path in [file.resolve() for file in options.files or ()] or build(options.out.resolve()):
        seconds = try_file(path)
        print(f"{path.name}: {path.stat().st_size:,} bytes, installed alone and demonstrated in {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
