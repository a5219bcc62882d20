"""Description of the machine, the versions of packages and the commit; nothing that identifies the host or its folders."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from .corpora import ROOT

LIBRARIES = ("numba", "llvmlite", "numpy", "regex")

AMD = {
    23: (((0x00, 0x07), "Zen"), ((0x08, 0x08), "Zen+"), ((0x11, 0x11), "Zen"), ((0x18, 0x18), "Zen+"), ((0x30, 0xFF), "Zen 2")),
    25: (
        *(((0x00, 0x0F), "Zen 3"), ((0x10, 0x1F), "Zen 4"), ((0x20, 0x3F), "Zen 3"), ((0x40, 0x4F), "Zen 3+")),
        *(((0x50, 0x5F), "Zen 3"), ((0x60, 0x7F), "Zen 4"), ((0xA0, 0xAF), "Zen 4c")),
    ),
    26: (((0x00, 0x0F), "Zen 5"), ((0x10, 0x1F), "Zen 5c"), ((0x20, 0x4F), "Zen 5"), ((0x60, 0x7F), "Zen 5")),
}
"""Microarchitectures of AMD processors by family and range of models."""

INTEL = {
    **dict.fromkeys((0x3C, 0x3F, 0x45, 0x46), "Haswell"),
    **dict.fromkeys((0x3D, 0x47, 0x4F, 0x56), "Broadwell"),
    **dict.fromkeys((0x4E, 0x5E), "Skylake"),
    **dict.fromkeys((0x8E, 0x9E), "Kaby Lake"),
    **dict.fromkeys((0xA5, 0xA6), "Comet Lake"),
    **dict.fromkeys((0x6A, 0x6C, 0x7D, 0x7E), "Ice Lake"),
    **dict.fromkeys((0x8C, 0x8D), "Tiger Lake"),
    **dict.fromkeys((0x97, 0x9A), "Alder Lake"),
    **dict.fromkeys((0xB7, 0xBA, 0xBF), "Raptor Lake"),
    **dict.fromkeys((0xAA, 0xAC), "Meteor Lake"),
    **dict.fromkeys((0xC5, 0xC6), "Arrow Lake"),
    **dict.fromkeys((0xAD, 0xAE), "Granite Rapids"),
    0xA7: "Rocket Lake",
    0xBD: "Lunar Lake",
    0x8F: "Sapphire Rapids",
    0xCF: "Emerald Rapids",
    0xAF: "Sierra Forest",
}
"""Microarchitectures of Intel processors of family 6 by model."""

ARM = {
    ("0x41", "0xd0c"): "Neoverse N1",
    ("0x41", "0xd40"): "Neoverse V1",
    ("0x41", "0xd49"): "Neoverse N2",
    ("0x41", "0xd4f"): "Neoverse V2",
}
"""Microarchitectures of Arm processors by implementer and part."""


def microarchitecture(vendor: str, family: int, model: int, stepping: int) -> str:
    """Return the name of the microarchitecture, or the numbers if it is not known."""
    if vendor == "AuthenticAMD":
        found = next((name for (low, high), name in AMD.get(family, ()) if low <= model <= high), None)
    elif vendor == "GenuineIntel" and family == 6 and model == 0x55:
        found = "Skylake" if stepping < 5 else "Cascade Lake" if stepping < 10 else "Cooper Lake"
    else:
        found = INTEL.get(model) if vendor == "GenuineIntel" and family == 6 else None
    return found or f"family {family}, model {model}, stepping {stepping}"


@cache
def cpuinfo() -> dict[str, str]:
    """Return the description of the first processor in /proc/cpuinfo."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    found: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    return found


def short_brand(brand: str) -> str:
    """Return a processor's brand without marks and filler words."""
    brand = re.sub(r"\((?:r|tm)\)|\bCPU\b|\bProcessor\b|@.*|\b\d+-Core\b", " ", brand, flags=re.IGNORECASE)
    return " ".join(brand.split())


def cpu_name(info: dict[str, str]) -> str:
    """Return brand and microarchitecture, such as "AMD EPYC (Zen 4)"."""
    if "vendor_id" in info and "cpu family" in info:
        numbers = (int(info.get(key, "0")) for key in ("cpu family", "model", "stepping"))
        return f"{short_brand(info.get('model name', ''))} ({microarchitecture(info['vendor_id'], *numbers)})"
    if "CPU implementer" in info:
        part = (info["CPU implementer"], info.get("CPU part", ""))
        return f"Arm ({ARM.get(part, ' '.join(part))})"
    if platform.system() == "Darwin":
        done = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        if done.stdout.strip():
            return short_brand(done.stdout)
    return platform.processor() or platform.machine()


def has_avx512_vbmi() -> bool:
    """Return True if bpejit uses its AVX-512 VBMI code on this machine."""
    return {"avx512bw", "avx512vl", "avx512vbmi", "avx512_vbmi2"} <= set(cpuinfo().get("flags", "").split())


def instructions() -> str:
    """Return the widest instructions that bpejit uses here."""
    if has_avx512_vbmi():
        return "AVX-512 VBMI"
    if platform.machine().lower() in ("x86_64", "amd64"):
        return "AVX2" if "avx2" in cpuinfo().get("flags", "avx2").split() else "SSE"
    return platform.machine()


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_gb() -> int | None:
    """Return the size of the memory, or None if it cannot be read."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    except (ValueError, OSError, AttributeError):
        return None


def warm_memory(n_bytes: int) -> None:
    """Touch so many bytes, or half of the memory that is free, and release them."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else n_bytes
    np.ones(min(n_bytes, free // 2), dtype=np.uint8)


def machine() -> dict[str, object]:
    """Return the record that identifies the kind of machine."""
    name = f"{cpu_name(cpuinfo())}, {cores()} cores, {memory_gb()} GB"
    ids = [cpuinfo().get(key, "") for key in ("cpu family", "model", "stepping")]
    return {
        "record": "machine",
        "name": name,
        "cpu": "-".join(filter(None, ids)),
        "cores": cores(),
        "memory_gb": memory_gb(),
        "instructions": instructions(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def file_name(record: dict[str, object]) -> str:
    """Return the name of the results file of a machine."""
    return re.sub(r"[^a-z0-9]+", "-", str(record["name"]).lower()).strip("-") + ".jsonl"


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that bpejit uses."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit() -> tuple[str, bool]:
    """Return the short hash of the commit, and True if the package or the benchmarks have uncommitted changes."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "bpejit", "cli", "benchmarks/compare")
        return git("rev-parse", "--short=10", "HEAD"), bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return "unknown", False
