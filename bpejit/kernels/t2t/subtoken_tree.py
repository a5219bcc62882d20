"""Building a subtoken vocabulary: escaping, common prefixes, the tree of substrings, segmenting, counting, pruning.

All substrings that may become subtokens are prefixes of suffixes of the escaped tokens. The suffixes are sorted once (by
the caller); `build_tree` makes of them the tree whose nodes are the strings at which two suffixes part, or at which one
ends. Between two nodes every string has the count of the node below it, so pruning, which goes from the longest to the
shortest and takes a kept string's count away from its prefixes, can keep only nodes: one kept, or all that is kept below
it, leaves the same for each string above it on that stretch. So memory is linear in the text of the distinct tokens,
whatever their length, and an iteration is three passes over flat arrays:

    segment_tokens   adds a token's count to the leaf of each suffix that starts at a boundary
    prune_tree       sums the counts upwards, decides upwards what is kept, and tells downwards which kept string is the
                     longest at the start of each suffix: the next segmentation needs one look-up per boundary
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel

BACKSLASH, UNDERSCORE, SEMICOLON, NEWLINE, LETTER_U, DIGIT_0 = (np.int64(ord(letter)) for letter in "\\_;\nu0")

ESCAPE_ROOM = 9
"""Most characters that one character of a token becomes: a code point of seven digits, or an escape that is escaped."""


@inline
def emit_point(point, alphabet, out, at):
    """Write a character of an escaped token, or its number where the alphabet lacks it; return the next free place."""
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
    """Write a character of a token in its escaped form; return the next free place."""
    if point == BACKSLASH:
        at = emit_point(BACKSLASH, alphabet, out, at)
        return emit_point(BACKSLASH, alphabet, out, at)
    if point == UNDERSCORE:
        at = emit_point(BACKSLASH, alphabet, out, at)
        return emit_point(LETTER_U, alphabet, out, at)
    return emit_point(point, alphabet, out, at)


@kernel
def escape_tokens(points, starts, alphabet, out, out_starts):
    """Escape tokens, and end each with an underscore.

    Parameters
    ----------
    points : uint32[:], in
        The code points of all tokens.
    starts : int64[n + 1], in
    alphabet : uint8[0x110000], in
        Not 0 for each code point of the alphabet.
    out : uint32[:], out
        Room for ESCAPE_ROOM for each character that is escaped, 1 for each other and for each token.
    out_starts : int64[n + 1], out

    Notes
    -----
    O(characters). Neither room nor starts are checked.
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
def common_prefixes(pool, order, place, remaining, prefixes):
    """Length of the longest common prefix of each suffix and the one before it in order.

    Parameters
    ----------
    pool : uint32[n], in
        The escaped tokens.
    order : int32[n], in
        Where the suffixes start, in order; a suffix ends with its token, and equal ones are in order of place.
    place : int32[n], in
        The inverse of `order`.
    remaining : int32[n], in
        Length of the suffix that starts at each position.
    prefixes : int32[n], out
        `prefixes[0]` is 0.

    Notes
    -----
    Kasai's algorithm: O(n), since a suffix shares with its predecessor at least what the suffix one to the left shares with
    its own, less one. Equal suffixes keep that only if they are in order of place.
    """
    shared = np.int64(0)
    for position in range(pool.size):
        i = place[position]
        if i == 0:
            shared = np.int64(0)
            prefixes[0] = 0
            continue
        before = np.int64(order[i - 1])
        limit = min(np.int64(remaining[position]), np.int64(remaining[before]))
        while shared < limit and pool[position + shared] == pool[before + shared]:
            shared += 1
        prefixes[i] = shared
        shared = max(shared - 1, 0)


@kernel
def build_tree(order, prefixes, remaining, longest, stack, parent, depth, first, leaf):
    """Make the tree of substrings: a node for each first character, each string at which suffixes part, and each suffix.

    Parameters
    ----------
    order, prefixes, remaining : int32[n], in
        As in `common_prefixes`. No suffix is a proper prefix of another, since all end with an underscore.
    longest : int
        Strings beyond this length are not told apart; at least 1.
    stack : int32[3 * (n + 1)], scratch
    parent, depth, first : int32[2 * n + characters], out
        Of each node: its parent (-1 for single characters), its length, and the first place in `order` of a suffix that
        starts with it. A node comes after all nodes below it.
    leaf : int32[n], out
        Node of the suffix that starts at each position.

    Returns
    -------
    int
        The number of nodes.

    Notes
    -----
    O(n): each node is pushed and popped once. Until a node is popped, its children are a list linked through `parent`.
    """
    n = order.size
    room = n + 1
    nodes = 0
    top = -1
    for i in range(n + 1):
        shared = 0
        if i < n:
            shared = min(np.int64(prefixes[i]), longest)
        while top >= 0 and stack[top] > shared:
            begin = stack[room + top]
            child = stack[2 * room + top]
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
                stack[room + top] = begin
                stack[2 * room + top] = -1
            if top >= 0:
                parent[nodes] = stack[2 * room + top]
                stack[2 * room + top] = nodes
            else:
                parent[nodes] = -1
            nodes += 1
        if i == n:
            break
        if top < 0:
            top = 0
            stack[0] = 1
            stack[room] = i
            stack[2 * room] = -1
        length = min(np.int64(remaining[order[i]]), longest)
        if length > stack[top]:
            top += 1
            stack[top] = length
            stack[room + top] = i
            stack[2 * room + top] = -1
    return nodes


@kernel
def segment_tokens(starts, counts, leaf, matched, reserved, weights):
    """Segment every token by the longest match, and add its count at each boundary.

    Parameters
    ----------
    starts : int64[tokens + 1], in
    counts : int64[tokens], in
    leaf : int32[n], in
    matched : int32[nodes], in
        Length of the longest subtoken that each node starts with, at least 1.
    reserved : int32[n] or int32[0], in
        Length of the longest reserved token at each position; nothing where none occurs.
    weights : int64[nodes], out
        Sum of the counts of the suffixes of each leaf that start at a boundary; 0 for other nodes.

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
def prune_tree(parent, depth, n_nodes, least, weights, left, matched):
    """Keep the strings with a count of at least `least`, longest first, and take their counts away from their prefixes.

    Parameters
    ----------
    parent, depth : int32[:], in
        From `build_tree`.
    n_nodes : int
    least : int
        At least 1.
    weights : int64[n_nodes], in-out
        From `segment_tokens`; afterwards the count of each node's string before anything was taken away.
    left : int64[n_nodes], out
        What is left of it when all longer ones have been decided: the string is kept if that is at least `least`.
    matched : int32[n_nodes], out
        Length of the longest kept string, or single character, that each node starts with.

    Returns
    -------
    int
        How many strings above one character are kept.

    Notes
    -----
    O(nodes). A kept string has taken all of its count away from its prefixes, itself and what it left to longer ones; one
    that is not kept has taken what those below it took. That sum is gathered in `left` before it becomes the difference.
    """
    kept = 0
    left[:n_nodes] = 0
    for node in range(n_nodes):
        rest = weights[node] - left[node]
        taken = left[node]
        if rest >= least:
            taken = weights[node]
            if depth[node] > 1:
                kept += 1
        left[node] = rest
        above = parent[node]
        if above >= 0:
            weights[above] += weights[node]
            left[above] += taken
    for node in range(n_nodes - 1, -1, -1):
        if left[node] >= least or depth[node] == 1:
            matched[node] = depth[node]
        else:
            matched[node] = matched[parent[node]]
    return kept
