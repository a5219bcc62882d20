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
        As `merges`, `displacements` and `merged`, for the last merges of a vocabulary with superwords, but with ids instead of
        internal tokens, and from the rank 0 on (see `superword_merging`). All other tables are those of the first merges.
        `super_merged` is empty if there are no superwords.
    super_kinds : uint16 [256]
        The kind of each byte, one of the upper eight bits, and in the lower ones the kinds that follow it in no token of the
        first merges.
    super_groups : uint8 [208]
        The same for ASCII characters, for `jit.simd.match_groups`.
    super_joins : uint64 [a power of two]
        Bit set of the pairs of ids of the first merges that are adjacent in a token.
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
    super_kinds: NDArray[np.uint16]
    super_groups: NDArray[np.uint8]
    super_joins: NDArray[np.uint64]


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
    words, run_words : uint32 [MAX_WORDS]
        The ends of the next words, and their number up to the end of each pre-token (see `superword_merging`).
    pieces : uint64 [PIECE_WORDS * MAX_PIECES]
        The next pieces of several tokens.
    piece_slots : uint64 [4 * PIECE_SLOTS]
        The cache of pieces of three to five tokens.
    run_stops : uint64 [RECENT_SPANS]
        As `recent_stops`, which has the ends of words, for pre-tokens of several words.
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
    words: NDArray[np.uint32]
    run_words: NDArray[np.uint32]
    pieces: NDArray[np.uint64]
    piece_slots: NDArray[np.uint64]
    run_stops: NDArray[np.uint64]
    scratch: NDArray[np.uint32]
    ends: NDArray[np.uint32]
    recent_stops: NDArray[np.uint64]
    document_stops: NDArray[np.int64]
    id_stops: NDArray[np.int64]
    progress: NDArray[np.int64]
    split_state: NDArray[np.int64]
