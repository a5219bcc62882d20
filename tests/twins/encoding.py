"""Encoding: the pre-tokens of a text become ids, by the merges in their order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import regex

from bpejit.kernels.constants import SPECIAL_FLAG
from twins.characters import hash_bytes
from twins.splitting import split_spans
from twins.training import Pair

UNKNOWN = 7
"""The id of characters that are not in a vocabulary."""


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


def build_merges(rules: list[tuple[int, int, int]]) -> dict[Pair, int]:
    """Return the rank of each pair, from rows of (left, right, rank) of distinct pairs."""
    return {(left, right): rank for left, right, rank in rules}


def make_rule_tables(rules: list[tuple[int, int, int, int]]) -> Rules:
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


def replace_parts(ids: list[int], first: int, parts: list[list[int]], fused: int | None) -> list[int]:
    """Return the ids of a pre-token, with those that stand for tokens without an id, which are numbered from `first` on.

    `parts` has the ids of each such token; an empty list continues the character before it. `fused` is the id of which one is
    left of several in a row.
    """
    replaced: list[int] = []
    within = False
    for number in ids:
        is_part = first <= number < first + len(parts)
        found = parts[number - first] if is_part else [number]
        if is_part and not found and not within:
            found = [UNKNOWN]
        within = is_part
        for one in found:
            if one != fused or not replaced or replaced[-1] != one:
                replaced.append(one)
    return replaced


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


def encode_superwords(data: bytes, ends: list[int], rules: Rules, ids: list[int], specials: dict[bytes, int]) -> list[int]:
    """Return the ids of the spans of a text, which do not depend on how the merges are divided."""
    return encode_spans(data, ends, rules, ids, specials)


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
