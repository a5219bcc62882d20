"""Limits for patterns and normalizers of untrusted tokenizers: the time that a text may take, and the size that it may reach.

A pattern that the `regex` package runs may backtrack for ever, and a chain of `Replace` multiplies a text. The limits belong to
one text, however many patterns, steps and parts it has, and are those of the thread that processes it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from bpejit.errors import PatternError, TokenizerFormatError, shorten

REGEX_TIMEOUT = 10.0
"""Seconds of processor time for one MB of text in patterns that run through the `regex` package; presets take some 0.3 s."""

LEAST_SECONDS = 1.0
"""The limit of short texts."""

GROWTH = 64
"""The number of characters that normalizers may add for each byte of text. A normal form adds at most 17 for a character."""

MORE_CHARACTERS = 1 << 20
"""The number of characters that they may add to any text."""

_FOREVER = 1e9
"""The `regex` package accepts no infinite time."""

_Result = TypeVar("_Result")

_thread = threading.local()


class TextLimits:
    """What the processing of a text may still use.

    Parameters
    ----------
    n_bytes : int
        Size of the text; its number of characters will do.
    regex_timeout : float, optional
        Seconds of processor time in the `regex` package for one MB; at least `LEAST_SECONDS` are allowed. None means no limit.
    """

    def __init__(self, n_bytes: int, regex_timeout: float | None) -> None:
        self._n_bytes = n_bytes
        self._regex_timeout = regex_timeout
        self._seconds = _FOREVER
        if regex_timeout is not None:
            self._seconds = min(max(LEAST_SECONDS, regex_timeout * n_bytes / 1e6), _FOREVER)
        self._left = self._seconds
        self._room = GROWTH * n_bytes + MORE_CHARACTERS

    def matches(self, pattern: Any, text: str) -> list[tuple[int, int]]:
        """Return start and end of each match of a pattern of the `regex` package.

        Raises
        ------
        PatternError
            If the text has taken too long.
        """
        return self._in_time(pattern, lambda timeout: [found.span() for found in pattern.finditer(text, timeout=timeout)])

    def replaced(self, pattern: Any, content: str, text: str) -> str:
        """Return a text with each match of a pattern replaced by a content; raise as `matches`."""
        return self._in_time(pattern, lambda timeout: str(pattern.sub(content.replace("\\", r"\\"), text, timeout=timeout)))

    def search(self, pattern: Any, text: str, at: int) -> Any:
        """Return the first match from a position, or None; raise as `matches`."""
        return self._in_time(pattern, lambda timeout: pattern.search(text, at, timeout=timeout))

    def _in_time(self, pattern: Any, call: Callable[[float], _Result]) -> _Result:
        allowed, end = self._left, time.thread_time() + self._left
        try:
            while allowed > 0:
                try:
                    return call(allowed)
                except TimeoutError:  # noqa: PERF203
                    # The package counts the time of all threads. The tenth covers the difference between the two clocks.
                    more = end - time.thread_time() > 0.1 * self._seconds
                    allowed = min(4 * allowed, _FOREVER) if more else 0
        finally:
            self._left = end - time.thread_time()
        raise PatternError(
            f"the pattern {shorten(pattern.pattern, 400)} has taken {self._seconds:.3g} s of processor time for a text of "
            f"{self._n_bytes} bytes; expected at most {self._regex_timeout:g} s for one MB of text, {LEAST_SECONDS:g} s for "
            "less: use a pattern with fewer ways to match a text (`(a+)+` has too many), or, if you trust the tokenizer, call "
            "`bpejit.load` with a larger `regex_timeout` (seconds for one MB; None for no limit)"
        )

    def check_growth(self, characters: int) -> None:
        """Raise TokenizerFormatError if a normalizer must not add so many characters to the text."""
        if characters > self._room:
            raise TokenizerFormatError(
                f"the normalizer adds more than {GROWTH * self._n_bytes + MORE_CHARACTERS} characters to a text of "
                f"{self._n_bytes} bytes; expected at most {GROWTH} for each byte, and {MORE_CHARACTERS}: "
                "use a tokenizer whose Replace and Prepend insert less"
            )

    def grow(self, characters: int) -> None:
        """Count characters that a normalizer adds to the text; raise as `check_growth`."""
        self.check_growth(characters)
        self._room -= max(characters, 0)


@contextmanager
def text_limits(n_bytes: int, regex_timeout: float | None) -> Iterator[TextLimits]:
    """Set the limits of this thread for a text; within the limits of a whole text, a part of it has these."""
    outer = getattr(_thread, "limits", None)
    if outer is not None:
        yield outer
        return
    _thread.limits = TextLimits(n_bytes, regex_timeout)
    try:
        yield _thread.limits
    finally:
        _thread.limits = None


def limits_of(text: str) -> TextLimits:
    """Return the limits that `text_limits` has set in this thread, or new ones for a text."""
    return getattr(_thread, "limits", None) or TextLimits(len(text), REGEX_TIMEOUT)
