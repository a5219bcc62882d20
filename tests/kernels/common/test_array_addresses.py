"""Tests of the readers of named tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpejit.kernels.common.array_addresses import make_reader


class _Numbers(NamedTuple):
    first: NDArray[np.uint32]


class _Words(NamedTuple):
    only: NDArray[np.uint64]


def test_readers_have_names_of_their_own():
    """Numba's cache takes functions of one name, one line and as many fields for the same."""
    names = [make_reader(kind).__name__ for kind in (_Numbers, _Words)]
    assert names == ["read__Numbers", "read__Words"]
