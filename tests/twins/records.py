"""Records of examples (TFRecord), and packing several examples into one."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """Return a number from 0 to 2^64 - 1 in groups of seven bits, the lowest first."""
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def sized(tag: int, data: bytes) -> bytes:
    """Return a field of a message with its tag and its size."""
    return bytes([tag]) + varint(len(data)) + data


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of data, bit by bit."""
    crc = 0xFFFF_FFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F6_3B78 if crc & 1 else 0)
    return crc ^ 0xFFFF_FFFF


def masked_crc(data: bytes) -> bytes:
    """Return the masked CRC-32C of data, as it is stored."""
    crc = crc32c(data)
    return (((crc >> 15 | crc << 17) + 0xA282_EAD8) & 0xFFFF_FFFF).to_bytes(4, "little")


def put_examples(examples: list[dict[str, list[int]]]) -> list[bytes]:
    """Return the framed record of each example."""
    records = []
    for example in examples:
        entries = b""
        for name in sorted(example, key=str.encode):
            values = b"".join(varint(value % (1 << 64)) for value in example[name])
            feature = sized(0x1A, sized(0x0A, values))
            entries += sized(0x0A, sized(0x0A, name.encode()) + sized(0x12, feature))
        data = sized(0x0A, entries)
        length = len(data).to_bytes(8, "little")
        records.append(length + masked_crc(length) + data + masked_crc(data))
    return records


def scan_records(data: bytes) -> tuple[list[int], str]:
    """Return where each complete record starts and the last one ends, and what was found there."""
    starts = [0]
    while (at := starts[-1]) < len(data):
        head, rest = data[at : at + 12], data[at + 12 :]
        length = int.from_bytes(head[:8], "little")
        if len(head) < 12:
            return starts, "incomplete"
        if masked_crc(head[:8]) != head[8:]:
            return starts, "wrong length"
        if len(rest) < length + 4:
            return starts, "incomplete"
        if masked_crc(rest[:length]) != rest[length : length + 4]:
            return starts, "wrong data"
        starts.append(at + 16 + length)
    return starts, "done"


def find_lists(record: bytes, names: list[str]) -> list[tuple[int, int]]:
    """Return the bounds of the varints of each feature in a record that `put_examples` wrote."""
    bounds = []
    at = 0
    for name in names:
        at = record.index(sized(0x0A, name.encode()) + b"\x12", at) + len(sized(0x0A, name.encode()))
        for _ in range(3):  # Feature, Int64List and its varints
            at += 1
            size = shift = 0
            while True:
                size |= (record[at] & 0x7F) << shift
                shift += 7
                at += 1
                if record[at - 1] < 0x80:
                    break
        bounds.append((at, at + size))
        at += size
    return bounds


def decode_varints(data: bytes) -> list[int]:
    """Return the signed 64-bit numbers of varints."""
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            value %= 1 << 64
            values.append(value - (value >> 63 << 64))
            value = shift = 0
    return values


def gather_records(records: list[bytes], order: list[int]) -> bytes:
    """Return records in another order, joined."""
    return b"".join(records[number] for number in order)


def assign_packs(
    sizes: list[tuple[int, ...]], alone: list[bool], packed_length: int, spacing: int, queue_size: int
) -> tuple[list[int], list[int]]:
    """Return the number of the packed example of each example, and these numbers in the order of completion.

    `sizes` has the number of ids of each feature of each example.
    """
    packs: list[int] = []
    complete: list[int] = []
    queue: list[tuple[int, tuple[int, ...]]] = []
    n_packs = 0
    for added, is_alone in zip(sizes, alone, strict=True):
        if is_alone:
            packs.append(n_packs)
            complete.append(n_packs)
            n_packs += 1
            continue
        for place, (number, totals) in enumerate(queue):
            longer = tuple(total + spacing + size for total, size in zip(totals, added, strict=True))
            if max(longer) <= packed_length:
                queue[place] = number, longer
                packs.append(number)
                break
        else:
            if len(queue) == queue_size:
                complete.append(queue.pop(0)[0])
            queue.append((n_packs, added))
            packs.append(n_packs)
            n_packs += 1
    return packs, complete + [number for number, _ in queue]


def fill_packs(members: list[list[int]], spacing: int) -> tuple[list[int], list[int], list[int]]:
    """Return the ids, numbers and positions of one packed example."""
    ids: list[int] = []
    segments: list[int] = []
    positions: list[int] = []
    for index, member in enumerate(members):
        number = segments[-1] + 1 if segments else 1
        gap = [0] * spacing if index else []
        ids += gap + member
        segments += gap + [number] * len(member)
        positions += gap + list(range(len(member)))
    return ids, segments, positions
