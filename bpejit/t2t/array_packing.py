"""Packing of short examples: one by one, and by kernels where they are arrays, with equal results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, as_array
from bpejit.errors import CorpusError, OptionError, shorten
from bpejit.kernels.t2t.example_packing import assign_packs, fill_packs
from bpejit.t2t.example_arrays import Examples, Lists, checked_lists, ids_as_uint32

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


def pack_example_arrays(
    features: Examples,
    has_inputs: bool,
    packed_length: int = 256,
    spacing: int = 2,
    queue_size: int = 10,
    chop_long_sequences: bool = False,
) -> dict[str, Lists]:
    """Pack examples into examples of up to `packed_length` ids.

    Parameters
    ----------
    features : mapping of str to (ids, starts)
        The features `targets`, and `inputs` if `has_inputs` is true, as for `bpejit.t2t.example_arrays.write_examples`.
    has_inputs, packed_length, spacing, queue_size, chop_long_sequences
        As for `bpejit.t2t.array_packing.pack_examples`.

    Returns
    -------
    dict of str to (ids, starts)
        The features that `pack_examples` yields: uint32 [ids] and int64 [n + 1].

    Raises
    ------
    CorpusError
        If a feature is missing or has the wrong type.
    OptionError
        If an option is out of range.

    Notes
    -----
    Some 3 ns per id, and 10 ns per example. Negative ids, and ids from 2^32 on, are packed by `pack_examples`, and are int64.
    """
    packed_length = arguments.whole_number("packed_length", packed_length, least=1)
    spacing = arguments.whole_number("spacing", spacing, least=0)
    queue_size = arguments.whole_number("queue_size", queue_size, least=1)
    if chop_long_sequences and has_inputs:
        raise OptionError("chop_long_sequences is True; expected False for examples with inputs: leave it out")
    names = ["targets", "inputs"] if has_inputs else ["targets"]
    given: dict[str, Lists] = {}
    for name in names:
        if name not in features:
            raise CorpusError(
                f"the examples have the features {shorten(list(features))}; expected {names}: generate examples with {name!r}"
            )
        given[name] = checked_lists(name, features[name], given["targets"][1].size - 1 if given else None)
    narrow = {name: ids_as_uint32(ids) for name, (ids, _) in given.items()}
    if any(ids is None for ids in narrow.values()):
        return _pack_any(given, has_inputs, packed_length, spacing, queue_size, chop_long_sequences)
    begins = {name: starts[:-1] for name, (_, starts) in given.items()}
    sizes = {name: np.diff(starts) for name, (_, starts) in given.items()}
    alone = np.zeros(sizes["targets"].size, dtype=np.uint8)
    if chop_long_sequences:
        begins["targets"], sizes["targets"], alone = _chopped(begins["targets"], sizes["targets"], packed_length)
    packs = np.empty(alone.size, dtype=np.int64)
    complete = np.empty(alone.size, dtype=np.int64)
    queue = np.empty(min(queue_size, max(alone.size, 1)), dtype=np.int64)
    n_packs = assign_packs(
        np.concatenate([sizes[name] for name in names]), alone, packed_length, spacing,
        queue, np.empty(len(names) * queue.size, dtype=np.int64), packs, complete,
    )  # fmt: skip
    places = np.empty(n_packs, dtype=np.int64)
    places[complete[:n_packs]] = np.arange(n_packs)
    packs = places[packs]
    order = np.argsort(packs, kind="stable")
    ordered = packs[order]
    n_members = np.bincount(packs, minlength=n_packs)
    found: dict[str, Lists] = {} if has_inputs else {"inputs": _single_inputs(n_packs)}
    for name in reversed(names):
        totals = np.bincount(packs, weights=sizes[name], minlength=n_packs).astype(np.int64) + spacing * (n_members - 1)
        starts = np.concatenate([[0], np.cumsum(totals, dtype=np.int64)])
        out, segments, positions = (np.zeros(int(starts[-1]), dtype=np.uint32) for _ in range(3))
        ids = as_array(narrow[name], np.uint32, "ids")
        own = as_array(begins[name], np.int64, "begins")
        fill_packs(ids, own, sizes[name], order, ordered, starts, spacing, out, segments, positions)
        for kind, values in (("", out), ("_segmentation", segments), ("_position", positions)):
            found[f"{name}{kind}"] = values, starts
    return found


def _single_inputs(n: int) -> Lists:
    """Return the inputs of examples that have only targets: a 0 for each."""
    return np.zeros(n, dtype=np.uint32), np.arange(n + 1, dtype=np.int64)


def _chopped(begins: Array, sizes: Array, packed_length: int) -> tuple[Array, Array, Array]:
    """Divide long examples. Return where the parts begin, their sizes, and 1 for each part of full length."""
    n_full = np.where(sizes > packed_length, sizes // packed_length, 0)
    owner = np.repeat(np.arange(sizes.size), n_full + 1)
    number = np.arange(owner.size) - np.repeat(np.cumsum(n_full + 1) - n_full - 1, n_full + 1)
    alone = number < n_full[owner]
    rest = sizes - n_full * packed_length
    return begins[owner] + number * packed_length, np.where(alone, packed_length, rest[owner]), alone.astype(np.uint8)


def _pack_any(given: dict[str, Lists], has_inputs: bool, *options: int) -> dict[str, Lists]:
    """Pack examples with ids of any size."""
    n = given["targets"][1].size - 1
    examples = (
        {name: ids[starts[number] : starts[number + 1]] for name, (ids, starts) in given.items()} for number in range(n)
    )
    packed = list(pack_examples(examples, has_inputs, options[0], options[1], options[2], bool(options[3])))
    names = sorted(packed[0]) if packed else sorted(given)
    return {
        name: (
            np.concatenate([np.zeros(0, dtype=np.int64), *(example[name] for example in packed)]),
            np.cumsum([0, *(example[name].size for example in packed)], dtype=np.int64),
        )
        for name in names
    }
