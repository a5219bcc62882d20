"""What a benchmark was run on, in one line: for the scripts of this folder that print their tables."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path


def machine(*packages: str) -> str:
    """Return processor, system, Python and the versions of the packages."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0] if names else cpu
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{cpu}, {platform.system()}, Python {platform.python_version()}, {versions}"
