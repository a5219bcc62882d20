"""Arrays on huge pages, and in memory that stays in the process."""

import mmap
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from bpejit.process_memory import HUGE_PAGE_BYTES, huge_page_zeros, retained_empty, touch_pages


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
@pytest.mark.parametrize("n_bytes", [0, 8, HUGE_PAGE_BYTES - 8, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 8, 3 * HUGE_PAGE_BYTES])
def test_zeros_begin_at_a_huge_page(dtype, n_bytes):
    array = huge_page_zeros(n_bytes // np.dtype(dtype).itemsize, dtype)
    assert array.dtype == dtype
    assert array.nbytes == n_bytes
    assert not array.any()
    assert array.flags.c_contiguous
    assert array.flags.writeable
    if hasattr(mmap, "MADV_HUGEPAGE") and n_bytes >= HUGE_PAGE_BYTES:
        assert array.ctypes.data % HUGE_PAGE_BYTES == 0
    array.fill(1)
    assert int(array.sum()) == array.size


def test_huge_page_zeros__too_large():
    with pytest.raises(MemoryError):
        huge_page_zeros(1 << 50, np.uint64)


@pytest.mark.parametrize("size", [0, 1, 1000, 100_000])
def test_touch_pages(size):
    array = np.zeros(size, [("key", np.uint64), ("count", np.uint32)])
    assert touch_pages(array) is array
    assert not array.view(np.uint8).any()


@pytest.mark.parametrize("size", [0, 5, 1 << 18, 5_000_000, 9_000_000])
def test_retained_empty(size):
    array = retained_empty(size, np.uint32)
    assert array.shape == (size,)
    assert array.dtype == np.uint32
    assert array.flags.owndata
    array[:] = 1
    array.resize(size // 2, refcheck=False)
    assert (array == 1).all()


TOUCH_AGAIN = """
import resource, numpy
from bpejit.process_memory import retained_empty
for size in (5_000_000, 3_000_000, 5_000_000, 2_000_000):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    array = retained_empty(size, numpy.uint32)
    array[: size // 2] = 1
    array.resize(size // 2, refcheck=False)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    del array
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators retain other blocks")
def test_retained_empty__pages_are_touched_once():
    # Without huge pages there are many faults to count.
    environment = {**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0"}
    run = subprocess.run([sys.executable, "-c", TOUCH_AGAIN], env=environment, capture_output=True, text=True, check=True)
    first, *later = map(int, run.stdout.split())
    assert max(later) * 10 < first
