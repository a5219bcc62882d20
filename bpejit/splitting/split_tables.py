"""Write a compiled pattern as the arrays that the kernels read (see `kernels.splitting.automaton_arrays.SplitAutomaton`)."""

from __future__ import annotations

import numpy as np

from bpejit.arrays import Array
from bpejit.kernels.constants import PAIR_ROW_SHIFT, SPLIT_ACCEPT, SPLIT_DIES, SPLIT_KEPT_SHIFT
from bpejit.splitting.character_classes import MAX_CLASSES
from bpejit.splitting.compiled_pattern import SplitTables
from bpejit.splitting.dfa import DEAD, Dfa, safe_pairs_of_dfa
from bpejit.splitting.local_rules import make_rules
from bpejit.splitting.transducer import Transducer, safe_pairs_of_transducer, with_separator

_STRIDES = (32, 64, 128, 256)

_MAX_PAIR_ENTRIES = 1 << 16
"""Above this size the table of character pairs is slower than two steps through the smaller table."""


def transducer_tables(dfa: Dfa, transducer: Transducer) -> SplitTables:
    """Return the tables of a pattern that runs as a transducer.

    Parameters
    ----------
    dfa : Dfa
        Any DFA over the classes of the transducer.
    transducer : Transducer
    """
    classes = dfa.classes
    separator = 0
    if classes.n < MAX_CLASSES and not transducer.emitted[0].any():
        separator = classes.n + 1
        transducer = with_separator(transducer)
    states, size = transducer.moves.shape
    stride = _stride(size - 1)
    table = np.zeros((states, stride), dtype=np.uint32)
    table[:, :size] = transducer.moves * stride | transducer.kept << SPLIT_KEPT_SHIFT | transducer.emitted
    return SplitTables(
        table.reshape(-1),
        *_pair_table(transducer, np.append(classes.class_of[:128], separator), stride),
        classes.class_of,
        _byte_class(classes.class_of),
        _padded(safe_pairs_of_transducer(transducer), stride),
        *make_rules(transducer, classes.class_of, separator),
        stride,
        separator,
    )


def restart_tables(dfa: Dfa) -> SplitTables:
    """Return the tables of a pattern that runs as a DFA, which restarts after each match."""
    classes = dfa.classes
    stride = _stride(classes.n)
    states, size = dfa.moves.shape
    table = np.zeros((states, stride), dtype=np.uint32)
    dies = dfa.moves == DEAD
    table[:, :size] = np.where(dies, SPLIT_DIES, dfa.moves * stride) | np.where(dfa.accepts, SPLIT_ACCEPT, 0)
    return SplitTables(
        table.reshape(-1),
        *_no_pair_table(),
        classes.class_of,
        _byte_class(classes.class_of),
        _padded(safe_pairs_of_dfa(dfa), stride),
        np.zeros(0, np.uint8),
        0,
        stride,
        0,
    )


def _stride(n_classes: int) -> int:
    return next(stride for stride in _STRIDES if stride > n_classes)


def _byte_class(class_of: Array) -> Array:
    """Return the class of each byte that is not part of valid UTF-8."""
    points = np.arange(256)
    points[128:] += 0xDC00
    return class_of[points]


def _padded(pairs: Array, stride: int) -> Array:
    padded = np.zeros((stride, stride), dtype=np.uint8)
    padded[: pairs.shape[0], : pairs.shape[1]] = pairs
    return padded.reshape(-1)


def _no_pair_table() -> tuple[Array, Array, int]:
    return np.zeros(1, np.uint32), np.zeros(2 * 129, np.uint16), -1


def _pair_table(transducer: Transducer, ascii_classes: Array, stride: int) -> tuple[Array, Array, int]:
    """Return the table of steps over two ASCII characters.

    Parameters
    ----------
    transducer : Transducer
    ascii_classes : uint8 [129]
        The classes of the ASCII characters and of the separator.
    stride : int

    Returns
    -------
    table : uint32 [states * size * size]
        See `kernels.splitting.cursors`.
    offsets : uint16 [258]
        What each ASCII character adds to an index of the table: as the first character of a pair, then as the second; after
        them, what the separator adds.
    shift : int
        A row has `stride << shift` entries. -1 if the table would not fit into the cache.
    """
    columns, numbers = np.unique(ascii_classes, return_inverse=True)
    size = max(1 << (columns.size - 1).bit_length(), 16)
    shift = (size * size // stride).bit_length() - 1
    states = transducer.moves.shape[0]
    if states * size * size > _MAX_PAIR_ENTRIES:
        return _no_pair_table()
    moves, kept, emitted = (part[:, columns] for part in transducer)
    between = moves[:, :, None]
    second = np.arange(columns.size)[None, None, :]
    table = np.zeros((states, size, size), dtype=np.uint32)
    table[:, : columns.size, : columns.size] = (
        moves[between, second] * (size * size) << PAIR_ROW_SHIFT
        | emitted[:, :, None] + kept[between, second] << 6
        | kept[:, :, None] << 3
        | emitted[:, :, None] + emitted[between, second]
    )
    first, second = numbers * size, numbers
    offsets = np.concatenate([first[:128], second[:128], first[128:], second[128:]])
    return table.reshape(-1), offsets.astype(np.uint16), shift
