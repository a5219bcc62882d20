"""Superwords of a vocabulary, tokens of several words, and what they contribute to a text."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array, ByteStrings, padded_text
from bpejit.encoding.encoder_tables import first_superword
from bpejit.inspection.tables import Row
from bpejit.model import Model
from bpejit.splitting import Pattern, Splitter

_PATTERN = "gpt2"


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
        first, pattern = first_superword(model), _PATTERN
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
