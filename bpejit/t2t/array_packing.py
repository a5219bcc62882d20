"""Packing of short examples that are arrays, with the results of `bpejit.t2t.packing.pack_examples`, by kernels."""

from __future__ import annotations

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, as_array
from bpejit.errors import CorpusError, OptionError, shorten
from bpejit.kernels.t2t.example_packing import assign_packs, fill_packs
from bpejit.t2t.example_arrays import Examples, Lists, checked_lists, ids_as_uint32
from bpejit.t2t.packing import pack_examples


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
        As for `bpejit.t2t.packing.pack_examples`.

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
