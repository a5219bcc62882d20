"""Parse JSON: by orjson where it is installed, otherwise by Python's own module. The records and their values are the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

MOST_LEVELS = 1024
"""Number of levels of arrays and objects that orjson reads."""


def find_parser() -> Callable[[bytes], Any]:
    """Return the function that parses most lines: that of orjson, or `load_value`, which takes some three times as long."""
    try:
        from orjson import loads
    except ImportError:
        return load_value
    return loads


def load_record(line: bytes) -> Any:
    """Return the object that a line consists of; None if it is not valid JSON, or not an object.

    This accepts all that orjson accepts, and what it refuses: halves of surrogate pairs, NaN, and numbers out of range.
    """
    try:
        record = load_value(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def load_value(line: bytes) -> Any:
    """Return the value that a line consists of, by Python's own module.

    Raises
    ------
    ValueError
        If it is not valid JSON, or has more than `MOST_LEVELS` levels.
    """
    if line.count(b"[") + line.count(b"{") > MOST_LEVELS and count_levels(line) > MOST_LEVELS:
        raise ValueError("it has too many levels")
    encoding, decode = _decoder()
    text = line.decode(encoding(line), "surrogatepass")
    try:
        return decode(text)
    except RecursionError:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + 2 * MOST_LEVELS)
        try:
            return decode(text)
        finally:
            sys.setrecursionlimit(limit)


@cache
def _decoder() -> tuple[Callable[[bytes], str], Callable[[str], Any]]:
    import json

    return json.detect_encoding, json.JSONDecoder(parse_int=_whole_number).decode


def _whole_number(digits: str) -> int | float:
    """Return a number as orjson does: as a float if it has more than 64 bits. Python refuses numbers with 4,301 digits."""
    if len(digits) > 20:
        return float(digits)
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 64 else float(digits)


def count_levels(line: bytes) -> int:
    """Return how deep the brackets outside of strings are nested.

    Examples
    --------
    >>> count_levels(b'{"[[": [1, [2]]}')
    3
    """
    import re

    level = most = 0
    for found in re.finditer(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', line, re.DOTALL):
        if found[0] in b"[{":
            level += 1
            most = max(most, level)
        elif found[0] in b"]}":
            level -= 1
    return most
