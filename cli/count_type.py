"""The type of all options that take a count or a size, such as `32000`, `32k` or `2Gi`."""

from __future__ import annotations

import re
from typing import Any

import click

from bpejit.errors import shorten

UNITS = {"": 1}
UNITS |= {letter: 1000**power for power, letter in enumerate("kMGT", start=1)}
UNITS |= {f"{letter}i": 1024**power for power, letter in enumerate("KMGT", start=1)}
UNITS["K"] = UNITS["k"]

_LONGEST = 40
"""Longest accepted text. Python itself refuses integers of several thousand digits with a message of its own."""

_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_COUNT = re.compile(rf"(?P<number>-?{_DIGITS}(?:\.{_DIGITS})?)(?P<unit>[kKMGT]?|[KMGT]i)")


class Count(click.ParamType):  # type: ignore[type-arg]
    """A whole number, optionally with underscores and a decimal (`k`, `M`, `G`, `T`) or binary (`Ki`, `Mi`, ...) unit.

    Parameters
    ----------
    least : int, optional
        The smallest number that is accepted.
    is_size : bool
        Accept `B` for bytes after the unit, as in `500MB`.
    """

    name = "count"

    def __init__(self, least: int | None = None, *, is_size: bool = False) -> None:
        self.least = least
        self.is_size = is_size

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or fail with a message that shows the accepted forms."""
        if isinstance(value, int):
            return value
        text = value[:-1] if self.is_size and value.endswith("B") else value
        match = _COUNT.fullmatch(text) if len(text) <= _LONGEST else None
        if match is None:
            examples = "500000, 500_000, 500k or 2Gi" if self.is_size else "32000, 32_000 or 32k"
            self.fail(f"{shorten(value)} is not a {self._noun}; expected one such as {examples}", param, ctx)
        digits, unit = match["number"].replace("_", ""), UNITS[match["unit"]]
        if digits.isdecimal():
            number = int(digits) * unit
        else:
            from fractions import Fraction  # not above: it takes 4 ms, and most numbers are whole

            exact = Fraction(digits) * unit
            if exact.denominator != 1:
                self.fail(
                    f"{shorten(value)} is {float(exact):,}, which is not a whole number; expected a whole one", param, ctx
                )
            number = int(exact)
        if self.least is not None and number < self.least:
            self.fail(f"{shorten(value)} is too small; expected a {self._noun} of at least {self.least}", param, ctx)
        return number

    @property
    def _noun(self) -> str:
        return "size in bytes" if self.is_size else "count"
