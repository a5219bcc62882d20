"""Random split patterns over random text, compared with the `regex` package."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import regex
from helpers import strategies
from helpers.splitting import all_cuts, split_at_cuts, split_by_regex, split_stream, split_whole

from bpejit.errors import PatternError
from bpejit.splitting import Splitter, compile_pattern
from tests.faults.area import WrongError

TITLE = "random split patterns against the regex package"
CASES = 6000
TIMEOUT = 60.0

IOTA = "\u0345".encode()
"""A mark whose capital is a letter. `regex` 2026.11.19 looks for the start of a match of `[^\\p{L}]|(?i:ab)` with the capitals
of the set as well, so it finds none at this character, but `(?=.)(?:[^\\p{L}]|(?i:ab))` does.
"""


def random_pattern(case: random.Random) -> str:
    """Return a split pattern of the dialect; for some there is no automaton."""

    def part(depth: int) -> str:
        one = case.choice(strategies._SETS)
        if depth == 0:
            return one
        match case.randrange(6):
            case 0:
                return one
            case 1:
                inner = one if case.random() < 0.6 else f"({case.choice(['?:', '?:', '?i:', ''])}{part(depth - 1)})"
                return inner + case.choice(strategies._QUANTIFIERS)
            case 2:
                condition = case.choice(["$", "\\Z", f"(?={one})", f"(?!{one})"])
                return part(depth - 1) + case.choice(["", condition]) + part(depth - 1)
            case 3:
                return f"(?:{part(depth - 1)}|{part(depth - 1)})"
            case 4:
                return part(depth - 1) + case.choice(strategies._SETS)
            case _:
                return case.choice(strategies._SETS) + part(depth - 1)

    ignores_case = case.random() < 1 / 3
    # Alternatives of one character become sets in the `regex` package, which treats classes in them otherwise.
    deepest = case.choice([1, 2, 4]) if ignores_case else 4
    alternatives = "|".join(part(case.randrange(deepest)) for _ in range(case.randint(1, 4)))
    return ("(?i)" if ignores_case else "") + alternatives + case.choice(["", "|[\\s\\S]", "|[\\s\\S]"])


def random_text(case: random.Random) -> bytes:
    """Return text of characters that the sets distinguish, of edge cases, and of invalid UTF-8."""
    pieces: list[bytes] = []
    for _ in range(case.randrange(40)):
        kind = case.random()
        if kind < 0.6:
            pieces.append("".join(case.choices(strategies.PATTERN_ALPHABET, k=case.randint(1, 6))).encode())
        elif kind < 0.9:
            pieces.append(case.choice(strategies.PIECES).encode())
        else:
            pieces.append(case.choice(strategies.INVALID))
    return b"".join(pieces)


def prepare(folder: Path) -> None:
    """Return None: nothing is shared."""


def attempt(shared: Any, case: random.Random, number: int) -> str:
    """Split a few texts by one pattern, whole, in pieces, and at safe cuts."""
    source = random_pattern(case)
    try:
        pattern = compile_pattern(source)
    except PatternError as error:
        if "no split pattern named" in str(error) and re.fullmatch(r"[\w.-]+", source):
            return "refused, as an unknown name"
        try:
            regex.compile(source)
        except regex.error:
            return "refused, as by regex"
        raise WrongError(f"the pattern {source!r} was refused, and the regex package takes it") from None
    splitter = Splitter(pattern)
    for _ in range(4):
        data = random_text(case)
        if "(?i:" in source:
            data = data.replace(IOTA, b".")
        expected = split_by_regex(splitter, data)
        found = {"whole": split_whole(splitter, data)}
        if splitter.automaton is not None:
            width = case.randint(1, 5)
            found["pieces"] = split_stream(splitter, [data[i : i + width] for i in range(0, len(data), width)])
            found["cuts"] = split_at_cuts(splitter, data, all_cuts(splitter, data))
        for way, ends in found.items():
            if ends != expected:
                raise WrongError(
                    f"{source!r} ({pattern.kind}) splits {data!r} {way} at {ends}, the regex package at {expected}"
                )
    return "by the regex package" if splitter.automaton is None else f"by a {pattern.kind} automaton"
