"""Classes that ignore case, as alternatives and as parts of sets: equal to the `regex` package for all letters with case."""

from __future__ import annotations

import pytest
from conftest import small
from helpers.splitting import cached_splitter, split_by_regex, split_whole

BLOCKS = (range(small(0x2500, 0x600)), range(0xA600, 0xAC00), range(0xFB00, 0xFB20), range(0x10400, 0x10500))
"""Blocks with letters that have case; with plain Python, fewer."""

EVERY = "".join(f"{chr(point)}1a{chr(point)}" for block in small(BLOCKS, BLOCKS[:1]) for point in block).encode()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"(?i)\p{Lu}|q", "regex"),
        (r"(?i)a|\p{Lu}", "regex"),
        (r"(?i)\p{L}|1", "regex"),
        (r"(?i)\p{M}|1", "regex"),
        (r"(?i)\P{L}b|x", "regex"),  # a match begins with a set of `\P{L}` and `x`
        (r"(?i)ba|\p{Lu}c", "regex"),
        (r"(?i:'s)|\P{L}b", "regex"),  # one of the first characters ignores case
        (r"(?i)x(?:ab|a(?:\p{L}))", "regex"),  # the common beginning is moved out
        (r"(?i)(?:a|\p{L}{1})|bb", "regex"),
        (r"(?i)a(?:b|1)|\x61\p{L}", "regex"),  # a set beside a class, after a common beginning
        (r"(?i)[^\p{L}]|[\p{L}]", "regex"),
        (r"(?i)\p{L}+|1", "transducer"),
        (r"(?i)[\p{Lu}q]+|1+", "transducer"),
        (r"(?i)\d|a", "transducer"),
        (r"(?i)ba|\p{L}", "transducer"),  # `ba` has two characters
        (r"(?i:a)|\p{Lu}|b", "transducer"),
        (r"(?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", "transducer"),
        (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+", "transducer"),
    ],
)
def test_all_letters_are_split_as_by_the_package(pattern, expected):
    splitter = cached_splitter(pattern)
    assert splitter.pattern.kind == expected
    assert split_whole(splitter, EVERY) == split_by_regex(splitter, EVERY)


def test_the_reason_names_the_class_and_the_way_out():
    reason = cached_splitter(r"(?i)ab|q|\p{Lu}").pattern.reason
    assert r"by the class `\p{Lu}`" in reason
    assert "at character 9" in reason
    assert r"(?i:[q\p{Lu}])" in reason
