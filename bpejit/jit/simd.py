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


NARROWED = 32
"""Number of characters that `narrow_characters` reads."""


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
def match_groups(
    text: Any,
    position: Any,
    rules: Any,
    n_first: Any,
    n_sets: Any,
    n_halves: Any,
) -> Any:
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
        The group of each ASCII character, then the tables (see `bpejit.splitting.automaton.group_rules`).
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
def narrow_characters(characters: Any, position: Any, out: Any, index: Any) -> Any:
    """Write the low bytes of 32 characters; return which of them are not ASCII, as bits of a uint64.

    Parameters
    ----------
    characters : uint8[:], uint16[:] or uint32[:], in
        Code points.
    position : uint64
        The first of the characters.
    out : uint8[:], out
    index : uint64
        Where the first byte is written.
    """
    some = characters[int(position) : int(position) + NARROWED]
    out[int(index) : int(index) + NARROWED] = some & 0xFF
    return np.packbits(some > 0x7F, bitorder="little").view(np.uint32)[0].astype(np.uint64)


@Intrinsic
def pack_characters(
    text: Any,
    position: Any,
    expected: Any,
    scratch: Any,
    offset: Any,
    stride: Any,
) -> Any:
    """Collect the bytes of the characters of UTF-8 that start in 64 bytes, one byte of each in each of four ranges.

    Parameters
    ----------
    text : uint8[:], in
        67 bytes from `position` on are read.
    position : uint64
        The first of the 64 bytes.
    expected : uint64
        The bytes that belong to a character that starts before them, as bits.
    scratch : uint32[:], out
        The first bytes of the characters are written from byte `offset` on, the second ones `stride` bytes later, and so on.
        Bytes that a character lacks are any; 64 bytes of each range are overwritten, of the fourth one only if it is needed.
    offset, stride : uint64

    Returns
    -------
    starts, broken, expected : uint64
        The bytes at which characters start; those that continue no character, or start one that lacks bytes; and the bytes
        after the 64 that belong to the last character. Starts include bytes that are never valid, and overlong forms.
    """
    at, base, step = int(position), int(offset), int(stride)
    given = text[at : at + 67]
    starts = given & 0xC0 != 0x80
    width = np.where(starts, 1 + (given >= 0xC0) + (given >= 0xE0).astype(np.int64) + (given >= 0xF0), 0)
    continues = np.zeros(67, dtype=np.bool_)
    for i in range(3):
        continues[i] = int(expected) >> i & 1
    broken = np.zeros(64, dtype=np.bool_)
    for start in range(64):
        rest = slice(start + 1, start + width[start])
        continues[rest] = True
        broken[start] = starts[rest].any()
    broken |= ~starts[:64] & ~continues[:64]
    out = scratch.view(np.uint8)
    where = np.flatnonzero(starts[:64])
    for i in range(4 if (width[:64] == 4).any() else 3):
        out[base + i * step : base + i * step + where.size] = given[where + i]
    return _as_word(starts[:64]), _as_word(broken), np.uint64(sum(1 << i for i in range(3) if continues[64 + i]))


@Intrinsic
def classify_characters(scratch: Any, offset: Any, stride: Any, pages: Any, out: Any) -> Any:
    """Write the classes of 64 characters that `pages` has; return the other ones, as bits of a uint64.

    Parameters
    ----------
    scratch : uint32[:], in-out
        The bytes of characters, from `pack_characters`; classes are written as 64 bytes from byte `out` on.
    offset, stride, out : uint64
    pages : uint8 [2240], in
        See `bpejit.splitting.automaton`.
    """
    octets = scratch.view(np.uint8)
    first, second, third = (octets[int(offset) + i * int(stride) :][:64] for i in range(3))
    ascii_classes, leads, entries, nodes = np.split(pages, [128, 192, 192 + 1024])
    is_three = first & 0xF0 == 0xE0
    found = np.where(first < 0x80, ascii_classes[first & 0x7F], leads[first & 0x3F])
    found = np.where(is_three, entries[(first.astype(np.int64) & 0xF) << 6 | second & 0x3F], found)
    last = np.where(is_three, third, second) & 0x3F
    found = np.where((found & 0xC0) == 0x80, nodes[(found.astype(np.int64) & 0xF) << 6 | last], found)
    octets[int(out) : int(out) + 64] = found
    return _as_word(found >= 0x80)


@Intrinsic
def look_up_characters(scratch: Any, offset: Any, stride: Any, class_of: Any, out: Any) -> Any:
    """Write the classes of sixteen characters; return those that are valid, as bits of a uint64.

    The parameters are those of `classify_characters`, but `class_of` is uint8 [0x110000]. The characters have as many bytes as
    their first byte requires. The class of one that is not valid is undefined.
    """
    octets = scratch.view(np.uint8)
    valid = 0
    for i in range(16):
        data = bytes(octets[int(offset) + i + k * int(stride)] for k in range(4))
        width = 1 + (data[0] >= 0xC0) + (data[0] >= 0xE0) + (data[0] >= 0xF0)
        octets[int(out) + i] = 0
        if _is_character(data[:width]):
            octets[int(out) + i] = class_of[ord(data[:width].decode())]
            valid |= 1 << i
    return np.uint64(valid)


def _is_character(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False


@Intrinsic
def deposit_bits(bits: Any, mask: Any) -> Any:
    """Return the low bits of a uint64 at the places of the ones of `mask`, in order (PDEP), as uint64.

    The result is undefined on processors for which `has_avx512_vbmi` is false.
    """
    places = [i for i in range(64) if int(mask) >> i & 1]
    return np.uint64(sum((int(bits) >> k & 1) << place for k, place in enumerate(places)))


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
def begin_merge(
    text: Any,
    start: Any,
    length: Any,
    byte_pairs: Any,
    lanes: Any,
    first: Any,
) -> None:
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
    """Return the lowest of 16 ranks from index `first` on, and the first lane that has it, as two uint64."""
    ranks = lanes[int(first) : int(first) + 16]
    return np.uint64(ranks.min()), np.uint64(ranks.argmin())


@Intrinsic
def load_lanes(lanes: Any, first: Any, tokens: Any, ranks: Any, n: Any, mask: Any) -> None:
    """Copy tokens and ranks to 16 lanes each, where they may be merged.

    Parameters
    ----------
    lanes : uint32[:], in-out
        Tokens are written to 16 elements from `first` on, and ranks to the next 16. The source is in the same array.
    first, tokens, ranks : uint64
        Indices; 16 elements are read from each.
    n : uint64
        Number of tokens. Ranks from `n - 1` on become 0xFFFFFFFF.
    mask : uint64
        Is applied to the tokens.
    """
    at, rank = int(tokens), int(ranks)
    below = np.arange(16) + 1 < int(n)
    new = lanes[at : at + 16] & np.uint32(mask), np.where(below, lanes[rank : rank + 16], np.uint32(0xFFFF_FFFF))
    for half, values in zip(_halves(lanes, first), new, strict=True):
        half[:] = values


@Intrinsic
def equal_lanes(lanes: Any, first: Any, value: Any) -> Any:
    """Return which of the 16 elements of `lanes` from index `first` on equal a uint32, as the low bits of a uint64."""
    found = lanes[int(first) : int(first) + 16] == np.uint32(value)
    return np.uint64(sum(1 << i for i in range(16) if found[i]))


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
