"""The processor that code is made for: its name, by which LLVM schedules instructions, and the instructions that may be used.

Usually that is the processor of this machine. `BPEJIT_CPU` names a level of the x86-64 architecture instead, and
`NUMBA_CPU_NAME`, `NUMBA_CPU_FEATURES` and `NUMBA_ENABLE_AVX` mean what they mean to Numba. Code for a processor that has
instructions which this one lacks is refused, so a kernel that was compiled always runs here. Numba is not imported.
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
"""Levels of the x86-64 architecture, lowest first, and LLVM's names of the instructions that each has."""

_TUNING = "x86-64"
"""The processor whose timing code without AVX-512 VBMI and code for a level is made for: a compromise between all.

On Zen 5, code tuned for Haswell, Skylake, Zen 3 or Zen 5 itself is no faster; on Zen 4, code tuned for Haswell splits ASCII at
460 MB/s instead of 735.
"""

_NEEDS_AVX = frozenset({"amx-avx512", "f16c", "fma", "fma4", "sha512", "sm3", "sm4", "vaes", "vpclmulqdq", "xop"})
"""Instructions that turn AVX on again, besides those whose name begins with `avx`."""

_WITHOUT_AVX = frozenset({"corei7-avx", "core-avx-i", "sandybridge", "ivybridge", "nocona"})
"""Processors for which Numba uses no AVX unless told to: it is slow there, or the name is that of a virtual machine."""


class Target(NamedTuple):
    """What code is made for.

    Parameters
    ----------
    cpu : str
        LLVM's name of a processor.
    features : str
        Instructions to be used and not to be used, as LLVM takes them: `+avx2,-avx512f`.
    has_avx512_vbmi : bool
        Whether 64 bytes can be looked up in a table of 128 at once, and the chosen ones of 64 bytes moved together.
    """

    cpu: str
    features: str
    has_avx512_vbmi: bool

    def __str__(self) -> str:
        return f"{self.cpu} {self.features}"


@functools.cache
def current() -> Target:
    """Return the target of this process.

    Raises
    ------
    OptionError
        If the environment asks for a processor that does not exist, or for instructions that this machine lacks.
    """
    import llvmlite.binding as llvm

    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return choose(os.environ, llvm.get_host_cpu_name(), _host_features(), is_x86)


def choose(environment: Mapping[str, str], host: str, available: Mapping[str, bool], is_x86: bool) -> Target:
    """Return the target that an environment asks for.

    Parameters
    ----------
    environment : mapping of str to str
        The variables that are described above.
    host : str
        LLVM's name of the processor of the machine.
    available : mapping of str to bool
        LLVM's names of instructions, and whether the machine has them.
    is_x86 : bool
        Whether it is an x86-64 machine.
    """
    level = environment.get("BPEJIT_CPU") or "native"
    of_numba = sorted(set(environment) & {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX"})
    if level == "native":
        return _as_numba_does(environment, host, available, is_x86)
    if of_numba:
        raise OptionError(f"BPEJIT_CPU is {shorten(level)} and {of_numba[0]} is set too: unset one of them")
    if not is_x86 or level not in LEVELS:
        names = ["native", *(LEVELS if is_x86 else ())]
        raise OptionError(f"BPEJIT_CPU is {shorten(level)}, expected {' or '.join(names)} on this machine")
    missing = lacking(level, available)
    if missing:
        raise OptionError(
            f"BPEJIT_CPU is {level}, but this processor ({host}) lacks {' and '.join(missing)}: name a lower level, or unset it"
        )
    return at_level(level, available)


def at_level(level: str, available: Mapping[str, bool] | None = None) -> Target:
    """Return the target for a level of the x86-64 architecture, the same on every machine of that architecture.

    Parameters
    ----------
    level : str
        One of `LEVELS`.
    available : mapping, optional
        Its keys are all instructions that LLVM knows; by default they are asked for.
    """
    names = _host_features() if available is None else available
    return _make(_TUNING, {name: name in LEVELS[level] for name in {*names, *LEVELS[level]}})


def lacking(level: str, available: Mapping[str, bool] | None = None) -> list[str]:
    """Return the instructions of a level of the x86-64 architecture that a machine lacks, this one by default."""
    found = _host_features() if available is None else available
    return sorted(name for name in LEVELS[level] if not found.get(name))


def _as_numba_does(environment: Mapping[str, str], host: str, available: Mapping[str, bool], is_x86: bool) -> Target:
    named = environment.get("NUMBA_CPU_NAME") or ""
    cpu = named or host
    # A processor that this version of LLVM does not know is "generic" too, and its instructions are known all the same.
    wanted = environment.get("NUMBA_CPU_FEATURES", "" if named.lower() == "generic" else None)
    if not is_x86 and (cpu not in (host, "generic") or wanted):
        # LLVM lists what such a processor has incompletely, or not at all.
        raise OptionError(
            f"NUMBA_CPU_NAME or NUMBA_CPU_FEATURES asks for {shorten(f'{cpu} {wanted or str()}'.strip())}, expected {host} or "
            f"generic and no features: bpejit cannot find out whether this processor has more: unset them"
        )
    if wanted is None:
        features = dict(available)
        avx = environment.get("NUMBA_ENABLE_AVX", "0" if cpu in _WITHOUT_AVX else "1")
        if not avx.lstrip("-").isdigit():
            raise OptionError(f"NUMBA_ENABLE_AVX is {shorten(avx)}, expected 0 or 1")
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
                f"NUMBA_CPU_FEATURES has {shorten(word)}, expected names after + or - with commas between, as in +avx2,-avx512f"
            )
        features[name] = sign == "+"
    missing = sorted(name for name, on in features.items() if on and not available.get(name, True))
    if missing:
        raise OptionError(
            f"NUMBA_CPU_FEATURES asks for {shorten(' and '.join(missing))}, which this processor ({host}) lacks: leave it out"
        )
    # What only the name of the processor says that it has, and this one lacks.
    features.update({name: False for name, has in available.items() if not has})
    return _make(cpu, features)


def _needs_avx(name: str) -> bool:
    return name.startswith("avx") or name in _NEEDS_AVX


def _make(cpu: str, features: Mapping[str, bool]) -> Target:
    # What is turned off comes last: to turn something on turns on whatever it needs.
    words = [f"+{name}" for name in sorted(features) if features[name]]
    words += [f"-{name}" for name in sorted(features) if not features[name]]
    return Target(cpu, ",".join(words), all(features.get(name) for name in LEVELS["x86-64-v4-vbmi"] - LEVELS["x86-64-v3"]))


@functools.cache
def _host_features() -> dict[str, bool]:
    import llvmlite.binding as llvm

    try:
        return dict(llvm.get_host_cpu_features())
    except RuntimeError:  # older versions of llvmlite, where LLVM cannot tell
        return {}
