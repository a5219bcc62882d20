"""Build a subtoken vocabulary with a suffix tree: escape, segment, count and prune.

Every substring that may become a subtoken is a prefix of a suffix of an escaped token. The caller sorts the suffixes once.
`build_tree` builds their suffix tree, whose nodes are the strings at which two suffixes diverge or at which one ends. All
strings on the edge above a node have the same count as the node. Pruning proceeds from the longest string to the shortest and
subtracts the count of each selected string from its prefixes, so only nodes can be selected: on one edge, all strings have the
same remaining count, and the longest is visited first. Memory is therefore linear in the total length of the distinct tokens,
and an iteration consists of three passes over flat arrays:

    segment_tokens   adds the count of a token to the leaf of each suffix that starts at a subtoken boundary
    prune_tree       sums the counts bottom-up and selects nodes, then finds top-down the longest selected prefix of each
                     suffix, so that the next segmentation takes one lookup per boundary
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel

BACKSLASH, UNDERSCORE, SEMICOLON, NEWLINE, LETTER_U, DIGIT_0 = (np.int64(ord(letter)) for letter in "\\_;\nu0")

MAX_ESCAPE_LENGTH = 9
"""Maximum length of an escaped character: a backslash, a code point of seven digits and a semicolon."""


@inline
def emit_point(point, alphabet, out, at):
    """Write a character, or its numeric escape if it is not in the alphabet. Return the next index in `out`."""
    if alphabet[point] != 0 and point != NEWLINE:
        out[at] = np.uint32(point)
        return at + 1
    out[at] = np.uint32(BACKSLASH)
    at += 1
    divisor = np.int64(1)
    while point // divisor >= 10:
        divisor *= 10
    while divisor > 0:
        out[at] = np.uint32(DIGIT_0 + point // divisor % 10)
        at += 1
        divisor //= 10
    out[at] = np.uint32(SEMICOLON)
    return at + 1


@inline
def escape_point(point, alphabet, out, at):
    """Write the escaped form of a character. Return the next index in `out`."""
    if point == BACKSLASH:
        at = emit_point(BACKSLASH, alphabet, out, at)
        return emit_point(BACKSLASH, alphabet, out, at)
    if point == UNDERSCORE:
        at = emit_point(BACKSLASH, alphabet, out, at)
        return emit_point(LETTER_U, alphabet, out, at)
    return emit_point(point, alphabet, out, at)


@kernel
def escape_tokens(points, starts, alphabet, out, out_starts):
    """Escape tokens and append an underscore to each.

    Parameters
    ----------
    points : uint32[:], in
        The code points of all tokens.
    starts : int64[n + 1], in
    alphabet : uint8[0x110000], in
        Nonzero for each code point in the alphabet.
    out : uint32[:], out
        Must hold MAX_ESCAPE_LENGTH elements for each character that is escaped, one for each other character and one for each
        token.
    out_starts : int64[n + 1], out

    Notes
    -----
    O(characters). Neither the size of `out` nor `starts` is checked.
    """
    at = np.int64(0)
    out_starts[0] = 0
    for token in range(starts.size - 1):
        for i in range(starts[token], starts[token + 1]):
            at = escape_point(np.int64(points[i]), alphabet, out, at)
        out[at] = np.uint32(UNDERSCORE)
        at += 1
        out_starts[token + 1] = at


@kernel
def common_prefixes(pool, order, inverse, remaining, prefixes):
    """Compute the length of the longest common prefix of each suffix and its predecessor in sorted order.

    Parameters
    ----------
    pool : uint32[n], in
        The escaped tokens.
    order : int32[n], in
        Start positions of the sorted suffixes. A suffix ends with its token; equal suffixes are ordered by position.
    inverse : int32[n], in
        The inverse of `order`.
    remaining : int32[n], in
        Length of the suffix that starts at each position.
    prefixes : int32[n], out
        `prefixes[0]` is 0.

    Notes
    -----
    Kasai's algorithm, O(n): the common prefix of a suffix and its predecessor is at most one character shorter than that of the
    suffix that starts one position earlier. This requires that equal suffixes are ordered by position.
    """
    shared = np.int64(0)
    for position in range(pool.size):
        i = inverse[position]
        if i == 0:
            shared = np.int64(0)
            prefixes[0] = 0
            continue
        predecessor = np.int64(order[i - 1])
        limit = min(np.int64(remaining[position]), np.int64(remaining[predecessor]))
        while shared < limit and pool[position + shared] == pool[predecessor + shared]:
            shared += 1
        prefixes[i] = shared
        shared = max(shared - 1, 0)


@kernel
def build_tree(order, prefixes, remaining, longest, stack, parent, depth, first, leaf):
    """Build the suffix tree, with a node for each first character, each string at which suffixes diverge, and each suffix.

    Parameters
    ----------
    order, prefixes, remaining : int32[n], in
        As in `common_prefixes`. No suffix is a proper prefix of another, since all end with an underscore.
    longest : int
        Maximum depth of a node, at least 1. Longer strings are truncated.
    stack : int32[3 * (n + 1)], scratch
    parent, depth, first : int32[2 * n + characters], out
        For each node its parent (-1 for single characters), its length, and the first index in `order` of a suffix that
        starts with it. A node follows all its descendants.
    leaf : int32[n], out
        Node of the suffix that starts at each position.

    Returns
    -------
    int
        Number of nodes.

    Notes
    -----
    O(n): each node is pushed and popped once. Until a node is popped, its children form a list linked through `parent`.
    """
    n = order.size
    capacity = n + 1
    nodes = 0
    top = -1
    for i in range(n + 1):
        shared = 0
        if i < n:
            shared = min(np.int64(prefixes[i]), longest)
        while top >= 0 and stack[top] > shared:
            begin = stack[capacity + top]
            child = stack[2 * capacity + top]
            depth[nodes] = stack[top]
            first[nodes] = begin
            if child < 0:
                for k in range(begin, i):
                    leaf[order[k]] = nodes
            while child >= 0:
                following = parent[child]
                parent[child] = nodes
                child = following
            top -= 1
            if shared > 0 and stack[top] < shared:
                top += 1
                stack[top] = shared
                stack[capacity + top] = begin
                stack[2 * capacity + top] = -1
            if top >= 0:
                parent[nodes] = stack[2 * capacity + top]
                stack[2 * capacity + top] = nodes
            else:
                parent[nodes] = -1
            nodes += 1
        if i == n:
            break
        if top < 0:
            top = 0
            stack[0] = 1
            stack[capacity] = i
            stack[2 * capacity] = -1
        length = min(np.int64(remaining[order[i]]), longest)
        if length > stack[top]:
            top += 1
            stack[top] = length
            stack[capacity + top] = i
            stack[2 * capacity + top] = -1
    return nodes


@kernel
def segment_tokens(starts, counts, leaf, matched, reserved, weights):
    """Segment every token by greedy longest match, and add its count to the suffix at each boundary.

    Parameters
    ----------
    starts : int64[tokens + 1], in
    counts : int64[tokens], in
    leaf : int32[n], in
    matched : int32[nodes], in
        Length of the longest subtoken that is a prefix of each node, at least 1.
    reserved : int32[n] or int32[0], in
        Length of the longest reserved token at each position; empty if none occurs.
    weights : int64[nodes], out
        For each leaf, the sum of the counts of its suffixes that start at a boundary; 0 for other nodes.

    Notes
    -----
    O(nodes + subtokens).
    """
    weights[:] = 0
    for token in range(counts.size):
        position = starts[token]
        while position < starts[token + 1]:
            node = leaf[position]
            weights[node] += counts[token]
            step = np.int64(matched[node])
            if reserved.size > 0:
                step = max(step, np.int64(reserved[position]))
            position += step


@kernel
def prune_tree(parent, depth, n_nodes, min_count, weights, remaining, matched):
    """Select the strings with a count of at least `min_count`, longest first, and subtract their counts from their prefixes.

    Parameters
    ----------
    parent, depth : int32[:], in
        From `build_tree`.
    n_nodes : int
    min_count : int
        At least 1.
    weights : int64[n_nodes], in-out
        From `segment_tokens`; on return the total count of the string of each node.
    remaining : int64[n_nodes], out
        The count that remains after the counts of all longer selected strings have been subtracted. The string is selected if
        this is at least `min_count`.
    matched : int32[n_nodes], out
        Length of the longest selected string, or single character, that is a prefix of each node.

    Returns
    -------
    int
        Number of selected strings of more than one character.

    Notes
    -----
    O(nodes). A selected string subtracts its total count from its prefixes, through itself and through its longer selected
    strings. A string that is not selected subtracts what its descendants subtract. `remaining` accumulates this sum before it
    is replaced by the difference.
    """
    n_selected = 0
    remaining[:n_nodes] = 0
    for node in range(n_nodes):
        rest = weights[node] - remaining[node]
        subtracted = remaining[node]
        if rest >= min_count:
            subtracted = weights[node]
            if depth[node] > 1:
                n_selected += 1
        remaining[node] = rest
        above = parent[node]
        if above >= 0:
            weights[above] += weights[node]
            remaining[above] += subtracted
    for node in range(n_nodes - 1, -1, -1):
        if remaining[node] >= min_count or depth[node] == 1:
            matched[node] = depth[node]
        else:
            matched[node] = matched[parent[node]]
    return n_selected
