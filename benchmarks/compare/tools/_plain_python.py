"""Textbook byte-level BPE in plain Python: dicts, tuples, `regex` and `Counter`, one merge at a time.

It is the baseline of the benchmarks, and the shortest complete description of what bpejit computes: merges and ids are
equal. The code is written for readability; it is neither slowed down nor optimized.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import regex

from ..corpora import END_OF_TEXT
from ..vocabularies import Vocabulary
from .base import Tool, Trained

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

Pair = tuple[bytes, bytes]


def split_special(text: str, special_tokens: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of the text, and True for special tokens; the longest wins where two start at one position."""
    alternatives = "|".join(regex.escape(token) for token in sorted(special_tokens, key=len, reverse=True))
    if not alternatives:
        yield text, False
        return
    for i, piece in enumerate(regex.split(f"({alternatives})", text)):
        if piece:
            yield piece, i % 2 == 1


# ---- training


def count_pretokens(text: str, special_tokens: Iterable[str] = (), pattern: str = GPT2) -> Counter[bytes]:
    """Count the pre-tokens of the text; special tokens are boundaries and are not counted."""
    split = regex.compile(pattern)
    counts: Counter[bytes] = Counter()
    for piece, is_special in split_special(text, special_tokens):
        if not is_special:
            counts.update(match.group().encode() for match in split.finditer(piece))
    return counts


def learn_merges(pretoken_counts: dict[bytes, int], n_merges: int) -> list[Pair]:
    """Learn `n_merges` merges: each time the most frequent pair, and among equally frequent ones the greatest in bytes."""
    words = {tuple(bytes([byte]) for byte in pretoken): count for pretoken, count in pretoken_counts.items()}
    merges: list[Pair] = []
    while len(merges) < n_merges:
        pairs: Counter[Pair] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = {merge_pair(word, best): count for word, count in words.items()}
    return merges


def merge_pair(word: tuple[bytes, ...], pair: Pair) -> tuple[bytes, ...]:
    """Replace each occurrence of the pair, from the left."""
    if pair[0] not in word:
        return word
    merged: list[bytes] = []
    i = 0
    while i < len(word):
        if word[i : i + 2] == pair:
            merged.append(pair[0] + pair[1])
            i += 2
        else:
            merged.append(word[i])
            i += 1
    return tuple(merged)


def train(text: str, n_merges: int, special_tokens: Iterable[str] = (), pattern: str = GPT2) -> list[Pair]:
    """Learn merges from a text."""
    return learn_merges(count_pretokens(text, special_tokens, pattern), n_merges)


# ---- encoding


def encode_pretoken(pretoken: bytes, ranks: dict[Pair, int]) -> tuple[bytes, ...]:
    """Apply the merge with the lowest rank until none applies."""
    word = tuple(bytes([byte]) for byte in pretoken)
    while len(word) > 1:
        best = min(pairwise(word), key=lambda pair: ranks.get(pair, len(ranks)))
        if best not in ranks:
            break
        word = merge_pair(word, best)
    return word


def encode(
    text: str,
    ids: dict[bytes, int],
    ranks: dict[Pair, int],
    special_tokens: Iterable[str] = (),
    pattern: str = GPT2,
    cache: dict[bytes, list[int]] | None = None,
) -> list[int]:
    """Encode a text.

    Parameters
    ----------
    text : str
    ids : dict of bytes to int
        The id of each token, special tokens included.
    ranks : dict of pair to int
        The index of each merge in their order.
    special_tokens, pattern
        As in training.
    cache : dict, optional
        Stores the ids of each distinct pre-token, as GPT-2's own encoder does.
    """
    split = regex.compile(pattern)
    encoded: list[int] = []
    for piece, is_special in split_special(text, special_tokens):
        if is_special:
            encoded.append(ids[piece.encode()])
            continue
        for match in split.finditer(piece):
            pretoken = match.group().encode()
            pretoken_ids = None if cache is None else cache.get(pretoken)
            if pretoken_ids is None:
                pretoken_ids = [ids[token] for token in encode_pretoken(pretoken, ranks)]
                if cache is not None:
                    cache[pretoken] = pretoken_ids
            encoded.extend(pretoken_ids)
    return encoded


# ---- the tool


class PlainPython(Tool):
    name = "plain-python"
    package = "regex"
    is_reference = True
    tie_rule = "greatest-bytes"
    bytes_per_second = 1e6

    def train(self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path) -> Any:
        return train(path.read_bytes().decode(), vocab_size - 257, [END_OF_TEXT])

    def trained(self, result: Any) -> Trained:
        return Trained([left + right for left, right in result], result)

    def load(self, vocabulary: Vocabulary) -> Any:
        import bpejit

        tokenizer = bpejit.load(vocabulary.saved)
        ids = {token: number for number, token in tokenizer.vocab.items()}
        ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
        cache: dict[bytes, list[int]] | None = {}
        return {"ids": ids, "ranks": ranks, "special_tokens": list(tokenizer.special_tokens), "cache": cache}

    def text_of(self, data: bytes) -> Any:
        return data.decode()

    def encode(self, encoder: Any, text: str) -> Any:
        return encode(text, **encoder)
