"""Helpers of the tests of the training kernels: tables of pre-tokens, their cells, and keys of pairs."""

from __future__ import annotations

import numpy as np
import twins
from hypothesis import strategies as st

from bpejit.arrays import ByteStrings, PretokenTable
from bpejit.kernels.constants import DONE, TEXT_PADDING
from bpejit.kernels.counting import interning
from bpejit.kernels.training import byte_pairs, pairs

BOUNDARY = np.uint64(1000)

counts = st.one_of(st.integers(-1, 5), st.sampled_from([2**31 - 1, 2**31, 2**32, 2**40]))  # some mean "does not occur"
tables = st.dictionaries(st.text("abc", max_size=8).map(str.encode), counts, max_size=8)
cell_types = st.sampled_from([np.uint32, np.uint64])


def table_of(counts: dict[bytes, int]) -> PretokenTable:
    """Return the table of a dict, sorted by bytes."""
    keys = sorted(counts)
    strings = ByteStrings.from_list(keys)
    return PretokenTable(strings.pool, strings.starts, np.array([counts[key] for key in keys], dtype=np.int64))


def filled_with_pairs(
    table: dict[bytes, int], cell_type: type = np.uint32
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the cells of a table, the weights, the byte ids (one more than the byte; 0 for 255), and the pairs of bytes."""
    arrays = table_of(table)
    array = np.zeros(arrays.pool.size + len(arrays) + 1, cell_type)
    weights = np.unique([0, *(count for count in table.values() if count > 0)]).astype(np.uint64)
    byte_ids = np.roll(np.arange(256, dtype=np.uint64), -1)
    found = np.zeros(byte_pairs.N_BYTE_PAIRS, byte_pairs.BYTE_PAIR)
    n = byte_pairs.fill_cells(arrays.pool, arrays.starts, arrays.counts, byte_ids, BOUNDARY, weights, array, found)
    return array[:n], weights, byte_ids, found


def filled(table: dict[bytes, int], cell_type: type = np.uint32) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cells of a table, the weights, and the byte ids."""
    return filled_with_pairs(table, cell_type)[:3]


def byte_pair_counts(found: np.ndarray) -> dict[twins.training.Pair, tuple[int, int]]:
    """Return the count and the number of positions of each pair of bytes."""
    return {
        divmod(index, 256): (int(found[index]["count"]), int(found[index]["number"]))
        for index in np.flatnonzero(found["number"]).tolist()
    }


def as_twin(array: np.ndarray, weights: np.ndarray, boundary: int = int(BOUNDARY)) -> list[twins.training.Cell]:
    """Return cells in the form of the twins."""
    found: list[twins.training.Cell] = []
    for cell in array.tolist():
        code, token = divmod(cell, 1 << boundary.bit_length())
        found.append((int(weights[code]), None if token == boundary else token))
    return found


def with_token(cell: int, token: int) -> int:
    """Return a cell with another token, and the same weight."""
    id_bits = int(BOUNDARY).bit_length()
    return int(cell) >> id_bits << id_bits | token


def key(pair: twins.training.Pair) -> np.uint64:
    return pairs.pair_key(np.uint64(pair[0]), np.uint64(pair[1]))


def pair_of(value: np.uint64) -> twins.training.Pair:
    """Return the pair with a key."""
    return divmod(int(value) - 1, 1 << 32)


def hash_table(table: dict[bytes, int], slots: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Return the slots and the arena of a table."""
    packed = ByteStrings.from_list(list(table))
    pool = np.concatenate([packed.pool, np.zeros(TEXT_PADDING, np.uint8)])
    found = np.zeros(4 * slots, np.uint64), np.zeros(1 << 12, np.uint8)
    numbers, state = np.array(list(table.values()), np.int64), np.zeros(3, np.int64)
    assert interning.add_pretokens(pool, packed.starts, numbers, 1, *found, state) == DONE
    return found


def slot_contents(table: np.ndarray, arena: np.ndarray) -> dict[bytes, int]:
    """Return the pre-tokens of a hash table, in the order of their slots."""
    n, n_bytes = interning.measure_table(table)
    pool, starts, numbers = np.zeros(n_bytes, np.uint8), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    interning.unpack_table(table, arena, 0, pool, starts, numbers)
    return dict(zip(ByteStrings(pool, starts), numbers.tolist(), strict=True))
