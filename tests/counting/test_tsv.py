"""Counts as tab-separated text."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.training import table_of
from hypothesis import given, strategies as st

import bpejit
from bpejit import Counts, CountsError
from bpejit.counting.header import CountSettings, CountsHeader
from bpejit.counting.tsv import escape_word, format_lines, unescape_word

words = st.one_of(st.binary(min_size=1, max_size=12), st.text(alphabet="a\\xé\t\n\r\0\x7f", min_size=1).map(str.encode))


def made(counts: dict[bytes, int]) -> Counts:
    settings = CountSettings("gpt2", "16.0", (), False)
    return Counts(CountsHeader(settings, [], 0, sum(counts.values())), table_of(counts))


@given(words)
def test_any_word_survives(word: bytes) -> None:
    escaped = escape_word(word)
    assert unescape_word(escaped) == word
    escaped.decode("utf-8")
    assert not set(escaped) & {*range(0x20), 0x7F}


@given(st.dictionaries(words, st.integers(1, 2**50), max_size=20))
def test_lines_are_those_of_each_word(counts: dict[bytes, int]) -> None:
    lines = format_lines(table_of(counts))
    assert lines == b"".join(b"%d\t%s\n" % (counts[word], escape_word(word)) for word in sorted(counts))


def test_a_file_returns_the_counts(tmp_path: Path) -> None:
    counts = made({b" the": 5, b"\xff\x00\\": 2, "é\n".encode(): 3, b"a" * 100: 1})
    counts.to_tsv(tmp_path / "words.tsv")
    assert b"5\t the\n" in (tmp_path / "words.tsv").read_bytes()
    assert b"2\t\\xff\\x00\\\\\n" in (tmp_path / "words.tsv").read_bytes()
    again = Counts.from_tsv(tmp_path / "words.tsv", special_tokens=[], unicode="16.0")
    assert again == counts
    assert again.n_bytes == 5 * 4 + 2 * 3 + 3 * 3 + 100
    with pytest.raises(bpejit.OutputError, match="already exists"):
        counts.to_tsv(tmp_path / "words.tsv")


def test_equal_words_are_added_up__in_any_order(tmp_path: Path) -> None:
    (tmp_path / "words.tsv").write_bytes(b"2\tb\n1\ta\n40\tb\n3\t\\x61")
    counts = Counts.from_tsv(tmp_path / "words.tsv", unicode="16.0")
    assert counts.table.to_counts() == {b"a": 4, b"b": 42}
    assert counts.n_pretokens == 46


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"a\tb", "expected a count"),
        (b"0\tb", "expected a count"),
        (b"-1\tb", "expected a count"),
        (b"1 b", "expected a count"),
        (b"1\t", "expected a count"),
        (b"99999999999999999999\tb", "expected a count"),
        (b"1\tb\r", "carriage return"),
        (b"1\tb\tc", "contains a tab"),
        (b"1\tb\\", "backslash at byte 1"),
        (b"1\t\\q", "backslash at byte 0"),
        (b"1\t\\xg0", "backslash"),
        (b"4611686018427387903\tb", "add up"),
    ],
)
def test_broken_lines_are_refused(tmp_path: Path, line: bytes, message: str) -> None:
    (tmp_path / "words.tsv").write_bytes(b"1\tfine\n" + line + b"\n")
    with pytest.raises(CountsError, match=f"line 2: .*{message}"):
        Counts.from_tsv(tmp_path / "words.tsv", unicode="16.0")
