"""Properties of the tokens of a vocabulary as arrays by id."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.model import Model


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
    lengths, characters = (np.zeros(size, dtype=np.int64) for _ in range(2))
    partial, special = (np.zeros(size, dtype=np.bool_) for _ in range(2))
    vocab = model.vocab
    ids = np.fromiter(vocab, dtype=np.int64, count=len(vocab))
    sizes = np.fromiter(map(len, vocab.values()), dtype=np.int64, count=len(vocab))
    lengths[ids] = sizes
    pool = np.frombuffer(b"".join(vocab.values()), dtype=np.uint8)
    heads = np.concatenate([[0], np.cumsum((pool & 0xC0) != 0x80)])
    stops = np.cumsum(sizes)
    characters[ids] = heads[stops] - heads[stops - sizes]
    partial[ids] = [not _is_text(token) for token in vocab.values()]
    special[list(model.special_tokens.values())] = True
    return TokenProperties(lengths, characters, partial, special)


def _is_text(token: bytes) -> bool:
    if token.isascii():
        return True
    try:
        token.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
