"""Excluding white space from offsets: `trim_offsets` of Hugging Face's post-processors.

The white space at both ends of a token's text is counted, and as many characters are removed from its offsets. An inserted
prefix space, which the original text does not have, is counted too, except before the first token if `add_prefix_space` is
set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.normalization import PreTokenizedText
from bpejit.normalization.byte_characters import encode_byte_characters
from bpejit.normalization.normalizers import WHITE_SPACE

_BLANK = WHITE_SPACE + encode_byte_characters(b" ")


class Located(NamedTuple):
    """The ids of a text, with the offsets of each token and the white space at its ends.

    Parameters
    ----------
    ids : list of int
    offsets : list of (int, int)
        In characters; empty if not requested.
    blanks : list of (int, int)
        White space at the start and at the end of each token; empty if offsets are not trimmed.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]
    blanks: list[tuple[int, int]]

    def select(self, chosen: slice) -> Located:
        """Return a slice of the tokens."""
        return Located(self.ids[chosen], self.offsets[chosen], self.blanks[chosen])

    def trimmed(self, prefix: bool) -> Located:
        """Return the tokens with white space excluded from the offsets.

        Parameters
        ----------
        prefix : bool
            Whether a single space at the start of the text counts as an inserted prefix, and is not excluded.
        """
        offsets = []
        for index, ((start, end), (before, after)) in enumerate(zip(self.offsets, self.blanks, strict=True)):
            if before != 1 or not prefix or (index and start):
                start = min(start + before, end)
            offsets.append((start, max(end - after, start) if end >= after else end))
        return self._replace(offsets=offsets)


def trims(post_processor: Any) -> tuple[bool, ...]:
    """Return the `add_prefix_space` of each component of a post-processor that trims offsets."""
    if not isinstance(post_processor, dict):
        return ()
    if post_processor.get("type") == "Sequence":
        return tuple(prefix for part in post_processor["processors"] for prefix in trims(part))
    return (post_processor["add_prefix_space"],) if post_processor.get("trim_offsets") else ()


def count_blanks(
    ids: list[int], vocab: Mapping[int, bytes], special: Mapping[int, str], prepared: PreTokenizedText | None
) -> list[tuple[int, int]]:
    """Count the white space at the start and at the end of each token, as `tokenizer.json` writes it.

    Parameters
    ----------
    ids : list of int
    vocab : dict of int to bytes
    special : dict of int to str
        Text of each special token.
    prepared : PreTokenizedText, optional
        The output of the pipeline, if it changed the text.
    """
    if prepared is None:
        found = {index: special[token_id] for index, token_id in enumerate(ids) if token_id in special}
    else:
        ends = np.cumsum([0, *(len(vocab[token_id]) for token_id in ids)])
        spans = np.concatenate([np.zeros(1, dtype=np.uint32), prepared.ends])
        begins = spans[:-1][(prepared.ends & SPECIAL_FLAG) != 0] & POSITION_MASK
        found = dict(zip(np.searchsorted(ends, begins).tolist(), prepared.found, strict=True))
    return [
        _blanks(found[index], _BLANK) if index in found else _blanks(vocab[token_id], b" ")
        for index, token_id in enumerate(ids)
    ]


def _blanks(token: Any, blank: Any) -> tuple[int, int]:
    return len(token) - len(token.lstrip(blank)), len(token) - len(token.rstrip(blank))
