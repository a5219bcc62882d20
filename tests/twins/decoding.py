"""Decoding: ids become bytes."""

from __future__ import annotations


def fill_slots(tokens: dict[int, bytes], starts: dict[int, int], size: int) -> bytes:
    """Return `size` slots, each of 16 bytes; `starts` has the positions of tokens in a pool."""
    slots = [bytes(16)] * size
    for number, token in tokens.items():
        if 1 <= len(token) <= 15:
            slots[number] = token.ljust(15, b"\0") + bytes([128 + len(token)])
        else:
            slots[number] = starts[number].to_bytes(8, "little") + len(token).to_bytes(7, "little") + bytes([16])
    return b"".join(slots)


def remove_separators(ids: list[int], separator: int) -> tuple[list[int], list[int]]:
    """Return the ids without separators, and the number of these before each separator."""
    kept: list[int] = []
    stops = []
    for number in ids:
        if number == separator:
            stops.append(len(kept))
        else:
            kept.append(number)
    return kept, stops


def decode_ids(ids: list[int], tokens: dict[int, bytes], size: int | None = None) -> tuple[int, bytes]:
    """Return the number of ids before the first that is unknown or no longer fits into `size` bytes, and the bytes of these."""
    data = b""
    for position, number in enumerate(ids):
        if number not in tokens or (size is not None and len(data + tokens[number]) > size):
            return position, data
        data += tokens[number]
    return len(ids), data
