"""Records that are given as addresses, put together again (see `records`)."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import array_at
from bpejit.kernels.encoding.records import EncoderMemory, EncoderTables, SplitAutomaton


@inline
def automaton_at(addresses):
    """Return a SplitAutomaton; `addresses` is int64[26], in."""
    return SplitAutomaton(
        array_at(addresses, 0, np.uint32),
        array_at(addresses, 1, np.uint32),
        array_at(addresses, 2, np.uint16),
        array_at(addresses, 3, np.uint8),
        array_at(addresses, 4, np.uint8),
        array_at(addresses, 5, np.uint8),
        array_at(addresses, 6, np.uint8),
        array_at(addresses, 7, np.int64),
        array_at(addresses, 8, np.uint64),
        array_at(addresses, 9, np.int32),
        array_at(addresses, 10, np.int32),
        array_at(addresses, 11, np.uint8),
        array_at(addresses, 12, np.int32),
    )


@inline
def tables_at(addresses):
    """Return EncoderTables; `addresses` is int64[16], in."""
    return EncoderTables(
        array_at(addresses, 0, np.uint64),
        array_at(addresses, 1, np.uint32),
        array_at(addresses, 2, np.uint32),
        array_at(addresses, 3, np.uint32),
        array_at(addresses, 4, np.uint64),
        array_at(addresses, 5, np.uint64),
        array_at(addresses, 6, np.uint64),
        array_at(addresses, 7, np.uint8),
    )


@inline
def memory_at(addresses):
    """Return EncoderMemory; `addresses` is int64[18], in."""
    return EncoderMemory(
        array_at(addresses, 0, np.uint64),
        array_at(addresses, 1, np.uint8),
        array_at(addresses, 2, np.uint64),
        array_at(addresses, 3, np.uint64),
        array_at(addresses, 4, np.uint64),
        array_at(addresses, 5, np.uint32),
        array_at(addresses, 6, np.uint32),
        array_at(addresses, 7, np.int64),
        array_at(addresses, 8, np.int64),
    )
