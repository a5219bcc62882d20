"""Which sentences are cached: those of texts in which sentences recur.

Sentences that are single pre-tokens, as in Chinese and Japanese, rarely occur twice: of 94,000 in 5 MB of Chinese, 87,000 are
distinct. Most consist of many short fragments (see `boundary_filter`), which are cached themselves. So such a sentence is
cached only at its second occurrence; `seen_once`, a bit set indexed by some bits of the hash, records the first.

    share    sentences that are recorded    sentences that are cached
    0        all                            at their second occurrence
    -1       one in 32, by their hash       the same, of those that are recorded
    1 to 8   one in 32                      at their first occurrence, of so many eighths

A cache begins with share 0. When `SEEN_PER_WORD` are recorded and hardly any of them recurred, the share becomes -1, since
caching those that seem to recur took a fifth of the time of a first pass. After as many more, the bit set is cleared, and the
share is 0 again.

One in 32 shows when a text occurs again that is too large for the bit set: once most of the last ones are known, as many of
the following ones are cached as fit, by the size of those that were recorded and the limit of the arena. Others would be lost
by the time that they occur again, since the oldest records of a ring are overwritten. If nevertheless it has been written once
more, or the index was cleared, the share falls by one eighth. When most of the last ones are new, it is -1 again.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.kernels.constants import LAST_BIT, ONE, SIX, ZERO
from bpejit.kernels.encoding.pretoken_cache import (
    ARENA_WRITTEN,
    N_RECURRED,
    N_SEEN,
    SENTENCE_BYTES,
    SENTENCE_LAP,
    SENTENCE_LIMIT,
    SENTENCE_SHARE,
)

SEEN_WORDS = 1 << 15
"""Words of `seen_once`, of 64 bits."""

SEEN_PER_WORD = 4
"""After this many sentences for each word of `seen_once`, 131,072 in all, it is cleared, or fewer are recorded. With 32, on
average a quarter of the sentences of a large text were taken for others, and cached at their first occurrence.
"""

RECURRING = 4
"""One in this many recorded sentences has to recur, or most of the following ones are not recorded."""

MOST_EIGHTHS = 8
"""The largest share: all sentences are cached at their first occurrence."""

SAMPLED = 32
"""One sentence in this many is recorded, if not all are."""

ENOUGH_RECURRED = 1 << 9
"""If not all are recorded, this many more of them have to recur than not, or a text is not taken for one that occurs again."""

_OVERHEAD = np.uint64(48)
"""Bytes of a cached sentence besides its text and ids: the head of its record, and an index that is a third full."""

# The lower bits of a hash select the entry of the index.
_SEEN_SHIFT = np.uint64(32)
_EIGHTH_SHIFT = np.uint64(56)
_SAMPLE_SHIFT = np.uint64(59)  # one in SAMPLED


@inline
def mark_seen(workspace, hashed, n_bytes):
    """Record the hash of a sentence that is not in the cache; return True if it is not cached now.

    If it was recorded before, or another one that shares its bit, it is cached. `n_bytes` is the size of its text and ids.
    """
    progress = workspace.progress
    share = progress[SENTENCE_SHARE]
    if share != 0 and hashed >> _SAMPLE_SHIFT != ZERO:
        return np.int64(hashed >> _EIGHTH_SHIFT & np.uint64(MOST_EIGHTHS - 1)) >= share
    seen_once = workspace.seen_once
    bit_index = hashed >> _SEEN_SHIFT
    word = (bit_index >> SIX) & np.uint64(seen_once.size - 1)
    bit = ONE << (bit_index & LAST_BIT)
    known = seen_once[word] & bit != ZERO
    if share != 0:
        _choose_share(workspace, known)
    elif known:
        progress[N_RECURRED] += 1
    if known:
        return False
    if progress[N_SEEN] >= seen_once.size * SEEN_PER_WORD:
        if share == 0 and progress[N_RECURRED] * RECURRING < progress[N_SEEN]:
            progress[SENTENCE_SHARE] = -1
        else:
            seen_once[:] = ZERO
            progress[SENTENCE_BYTES] = 0
            if share < 0:
                progress[SENTENCE_SHARE] = 0
        if share <= 0:
            progress[N_RECURRED] = 0
        progress[N_SEEN] = 0
    seen_once[word] |= bit
    progress[N_SEEN] += 1
    progress[SENTENCE_BYTES] += np.int64(n_bytes + _OVERHEAD) * (1 if share == 0 else SAMPLED)
    return True


@inline
def _choose_share(workspace, known):
    """Change the share, which is not 0, after a sentence that is recorded or was known. N_RECURRED is at least 0."""
    progress = workspace.progress
    lead = min(max(progress[N_RECURRED] + (1 if known else -1), 0), ENOUGH_RECURRED)
    progress[N_RECURRED] = lead
    if progress[SENTENCE_SHARE] < 0:
        if lead == ENOUGH_RECURRED:
            fitting = (MOST_EIGHTHS - 1) * progress[SENTENCE_LIMIT] // max(progress[SENTENCE_BYTES], 1)
            progress[SENTENCE_SHARE] = min(fitting, MOST_EIGHTHS) if fitting > 0 else -1
            progress[SENTENCE_LAP] = progress[ARENA_WRITTEN]
    elif lead == 0:
        progress[SENTENCE_SHARE] = -1
    elif progress[ARENA_WRITTEN] >= progress[SENTENCE_LAP] + workspace.arena.size:
        reduce_share(progress)


@inline
def reduce_share(progress):
    """Cache fewer of the following sentences, because those that are cached do not fit."""
    if progress[SENTENCE_SHARE] > 1:
        progress[SENTENCE_SHARE] -= 1
    progress[SENTENCE_LAP] = progress[ARENA_WRITTEN]
