"""Packing of short examples into longer ones, as `pack_examples` of Tensor2Tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import CorpusError, OptionError, shorten

Example = dict[str, Array]

SINGLE_INPUT = np.zeros(1, dtype=np.int64)
"""The inputs of examples that have only targets."""


class _Sequence:
    """Ids of several examples, with `spacing` zeros between two of them."""

    def __init__(self, ids: Array, spacing: int) -> None:
        self._spacing = spacing
        self._ids = [ids]
        self.size = ids.size

    def add(self, ids: Array) -> None:
        self._ids.append(ids)
        self.size += self._spacing + ids.size

    def fits(self, ids: Array, packed_length: int) -> bool:
        return self.size + self._spacing + ids.size <= packed_length

    def features(self, name: str) -> Example:
        packed, segments, positions = (np.zeros(self.size, dtype=np.int64) for _ in range(3))
        start = end = 0
        for ids in self._ids:
            segment = 1 + (int(segments[end - 1]) if end else 0)  # as published, also after an empty example
            end = start + ids.size
            packed[start:end] = ids
            segments[start:end] = segment
            positions[start:end] = np.arange(ids.size)
            start = end + self._spacing
        return {name: packed, f"{name}_segmentation": segments, f"{name}_position": positions}


def pack_examples(
    examples: Iterable[Mapping[str, Iterable[int]]],
    has_inputs: bool,
    packed_length: int = 256,
    spacing: int = 2,
    queue_size: int = 10,
    chop_long_sequences: bool = False,
) -> Iterator[Example]:
    """Pack examples into examples of up to `packed_length` ids.

    Parameters
    ----------
    examples : iterable of dict
        Each has the ids `targets`, and `inputs` if `has_inputs` is true.
    has_inputs : bool
        Without inputs, packed examples have the single input 0.
    packed_length : int
        Maximum length of packed inputs and of packed targets. A longer example remains alone.
    spacing : int
        Number of zeros between two examples.
    queue_size : int
        Number of incomplete packed examples in memory. An example is added to the first one in which it fits; if there is none,
        the first is complete.
    chop_long_sequences : bool
        Whether to divide longer targets. Not for examples with inputs.

    Yields
    ------
    dict of int64 arrays
        `targets`; `targets_segmentation`, the number of the original example at each position, from 1, and 0 for spacing;
        `targets_position`, the position in the original example; and the same for `inputs` if `has_inputs` is true.

    Raises
    ------
    CorpusError
        If an example lacks inputs or targets.
    OptionError
        If an option is out of range.
    """
    packed_length = arguments.whole_number("packed_length", packed_length, least=1)
    spacing = arguments.whole_number("spacing", spacing, least=0)
    queue_size = arguments.whole_number("queue_size", queue_size, least=1)
    if chop_long_sequences and has_inputs:
        raise OptionError("chop_long_sequences is True; expected False for examples with inputs: leave it out")
    names = ["targets", "inputs"] if has_inputs else ["targets"]
    return _pack(examples, names, packed_length, spacing, queue_size, chop_long_sequences)


def _pack(
    examples: Iterable[Mapping[str, Iterable[int]]],
    names: list[str],
    packed_length: int,
    spacing: int,
    queue_size: int,
    chop: bool,
) -> Iterator[Example]:
    queue: list[list[_Sequence]] = []
    for example in examples:
        try:
            found = [np.asarray(example[name], dtype=np.int64) for name in names]
        except KeyError as cause:
            raise CorpusError(
                f"an example has the features {shorten(list(example))}; expected {names}: generate examples with {cause}"
            ) from None
        if chop and found[0].size > packed_length:
            (ids,) = found
            n_whole = ids.size // packed_length
            for start in range(0, n_whole * packed_length, packed_length):
                yield _features([_Sequence(ids[start : start + packed_length], spacing)], names)
            found = [ids[n_whole * packed_length :]]
        for waiting in queue:
            if all(map(_Sequence.fits, waiting, found, [packed_length] * len(found))):
                for sequence, ids in zip(waiting, found, strict=True):
                    sequence.add(ids)
                break
        else:
            if len(queue) == queue_size:
                yield _features(queue.pop(0), names)
            queue.append([_Sequence(ids, spacing) for ids in found])
    for waiting in queue:
        yield _features(waiting, names)


def _features(sequences: list[_Sequence], names: list[str]) -> Example:
    features: Example = {} if len(names) > 1 else {"inputs": SINGLE_INPUT}
    for sequence, name in zip(sequences, names, strict=True):
        features |= sequence.features(name)
    return features
