"""Select the target processor of compiled code: its LLVM name, which determines scheduling, and its instruction sets.

By default the target is the processor of this machine. `BPEJIT_CPU` selects a level of the x86-64 architecture instead, or for
tests the code for AVX-512 VBMI with its instructions emulated, which is slow, but needs AVX2 only (`EMULATED_AVX512`).
`NUMBA_CPU_NAME`, `NUMBA_CPU_FEATURES` and `NUMBA_ENABLE_AVX` have the same meaning as in Numba. A target with instructions that
this machine lacks is refused, so every compiled kernel can run here. Numba is not imported.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Mapping
from typing import NamedTuple

from bpejit.errors import OptionError, shorten

_V1 = frozenset({"64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2"})
_V2 = _V1 | {"crc32", "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}

LEVELS: dict[str, frozenset[str]] = {
    "x86-64": _V1,
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "x86-64-v4-vbmi": _V4 | {"avx512vbmi", "avx512vbmi2"},
}
"""Levels of the x86-64 architecture, lowest first, with the LLVM names of their instruction sets."""

EMULATED_AVX512 = "emulated-avx512"
"""The name of the target for tests whose code has the operations of AVX-512 VBMI, but not its instructions."""

_TUNING = "x86-64"
"""Scheduling model for code without AVX-512 VBMI and for code that targets a level: LLVM's generic compromise.

On Zen 5, code tuned for Haswell, Skylake, Zen 3 or Zen 5 itself is no faster. On Zen 4, code tuned for Haswell splits ASCII at
460 MB/s instead of 735 MB/s.
"""

_NEEDS_AVX = frozenset({"amx-avx512", "f16c", "fma", "fma4", "sha512", "sm3", "sm4", "vaes", "vpclmulqdq", "xop"})
"""Instruction sets that imply AVX, besides those whose name starts with `avx`."""

_WITHOUT_AVX = frozenset({"corei7-avx", "core-avx-i", "sandybridge", "ivybridge", "nocona"})
"""Processors for which Numba disables AVX by default, because AVX is slow there or the name is used by virtual machines."""


class Target(NamedTuple):
    """The target of compiled code.

    Parameters
    ----------
    cpu : str
        LLVM name of a processor.
    features : str
        Enabled and disabled instruction sets in LLVM's notation, such as `+avx2,-avx512f`.
    has_avx512_vbmi : bool
        Whether the target has AVX-512 VBMI and VBMI2, which look up 64 bytes in a table of 128 entries and compress bytes.
    has_avx2 : bool
        Whether the target has AVX2, which looks up 32 bytes in a table of 16 entries.
    emulates_avx512 : bool
        Whether `has_avx512_vbmi` is true, but other instructions do the same (see `avx512_llvm`).
    """

    cpu: str
    features: str
    has_avx512_vbmi: bool
    has_avx2: bool
    emulates_avx512: bool = False

    def __str__(self) -> str:
        return f"{self.cpu} {self.features}{' emulated AVX-512' if self.emulates_avx512 else ''}"


@functools.cache
def current() -> Target:
    """Return the target of this process.

    Raises
    ------
    OptionError
        If the environment names an unknown processor, or instructions that this machine lacks.
    """
    import llvmlite.binding as llvm

    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return choose(os.environ, llvm.get_host_cpu_name(), _host_features(), is_x86)


_VARIABLES = ("BPEJIT_CPU", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX")

_CPUINFO_FIELDS = (b"vendor_id", b"cpu family", b"model", b"model name", b"stepping", b"flags")
"""What Linux reports about a processor; LLVM derives its name and its instruction sets from the same sources."""


def describe_target() -> str:
    """Return a text that determines the target of this process, for the name of a folder of kernels.

    On Linux it is read from the system, since importing LLVM takes longer than loading a vocabulary. The environment is part of
    it, but only `current` checks it.
    """
    found = [line for line in read_cpuinfo() if line.split(b"\t", 1)[0].rstrip() in _CPUINFO_FIELDS]
    if not any(line.startswith(b"flags") for line in found):
        return str(current())
    chosen = [f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ]
    return repr((found, chosen))


def read_cpuinfo() -> list[bytes]:
    """Return the lines with which Linux describes the first processor; empty on other systems."""
    try:
        with open("/proc/cpuinfo", "rb") as file:  # noqa: PTH123  (before `pathlib` is needed)
            return file.read(1 << 14).split(b"\n\n")[0].splitlines()
    except OSError:
        return []


def choose(environment: Mapping[str, str], host: str, available: Mapping[str, bool], is_x86: bool) -> Target:
    """Return the target that the environment selects.

    Parameters
    ----------
    environment : mapping of str to str
        The environment variables described above.
    host : str
        LLVM name of the processor of this machine.
    available : mapping of str to bool
        LLVM names of instruction sets, and whether the machine supports them.
    is_x86 : bool
        Whether the machine is x86-64.
    """
    level = environment.get("BPEJIT_CPU") or "native"
    numba_variables = sorted(set(environment) & {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX"})
    if level == "native":
        return _choose_as_numba(environment, host, available, is_x86)
    if numba_variables:
        raise OptionError(f"BPEJIT_CPU is {shorten(level)} and {numba_variables[0]} is set too: unset one of them")
    names = ["native", *((*LEVELS, EMULATED_AVX512) if is_x86 else ())]
    if level not in names:
        raise OptionError(f"BPEJIT_CPU is {shorten(level)}; expected {' or '.join(names)} on this machine")
    emulates = level == EMULATED_AVX512
    base = "x86-64-v3" if emulates else level
    missing = find_missing(base, available)
    if missing:
        raise OptionError(
            f"BPEJIT_CPU is {level}, but this processor ({host}) lacks {' and '.join(missing)}: name a lower level, or unset it"
        )
    found = at_level(base, available)
    return found._replace(has_avx512_vbmi=True, emulates_avx512=True) if emulates else found


def at_level(level: str, available: Mapping[str, bool] | None = None) -> Target:
    """Return the target for a level of the x86-64 architecture, which is the same on every x86-64 machine.

    Parameters
    ----------
    level : str
        One of `LEVELS`.
    available : mapping, optional
        Its keys are all instruction sets that LLVM knows. By default LLVM is queried.
    """
    names = _host_features() if available is None else available
    return _make(_TUNING, {name: name in LEVELS[level] for name in {*names, *LEVELS[level]}})


def find_missing(level: str, available: Mapping[str, bool] | None = None) -> list[str]:
    """Return the instruction sets of a level that a machine lacks, by default this machine."""
    found = _host_features() if available is None else available
    return sorted(name for name in LEVELS[level] if not found.get(name))


def _choose_as_numba(environment: Mapping[str, str], host: str, available: Mapping[str, bool], is_x86: bool) -> Target:
    named = environment.get("NUMBA_CPU_NAME") or ""
    cpu = named or host
    # LLVM also calls a processor "generic" if it does not know its name, but still reports its instruction sets.
    wanted = environment.get("NUMBA_CPU_FEATURES", "" if named.lower() == "generic" else None)
    if not is_x86 and (cpu not in (host, "generic") or wanted):
        # LLVM reports the features of such a processor incompletely or not at all.
        raise OptionError(
            f"NUMBA_CPU_NAME or NUMBA_CPU_FEATURES selects {shorten(f'{cpu} {wanted or str()}'.strip())}; expected {host} or "
            "generic, without features, because the features of this processor cannot be determined: unset them"
        )
    if wanted is None:
        features = dict(available)
        avx = environment.get("NUMBA_ENABLE_AVX", "0" if cpu in _WITHOUT_AVX else "1")
        if not avx.lstrip("-").isdigit():
            raise OptionError(f"NUMBA_ENABLE_AVX is {shorten(avx)}; expected 0 or 1")
        if int(avx) == 0:
            features = {name: has and not _needs_avx(name) for name, has in features.items()}
        found = _make(cpu, features)
        is_named = bool(environment.get("NUMBA_CPU_NAME"))
        return found if found.has_avx512_vbmi or is_named or not is_x86 else found._replace(cpu=_TUNING)
    features = {}
    for word in wanted.split(","):
        sign, name = word.strip()[:1], word.strip()[1:]
        if not sign:
            continue
        if sign not in "+-" or not name:
            raise OptionError(
                f"NUMBA_CPU_FEATURES contains {shorten(word)}; expected a comma-separated list such as +avx2,-avx512f"
            )
        features[name] = sign == "+"
    missing = sorted(name for name, on in features.items() if on and not available.get(name, True))
    if missing:
        raise OptionError(
            f"NUMBA_CPU_FEATURES enables {shorten(' and '.join(missing))}, which this processor ({host}) lacks: leave it out"
        )
    # Disable features that the name of the processor implies, but this machine lacks.
    features.update({name: False for name, has in available.items() if not has})
    return _make(cpu, features)


def _needs_avx(name: str) -> bool:
    return name.startswith("avx") or name in _NEEDS_AVX


def _make(cpu: str, features: Mapping[str, bool]) -> Target:
    # Disabled features come last, since enabling a feature also enables the features that it depends on.
    words = [f"+{name}" for name in sorted(features) if features[name]]
    words += [f"-{name}" for name in sorted(features) if not features[name]]
    has_vbmi = all(features.get(name) for name in LEVELS["x86-64-v4-vbmi"] - LEVELS["x86-64-v3"])
    return Target(cpu, ",".join(words), has_vbmi, bool(features.get("avx2")))


@functools.cache
def _host_features() -> dict[str, bool]:
    import llvmlite.binding as llvm

    try:
        return dict(llvm.get_host_cpu_features())
    except RuntimeError:  # older versions of llvmlite, on processors that LLVM cannot query
        return {}
