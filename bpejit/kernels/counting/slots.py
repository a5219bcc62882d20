"""Cells from the hash tables in which pre-tokens were counted, without a packed table between."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.jit.memory import bit_length, prefetch
from bpejit.kernels.common.keys import LONG_TAG
from bpejit.kernels.constants import EIGHT, FOUR, ONE, THREE, TWO, ZERO
from bpejit.kernels.counting.interning import MOVED, length_at
from bpejit.kernels.training.byte_pairs import write_pretoken
from bpejit.kernels.training.cells import find_weight

SLOT_SIZES = np.dtype(
    [
        ("pretokens", np.uint64),  # without `MOVED` ones
        ("bytes", np.uint64),  # of these
        ("total", np.uint64),  # sum of their counts
        ("with_pairs", np.uint64),  # pre-tokens of at least two bytes
        ("units", np.uint64),  # bytes of these
        ("weighted", np.float64),  # sum of bytes times count of these
        ("large", np.uint64),  # number of these whose count is not below `SMALL_COUNTS`
    ]
)
"""What a range of slots contains."""

PREFETCH_WORDS = np.uint64(64)
"""Prefetch distance in `fill_cells_from_slots`: 16 slots."""

SMALL_COUNTS = 1 << 16
"""Nearly all counts are smaller, so that a table of them shows which of them occur."""


@kernel
def measure_slots(table, sizes, occurs, large):
    """Measure a hash table or a range of its slots, and find the distinct counts.

    Parameters
    ----------
    table : uint64[4 * slots], in
        See `kernels.counting.interning`. `MOVED` pre-tokens are omitted.
    sizes : SLOT_SIZES[1], out
    occurs : uint8[SMALL_COUNTS], in-out
        1 is written for each count of a pre-token of at least two bytes.
    large : uint64[slots], out
        The counts of such pre-tokens that are not in `occurs`, in any order.

    Notes
    -----
    O(slots).
    """
    pretokens, n_bytes, total, with_pairs, units, n_large = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
    weighted = 0.0
    for slot in range(table.size // 4):
        word = np.uint64(slot) * FOUR
        count = table[word + TWO]
        if count == ZERO or count == MOVED:
            continue
        length = length_at(table, word)
        pretokens += ONE
        n_bytes += length
        total += count
        if length < TWO:
            continue
        with_pairs += ONE
        units += length
        weighted += np.float64(length) * np.float64(count)
        if count < np.uint64(SMALL_COUNTS):
            occurs[count] = np.uint8(1)
        else:
            large[n_large] = count
            n_large += ONE
    found = sizes[0]
    found["pretokens"] = pretokens
    found["bytes"] = n_bytes
    found["total"] = total
    found["with_pairs"] = with_pairs
    found["units"] = units
    found["weighted"] = weighted
    found["large"] = n_large


@kernel
def fill_cells_from_slots(table, table_bytes, arena, byte_ids, boundary, weights, cells, found):
    """Write the pre-tokens of a hash table as cells: `fill_cells` without the packed arrays between.

    Parameters
    ----------
    table : uint64[4 * slots], in
        A hash table of `kernels.counting.interning`, or a range of its slots. `MOVED` pre-tokens are omitted.
    table_bytes : uint8[32 * slots], in
        The same memory. The key of a short pre-token begins with its bytes.
    arena : uint8[:], in
        Bytes of the pre-tokens of more than 15 bytes.
    byte_ids, boundary, weights, cells, found
        As in `fill_cells`, but `cells[0]` follows a boundary.

    Returns
    -------
    int
        Number of cells written.

    Notes
    -----
    O(slots + bytes + pre-tokens * log weights).
    """
    id_bits = bit_length(boundary)
    last = np.uint64(max(table.size, 4) - 4)
    n_cells = ZERO
    for slot in range(table.size // 4):
        word = np.uint64(slot) * FOUR
        # Slots are in the order of hashes, so the bytes of long pre-tokens are anywhere in the arena.
        prefetch(arena, table[min(word + PREFETCH_WORDS, last) + THREE])
        weight = table[word + TWO]
        length = length_at(table, word)
        if weight == ZERO or weight == MOVED or length < TWO:
            continue
        code = find_weight(weights, weight) << id_bits
        if table[word + ONE] >= LONG_TAG:
            start = table[word + THREE]
            write_pretoken(arena, start, length, weight, code, byte_ids, boundary, cells, n_cells, found)
        else:
            start = word * EIGHT
            write_pretoken(table_bytes, start, length, weight, code, byte_ids, boundary, cells, n_cells, found)
        n_cells += length + ONE
    return n_cells
