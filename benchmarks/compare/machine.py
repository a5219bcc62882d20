"""On what, with what and of what state a measurement was made; nothing that names the machine or its folders."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .corpora import ROOT
from .tools import tool_versions

LIBRARIES = ("numba", "llvmlite", "numpy", "regex")


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    if platform.system() == "Darwin":
        found = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        if found.stdout.strip():
            return found.stdout.strip()
    return platform.processor() or platform.machine()


def cpu_detail() -> dict[str, object]:
    """What tells processors of one name apart, and how large the second-level cache is."""
    detail: dict[str, object] = {}
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("cpu family", "model", "cache size"):
                detail.setdefault(key.strip(), value.strip())
            if key.strip() == "flags" and "avx512" not in detail:
                detail["avx512"] = "avx512bw" in value.split()
    return detail


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_gb() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    except (ValueError, OSError, AttributeError):
        return None


def machine() -> dict[str, object]:
    return {
        "cpu": cpu_model(),
        **cpu_detail(),
        "cores": cores(),
        "memory_gb": memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def machine_kind() -> str:
    """Name of the results file: machines of one kind share it."""
    words = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", cpu_model().lower())).strip("-")
    family = "-".join(str(cpu_detail().get(key, "")) for key in ("cpu family", "model"))
    return "-".join(filter(None, [words, family.strip("-"), f"{cores()}-cores", platform.system().lower()]))


def versions() -> dict[str, str]:
    found = tool_versions()
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """The commit, with a plus sign if the package or the benchmarks have changes on top of it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "bpejit", "cli", "benchmarks/*.py")
        return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
