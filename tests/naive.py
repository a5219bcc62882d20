"""Readable twins of the kernels: the same results in plain Python, with no thought for speed.

Each kernel has a function of its own name here (`project/test_house_rules.py` sees to it). The twins take and return plain
Python values where that reads better; the tests convert.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

import regex

from bpejit.kernels.constants import SPECIAL_FLAG

# ---- splitting -------------------------------------------------------------------------------------------------------


def find_specials(data: bytes, special_tokens: list[bytes]) -> Iterator[tuple[int, int]]:
    """Where special tokens stand: leftmost first, the longest at one place."""
    position = 0
    while position < len(data):
        found = max((len(token) for token in special_tokens if data.startswith(token, position)), default=0)
        if found:
            yield position, position + found
        position += found or 1


def build_trie(tokens: list[bytes]) -> list[bytes]:
    """The nodes of a trie: the beginnings of all tokens, in order of length."""
    return sorted({token[:size] for token in tokens for size in range(1, len(token) + 1)}, key=lambda node: (len(node), node))


def link_trie(tokens: list[bytes]) -> dict[bytes, tuple[list[tuple[int, int]], bytes, bytes, int]]:
    """Of each node: the tokens that are certain when it does not go on, and the node that is left; its longest proper suffix
    that is a node; the length of the longest token that it ends with.
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
    """The farthest ends of tokens by the places where they begin, of each end for the longest only; and where the first begins
    that more text may complete.
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
    """Matches, and what lies between them."""
    position = 0
    for match in pattern.finditer(text):
        start, end = match.span()
        if start < end:
            yield text[position:start]
            yield text[start:end]
            position = end
    yield text[position:]


def split_ordinary(data: bytes, patterns: Iterable[regex.Pattern[str]]) -> Iterator[int]:
    """Ends of the pre-tokens of a text without special tokens; each pattern splits the pieces of the one before."""
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
    """Ends of all spans of a whole text; those of special tokens have the flag."""
    patterns = [pattern] if isinstance(pattern, regex.Pattern) else list(pattern)
    ends: list[int] = []
    position = 0
    for start, end in [*find_specials(data, special_tokens), (len(data), 0)]:
        ends += [position + offset for offset in split_ordinary(data[position:start], patterns)]
        if end:
            ends.append(end | SPECIAL_FLAG)
        position = end
    return ends


def shift_state(state: list[int], by: int) -> list[int]:
    """All fields that are positions fall by `by`; those that were 0 have no meaning and stay 0."""
    is_position = [True, False, True, True, True, True, True, False, False, True, False]
    return [max(value - by, 0) if moves else value for value, moves in zip(state, is_position, strict=True)]


def find_cut(
    data: bytes, lo: int, hi: int, class_of: Sequence[int], safe: Callable[[int, int], bool], special_tokens: list[bytes]
) -> int:
    """First place between a safe pair of characters that no special token spans, or may span when more text comes."""
    longest = max(map(len, special_tokens), default=0)
    place = max(0, lo - longest - 4)
    while place < min(max(0, lo - longest - 4) + 3, len(data)) and 0x80 <= data[place] < 0xC0:
        place += 1
    before = None
    for character in data[place:].decode("utf-8", "surrogateescape"):
        width = next(width for width, limit in ((1, 0xC2), (2, 0xE0), (3, 0xF0), (4, 0xF5), (1, 0x100)) if data[place] < limit)
        if place > hi or place + width > len(data):
            break
        spanned = any(
            start <= place < start + len(token) and token.startswith(data[start : start + len(token)])
            for token in special_tokens
            for start in range(place + 1)
        )
        after = class_of[ord(character)]
        if place >= lo and before is not None and safe(before, after) and not spanned:
            return place
        place += len(character.encode("utf-8", "surrogateescape"))
        before = after
    return -1


# ---- counting --------------------------------------------------------------------------------------------------------


def count_spans(text: bytes, first: int, ends: list[int], counts: dict[bytes, int]) -> None:
    """Add the spans of a text to a dict of counts; an end with the special flag marks a special token, not counted."""
    start = first
    for end in ends:
        stop = end & (SPECIAL_FLAG - 1)
        if not end & SPECIAL_FLAG:
            counts[text[start:stop]] = counts.get(text[start:stop], 0) + 1
        start = stop


def add_pretokens(pretokens: list[bytes], added: list[int], counts: dict[bytes, int]) -> None:
    """Add counted pre-tokens to a dict of counts."""
    for pretoken, count in zip(pretokens, added, strict=True):
        counts[pretoken] = counts.get(pretoken, 0) + count


def rehash(counts: dict[bytes, int]) -> dict[bytes, int]:
    """A larger table holds the same."""
    return dict(counts)


def measure_table(counts: dict[bytes, int]) -> tuple[int, int]:
    """Number of distinct pre-tokens, and of their bytes."""
    return len(counts), sum(len(pretoken) for pretoken in counts)


def unpack_table(counts: dict[bytes, int]) -> tuple[bytes, list[int], list[int]]:
    """Pool, starts and counts."""
    starts = [0]
    for pretoken in counts:
        starts.append(starts[-1] + len(pretoken))
    return b"".join(counts), starts, list(counts.values())


def make_prefixes(pretokens: list[bytes]) -> list[int]:
    """The first 8 bytes of each, zero-filled, as a number that sorts as they do."""
    return [int.from_bytes(pretoken[:8].ljust(8, b"\0"), "big") for pretoken in pretokens]


def sort_runs(pretokens: list[bytes]) -> list[int]:
    """The order of the pre-tokens by their bytes."""
    return sorted(range(len(pretokens)), key=lambda number: pretokens[number])


def gather(pretokens: list[bytes], counts: list[int], order: list[int]) -> tuple[list[bytes], list[int]]:
    """Pre-tokens and counts in another order."""
    return [pretokens[number] for number in order], [counts[number] for number in order]


# ---- training --------------------------------------------------------------------------------------------------------

# A cell is (weight, id); the border is (0, None). A pair is a tuple of two ids.

Cell = tuple[int, int | None]
Pair = tuple[int, int]

BORDER: Cell = (0, None)


def fill_cells(pretokens: list[tuple[bytes, int]], byte_ids: list[int]) -> list[Cell]:
    """A cell for each byte of each pre-token that occurs and has a pair, with borders around the pre-tokens."""
    cells = [BORDER]
    for pretoken, count in pretokens:
        if len(pretoken) > 1 and count > 0:
            cells += [(count, byte_ids[byte]) for byte in pretoken]
            cells.append(BORDER)
    return cells


def compact_cells(cells: list[Cell], widths: list[int]) -> list[Cell]:
    """One cell for each token; pre-tokens of a single token are left out."""
    compact = [BORDER]
    pretoken: list[Cell] = []
    at = 1
    while at < len(cells):
        token = cells[at][1]
        if token is not None:
            pretoken.append(cells[at])
            at += widths[token]
        else:
            if len(pretoken) > 1:
                compact += [*pretoken, BORDER]
            pretoken = []
            at += 1
    return compact


def places_of_pairs(cells: list[Cell]) -> Iterator[tuple[int, Pair, int]]:
    """Position, pair and weight of each place where two tokens of one cell each are adjacent."""
    for at, ((weight, left), (_, right)) in enumerate(pairwise(cells)):
        if left is not None and right is not None:
            yield at, (left, right), weight


def bound_counts(cells: list[Cell], hash_pair: Callable[[Pair], int]) -> dict[int, int]:
    """The weights of pairs, summed by the hash of the pair, up to 2^32 - 1."""
    sums: dict[int, int] = {}
    for _, pair, weight in places_of_pairs(cells):
        sums[hash_pair(pair)] = min(sums.get(hash_pair(pair), 0) + weight, 2**32 - 1)
    return sums


def select_places(
    cells: list[Cell],
    sums: dict[int, int],
    hash_pair: Callable[[Pair], int],
    lengths: list[int],
    threshold: int,
    max_bytes: int,
) -> list[int]:
    """The places of pairs of at most `max_bytes` bytes whose sum reaches the threshold."""
    return [
        at
        for at, pair, _ in places_of_pairs(cells)
        if sums[hash_pair(pair)] >= min(threshold, 2**32 - 1) and lengths[pair[0]] + lengths[pair[1]] <= max_bytes
    ]


def count_pairs(cells: list[Cell], places: list[int]) -> dict[Pair, tuple[int, int]]:
    """Count, and number of places, of each pair that stands at one of the places."""
    counts: dict[Pair, tuple[int, int]] = {}
    for at, pair, weight in places_of_pairs(cells):
        if at in places:
            count, number = counts.get(pair, (0, 0))
            counts[pair] = count + weight, number + 1
    return counts


def copy_pairs(counts: dict[Pair, int], least: int) -> dict[Pair, int]:
    """The pairs that occur at least `least` times."""
    return {pair: count for pair, count in counts.items() if count >= least}


def plan_postings(numbers: list[int]) -> tuple[list[int], int, int]:
    """Where each list starts, the room for all, and the length of the longest."""
    starts = [0]
    for number in numbers:
        starts.append(starts[-1] + number)
    return starts[:-1], starts[-1], max(numbers, default=0)


def write_postings(cells: list[Cell], places: list[int], pairs: set[Pair]) -> dict[Pair, list[int]]:
    """Those of the places where each of the pairs stands."""
    found: dict[Pair, list[int]] = {pair: [] for pair in pairs}
    for at, pair, _ in places_of_pairs(cells):
        if at in places and pair in found:
            found[pair].append(at)
    return found


def bucket_of(count: int) -> int:
    """Counts in ascending order share a bucket when they have the same 8 leading bits and the same length."""
    buckets = 0
    exponent = 0
    while count >> exponent >= 256:
        exponent += 1
        buckets += 128
    return buckets + (count >> exponent)


def file_pairs(counts: dict[Pair, int], threshold: int) -> dict[int, set[Pair]]:
    """The pairs that reach the threshold, by bucket."""
    buckets: dict[int, set[Pair]] = {}
    for pair, count in counts.items():
        if count >= threshold:
            buckets.setdefault(bucket_of(count), set()).add(pair)
    return buckets


def count_adjacent(words: list[tuple[list[int], int]]) -> dict[Pair, int]:
    """How often each pair of ids occurs; overlapping places all count."""
    counts: dict[Pair, int] = {}
    for word, weight in words:
        for pair in pairwise(word):
            counts[pair] = counts.get(pair, 0) + weight
    return counts


def tie_key(pair: Pair, tokens: list[bytes], rule: str) -> tuple[Any, Any]:
    """Of equally frequent pairs, the one with the greatest key is merged first."""
    if rule == "greatest-bytes":
        return tokens[pair[0]], tokens[pair[1]]
    if rule == "smallest-ids":
        return -pair[0], -pair[1]
    # hf: 188 bytes that GPT-2 shows as themselves, the 68 others, then merged tokens as they were made
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    order = [*shown, *(byte for byte in range(256) if byte not in shown), *range(256, len(tokens))]
    return -order.index(pair[0]), -order.index(pair[1])


def replace_pair(word: list[int], pair: Pair, merged: int) -> list[int]:
    """Merge each place of the pair, from the left."""
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
    """Merge the best pair in all words until there are `n_tokens` tokens or no pair is left; changes words and tokens.

    Everything is counted anew in each step. Returns left id, right id and count of each merge.
    """
    merges = []
    while len(tokens) < n_tokens:
        counts = {
            pair: count
            for pair, count in count_adjacent(words).items()
            if count >= threshold and (max_bytes is None or len(tokens[pair[0]] + tokens[pair[1]]) <= max_bytes)
        }
        if not counts:
            break
        most = max(counts.values())
        best = max((pair for pair in counts if counts[pair] == most), key=lambda pair: tie_key(pair, tokens, rule))
        merges.append((*best, most))
        words[:] = [(replace_pair(word, best, len(tokens)), weight) for word, weight in words]
        tokens.append(tokens[best[0]] + tokens[best[1]])
    return merges


def learn_merges(
    counts: dict[bytes, int],
    n_merges: int,
    tie_break: str = "greatest-bytes",
    min_frequency: int = 1,
    max_token_bytes: int | None = None,
) -> list[tuple[int, int, int]]:
    """The whole trainer."""
    words = [(list(pretoken), count) for pretoken, count in counts.items() if count > 0]
    tokens = [bytes([byte]) for byte in range(256)]
    return merge_some(words, tokens, 256 + n_merges, tie_break, max(1, min_frequency), max_token_bytes)


# ---- encoding --------------------------------------------------------------------------------------------------------


def move_slots(cache: dict[bytes, list[int]]) -> dict[bytes, list[int]]:
    """A larger cache holds the same."""
    return dict(cache)


Rules = dict[Pair, tuple[int, int]]
"""Rank of each pair of tokens, and the token that it makes."""


def build_pairs(rules: list[tuple[int, int, int, int]]) -> Rules:
    """Rules from rows of (left, right, token, rank); where a pair is given twice, the lower rank holds."""
    table: Rules = {}
    for left, right, token, rank in rules:
        table[left, right] = min((rank, token), table.get((left, right), (rank, token)))
    return table


def list_splits(tokens: list[bytes]) -> list[tuple[int, int, int]]:
    """Every way to divide each token into two others: the numbers of the parts and of the token."""
    numbers = {token: number for number, token in enumerate(tokens)}
    return [
        (numbers[token[:middle]], numbers[token[middle:]], number)
        for number, token in enumerate(tokens)
        for middle in range(1, len(token))
        if token[:middle] in numbers and token[middle:] in numbers
    ]


def characters(data: bytes) -> list[bytes]:
    """The characters of a text; a byte that belongs to none stands alone."""
    pieces: list[bytes] = []
    while data:
        length = {0: 1, 0xC: 2, 0xD: 2, 0xE: 3, 0xF: 4}.get(data[0] >> 4 if data[0] >= 0x80 else 0, 1)
        whole = len(data) >= length and all(0x80 <= byte < 0xC0 for byte in data[1:length])
        pieces.append(data[: length if whole else 1])
        data = data[len(pieces[-1]) :]
    return pieces


def build_joints(tokens: list[bytes]) -> set[tuple[bytes, bytes] | tuple[int, int]]:
    """The places within tokens at which a byte above 127 stands: the two characters, or else the two bytes around it."""
    joints: set[tuple[bytes, bytes] | tuple[int, int]] = set()
    for token in tokens:
        for before, after in pairwise(characters(token)):
            if before[-1] >= 0x80 or after[0] >= 0x80:
                broken = (before[0] >= 0x80 and len(before) == 1) or (after[0] >= 0x80 and len(after) == 1)
                joints.add((before[-1], after[0]) if broken else (before, after))
    return joints


def recover_splits(tokens: list[bytes]) -> list[tuple[int, int]]:
    """For each token the two parts that the ranks below its own make of it, or (-1, -1); tokens are in order of rank."""
    ranks = {token: number for number, token in enumerate(tokens) if number >= 256}
    found = []
    for number, token in enumerate(tokens):
        parts = [token[place : place + 1] for place in range(len(token))]
        while len(parts) > 2:
            best = min(range(len(parts) - 1), key=lambda place: ranks.get(parts[place] + parts[place + 1], number))
            if ranks.get(parts[best] + parts[best + 1], number) >= number:
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        found.append((tokens.index(parts[0]), tokens.index(parts[1])) if len(parts) == 2 else (-1, -1))
    return found


def merge_window(data: bytes, rules: Rules) -> list[int]:
    """Merge the pair of lowest rank, the leftmost of equals, until none is left."""
    tokens = list(data)
    while True:
        found = [(*rules[pair], place) for place, pair in enumerate(pairwise(tokens)) if pair in rules]
        if not found:
            return tokens
        _, token, place = min(found, key=lambda entry: (entry[0], entry[2]))
        tokens[place : place + 2] = [token]


def merge_sweeps(data: bytes, rules: Rules, ids: list[int], most: int = 64) -> list[int] | None:
    """Ids of a pre-token, merging all pairs of the lowest rank at once, from the left.

    None if one of these merges makes a pair of a lower rank than its own, or if something may be left after `most` sweeps.
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


def merge_long(data: bytes, rules: Rules, ids: list[int]) -> list[int]:
    """Ids of a pre-token: windows change nothing."""
    return [ids[token] for token in merge_window(data, rules)]


def encode_pretoken(data: bytes, rules: Rules, ids: list[int]) -> list[int]:
    """Ids of a pre-token."""
    return [ids[token] for token in merge_window(data, rules)]


def hash_strings(strings: list[bytes]) -> list[int]:
    """The 64-bit hash of each string: sixteen bytes at a time, the last sixteen wherever they begin."""

    def fold(a: int, b: int) -> int:
        return (a * b ^ (a * b >> 64)) & 0xFFFF_FFFF_FFFF_FFFF

    def hash_sixteen(part: bytes, mixed: int) -> int:
        return fold(int.from_bytes(part[:8], "little") ^ mixed ^ low, int.from_bytes(part[8:], "little") ^ high)

    low, high = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
    hashes = []
    for string in strings:
        mixed = fold(len(string), low)
        parts = [string[start : start + 16] for start in range(0, max(len(string) - 16, 1), 16)]
        if len(string) > 16:
            parts.append(string[-16:])
        value, *others = (hash_sixteen(part, mixed) for part in parts)
        for other in others:
            value = fold(value ^ high, low) ^ other
        hashes.append(value)
    return hashes


def encode_spans(
    data: bytes,
    ends: list[int],
    rules: Rules,
    ids: list[int],
    specials: dict[bytes, int],
    whole: dict[bytes, int] | None = None,
) -> list[int]:
    """Ids of the spans of a text; there is no cache here, so nothing can be wrong with it.

    `whole` has the tokens that a span becomes whatever the rules say.
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
    """Ids of a text."""
    return encode_spans(data, split_spans(data, pattern, list(specials)), rules, ids, specials, whole)


def measure_ids(ids: list[int], tokens: dict[int, bytes]) -> int:
    """How many bytes ids stand for, or -1 - the position of the first that is no token."""
    for position, number in enumerate(ids):
        if number not in tokens:
            return -1 - position
    return len(decode_ids(ids, tokens))


def decode_ids(ids: list[int], tokens: dict[int, bytes]) -> bytes:
    """The bytes of ids."""
    return b"".join(tokens[number] for number in ids)


# ---- subwords --------------------------------------------------------------------------------------------------------

ESCAPE_CHARACTERS = set("\\_u;0123456789")


def is_word_character(character: str) -> bool:
    """Letters and digits, as Python's Unicode tables have them."""
    return unicodedata.category(character)[0] in "LN"


def split_words(text: str) -> list[str]:
    """All runs of letters and digits, and of everything else."""
    return ["".join(run) for _, run in groupby(text, key=is_word_character)]


def drop_spaces(words: list[str]) -> list[str]:
    """Leave out single spaces between two words; they are put back where two words meet."""
    return [word for i, word in enumerate(words) if word != " " or i in (0, len(words) - 1)]


def join_words(tokens: list[str]) -> str:
    """The inverse of both."""
    text = ""
    for before, token in pairwise(["", *tokens]):
        if before and is_word_character(before[0]) and is_word_character(token[0]):
            text += " "
        text += token
    return text


def escape_tokens(tokens: list[str], alphabet: set[str]) -> list[str]:
    """Only characters of the alphabet, no line break, and an underscore at the end and nowhere else."""
    escaped = []
    for token in tokens:
        token = token.replace("\\", "\\\\").replace("_", "\\u")
        escaped.append("".join(c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in token) + "_")
    return escaped


def unescape_token(escaped: str) -> str:
    """The inverse for one token; a number that is no code point becomes U+3013."""

    def unescape(match: re.Match[str]) -> str:
        if match[1] is None:
            return "_" if match[0] == "\\u" else "\\"
        try:
            return chr(int(match[1]))
        except (ValueError, OverflowError):
            return "\u3013"

    return re.sub(r"\\u|\\\\|\\([0-9]+);", unescape, escaped.removesuffix("_"))


def segment(escaped: str, subtokens: Container[str], longest: int) -> list[str]:
    """Greedy longest match from the left."""
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
    """Counts of all substrings that start where a subtoken does. A bound is exclusive, as it was published."""
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


def prune_tree(counts: dict[str, int], least: int) -> dict[str, int]:
    """Keep what is frequent enough, longest first; take its count away from its prefixes. Changes `counts`."""
    kept = {}
    by_length: dict[int, list[str]] = {}
    for string in counts:
        by_length.setdefault(len(string), []).append(string)
    for length in sorted(by_length, reverse=True):
        for string in by_length[length]:
            count = counts[string]
            if count >= least:
                kept[string] = count
                for end in range(1, length):
                    counts[string[:end]] -= count
    return kept


def common(a: str, b: str) -> str:
    """What both strings begin with."""
    return a[: next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))]


def common_prefixes(suffixes: list[str]) -> list[int]:
    """Length of the common prefix of each and the one before it."""
    return [len(common(*pair)) for pair in pairwise(["", *suffixes])]


def build_tree(suffixes: list[str], longest: int) -> set[str]:
    """The strings that need a node: first characters, suffixes, and common prefixes of two of them."""
    cut = sorted(suffix[:longest] for suffix in suffixes)
    return {suffix[0] for suffix in cut} | set(cut) | {common(*pair) for pair in pairwise(cut)} - {""}


def build_subtokens(
    token_counts: dict[str, int],
    min_count: int,
    num_iterations: int,
    reserved: list[str],
    max_subtoken_length: int | None = None,
) -> list[str]:
    """The vocabulary in order of id. Without an iteration the order of the alphabet was never settled: here it falls."""
    alphabet = {character for token in [*token_counts, *reserved] for character in token} | ESCAPE_CHARACTERS
    escaped = dict(zip(escape_tokens(list(token_counts), alphabet), token_counts.values(), strict=True))
    subtokens = sorted(alphabet, reverse=True)
    vocabulary = [*reserved, *subtokens]
    for _ in range(num_iterations):
        known = set(subtokens)
        counts = segment_tokens(escaped, known, max(map(len, known)), max_subtoken_length)
        kept = prune_tree(counts, max(min_count, 1))
        entries = [(count, string) for string, count in kept.items() if string not in alphabet]
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
    """The vocabulary whose size comes closest to the target."""
    middle = (low + high) // 2
    found = build_subtokens(token_counts, middle, num_iterations, reserved, max_subtoken_length)
    if abs(len(found) - target) * 100 < target or low >= high or middle < 2:
        return found
    low, high = (middle + 1, high) if len(found) > target else (low, middle - 1)
    deeper = bisect_subtokens(token_counts, target, low, high, reserved, max_subtoken_length, num_iterations)
    return deeper if abs(len(deeper) - target) < abs(len(found) - target) else found


def build_edges(vocabulary: list[str]) -> dict[str, int]:
    """The id of each subtoken; of equal ones the last."""
    return {string: number for number, string in enumerate(vocabulary) if string}


def encode_words(text: str, vocabulary: list[str], alphabet: set[str], cache: dict[str, list[int]] | None = None) -> list[int]:
    """The ids of a text; `cache`, which changes no result, remembers those of its tokens."""
    numbers = build_edges(vocabulary)
    return encode_split(drop_spaces(split_words(text)), numbers, max(map(len, numbers)), alphabet, cache)


def encode_split(
    tokens: list[str], numbers: dict[str, int], longest: int, alphabet: set[str], cache: dict[str, list[int]] | None
) -> list[int]:
    """The ids of tokens."""
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
    """The text of ids."""
    escaped = "".join(vocabulary[number] for number in ids).split("_")
    return join_words([token for piece in escaped if piece and (token := unescape_token(piece + "_"))])
