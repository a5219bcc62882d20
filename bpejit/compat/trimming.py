"""Leaving white space out of the places of tokens: `trim_offsets` of Hugging Face's post-processors.

It counts the white space at both ends of a token as it is written, and takes as many characters off what the token covers,
also where that white space is not in the text: a space that was put before a part of the text is counted too, but for the one
before the first token where `add_prefix_space` is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.normalization import PreparedText
from bpejit.normalization.byte_characters import bytes_to_text
from bpejit.normalization.normalizers import WHITE_SPACE

_BLANK = WHITE_SPACE + bytes_to_text(b" ")


class Located(NamedTuple):
    """The ids of a text, with the characters that each covers and the white space at both ends of each.

    Parameters
    ----------
    ids : list of int
    offsets : list of (int, int)
        Empty if nobody asked.
    blanks : list of (int, int)
        Empty if nothing is to be trimmed.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]
    blanks: list[tuple[int, int]]

    def kept(self, stay: slice) -> Located:
        """Return some of the tokens."""
        return Located(self.ids[stay], self.offsets[stay], self.blanks[stay])

    def trimmed(self, prefix: bool) -> Located:
        """Return this with the white space left out of the offsets.

        Parameters
        ----------
        prefix : bool
            Whether one space at the start of the text is taken for one that was put there, and stays.
        """
        offsets = []
        for place, ((start, end), (before, behind)) in enumerate(zip(self.offsets, self.blanks, strict=True)):
            if before != 1 or not prefix or (place and start):
                start = min(start + before, end)
            offsets.append((start, max(end - behind, start) if end >= behind else end))
        return self._replace(offsets=offsets)


def trims(post_processor: Any) -> tuple[bool, ...]:
    """Return, for each part of a post-processor that trims offsets, its `add_prefix_space`."""
    if not isinstance(post_processor, dict):
        return ()
    if post_processor.get("type") == "Sequence":
        return tuple(prefix for part in post_processor["processors"] for prefix in trims(part))
    return (post_processor["add_prefix_space"],) if post_processor.get("trim_offsets") else ()


def count_blanks(
    ids: list[int], vocab: Mapping[int, bytes], special: Mapping[int, str], prepared: PreparedText | None
) -> list[tuple[int, int]]:
    """Return how much white space stands at both ends of each token, as `tokenizer.json` writes them.

    Parameters
    ----------
    ids : list of int
    vocab : dict of int to bytes
    special : dict of int to str
        Text of each special token that is found in text.
    prepared : PreparedText, optional
        What the ids were made of, where a preparation changed the text.
    """
    if prepared is None:
        found = {place: special[number] for place, number in enumerate(ids) if number in special}
    else:
        ends = np.cumsum([0, *(len(vocab[number]) for number in ids)])
        spans = np.concatenate([np.zeros(1, dtype=np.uint32), prepared.ends])
        begins = spans[:-1][(prepared.ends & SPECIAL_FLAG) != 0] & POSITION_MASK
        found = dict(zip(np.searchsorted(ends, begins).tolist(), prepared.found, strict=True))
    return [
        _blanks(found[place], _BLANK) if place in found else _blanks(vocab[number], b" ") for place, number in enumerate(ids)
    ]


def _blanks(token: Any, blank: Any) -> tuple[int, int]:
    return len(token) - len(token.lstrip(blank)), len(token) - len(token.rstrip(blank))
