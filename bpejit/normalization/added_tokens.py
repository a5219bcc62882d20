"""Finding added tokens in text, by the flags of Hugging Face tokenizers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np

from bpejit import splitting
from bpejit.normalization.normalizers import WHITE_SPACE
from bpejit.normalization.pipeline_config import TokenFlags
from bpejit.splitting.special_token_finder import SpecialTokenFinder, StringFinder

_WORD = r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]"


class TokenFinder:
    """Finds added tokens: the leftmost match, and the longest at a position.

    Parameters
    ----------
    tokens : mapping of str to (bytes, TokenFlags)
        The bytes, which identify the token, and the flags of each text to find.
    unicode : str, optional
        The version of Unicode that defines word characters (see `bpejit.splitting.compile_pattern`).
    """

    def __init__(self, tokens: Mapping[str, tuple[bytes, TokenFlags]], *, unicode: str | None = None) -> None:
        self._unicode = unicode
        self._tokens = tokens
        self._finder = StringFinder(tokens)

    def spans(self, text: str, areas: Iterable[tuple[int, int]] | None = None) -> list[tuple[int, int, bytes | None]]:
        """Return start and end of each part of a text, and the bytes of the added token, or None for ordinary text.

        Parameters
        ----------
        text : str
        areas : iterable of (int, int), optional
            Starts and ends of the ranges to search, in order; by default the whole text. A token lies within one range. White
            space stripped with a token, and letters that prevent a match of a single word, may lie outside.
        """
        if not self._tokens:
            return [(0, len(text), None)] if text else []
        parts: list[tuple[int, int, bytes | None]] = []
        done = 0
        for start, end in (
            one for area in ([(0, len(text))] if areas is None else areas) for one in self._finder.spans(text, *area)
        ):
            token, flags = self._tokens[text[start:end]]
            around = text[max(start - 1, 0) : start], text[end : end + 1]
            if flags.single_word and any(is_word(one, self._unicode) for one in around):
                continue
            if flags.lstrip:
                start = done + len(text[done:start].rstrip(WHITE_SPACE))
            if flags.rstrip:
                while end < len(text) and text[end] in WHITE_SPACE:
                    end += 1
            if done < start:
                parts.append((done, start, None))
            # A token of white space is found again within white space stripped with another token, unless it strips that, too.
            if start < end:
                parts.append((start, end, token))
            done = end  # not the maximum
        if done != len(text):
            parts.append((done, len(text), None))
        return parts


@cache
def is_word(character: str, unicode: str | None = None) -> bool:
    """Return True if a character is part of a word in a version of Unicode; `character` may be empty."""
    if not character:
        return False
    boundaries = splitting.set_boundaries(splitting.Chars(_WORD), unicode)
    return bool(np.searchsorted(boundaries, ord(character), side="right") & 1)


def overlap(first: Iterable[str], second: Iterable[str]) -> bool:
    """Return True if an occurrence of a string in `first` can overlap an occurrence of a string in `second`."""
    strings = [[one.encode("utf-8", "surrogatepass") for one in kind] for kind in (first, second)]
    return all(strings) and any(_may_begin_in(ones, others) for ones, others in (strings, reversed(strings)))


def _may_begin_in(ones: list[bytes], others: list[bytes]) -> bool:
    """Return True if one of `ones` is contained in one of `others`, or begins where it ends."""
    # One search with a byte that no string has: there may be 1,500 strings, and a call of the finder takes some 20 µs.
    heads = {one[:end] for one in ones for end in range(1, len(one) + 1)}
    return SpecialTokenFinder(ones).may_contain(b"\xff".join(others)) or any(
        other[start:] in heads for other in others for start in range(len(other))
    )
