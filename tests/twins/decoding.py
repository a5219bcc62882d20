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


def insert_tokens(
    documents: list[list[int]], rest: list[int], prepend: int | None, append: int | None, last: int | None
) -> tuple[list[list[int]], list[int]]:
    """Return documents, and the rest of a block, with a token at the beginning and at the end of each that does not have it.

    The first document, or the rest if there are none, continues one that ended in `last`, unless that is None.
    """
    blocks = [[*document] for document in (*documents, rest)]
    for number, block in enumerate(blocks):
        is_open, continues = number == len(documents), number == 0 and last is not None
        ended = block[-1:] or ([last] if continues else [])
        begins_with_it = block[:1] == [prepend]
        if append is not None and not is_open and ended != [append]:
            block.append(append)
        if prepend is not None and not continues and not begins_with_it and not (is_open and not block):
            block.insert(0, prepend)
    return blocks[:-1], blocks[-1]


def add_lengths(ids: list[int], lengths: list[int]) -> int:
    """Return the sum of the lengths of tokens; -1 if an id is not in the vocabulary."""
    return sum(lengths[number] for number in ids) if all(number < len(lengths) for number in ids) else -1


def decode_ids(ids: list[int], tokens: dict[int, bytes], size: int | None = None) -> tuple[int, bytes]:
    """Return the number of ids before the first that is unknown or no longer fits into `size` bytes, and the bytes of these."""
    data = b""
    for position, number in enumerate(ids):
        if number not in tokens or (size is not None and len(data + tokens[number]) > size):
            return position, data
        data += tokens[number]
    return len(ids), data
