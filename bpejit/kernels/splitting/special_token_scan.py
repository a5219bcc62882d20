"""Find special tokens in bytes: leftmost first, and the longest of those at one position; and where a text may be cut.

An automaton in flat arrays (see `special_token_trie`) finds them in time linear in the text, for any number and length of
tokens. If all tokens start with the same byte, as they usually do, ordinary text is skipped in blocks. A shared second byte
helps further: `<` is common in code, `<|` is not.

The functions take the arrays of the automaton as fields of a record, which is a `SplitAutomaton` or a `SpecialTrie`.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64
from bpejit.kernels.common.characters import read_character
from bpejit.kernels.constants import LONGEST_SPECIAL, STRIDE
from bpejit.kernels.splitting.special_token_trie import (
    CHILDREN,
    DEPTH,
    FALL,
    FOUND_BEGIN,
    FOUND_END,
    FOUND_WORDS,
    LAST_FOUND,
    MATCH,
    NODE_WORDS,
    NUMBER,
    ROOT,
    SUFFIX,
    find_child,
    find_entry,
    follow_suffixes,
)

# Fields of the state of `split_spans` for the search of special tokens; the others are in `spans`.
SEARCH_NODE = 8
"""The current node of the search plus 1; 0 is the root."""
SEARCH_POSITION = 9
"""The next byte that the search reads."""
SEARCH_FOUND = 10
"""Number of special tokens that the fall of this node has yielded so far."""

_BLOCK = 64
_LOW_BITS = np.uint64(0x7F7F_7F7F_7F7F_7F7F)
_ALL_BITS = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@inline
def _none_begins(text, position, n_bytes, needles):
    """Return True if no special token starts at any of `n_bytes` positions (a multiple of 8)."""
    clean = _ALL_BITS
    for i in range(0, n_bytes, 8):
        word = load_u64(text, position + i) ^ needles[0] | (load_u64(text, position + i + 1) ^ needles[1]) & needles[2]
        # The high bit of a byte stays 0 only if the byte of `word` is 0.
        clean &= ((word & _LOW_BITS) + _LOW_BITS) | word | _LOW_BITS
    return clean == _ALL_BITS


@inline
def _next_begin(text, start, end, stop, automaton):
    """Return the first position in `start:end` whose byte starts a special token, or a position of at least `end`."""
    needles = automaton.needles
    roots = automaton.trie_roots
    # The byte after the last position must be text as well.
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
            # A signed index would cost a check for each byte.
            if roots[text[np.uint64(position)]] >= 0:
                return position
            position += 1
    return position


@inline
def next_special(text, end, stop, final, automaton, state):
    """Find the next special token, and update the search in `state`.

    Returns
    -------
    begin, after : int
        Start and end of the token. If `after` is 0, no token starts before `begin`, which is `end` or an earlier position where
        further text is needed to decide whether one starts.
    """
    nodes = automaton.trie_nodes
    found = automaton.trie_found
    if nodes.size <= NODE_WORDS:
        return end, 0
    node = state[SEARCH_NODE] - 1
    position = state[SEARCH_POSITION]
    number = state[SEARCH_FOUND]
    begin = np.int64(end)
    after = np.int64(0)
    while True:
        if node == ROOT:
            position = _next_begin(text, position, end, stop, automaton)
            if position >= end:
                break
            node = np.int64(automaton.trie_roots[text[position]])
            position += 1
            continue
        first = node * NODE_WORDS
        start = position - nodes[first + DEPTH]
        if number == 0:
            if start >= end:
                break
            if nodes[first + CHILDREN] != nodes[first + NODE_WORDS + CHILDREN]:
                if position < stop:
                    child = find_child(automaton.trie_roots, nodes, automaton.trie_labels, node, text[position])
                    if child != ROOT:
                        node = child
                        position += 1
                        continue
                elif not final:
                    begin = start
                    break
        last = np.int64(nodes[first + LAST_FOUND])
        if last >= 0 and number <= found[last * FOUND_WORDS + NUMBER]:
            entry = find_entry(found, last, number) * FOUND_WORDS
            begin = start + found[entry + FOUND_BEGIN]
            after = start + found[entry + FOUND_END]
            number += 1
            break
        node = np.int64(nodes[first + FALL])
        number = np.int64(0)
    state[SEARCH_NODE] = node + 1
    state[SEARCH_POSITION] = position
    state[SEARCH_FOUND] = number
    return begin, after


@kernel
def find_specials(text, stop, final, trie, state, spans):
    """Write the spans of the next special tokens: leftmost first, and the longest of those at one position.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past `stop`.
    stop : int
        The text known so far is `text[:stop]`.
    final : bool
        True if the text ends there. Otherwise, tokens that depend on further text are left for a later call.
    trie : SpecialTrie, in
    state : int64[STATE_SIZE], in-out
        The state of `split_spans`; all zero at the start of a text. Only the fields of the search are used.
    spans : int64[2 * n], out
        Start and end of each token.

    Returns
    -------
    int
        Number of tokens found. If this is n, call again with the same text.

    Notes
    -----
    O(stop) for a whole text, for any number of calls.
    """
    n = 0
    while 2 * n < spans.size:
        begin, after = next_special(text, stop, stop, final, trie, state)
        if after == 0:
            break
        spans[2 * n] = begin
        spans[2 * n + 1] = after
        n += 1
    return n


@kernel
def reach_specials(text, first, last, stop, trie, reach):
    """Write the ends of the special tokens that start in `first:last`, including tokens that overlap others.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past `stop`.
    first, last, stop : int
        The text known so far is `text[:stop]`; `last` is at most `stop`.
    trie : SpecialTrie, in
        Not empty.
    reach : int64[last - first], in-out
        All 0 before the call. Of the special tokens that end at one position only the longest counts. Its end is stored at the
        index of its start; of several with the same start, the last end is stored.

    Returns
    -------
    int
        The first position where further text is needed to decide whether a special token starts; `stop` if there is none.

    Notes
    -----
    O(last - first + length of the longest token).
    """
    nodes = trie.trie_nodes
    node = np.int64(ROOT)
    position = np.int64(first)
    while True:
        if node == ROOT:
            position = _next_begin(text, position, last, stop, trie)
            if position >= last:
                return stop
            node = np.int64(trie.trie_roots[text[position]])
            position += 1
        match = np.int64(nodes[node * NODE_WORDS + MATCH])
        if match and position - match < last:
            reach[position - match - first] = position
        if position - nodes[node * NODE_WORDS + DEPTH] >= last:
            return stop
        if position == stop:
            while node != ROOT and nodes[node * NODE_WORDS + CHILDREN] == nodes[(node + 1) * NODE_WORDS + CHILDREN]:
                node = np.int64(nodes[node * NODE_WORDS + SUFFIX])
            return stop if node == ROOT else position - nodes[node * NODE_WORDS + DEPTH]
        node = follow_suffixes(trie.trie_roots, nodes, trie.trie_labels, node, text[position])
        if node != ROOT:
            position += 1


@kernel
def find_cut(text, lo, hi, stop, automaton, reach, hidden):
    """Find a position where a text may be cut, such that both parts have the same pre-tokens as the whole text.

    Parameters
    ----------
    text : uint8[:], in
        The text, or a part that starts at the start of a text, at a safe cut, or at least LONGEST_SPECIAL + 4 bytes before
        `lo`.
    lo, hi : int
        The cut is searched in `lo:hi + 1`.
    stop : int
        The text known so far is `text[:stop]`.
    automaton : SplitAutomaton, in
    reach : int64[:], in
        From `reach_specials`, from LONGEST_SPECIAL + 4 bytes before `lo` (or from 0) to `hi`; empty if there are no special
        tokens.
    hidden : int
        The value that `reach_specials` returned, or `stop`.

    Returns
    -------
    int
        The first position that is proven to be safe, or -1. The text before the cut ends by reading the character after it, not
        by reaching the end of the text.

    Notes
    -----
    O(hi - lo). A position is safe if it is between a safe pair of characters (`bpejit.splitting.dfa.safe_pairs_of_dfa`), and no
    special token, or prefix of one that further text might complete, starts before or at the position and ends after it.
    """
    longest = automaton.settings[LONGEST_SPECIAL]
    stride = automaton.settings[STRIDE]
    first = max(0, lo - longest - 4)
    position = first
    # A character has at most three continuation bytes, so a new one starts after three of them in any case.
    aligned = min(position + 3, stop)
    while position < aligned and text[position] & 0xC0 == 0x80:
        position += 1
    blocked = np.int64(0)
    pair_row = np.int64(0)
    while position < stop and position <= hi:
        column, width = read_character(
            text, np.uint64(position), np.uint64(stop), False, automaton.class_of, automaton.byte_class
        )
        if width == 0:
            return -1
        if position >= hidden:
            return -1
        if position - first < reach.size:
            blocked = max(blocked, reach[position - first])
        if position >= lo and position >= blocked and automaton.safe[pair_row + np.int64(column)]:
            return position
        pair_row = np.int64(column) * stride
        position += np.int64(width)
    return -1
