"""Special tokens in raw bytes: leftmost first, and the longest of those that begin at one place.

A trie in flat arrays (see `arrays.SplitAutomaton`) holds them, so that their number does not matter. Where all begin with
the same byte, as they usually do, ordinary text is passed over in blocks; it helps further if they share the second byte:
`<` is common in code, `<|` is not.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.kernels._constants import LONGEST_SPECIAL
from bpejit.kernels.memory import load_u64

_BLOCK = 64
_LOW_BITS = np.uint64(0x7F7F_7F7F_7F7F_7F7F)
_ALL_BITS = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@inline
def longest_special(text, position, stop, automaton):
    """Return the end of the longest special token that begins at `position` (0: none), and whether `stop` hid a longer one."""
    found = 0
    node = np.int64(automaton.trie_roots[text[position]])
    at = position + 1
    while node >= 0:
        if automaton.trie_ends[node]:
            found = at
        child = np.int64(automaton.trie_children[node])
        after = np.int64(automaton.trie_children[node + 1])
        if child == after:
            return found, False
        if at == stop:
            return found, True
        # The children of a node are in order of their bytes.
        byte = text[at]
        while after - child > 1:
            middle = (child + after) >> 1
            if automaton.trie_labels[middle] <= byte:
                child = middle
            else:
                after = middle
        node = child if automaton.trie_labels[child] == byte else -1
        at += 1
    return found, False


@inline
def _none_begins(text, position, n_bytes, needles):
    """Whether special tokens begin otherwise than the text at each of `n_bytes` places (a multiple of 8)."""
    clean = _ALL_BITS
    for i in range(0, n_bytes, 8):
        word = load_u64(text, position + i) ^ needles[0] | (load_u64(text, position + i + 1) ^ needles[1]) & needles[2]
        # A byte of `word` that is 0 is the only one whose high bit stays 0.
        clean &= ((word & _LOW_BITS) + _LOW_BITS) | word | _LOW_BITS
    return clean == _ALL_BITS


@inline
def next_special(text, start, end, stop, final, automaton):
    """Look for a special token that begins in `start:end`.

    Returns
    -------
    begin, after : int
        The token found. With `after` 0 none begins before `begin`; if that is less than `end`, one may begin there, and
        more text is needed to tell.
    """
    if automaton.settings[LONGEST_SPECIAL] == 0:
        return end, 0
    needles = automaton.needles
    roots = automaton.trie_roots
    # The second byte of the last place must be text as well.
    blocks_end = min(end, stop - 1)
    position = start
    while position < end:
        checked_end = end
        if needles.size:
            while position + _BLOCK <= blocks_end and _none_begins(text, position, _BLOCK, needles):
                position += _BLOCK
            while position + 8 <= blocks_end and _none_begins(text, position, 8, needles):
                position += 8
            checked_end = min(position + 8, end)
        while position < checked_end:
            # A signed index would cost a test for each byte.
            if roots[text[np.uint64(position)]] >= 0:
                after, hidden = longest_special(text, position, stop, automaton)
                if hidden and not final:
                    return position, 0
                if after:
                    return position, after
            position += 1
    return end, 0
