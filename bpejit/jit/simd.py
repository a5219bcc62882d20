"""Operations on wide registers (SIMD) that Numba lacks.

As in `memory`, each operation is implemented here in Python, and in `simd_llvm` in LLVM IR with the same result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bpejit.jit.memory import Intrinsic

CONTEXT_BEFORE = 3
"""Number of characters of a context before its position."""

CONTEXT_SIZE = 5
"""Number of characters of a context."""


@Intrinsic
def has_avx512_vbmi() -> Any:
    """Return True if the operations on 64 positions or characters are available; a constant in compiled code.

    They need AVX-512 VBMI and VBMI2: 64 lookups at once in a table of 128 bytes, and compression of 64 bytes by a mask. In
    plain Python the result is always True.
    """
    return True


@Intrinsic
def has_avx2() -> Any:
    """Return True if `match_groups` is available; a constant in compiled code. In plain Python the result is always True."""
    return True


@Intrinsic
def match_contexts(text: Any, position: Any, rules: Any, number: Any) -> Any:
    """Return the positions whose contexts are in a box of a set of tables, as bits of a uint64.

    Parameters
    ----------
    text : uint8[:] or uint32[:], in
        ASCII characters or character classes, one byte each. 63 + CONTEXT_SIZE bytes are read, from CONTEXT_BEFORE bytes before
        the first position. The high bit of each byte is ignored.
    position : uint64
        The first of 64 positions: the index of the element of `text` after it.
    rules : uint8 [sets * CONTEXT_SIZE * 128], in
        See `bpejit.splitting.local_rules`.
    number : int
        The index of the set of tables.
    """
    tables = rules.reshape(-1, CONTEXT_SIZE, 128)[int(number)]
    first = int(position) * text.itemsize - CONTEXT_BEFORE
    text = text.view(np.uint8)
    boxes = np.full(64, 0xFF, dtype=np.uint8)
    for slot, table in enumerate(tables):
        boxes &= table[text[first + slot : first + slot + 64] & 0x7F]
    return _as_word(boxes != 0)


@Intrinsic
def match_groups(text: Any, position: Any, rules: Any, n_first: Any, n_sets: Any, n_halves: Any) -> Any:
    """Return the positions whose contexts are in a box of tables over groups, as bits of two uint64.

    The first is about the first sets of tables, the second about the others. For ASCII text they equal those of
    `match_contexts`; positions with non-ASCII contexts have any bits. All sets take one call, since finding the groups of 64
    positions takes as long as two sets.

    Parameters
    ----------
    text : uint8[:], in
    position : uint64
        As in `match_contexts`.
    rules : uint8 [128 + n_sets * CONTEXT_SIZE * n_halves * 16], in
        The group of each ASCII character, then the tables (see `bpejit.splitting.rule_groups.group_rules`).
    n_first, n_sets : uint64
        The number of the first sets, and of all.
    n_halves : uint64
        1 or 2: a table has 16 or 32 groups.
    """
    tables = rules[128:].reshape(int(n_sets), CONTEXT_SIZE, 16 * int(n_halves))
    first = int(position) - CONTEXT_BEFORE
    found = np.zeros((int(n_sets), 64), dtype=np.bool_)
    for truths, each in zip(found, tables, strict=True):
        boxes = np.full(64, 0xFF, dtype=np.uint8)
        for slot, table in enumerate(each):
            boxes &= table[rules[text[first + slot : first + slot + 64] & 0x7F]]
        truths[:] = boxes != 0
    return _as_word(found[: int(n_first)].any(axis=0)), _as_word(found[int(n_first) :].any(axis=0))


@Intrinsic
def find_non_ascii(text: Any, position: Any) -> Any:
    """Return which of the 64 positions from `position` have a non-ASCII byte in their context, as bits of a uint64."""
    first = int(position) - CONTEXT_BEFORE
    non_ascii = np.zeros(64, dtype=np.bool_)
    for slot in range(CONTEXT_SIZE):
        non_ascii |= text[first + slot : first + slot + 64] > 0x7F
    return _as_word(non_ascii)


@Intrinsic
def read_characters(text: Any, position: Any, class_of: Any, scratch: Any, positions: Any, classes: Any) -> Any:
    """Read sixteen characters of UTF-8; return their size in bytes, as uint64.

    Returns 0 if one of them is not valid, or if they and the next byte do not fit into 64 bytes. The output is then undefined.

    Parameters
    ----------
    text : uint8[:], in
        67 bytes from `position` on are read.
    position : uint64
        The start of the first character.
    class_of : uint8 [0x110000], in
    scratch : uint32[:], out
    positions : uint64
        The index in `scratch` at which the positions of the characters are written.
    classes : uint64
        The index in `scratch` at which their classes are written, as 16 bytes.
    """
    at = int(position)
    stop = at + 63
    for i in range(16):
        width = next((w for w in range(1, 5) if _is_character(text[at : at + w].tobytes())), 0)
        if not width:
            return np.uint64(0)
        scratch[int(positions) + i] = at
        scratch.view(np.uint8)[4 * int(classes) + i] = class_of[ord(text[at : at + width].tobytes().decode())]
        at += width
    if at > stop or text[at] & 0xC0 == 0x80:
        return np.uint64(0)
    return np.uint64(at - int(position))


def _is_character(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False


@Intrinsic
def write_selected(scratch: Any, index: Any, first: Any, bits: Any) -> Any:
    """Write `scratch[first + i]` to `scratch[index:]` for each bit `i` of `bits` that is 1; return their number, as uint64.

    Up to 64 entries from `index` on are overwritten.
    """
    selected = [scratch[int(first) + i] for i in range(64) if int(bits) >> i & 1]
    scratch[int(index) : int(index) + len(selected)] = selected
    return np.uint64(len(selected))


def _as_word(truths: Any) -> Any:
    return np.packbits(truths, bitorder="little").view(np.uint64)[0]


@Intrinsic
def write_bit_positions(ends: Any, index: Any, position: Any, bits: Any) -> Any:
    """Write `position + i` to `ends[index:]` for each bit `i` of `bits` that is 1; return their number, as uint64.

    Up to 64 entries from `index` on are overwritten.
    """
    positions = [int(position) + i for i in range(64) if int(bits) >> i & 1]
    ends[int(index) : int(index) + len(positions)] = positions
    return np.uint64(len(positions))


@Intrinsic
def begin_merge(text: Any, start: Any, length: Any, byte_pairs: Any, lanes: Any, first: Any) -> None:
    """Write the initial state of a pre-token: its bytes to 16 lanes, and the ranks of its pairs to the next 16.

    Parameters
    ----------
    text : uint8[:], in
        Readable up to `start + 17`.
    start, length : uint64
        The pre-token, at most 16 bytes.
    byte_pairs : uint32 [65536], in
        The rank of each pair of bytes.
    lanes : uint32[:], out
        32 lanes are written. The ranks after the last pair are 0xFFFFFFFF.
    first : uint64
        The index in `lanes` of 16 tokens, followed by 16 ranks.
    """
    tokens, ranks = _halves(lanes, first)
    byte = np.zeros(17, dtype=np.uint32)
    given = text[int(start) : int(start) + 17]
    byte[: given.size] = given
    pair = np.arange(16) + 1 < int(length)
    tokens[:] = byte[:16]
    ranks[:] = np.where(pair, byte_pairs[(byte[:16] << 8 | byte[1:]) * pair], 0xFFFF_FFFF)


@Intrinsic
def lowest_rank(lanes: Any, first: Any) -> Any:
    """Return the lowest rank and the first lane that has it, as two uint64."""
    ranks = _halves(lanes, first)[1]
    return np.uint64(ranks.min()), np.uint64(ranks.argmin())


@Intrinsic
def merge_lane(lanes: Any, first: Any, lane: Any, token: Any, before: Any, after: Any) -> None:
    """Replace two adjacent tokens by one, and write the ranks of its pairs.

    Parameters
    ----------
    lanes : uint32[:], in-out
    first : uint64
        As in `begin_merge`.
    lane : uint64
        The lane of the first of the two tokens.
    token : uint64
        The new token.
    before, after : uint64
        The ranks of its pairs with the previous and with the next token; `before` is ignored in lane 0.
    """
    at = int(lane)
    for half, new, fill in zip(_halves(lanes, first), (token, after), (0, 0xFFFF_FFFF), strict=True):
        half[at:] = np.append(half[at + 1 :], np.uint32(fill))
        half[at] = new
    if at:
        _halves(lanes, first)[1][at - 1] = before


@Intrinsic
def write_tokens(lanes: Any, first: Any, n: Any, ids: Any, out: Any, index: Any) -> None:
    """Write the ids of the tokens in the first `n` lanes to `out[index:]`; 16 entries are overwritten."""
    out[int(index) : int(index) + int(n)] = ids[_halves(lanes, first)[0][: int(n)]]


def _halves(lanes: Any, first: Any) -> tuple[Any, Any]:
    begin = int(first)
    return lanes[begin : begin + 16], lanes[begin + 16 : begin + 32]
