"""Arrays on huge pages."""

import numpy as np
import pytest

from bpejit.arrays import HUGE_PAGE_BYTES, huge_page_zeros


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
@pytest.mark.parametrize("n_bytes", [0, 8, HUGE_PAGE_BYTES - 8, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 8, 3 * HUGE_PAGE_BYTES])
def test_zeros_begin_at_a_huge_page(dtype, n_bytes):
    array = huge_page_zeros(n_bytes // np.dtype(dtype).itemsize, dtype)
    assert array.dtype == dtype
    assert array.nbytes == n_bytes
    assert not array.any()
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert n_bytes < HUGE_PAGE_BYTES or array.ctypes.data % HUGE_PAGE_BYTES == 0
