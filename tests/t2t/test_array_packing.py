"""Tests of packing of arrays: equal to `pack_examples`."""

from __future__ import annotations

import json
from itertools import accumulate

import numpy as np
import pytest
from helpers import t2t_cases
from helpers.t2t import STORED
from hypothesis import given, strategies as st

from bpejit.errors import BpejitError
from bpejit.t2t.array_packing import pack_example_arrays, pack_examples

lists = st.lists(st.integers(0, 2**32 - 1), max_size=12)


def arrays(examples, names):
    return {
        name: (
            np.array([value for example in examples for value in example[name]], np.int64),
            np.array([0, *accumulate(len(example[name]) for example in examples)], np.int64),
        )
        for name in names
    }


def check(examples, has_inputs, packed_length, spacing=2, queue_size=10, chop=False):
    names = ["inputs", "targets"] if has_inputs else ["targets"]
    found = pack_example_arrays(arrays(examples, names), has_inputs, packed_length, spacing, queue_size, chop)
    expected = list(pack_examples(examples, has_inputs, packed_length, spacing, queue_size, chop))
    for name in expected[0] if expected else ["targets", "inputs"]:
        ids, starts = found[name]
        assert [part.tolist() for part in np.split(ids, starts[1:-1])][: len(expected)] == [
            row[name].tolist() for row in expected
        ]
        assert starts.size == len(expected) + 1
    assert sorted(found) == sorted(expected[0] if expected else found)
    return found


@given(
    st.lists(st.tuples(lists, lists), max_size=40),
    st.booleans(),
    st.integers(1, 20),
    st.integers(0, 3),
    st.integers(1, 12),
    st.booleans(),
)
def test_equals_pack_examples(pairs, has_inputs, packed_length, spacing, queue_size, chop):
    examples = [{"inputs": inputs, "targets": targets} for inputs, targets in pairs]
    check(examples, has_inputs, packed_length, spacing, queue_size, chop and not has_inputs)


def test_many_examples():
    generator = np.random.default_rng(0)
    examples = [{"inputs": range(1, a), "targets": range(1, b)} for a, b in generator.integers(2, 60, (500, 2)).tolist()]
    check(examples, True, 256)
    check(examples, False, 32, chop=True)


def test_wide_ids():
    examples = [{"inputs": [1, -5], "targets": [2**40]}, {"inputs": [7], "targets": [8]}]
    for has_inputs in (False, True):
        assert check(examples, has_inputs, 10)["targets"][0].tolist() == [2**40, 0, 0, 8]


def test_huge_queue():
    check([{"targets": [1]}] * 3, False, 1, queue_size=10**12)


def test_errors():
    features = arrays([{"targets": [1], "inputs": [1]}], ["targets", "inputs"])
    for wrong in ({"packed_length": 0}, {"spacing": -1}, {"queue_size": 0}):
        with pytest.raises(BpejitError, match="expected a whole number"):
            pack_example_arrays(features, False, **wrong)
    with pytest.raises(BpejitError, match="chop_long_sequences is True"):
        pack_example_arrays(features, True, chop_long_sequences=True)
    with pytest.raises(BpejitError, match="generate examples with 'inputs'"):
        pack_example_arrays({"targets": features["targets"]}, True)
    with pytest.raises(BpejitError, match="'inputs' has 0 lists; expected 1"):
        pack_example_arrays({**features, "inputs": (np.zeros(0, np.int64), [0])}, True)


def pack_by_arrays(examples, has_inputs, packed_length=256, spacing=2, queue_size=10, chop_long_sequences=False):
    """Return what `pack_examples` yields, computed by `pack_example_arrays`."""
    names = ["inputs", "targets"] if has_inputs else ["targets"]
    found = pack_example_arrays(arrays(examples, names), has_inputs, packed_length, spacing, queue_size, chop_long_sequences)
    rows = range(found["targets"][1].size - 1)
    return [{name: ids[starts[row] : starts[row + 1]] for name, (ids, starts) in found.items()} for row in rows]


def test_equals_tensor2tensor():
    published = json.loads(STORED.read_text(encoding="utf-8"))["cases"]["pack"]
    found = [t2t_cases.sha256(pack_by_arrays(*a, **b)) for a, b in t2t_cases.packing_cases()]
    assert json.loads(json.dumps(found)) == published
