"""Make the arrays of a pattern and of special tokens that the kernels read (`kernels.splitting.automaton_arrays`).

Three things are computed when a pattern is loaded, and are not stored with its tables:

- *Groups of characters*: the tables of local rules over ASCII characters, as tables over groups of them, for AVX2.
- *Pages of classes*, small enough to be looked up in wide registers (`jit.simd.classify_characters`). A page is 64 consecutive
  code points: the characters of three bytes with the same first two, or of two bytes with the same first. Most pages have one
  class, so a table over pages is enough for nearly all Chinese and Korean characters. Sixteen others have tables of their own.
- *The separator between several texts that are split in one pass.* Splitting each text by itself takes a call, a search for
  special tokens and a cursor for each, four times as long as splitting 50 bytes within a longer text. Every transducer has a
  class that no character has, and that ends a text (`transducer.with_separator`). In the arrays of a `SeparatedAutomaton` the
  separator has this class; all other characters have the same classes as before. So the separators are pre-tokens, and the
  texts between them are split like separate texts. Texts that contain the separator cannot be split in this way.

Nothing of the compiler of patterns is imported.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.jit.dispatch import addresses_of
from bpejit.jit.simd import CONTEXT_SIZE
from bpejit.kernels.splitting.automaton_arrays import SplitAutomaton
from bpejit.splitting.pattern import SplitPattern, SplitTables
from bpejit.splitting.special_token_finder import SpecialTokenFinder

_MAX_GROUPS = 32
"""Limit on the groups of ASCII characters that the tables distinguish, for AVX2. The presets have 10 to 17."""

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

SEPARATOR = b"\x1f"
"""The character after each text: ASCII, since the rules for ASCII text are the fastest, and rare."""


def group_rules(rules: Array) -> Array:
    """Return the tables over ASCII characters as tables over groups of characters, for `jit.simd.match_groups`.

    Parameters
    ----------
    rules : uint8 [2 * sets * CONTEXT_SIZE * 128]
        From `bpejit.splitting.local_rules.make_rules`.

    Returns
    -------
    uint8 [128 + sets * CONTEXT_SIZE * width]
        The group of each character, then for each set and slot the boxes of each group. `width` is 16 or 32, the number of
        groups that AVX2 looks up with one or two instructions. Empty if there are no rules, or more than 32 groups.
    """
    if rules.size == 0:
        return np.zeros(0, np.uint8)
    tables = rules[: rules.size // 2].reshape(-1, 128)
    # `np.unique` imports `numpy.ma`, which takes longer than loading a vocabulary.
    columns = [column.tobytes() for column in tables.T]
    numbers = {column: number for number, column in enumerate(sorted({*columns}))}
    n_groups = len(numbers)
    if n_groups > _MAX_GROUPS:
        return np.zeros(0, np.uint8)
    width = _MAX_GROUPS // 2 if n_groups <= _MAX_GROUPS // 2 else _MAX_GROUPS
    padded = np.zeros((tables.shape[0], width), np.uint8)
    padded[:, :n_groups] = np.frombuffer(b"".join(numbers), np.uint8).reshape(n_groups, -1).T
    group = np.fromiter(map(numbers.__getitem__, columns), np.uint8, len(columns))
    return np.concatenate([group, padded.reshape(-1)])


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
    nodes = np.zeros((_N_NODES, _PAGE), np.uint8)
    common = [point // _PAGE for point in _COMMON_POINTS]
    mixed = [page for page in common if is_mixed[page]]
    for number, page in enumerate(mixed[:_N_NODES]):
        entries[page] = _NODE + number
        nodes[number] = by_page[page]
    leads = np.full(64, _ELSEWHERE, np.uint8)
    leads[2:32] = entries[2:32]  # C0 and C1 are never valid
    entries[:32] = _ELSEWHERE  # shorter forms are required
    entries[0xD800 // _PAGE : 0xE000 // _PAGE] = _ELSEWHERE
    return np.concatenate([class_of[:128], leads, entries, nodes.reshape(-1)])


class SeparatedAutomaton(NamedTuple):
    """The arrays that split texts with separators, and their addresses, as in `Splitter`."""

    automaton: SplitAutomaton
    addresses: Array


def separate(automaton: SplitAutomaton, tables: SplitTables) -> SeparatedAutomaton | None:
    """Return the arrays of a pattern in which SEPARATOR has the class of separators; None if the pattern has no such class."""
    if not tables.separator:
        return None
    code = SEPARATOR[0]
    class_of = automaton.class_of.copy()
    byte_class = automaton.byte_class.copy()
    pair_classes = automaton.pair_classes.copy()
    local_rules = automaton.local_rules.copy()
    class_of[code] = byte_class[code] = tables.separator
    pair_classes[[code, 128 + code]] = pair_classes[256:]
    if local_rules.size:
        over_characters, over_classes = local_rules.reshape(2, -1, CONTEXT_SIZE, 128)
        over_characters[:, :, code] = over_classes[:, :, tables.separator]
    separated = automaton._replace(
        class_of=class_of,
        byte_class=byte_class,
        pair_classes=pair_classes,
        local_rules=local_rules,
        group_rules=group_rules(local_rules),
        class_pages=class_pages(class_of, local_rules),
    )
    return SeparatedAutomaton(separated, addresses_of(separated))


def make_automaton(pattern: SplitPattern, finder: SpecialTokenFinder) -> SplitAutomaton | None:
    """Return the arrays of a pattern and of special tokens; None if the pattern runs through the `regex` package."""
    if pattern.tables is None:
        return None
    tables = pattern.tables
    safe = tables.safe
    if any(token.decode("utf-8", "ignore").encode() != token for token in finder.tokens):
        # Such a token may start or end within a character, where pairs of whole characters prove nothing.
        safe = np.zeros_like(safe)
    settings = np.array(
        [pattern.kind == "restart", tables.stride, finder.longest, tables.pair_shift, tables.cut_rules], np.int64
    )
    return SplitAutomaton(
        tables.table,
        tables.pair_table,
        tables.pair_classes,
        tables.class_of,
        tables.byte_class,
        safe,
        tables.local_rules,
        group_rules(tables.local_rules),
        class_pages(tables.class_of, tables.local_rules),
        settings,
        *finder.trie,
    )
