"""Characters of UTF-8, and the keys and hashes of short strings."""

from __future__ import annotations

from bpejit.kernels.constants import SPECIAL_FLAG


def read_character(data: bytes, position: int, stop: int, final: bool) -> tuple[int, int]:
    """Return code point and width of a character; -1 - byte and 1 for ASCII and invalid bytes; 0 and 0 if incomplete."""
    byte = data[position]
    width = next(width for width, limit in ((1, 0xC2), (2, 0xE0), (3, 0xF0), (4, 0xF5), (1, 0x100)) if byte < limit)
    if position + width > stop and not final:
        return 0, 0
    try:
        return (ord(data[position : min(position + width, stop)].decode()), width) if width > 1 else (-1 - byte, 1)
    except UnicodeDecodeError:
        return -1 - byte, 1


MIX_LOW, MIX_HIGH = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


def fold_multiply(a: int, b: int) -> int:
    """Multiply, and combine the two halves of the product."""
    return (a * b ^ (a * b >> 64)) & 0xFFFF_FFFF_FFFF_FFFF


def hash_key(low: int, high: int) -> int:
    """Return the hash of the two words of a key."""
    return fold_multiply(low ^ MIX_LOW, high ^ MIX_HIGH)


def hash_bytes(data: bytes) -> int:
    """Return the hash of bytes in blocks of 16. The last block overlaps the one before."""

    def hash_block(block: bytes) -> int:
        return hash_key(int.from_bytes(block[:8], "little") ^ mixed, int.from_bytes(block[8:], "little"))

    mixed = fold_multiply(len(data), MIX_LOW)
    value = hash_block(data[:16])
    for start in range(16, len(data), 16):
        value = fold_multiply(value ^ MIX_HIGH, MIX_LOW) ^ hash_block(data[min(start, len(data) - 16) :][:16])
    return value


def make_key(pretoken: bytes) -> tuple[int, int, int]:
    """Return the two words of the key of a pre-token, and its hash."""
    if len(pretoken) > 15:
        return hash_bytes(pretoken), 0xFF << 56 | len(pretoken), hash_bytes(pretoken)
    low, high = int.from_bytes(pretoken[:8], "little"), int.from_bytes(pretoken[8:], "little") | len(pretoken) << 56
    return low, high, hash_key(low, high)


def make_keys(data: bytes, start: int, ends: list[int], n_slots: int) -> list[tuple[int, int, int]]:
    """Return the key of each span and the first word of its slot."""
    keys = []
    for end in ends:
        stop = end & (SPECIAL_FLAG - 1)
        low, high, hashed = (0, 0xFE << 56, 0) if end & SPECIAL_FLAG else make_key(data[start:stop])
        keys.append((low, high, 4 * (hashed % n_slots)))
        start = stop
    return keys


def make_cache_keys(data: bytes, start: int, ends: list[int], n_slots: int) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Return the same, with slot 0 for long keys, and the hashes of these."""
    keys = make_keys(data, start, ends, n_slots)
    is_long = [high >> 56 == 0xFF for _, high, _ in keys]
    hashes = [low for (low, _, _), long in zip(keys, is_long, strict=True) if long]
    return [(low, high, 0 if long else slot) for (low, high, slot), long in zip(keys, is_long, strict=True)], hashes
