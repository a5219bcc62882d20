"""The normalizer of SentencePiece models, which has four steps in one pass.

1. At each position, the longest user-defined symbol is left as it is; otherwise the longest key of a compiled map is replaced;
   otherwise a character is left as it is, and a byte that is not UTF-8 becomes U+FFFD. Each of these is a *unit*.
2. Of adjacent spaces all but the first are removed, and so are those at the ends, if the model says so.
3. A space is inserted before the text.
4. Spaces become `▁`. If that is a piece, it is `▁` that becomes a space here, as in the tokens of models with symbols.

Text that no step changes is recognized by an array with a few bits for each character.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from bpejit.arrays import Array, ranges_of, starts_of
from bpejit.normalization.alignment import Sources
from bpejit.normalization.json_fields import Fields, refused
from bpejit.utf8 import code_points, has_surrogates, widths

SPACE = "\u2581"

_SPACE, _MARK = ord(" "), ord(SPACE)

_AGAIN = "get the model again"

_LONGEST_KEY = 32
"""Bytes of the longest key of a map. SentencePiece finds up to 32 keys at a position, and takes the longest of them."""

_MOST_KEYS = 1 << 20

_SHORT = 1 << 10
"""Characters of a text that takes less time without arrays."""

_SPACES = re.compile("  +")

_CHANGED, _BEGINS, _FOLLOWS = np.uint8(1), np.uint8(2), np.uint8(4)
"""Bits of a character: it is a key with another value; it begins a key of several; it is the second of such a key."""


@lru_cache(maxsize=4)
def read_map(charsmap: str, path: str) -> dict[str, str]:
    """Return the keys and values of a `precompiled_charsmap` in base64.

    It has the size of a trie, the trie, and the values, each with a zero byte at its end. A unit of the trie, which is a double
    array, has a byte in bits 0 to 7, the distance to its children in bits 10 to 30, in units of 256 if bit 9 is set, and bit 8
    if it ends a key, whose value is then in the child of byte 0, a unit with bit 31.

    Raises
    ------
    TokenizerFormatError
        If it is broken.
    """
    data = base64.b64decode(charsmap)
    size = int.from_bytes(data[:4], "little")
    values = data[4 + size :]
    if data and (size % 1024 or not size or not values.endswith(b"\0")):
        raise refused(path, f"has {len(data)} bytes and a trie of {size}", _AGAIN)
    units = np.frombuffer(data[4 : 4 + size], "<u4").astype(np.int64)
    offsets, labels = units >> 10 << ((units & 0x200) >> 6), units & 0x800000FF
    is_node = labels < 0x100
    at = np.arange(units.size) ^ offsets
    wrong = is_node & (at | 0xFF >= units.size) | ~is_node & (units & 0x7FFFFFFF >= len(values))
    wrong[:1] |= labels[:1] | units[:1] & 0x100 | (offsets[:1] == 0) != 0
    ends = np.flatnonzero(is_node & (units & 0x100 != 0) & ~wrong)
    if wrong.any() or is_node[at[ends]].any():
        raise refused(path, "has a broken trie", _AGAIN)
    children = np.flatnonzero(is_node)
    order = np.argsort(children ^ labels[children], kind="stable")
    children = children[order]
    parents = children ^ labels[children]
    found: dict[str, str] = {}
    nodes, keys = offsets[:1], np.zeros((offsets[:1].size, 0), np.uint8)
    try:
        while nodes.size:
            first = np.searchsorted(parents, nodes)
            counts = np.searchsorted(parents, nodes, side="right") - first
            at = children[ranges_of(first, counts)]
            keys = np.column_stack([np.repeat(keys, counts, axis=0), (units[at] & 0xFF).astype(np.uint8)])
            nodes = at ^ offsets[at]
            if keys.shape[1] > _LONGEST_KEY or len(found) + len(keys) > _MOST_KEYS:
                raise refused(path, f"has keys of more than {_LONGEST_KEY} bytes, or a loop", _AGAIN)
            for row in np.flatnonzero(units[at] & 0x100).tolist():
                value = units[nodes[row]] & 0x7FFFFFFF
                found[keys[row].tobytes().decode()] = values[value : values.index(b"\0", value)].decode()
    except (IndexError, ValueError) as cause:
        raise refused(path, f"is broken: {cause}", _AGAIN) from cause
    return found


@dataclass(frozen=True)
class Spacing:
    """How a text is normalized.

    Parameters
    ----------
    values : mapping of str to str
        The values of keys, of which the longest is replaced; user-defined symbols are their own values.
    prefix : bool
        Whether a space is inserted before a text that is not empty.
    removes : bool
        Whether spaces are removed. No value has two adjacent ones then.
    space : str
        What `▁` and a space become: one of the two; empty if they stay.
    """

    values: Mapping[str, str]
    prefix: bool
    removes: bool
    space: str

    @cached_property
    def _table(self) -> dict[int, str]:
        """The values of the characters that change, in order."""
        found = dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd")
        found |= {ord(key): value for key, value in self.values.items() if len(key) == 1 and key != value}
        return dict(sorted(found.items()))

    @cached_property
    def _singles(self) -> tuple[Array, Array, Array]:
        """The characters that change, in order, the starts of their values, and the values."""
        values = [*self._table.values()]
        return np.array([*self._table]), starts_of(np.array([*map(len, values)])), code_points("".join(values))

    @cached_property
    def _kinds(self) -> Array:
        """The bits of each character, uint8 [0x110000]."""
        kinds = np.zeros(0x110000, np.uint8)
        kinds[self._singles[0]] = _CHANGED
        for bit, place in ((_BEGINS, 0), (_FOLLOWS, 1)):
            kinds[[ord(key[place]) for key in self.values if len(key) > 1]] |= bit
        return kinds

    @cached_property
    def _sizes(self) -> dict[str, list[int]]:
        """The lengths of keys by first character, longest first."""
        found: dict[str, set[int]] = {}
        for key in self.values:
            found.setdefault(key[0], set()).add(len(key))
        return {first: sorted(some, reverse=True) for first, some in found.items()}

    def _mapped(self, text: str) -> tuple[Array, Array, Array]:
        """Return the code points after the first step, and what becomes of each character.

        That is the number of its code points, int64 [characters], and whether it is in a unit that began before it, bool.
        """
        points = code_points(text)
        kinds = self._kinds[points]
        sizes, inner = np.ones(points.size, np.int64), np.zeros(points.size, np.bool_)
        changed = np.flatnonzero(kinds & _CHANGED)
        several = []
        done = 0
        for at in np.flatnonzero((kinds[:-1] & _BEGINS != 0) & (kinds[1:] & _FOLLOWS != 0)).tolist():
            size = next((one for one in self._sizes[text[at]] if text[at : at + one] in self.values), 1) if at >= done else 1
            if size > 1:
                done = at + size
                several.append((at, self.values[text[at:done]]))
                inner[at + 1 : done] = True
                sizes[at:done] = 0
        if not (several or changed.size):
            return points, sizes, inner
        changed = changed[sizes[changed] > 0]
        singles, starts, values = self._singles
        index = np.searchsorted(singles, points[changed])
        sizes[changed] = np.diff(starts)[index]
        for at, value in several:
            sizes[at] = len(value)
        begins = starts_of(sizes)
        result = np.repeat(points, sizes)
        result[ranges_of(begins[changed], sizes[changed])] = values[ranges_of(starts[index], sizes[changed])]
        for at, value in several:
            result[begins[at] : begins[at] + len(value)] = code_points(value)
        return result, sizes, inner

    def _spaced(self, points: Array, *, is_empty: bool) -> tuple[Array, Array, int]:
        """Return the code points after the other steps, which of `points` are kept, and where spaces at the end begin."""
        kept = np.ones(points.size, np.bool_)
        stop = points.size
        is_space = points == _SPACE
        if self.removes:
            kept[1:] = ~(is_space[1:] & is_space[:-1])
            kept[:1] = ~is_space[:1]
            solid = np.flatnonzero(~(is_space | (points == _MARK)) if self.space else ~is_space)
            last = int(solid[-1]) + 1 if solid.size else 0
            stop = last + int(kept[last:].argmax()) if kept[last:].any() else stop
            kept[last:] = False
        result = points[kept]
        if self.prefix and not is_empty and (result.size or not self.removes):
            result = np.append(_SPACE, result)
        if self.space:
            result = np.where((result == _MARK) | (result == _SPACE), ord(self.space), result)
        return result, kept, stop

    @cached_property
    def _seconds(self) -> frozenset[str]:
        """The second characters of keys of several; a text without any of them is changed character by character."""
        several = (
            key for key, value in self.values.items() if len(key) > 1 and (key != value or key.translate(self._table) != key)
        )
        return frozenset(key[1] for key in several)

    def _short(self, text: str) -> str:
        """Return a normalized text that has none of `_seconds`: for short ones, in a fifth of the time."""
        result = text.translate(self._table) if self.values or has_surrogates(text) else text
        if self.removes:
            result = _SPACES.sub(" ", result).lstrip(" ").rstrip(f" {SPACE}" if self.space else " ")
        if self.prefix and text and (result or not self.removes):
            result = f" {result}"
        return result.replace(SPACE if self.space == " " else " ", self.space) if self.space else result

    def __call__(self, text: str) -> str:
        """Return a normalized text."""
        if len(text) <= _SHORT and (not self._seconds or self._seconds.isdisjoint(text)):
            return self._short(text)
        points, _, _ = self._spaced(self._mapped(text)[0], is_empty=not text)
        return points.astype("<u4").tobytes().decode("utf-32-le")

    def encoded(self, data: bytes) -> bytes:
        """Return a normalized text in UTF-8."""
        return self(data.decode("utf-8", "surrogateescape")).encode()

    def sources(self, text: str) -> Sources:
        """Return the first characters of the units that the normalized text comes from."""
        of = self._origins(text)[:-1]
        return Sources(of, of, of)

    def byte_ranges(self, text: str, normalized: str) -> tuple[Array, Array]:
        """Return the starts and ends of the bytes of a text that each byte of the normalized one maps to.

        In SentencePiece, a token covers the text from the unit of its first byte up to the unit of the byte after it.
        """
        of = self._origins(text)
        starts = starts_of(widths(text))[np.append(np.repeat(of[:-1], widths(normalized)), of[-1])]
        return starts[:-1], starts[1:]

    def _origins(self, text: str) -> Array:
        """Return the first character of the unit of each normalized character, and where the last ends, int64."""
        points, sizes, inner = self._mapped(text)
        result, kept, stop = self._spaced(points, is_empty=not text)
        of = np.append(np.repeat(np.arange(sizes.size), sizes), sizes.size)
        end, of = of[stop], of[:-1][kept]
        if result.size > of.size:  # the inserted space comes from the first unit that is not a space
            units = np.flatnonzero(~inner)
            begins = np.append(points, 0)[starts_of(sizes)[units]]
            of = np.append(units[(begins != _SPACE) | (sizes[units] != 1)][0] if self.removes else 0, of)
        return np.append(of, end)


def read_spacing(fields: Fields) -> Spacing:
    """Read the settings of a model, as the reader of its format writes them.

    Raises
    ------
    TokenizerFormatError
        If they are broken, or the result would not be exact.
    """
    path = fields.inner("precompiled_charsmap")
    values = read_map(fields.take("precompiled_charsmap", str), path)
    symbols = {symbol: symbol for symbol in fields.take("user_defined_symbols", list)}
    # Where a symbol begins, a longer key does not count.
    lengths = sorted({*map(len, symbols)})
    values = {key: value for key, value in values.items() if not any(key[:size] in symbols for size in lengths)} | symbols
    adds, removes = (fields.take(name, bool) for name in ("add_dummy_prefix", "remove_extra_whitespaces"))
    spacing = Spacing(values, adds, removes, fields.take("space", str))
    spaced = [value for value in spacing.values.values() if "  " in value] if spacing.removes else []
    if spaced:
        raise refused(path, f"makes {spaced[0]!r} with two spaces, which are removed elsewhere", "encode with `sentencepiece`")
    return spacing
