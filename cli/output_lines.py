"""Lines on the standard streams: the only place that writes text of a command, apart from JSON and from styled text.

Names of files, columns and fields may contain anything, so every line passes through `visible`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable

import click

from bpejit.errors import visible


def write_line(text: str, *, err: bool = False) -> None:
    """Write one line. Characters that control a terminal, and those that the encoding of the stream lacks, are escaped."""
    encoding = (sys.stderr if err else sys.stdout).encoding or "utf-8"
    click.echo(visible(text).encode(encoding, "backslashreplace").decode(encoding), err=err)


def write_message(text: str) -> None:
    """Write one line to standard error."""
    write_line(text, err=True)


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output."""
    for line in lines:
        write_line(line)


def shell_line(words: Iterable[str]) -> str:
    """Return a command for a shell; a word that is not visible as it is becomes `$'...'` with escapes."""
    return " ".join(shlex.quote(word) if visible(word) == word else _escaped_word(word) for word in words)


def _escaped_word(word: str) -> str:
    data = word.encode("utf-8", "surrogateescape")
    return "$'" + "".join(chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\x{byte:02x}" for byte in data) + "'"
