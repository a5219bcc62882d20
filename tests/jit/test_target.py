"""Tests of the compilation target: its choice, and that the code uses no instructions that the processor lacks."""

from __future__ import annotations

import itertools
import os
import platform
import subprocess
import sys

import pytest

from bpejit.errors import OptionError
from bpejit.jit import target

IS_X86 = platform.machine().lower() in ("x86_64", "amd64")

LARGE = dict.fromkeys(target.LEVELS["x86-64-v4-vbmi"] | {"gfni", "vaes"}, True) | {"avx512fp16": False, "sse4a": False}
SMALL = {name: name in target.LEVELS["x86-64-v3"] for name in LARGE}


def choose(*machine, **environment):
    return target.choose(environment, *(machine or ("znver5", LARGE, True)))


def test_default_target_is_host():
    found = choose()
    assert found.cpu == "znver5"
    assert set(found.features.split(",")) == {("+" if has else "-") + name for name, has in LARGE.items()}
    assert found.has_avx512_vbmi
    narrow = choose("haswell", SMALL, True)
    assert (narrow.cpu, narrow.has_avx512_vbmi) == ("x86-64", False)
    assert choose("haswell", SMALL, True, NUMBA_CPU_NAME="haswell") == narrow._replace(cpu="haswell")
    assert choose(BPEJIT_CPU="native") == choose(BPEJIT_CPU="") == found
    # Older versions of LLVM detect the instructions of a new processor, but name it "generic".
    assert choose("generic", LARGE, True) == found._replace(cpu="generic")


@pytest.mark.parametrize("level", target.LEVELS)
def test_level_is_independent_of_machine(level):
    found = choose(BPEJIT_CPU=level)
    assert {word[1:] for word in found.features.split(",") if word[0] == "+"} == target.LEVELS[level]
    assert found.has_avx512_vbmi == (level == "x86-64-v4-vbmi")
    assert target.at_level(level, LARGE) == target.at_level(level, SMALL) == found
    if target.LEVELS[level] <= target.LEVELS["x86-64-v3"]:
        assert choose("haswell", SMALL, True, BPEJIT_CPU=level) == found
    else:
        with pytest.raises(OptionError, match=r"this processor \(haswell\) lacks avx512bw and avx512cd"):
            choose("haswell", SMALL, True, BPEJIT_CPU=level)


def test_emulated_avx512_needs_avx2_only():
    found = choose("haswell", SMALL, True, BPEJIT_CPU=target.EMULATED_AVX512)
    narrow = choose("haswell", SMALL, True, BPEJIT_CPU="x86-64-v3")
    assert found == narrow._replace(has_avx512_vbmi=True, emulates_avx512=True)
    assert str(found) != str(narrow), "each has its own folder of kernels"
    assert choose(BPEJIT_CPU=target.EMULATED_AVX512) == found
    with pytest.raises(OptionError, match=r"this processor \(nehalem\) lacks avx2"):
        choose("nehalem", SMALL | {"avx2": False}, True, BPEJIT_CPU=target.EMULATED_AVX512)
    with pytest.raises(OptionError, match="expected native on this machine"):
        choose("apple-m1", {}, False, BPEJIT_CPU=target.EMULATED_AVX512)


def test_levels_contain_the_lower_ones():
    levels = list(target.LEVELS.values())
    assert all(lower < higher for lower, higher in itertools.pairwise(levels))


def test_disabled_features_follow_enabled_ones():
    for found in (
        choose(),
        choose(BPEJIT_CPU="x86-64-v3"),
        choose(NUMBA_ENABLE_AVX="0"),
        choose(NUMBA_CPU_FEATURES="-avx2,+sse3"),
    ):
        signs = [word[0] for word in found.features.split(",")]
        assert signs == sorted(signs), found  # "+" sorts before "-"


def test_numba_variables():
    assert choose(NUMBA_CPU_NAME="skylake") == choose()._replace(cpu="skylake")
    generic = choose(NUMBA_CPU_NAME="generic")
    assert generic.cpu == "generic"
    assert "+" not in generic.features
    assert not generic.has_avx512_vbmi
    some = choose("haswell", SMALL, True, NUMBA_CPU_FEATURES=" +avx2, -bmi,")
    assert some.cpu == "haswell"
    assert some.features.startswith("+avx2,-")
    # Features that the host lacks are disabled, even if the processor name implies them.
    assert {"-bmi", "-avx512f", "-avx512vbmi"} <= set(some.features.split(","))
    assert not choose(NUMBA_CPU_FEATURES="+avx512vbmi").has_avx512_vbmi  # the other features depend on the processor


def test_avx_can_be_disabled():
    for found in (choose(NUMBA_ENABLE_AVX="0"), choose("nocona", LARGE, True)):
        on = {word for word in found.features.split(",") if word[0] == "+"}
        assert "+sse4.2" in on
        assert not {"+avx", "+avx2", "+avx512f", "+f16c", "+fma", "+vaes"} & on
        assert not found.has_avx512_vbmi
    assert choose(NUMBA_ENABLE_AVX="1") == choose()
    assert choose("nocona", LARGE, True, NUMBA_ENABLE_AVX="1").has_avx512_vbmi


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"BPEJIT_CPU": "haswel"}, r"BPEJIT_CPU is 'haswel'; expected native or x86-64 or .* on this machine"),
        ({"BPEJIT_CPU": "x86-64-v3", "NUMBA_CPU_NAME": "generic"}, "NUMBA_CPU_NAME is set too: unset one"),
        ({"NUMBA_CPU_FEATURES": "+avx2,+avx512fp16"}, r"'avx512fp16', which this processor \(znver5\) lacks"),
        ({"NUMBA_CPU_FEATURES": "avx2"}, "NUMBA_CPU_FEATURES contains 'avx2'; expected a comma-separated list"),
        ({"NUMBA_CPU_FEATURES": "+"}, "expected a comma-separated list"),
        ({"NUMBA_ENABLE_AVX": "yes"}, "NUMBA_ENABLE_AVX is 'yes'; expected 0 or 1"),
    ],
)
def test_invalid_settings_are_refused(environment, message):
    with pytest.raises(OptionError, match=message):
        choose(**environment)


def test_other_architectures():
    machine = ("apple-m1", {}, False)
    assert choose(*machine) == target.Target("apple-m1", "", has_avx512_vbmi=False, has_avx2=False)
    assert choose(*machine, NUMBA_CPU_NAME="generic").cpu == "generic"
    for environment in ({"BPEJIT_CPU": "x86-64"}, {"NUMBA_CPU_NAME": "apple-m4"}, {"NUMBA_CPU_FEATURES": "+sve2"}):
        with pytest.raises(OptionError):
            choose(*machine, **environment)


FINGERPRINT = """
import sys
from bpejit.jit import fingerprint, target
print(fingerprint.of_machine(), target.current().has_avx512_vbmi)
assert "numba" not in sys.modules
"""

COUNT = """
import numpy as np
from bpejit.jit import dispatch, simd, target
@dispatch.kernel
def write(ends, bits):
    if simd.has_avx512_vbmi():
        return np.int64(simd.write_bit_positions(ends, np.uint64(0), np.uint64(0), bits))
    return -1
ends = np.zeros(64, np.uint32)
found = write(ends, np.uint64(0b1011))
print(found, *ends[:3], target.current().has_avx512_vbmi)
"""


def run(code, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_") and name != "BPEJIT_CPU"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean | {"BPEJIT_CACHE": "0"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(not IS_X86, reason="levels are those of x86-64")
def test_each_target_has_its_own_folder():
    settings = [{}, {"BPEJIT_CPU": "x86-64"}, {"NUMBA_CPU_NAME": "generic"}, {"NUMBA_CPU_FEATURES": "-avx"}]
    settings.append({"NUMBA_CPU_NAME": "nehalem"})  # the name determines scheduling, as in Numba
    settings += [{"BPEJIT_CPU": "x86-64-v3"}, {"BPEJIT_CPU": target.EMULATED_AVX512}]
    found = [run(FINGERPRINT, **setting) for setting in settings]
    assert len({fingerprint for fingerprint, _ in found}) == len(settings)
    assert [wide for _, wide in found] == [found[0][1], "False", "False", "False", found[0][1], "False", "True"]


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(not IS_X86, reason="other processors have no such instructions")
@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"NUMBA_ENABLE_AVX": "0"},
        {"NUMBA_CPU_FEATURES": "-avx512vbmi"},
        {"NUMBA_CPU_NAME": "generic"},
        {"NUMBA_BOUNDSCHECK": "1"},
        {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CPU_FEATURES": "-avx512vbmi"},
    ],
)
def test_wide_instructions_are_used_only_if_enabled(setting):
    found, *ends, wide = run(COUNT, **setting)
    if setting.keys() - {"NUMBA_BOUNDSCHECK"}:
        assert wide == "False"
    assert [found, *ends] == (["3", "0", "1", "3"] if wide == "True" else ["-1", "0", "0", "0"])
