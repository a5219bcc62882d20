"""Streams of pieces: the ids are those of the joined text, and little text is read ahead."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from conftest import data_text, small
from helpers.encoding import FALLBACK, WORDS, learned_model
from helpers.symbols import metaspace
from hypothesis import given, strategies as st

import bpejit
from bpejit.encoding import encode_stream
from bpejit.encoding.encode_stream import READ_AHEAD, join_pieces
from bpejit.formats.huggingface_reading import model_from_json
from bpejit.utf8 import encode_utf8

END = "<|s|>"
PIECES = ["the", "ing ", " ", "  ", "\n", "12", "'", "s", "é", "日本", "😀", END, "<|", "s|>", "\ud83d", "\ude00", "", "x" * 50]

strings = st.sampled_from(PIECES)
mixed = strings | strings.map(lambda text: encode_utf8(text)) | st.sampled_from([b"\xe6", b"\x97\xa5", b""])


@pytest.fixture(scope="module", params=["gpt2", "o200k", WORDS, FALLBACK])
def tokenizer(request) -> bpejit.Tokenizer:
    text = data_text("prose.txt")[: small(50_000, 1_000)]
    return bpejit.Tokenizer.from_model(learned_model(text, small(500, 20), request.param, specials=[END]))


@given(pieces=st.lists(strings, max_size=30), ahead=st.sampled_from([0, 1, 10, READ_AHEAD]))
def test_encode_iterable__is_encode_of_the_joined_text(tokenizer, pieces, ahead):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_stream, "READ_AHEAD", ahead)
        found = list(tokenizer.encode_iterable(pieces))
    assert found == tokenizer.encode("".join(pieces))
    assert all(type(number) is int for number in found)


@given(pieces=st.lists(mixed, max_size=30), ahead=st.sampled_from([0, 1, 10, READ_AHEAD]))
def test_encode_iterable__str_and_bytes(tokenizer, pieces, ahead):
    """The halves of a surrogate pair form a character if they are in adjacent pieces."""
    stream = tokenizer._codec.encoder.stream()
    expected = [number for piece in pieces for number in stream.feed(piece).tolist()] + stream.finish().tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_stream, "READ_AHEAD", ahead)
        assert list(tokenizer.encode_iterable(pieces)) == expected


@given(
    pieces=st.lists(mixed, max_size=30) | st.lists(strings, max_size=30),
    source=st.sampled_from([list, tuple, iter]),
    ahead=st.integers(0, 60),
    most=st.sampled_from([1, 4, 1_024]),
)
def test_join_pieces(pieces, source, ahead, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_stream, "READ_AHEAD", ahead)
        patch.setattr(encode_stream, "_MAX_PIECES", most)
        groups = list(join_pieces(source(pieces), "iterable"))
    room = ahead if source is iter else ahead * encode_stream._LIST_FACTOR
    assert all(len(group) <= max(room, *map(len, pieces), 0) for group in groups)
    for kind in (str, bytes):
        empty = kind()
        assert empty.join(group for group in groups if isinstance(group, kind)) == empty.join(
            piece for piece in pieces if isinstance(piece, kind)
        )
    assert b"".join(encode(group) for group in groups) == b"".join(map(encode, pieces))


def encode(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


@pytest.mark.parametrize("piece", ["word ", "", "a" * READ_AHEAD, "日本"])
def test_read_ahead_is_bounded(piece):
    read: list[str] = []

    def endless() -> Iterator[str]:
        while True:
            read.append(piece)
            yield piece

    for groups, text in enumerate(islice(join_pieces(endless(), "iterable"), 3), start=1):
        assert len(text) <= READ_AHEAD
        assert len(read) <= groups * (READ_AHEAD // (len(piece) + 1) + 1) + 1


def test_encode_iterable__reads_on_demand(tokenizer):
    if tokenizer.pattern == FALLBACK:
        pytest.skip("its text is held in memory")
    unread = ["one two three four\n"] * 10_000

    def lines() -> Iterator[str]:
        while unread:
            yield unread.pop()

    ids = tokenizer.encode_iterable(lines())
    assert len(unread) == 10_000
    first = next(ids)
    assert len(unread) >= 10_000 - READ_AHEAD // 19 - 2
    assert [first, *ids] == tokenizer.encode("one two three four\n" * 10_000)
    assert not unread


class ReadError(Exception):
    """Raised by a source of text."""


def failing(pieces: list) -> Iterator:
    yield from pieces
    raise ReadError


@pytest.mark.parametrize("n_pieces", [0, 1, 3, 5_000])
def test_encode_iterable__ids_before_an_error(tokenizer, n_pieces):
    pieces = ["one two three\n"] * n_pieces
    stream = tokenizer._codec.encoder.stream()
    expected = [number for piece in pieces for number in stream.feed(piece).tolist()]
    wrong = [*pieces, 5]
    for source, error in (
        (failing(pieces), ReadError),
        (iter(wrong), bpejit.ArgumentTypeError),
        (wrong, bpejit.ArgumentTypeError),
        (tuple(wrong), bpejit.ArgumentTypeError),
    ):
        ids = tokenizer.encode_iterable(source)
        found = []
        with pytest.raises(error):
            found.extend(ids)
        assert found == expected
        assert list(ids) == []
    text = "one two three"
    assert tokenizer.encode(text) == list(tokenizer.encode_iterable([text]))


def test_encode_iterable__list_that_grows(tokenizer):
    """Pieces that are appended to a list in time are read, as by an iterator over the list."""
    if tokenizer.pattern == FALLBACK:
        pytest.skip("its text is held in memory")
    pieces = ["one two three\n"] * 5_000
    ids = tokenizer.encode_iterable(pieces)
    found = list(islice(ids, 10))
    pieces.append("four five")
    found.extend(ids)
    assert found == tokenizer.encode("".join(pieces))


def test_encode_iterable__abandoned(tokenizer):
    """The workspace of an iterator returns to the tokenizer when the iterator is freed."""
    idle = tokenizer._codec._workspaces
    before = len(idle)
    ids = tokenizer.encode_iterable(["one two "] * 5_000)
    next(ids, None)
    assert len(idle) == max(before - 1, 0)
    del ids
    assert len(idle) == max(before, 1)


def test_encode_iterable__a_prefix_before_the_first_text_only():
    """Text after a special token gets none, and so it gets none after a cut."""
    content = metaspace()
    content["pre_tokenizer"] = content["decoder"] = {**content["pre_tokenizer"], "prepend_scheme": "first"}
    tokenizer = bpejit.Tokenizer.from_model(model_from_json(content))
    text = "the cat<pad>the cat"
    ids = tokenizer.encode(text)
    assert ids != tokenizer.encode("the cat<pad> the cat")
    pieces = iter(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_stream, "READ_AHEAD", 1)
        assert list(tokenizer.encode_iterable(pieces)) == ids
