"""Numbers that kernels and their callers share: flags, sentinels, status codes. Free of numba."""

TEXT_PADDING = 16
"""Readable bytes that must follow the text in every buffer: keys are made with 8-byte loads that may run past the end."""

SPECIAL_FLAG = 0x8000_0000
"""Bit of a span's end that marks the span as a special token; the position is in the other 31 bits."""

POSITION_MASK = SPECIAL_FLAG - 1
"""The other bits: where the span ends."""

MAX_TEXT_BYTES = 0x7FFF_0000
"""Longest text of one kernel call, so that positions leave the flag bit free."""

SHORT_KEY_BYTES = 15
"""Longest pre-token that is its own key: two 64-bit words with the length in the top byte."""

DONE = 0
"""Status: everything asked for was done."""

NEED_SPACE = 1
"""Status: a table or an output is full; make it larger and call again to go on where the kernel stopped."""

EXHAUSTED = 2
"""Status: there is nothing left to do (no pair left to merge)."""

MAX_PENDING = 2
"""Most ends that a split transducer may have found and not yet emitted (a field of the splitting state for each)."""

NEED_SCRATCH = 3
"""Status: the work space is too small for one very long pre-token; make it larger and call again."""

SPLIT_KEPT_SHIFT = 2
"""In an entry of a transducer's table, bits 0..1 are the ends emitted, and the pending ends kept begin at this bit."""

SPLIT_ACCEPT = 1
"""In an entry of a restart table: a match ends before this character."""

SPLIT_DIES = 2
"""In an entry of a restart table: no match can go on over this character."""

# Fields of `SplitAutomaton.settings`.
IS_RESTART = 0
"""1 for a table of the restart loop, 0 for one of the transducer."""
STRIDE = 1
"""Entries in a row of the table, and in a row of `safe`."""
LONGEST_SPECIAL = 2
"""Bytes of the longest special token."""

PAIR_SHIFT = 3
"""A row of `pair_table` has 2 ** PAIR_SHIFT times the entries of a row of `table`; -1 if there is no such table."""

PAIR_ROW_SHIFT = 9
"""Where the next row stands in an entry of `pair_table`; below it are three fields of three bits, see `kernels.automata`."""

CUT_RULES = 4
"""Sets of tables of the local rules that are about cuts; the others are about what is unknown."""
