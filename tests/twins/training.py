"""Training: the most frequent pair of adjacent tokens is merged, again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any


def expand_merges(left: list[int], right: list[int]) -> list[bytes]:
    """Return the 256 bytes, and the tokens that merges make."""
    tokens = [bytes([byte]) for byte in range(256)]
    for a, b in zip(left, right, strict=True):
        tokens.append(tokens[a] + tokens[b])
    return tokens


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
    sizes: list[int] | None = None,
    refuses: Callable[[bytes], bool] = lambda token: False,
) -> list[tuple[int, int, int]]:
    """Merge the best pair in all words until there are `n_tokens` tokens or no pair is left. Modifies words and tokens.

    `max_bytes` limits the bytes of a token, or the sum of other `sizes` of tokens, which are modified; `refuses` says of the
    bytes of a token whether it is not made.

    The words that contain the merged pair are counted again for each merge. Returns left id, right id and count of each merge.
    """
    merges = []
    counts = count_adjacent(words)
    sizes = [len(token) for token in tokens] if sizes is None else sizes
    while len(tokens) < n_tokens:
        allowed = {
            pair: count
            for pair, count in counts.items()
            if count >= threshold and (max_bytes is None or sizes[pair[0]] + sizes[pair[1]] <= max_bytes)
            if not refuses(tokens[pair[0]] + tokens[pair[1]])
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
        sizes.append(sizes[best[0]] + sizes[best[1]])
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
