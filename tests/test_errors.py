"""Tests of shortening the values that messages quote."""

import pytest

from bpejit.errors import shorten


@pytest.mark.parametrize(
    "value",
    ["a" * 1000, "\0" * 81, b"a" * 1000, "'" * 500 + '"', 10**5000, ["a" * 1000] * 1000, {"a" * 900: 1}, tuple(range(10**6))],
    ids=["str", "escapes", "bytes", "quotes", "int", "list", "dict", "tuple"],
)
def test_long_value_is_shortened(value):
    for limit in (20, 80, 200):
        assert 0 < len(shorten(value, limit)) <= max(limit, 30)


@pytest.mark.parametrize("value", ["", "abc", b"abc", 0, -5, None, 1.5, ["a", 1], {"a": 1}, "a" * 78])
def test_short_value_is_shown_as_repr(value):
    assert shorten(value) == repr(value)


def test_both_ends_of_long_text_are_shown():
    assert shorten("begin" + "-" * 1000 + "end", 30) == "'begin------- ... --------end'"
