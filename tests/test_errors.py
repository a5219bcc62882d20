"""Tests of shortening the values that messages quote."""

import pytest

from bpejit.errors import BpejitWarning, OutputError, shorten, visible


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


def test_characters_that_control_a_terminal_are_escaped():
    for point in range(0x110000):
        text = visible(chr(point))
        assert text == chr(point) or (text.isascii() and text.isprintable()), hex(point)
    assert visible("\x1b[2J\x9b\r\n\u200f\u2066\udcff") == r"\u001b[2J\u009b\r\n\u200f\u2066\xff"


@pytest.mark.parametrize("kind", [OutputError, BpejitWarning])
def test_messages_show_names_with_escapes(kind):
    found = kind("cannot write `a\nb\x1b`: first line\nsecond\x1b line")
    assert str(found) == "cannot write `a\\nb\\u001b`: first line\nsecond\\u001b line"
    assert found.args == ("cannot write `a\nb\x1b`: first line\nsecond\x1b line",)
