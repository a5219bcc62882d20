"""Tests of incremental decoding: only complete characters, which join to the decoded text."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from conftest import data_text, small
from helpers.compat import END, small_tokenizer
from helpers.huggingface import added_token
from helpers.symbols import byte_level
from hypothesis import given, strategies as st

import bpejit
from bpejit.formats.huggingface_reading import model_from_json

ids = st.lists(st.one_of(st.integers(0, 255), st.sampled_from(sorted(small_tokenizer().vocab))), max_size=40)
"""Mostly bytes, so that invalid and incomplete characters are likely."""

cuts = st.lists(st.integers(0, 40), max_size=6)


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    return small_tokenizer()


ERRORS = ["replace", "ignore", "backslashreplace", "surrogateescape"]


@given(ids=ids, cuts=cuts, errors=st.sampled_from(ERRORS), skip=st.booleans())
def test_pieces_join_to_decoded_text(
    ids: list[int], cuts: list[int], errors: str, skip: bool, tokenizer: bpejit.Tokenizer
) -> None:
    whole = tokenizer.decode(ids, errors=errors, skip_special_tokens=skip)
    decoder = tokenizer.stream_decoder(errors=errors, skip_special_tokens=skip)
    bounds = [0, *sorted(min(cut, len(ids)) for cut in cuts), len(ids)]
    for _ in "12":  # `finish` resets the decoder
        assert "".join(decoder.feed(ids[a:b]) for a, b in pairwise(bounds)) + decoder.finish() == whole
    assert "".join(tokenizer.decode_stream(iter(ids), errors=errors, skip_special_tokens=skip)) == whole


@given(data=st.binary(max_size=30))
def test_single_bytes(data: bytes, tokenizer: bpejit.Tokenizer) -> None:
    by_byte = [tokenizer.model.ids[bytes([byte])] for byte in data]
    assert "".join(tokenizer.decode_stream(by_byte)) == data.decode("utf-8", "replace")


def test_real_text(tokenizer: bpejit.Tokenizer) -> None:
    text = data_text("cjk.txt")[: small(50_000, 500)].decode("utf-8", "ignore")
    pieces = list(tokenizer.decode_stream(tokenizer.encode(text)))
    assert "".join(pieces) == text
    assert all(pieces)
    assert not any("�" in piece for piece in pieces)


def test_incomplete_characters_are_held_back(tokenizer: bpejit.Tokenizer) -> None:
    decoder = tokenizer.stream_decoder()
    first, *rest = "漢".encode()
    assert decoder.feed(first) == ""
    assert decoder.feed(np.int64(rest[0])) == ""
    assert decoder.feed(np.array(rest[1:])) == "漢"
    assert decoder.finish() == ""
    assert decoder.feed([first, 65]) == "�A"
    assert decoder.feed([first]) == ""
    assert decoder.finish() == "�"
    assert decoder.finish() == ""


def test_incomplete_characters_with_tokens_that_are_normalized() -> None:
    """Their text is not that of the file, which is no reason to decode each token by itself."""
    content = byte_level()
    content["normalizer"] = {"type": "Lowercase"}
    content["added_tokens"] += [{**added_token("<PAD>", normalized=True), "id": len(content["model"]["vocab"])}]
    tokenizer = bpejit.Tokenizer.from_model(model_from_json(content))
    assert tokenizer.model.decoder
    numbers = [tokenizer.token_to_id(bytes([byte])) for byte in "é".encode()]
    numbers.append(tokenizer.token_to_id("<PAD>"))
    assert tokenizer.decode(numbers) == "é<pad>"
    assert list(tokenizer.decode_stream(numbers)) == ["é", "<pad>"]


def test_special_tokens(tokenizer: bpejit.Tokenizer) -> None:
    numbers = tokenizer.encode(f"a{END}b")
    assert "".join(tokenizer.decode_stream(numbers)) == f"a{END}b"
    assert list(tokenizer.decode_stream(numbers, skip_special_tokens=True)) == ["a", "b"]
    assert tokenizer.decode(numbers, skip_special_tokens=True) == "ab"
    assert tokenizer.decode(np.array(numbers, np.uint16), skip_special_tokens=True) == "ab"


def test_strict(tokenizer: bpejit.Tokenizer) -> None:
    decoder = tokenizer.stream_decoder(errors="strict")
    with pytest.raises(UnicodeDecodeError):
        decoder.feed([0xFF])


@pytest.mark.parametrize("skip", [False, True])
def test_unknown_id(skip: bool, tokenizer: bpejit.Tokenizer) -> None:
    with pytest.raises(bpejit.TokenIdError, match="no token with id 1000000"):
        tokenizer.stream_decoder(skip_special_tokens=skip).feed([1_000_000])
