"""Records of arrays that are passed between the stages.

A record is a frozen dataclass of one-dimensional, C-contiguous arrays. Its constructor validates them and converts them to a
fixed dtype, so that each kernel is compiled for one signature only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bpejit.errors import CorpusError
from bpejit.kernels.common.byte_strings import copy_strings
from bpejit.kernels.common.integer_lists import lists_of
from bpejit.kernels.constants import MAX_TEXT_BYTES, TEXT_PADDING

Array = npt.NDArray[Any]


def as_array(value: Any, dtype: npt.DTypeLike, name: str) -> Array:
    """Return `value` as a one-dimensional, C-contiguous, writable array of exactly `dtype`.

    A read-only array is copied, because Numba would compile a second version of each kernel for it.

    Raises
    ------
    ValueError
        If `value` does not have one dimension, or has values that `dtype` cannot represent.
    """
    source = np.asarray(value)
    if source.ndim != 1:
        raise ValueError(f"{name} has {source.ndim} dimensions, expected 1")
    wanted = np.dtype(dtype)
    if source.dtype != wanted:
        if source.size and not np.can_cast(source.dtype, wanted) and not _holds(wanted, source):
            raise ValueError(f"{name} has values of type {source.dtype} that do not fit into {wanted}")
        source = source.astype(wanted)
    array = np.ascontiguousarray(source)
    return array if array.flags.writeable else array.copy()


def distinct(values: Array) -> Array:
    """Return the sorted distinct values of an array.

    `np.unique` does the same, but imports `numpy.ma`, which takes 50 ms.
    """
    ordered = np.sort(values, axis=None)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))]


def _holds(wanted: np.dtype[Any], source: Array) -> bool:
    """Return True if an integer dtype can represent all values of an array."""
    limits = np.iinfo(wanted)
    return source.dtype.kind in "iu" and limits.min <= int(source.min()) and int(source.max()) <= limits.max


def padded_text(data: bytes | bytearray | memoryview | Array) -> tuple[Array, int]:
    """Return a copy of `data` as a uint8 array, followed by the padding that kernels need, and the length of the text."""
    source = np.frombuffer(data, dtype=np.uint8)
    text = np.zeros(source.size + TEXT_PADDING, dtype=np.uint8)
    text[: source.size] = source
    return text, source.size


def too_long(n_bytes: int) -> CorpusError:
    """Return the error for a chunk of more than MAX_TEXT_BYTES, which is too long for the positions of the kernels."""
    return CorpusError(
        f"{n_bytes} bytes of text have no position where they may be cut; expected one within {MAX_TEXT_BYTES} bytes: "
        "put special tokens between the documents, or choose another split pattern"
    )


def lengths_of(values: Collection[Sized]) -> Array:
    """Return the length of each of several objects, as int64 [n]."""
    return np.fromiter(map(len, values), dtype=np.int64, count=len(values))


def starts_of(lengths: Array) -> Array:
    """Return where each of several adjacent ranges starts, and where the last one ends, as int64 [n + 1].

    Parameters
    ----------
    lengths : integers or booleans [n]
    """
    starts = np.zeros(lengths.size + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def ranges_of(begins: Array, lengths: Array) -> Array:
    """Return the numbers from each `begins[i]` to `begins[i] + lengths[i]`, one range after the other."""
    starts = starts_of(lengths)
    return np.repeat(begins - starts[:-1], lengths) + np.arange(starts[-1])


def matching(pool: Array, places: Array, string: Iterable[int]) -> Array:
    """Return those of some places of a pool at which a string is."""
    for offset, byte in enumerate(string):
        places = places[pool[places + offset] == byte]
    return places


def _check_starts(pool: Array, starts: Array, name: str) -> None:
    if starts.size == 0 or starts[0] != 0 or starts[-1] != pool.size or (np.diff(starts) < 0).any():
        raise ValueError(f"{name}: starts must begin with 0, never fall, and end with the size of the pool ({pool.size})")


_DTYPES = {
    "pool": np.uint8,
    "starts": np.int64,
    "counts": np.int64,
    "left": np.int32,
    "right": np.int32,
    "ids": np.uint32,
}
"""The dtype of each array of a record, by its name."""


class _Record:
    """Base class of records: arrays of fixed dtypes, and equality by content."""

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            object.__setattr__(self, name, as_array(value, _DTYPES[name], name))
        self._check()

    def _check(self) -> None:
        """Raise ValueError if arrays do not fit together."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(np.array_equal(value, vars(other)[name]) for name, value in vars(self).items())

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class ByteStrings(_Record):
    """A sequence of byte strings, packed end to end.

    String `i` is `pool[starts[i]:starts[i + 1]]`.

    Parameters
    ----------
    pool : uint8 [total bytes]
    starts : int64 [n + 1]
    """

    pool: Array
    starts: Array

    def _check(self) -> None:
        _check_starts(self.pool, self.starts, "byte strings")

    @classmethod
    def from_list(cls, strings: Sequence[bytes]) -> ByteStrings:
        """Pack a list of byte strings."""
        lengths = lengths_of(strings)
        return cls(np.frombuffer(b"".join(strings), dtype=np.uint8), starts_of(lengths))

    def take(self, places: Array) -> ByteStrings:
        """Return the strings at several indexes."""
        pool = np.empty(int(np.diff(self.starts)[places].sum()) + 8, np.uint8)
        starts = np.empty(places.size + 1, np.int64)
        copy_strings(self.pool, self.starts, places.astype(np.int64, copy=False), pool, starts)
        return ByteStrings(pool[: starts[-1]], starts)

    def joined(self, others: ByteStrings) -> ByteStrings:
        """Return these strings and then others."""
        starts = np.concatenate([self.starts, self.starts[-1] + others.starts[1:]])
        return ByteStrings(np.concatenate([self.pool, others.pool]), starts)

    def __len__(self) -> int:
        return int(self.starts.size - 1)

    def __getitem__(self, index: int) -> bytes:
        return bytes(self.pool[self.starts[index] : self.starts[index + 1]])

    def __iter__(self) -> Iterator[bytes]:
        data = self.pool.tobytes()
        starts = self.starts.tolist()
        return (data[start:end] for start, end in pairwise(starts))


@dataclass(frozen=True, eq=False)
class PretokenTable(_Record):
    """The distinct pre-tokens of a corpus and how often each occurs.

    Pre-token `i` is `pool[starts[i]:starts[i + 1]]` and occurs `counts[i]` times.

    Parameters
    ----------
    pool : uint8 [total bytes]
    starts : int64 [n + 1]
    counts : int64 [n]
    """

    pool: Array
    starts: Array
    counts: Array

    def _check(self) -> None:
        _check_starts(self.pool, self.starts, "pre-token table")
        if self.counts.size != self.starts.size - 1:
            raise ValueError(f"pre-token table: {self.counts.size} counts for {self.starts.size - 1} pre-tokens")

    def to_counts(self) -> dict[bytes, int]:
        """Return the table as a dict."""
        return dict(zip(ByteStrings(self.pool, self.starts), self.counts.tolist(), strict=True))

    def __len__(self) -> int:
        return int(self.counts.size)


@dataclass(frozen=True, eq=False)
class MergeTable(_Record):
    """Merges in order: merge `i` joins `left[i]` and `right[i]` into the internal token `256 + i`.

    Internal tokens 0..255 are the single bytes.

    Parameters
    ----------
    left, right : int32 [m]
    counts : int64 [m]
        How often the pair occurred when it was merged.
    """

    left: Array
    right: Array
    counts: Array

    def _check(self) -> None:
        if not self.left.size == self.right.size == self.counts.size:
            raise ValueError(f"merge table: {self.left.size} left, {self.right.size} right and {self.counts.size} counts")
        newest = np.arange(256, 256 + self.left.size)
        for side in (self.left, self.right):
            if side.size and ((side < 0) | (side >= newest)).any():
                raise ValueError("merge table: a merge uses a token that is made later")

    def __len__(self) -> int:
        return int(self.left.size)


@dataclass(frozen=True, eq=False)
class EncodedBatch(_Record):
    """The ids of several documents in one array. Document `i` is `ids[starts[i]:starts[i + 1]]`.

    Parameters
    ----------
    ids : uint32 [total ids]
    starts : int64 [documents + 1]
    """

    ids: Array
    starts: Array

    def _check(self) -> None:
        _check_starts(self.ids, self.starts, "encoded batch")

    def __len__(self) -> int:
        return int(self.starts.size - 1)

    def __getitem__(self, index: int) -> Array:
        return self.ids[self.starts[index] : self.starts[index + 1]]

    def __iter__(self) -> Iterator[Array]:
        return (self[index] for index in range(len(self)))

    def tolist(self) -> list[list[int]]:
        """Return the ids of each document as a list."""
        _check_starts(self.ids, self.starts, "encoded batch")  # once more: arrays can be changed, and `lists_of` trusts them
        return lists_of(self.ids, self.starts)


_STEP = 0x9E3779B97F4A7C15
_FACTORS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 1
_SHIFTS = 30, 27, 31
_WORD = (1 << 64) - 1


def random_numbers(numbers: Sequence[int], count: int, *, first: int = 0, state: int = 0) -> Array:
    """Return a hash of a state, of some numbers, and of each index from `first` on (SplitMix64).

    Returns
    -------
    uint64 [count]
        All are different, since the hash is a bijection of the index.
    """
    for number in numbers:
        state = state + (number + 1) * _STEP & _WORD
        for shift, factor in zip(_SHIFTS, _FACTORS, strict=True):
            state = (state ^ state >> shift) * factor & _WORD
    hashes = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    hashes *= np.uint64(_STEP)
    hashes += np.uint64(state)
    shifted = np.empty_like(hashes)
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=True):
        np.right_shift(hashes, np.uint64(shift), out=shifted)
        hashes ^= shifted
        hashes *= np.uint64(factor)
    return hashes
