"""Operations on many numbers at once: what wide registers do, and plain Numba has no words for.

As in `memory`, each is here in plain Python, with the same value, and in `simd_llvm` as LLVM IR.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bpejit.jit.memory import Intrinsic

CONTEXT_BEFORE = 3
"""Characters of a context before the place that it is about."""

CONTEXT_SIZE = 5
"""Characters of a context."""


@Intrinsic
def has_avx512_vbmi() -> Any:
    """Whether what is about 64 places or characters may be called: a constant of the compiled code.

    They want a processor that looks up 64 bytes in a table of 128 at once, and writes down the places of 64 bits: x86-64 with
    AVX-512 VBMI and VBMI2. In plain Python every processor has.
    """
    return True


@Intrinsic
def match_contexts(text: Any, position: Any, rules: Any, number: Any) -> Any:
    """For the 64 places from `position` on, whether their contexts are in a box of a set of tables, as bits.

    Parameters
    ----------
    text : uint8[:] or uint32[:], in
        ASCII characters or classes of characters, a byte each. From CONTEXT_BEFORE bytes before the first place on,
        63 + CONTEXT_SIZE are read. Of a byte beyond ASCII the high bit is ignored.
    position : uint64
        Where in `text` the byte behind the first place is, counted in its own elements.
    rules : uint8 [sets * CONTEXT_SIZE * 128], in
        See `bpejit.splitting.local_rules`.
    number : int
        Which set of tables.
    """
    tables = rules.reshape(-1, CONTEXT_SIZE, 128)[int(number)]
    first = int(position) * text.itemsize - CONTEXT_BEFORE
    text = text.view(np.uint8)
    boxes = np.full(64, 0xFF, dtype=np.uint8)
    for place, table in enumerate(tables):
        boxes &= table[text[first + place : first + place + 64] & 0x7F]
    return _as_word(boxes != 0)


@Intrinsic
def find_wide(text: Any, position: Any) -> Any:
    """For the 64 places from `position` on, whether there is a byte beyond ASCII in their contexts, as bits."""
    first = int(position) - CONTEXT_BEFORE
    wide = np.zeros(64, dtype=np.bool_)
    for place in range(CONTEXT_SIZE):
        wide |= text[first + place : first + place + 64] > 0x7F
    return _as_word(wide)


@Intrinsic
def read_characters(text: Any, position: Any, class_of: Any, scratch: Any, places: Any, classes: Any) -> Any:
    """Read sixteen characters of UTF-8; return how many bytes they have, as uint64.

    0 is returned if one of them is not well-formed, or if they and the first byte behind them have more than 64 bytes; what is
    written then does not count.

    Parameters
    ----------
    text : uint8[:], in
        67 bytes from `position` on are read.
    position : uint64
        Where the first character begins.
    class_of : uint8 [0x110000], in
    scratch : uint32[:], out
    places : uint64
        Where in `scratch` the places of the characters go.
    classes : uint64
        Where in `scratch` their classes go: 16 bytes.
    """
    at = int(position)
    stop = at + 63
    for i in range(16):
        width = next((w for w in range(1, 5) if _is_character(text[at : at + w].tobytes())), 0)
        if not width:
            return np.uint64(0)
        scratch[int(places) + i] = at
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
def write_chosen(scratch: Any, index: Any, places: Any, bits: Any) -> Any:
    """Write `scratch[places + i]` to `scratch[index:]` for each bit `i` of `bits` that is 1; return how many, as uint64.

    Up to 64 entries behind `index` are overwritten.
    """
    chosen = [scratch[int(places) + i] for i in range(64) if int(bits) >> i & 1]
    scratch[int(index) : int(index) + len(chosen)] = chosen
    return np.uint64(len(chosen))


def _as_word(truths: Any) -> Any:
    return np.packbits(truths, bitorder="little").view(np.uint64)[0]


@Intrinsic
def write_places(ends: Any, index: Any, position: Any, bits: Any) -> Any:
    """Write `position + i` to `ends[index:]` for each bit `i` of `bits` that is 1; return how many, as uint64.

    Up to 64 entries behind `index` are overwritten.
    """
    places = [int(position) + i for i in range(64) if int(bits) >> i & 1]
    ends[int(index) : int(index) + len(places)] = places
    return np.uint64(len(places))


@Intrinsic
def begin_merge(text: Any, start: Any, length: Any, byte_pairs: Any, lanes: Any, first: Any) -> None:
    """Write what a pre-token is before its first merge: its bytes to 16 lanes, and the ranks of its pairs to the 16 behind.

    Parameters
    ----------
    text : uint8[:], in
        Readable up to `start + 17`.
    start, length : uint64
        At most 16 bytes.
    byte_pairs : uint32 [65536], in
    lanes : uint32[:], out
        32 are written. Behind the last pair the ranks are the largest number.
    first : uint64
        Where in `lanes` the 32 are: first the tokens, then the ranks.
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
def merge_lane(lanes: Any, first: Any, lane: Any, token: Any, before: Any, behind: Any) -> None:
    """Put a token in the place of two, and write the ranks of its pairs.

    Parameters
    ----------
    lanes : uint32[:], in-out
    first : uint64
    lane : uint64
        The lane of the first of the two.
    token : uint64
    before, behind : uint64
        Ranks of the pairs that the token is the second and the first of; `before` does not matter in lane 0.
    """
    at = int(lane)
    for half, new, fill in zip(_halves(lanes, first), (token, behind), (0, 0xFFFF_FFFF), strict=True):
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
