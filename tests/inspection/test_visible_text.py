"""Tests of `bpejit.inspection.visible_text`: nothing harmful is shown, and nothing is lost."""

from __future__ import annotations

import re
import unicodedata
from html import unescape

import pytest
from helpers.strategies import awkward_bytes
from hypothesis import given

from bpejit.inspection.visible_text import html_text, plain_text, visible_pieces

HOSTILE = {
    b"\x1b[31m": "\\u001b[31m",
    b"\x00\x07\x08\x7f": "\\u0000\\u0007\\u0008\\u007f",
    "\u202ereversed\u2066".encode(): "\\u202ereversed\\u2066",
    "\u061c\u200f\u2028\ufeff\u00ad".encode(): "\\u061c\\u200f\\u2028\\ufeff\\u00ad",
    "\u0085\u009b1m\u00a0".encode(): "\\u0085\\u009b1m\\u00a0",
    b"\xe2\x80": "\\xe2\\x80",
    "\u0301e".encode(): "\u25cc\u0301e",
    "\U000e0001".encode(): "\\U000e0001",
    b"</script>": "</script>",
}


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_characters_are_escaped(data):
    assert plain_text(data) == HOSTILE[data]


@given(awkward_bytes())
def test_everything_shown_is_printable(data):
    shown = "".join(text for text, _ in visible_pieces(data))
    assert shown.isprintable()
    assert not any(
        unicodedata.bidirectional(c) in {"RLE", "LRE", "RLO", "LRO", "PDF", "RLI", "LRI", "FSI", "PDI"} for c in shown
    )


@given(awkward_bytes())
def test_plain_text_is_unambiguous(data):
    plain = plain_text(data, "\u2502")
    assert "\u2502" not in plain
    if unicodedata.category((data.decode("utf-8", "surrogateescape") or "a")[0]).startswith("M"):
        plain = plain[1:]
    codes = {"\\\\": "\\", "\\n": "\n", "\\r": "\r", "\\t": "\t"}

    def value(found):
        text = found[0]
        return codes[text] if text in codes else chr(int(f"0x{text[2:]}", 0) + (0xDC00 if text[1] == "x" else 0))

    back = re.sub(r"\\x..|\\u....|\\U........|\\.", value, plain)
    assert back.encode("utf-8", "surrogateescape") == data


@given(awkward_bytes())
def test_html_has_no_markup_of_the_token(data):
    html = html_text(data)
    assert set(re.findall(r"<[^>]*>", html)) <= {"<i>", "</i>"}
    assert unescape(re.sub("</?i>", "", html)) == "".join(text for text, _ in visible_pieces(data))
