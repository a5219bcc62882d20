"""Readable twins of the kernels: equal results in plain Python, written for clarity.

Each kernel has a function of its own name here (`project/test_house_rules.py` checks this). Where it is clearer, the twins
take and return plain Python values, and the tests convert them.
"""

from __future__ import annotations

import binascii
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

import regex

from bpejit.kernels.constants import SPECIAL_FLAG

# ---- splitting -------------------------------------------------------------------------------------------------------


def find_specials(data: bytes, special_tokens: list[bytes]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each special token: leftmost first, and the longest of those at one position."""
    longest_first = sorted(special_tokens, key=len, reverse=True)
    for match in re.finditer(b"|".join(map(re.escape, longest_first)), data):
        if match[0]:
            yield match.span()


def build_trie(tokens: list[bytes]) -> list[bytes]:
    """Return the nodes of a trie: the prefixes of all tokens, sorted by length."""
    return sorted({token[:size] for token in tokens for size in range(1, len(token) + 1)}, key=lambda node: (len(node), node))


def link_trie(tokens: list[bytes]) -> dict[bytes, tuple[list[tuple[int, int]], bytes, bytes, int]]:
    """Return the links of each node of a trie.

    These are the spans of the tokens that are final if the search leaves the trie at the node, and the remaining node; the
    longest proper suffix that is a node; and the length of the longest token that is a suffix.
    """
    nodes = {b"", *build_trie(tokens)}
    links = {}
    for node in nodes - {b""}:
        found = []
        position = 0
        while position == 0 or node[position:] not in nodes:
            size = max((len(token) for token in tokens if node.startswith(token, position)), default=0)
            found += [(position, position + size)] if size else []
            position += size or 1
        suffix = next(node[start:] for start in range(1, len(node) + 1) if node[start:] in nodes)
        links[node] = found, node[position:], suffix, max((len(token) for token in tokens if node.endswith(token)), default=0)
    return links


def reach_specials(data: bytes, first: int, last: int, tokens: list[bytes]) -> tuple[list[int], int]:
    """Return the last end of the tokens that start at each position, and the first start that further text may complete.

    Of tokens with the same end, only the longest counts.
    """
    reach = [0] * (last - first)
    for end in range(first + 1, len(data) + 1):
        size = max((len(token) for token in tokens if data.endswith(token, first, end)), default=0)
        if size and end - size < last:
            reach[end - size - first] = end
    hidden = (
        start
        for start in range(first, last)
        if any(len(token) > len(data) - start and token.startswith(data[start:]) for token in tokens)
    )
    return reach, next(hidden, len(data))


def split_piece(text: str, pattern: regex.Pattern[str]) -> Iterator[str]:
    """Yield the matches of a pattern and the text between them."""
    position = 0
    for match in pattern.finditer(text):
        start, end = match.span()
        if start < end:
            yield text[position:start]
            yield text[start:end]
            position = end
    yield text[position:]


def split_ordinary(data: bytes, patterns: Iterable[regex.Pattern[str]]) -> Iterator[int]:
    """Yield the ends of the pre-tokens of a text without special tokens; each pattern splits the pieces of the previous one."""
    pieces = [data.decode("utf-8", "surrogateescape")]
    for pattern in patterns:
        pieces = [part for piece in pieces for part in split_piece(piece, pattern)]
    end = 0
    for piece in pieces:
        if piece:
            end += len(piece.encode("utf-8", "surrogateescape"))
            yield end


def split_spans(
    data: bytes, pattern: regex.Pattern[str] | Iterable[regex.Pattern[str]], special_tokens: list[bytes]
) -> list[int]:
    """Return the ends of all spans of a whole text; the ends of special tokens have the flag."""
    patterns = [pattern] if isinstance(pattern, regex.Pattern) else list(pattern)
    ends: list[int] = []
    position = 0
    for start, end in [*find_specials(data, special_tokens), (len(data), 0)]:
        ends += [position + offset for offset in split_ordinary(data[position:start], patterns)]
        if end:
            ends.append(end | SPECIAL_FLAG)
        position = end
    return ends


def split_adjacent(
    documents: list[bytes], patterns: regex.Pattern[str] | Iterable[regex.Pattern[str]], special_tokens: list[bytes]
) -> list[int]:
    """Return the ends of all spans of adjacent documents, each split by itself."""
    ends: list[int] = []
    start = 0
    for data in documents:
        ends += [start + end for end in split_spans(data, patterns, special_tokens)]
        start += len(data)
    return ends


def shift_state(state: list[int], by: int) -> list[int]:
    """Subtract `by` from all fields that are positions; fields that are 0 are unset and stay 0."""
    is_position = [True, False, True, True, True, True, True, False, False, True, False]
    return [max(value - by, 0) if moves else value for value, moves in zip(state, is_position, strict=True)]


def find_cut(
    data: bytes, lo: int, hi: int, class_of: Sequence[int], safe: Callable[[int, int], bool], special_tokens: list[bytes]
) -> int:
    """Return the first position between a safe pair of characters that no special token spans.

    Special tokens that further text may complete count, too.
    """
    longest = max(map(len, special_tokens), default=0)
    position = max(0, lo - longest - 4)
    while position < min(max(0, lo - longest - 4) + 3, len(data)) and 0x80 <= data[position] < 0xC0:
        position += 1
    before = None
    for character in data[position:].decode("utf-8", "surrogateescape"):
        width = next(
            width for width, limit in ((1, 0xC2), (2, 0xE0), (3, 0xF0), (4, 0xF5), (1, 0x100)) if data[position] < limit
        )
        if position > hi or position + width > len(data):
            break
        spanned = any(
            start <= position < start + len(token) and token.startswith(data[start : start + len(token)])
            for token in special_tokens
            for start in range(position + 1)
        )
        after = class_of[ord(character)]
        if position >= lo and before is not None and safe(before, after) and not spanned:
            return position
        position += len(character.encode("utf-8", "surrogateescape"))
        before = after
    return -1


# ---- characters and keys ---------------------------------------------------------------------------------------------


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


# ---- counting --------------------------------------------------------------------------------------------------------


def find_word(slots: list[bytes | None], pretoken: bytes, slot: int) -> int:
    """Return the slot of a pre-token, or the free one to insert it, by linear probing from `slot`."""
    while slots[slot] not in (None, pretoken):
        slot = (slot + 1) % len(slots)
    return slot


def count_spans(text: bytes, first: int, ends: list[int], counts: dict[bytes, int]) -> None:
    """Add the spans of a text to a dict of counts; an end with the special flag marks a special token, not counted."""
    start = first
    for end in ends:
        stop = end & (SPECIAL_FLAG - 1)
        if not end & SPECIAL_FLAG:
            counts[text[start:stop]] = counts.get(text[start:stop], 0) + 1
        start = stop


def count_text(
    documents: list[bytes],
    cut: int,
    patterns: regex.Pattern[str] | Iterable[regex.Pattern[str]],
    special_tokens: list[bytes],
    counts: dict[bytes, int],
) -> None:
    """Add the spans of adjacent documents that end at most at `cut` to a dict of counts."""
    ends = split_adjacent(documents, patterns, special_tokens)
    count_spans(b"".join(documents), 0, [end for end in ends if end & (SPECIAL_FLAG - 1) <= cut], counts)


def add_pretokens(pretokens: list[bytes], added: list[int], counts: dict[bytes, int]) -> None:
    """Add counted pre-tokens to a dict of counts."""
    for pretoken, count in zip(pretokens, added, strict=True):
        counts[pretoken] = counts.get(pretoken, 0) + count


def rehash(slots: list[bytes | None], larger: int) -> list[bytes | None]:
    """Return the slots of a larger table, into which the pre-tokens are inserted in the order of the slots."""
    found: list[bytes | None] = [None] * larger
    for pretoken in slots:
        if pretoken is not None:
            found[find_word(found, pretoken, make_key(pretoken)[2] % larger)] = pretoken
    return found


def move_common(tables: list[dict[bytes, int]]) -> None:
    """Add the counts of each pre-token to the first dict that has it, and remove it from the others."""
    for number, counts in enumerate(tables):
        for other in tables[number + 1 :]:
            for pretoken in counts.keys() & other.keys():
                counts[pretoken] += other.pop(pretoken)


def measure_table(counts: dict[bytes, int]) -> tuple[int, int]:
    """Return the number of distinct pre-tokens, and of their bytes."""
    return len(counts), sum(len(pretoken) for pretoken in counts)


def unpack_table(counts: dict[bytes, int]) -> tuple[bytes, list[int], list[int]]:
    """Return pool, starts and counts."""
    starts = [0]
    for pretoken in counts:
        starts.append(starts[-1] + len(pretoken))
    return b"".join(counts), starts, list(counts.values())


def make_prefixes(pretokens: list[bytes]) -> list[int]:
    """Return the first 8 bytes of each pre-token as a zero-padded big-endian number."""
    return [int.from_bytes(pretoken[:8].ljust(8, b"\0"), "big") for pretoken in pretokens]


def sort_runs(pretokens: list[bytes]) -> list[int]:
    """Return the permutation that sorts the pre-tokens by bytes."""
    return sorted(range(len(pretokens)), key=lambda number: pretokens[number])


def merge_sorted(left: list[tuple[bytes, int]], right: list[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    """Return the union of two sorted tables, in which the counts of equal pre-tokens are added up."""
    return sorted((Counter(dict(left)) + Counter(dict(right))).items())


def gather(pretokens: list[bytes], counts: list[int], order: list[int]) -> tuple[list[bytes], list[int]]:
    """Return pre-tokens and counts in another order."""
    return [pretokens[number] for number in order], [counts[number] for number in order]


# ---- training --------------------------------------------------------------------------------------------------------


def expand_merges(left: list[int], right: list[int]) -> list[bytes]:
    """Return the 256 bytes, and the tokens that merges make."""
    tokens = [bytes([byte]) for byte in range(256)]
    for a, b in zip(left, right, strict=True):
        tokens.append(tokens[a] + tokens[b])
    return tokens


# A cell is (weight, id); a boundary cell is (0, None). A pair is a tuple of two ids.

Cell = tuple[int, int | None]
Pair = tuple[int, int]

BOUNDARY: Cell = (0, None)


def fill_cells(pretokens: list[tuple[bytes, int]], byte_ids: list[int]) -> list[Cell]:
    """Return a cell for each byte of each pre-token that occurs and has a pair, with boundaries around the pre-tokens."""
    cells = [BOUNDARY]
    for pretoken, count in pretokens:
        if len(pretoken) > 1 and count > 0:
            cells += [(count, byte_ids[byte]) for byte in pretoken]
            cells.append(BOUNDARY)
    return cells


def count_byte_pairs(cells: list[Cell]) -> dict[Pair, tuple[int, int]]:
    """Return the count and the number of positions of each pair, which `fill_cells` finds as well."""
    return count_pairs(cells, [at for at, _, _ in positions_of_pairs(cells)])


def fill_cells_from_slots(counts: dict[bytes, int], byte_ids: list[int]) -> list[Cell]:
    """Return the cells of pre-tokens in the order of their slots, without the boundary before them."""
    return fill_cells(list(counts.items()), byte_ids)[1:]


def measure_slots(counts: dict[bytes, int]) -> tuple[tuple[float, ...], list[int]]:
    """Return the sizes of a table (see `SLOT_SIZES`), and the distinct counts of pre-tokens that have pairs."""
    with_pairs = {pretoken: count for pretoken, count in counts.items() if len(pretoken) > 1}
    units = sum(map(len, with_pairs))
    weighted = sum(len(pretoken) * count for pretoken, count in with_pairs.items())
    n_large = sum(count >= 2**16 for count in with_pairs.values())
    sizes = (len(counts), sum(map(len, counts)), sum(counts.values()), len(with_pairs), units, weighted, n_large)
    return sizes, sorted(set(with_pairs.values()))


def compact_cells(cells: list[Cell], widths: list[int]) -> list[Cell]:
    """Return one cell for each token, without the pre-tokens of a single token."""
    compact = [BOUNDARY]
    pretoken: list[Cell] = []
    at = 1
    while at < len(cells):
        token = cells[at][1]
        if token is not None:
            pretoken.append(cells[at])
            at += widths[token]
        else:
            if len(pretoken) > 1:
                compact += [*pretoken, BOUNDARY]
            pretoken = []
            at += 1
    return compact


def positions_of_pairs(cells: list[Cell]) -> Iterator[tuple[int, Pair, int]]:
    """Yield position, pair and weight for each two adjacent tokens of one cell each."""
    for at, ((weight, left), (_, right)) in enumerate(pairwise(cells)):
        if left is not None and right is not None:
            yield at, (left, right), weight


def bound_counts(cells: list[Cell], hash_pair: Callable[[Pair], int], limit: int) -> dict[int, int]:
    """Sum the weights of pairs by the hash of the pair, up to `limit`."""
    sums: dict[int, int] = {}
    for _, pair, weight in positions_of_pairs(cells):
        sums[hash_pair(pair)] = min(sums.get(hash_pair(pair), 0) + weight, limit)
    return sums


def select_positions(cells: list[Cell], sums: dict[int, int], hash_pair: Callable[[Pair], int], threshold: int) -> list[int]:
    """Return the positions of pairs whose sum reaches the threshold."""
    return [at for at, pair, _ in positions_of_pairs(cells) if sums[hash_pair(pair)] >= threshold]


def count_pairs(cells: list[Cell], positions: list[int]) -> dict[Pair, tuple[int, int]]:
    """Return the count and the number of positions of each pair at one of the positions."""
    counts: dict[Pair, tuple[int, int]] = {}
    for at, pair, weight in positions_of_pairs(cells):
        if at in positions:
            count, number = counts.get(pair, (0, 0))
            counts[pair] = count + weight, number + 1
    return counts


def number_pairs(cells: list[Cell], positions: list[int]) -> list[int]:
    """Return the number of the pair at each of the positions, in the order in which they are first found."""
    numbers: dict[Pair, int] = {}
    return [numbers.setdefault(pair, len(numbers)) for at, pair, _ in positions_of_pairs(cells) if at in positions]


def copy_pairs(counts: dict[Pair, int], least: int, lengths: list[int], max_bytes: int) -> dict[Pair, int]:
    """Return the pairs that occur at least `least` times, and have at most `max_bytes` bytes."""
    return {
        (left, right): count
        for (left, right), count in counts.items()
        if count >= least and lengths[left] + lengths[right] <= max_bytes
    }


def plan_postings(numbers: list[int]) -> tuple[list[int], int, int]:
    """Return the start of each list, their total length, and the length of the longest list."""
    starts = [0]
    for number in numbers:
        starts.append(starts[-1] + number)
    return starts[:-1], starts[-1], max(numbers, default=0)


def write_postings(cells: list[Cell], positions: list[int], pairs: set[Pair]) -> dict[Pair, list[int]]:
    """Return the positions of each pair, out of the given ones."""
    found: dict[Pair, list[int]] = {pair: [] for pair in pairs}
    for at, pair, _ in positions_of_pairs(cells):
        if at in positions and pair in found:
            found[pair].append(at)
    return found


def write_byte_postings(cells: list[Cell], pairs: set[Pair]) -> dict[Pair, list[int]]:
    """Return the positions of each pair."""
    return write_postings(cells, [at for at, _, _ in positions_of_pairs(cells)], pairs)


def move_cells(cells: list[int], source: int, number: int, target: int) -> list[int]:
    """Return the cells after a move towards the front."""
    moved = list(cells)
    moved[target : target + number] = cells[source : source + number]
    return moved


def add_sums(source: list[int], sums: list[int], limit: int) -> list[int]:
    """Add two lists of sums, up to `limit`."""
    return [min(one + other, limit) for one, other in zip(source, sums, strict=True)]


def add_counted_pairs(source: dict[Pair, tuple[int, int]], counts: dict[Pair, tuple[int, int]]) -> dict[Pair, tuple[int, int]]:
    """Add the counts and the numbers of positions of pairs."""
    return {
        pair: (
            source.get(pair, (0, 0))[0] + counts.get(pair, (0, 0))[0],
            source.get(pair, (0, 0))[1] + counts.get(pair, (0, 0))[1],
        )
        for pair in source.keys() | counts.keys()
    }


def divide_postings(
    lists: dict[Pair, tuple[int, int]], numbers: dict[Pair, int]
) -> tuple[dict[Pair, tuple[int, int]], dict[Pair, int | None]]:
    """Append the postings of a range to lists of (start, length). Return the lists, and where those of the range start."""
    starts = {pair: sum(lists[pair]) if pair in lists else None for pair in numbers}
    return {pair: (start, length + numbers.get(pair, 0)) for pair, (start, length) in lists.items()}, starts


def bucket_of(count: int) -> int:
    """Return the bucket of a count. Counts with the same length and the same 8 leading bits share one."""
    buckets = 0
    exponent = 0
    while count >> exponent >= 256:
        exponent += 1
        buckets += 128
    return buckets + (count >> exponent)


def bucket_pairs(counts: dict[Pair, int], threshold: int) -> dict[int, set[Pair]]:
    """Return the pairs that reach the threshold, by bucket."""
    buckets: dict[int, set[Pair]] = {}
    for pair, count in counts.items():
        if count >= threshold:
            buckets.setdefault(bucket_of(count), set()).add(pair)
    return buckets


def count_adjacent(words: list[tuple[list[int], int]]) -> dict[Pair, int]:
    """Count the occurrences of each pair of ids, including overlapping ones."""
    counts: dict[Pair, int] = {}
    for word, weight in words:
        for pair in pairwise(word):
            counts[pair] = counts.get(pair, 0) + weight
    return counts


def ascending(token: bytes) -> list[int]:
    """Return a key by which the smallest token is the greatest; a prefix comes before its continuations."""
    return [*(-byte for byte in token), 1]


SHOWN_BYTES = [*range(33, 127), *range(161, 173), *range(174, 256)]
"""The bytes that GPT-2's files represent by the character of the same number; the other bytes follow them."""

HF_ORDER = [*SHOWN_BYTES, *(byte for byte in range(256) if byte not in SHOWN_BYTES)]

TIE_KEYS: dict[str, Callable[[Pair, list[bytes]], Any]] = {
    "greatest-bytes": lambda pair, tokens: (tokens[pair[0]], tokens[pair[1]]),
    "smallest-bytes": lambda pair, tokens: (ascending(tokens[pair[0]]), ascending(tokens[pair[1]])),
    "greatest-ids": lambda pair, tokens: pair,
    "smallest-ids": lambda pair, tokens: (-pair[0], -pair[1]),
    "hf": lambda pair, tokens: tuple(-HF_ORDER.index(token) if token < 256 else -token for token in pair),
}
"""For each comparison and tie rule, the key of a pair. Of equally frequent pairs, the one with the greatest key is merged."""


def tie_key(pair: Pair, tokens: list[bytes], rule: str) -> Any:
    """Return the key of a pair by a comparison or tie rule."""
    return TIE_KEYS[rule](pair, tokens)


def replace_pair(word: list[int], pair: Pair, merged: int) -> list[int]:
    """Merge each occurrence of the pair, from the left."""
    replaced: list[int] = []
    at = 0
    while at < len(word):
        found = tuple(word[at : at + 2]) == pair
        replaced.append(merged if found else word[at])
        at += 2 if found else 1
    return replaced


def merge_some(
    words: list[tuple[list[int], int]],
    tokens: list[bytes],
    n_tokens: int,
    rule: str = "greatest-bytes",
    threshold: int = 1,
    max_bytes: int | None = None,
) -> list[tuple[int, int, int]]:
    """Merge the best pair in all words until there are `n_tokens` tokens or no pair is left. Modifies words and tokens.

    The words that contain the merged pair are counted again for each merge. Returns left id, right id and count of each merge.
    """
    merges = []
    counts = count_adjacent(words)
    while len(tokens) < n_tokens:
        allowed = {
            pair: count
            for pair, count in counts.items()
            if count >= threshold and (max_bytes is None or len(tokens[pair[0]] + tokens[pair[1]]) <= max_bytes)
        }
        if not allowed:
            break
        most = max(allowed.values())
        best = max((pair for pair in allowed if allowed[pair] == most), key=lambda pair: tie_key(pair, tokens, rule))
        merges.append((*best, most))
        for index, (word, weight) in enumerate(words):
            if best in pairwise(word):
                words[index] = (replace_pair(word, best, len(tokens)), weight)
                for part, change in ((word, -weight), (words[index][0], weight)):
                    for pair in pairwise(part):
                        counts[pair] = counts.get(pair, 0) + change
        tokens.append(tokens[best[0]] + tokens[best[1]])
    return merges


Occurrence = tuple[int, tuple[int, int] | None, int | None, int]
"""Of a pair: its position, position and id of the token before it, the id of the token after it, and its weight."""


def replace_in_part(words: list[tuple[list[tuple[int, int]], int]], pair: Pair, merged: int) -> list[Occurrence]:
    """Return the occurrences of a pair in words of (position, id), as they are when they are replaced from the left."""
    found: list[Occurrence] = []
    for tokens, weight in words:
        before, at = None, 0
        while at < len(tokens):
            if tuple(token for _, token in tokens[at : at + 2]) == pair:
                after = tokens[at + 2][1] if at + 2 < len(tokens) else None
                found.append((tokens[at][0], before, after, weight))
                before = (tokens[at][0], merged)
                at += 2
            else:
                before = tokens[at]
                at += 1
    return found


def update_shared(parts: list[list[Occurrence]], side: str) -> list[dict[int, tuple[int, int, int]]]:
    """Return weight and number of each neighbor on a side in each part, and its number in the parts before."""
    found: list[dict[int, tuple[int, int, int]]] = []
    numbers: Counter[int] = Counter()
    for part in parts:
        neighbors: dict[int, tuple[int, int, int]] = {}
        for _, before, after, weight in part:
            neighbor = after if side == "after" else before and before[1]
            if neighbor is not None:
                total, number, _ = neighbors.get(neighbor, (0, 0, 0))
                neighbors[neighbor] = (total + weight, number + 1, numbers[neighbor])
        numbers.update({neighbor: number for neighbor, (_, number, _) in neighbors.items()})
        found.append(neighbors)
    return found


def finish_part(part: list[Occurrence], starts_before: dict[int, int], starts_after: dict[int, int]) -> dict[int, int]:
    """Return what is written to the array of postings, given the next index of each list, by neighbor."""
    written = {}
    for position, before, after, _ in part:
        for starts, neighbor, posting in (
            (starts_before, before and before[1], before and before[0]),
            (starts_after, after, position),
        ):
            if neighbor in starts:
                written[starts[neighbor]] = posting
                starts[neighbor] += 1
    return written


def learn_merges(
    counts: dict[bytes, int],
    n_merges: int,
    tie_break: str = "greatest-bytes",
    min_frequency: int = 1,
    max_token_bytes: int | None = None,
) -> list[tuple[int, int, int]]:
    """Learn merges from the counts of pre-tokens."""
    words = [(list(pretoken), count) for pretoken, count in counts.items() if count > 0]
    tokens = [bytes([byte]) for byte in range(256)]
    return merge_some(words, tokens, 256 + n_merges, tie_break, min_frequency, max_token_bytes)


# ---- encoding --------------------------------------------------------------------------------------------------------


class PretokenCache:
    """The cache of pre-tokens as two dicts: when its slots or its index are cleared, and which records are overwritten.

    `n_slots`, `n_entries`, `ring_bytes`, and `filling` correspond to the arrays and to the progress of a workspace.
    """

    def __init__(self, n_slots: int, n_entries: int, ring_bytes: int, slack: int) -> None:
        self.n_slots, self.n_entries, self.ring_bytes, self.slack = n_slots, n_entries, ring_bytes, slack
        self.clear()

    def clear(self) -> None:
        """Return to the initial state."""
        self.short: dict[bytes, tuple[list[int], int | None]] = {}
        self.long: dict[bytes, tuple[list[int], int | None]] = {}
        self.written = self.clears = self.long_clears = 0

    @property
    def filling(self) -> list[int]:
        """Used slots and entries, including those whose record was overwritten, how often they were cleared, bytes written."""
        return [len(self.short), self.clears, len(self.long), self.long_clears, self.written]

    def find(self, pretoken: bytes) -> list[int] | None:
        """Return the ids of a pre-token, or None if it is not in the cache."""
        ids, record = (self.long if len(pretoken) > 15 else self.short).get(pretoken, (None, None))
        return None if record is not None and record + self.ring_bytes < self.written else ids

    def insert(self, pretoken: bytes, ids: list[int]) -> None:
        """Insert a pre-token that `find` does not find."""
        is_long = len(pretoken) > 15
        size = 4 * (len(ids) + len(ids) % 2) + (8 + len(pretoken) if is_long else 0)
        in_arena = is_long or len(ids) > 4
        if in_arena and 4 * size > self.ring_bytes + self.slack:
            return
        if is_long and 4 * len(self.long) >= 3 * self.n_entries:
            self.long.clear()
            self.long_clears += 1
        if not is_long and 4 * len(self.short) >= 3 * self.n_slots:
            self.short.clear()
            self.clears += 1
        record = None
        if in_arena:
            offset = self.written % self.ring_bytes
            record = self.written + (self.ring_bytes - offset if offset + size > self.ring_bytes else 0)
            self.written = record + size
        (self.long if is_long else self.short)[pretoken] = list(ids), record


def move_slots(cache: dict[Any, Any]) -> dict[Any, Any]:
    """Return the contents of a larger cache: the same."""
    return dict(cache)


def move_entries(index: dict[Any, Any]) -> dict[Any, Any]:
    """Return the contents of a larger index: the same."""
    return dict(index)


Rules = dict[Pair, tuple[int, int]]
"""The rank of each pair of tokens, and the token that it is merged into."""


def build_pairs(rules: list[tuple[int, int, int, int]]) -> Rules:
    """Build rules from rows of (left, right, token, rank); of duplicate pairs, the one with the lowest rank counts."""
    table: Rules = {}
    for left, right, token, rank in rules:
        table[left, right] = min((rank, token), table.get((left, right), (rank, token)))
    return table


def list_splits(tokens: list[bytes]) -> list[tuple[int, int, int]]:
    """Return every split of each token into two others: the numbers of both parts and of the token."""
    numbers = {token: number for number, token in enumerate(tokens)}
    return [
        (numbers[token[:middle]], numbers[token[middle:]], number)
        for number, token in enumerate(tokens)
        for middle in range(1, len(token))
        if token[:middle] in numbers and token[middle:] in numbers
    ]


def characters(data: bytes) -> list[bytes]:
    """Return the characters of a text; an invalid byte is a character of its own."""
    pieces: list[bytes] = []
    while data:
        length = {0: 1, 0xC: 2, 0xD: 2, 0xE: 3, 0xF: 4}.get(data[0] >> 4 if data[0] >= 0x80 else 0, 1)
        whole = len(data) >= length and all(0x80 <= byte < 0xC0 for byte in data[1:length])
        pieces.append(data[: length if whole else 1])
        data = data[len(pieces[-1]) :]
    return pieces


def build_inner_pairs(tokens: list[bytes]) -> set[tuple[bytes, bytes] | tuple[int, int]]:
    """Return the adjacent characters within tokens that are not both ASCII; next to invalid bytes, the adjacent bytes."""
    inner_pairs: set[tuple[bytes, bytes] | tuple[int, int]] = set()
    for token in tokens:
        for before, after in pairwise(characters(token)):
            if before[-1] >= 0x80 or after[0] >= 0x80:
                broken = (before[0] >= 0x80 and len(before) == 1) or (after[0] >= 0x80 and len(after) == 1)
                inner_pairs.add((before[-1], after[0]) if broken else (before, after))
    return inner_pairs


def recover_splits(tokens: list[bytes]) -> list[tuple[int, int]]:
    """Return the two parts that each token is merged from by lower ranks, or (-1, -1); tokens are in order of rank."""
    ranks = {token: number for number, token in enumerate(tokens) if number >= 256}
    found = []
    for number, token in enumerate(tokens):
        parts = [token[position : position + 1] for position in range(len(token))]
        while len(parts) > 2:
            best = min(range(len(parts) - 1), key=lambda position: ranks.get(parts[position] + parts[position + 1], number))
            if ranks.get(parts[best] + parts[best + 1], number) >= number:
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        found.append((tokens.index(parts[0]), tokens.index(parts[1])) if len(parts) == 2 else (-1, -1))
    return found


Splits = list[tuple[int, int, int] | None]


def derive_tokens(tokens: list[bytes], rules: Rules) -> tuple[Splits, bool]:
    """Return the last merge (left, right, rank) of each token, None if there is none, and whether ranks always increase.

    A token that becomes others has no last merge, and neither has a byte.
    """
    splits: Splits = []
    for token in tokens:
        parts = list(token)
        last = None
        while True:
            found = [(rules[pair][0], position) for position, pair in enumerate(pairwise(parts)) if pair in rules]
            if not found:
                break
            rank, position = min(found)
            last = (parts[position], parts[position + 1], rank)
            parts[position : position + 2] = [rules[last[:2]][1]]
        splits.append(last if len(parts) == 1 else None)
    increasing = all((splits[part] or (0, 0, -1))[2] < split[2] for split in splits if split for part in split[:2])
    return splits, increasing


def build_joins(tokens: list[bytes], splits: Splits) -> tuple[set[tuple[bytes, bytes]], dict[bytes, int]]:
    """Return the units around the last merges within text of three bytes each, and the characters."""

    def is_character(data: bytes) -> bool:
        return len(data) == 3 and data[0] >> 4 == 0xE and all(byte >> 6 == 2 for byte in data[1:])

    joins, found = set(), {}
    for number, (token, split) in enumerate(zip(tokens, splits, strict=True)):
        if split is None:
            continue
        if is_character(token) and (token[0] > 0xE0 or token[1] >= 0xA0):
            found[token] = number
        left, right = tokens[split[0]], tokens[split[1]]
        if left[-1] >> 6 == 2 and right[0] >> 4 == 0xE:
            last = left[-3:] if is_character(left[-3:]) else left[-1:]
            first = right[:3] if is_character(right[:3]) else right[:1]
            joins.add((last, first))
    return joins, found


def build_last_merges(splits: Splits) -> dict[tuple[int, int], int]:
    """Return the ranks of the pairs that are the last merge of a token."""
    return {split[:2]: split[2] for split in splits if split is not None}


def merge_sentences(pretokens: list[bytes], most_bytes: int, rules: Rules, ids: list[int]) -> list[list[int] | None]:
    """Return the ids of the pre-tokens that start with a character of three bytes, and None for the others."""
    results: list[list[int] | None] = []
    for data in pretokens:
        following = data + bytes(4)
        starts = [following[i] >> 4 == 0xE and following[i + 1] >> 6 == following[i + 2] >> 6 == 2 for i in (0, 1)]
        results.append(encode_pretoken(data, rules, ids) if any(starts) and len(data) <= most_bytes else None)
    return results


def merge_window(data: bytes, rules: Rules) -> list[int]:
    """Merge the leftmost pair of the lowest rank until no pair is left."""
    tokens = list(data)
    while True:
        found = [(*rules[pair], position) for position, pair in enumerate(pairwise(tokens)) if pair in rules]
        if not found:
            return tokens
        _, token, position = min(found, key=lambda entry: (entry[0], entry[2]))
        tokens[position : position + 2] = [token]


def merge_runs(data: bytes, rules: Rules, ids: list[int], most: int = 64) -> list[int] | None:
    """Encode a pre-token by merging all pairs of the lowest rank at once, from the left.

    Return None if a merge makes a pair of lower rank than its own, or if pairs may be left after `most` sweeps.
    """
    tokens = list(data)
    for _ in range(most):
        ranks = [rules[pair][0] for pair in pairwise(tokens) if pair in rules]
        if not ranks:
            return [ids[token] for token in tokens]
        best = min(ranks)
        at = 0
        while at + 1 < len(tokens):
            rank, merged = rules.get((tokens[at], tokens[at + 1]), (None, -1))
            if rank == best:
                tokens[at : at + 2] = [merged]
                around = tokens[max(at - 1, 0) : at + 2]
                if any(rules.get(pair, (best, 0))[0] < best for pair in pairwise(around)):
                    return None
            at += 1
    return None


def build_minima(ranks: list[int], fanout: int = 16) -> list[list[int]]:
    """Return the levels of a tree in which each node is the minimum of its children, from the leaves to the root's children."""
    levels = [ranks]
    while len(levels[-1]) > fanout:
        below = levels[-1]
        levels.append([min(below[start : start + fanout]) for start in range(0, len(below), fanout)])
    return levels


def encode_deferred(parts: list[bytes | list[int]], cache: PretokenCache, rules: Rules, ids: list[int]) -> list[int]:
    """Return the ids of a text, given ids and deferred pre-tokens, which are inserted into the cache."""
    encoded: list[int] = []
    for part in parts:
        if isinstance(part, bytes):
            new = encode_pretoken(part, rules, ids)
            if cache.find(part) is None:
                cache.insert(part, new)
            encoded += new
        else:
            encoded += part
    return encoded


def merge_long(data: bytes, rules: Rules, ids: list[int]) -> list[int]:
    """Return the ids of a pre-token, which do not depend on windows."""
    return [ids[token] for token in merge_window(data, rules)]


def encode_pretoken(data: bytes, rules: Rules, ids: list[int]) -> list[int]:
    """Return the ids of a pre-token."""
    return [ids[token] for token in merge_window(data, rules)]


def hash_strings(strings: list[bytes]) -> list[int]:
    """Return the hash of each string."""
    return [hash_bytes(string) for string in strings]


def encode_spans(
    data: bytes,
    ends: list[int],
    rules: Rules,
    ids: list[int],
    specials: dict[bytes, int],
    whole: dict[bytes, int] | None = None,
) -> list[int]:
    """Return the ids of the spans of a text, without a cache.

    `whole` maps the spans that are tokens regardless of the rules to their ids.
    """
    encoded = []
    start = 0
    for end in ends:
        stop = end & (SPECIAL_FLAG - 1)
        span = data[start:stop]
        if end & SPECIAL_FLAG:
            encoded.append(specials[span])
        elif whole and span in whole:
            encoded.append(whole[span])
        else:
            encoded += encode_pretoken(span, rules, ids)
        start = stop
    return encoded


def encode_text(
    data: bytes,
    pattern: regex.Pattern[str],
    rules: Rules,
    ids: list[int],
    specials: dict[bytes, int],
    whole: dict[bytes, int] | None = None,
) -> list[int]:
    """Return the ids of a text."""
    return encode_spans(data, split_spans(data, pattern, list(specials)), rules, ids, specials, whole)


def fill_slots(tokens: dict[int, bytes], starts: dict[int, int], size: int) -> bytes:
    """Return `size` slots, each of 16 bytes; `starts` has the positions of tokens in a pool."""
    slots = [bytes(16)] * size
    for number, token in tokens.items():
        if 1 <= len(token) <= 15:
            slots[number] = token.ljust(15, b"\0") + bytes([128 + len(token)])
        else:
            slots[number] = starts[number].to_bytes(8, "little") + len(token).to_bytes(7, "little") + bytes([16])
    return b"".join(slots)


def parse_rank_lines(data: bytes, longest: int) -> list[tuple[bytes, int]] | None:
    """Return the tokens and ranks of a rank file, or None if it is not in canonical form."""
    if not re.fullmatch(rb"([A-Za-z0-9+/]+={0,2} [0-9]{1,8}\n)*", data):
        return None
    lines = [line.split() for line in data.splitlines()]
    if any(len(text) % 4 for text, _ in lines):
        return None
    found = [(binascii.a2b_base64(text), int(rank)) for text, rank in lines]
    ranks = [rank for _, rank in found]
    return found if ranks == sorted(set(ranks)) and all(0 < len(token) <= longest for token, _ in found) else None


def quote_tokens(tokens: list[bytes], characters: str) -> list[str]:
    """Return tokens as JSON strings, with a character for each byte."""
    return [json.dumps("".join(characters[byte] for byte in token), ensure_ascii=False) for token in tokens]


def write_vocabulary(quoted: list[str], order: list[int], numbers: list[int]) -> str:
    """Return the lines of a vocabulary."""
    return ",\n".join(f"      {quoted[token]}: {numbers[token]}" for token in order)


def write_merges(quoted: list[str], lefts: list[int], rights: list[int], joined: bool) -> str:
    """Return the lines of a list of merges."""
    pairs = [(quoted[left], quoted[right]) for left, right in zip(lefts, rights, strict=True)]
    return ",\n".join(f"      {left[:-1]} {right[1:]}" if joined else f"      [{left}, {right}]" for left, right in pairs)


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


# ---- subwords --------------------------------------------------------------------------------------------------------

ESCAPE_CHARACTERS = set("\\_u;0123456789")


def is_word_character(character: str) -> bool:
    """Return True for letters and digits, as Python's Unicode tables define them."""
    return unicodedata.category(character)[0] in "LN"


def split_words(text: str) -> list[str]:
    """Split a text into runs of letters and digits and runs of other characters."""
    return ["".join(run) for _, run in groupby(text, key=is_word_character)]


def drop_spaces(words: list[str]) -> list[str]:
    """Drop single spaces between two words. `join_words` restores them."""
    return [word for i, word in enumerate(words) if word != " " or i in (0, len(words) - 1)]


def join_words(tokens: list[str]) -> str:
    """Invert `split_words` and `drop_spaces`."""
    text = ""
    for before, token in pairwise(["", *tokens]):
        if before and is_word_character(before[0]) and is_word_character(token[0]):
            text += " "
        text += token
    return text


def escape_tokens(tokens: list[str], alphabet: set[str]) -> list[str]:
    """Escape characters outside the alphabet, newlines and underscores, and append an underscore."""
    escaped = []
    for token in tokens:
        token = token.replace("\\", "\\\\").replace("_", "\\u")
        escaped.append("".join(c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in token) + "_")
    return escaped


def unescape_token(escaped: str) -> str:
    """Unescape one token. A number that is not a code point becomes U+3013."""

    def unescape(match: re.Match[str]) -> str:
        if match[1] is None:
            return "_" if match[0] == "\\u" else "\\"
        try:
            return chr(int(match[1]))
        except (ValueError, OverflowError):
            return "\u3013"

    return re.sub(r"\\u|\\\\|\\([0-9]+);", unescape, escaped.removesuffix("_"))


def segment(escaped: str, subtokens: Container[str], longest: int) -> list[str]:
    """Split an escaped token by greedy longest match from the left."""
    pieces = []
    start = 0
    while start < len(escaped):
        for end in range(min(len(escaped), start + longest), start, -1):
            if escaped[start:end] in subtokens:
                break
        else:
            raise ValueError(f"cannot write {escaped!r}")
        pieces.append(escaped[start:end])
        start = end
    return pieces


def segment_tokens(
    tokens: dict[str, int], subtokens: Container[str], longest: int, max_subtoken_length: int | None = None
) -> dict[str, int]:
    """Count all substrings that start at a subtoken boundary. `max_subtoken_length` is exclusive, as in the published code."""
    counts: dict[str, int] = {}
    for escaped, count in tokens.items():
        start = 0
        for piece in segment(escaped, subtokens, longest):
            last = len(escaped) + 1
            if max_subtoken_length is not None:
                last = min(last, start + max_subtoken_length)
            for end in range(start + 1, last):
                string = escaped[start:end]
                counts[string] = counts.get(string, 0) + count
            start += len(piece)
    return counts


def prune_tree(counts: dict[str, int], min_count: int) -> dict[str, int]:
    """Select frequent strings, longest first, and subtract their counts from their prefixes. Modifies `counts`."""
    selected = {}
    by_length: dict[int, list[str]] = {}
    for string in counts:
        by_length.setdefault(len(string), []).append(string)
    for length in sorted(by_length, reverse=True):
        for string in by_length[length]:
            count = counts[string]
            if count >= min_count:
                selected[string] = count
                for end in range(1, length):
                    counts[string[:end]] -= count
    return selected


def common(a: str, b: str) -> str:
    """Return the longest common prefix."""
    return a[: next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))]


def common_prefixes(suffixes: list[str]) -> list[int]:
    """Return the length of the common prefix of each suffix and its predecessor."""
    return [len(common(*pair)) for pair in pairwise(["", *suffixes])]


def build_tree(suffixes: list[str], longest: int) -> set[str]:
    """Return the strings that need a node: first characters, suffixes, and common prefixes of two suffixes."""
    cut = sorted(suffix[:longest] for suffix in suffixes)
    return {suffix[0] for suffix in cut} | set(cut) | {common(*pair) for pair in pairwise(cut)} - {""}


def build_subtokens(
    token_counts: dict[str, int],
    min_count: int,
    num_iterations: int,
    reserved: list[str],
    max_subtoken_length: int | None = None,
) -> list[str]:
    """Return the vocabulary in order of id. Without iterations, the alphabet is in descending order."""
    alphabet = {character for token in [*token_counts, *reserved] for character in token} | ESCAPE_CHARACTERS
    escaped = dict(zip(escape_tokens(list(token_counts), alphabet), token_counts.values(), strict=True))
    subtokens = sorted(alphabet, reverse=True)
    vocabulary = [*reserved, *subtokens]
    reserved = escape_tokens(reserved, alphabet)
    for _ in range(num_iterations):
        known = set(subtokens)
        counts = segment_tokens(escaped, known, max(map(len, known)), max_subtoken_length)
        selected = prune_tree(counts, max(min_count, 1))
        entries = [(count, string) for string, count in selected.items() if string not in alphabet]
        entries += [(counts.get(character, 0), character) for character in alphabet]
        subtokens = vocabulary = [*reserved, *(string for _, string in sorted(entries, reverse=True))]
    return vocabulary


def bisect_subtokens(
    token_counts: dict[str, int],
    target: int,
    low: int,
    high: int,
    reserved: list[str],
    max_subtoken_length: int | None = None,
    num_iterations: int = 4,
) -> list[str]:
    """Return the vocabulary whose size is closest to the target."""
    middle = (low + high) // 2
    found = build_subtokens(token_counts, middle, num_iterations, reserved, max_subtoken_length)
    if abs(len(found) - target) * 100 < target or low >= high or middle < 2:
        return found
    low, high = (middle + 1, high) if len(found) > target else (low, middle - 1)
    deeper = bisect_subtokens(token_counts, target, low, high, reserved, max_subtoken_length, num_iterations)
    return deeper if abs(len(deeper) - target) < abs(len(found) - target) else found


def build_edges(vocabulary: list[str]) -> dict[str, int]:
    """Return the id of each subtoken; of equal ones, the last."""
    return {string: number for number, string in enumerate(vocabulary) if string}


def encode_words(text: str, vocabulary: list[str], alphabet: set[str], cache: dict[str, list[int]] | None = None) -> list[int]:
    """Return the ids of a text; `cache`, which does not affect results, stores the ids of tokens."""
    numbers = build_edges(vocabulary)
    return encode_split(drop_spaces(split_words(text)), numbers, max(map(len, numbers)), alphabet, cache)


def encode_split(
    tokens: list[str], numbers: dict[str, int], longest: int, alphabet: set[str], cache: dict[str, list[int]] | None
) -> list[int]:
    """Return the ids of tokens."""
    ids = []
    for token in tokens:
        found = None if cache is None else cache.get(token)
        if found is None:
            (escaped,) = escape_tokens([token], alphabet)
            found = [numbers[piece] for piece in segment(escaped, numbers, longest)]
            if cache is not None:
                cache[token] = found
        ids += found
    return ids


def decode_words(ids: list[int], vocabulary: list[str]) -> str:
    """Return the text of ids."""
    escaped = "".join(vocabulary[number] for number in ids).split("_")
    return join_words([token for piece in escaped if piece and (token := unescape_token(piece + "_"))])


# ---- records ---------------------------------------------------------------------------------------------------------

# An example is a dict from the name of a feature to a list of integers.


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


def measure_examples(examples: list[dict[str, list[int]]]) -> list[int]:
    """Return the size of the record of each example."""
    return [len(record) for record in put_examples(examples)]


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


# ---- Python objects --------------------------------------------------------------------------------------------------


def make_lists(ids: list[int], starts: list[int]) -> list[list[int]]:
    """Return the ids between adjacent starts as lists."""
    return [ids[start:stop] for start, stop in pairwise(starts)]


def next_integer(words: list[int], ids: list[int]) -> int | None:
    """Return the id at the position in `words[0]`, which is advanced, or None at the end."""
    if words[0] >= len(ids):
        return None
    words[0] += 1
    return ids[words[0] - 1]


def encode_string(given: object, encode: Callable[[str], list[int]], n_bytes: int, id_limit: int) -> list[int] | None:
    """Return the ids of a string, or None if it is longer than `n_bytes`, or has an id from `id_limit` on."""
    if type(given) is not str or len(given) > n_bytes:
        return None
    try:
        data = given.encode()
    except UnicodeEncodeError:
        return None
    ids = encode(given)
    return ids if len(data) <= n_bytes and max(ids, default=-1) < id_limit else None


# ---- inspection ------------------------------------------------------------------------------------------------------


def count_ids(ids: list[int], counts: list[int]) -> None:
    """Add the number of occurrences of each id to its count."""
    for number in ids:
        counts[number] += 1


def count_words(data: bytes) -> tuple[int, int, int, int]:
    """Return the characters and words of a text, and whether its first and its last character belong to a word.

    Bytes that are not valid UTF-8 belong to words, and count as characters unless they are continuation bytes.
    """
    text = data.decode("utf-8", "replace")
    characters = sum(byte & 0xC0 != 0x80 for byte in data)
    return characters, len(text.split()), int(text[:1].strip() != ""), int(text[-1:].strip() != "")
