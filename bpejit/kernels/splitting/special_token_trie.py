"""The automaton that finds special tokens: a trie of their bytes, with what is known when a path through it ends.

A search reads a text once, and follows the trie as long as it has a child for the next byte. Where it has none, two facts
about a node answer what an ordinary trie would read the text again for:

- Its *fall*: when a search leaves the trie here, the special tokens that lie in what was read, leftmost first and the
  longest of those that begin at one place, are certain up to some point, and the rest is the path to a node closer to the
  root. This is Aho and Corasick's automaton with the failure links of maximal matching, as in LinMaxMatch (Song et al.,
  "Fast WordPiece Tokenization", 2021).
- Its *suffix*: the longest proper suffix that is a path as well, whatever special tokens overlap it. That is the failure
  link of Aho and Corasick; places where a text may be cut are found with it.

The nodes are in order of depth, so that the children of a node are neighbours, in order of their bytes. The special tokens
that a fall yields are a list in which each knows the one before; a node's list goes on where that of its parent ends, so
that all lists together are no longer than the tokens.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel

ROOT = -1
"""Stands for the node above those of the first bytes, which has no number."""

NODE_WORDS = 6
"""Words of a node in `trie_nodes`."""

# Fields of a node.
CHILDREN, DEPTH, FALL, LAST_FOUND, SUFFIX, MATCH = range(NODE_WORDS)
"""The first child (the last is before the first of the next node); its bytes up to here; where it falls to, and the last of
the special tokens that this yields (-1: none); its suffix; the length of the longest special token that ends here.
"""

FOUND_WORDS = 5
"""Words of an entry of `trie_found`."""

# Fields of an entry: where the special token begins and ends, from the beginning of the path; the entry before it, and one
# further back, so that any of n is reached in log n steps; how many there are before it.
FOUND_BEGIN, FOUND_END, PREVIOUS, JUMP, NUMBER = range(FOUND_WORDS)


@inline
def find_child(roots, nodes, labels, node, byte):
    """Return the child of a node (or of ROOT) for a byte, or ROOT if it has none."""
    if node < 0:
        return np.int64(roots[byte])
    child = np.int64(nodes[node * NODE_WORDS + CHILDREN])
    after = np.int64(nodes[(node + 1) * NODE_WORDS + CHILDREN])
    if child == after:
        return np.int64(ROOT)
    while after - child > 1:
        middle = (child + after) >> 1
        if labels[middle] <= byte:
            child = middle
        else:
            after = middle
    return child if labels[child] == byte else np.int64(ROOT)


@kernel
def build_trie(pool, starts, active, above, roots, nodes, labels, parents):
    """Write the nodes of a trie, without their links.

    Parameters
    ----------
    pool : uint8[:], in
        The tokens end to end, in ascending order; none is empty, and none is there twice.
    starts : int64[n + 1], in
    active, above : int32[n], scratch
    roots : int32[256], out
        Node of each first byte, or ROOT.
    nodes : int32[NODE_WORDS * (nodes + 1)], out
        CHILDREN and DEPTH of each; MATCH where a token ends, otherwise 0. Room for as many nodes as there are bytes is
        enough.
    labels : uint8[nodes], out
        The byte that leads to a node.
    parents : int32[nodes], out

    Returns
    -------
    int
        The number of nodes.

    Notes
    -----
    O(bytes): at each depth only the tokens that are that long are looked at.
    """
    roots[:] = ROOT
    for i in range(active.size):
        active[i] = i
        above[i] = ROOT
    n = 0
    depth = 0
    count = active.size
    while count > 0:
        kept = 0
        parent = np.int64(ROOT)
        for i in range(count):
            token = active[i]
            place = starts[token] + depth
            if place == starts[token + 1]:
                continue
            byte = pool[place]
            if kept == 0 or np.int64(above[i]) != parent or labels[n - 1] != byte:
                parent = np.int64(above[i])
                labels[n] = byte
                parents[n] = parent
                nodes[n * NODE_WORDS + DEPTH] = depth + 1
                nodes[n * NODE_WORDS + MATCH] = 0
                if parent == ROOT:
                    roots[byte] = n
                n += 1
            if place + 1 == starts[token + 1]:
                nodes[(n - 1) * NODE_WORDS + MATCH] = depth + 1
            active[kept] = token
            above[kept] = n - 1
            kept += 1
        count = kept
        depth += 1
    child = 0
    for node in range(n):
        while child < n and parents[child] < node:
            child += 1
        nodes[node * NODE_WORDS + CHILDREN] = child
    nodes[n * NODE_WORDS + CHILDREN] = n
    return n


@inline
def _append(found, n, begin, end, previous):
    """Write entry `n`, which follows the entry `previous` (-1: none)."""
    entry = n * FOUND_WORDS
    found[entry + FOUND_BEGIN] = begin
    found[entry + FOUND_END] = end
    found[entry + PREVIOUS] = previous
    found[entry + JUMP] = n
    found[entry + NUMBER] = 0
    if previous >= 0:
        before = previous * FOUND_WORDS
        jump = np.int64(found[before + JUMP])
        further = np.int64(found[jump * FOUND_WORDS + JUMP])
        number = np.int64(found[before + NUMBER])
        near = np.int64(found[jump * FOUND_WORDS + NUMBER])
        far = np.int64(found[further * FOUND_WORDS + NUMBER])
        found[entry + JUMP] = further if number - near == near - far else previous
        found[entry + NUMBER] = number + 1


@inline
def find_entry(found, last, number):
    """Return the entry of some number in the list that ends with `last`."""
    entry = np.int64(last)
    while found[entry * FOUND_WORDS + NUMBER] > number:
        jump = np.int64(found[entry * FOUND_WORDS + JUMP])
        if found[jump * FOUND_WORDS + NUMBER] >= number:
            entry = jump
        else:
            entry = np.int64(found[entry * FOUND_WORDS + PREVIOUS])
    return entry


@inline
def _follow_suffixes(roots, nodes, labels, node, byte):
    """Return the node of the longest suffix that goes on with a byte, of a node, itself included."""
    while True:
        child = find_child(roots, nodes, labels, node, byte)
        if child != ROOT or node == ROOT:
            return child
        node = np.int64(nodes[node * NODE_WORDS + SUFFIX])


@kernel
def link_trie(roots, labels, parents, nodes, found):
    """Work out where each node falls to, what that yields, its suffix and the longest token that ends there.

    Parameters
    ----------
    roots, labels, parents : in
        From `build_trie`.
    nodes : int32[NODE_WORDS * (nodes + 1)], in-out
    found : int32[:], out
        FOUND_WORDS for each entry. Room for as many entries as the tokens have bytes is enough.

    Returns
    -------
    int
        The number of entries.

    Notes
    -----
    O(bytes of all tokens): along the path of a token each link only moves towards its end.
    """
    n = 0
    for node in range(labels.size):
        byte = labels[node]
        above = np.int64(parents[node])
        at = node * NODE_WORDS
        depth = np.int64(nodes[at + DEPTH])
        is_token = nodes[at + MATCH] == depth
        suffix = np.int64(ROOT)
        fall = np.int64(ROOT)
        last = np.int64(-1)
        if above != ROOT:
            suffix = _follow_suffixes(roots, nodes, labels, np.int64(nodes[above * NODE_WORDS + SUFFIX]), byte)
        if is_token:
            _append(found, n, 0, depth, -1)
            last = n
            n += 1
        else:
            nodes[at + MATCH] = nodes[suffix * NODE_WORDS + MATCH] if suffix != ROOT else 0
        if above != ROOT and not is_token:
            # As if the search had left the trie at the node above, and went on from there with the byte.
            last = np.int64(nodes[above * NODE_WORDS + LAST_FOUND])
            other = np.int64(nodes[above * NODE_WORDS + FALL])
            fall = find_child(roots, nodes, labels, other, byte)
            while fall == ROOT and other != ROOT:
                # What `other` yields when it falls comes next. Its list is known from its end, so it is written backwards.
                source = np.int64(nodes[other * NODE_WORDS + LAST_FOUND])
                shift = depth - 1 - nodes[other * NODE_WORDS + DEPTH]
                if source >= 0:
                    first = n
                    n += np.int64(found[source * FOUND_WORDS + NUMBER]) + 1
                    for entry in range(n - 1, first - 1, -1):
                        found[entry * FOUND_WORDS + FOUND_BEGIN] = found[source * FOUND_WORDS + FOUND_BEGIN] + shift
                        found[entry * FOUND_WORDS + FOUND_END] = found[source * FOUND_WORDS + FOUND_END] + shift
                        source = np.int64(found[source * FOUND_WORDS + PREVIOUS])
                    for entry in range(first, n):
                        begin, end = found[entry * FOUND_WORDS + FOUND_BEGIN], found[entry * FOUND_WORDS + FOUND_END]
                        _append(found, entry, begin, end, last)
                        last = np.int64(entry)
                other = np.int64(nodes[other * NODE_WORDS + FALL])
                fall = find_child(roots, nodes, labels, other, byte)
        nodes[at + SUFFIX] = suffix
        nodes[at + FALL] = fall
        nodes[at + LAST_FOUND] = last
    return n
