"""The arrays of the encoding kernels, as two named tuples: read-only tables, and the workspace of one thread."""

# Annotations are not postponed here: `make_reader` needs their values, and evaluating fifty strings takes 1 ms at import.
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class EncoderTables(NamedTuple):
    """The tables of one model: read-only, shared by all threads.

    Parameters
    ----------
    merges, displacements, byte_pairs, merged
        The merge rules, as in `RuleTables`; only those of pairs that occur.
    ids : uint32 [tokens]
        Id of each internal token; 0..255 are the single bytes.
    inner_pairs : uint64 [1024 + a power of two]
        Bit sets of the pairs of characters, and of bytes, that occur inside a token (see `boundary_filter`).
    joins : uint64 [a power of two]
        Bit set of the pairs of characters between which a merge occurs (see `character_joins`).
    characters : uint32 [65536] or [0]
        Internal token and kind of each three-byte character by its code point (see `character_joins`); empty if
        `character_merging` is not exact.
    neighbors : uint64 [2 * kinds]
        Sets of the characters next to each kind of which a merge may have a part.
    merges_sentences : uint8 [1]
        1 if new sentences are merged together (see `sentence_merging`).
    specials : uint64 [2 * a power of two]
        Hash table of special tokens: the hash of the bytes, and the id plus 1 (0 in a free slot).
    whole_tokens : uint64 [3 * slots] or [0]
        Tokens that a pre-token becomes as a whole although its merges produce others: a hash table with three words per
        slot, the hash of the bytes, `start << 32 | length` in `whole_token_pool` (0 in a free slot), and the id.
    whole_token_pool : uint8
        The bytes of these tokens, readable 16 bytes past the last.
    parts : uint32 [4 * tokens without an id] or [0]
        The ids that stand for internal tokens without an id (see `symbol_parts`).
    part_limits : uint32 [3]
        Fields FIRST_PART, FUSED and DEFERS.
    super_merges, super_displacements, super_merged
        As `merges`, `displacements` and `merged`, for the last merges of a vocabulary with superwords, which begin with the
        rank 0 (see `superword_merging`). All other tables are those of the first merges, and `ids` are internal tokens.
    super_inner : uint64 [1024]
        Bit set of the pairs of bytes that are adjacent in a token of the first merges.
    super_joins : uint64 [a power of two]
        Bit set of the pairs of tokens of the first merges that are adjacent in a token.
    super_ids : uint32 [tokens] or [0]
        Id of each internal token; empty if there are no superwords.
    """

    merges: NDArray[np.uint64]
    displacements: NDArray[np.uint8]
    byte_pairs: NDArray[np.uint32]
    merged: NDArray[np.uint32]
    ids: NDArray[np.uint32]
    inner_pairs: NDArray[np.uint64]
    joins: NDArray[np.uint64]
    characters: NDArray[np.uint32]
    neighbors: NDArray[np.uint64]
    merges_sentences: NDArray[np.uint8]
    specials: NDArray[np.uint64]
    whole_tokens: NDArray[np.uint64]
    whole_token_pool: NDArray[np.uint8]
    parts: NDArray[np.uint32]
    part_limits: NDArray[np.uint32]
    super_merges: NDArray[np.uint64]
    super_displacements: NDArray[np.uint8]
    super_merged: NDArray[np.uint32]
    super_inner: NDArray[np.uint64]
    super_joins: NDArray[np.uint64]
    super_ids: NDArray[np.uint32]


class WorkspaceArrays(NamedTuple):
    """The arrays that the encoding kernels write to: one set per thread.

    Parameters
    ----------
    slots : uint64 [4 * slots]
        The cache of short pre-tokens (see `pretoken_cache`).
    long_index : uint64 [2 * entries]
        The index of long pre-tokens (see `long_pretokens`).
    arena : uint8
        The records of the cache: long pre-tokens, and ids that do not fit into a slot.
    seen_once : uint64 [a power of two]
        Bit set of the hashes of long pre-tokens that occurred once and were not cached.
    character_ids : uint64 [2 * 65536]
        Ids of single three-byte characters (see `boundary_filter`).
    batch : uint64
        Keys and home slots of the current batch of pre-tokens, and the hashes of the long ones.
    deferred : uint64 [DEFERRED_WORDS]
        New pre-tokens that are merged together (see `interleaved_merging`).
    sentences : uint32 [SENTENCE_WORDS]
        New sentences that are merged together, and their ids (see `sentence_merging`).
    fragments : uint64 [FRAGMENT_WORDS * MAX_FRAGMENTS]
        The next fragments of a pre-token of several words (see `superword_merging`).
    scratch : uint32
        Scratch space for merging.
    ends : uint32
        Ends of the current spans.
    recent_stops : uint64 [RECENT_SPANS]
        Ring buffer, used if the text consists of several documents: the end of the ids of span `i` is at index
        `i % RECENT_SPANS` until a later span overwrites it.
    document_stops : int64 [MAX_DOCUMENTS]
        End of each document in the text, if it consists of several (see `text_encoding`).
    id_stops : int64 [MAX_DOCUMENTS + 1]
        End of the ids of each document.
    progress : int64 [PROGRESS_SIZE]
        Where to resume, and how full the cache is.
    split_state : int64 [11]
        State of the splitter (see `kernels.splitting.spans`).
    """

    slots: NDArray[np.uint64]
    long_index: NDArray[np.uint64]
    arena: NDArray[np.uint8]
    seen_once: NDArray[np.uint64]
    character_ids: NDArray[np.uint64]
    batch: NDArray[np.uint64]
    deferred: NDArray[np.uint64]
    sentences: NDArray[np.uint32]
    fragments: NDArray[np.uint64]
    scratch: NDArray[np.uint32]
    ends: NDArray[np.uint32]
    recent_stops: NDArray[np.uint64]
    document_stops: NDArray[np.int64]
    id_stops: NDArray[np.int64]
    progress: NDArray[np.int64]
    split_state: NDArray[np.int64]
