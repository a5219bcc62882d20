"""The tokens and merges of a vocabulary as arrays, with the interfaces of a dictionary and a sequence.

A dictionary of 50,000 tokens takes 20 ms, half of the time of loading them, and encoding needs only arrays. A tuple of 32,000
merges that training has made, and checking it, takes 15 ms, and saving needs only arrays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import numpy as np

from bpejit.arrays import Array, ByteStrings, matching

Key = TypeVar("Key")
Value = TypeVar("Value")


class ReadOnlyDict(dict[Key, Value]):
    """A `dict` whose methods for changes raise TypeError.

    In contrast to `types.MappingProxyType` it can be copied, pickled and written as JSON, and `dict()` of it takes a fifth of
    the time.
    """

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this dict is read-only; change a copy instead, as returned by dict() or copy()")

    __setitem__ = __delitem__ = __ior__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class PackedTokens(Mapping[int, bytes]):
    """A read-only mapping of ids to the bytes of tokens. The dictionary is made when more than single items are read.

    Parameters
    ----------
    strings : ByteStrings
        The tokens, all distinct.
    numbers : int64 [n]
        Their ids, in ascending order.
    source : bytes, optional
        A hash of the file that they were read from, which determines both arrays.
    """

    def __init__(self, strings: ByteStrings, numbers: Array, source: bytes | None = None) -> None:
        self.strings = strings
        self.numbers = numbers
        self.source = source

    @cached_property
    def _by_id(self) -> ReadOnlyDict[int, bytes]:
        return ReadOnlyDict(zip(self.numbers.tolist(), self.strings, strict=True))

    def single_bytes(self) -> set[int]:
        """Return the bytes that are tokens."""
        starts = self.strings.starts
        return set(self.strings.pool[starts[:-1][np.diff(starts) == 1]].tolist())

    def find(self, token: bytes) -> int | None:
        """Return the id of a token, or None. A dictionary would be faster, but making it takes as long as many searches."""
        starts = self.strings.starts
        places = matching(self.strings.pool, starts[:-1][np.diff(starts) == len(token)], token)
        return int(self.numbers[np.searchsorted(starts, places[0])]) if token and places.size else None

    def _find(self, key: object) -> int | None:
        """Return the index of an id, or None."""
        if not isinstance(key, (int, np.integer)):
            return None
        index = bisect_left(self.numbers.data, key)  # a third of the time of `np.searchsorted`
        return index if index < self.numbers.size and self.numbers[index] == key else None

    def __getitem__(self, key: int) -> bytes:
        index = self._find(key)
        if index is None:
            raise KeyError(key)
        return self.strings[index]

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def __len__(self) -> int:
        return int(self.numbers.size)

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_id)

    def keys(self) -> KeysView[int]:
        """Return the ids."""
        return self._by_id.keys()

    def values(self) -> ValuesView[bytes]:
        """Return the tokens in order of id."""
        return self._by_id.values()

    def items(self) -> ItemsView[int, bytes]:
        """Return the ids and tokens."""
        return self._by_id.items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedTokens):
            return np.array_equal(self.numbers, other.numbers) and self.strings == other.strings
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._by_id)

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError("these tokens are read-only; change a copy instead, as returned by dict()")

    __setitem__ = __delitem__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedTokens, (self.strings, self.numbers, self.source)


class PackedMerges(Sequence[tuple[bytes, bytes]]):
    """A read-only sequence of merges. The tuple of pairs is made when more than their number is read.

    It equals a tuple of the same pairs.

    Parameters
    ----------
    tokens : ByteStrings
        The tokens.
    lefts, rights : int32 [n]
        The indexes of the tokens of each pair.
    """

    def __init__(self, tokens: ByteStrings, lefts: Array, rights: Array) -> None:
        self.tokens = tokens
        self.lefts = lefts
        self.rights = rights

    def sides(self) -> ByteStrings:
        """Return the tokens of all pairs, one after the other."""
        return self.tokens.take(np.column_stack([self.lefts, self.rights]).ravel())

    @cached_property
    def pairs(self) -> tuple[tuple[bytes, bytes], ...]:
        """The pairs."""
        return tuple(pairs_of(list(self.tokens), self.lefts, self.rights))

    def __getitem__(self, index: Any) -> Any:
        return self.pairs[index]

    def __len__(self) -> int:
        return int(self.lefts.size)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self.pairs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedMerges):
            return self.sides() == other.sides()
        return self.pairs == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.pairs)  # as that of the tuple

    def __repr__(self) -> str:
        return repr(self.pairs)

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedMerges, (self.tokens, self.lefts, self.rights)


def pairs_of(tokens: list[bytes], lefts: Array, rights: Array) -> list[tuple[bytes, bytes]]:
    """Return pairs of tokens, given their indexes."""
    sides = (map(tokens.__getitem__, side.tolist()) for side in (lefts, rights))
    return list(zip(*sides, strict=True))


def pack_tokens(tokens: Mapping[int, bytes]) -> tuple[ByteStrings, Array]:
    """Return the tokens of a mapping, in its order, and their ids as int64 [n]."""
    if isinstance(tokens, PackedTokens):
        return tokens.strings, tokens.numbers
    return ByteStrings.from_list(list(tokens.values())), np.fromiter(tokens, dtype=np.int64, count=len(tokens))


def id_range(tokens: Mapping[int, bytes]) -> tuple[int, int]:
    """Return the smallest and the largest id of a mapping that is not empty."""
    if isinstance(tokens, PackedTokens):
        return int(tokens.numbers[0]), int(tokens.numbers[-1])
    return min(tokens), max(tokens)
