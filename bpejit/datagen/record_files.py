"""Records of examples: frame arrays as records, pack examples, and shuffle the records of a shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from bpejit.arrays import Array
from bpejit.t2t.packing import pack_examples

Features = Mapping[str, tuple[Array, Array]]
"""The ids of each feature, and their starts, int64 [examples + 1]."""


def pack_features(features: Features, packed_length: int, spacing: int) -> dict[str, tuple[Array, Array]]:
    """Return packed examples (see `pack_examples`); targets without inputs are divided if they are longer."""
    names = sorted(features)
    has_inputs = "inputs" in features
    n_examples = features["targets"][1].size - 1
    examples = (
        {name: features[name][0][features[name][1][i] : features[name][1][i + 1]] for name in names} for i in range(n_examples)
    )
    packed = list(pack_examples(examples, has_inputs, packed_length, spacing=spacing, chop_long_sequences=not has_inputs))
    kinds = ("", "_segmentation", "_position")
    targets = [f"targets{kind}" for kind in kinds]
    found = {}
    for name in (*[f"inputs{kind}" for kind in kinds if has_inputs or not kind], *targets):
        starts = np.zeros(len(packed) + 1, dtype=np.int64)
        np.cumsum(np.fromiter((example[name].size for example in packed), dtype=np.int64, count=len(packed)), out=starts[1:])
        found[name] = np.concatenate([np.zeros(0, np.int64), *(example[name] for example in packed)]), starts
    return found


def shuffle_shard(
    sources: Sequence[Path],
    write: Callable[[Array], object],
    *,
    seed: int,
    shard: int,
    max_memory: int,  # noqa: ARG001
) -> None:
    """Write the records of files in a random order, which depends on the seed, the shard and the records alone."""
    data = np.concatenate([np.zeros(0, np.uint8), *(np.fromfile(path, dtype=np.uint8) for path in sources)])
    starts = [0]
    while starts[-1] < data.size:
        (length,) = data[starts[-1] : starts[-1] + 8].view("<u8").tolist()
        starts.append(starts[-1] + length + 16)
    keys = random_numbers((seed, shard), len(starts) - 1)
    for index in np.argsort(keys, kind="stable").tolist():
        write(data[starts[index] : starts[index + 1]])


_STEP = 0x9E3779B97F4A7C15


def random_numbers(numbers: tuple[int, ...], count: int) -> Array:
    """Return a hash of some numbers and of each index below `count`, uint64 [count] (SplitMix64)."""
    state = np.zeros(1, dtype=np.uint64)
    for some in (*(np.array([number % 2**64], dtype=np.uint64) for number in numbers), np.arange(count, dtype=np.uint64)):
        state = state + (some + np.uint64(1)) * np.uint64(_STEP)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return state
