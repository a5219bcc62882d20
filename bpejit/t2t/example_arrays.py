"""Examples as arrays: framed records of them, and packing of short examples.

Protocol buffers take some 5 microseconds for each example, and as long as that again for its objects; the kernels take 0.3. So
the kernels write records, and read what they have written.

The lists of a feature are one array: list i is `ids[starts[i]:starts[i + 1]]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, as_array, lengths_of, ranges_of, starts_of
from bpejit.errors import CorpusError, shorten
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.kernels.t2t import record_reading
from bpejit.kernels.t2t.example_packing import assign_packs, fill_packs
from bpejit.kernels.t2t.record_writing import FRAME_BYTES, SIZE_BYTES, TAG_1, put_examples
from bpejit.t2t.tfrecords import complete_records, crc_tables, order_records

Lists = tuple[Array, Array]
"""The lists of one feature: integers [ids], and `starts` int64 [n + 1]."""

Examples = Mapping[str, Lists]
"""The lists of each feature, all with the same number of lists."""

_VARINT_BYTES = 10
"""The most bytes of an integer in a record."""

MAX_RECORD_BYTES = 1 << 31
"""Protocol buffers read messages that are smaller than this."""


def _key_fields(names: list[str]) -> tuple[Array, Array]:
    """Return the field of each name in an entry, padded, and where each starts."""
    fields = []
    for name in names:
        data = name.encode()
        size, varint = len(data), bytearray()
        while size >= 0x80:
            varint.append(size & 0x7F | 0x80)
            size >>= 7
        fields.append(bytes([int(TAG_1)]) + bytes([*varint, size]) + data)
    starts = starts_of(lengths_of(fields))
    return np.frombuffer(bytearray(b"".join(fields) + bytes(TEXT_PADDING)), np.uint8), starts


def write_examples(features: Examples) -> tuple[Array, Array]:
    """Return the framed records of examples, as protocol buffers write them.

    Parameters
    ----------
    features : mapping of str to (ids, starts)
        For each feature integers of any type below 2^63, and int64 [n + 1]. No list is empty.

    Returns
    -------
    data : uint8 [bytes]
        Part of a TFRecord file. TEXT_PADDING bytes follow in the same memory.
    starts : int64 [n + 1]
        Record i is `data[starts[i]:starts[i + 1]]`.

    Raises
    ------
    CorpusError
        If there are no features, a name is not text, or an example is too large.
    """
    try:
        names = sorted(features, key=str.encode)  # the order of protocol buffers
        lists = [features[name] for name in names]
        n_lists = lists[0][1].size - 1
    except (IndexError, TypeError, UnicodeEncodeError) as cause:
        raise CorpusError(
            f"the features are {shorten(features)}; expected at least one, with a name that is text: add one, or choose other "
            "names"
        ) from cause
    ids = np.concatenate([part for part, _ in lists], dtype=np.int64, casting="unsafe")
    offsets = np.cumsum([0, *(part.size for part, _ in lists[:-1])])
    starts = np.concatenate([own + offset for (_, own), offset in zip(lists, offsets, strict=True)])
    keys, key_starts = _key_fields(names)
    most = n_lists * (FRAME_BYTES + SIZE_BYTES + keys.size + 4 * SIZE_BYTES * len(names)) + ids.size * _VARINT_BYTES
    data = np.empty(most + TEXT_PADDING, np.uint8)  # memory that is not written to is not taken from the system
    record_starts = np.zeros(n_lists + 1, np.int64)
    scratch = np.zeros(len(names), np.uint64)
    put_examples(ids, starts, keys, key_starts, crc_tables(), scratch, record_starts, data)
    if n_lists and int(np.diff(record_starts).max()) - FRAME_BYTES >= MAX_RECORD_BYTES:
        longest = int(np.diff(record_starts).argmax())
        raise CorpusError(
            f"example {longest:,} has {record_starts[longest + 1] - record_starts[longest]:,} bytes; expected less than "
            f"{MAX_RECORD_BYTES:,}, the limit of protocol buffers: divide it"
        )
    return data[: record_starts[-1]], record_starts


def read_examples(data: Array, starts: Array, names: Sequence[str]) -> dict[str, Lists]:
    """Return the features of framed records that `write_examples` made.

    Parameters
    ----------
    data : uint8 [bytes]
    starts : int64 [n + 1]
    names : sequence of str
        The features of all examples.

    Returns
    -------
    dict of str to (ids, starts)
        Both int64, in the order of the names as bytes.

    Raises
    ------
    CorpusError
        If an example has other features.
    """
    n = starts.size - 1
    names = sorted(names, key=str.encode)
    keys, key_starts = _key_fields(names)
    bounds = np.zeros(len(names) * n * 2, np.int64)
    counts = np.zeros(len(names) * n, np.int64)
    if record_reading.find_lists(data, starts, keys, key_starts, bounds, counts) >= 0:
        raise CorpusError(
            f"an example does not have the features {shorten(names)}, or has others; expected the same ones in all examples: "
            "add them, or choose the record format tfrecord"
        )
    features = {}
    for number, name in enumerate(names):
        own = slice(number * n, (number + 1) * n)
        list_starts = starts_of(counts[own])
        ids = np.empty(int(list_starts[-1]), np.int64)
        record_reading.decode_varints(data, bounds[2 * own.start : 2 * own.stop], ids)
        features[name] = ids, list_starts
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
        The features `targets`, and `inputs` if `has_inputs` is true, as for `write_examples`.
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
    OptionError
        If an option is out of range.

    Notes
    -----
    Some 3 ns per id, and 10 ns per example.
    """
    packed_length = arguments.whole_number("packed_length", packed_length, least=1)
    spacing = arguments.whole_number("spacing", spacing, least=0)
    queue_size = arguments.whole_number("queue_size", queue_size, least=1)
    names = ["targets", "inputs"] if has_inputs else ["targets"]
    ids: dict[str, Array] = {}
    begins: dict[str, Array] = {}
    sizes: dict[str, Array] = {}
    for name in names:
        ids[name], starts = features[name]
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
        outs = {}
        for kind in ("", "_segmentation", "_position"):
            outs[f"{name}{kind}"] = np.zeros(int(starts[-1]), np.uint32 if kind else np.int64)
        own = as_array(ids[name], np.int64, "ids")
        fill_packs(own, begins[name], sizes[name], order, ordered, starts, spacing, *outs.values())
        found |= {key: (values, starts) for key, values in outs.items()}
    return found


def _chopped(begins: Array, sizes: Array, packed_length: int) -> tuple[Array, Array, Array]:
    """Divide long examples. Return where the parts begin, their sizes, and 1 for each part of full length."""
    n_full = np.where(sizes > packed_length, sizes // packed_length, 0)
    owner = np.repeat(np.arange(sizes.size), n_full + 1)
    number = ranges_of(np.zeros_like(n_full), n_full + 1)
    alone = number < n_full[owner]
    rest = sizes - n_full * packed_length
    return begins[owner] + number * packed_length, np.where(alone, packed_length, rest[owner]), alone.astype(np.uint8)


def warm_records() -> None:
    """Call the kernels of this module, without protocol buffers, so that `bpejit.warmup` compiles them."""
    data, starts = write_examples({"a": (np.ones(2, np.int64), np.arange(3))})
    read_examples(data, complete_records(data, data.size)[0], ["a"])
    order_records(data, starts, starts[:0])
