r"""Counts as tab-separated text, for those who count elsewhere: a line `count<TAB>word` for each distinct pre-token.

Words are UTF-8. In a word, `\\` is a backslash, `\t`, `\n` and `\r` are these characters, and `\xNN` is the byte NN; other
control characters, and bytes that are not UTF-8, are written as `\xNN`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

import numpy as np

from bpejit.arrays import ByteStrings, PretokenTable
from bpejit.counting.header import MOST_COUNTED
from bpejit.errors import CountsError, shorten
from bpejit.kernels.constants import MAX_TEXT_BYTES
from bpejit.utf8 import is_utf8

LINES = 1 << 14
"""Lines that are added to the table at a time."""

_ESCAPED = re.compile(rb"[\x00-\x1f\x7f\\]")

_SHORT = {b"\\": b"\\\\", b"\t": b"\\t", b"\n": b"\\n", b"\r": b"\\r"}

_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|([\\tnr])|)", re.DOTALL)

_MEANING = {b"\\": b"\\", b"t": b"\t", b"n": b"\n", b"r": b"\r"}


def format_lines(table: PretokenTable) -> bytes:
    """Return the lines of a table."""
    words = list(ByteStrings(table.pool, table.starts))
    joined = b"\n".join(words)
    if not is_utf8(joined) or joined.count(b"\n") != len(words) - 1 or _ESCAPED.search(joined.replace(b"\n", b"")):
        words = [escape_word(word) for word in words]
    return b"".join(b"%d\t%s\n" % pair for pair in zip(table.counts.tolist(), words, strict=True))


def escape_word(word: bytes) -> bytes:
    """Return a word as it is written in a line."""
    escaped = _ESCAPED.sub(lambda found: _SHORT.get(found[0]) or b"\\x%02x" % found[0][0], word)
    return escaped.decode("utf-8", "backslashreplace").encode("utf-8")


def unescape_word(escaped: bytes) -> bytes:
    """Return the word of a line.

    Raises
    ------
    ValueError
        If a backslash does not start an escape sequence.
    """

    def meaning(found: re.Match[bytes]) -> bytes:
        if found[1]:
            return bytes([int(found[1], 16)])
        if not found[2]:
            raise ValueError(found.start())
        return _MEANING[found[2]]

    return _ESCAPE.sub(meaning, escaped) if b"\\" in escaped else escaped


def read_lines(file: BinaryIO, name: str) -> Iterator[PretokenTable]:
    """Yield the lines of a file as tables, in their order. A word may occur several times.

    Raises
    ------
    CountsError
        If a line is not `count<TAB>word`, or the sum of all counts is too large.
    """
    number = 0
    total = 0
    while lines := list(islice(file, LINES)):
        words, counts = [], []
        for line in lines:
            number += 1
            word, count = _parse(line, name, number)
            words.append(word)
            counts.append(count)
            total += count
        if total >= MOST_COUNTED:
            raise CountsError(
                f"`{name}`, line {number}: the counts so far add up to {total:.3g}; expected less than 2^62: divide them by "
                "a common factor"
            )
        strings = ByteStrings.from_list(words)
        yield PretokenTable(strings.pool, strings.starts, np.array(counts, np.int64))


def _parse(line: bytes, name: str, number: int) -> tuple[bytes, int]:
    digits, tab, rest = line.removesuffix(b"\n").partition(b"\t")
    if not (digits.isdigit() and tab and rest) or len(digits) > 19 or not 1 <= (count := int(digits)) < MOST_COUNTED:
        raise CountsError(
            f"`{name}`, line {number}: found {shorten(line)}; expected a count from 1 to 2^62 - 1, a tab and a word: correct "
            "this line"
        )
    if rest.endswith(b"\r") or b"\t" in rest or len(rest) > MAX_TEXT_BYTES:
        raise CountsError(
            f"`{name}`, line {number}: the word {shorten(rest)} contains a tab or ends with a carriage return; expected `\\t` "
            "or `\\r` in their place: escape them, or convert the line ends of the file"
        )
    try:
        return unescape_word(rest), count
    except ValueError as cause:
        raise CountsError(
            f"`{name}`, line {number}: the word {shorten(rest)} has a backslash at byte {cause} without a meaning; expected "
            "`\\\\`, `\\t`, `\\n`, `\\r` or `\\xNN`: escape it"
        ) from cause
