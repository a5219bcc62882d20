"""Tables of character classes that are small enough to be looked up in wide registers, for `jit.simd.classify_characters`.

A page is 64 consecutive code points: the characters of three bytes with the same first two, or of two bytes with the same
first. Most pages have one class, so a table over pages is enough for nearly all Chinese and Korean characters. Sixteen of the
other pages have tables of their own.

They are computed when a pattern is loaded, and stored tables do not contain them.
"""

from __future__ import annotations

import numpy as np

from bpejit.arrays import Array

_PAGE = 64

_ELSEWHERE = 0xFF
"""Entry of a page whose characters are looked up by code point, and of one that has no valid character."""

_NODE = 0x80
"""Added to the number of the table of a page."""

_N_NODES = 16

_COMMON_POINTS = (
    *(0x3000, 0x3040, 0x3080, 0x30C0, 0xFF00, 0xFF40, 0x2000, 0x2080),  # kana, punctuation
    *(0x80, 0xC0, 0x400, 0x440, 0x380, 0x3C0),  # Latin, Cyrillic, Greek
    *(0x600, 0x640, 0x5C0, 0x900, 0x940, 0xE00, 0xE40, 0x4DC0, 0x9FC0, 0xD780),  # Arabic, Hebrew, Devanagari, Thai, rare pages
)
"""The first code points of the pages that are the first to get tables, if they need them."""


def class_pages(class_of: Array, rules: Array) -> Array:
    """Return the classes of ASCII characters, of lead bytes, of pages, and of the characters of sixteen pages.

    Parameters
    ----------
    class_of : uint8 [0x110000]
        The class of each code point, below 128.
    rules : uint8[:]
        The local rules, which alone use these tables.

    Returns
    -------
    uint8 [128 + 64 + 1024 + 16 * 64] or [0]
        Classes of ASCII characters; then for each byte from 0xC0 on, and for each page of characters of three bytes, the class
        of its characters, or 0x80 plus the number of a table, or 0xFF; then these tables. Empty if there are no rules.
    """
    if rules.size == 0:
        return np.zeros(0, np.uint8)
    by_page = class_of[:0x10000].reshape(-1, _PAGE)
    is_mixed = (by_page != by_page[:, :1]).any(axis=1)
    entries = np.where(is_mixed, _ELSEWHERE, by_page[:, 0]).astype(np.uint8)
    nodes = np.zeros((_N_NODES, _PAGE), dtype=np.uint8)
    mixed = [point // _PAGE for point in _COMMON_POINTS if is_mixed[point // _PAGE]]
    for number, page in enumerate(mixed[:_N_NODES]):
        entries[page] = _NODE + number
        nodes[number] = by_page[page]
    leads = np.full(64, _ELSEWHERE, dtype=np.uint8)
    leads[2:32] = entries[2:32]  # C0 and C1 are never valid
    entries[:32] = _ELSEWHERE  # shorter forms are required
    entries[0xD800 // _PAGE : 0xE000 // _PAGE] = _ELSEWHERE
    return np.concatenate([class_of[:128], leads, entries, nodes.reshape(-1)])
