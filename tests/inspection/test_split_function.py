"""`bpejit.split`: the pre-tokens of a text in memory."""

from __future__ import annotations

import pytest
import regex
from conftest import data_text, small
from helpers.strategies import awkward_bytes
from hypothesis import given

import bpejit
from bpejit.splitting import PRESETS


def test_pieces_have_the_type_of_the_text():
    assert bpejit.split("it's 2026") == ["it", "'s", " 2026"]
    assert bpejit.split(b"it's 2026") == [b"it", b"'s", b" 2026"]
    assert bpejit.split(bytearray(b"a b"), pattern=r"\w") == [b"a", b" ", b"b"]
    assert bpejit.split("") == []
    assert bpejit.split("a\ud800 b") == ["a", "\ufffd", " b"]  # as `encode`


@pytest.mark.parametrize("name", ["gpt2", "cl100k"])
def test_pieces_are_those_of_the_regex_package(name):
    text = data_text("prose.txt")[: small(20_000, 1_000)].decode("utf-8", "ignore")
    assert bpejit.split(text, name) == regex.findall(PRESETS[name], text)


@given(data=awkward_bytes())
def test_pieces_are_the_text(data):
    pieces = bpejit.split(data, special_tokens=["<|e|>"])
    assert b"".join(pieces) == data
    assert all(pieces)


def test_special_tokens():
    found = bpejit.split("a<|e|><|x|>é", (PRESETS["gpt2"], r"\w"), special_tokens=["<|e|>"], unicode="16.0")
    assert found == ["a", "<|e|>", "<|", "x", "|>", "é"]


def test_wrong_arguments():
    with pytest.raises(bpejit.ArgumentTypeError, match="text is 5, an int; expected text"):
        bpejit.split(5)
    with pytest.raises(bpejit.ArgumentTypeError, match=r"give \['<e>'\]"):
        bpejit.split("a", special_tokens="<e>")
    with pytest.raises(bpejit.PatternError):
        bpejit.split("a", "[a-z")
