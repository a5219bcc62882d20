"""Pack the examples of a chunk."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bpejit.arrays import Array
from bpejit.datagen.sample_reading import gather_sequences
from bpejit.t2t.array_packing import pack_example_arrays

Features = Mapping[str, tuple[Array, Array]]
"""The ids of each feature, and their starts, int64 [examples + 1]."""


def pack_features(features: Features, packed_length: int, spacing: int) -> dict[str, tuple[Array, Array]]:
    """Return packed examples (see `pack_examples`); targets without inputs are divided if they are longer.

    Parameters
    ----------
    features : dict of str to (Array, Array)
    packed_length, spacing : int
    """
    has_inputs = "inputs" in features
    packed = pack_example_arrays(features, has_inputs, packed_length, spacing=spacing, chop_long_sequences=not has_inputs)
    used = np.flatnonzero(np.diff(packed["targets"][1]))
    if used.size == packed["targets"][1].size - 1:
        return packed
    # Nothing remains of a text that is divided into parts of full length, and an empty example cannot be written.
    return {name: gather_sequences(ids, starts, used) for name, (ids, starts) in packed.items()}
