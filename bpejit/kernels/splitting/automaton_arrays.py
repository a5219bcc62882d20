"""The arrays of the splitting kernels, as named tuples: a compiled split pattern and its special tokens."""

# Annotations are not postponed here: `make_reader` needs their values, and evaluating fifty strings takes 1 ms at import.
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class SplitAutomaton(NamedTuple):
    """A compiled split pattern with its special tokens, as built by `bpejit.splitting.Splitter`.

    Parameters
    ----------
    table : uint32 [rows * stride]
        Transitions (see `spans` and `cursors`).
    pair_table : uint32 [rows * (stride << PAIR_SHIFT)]
        Transitions over two ASCII characters at once (see `cursors`).
    pair_classes : uint16 [2 * 128 + 2]
        What each ASCII character adds to an index into `pair_table` as the first of two, and as the second; the last two are
        for a separator (see `bpejit.splitting.automaton`).
    class_of : uint8 [0x110000]
        Class of each code point.
    byte_class : uint8 [256]
        Class of each byte that is a character by itself: ASCII, and bytes that are not UTF-8.
    safe : uint8 [stride * stride]
        1 for each pair of classes between which a text may be cut.
    local_rules : uint8 [sets * CONTEXT_SIZE * 128] or [0]
        Boundaries determined by five neighboring characters (see `bpejit.splitting.local_rules`).
    group_rules : uint8 [128 + sets * CONTEXT_SIZE * width] or [0]
        The same for ASCII text, over groups of characters (see `bpejit.splitting.automaton.group_rules`).
    class_pages : uint8 [2240] or [0]
        The classes of most characters (see `bpejit.splitting.automaton`).
    settings : int64 [5]
        IS_RESTART, STRIDE, LONGEST_SPECIAL, PAIR_SHIFT, CUT_RULES.
    needles, trie_roots, trie_nodes, trie_labels, trie_found
        The special tokens, as in `SpecialTrie`.
    """

    table: NDArray[np.uint32]
    pair_table: NDArray[np.uint32]
    pair_classes: NDArray[np.uint16]
    class_of: NDArray[np.uint8]
    byte_class: NDArray[np.uint8]
    safe: NDArray[np.uint8]
    local_rules: NDArray[np.uint8]
    group_rules: NDArray[np.uint8]
    class_pages: NDArray[np.uint8]
    settings: NDArray[np.int64]
    needles: NDArray[np.uint64]
    trie_roots: NDArray[np.int32]
    trie_nodes: NDArray[np.int32]
    trie_labels: NDArray[np.uint8]
    trie_found: NDArray[np.int32]


class SpecialTrie(NamedTuple):
    """The automaton that finds special tokens (see `special_token_trie`).

    Parameters
    ----------
    needles : uint64 [3] or [0]
        If all special tokens start with the same byte: that byte, repeated eight times; the second byte, if they share it
        as well; and a mask of the bits of the second byte that count. Otherwise empty.
    trie_roots : int32 [256]
        Node of each first byte, or -1.
    trie_nodes : int32 [6 * (nodes + 1)]
        Children and links of each node.
    trie_labels : uint8 [nodes]
        The byte that leads to each node.
    trie_found : int32 [5 * entries]
        The special tokens found when a path through the trie ends.
    """

    needles: NDArray[np.uint64]
    trie_roots: NDArray[np.int32]
    trie_nodes: NDArray[np.int32]
    trie_labels: NDArray[np.uint8]
    trie_found: NDArray[np.int32]
