"""Measures of vocabularies: properties of tokens, merges, suspicious tokens, superwords, what two vocabularies share.

Arrays `[vocab_size]` have an element for each id.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array, ByteStrings, lengths_of, padded_text, starts_of
from bpejit.encoding.codec import Codec
from bpejit.encoding.encoder_tables import first_superword
from bpejit.encoding.symbol_tables import marked
from bpejit.errors import NAMED_ESCAPES
from bpejit.formats.ranked_merges import recover_merges
from bpejit.inspection.tables import Row
from bpejit.model import Model, in_order
from bpejit.splitting import Pattern, Splitter
from bpejit.utf8 import is_utf8

LONG_BYTES = 32
"""Bytes from which a token is very long."""

LONGEST = 40
"""Tokens of as many bytes or more are counted together."""

MOST_POINTS = 600
"""Points of a curve: more would make the file larger, and nothing visible."""

_PRIVATE = re.compile(
    rb"[\w.+-]+@[\w-]+\.\w{2,}"  # e-mail addresses
    rb"|@(?:gmail|hotmail|yahoo|outlook|qq|163)\b"
    rb"|\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b"  # addresses of machines
    rb"|(?:\+\d{2}|\(\d{3}\) ?)[\d -]{7,}\d"  # telephone numbers
    rb"|\b(?:AKIA|ghp_|sk-|xox[bp]-)\w{4,}"  # keys of services
    rb"|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{16,}\b"  # hashes and keys
    rb"|https?://\S{4,}|\bwww\.\w{3,}",
    re.IGNORECASE,
)

_MOJIBAKE = re.compile(
    "[\u00c2-\u00f4\u0192][\u0080-\u00bf\u20ac\u201a-\u2022\u2026\u2030\u2039\u203a\u0152-\u0178\u02c6\u02dc\u2122]"
)


class TokenProperties(NamedTuple):
    """Properties of tokens, each an array [vocab_size].

    Parameters
    ----------
    lengths : int64
        Bytes of each token; 0 for ids that are not in use.
    characters : int64
        Bytes that are not continuation bytes.
    partial : bool
        True if the token starts or ends inside a character: its bytes are not valid UTF-8.
    special : bool
    """

    lengths: Array
    characters: Array
    partial: Array
    special: Array


@lru_cache(maxsize=4)
def token_properties(model: Model) -> TokenProperties:
    """Return the properties of all tokens of a model. The arrays are shared: callers do not change them."""
    size = model.vocab_size
    lengths = np.zeros(size, np.int64)
    characters = np.zeros(size, np.int64)
    partial = np.zeros(size, np.bool_)
    special = np.zeros(size, np.bool_)
    vocab = model.vocab
    ids = np.fromiter(vocab, np.int64, len(vocab))
    sizes = lengths_of(vocab.values())
    lengths[ids] = sizes
    pool = np.frombuffer(b"".join(vocab.values()), np.uint8)
    heads = starts_of((pool & 0xC0) != 0x80)
    characters[ids] = np.diff(heads[starts_of(sizes)])
    partial[ids] = [not is_utf8(token) for token in vocab.values()]
    special[list(model.special_tokens.values())] = True
    return TokenProperties(lengths, characters, partial, special)


class MergeParts(NamedTuple):
    """How tokens are merged.

    Parameters
    ----------
    left, right : int32 [vocab_size]
        Ids of the two tokens; -1 for tokens without a merge: single bytes, special tokens, and tokens that no merge makes.
    order : int64 [merges]
        The tokens that are merged, in order of rank.
    """

    left: Array
    right: Array
    order: Array


def merge_parts(model: Model) -> MergeParts:
    """Return how the tokens of a model are merged: for each token, the pair of the lowest rank."""
    merges = recover_merges(model.tokens)[0] if model.ranked else model.merges
    ids = model.ids
    left = np.full(model.vocab_size, -1, np.int32)
    right = left.copy()
    order = []
    for first, second in merges:
        merged = ids[first + second]
        if left[merged] < 0 and first in ids and second in ids:
            left[merged] = ids[first]
            right[merged] = ids[second]
            order.append(merged)
    return MergeParts(left, right, np.array(order, np.int64))


def compression_curve(model: Model, parts: MergeParts, counts: Array) -> tuple[Array, Array]:
    """Return the number of tokens of a text for each smaller vocabulary, from the tokens of the complete one.

    The encoding with the first k merges is the state of the complete encoding before merge k. So merge k removes one token for
    each of its occurrences in the merge trees of the tokens of the text. For a vocabulary in which no other pair makes a token,
    as in all that a trainer produces, the result is exact.

    Returns
    -------
    sizes : int64 [merges + 1]
        Numbers of ordinary tokens: those that no merge makes, with 0, 1, 2, ... merges.
    tokens : int64 [merges + 1]
        Number of tokens of the text for each size.
    """
    uses = counts.tolist()
    left = parts.left.tolist()
    right = parts.right.tolist()
    order = parts.order.tolist()
    for token in reversed(order):
        n_uses = uses[token]
        if n_uses:
            uses[left[token]] += n_uses
            uses[right[token]] += n_uses
    applied = np.array([uses[token] for token in order], np.int64)
    tokens = int(counts.sum()) + int(applied.sum()) - starts_of(applied)
    first = len(model.tokens) - parts.order.size
    return first + np.arange(parts.order.size + 1), tokens


def compression_points(model: Model, counts: Array, n_bytes: int) -> tuple[Array, Array]:
    """Return points of the curve of `compression_curve`: numbers of tokens of the vocabulary, and bytes per token."""
    sizes, tokens = compression_curve(model, merge_parts(model), counts)
    return _thinned(sizes, n_bytes / np.maximum(tokens, 1))


def frequency_points(counts: Array) -> tuple[Array, Array]:
    """Return ranks by frequency, from 1, and the numbers of occurrences of the tokens that have them."""
    ordered = np.sort(counts[counts > 0])[::-1]
    return _thinned(np.arange(1, ordered.size + 1), ordered)


def length_points(model: Model) -> tuple[Array, Array]:
    """Return 1, 2, 3, ... and how many tokens have so many bytes; the last ones have `LONGEST` or more."""
    lengths = token_properties(model).lengths
    numbers = np.bincount(np.minimum(lengths[lengths > 0], LONGEST))[1:]
    return np.arange(1, numbers.size + 1), numbers


def _thinned(x: Array, y: Array) -> tuple[Array, Array]:
    """Return at most `MOST_POINTS` of some points, evenly spaced on a logarithmic scale, with the first and the last."""
    if x.size > 1:
        at = np.unique(np.geomspace(1, x.size, MOST_POINTS).astype(np.int64)) - 1
        return x[at], y[at]
    return x, y


def find_suspicious_tokens(codec: Codec) -> dict[str, Array]:
    """Return the ids of the suspicious tokens of a vocabulary by kind, each in ascending order; special tokens are none.

    Returns
    -------
    dict of str to int64 [n]
        `unreachable` tokens are never produced: encoding the text of the token gives other tokens. `mojibake` is text in UTF-8
        that was decoded in another encoding, or replacement characters. `long` tokens have at least `LONG_BYTES` bytes.
        `private` ones are like an e-mail or internet address, a telephone number, or a key. `control` ones have control,
        bidirectional or other invisible characters.
    """
    model = codec.model
    properties = token_properties(model)
    texts = {number: token for number, token in sorted(model.tokens.items()) if number not in model.special_vocab}
    found: dict[str, list[int]] = {"mojibake": [], "long": [], "private": [], "control": []}
    for number, token in texts.items():
        if len(token) >= LONG_BYTES:
            found["long"].append(number)
        if len(token) >= 5 and _PRIVATE.search(token):
            found["private"].append(number)
        if token.isascii() and token.isalnum():
            continue
        try:
            text = token.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if len(token) > 1 and any(not c.isprintable() and c not in NAMED_ESCAPES for c in text):
            found["control"].append(number)
        if not text.isascii() and _is_mojibake(text):
            found["mojibake"].append(number)
    kinds = {kind: np.array(numbers, np.int64) for kind, numbers in found.items()}
    return {"unreachable": _find_unreachable_tokens(codec, texts, properties.partial), **kinds}


def _is_mojibake(text: str) -> bool:
    if "\ufffd" in text:
        return True
    if not _MOJIBAKE.search(text):
        return False
    try:
        text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return False
    return True


def _find_unreachable_tokens(codec: Codec, texts: dict[int, bytes], partial: Array) -> Array:
    """Return the tokens whose text, or for parts of characters whose merges, give other tokens."""
    if not texts:
        return np.zeros(0, np.int64)
    numbers = np.array(list(texts), np.int64)
    symbols = codec.model.symbols
    if symbols is not None:  # the text of a token may be changed before it is encoded, for example by a space in front of it
        pieces = [marked(token, symbols.word_end.encode()) for token in texts.values()]
        with codec.workspace() as workspace:
            alone = codec.encoder.encode_pretokens(pieces, workspace)
        return numbers[[ids.tolist() != [number] for number, ids in zip(texts, alone, strict=True)]]
    batch = codec.encode_batch(list(texts.values()), 1, None, ())
    single = np.diff(batch.starts) == 1
    firsts = np.append(batch.ids, 0)[batch.starts[:-1]]
    found = single & (firsts == numbers)
    unknown = np.flatnonzero(~found & partial[numbers])
    if unknown.size:
        pieces = [texts[number] for number in numbers[unknown].tolist()]
        with codec.workspace() as workspace:
            merged = codec.encoder.encode_pretokens(pieces, workspace)
        found[unknown] = [ids.size == 1 for ids in merged]
    unreachable: Array = numbers[~found]
    return unreachable


def merged_tokens(model: Model) -> list[bytes]:
    """Return the tokens of several bytes in order of rank: of the merges, or of the ids if the model merges by rank."""
    if model.ranked:
        return [token for token in in_order(model.tokens) if len(token) > 1]
    return list(dict.fromkeys(left + right for left, right in model.merges))


def compare_vocabularies(first: Model, second: Model, *, n_rows: int = 20) -> Row:
    """Compare two vocabularies, special tokens excluded, and list the first ranks of both.

    Returns
    -------
    dict
        Fields of a report. `shared` is the number of tokens that are in both, and `same_ids` that of those with the same id.
        `only_first` and `only_second` are the tokens that only one of them has, in order of rank; `only_first_special` and
        `only_second_special` are special tokens. `same_merges` is the number of ranks, from the first, up to which both have
        the same tokens. `rank_correlation` is Spearman's correlation between the ranks of the shared tokens of several bytes,
        None for fewer than two.

        Each of `ranks` has a `rank`, from 0, and its token in each vocabulary, `first` and `second`; only tokens of several
        bytes have ranks. `rank_of_first` is the rank of `first` in the second vocabulary, and `rank_of_second` that of `second`
        in the first. A token or a rank is None if there is none.
    """
    ours, theirs = first.ids, second.ids
    ranked = merged_tokens(first), merged_tokens(second)
    ranks: list[dict[bytes | None, int]] = [{token: rank for rank, token in enumerate(tokens)} for tokens in ranked]
    pairs = list(zip_longest(*ranked))
    same = next((rank for rank, (left, right) in enumerate(pairs) if left != right), len(pairs))
    both = [(rank, ranks[1][token]) for token, rank in ranks[0].items() if token in ranks[1]]
    return {
        "shared": sum(token in theirs for token in ours),
        "same_ids": sum(theirs.get(token) == number for token, number in ours.items()),
        "only_first": [token for token in in_order(first.tokens) if token not in theirs],
        "only_second": [token for token in in_order(second.tokens) if token not in ours],
        "only_first_special": [text for text in first.special_tokens if text not in second.special_tokens],
        "only_second_special": [text for text in second.special_tokens if text not in first.special_tokens],
        "same_merges": same,
        "rank_correlation": _rank_correlation(both),
        "ranks": [
            {
                "rank": rank,
                "first": left,
                "second": right,
                "rank_of_first": ranks[1].get(left),
                "rank_of_second": ranks[0].get(right),
            }
            for rank, (left, right) in enumerate(pairs[:n_rows])
        ],
    }


def _rank_correlation(pairs: list[tuple[int, int]]) -> float | None:
    if len(pairs) < 2:
        return None
    # Spearman's correlation is that of the ranks among the shared tokens; there are no ties.
    orders = [np.argsort(np.argsort(column)) for column in zip(*pairs, strict=True)]
    return float(np.corrcoef(orders[0], orders[1])[0, 1])


class WordsOfTokens(NamedTuple):
    """How tokens consist of words, each an array int64 [vocab_size].

    Parameters
    ----------
    words
        Words in each token, at least 1: the pre-tokens of its bytes, if it is made by the merges across words. The pattern is
        that with which words were learned, or the default one if that is not known. A token of several is a superword.
    parts
        Tokens that the merges within words make of its bytes.
    """

    words: Array
    parts: Array


def words_of_tokens(model: Model) -> WordsOfTokens | None:
    """Return how the tokens of a model consist of words, or None if it has no merges across words.

    These are the merges after those that `bpejit.train` notes as merges of words, or else those that the encoder takes for it.
    """
    notes = model.training.get("superwords")  # of a file, which may have anything there
    first, pattern = (notes.get("merges_of_words"), notes.get("pattern")) if isinstance(notes, dict) else (None, None)
    if type(first) is not int or not isinstance(pattern, (str, list, tuple)):
        first, pattern = first_superword(model), "gpt2"
    if first is None or not 0 <= first < len(model.merges):
        return None
    return _words_of_tokens(model, first, pattern if isinstance(pattern, str) else tuple(pattern))


@lru_cache(maxsize=4)
def _words_of_tokens(model: Model, first: int, pattern: Pattern) -> WordsOfTokens | None:
    """Do this for the merges from a rank on, with the pattern of words. Models with other notes are equal."""
    splitter = Splitter(pattern, unicode=model.unicode)
    words, parts = np.ones((2, model.vocab_size), np.int64)
    ids, later = model.ids, model.merges[first:]
    made = ByteStrings.from_list([left + right for left, right in later])
    text, _ = padded_text(made.pool)
    stops = np.searchsorted(splitter.split_within(text, made.starts[1:]), made.starts[1:], side="right")
    for (left, right), n_words in zip(later, np.diff(stops, prepend=0).tolist(), strict=True):
        token = ids[left + right]
        words[token] = n_words
        parts[token] = parts[ids[left]] + parts[ids[right]]
    return WordsOfTokens(words, parts) if (words > 1).any() else None


def superwords_of(model: Model) -> Row:
    """Return the number of superwords, `superwords`, and the most words of a token, `most_words`; 0 and 1 without them."""
    found = words_of_tokens(model)
    if found is None:
        return {"superwords": 0, "most_words": 1}
    return {"superwords": int(np.count_nonzero(found.words > 1)), "most_words": int(found.words.max())}


def superword_figures(model: Model, counts: Array, lengths: Array) -> Row | None:
    """Return what superwords contribute to a text, or None if the vocabulary has none.

    `tokens` and `used_tokens` are their numbers in the vocabulary and in the text, `share` is the part of its bytes that they
    cover, and `token_share` that of its tokens. `bytes_per_token` and `bytes_per_word_token` are with them, and with the
    tokens of words alone. `words` has the numbers of tokens of each number of words, and how often they occur.

    Parameters
    ----------
    model : Model
    counts, lengths : int64 [vocab_size]
        Occurrences and bytes of each token.
    """
    found = words_of_tokens(model)
    if found is None:
        return None
    n_tokens, n_bytes = max(int(counts.sum()), 1), int((counts * lengths).sum())
    chosen = found.words > 1
    rows = []
    for n in np.flatnonzero(np.bincount(found.words[lengths > 0])).tolist():
        of_size = (found.words == n) & (lengths > 0)
        rows.append({"words": n, "tokens": int(of_size.sum()), "count": int(counts[of_size].sum())})
    return {
        "tokens": int(chosen.sum()),
        "used_tokens": int(np.count_nonzero(counts[chosen])),
        "share": int((counts * lengths)[chosen].sum()) / max(n_bytes, 1),
        "token_share": int(counts[chosen].sum()) / n_tokens,
        "bytes_per_token": n_bytes / n_tokens,
        "bytes_per_word_token": n_bytes / max(int((counts * found.parts).sum()), 1),
        "words": rows,
    }
