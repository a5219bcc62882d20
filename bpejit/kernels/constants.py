"""Constants shared by the kernels and their callers: small integers, flags, sentinels and status codes."""

import numpy as np

# Arithmetic on uint64 needs uint64 operands: with a Python integer, which Numba types as int64, the result is float64.
ZERO, ONE, TWO, THREE, FOUR, SIX, SEVEN, EIGHT, TWELVE, SIXTEEN, EIGHTEEN = (
    np.uint64(value) for value in (0, 1, 2, 3, 4, 6, 7, 8, 12, 16, 18)
)

HALF = np.uint64(32)
"""Shift to the upper half of a 64-bit word."""

LOW_HALF = np.uint64(0xFFFF_FFFF)
"""Mask of the lower half."""

LOW_BYTE = np.uint64(0xFF)

HIGH_BITS = np.uint64(0x8080_8080_8080_8080)
"""Mask of the high bit of each byte, which those of ASCII lack."""

WORD_BITS = np.uint64(64)
"""Number of bits of a word."""

LAST_BIT = np.uint64(63)
"""Index of the last of them, and mask of the index of a bit of an array of words."""

MIX = np.uint64(0x9E37_79B9_7F4A_7C15)
"""Factor of hashes: odd, with about half of its bits set. The value does not matter otherwise."""

TEXT_PADDING = 16
"""Readable bytes that must follow the text in every buffer: keys are made with 8-byte loads that may run past the end."""

SPECIAL_FLAG = 0x8000_0000
"""Bit of a span end that marks the span as a special token; the other 31 bits are the position."""

POSITION_MASK = SPECIAL_FLAG - 1
"""Mask of the position in a span end."""

END_POSITION = np.uint64(POSITION_MASK)
"""The same for arithmetic on uint64."""

MAX_TEXT_BYTES = 0x7FFF_0000
"""Longest text of one kernel call: positions leave the flag bit free."""

SHORT_KEY_BYTES = 15
"""Longest pre-token that is its own key: two 64-bit words, with the length in the top byte."""

SHORT_KEY = np.uint64(SHORT_KEY_BYTES)
"""The same for arithmetic on uint64."""

DONE = 0
"""Status: finished."""

NEED_SPACE = 1
"""Status: a table or an output is full; enlarge it and call again to resume."""

EXHAUSTED = 2
"""Status: no pair is left to merge."""

MAX_PENDING = 2
"""Largest number of pending span ends of a split transducer; each has a field in the splitting state."""

SHARED = 4
"""Status: the next pair has so many occurrences that several threads are to merge it."""

NEED_SCRATCH = 3
"""Status: the scratch space is too small for a very long pre-token; enlarge it and call again to resume."""

SPLIT_KEPT_SHIFT = 2
"""Shift to the number of ends that stay pending, in an entry of a transducer table; bits 0..1 are the number emitted."""

SPLIT_ACCEPT = 1
"""Flag in an entry of a restart table: a match ends before this character."""

SPLIT_DIES = 2
"""Flag in an entry of a restart table: no match continues over this character."""

# Fields of `SplitAutomaton.settings`.
IS_RESTART = 0
"""1 for a table of the restart loop, 0 for one of the transducer."""
STRIDE = 1
"""Entries per row of the table and of `safe`."""
LONGEST_SPECIAL = 2
"""Length of the longest special token in bytes."""

PAIR_SHIFT = 3
"""A row of `pair_table` has `2 ** PAIR_SHIFT` times as many entries as a row of `table`; -1 without a `pair_table`."""

PAIR_ROW_SHIFT = 9
"""Shift to the next row in an entry of `pair_table`, above three fields of three bits (see `kernels.splitting.cursors`)."""

CUT_RULES = 4
"""Number of sets of tables in the local rules that determine cuts; the other sets determine what is unknown."""

WARMING_TEXT = b"low lower lowest newest widest<|endoftext|>" * 3 + b"a pre-token beyond fifteen bytes: " + b"abc" * 40
"""A text with long and short pre-tokens, tied pairs and a special token, so that every kernel runs."""
