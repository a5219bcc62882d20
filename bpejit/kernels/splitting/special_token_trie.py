"""Build the automaton that finds special tokens: a trie of their bytes with failure links.

A search reads the text once. It follows the trie while the current node has a child for the next byte. Otherwise, two kinds of
links avoid reading the text again:

- The *fall* of a node. When the search leaves the trie at the node, some special tokens in the text read so far are final
  (leftmost first, and the longest of those at one position), and the remaining text is the path to a node closer to the root.
  This is the automaton of Aho and Corasick with the failure links of maximal matching, as in LinMaxMatch (Song et al., "Fast
  WordPiece Tokenization", 2021).
- The *suffix* of a node: the node of its longest proper suffix that is a path, regardless of overlaps. This is the failure link
  of Aho and Corasick. It is used to find safe cuts.

The nodes are sorted by depth, and the children of a node are adjacent, sorted by byte. The special tokens that a fall yields
are a linked list from the last to the first. The list of a node extends the list of its parent, so that all lists together have
no more entries than the tokens have bytes.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel

ROOT = -1
"""The root, which is not stored as a node."""

NODE_WORDS = 6
"""Words of a node in `trie_nodes`."""

# Fields of a node.
CHILDREN, DEPTH, FALL, LAST_FOUND, SUFFIX, MATCH = range(NODE_WORDS)
"""The first child (the last child is before the first child of the next node); the length of the path; the node after a fall,
and the last entry of the special tokens that it yields (-1: none); the suffix; the length of the longest special token that
ends at the node.
"""

FOUND_WORDS = 5
"""Words of an entry of `trie_found`."""

# Fields of an entry: start and end of the special token, relative to the start of the path; the previous entry; an entry
# further back, with which any of n entries is reached in log n steps; the number of entries before it.
FOUND_BEGIN, FOUND_END, PREVIOUS, JUMP, NUMBER = range(FOUND_WORDS)


@inline
def find_child(roots, nodes, labels, node, byte):
    """Return the child of a node (or of ROOT) for a byte, or ROOT if there is none."""
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
        The concatenated tokens, distinct, not empty, and in ascending order.
    starts : int64[n + 1], in
    active, above : int32[n], scratch
    roots : int32[256], out
        The node of each first byte, or ROOT.
    nodes : int32[NODE_WORDS * (nodes + 1)], out
        CHILDREN and DEPTH of each node; MATCH if a token ends there, otherwise 0. The capacity of one node per byte of the
        tokens is enough.
    labels : uint8[nodes], out
        The byte that leads to the node.
    parents : int32[nodes], out

    Returns
    -------
    int
        The number of nodes.

    Notes
    -----
    O(bytes): at each depth only tokens of at least this length are visited.
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
            index = starts[token] + depth
            if index == starts[token + 1]:
                continue
            byte = pool[index]
            if kept == 0 or np.int64(above[i]) != parent or labels[n - 1] != byte:
                parent = np.int64(above[i])
                labels[n] = byte
                parents[n] = parent
                nodes[n * NODE_WORDS + DEPTH] = depth + 1
                nodes[n * NODE_WORDS + MATCH] = 0
                if parent == ROOT:
                    roots[byte] = n
                n += 1
            if index + 1 == starts[token + 1]:
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
    """Return the entry with index `number` in the list that ends with `last`."""
    entry = np.int64(last)
    while found[entry * FOUND_WORDS + NUMBER] > number:
        jump = np.int64(found[entry * FOUND_WORDS + JUMP])
        if found[jump * FOUND_WORDS + NUMBER] >= number:
            entry = jump
        else:
            entry = np.int64(found[entry * FOUND_WORDS + PREVIOUS])
    return entry


@inline
def follow_suffixes(roots, nodes, labels, node, byte):
    """Return the child for a byte of the longest suffix of a node, including itself, that has one; ROOT if none has."""
    while True:
        child = find_child(roots, nodes, labels, node, byte)
        if child != ROOT or node == ROOT:
            return child
        node = np.int64(nodes[node * NODE_WORDS + SUFFIX])


@kernel
def link_trie(roots, labels, parents, nodes, found):
    """Write FALL, LAST_FOUND, SUFFIX and MATCH of each node, and the lists of special tokens.

    Parameters
    ----------
    roots, labels, parents : in
        From `build_trie`.
    nodes : int32[NODE_WORDS * (nodes + 1)], in-out
    found : int32[:], out
        FOUND_WORDS for each entry. The capacity of one entry per byte of the tokens is enough.

    Returns
    -------
    int
        The number of entries.

    Notes
    -----
    O(bytes of all tokens): along the path of a token, the start of each link only moves forward.
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
            suffix = follow_suffixes(roots, nodes, labels, np.int64(nodes[above * NODE_WORDS + SUFFIX]), byte)
        if is_token:
            _append(found, n, 0, depth, -1)
            last = n
            n += 1
        else:
            nodes[at + MATCH] = nodes[suffix * NODE_WORDS + MATCH] if suffix != ROOT else 0
        if above != ROOT and not is_token:
            # The search would have left the trie at the parent, and continued with the byte from there.
            last = np.int64(nodes[above * NODE_WORDS + LAST_FOUND])
            other = np.int64(nodes[above * NODE_WORDS + FALL])
            fall = find_child(roots, nodes, labels, other, byte)
            while fall == ROOT and other != ROOT:
                # The tokens that the fall of `other` yields are next. Its list is linked from the end, so it is copied
                # backwards.
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
