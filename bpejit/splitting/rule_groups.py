"""Convert local rules to tables over groups of characters, for AVX2.

They are computed when a pattern is loaded, and stored tables do not contain them. Nothing of the compiler of patterns is
imported.
"""

from __future__ import annotations

import numpy as np

from bpejit.arrays import Array

_MAX_GROUPS = 32
"""Limit on the groups of ASCII characters that the tables distinguish, for AVX2. The presets have 10 to 17."""


def group_rules(rules: Array) -> Array:
    """Return the tables over ASCII characters as tables over groups of characters, for `jit.simd.match_groups`.

    Parameters
    ----------
    rules : uint8 [2 * sets * CONTEXT_SIZE * 128]
        From `bpejit.splitting.local_rules.make_rules`.

    Returns
    -------
    uint8 [128 + sets * CONTEXT_SIZE * width]
        The group of each character, then for each set and slot the boxes of each group. `width` is 16 or 32, the number of
        groups that AVX2 looks up with one or two instructions. Empty if there are no rules, or more than 32 groups.
    """
    if rules.size == 0:
        return np.zeros(0, np.uint8)
    tables = rules[: rules.size // 2].reshape(-1, 128)
    # `np.unique` imports `numpy.ma`, which takes longer than loading a vocabulary.
    columns = [column.tobytes() for column in tables.T]
    numbers = {column: number for number, column in enumerate(sorted({*columns}))}
    n_groups = len(numbers)
    if n_groups > _MAX_GROUPS:
        return np.zeros(0, np.uint8)
    width = _MAX_GROUPS // 2 if n_groups <= _MAX_GROUPS // 2 else _MAX_GROUPS
    padded = np.zeros((tables.shape[0], width), dtype=np.uint8)
    padded[:, :n_groups] = np.frombuffer(b"".join(numbers), dtype=np.uint8).reshape(n_groups, -1).T
    group = np.fromiter(map(numbers.__getitem__, columns), dtype=np.uint8, count=len(columns))
    return np.concatenate([group, padded.reshape(-1)])
