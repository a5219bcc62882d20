"""Packing of short examples by kernels, from arrays of all of them."""

from __future__ import annotations

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, as_array, ranges_of, starts_of
from bpejit.errors import CorpusError, OptionError, shorten
from bpejit.kernels.t2t.example_packing import assign_packs, fill_packs
from bpejit.t2t.example_arrays import Examples, Lists, checked_lists


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
    has_inputs : bool
        Without inputs, packed examples have the single input 0.
    packed_length : int
        Maximum length of packed inputs and of packed targets. A longer example remains alone.
    spacing : int
        Number of zeros between two examples.
    queue_size : int
        Number of incomplete packed examples. An example is added to the first one in which it fits; if there is none, the first
        is complete.
    chop_long_sequences : bool
        Whether to divide longer targets. Not for examples with inputs.

    Returns
    -------
    dict of str to (ids, starts)
        `targets`, int64 [ids]; `targets_segmentation`, the number of the original example at each position, from 1, and 0 for
        spacing; `targets_position`, the position in the original example, both uint32 [ids]; and the same for `inputs` if
        `has_inputs` is true. The starts are int64 [n + 1].

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
    packed_length = arguments.whole_number("packed_length", packed_length, least=1)
    spacing = arguments.whole_number("spacing", spacing, least=0)
    queue_size = arguments.whole_number("queue_size", queue_size, least=1)
    if chop_long_sequences and has_inputs:
        raise OptionError("chop_long_sequences is True; expected False for examples with inputs: leave it out")
    names = ["targets", "inputs"] if has_inputs else ["targets"]
    ids: dict[str, Array] = {}
    begins: dict[str, Array] = {}
    sizes: dict[str, Array] = {}
    for name in names:
        if name not in features:
            raise CorpusError(
                f"the examples have the features {shorten(list(features))}; expected {names}: generate examples with {name!r}"
            )
        ids[name], starts = checked_lists(name, features[name], sizes["targets"].size if sizes else None)
        begins[name], sizes[name] = starts[:-1], np.diff(starts)
    alone = np.zeros(sizes["targets"].size, np.uint8)
    if chop_long_sequences:
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
    if not has_inputs:
        found["inputs"] = np.zeros(n_packs, np.int64), np.arange(n_packs + 1)  # a 0 for each
    for name in reversed(names):
        totals = np.bincount(packs, weights=sizes[name], minlength=n_packs).astype(np.int64) + spacing * (n_members - 1)
        starts = starts_of(totals)
        own = as_array(begins[name], np.int64, "begins")
        outs = {kind: np.zeros(int(starts[-1]), np.uint32 if kind else np.int64) for kind in ("", "_segmentation", "_position")}
        fill_packs(as_array(ids[name], np.int64, "ids"), own, sizes[name], order, ordered, starts, spacing, *outs.values())
        found |= {f"{name}{kind}": (values, starts) for kind, values in outs.items()}
    return found


def _chopped(begins: Array, sizes: Array, packed_length: int) -> tuple[Array, Array, Array]:
    """Divide long examples. Return where the parts begin, their sizes, and 1 for each part of full length."""
    n_full = np.where(sizes > packed_length, sizes // packed_length, 0)
    owner = np.repeat(np.arange(sizes.size), n_full + 1)
    number = ranges_of(np.zeros_like(n_full), n_full + 1)
    alone = number < n_full[owner]
    rest = sizes - n_full * packed_length
    return begins[owner] + number * packed_length, np.where(alone, packed_length, rest[owner]), alone.astype(np.uint8)
