"""Tests of packing: equal to a plain implementation; `test_published.py` compares it with Tensor2Tensor."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.t2t import arrays, pack_examples
from hypothesis import given, strategies as st

from bpejit.errors import BpejitError
from bpejit.t2t.example_arrays import pack_example_arrays

sequences = st.lists(st.integers(1, 99), max_size=9)


def pad(ids, spacing):
    return [*ids, *[0] * spacing]


def packed_plainly(examples, has_inputs, packed_length, spacing, queue_size):
    """Pack lists of ids, by concatenation of lists."""
    queue, done = [], []
    for example in examples:
        sequences = [example["inputs"], example["targets"]] if has_inputs else [example["targets"]]
        for waiting in queue:
            if all(len(ids) + spacing + len(new) <= packed_length for (ids, _, _), new in zip(waiting, sequences, strict=True)):
                for i, new in enumerate(sequences):
                    ids, segments, positions = waiting[i]
                    number = segments[-1] + 1 if segments else 1
                    added = pad(segments, spacing) + [number] * len(new), pad(positions, spacing) + list(range(len(new)))
                    waiting[i] = (pad(ids, spacing) + new, *added)
                break
        else:
            if len(queue) == queue_size:
                done.append(queue.pop(0))
            queue.append([(list(ids), [1] * len(ids), list(range(len(ids)))) for ids in sequences])
    return done + queue


@given(
    st.lists(st.tuples(sequences, sequences), max_size=30),
    st.booleans(),
    st.integers(1, 20),
    st.integers(0, 3),
    st.integers(1, 4),
)
def test_equals_plain_packing(pairs, has_inputs, packed_length, spacing, queue_size):
    examples = [{"inputs": np.array(inputs, np.uint16), "targets": targets} for inputs, targets in pairs]
    found = pack_examples(examples, has_inputs, packed_length, spacing, queue_size)
    plain = packed_plainly([{"inputs": a, "targets": b} for a, b in pairs], has_inputs, packed_length, spacing, queue_size)
    names = ["inputs", "targets"] if has_inputs else ["targets"]
    assert len(found) == len(plain)
    for example, expected in zip(found, plain, strict=True):
        for name, (ids, segments, positions) in zip(names, expected, strict=True):
            assert example[name].tolist() == ids
            assert example[f"{name}_segmentation"].tolist() == segments
            assert example[f"{name}_position"].tolist() == positions
        if not has_inputs:
            assert example["inputs"].tolist() == [0]
            assert len(example) == 4


def test_long_targets_are_chopped():
    found = pack_examples([{"targets": range(10)}, {"targets": [5]}], False, 4, 1, chop_long_sequences=True)
    assert [example["targets"].tolist() for example in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 5]]


def test_many_examples():
    generator = np.random.default_rng(0)
    pairs = [(list(range(1, a)), list(range(1, b))) for a, b in generator.integers(2, 60, (500, 2)).tolist()]
    examples = [{"inputs": inputs, "targets": targets} for inputs, targets in pairs]
    found = pack_examples(examples, True, 256)
    plain = packed_plainly(examples, True, 256, 2, 10)
    assert [example["targets_position"].tolist() for example in found] == [expected[1][2] for expected in plain]


def test_wide_ids():
    examples = [{"inputs": [1, -5], "targets": [2**40]}, {"inputs": [7], "targets": [8]}]
    for has_inputs in (False, True):
        found = pack_examples(examples, has_inputs, 10)
        assert [example["targets"].tolist() for example in found] == [[2**40, 0, 0, 8]]


def test_huge_queue():
    assert len(pack_examples([{"targets": [1]}] * 3, False, 1, queue_size=10**12)) == 3


def test_errors():
    features = arrays([{"targets": [1], "inputs": [1]}], ["targets", "inputs"])
    for wrong in ({"packed_length": 0}, {"spacing": -1}, {"queue_size": 0}):
        with pytest.raises(BpejitError, match="expected a whole number"):
            pack_example_arrays(features, False, **wrong)
