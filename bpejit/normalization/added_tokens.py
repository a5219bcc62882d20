"""Finding added tokens in text, with the flags that Hugging Face tokenizers have for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from bpejit.normalization.normalizers import WHITE_SPACE
from bpejit.normalization.record import TokenFlags
from bpejit.splitting.character_classes import set_borders
from bpejit.splitting.regex_syntax import Chars
from bpejit.splitting.special_finder import SpecialFinder, StringFinder

_WORD = Chars(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]")


@dataclass(frozen=True)
class AddedToken:
    """An added token to find.

    Parameters
    ----------
    content : str
        What is looked for.
    data : bytes
        What the token is known by: the bytes of its text.
    flags : TokenFlags
    """

    content: str
    data: bytes
    flags: TokenFlags


class TokenFinder:
    """Finds some added tokens, leftmost first, the longest where several begin, the first of those that are alike.

    Parameters
    ----------
    tokens : iterable of AddedToken
    unicode : str, optional
        The version of Unicode that says what is a word (see `bpejit.splitting.compile_pattern`).
    """

    def __init__(self, tokens: Iterable[AddedToken], *, unicode: str | None = None) -> None:
        self._unicode = unicode
        self._tokens: dict[str, AddedToken] = {}
        for token in tokens:
            self._tokens.setdefault(token.content, token)
        self._finder = StringFinder(self._tokens)

    def divide(self, text: str) -> list[str | bytes]:
        """Return the text in parts: added tokens as what they are known by, ordinary text as str."""
        return [text[start:end] if data is None else data for start, end, data in self.spans(text)]

    def spans(self, text: str, areas: Iterable[tuple[int, int]] | None = None) -> list[tuple[int, int, bytes | None]]:
        """Return begin and end of each part of a text, and what it is known by if it is an added token.

        Parameters
        ----------
        text : str
        areas : iterable of (int, int), optional
            Begins and ends of the only stretches in which tokens are looked for, each by itself, in order. What stands
            around a token, white space that goes with it or a letter that keeps it from being one, may lie outside.
        """
        if not self._tokens:
            return [(0, len(text), None)] if text else []
        parts: list[tuple[int, int, bytes | None]] = []
        done = 0
        for start, end in (
            one for area in ([(0, len(text))] if areas is None else areas) for one in self._finder.spans(text, *area)
        ):
            token = self._tokens[text[start:end]]
            flags = token.flags
            around = text[max(start - 1, 0) : start], text[end : end + 1]
            if flags.single_word and any(is_word(one, self._unicode) for one in around):
                continue
            if flags.lstrip:
                while start > done and text[start - 1] in WHITE_SPACE:
                    start -= 1
            if flags.rstrip:
                while end < len(text) and text[end] in WHITE_SPACE:
                    end += 1
            if done < start:
                parts.append((done, start, None))
            parts.append((start, end, token.data))
            # Not the furthest place reached: a token of white space within what another has swallowed is found again.
            done = end
        if done != len(text):
            parts.append((done, len(text), None))
        return parts


@cache
def is_word(character: str, unicode: str | None = None) -> bool:
    """Whether a character, or nothing, is part of a word in a version of Unicode."""
    return character != "" and bool(np.searchsorted(set_borders(_WORD, unicode), ord(character), side="right") & 1)


def overlap(first: Iterable[str], second: Iterable[str]) -> bool:
    """Whether some string of the one kind may stand in a text such that it shares characters with one of the other kind."""
    strings = [[one.encode("utf-8", "surrogatepass") for one in kind] for kind in (first, second)]
    if not all(strings):
        return False
    finders = [SpecialFinder(kind) for kind in strings]
    return any(finder.meets(one) for finder, kind in zip(finders, reversed(strings), strict=True) for one in kind)
