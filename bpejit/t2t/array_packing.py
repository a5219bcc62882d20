"""Packing of short examples by kernels: examples that arrive one by one, in batches, or arrays of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, as_array, lengths_of, ranges_of, starts_of
from bpejit.errors import CorpusError, OptionError, shorten
from bpejit.kernels.t2t.example_packing import assign_packs, fill_packs
from bpejit.t2t.example_arrays import Examples, Lists, checked_lists

Example = dict[str, Array]

_BATCH = 1 << 12
"""Number of examples that `pack_examples` packs at a time."""


class _Options(NamedTuple):
    """Checked options, and the names of the features; see `pack_examples`."""

    names: list[str]
    packed_length: int
    spacing: int
    queue_size: int
    chops: bool


def _checked(has_inputs: bool, packed_length: int, spacing: int, queue_size: int, chops: bool) -> _Options:
    packed_length = arguments.whole_number("packed_length", packed_length, least=1)
    spacing = arguments.whole_number("spacing", spacing, least=0)
    queue_size = arguments.whole_number("queue_size", queue_size, least=1)
    if chops and has_inputs:
        raise OptionError("chop_long_sequences is True; expected False for examples with inputs: leave it out")
    return _Options(["targets", "inputs"] if has_inputs else ["targets"], packed_length, spacing, queue_size, chops)


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
    options = _checked(has_inputs, packed_length, spacing, queue_size, chop_long_sequences)
    return _pack_batches(iter(examples), options)


def _pack_batches(examples: Iterator[Mapping[str, Iterable[int]]], options: _Options) -> Iterator[Example]:
    """Yield packed examples. Those that are not complete at the end of a batch are packed again with the next one."""
    names = options.names
    rows: list[list[Array]] = []
    at_end = False
    while not at_end:
        batch = list(islice(examples, _BATCH))
        at_end = not batch
        for example in batch:
            for name in names:
                if name not in example:
                    raise _missing(name, f"an example has the features {shorten(list(example))}; expected {names}")
            rows.append([np.asarray(example[name], np.int64) for name in names])
        lists = {}
        for number, name in enumerate(names):
            own = [row[number] for row in rows]
            ids = np.concatenate([np.zeros(0, np.int64), *own])
            lists[name] = ids, starts_of(lengths_of(own))
        found, packs, parts, n_open = _pack(lists, options)
        n_complete = found["targets"][1].size - 1 - (0 if at_end else n_open)
        for place in range(n_complete):
            yield {name: ids[starts[place] : starts[place + 1]].astype(np.int64) for name, (ids, starts) in found.items()}
        rows = [
            [ids[begins[part] : begins[part] + sizes[part]] for ids, begins, sizes in parts]
            for part in np.flatnonzero(packs >= n_complete).tolist()
        ]


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
        The features that `pack_examples` yields: `targets` and `inputs` are int64 [ids], the others uint32 [ids]; and starts
        int64 [n + 1].

    Raises
    ------
    CorpusError
        If a feature is missing or has the wrong type.
    OptionError
        If an option is out of range.

    Notes
    -----
    Some 3 ns per id, and 10 ns per example.
    """
    options = _checked(has_inputs, packed_length, spacing, queue_size, chop_long_sequences)
    given: dict[str, Lists] = {}
    for name in options.names:
        if name not in features:
            raise _missing(name, f"the examples have the features {shorten(list(features))}; expected {options.names}")
        given[name] = checked_lists(name, features[name], given["targets"][1].size - 1 if given else None)
    return _pack(given, options)[0]


def _missing(name: str, found: str) -> CorpusError:
    return CorpusError(f"{found}: generate examples with {name!r}")


def _pack(
    given: dict[str, Lists],
    options: _Options,
) -> tuple[dict[str, Lists], Array, list[tuple[Array, Array, Array]], int]:
    """Pack examples.

    Returns
    -------
    features : dict of str to (ids, starts)
        In the order in which the packed examples are complete.
    packs : int64 [parts]
        The packed example of each example, or of each part of a divided one.
    parts : list of (ids, begins, sizes)
        For each feature its ids, and where the ids of the parts are.
    n_open : int
        How many packed examples, the last ones, are complete only because no other example follows.
    """
    names, packed_length, spacing, queue_size, chops = options
    begins = {name: starts[:-1] for name, (_, starts) in given.items()}
    sizes = {name: np.diff(starts) for name, (_, starts) in given.items()}
    alone = np.zeros(sizes["targets"].size, np.uint8)
    if chops:
        begins["targets"], sizes["targets"], alone = _chopped(begins["targets"], sizes["targets"], packed_length)
    packs = np.empty(alone.size, np.int64)
    complete = np.empty(alone.size, np.int64)
    queue = np.empty(min(queue_size, max(alone.size, 1)), np.int64)
    n_packs = assign_packs(
        np.concatenate([sizes[name] for name in names]), alone, packed_length, spacing,
        queue, np.empty(len(names) * queue.size, np.int64), packs, complete,
    )  # fmt: skip
    places = np.empty(n_packs, np.int64)
    places[complete[:n_packs]] = np.arange(n_packs)
    packs = places[packs]
    order = np.argsort(packs, kind="stable")
    ordered = packs[order]
    n_members = np.bincount(packs, minlength=n_packs)
    found: dict[str, Lists] = {}
    if len(names) == 1:
        found["inputs"] = np.zeros(n_packs, np.int64), np.arange(n_packs + 1)  # a 0 for each
    for name in reversed(names):
        totals = np.bincount(packs, weights=sizes[name], minlength=n_packs).astype(np.int64) + spacing * (n_members - 1)
        starts = starts_of(totals)
        own = as_array(begins[name], np.int64, "begins")
        outs = {kind: np.zeros(int(starts[-1]), np.uint32 if kind else np.int64) for kind in ("", "_segmentation", "_position")}
        fill_packs(as_array(given[name][0], np.int64, "ids"), own, sizes[name], order, ordered, starts, spacing, *outs.values())
        found |= {f"{name}{kind}": (values, starts) for kind, values in outs.items()}
    parts = [(given[name][0], begins[name], sizes[name]) for name in names]
    return found, packs, parts, min(queue_size, n_packs - int(alone.sum()))


def _chopped(begins: Array, sizes: Array, packed_length: int) -> tuple[Array, Array, Array]:
    """Divide long examples. Return where the parts begin, their sizes, and 1 for each part of full length."""
    n_full = np.where(sizes > packed_length, sizes // packed_length, 0)
    owner = np.repeat(np.arange(sizes.size), n_full + 1)
    number = ranges_of(np.zeros_like(n_full), n_full + 1)
    alone = number < n_full[owner]
    rest = sizes - n_full * packed_length
    return begins[owner] + number * packed_length, np.where(alone, packed_length, rest[owner]), alone.astype(np.uint8)
