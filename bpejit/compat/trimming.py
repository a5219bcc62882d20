"""Excluding white space from offsets: `trim_offsets` of Hugging Face's post-processors.

The white space at both ends of a token's text is counted, and as many characters are removed from its offsets. An inserted
prefix space, which the original text does not have, is counted too, except before the first token if `add_prefix_space` is
set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.compat.model_inputs import TokenRows
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.normalization import PreTokenizedText
from bpejit.normalization.byte_characters import encode_byte_characters
from bpejit.normalization.normalizers import WHITE_SPACE

_BLANK = WHITE_SPACE + encode_byte_characters(b" ")


def trim(rows: TokenRows, prefix: bool) -> TokenRows:
    """Return the tokens with white space excluded from the offsets.

    Parameters
    ----------
    rows : TokenRows
        With offsets and blanks.
    prefix : bool
        Whether a single space at the start of a text counts as an inserted prefix, and is not excluded.
    """
    assert rows.offsets is not None
    assert rows.blanks is not None
    begins, ends = rows.offsets.T
    before, after = rows.blanks.T
    inner = np.ones(begins.size, dtype=bool)
    inner[rows.starts[:-1][np.diff(rows.starts) > 0]] = False
    excluded = (before != 1) | (inner & (begins != 0)) if prefix else np.ones_like(inner)
    begins = np.where(excluded, np.minimum(begins + before, ends), begins)
    ends = np.where(ends >= after, np.maximum(ends - after, begins), ends)
    return rows._replace(offsets=np.stack([begins, ends], axis=1))


def trims(post_processor: Any) -> tuple[bool, ...]:
    """Return the `add_prefix_space` of each component of a post-processor that trims offsets."""
    if not isinstance(post_processor, dict):
        return ()
    if post_processor.get("type") == "Sequence":
        return tuple(prefix for part in post_processor["processors"] for prefix in trims(part))
    return (post_processor["add_prefix_space"],) if post_processor.get("trim_offsets") else ()


def count_blanks(ids: Array, vocab: Mapping[int, bytes], special: Mapping[int, str]) -> Array:
    """Count the white space at the start and at the end of each token, as `tokenizer.json` writes it.

    Parameters
    ----------
    ids : uint32 [tokens]
    vocab : mapping of int to bytes
    special : dict of int to str
        Text of each special token.

    Returns
    -------
    int64 [tokens, 2]
    """
    distinct, indices = np.unique(ids, return_inverse=True)
    counts = [
        _blanks(special[token_id], _BLANK) if token_id in special else _blanks(vocab[token_id], b" ")
        for token_id in distinct.tolist()
    ]
    return np.array(counts, dtype=np.int64).reshape(-1, 2)[indices]


def count_blanks_of_changed(ids: Array, vocab: Mapping[int, bytes], prepared: PreTokenizedText) -> Array:
    """Do the same for a text that a pipeline changed; its special tokens may have absorbed white space."""
    ends = np.cumsum([0, *(len(vocab[token_id]) for token_id in ids.tolist())])
    spans = np.concatenate([np.zeros(1, dtype=np.uint32), prepared.ends])
    begins = spans[:-1][(prepared.ends & SPECIAL_FLAG) != 0] & POSITION_MASK
    blanks = count_blanks(ids, vocab, {})
    for index, text in zip(np.searchsorted(ends, begins).tolist(), prepared.found, strict=True):
        blanks[index] = _blanks(text, _BLANK)
    return blanks


def _blanks(token: Any, blank: Any) -> tuple[int, int]:
    return len(token) - len(token.lstrip(blank)), len(token) - len(token.rstrip(blank))
