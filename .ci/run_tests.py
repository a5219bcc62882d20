"""Run all tests. Those that need services (Ray, an S3 server, Chromium) run beside the others, in one process.

They mostly wait, so they share one of each service, and take hardly any processor time from the others. Their output follows
that of the others.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PYTEST = [sys.executable, "-m", "pytest"]

NAMES = re.compile(r"\b(cluster|bucket|browser|services)\b")
"""The fixtures and the marker of tests that need services; only files with one of them are collected for these."""


def main() -> int:
    """Run both; return the worse status."""
    files = [str(path) for path in sorted(Path("tests").rglob("test_*.py")) if NAMES.search(path.read_text(encoding="utf-8"))]
    with tempfile.TemporaryFile() as output:
        services = subprocess.Popen([*PYTEST, "-m", "services", *files], stdout=output, stderr=output)
        others = subprocess.run([*PYTEST, "-n", "2", "--dist", "worksteal", "-m", "not services"], check=False)
        status = services.wait()
        output.seek(0)
        sys.stdout.write(output.read().decode(errors="replace"))
    return max(others.returncode, status)


if __name__ == "__main__":
    sys.exit(main())
