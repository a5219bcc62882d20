"""The arguments of kernels that are many arrays: named tuples, and the same as addresses.

Each array of an argument is looked at anew in every call: the thirty arrays that encode a text would take longer than to
encode a sentence. So `encode_text` gets where they are, as three arrays of addresses, and puts the
tuples together itself (see `addresses`). Whoever holds the addresses must hold the arrays. Free of numba.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def addresses_of(record: tuple[Array, ...]) -> Array:
    """Return address and size of each array of a record: int64 [2 * arrays]."""
    return np.array([number for array in record for number in (array.ctypes.data, array.size)], dtype=np.int64)


class SplitAutomaton(NamedTuple):
    """A compiled split pattern with its special tokens: one argument for the kernels of `bpejit.kernels.splitting.spans`.

    Made by `bpejit.splitting.Splitter` only.

    Parameters
    ----------
    table : uint32 [rows * stride]
        Transitions; see the kernels.
    pair_table : uint32 [rows * (stride << PAIR_SHIFT)]
        Transitions over two ASCII characters at once; see the kernels.
    pair_classes : uint16 [2 * 128]
        What each ASCII character adds to the index of an entry of `pair_table` as the first of two, and as the second.
    class_of : uint8 [0x110000]
        Class of each code point.
    byte_class : uint8 [256]
        Class of each byte that is a character by itself: ASCII, and bytes that are not UTF-8.
    safe : uint8 [stride * stride]
        1 for each pair of classes between which a text may be cut.
    local_rules : uint8 [sets * CONTEXT_SIZE * 128] or [0]
        What five neighbouring characters tell (see `bpejit.splitting.local_rules`).
    settings : int64 [5]
        IS_RESTART, STRIDE, LONGEST_SPECIAL, PAIR_SHIFT, CUT_RULES.
    needles, trie_roots, trie_nodes, trie_labels, trie_found
        The special tokens, as in `SpecialTrie`.
    """

    table: Array
    pair_table: Array
    pair_classes: Array
    class_of: Array
    byte_class: Array
    safe: Array
    local_rules: Array
    settings: Array
    needles: Array
    trie_roots: Array
    trie_nodes: Array
    trie_labels: Array
    trie_found: Array


class SpecialTrie(NamedTuple):
    """The automaton that finds special tokens (see `kernels.special_trie`).

    Parameters
    ----------
    needles : uint64 [3] or [0]
        If all special tokens begin with the same byte: that byte, eight times; the second byte, if they share that too; and
        the bits of the second that count. Otherwise nothing.
    trie_roots : int32 [256]
        Node of each first byte, or -1.
    trie_nodes : int32 [6 * (nodes + 1)]
        Children and links of each node.
    trie_labels : uint8 [nodes]
        The byte that leads to a node.
    trie_found : int32 [5 * entries]
        The special tokens that are found when a path through the trie ends.
    """

    needles: Array
    trie_roots: Array
    trie_nodes: Array
    trie_labels: Array
    trie_found: Array


class EncoderTables(NamedTuple):
    """What the encoding kernels read: one for all threads, never written to.

    Parameters
    ----------
    pairs : uint64 [slots]
        Hash table from a pair of internal tokens to the rank of their merge (see `kernels.rules`).
    byte_pairs : uint32 [65536]
        Rank of each pair of single bytes, and which two bytes no token has side by side.
    merged : uint32 [ranks]
        Internal token that each rank makes.
    ids : uint32 [tokens]
        The id of each internal token; 0..255 are the single bytes.
    joints : uint64 [1024 + a power of two]
        Sets of bits that say between which characters merges may go (see `kernels.parts`).
    specials : uint64 [2 * a power of two]
        Hash table of special tokens: the hash of the bytes, and the id plus 1 (0: a free slot).
    whole : uint64 [3 * slots] or [0]
        Tokens that a pre-token becomes as a whole though its merges give others: a hash table of three words, the hash of the
        bytes, `start << 32 | length` in `whole_pool` (0: a free slot), and the id.
    whole_pool : uint8
        Their bytes; readable 16 bytes past the last.
    """

    pairs: Array
    byte_pairs: Array
    merged: Array
    ids: Array
    joints: Array
    specials: Array
    whole: Array
    whole_pool: Array


class EncoderMemory(NamedTuple):
    """What the encoding kernels write to: one for each thread.

    Parameters
    ----------
    slots : uint64 [4 * slots]
        The cache of pre-tokens (see `kernels.cache`).
    arena : uint8
        Its longer entries.
    once : uint64 [a power of two]
        Which long pre-tokens were seen once: a bit for some bits of the hash.
    characters : uint64 [2 * 65536]
        Ids of single characters of three bytes (see `kernels.parts`).
    batch : uint64
        Keys of the pre-tokens in work.
    scratch : uint32
        Work space for merging.
    ends : uint32
        Ends of the spans in work.
    progress : int64 [9]
        Where to go on, and how full the cache is.
    split_state : int64 [11]
        State of the splitter (see `kernels.splitting`).
    """

    slots: Array
    arena: Array
    once: Array
    characters: Array
    batch: Array
    scratch: Array
    ends: Array
    progress: Array
    split_state: Array
