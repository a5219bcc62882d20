"""Several streams at once: each has the text of a `StreamDecoder`, up to a stop string."""

from __future__ import annotations

import random

import numpy as np
import pytest
from helpers.compat import END, small_tokenizer
from helpers.random_symbols import random_file, random_text
from helpers.symbols import KINDS, TEXTS
from hypothesis import given, strategies as st

import bpejit
from bpejit.errors import ArgumentTypeError, BpejitError, OptionError, TokenIdError
from bpejit.formats.huggingface_reading import model_from_json

N = 3
ERRORS = ["replace", "ignore", "backslashreplace", "surrogateescape"]


@pytest.fixture(scope="module", params=["small", *KINDS])
def tokenizer(request) -> bpejit.Tokenizer:
    if request.param == "small":
        return small_tokenizer()
    return bpejit.Tokenizer.from_model(model_from_json(KINDS[request.param]()))


def check(tokenizer: bpejit.Tokenizer, rows: list[list[int]], errors: str, skip: bool) -> None:
    """Compare each step with a decoder of each stream, and the whole with `decode`."""
    options = {"errors": errors, "skip_special_tokens": skip}
    streams = tokenizer.decode_streams(len(rows), **options)
    alone = [tokenizer.stream_decoder(**options) for _ in rows]
    pieces = []
    for ids in zip(*rows, strict=True):
        pieces.append(streams.push(ids))
        assert pieces[-1] == [decoder.feed(number) for decoder, number in zip(alone, ids, strict=True)]
    pieces.append([streams.finish(index) for index in range(len(rows))])
    assert ["".join(column) for column in zip(*pieces, strict=True)] == [tokenizer.decode(row, **options) for row in rows]


@given(data=st.data(), errors=st.sampled_from(ERRORS), skip=st.booleans())
def test_push__is_feed_of_each(tokenizer, data, errors, skip):
    """Mostly bytes, where there are any, so that incomplete and invalid characters are likely."""
    known = sorted(tokenizer.vocab)
    short = [number for number in known if len(tokenizer.vocab[number]) == 1]
    size = data.draw(st.integers(0, 12))
    ids = st.lists(st.sampled_from(known) | st.sampled_from(short), min_size=size, max_size=size)
    check(tokenizer, data.draw(st.lists(ids, min_size=1, max_size=N)), errors, skip)


@given(seed=st.integers(0, 1_000_000), errors=st.sampled_from(ERRORS), skip=st.booleans())
def test_push__random_files(seed, errors, skip):
    generator = random.Random(seed)
    try:
        tokenizer = bpejit.Tokenizer.from_model(model_from_json(random_file(generator)))
        rows = [tokenizer.encode(random_text(generator)) for _ in range(N)]
    except BpejitError:  # a file that is refused, or a text without ids
        return
    size = min(map(len, rows))
    check(tokenizer, [row[:size] for row in rows], errors, skip)
    known = sorted(tokenizer.vocab)
    check(tokenizer, [generator.choices(known, k=9) for _ in range(N)], errors, skip)


def shown(steps: list[str], stop: list[str]) -> str:
    """Follow the definition of `stop`: what is shown of a text that arrives in steps."""
    text = ""
    for step in steps:
        text += step
        places = [text.find(one) for one in stop if one in text]
        if places:
            return text[: min(places)]
    return text


@given(
    texts=st.lists(st.lists(st.sampled_from(["a", "ab", "b", "<", "</", "s>", "é", "\n", "\0", "x"]), max_size=9), min_size=1),
    stop=st.lists(st.sampled_from(["ab", "abab", "</s>", "\n\n", "é", "\0", "b<", "bab"]), max_size=3),
)
def test_stop(texts, stop):
    tokenizer = small_tokenizer()
    rows = [tokenizer.encode("x" + "".join(parts)) for parts in texts]
    size = max(map(len, rows))
    streams = tokenizer.decode_streams(len(rows), stop=stop)
    found = [""] * len(rows)
    for step in range(size):
        pushed = streams.push([row[step] if step < len(row) else 97 for row in rows])
        for index, (row, text) in enumerate(zip(rows, pushed, strict=True)):
            found[index] += text
            if step + 1 == len(row):
                found[index] += streams.finish(index)
    for index, row in enumerate(rows):
        decoder = tokenizer.stream_decoder()
        assert found[index] == shown([decoder.feed(number) for number in row], stop)
    assert streams.ended.all()


def test_a_beginning_of_a_stop_string_is_held_back():
    streams = small_tokenizer().decode_streams(2, stop=["STOP", "OO"])
    pushed = [streams.push(np.frombuffer(pair, np.uint8)) for pair in (b"aS", b"ST", b"TO", b"xP", b"Oy", b"Oz")]
    assert pushed == [["a", ""], ["", ""], ["", ""], ["STx", ""], ["", ""], ["", ""]]
    assert streams.ended.all()


def test_ended_streams_ignore_ids_until_reset():
    tokenizer = small_tokenizer()
    streams = tokenizer.decode_streams(2, stop=["b"])
    assert streams.push([97, 97]) == ["a", "a"]
    assert streams.push([98, 97]) == ["", "a"]
    assert streams.ended.tolist() == [True, False]
    assert streams.push([-1, 0xC3]) == ["", ""]
    assert streams.finish(0) == ""
    assert streams.finish(1) == "\ufffd"
    assert streams.push([10**9, -5]) == ["", ""]
    for index in (0, 1):
        streams.reset(index)
    assert not streams.ended.any()
    assert streams.push([97, 0xC3]) == ["a", ""]
    streams.reset(1)
    assert streams.push([97, 97]) == ["a", "a"]


def test_special_tokens():
    tokenizer = small_tokenizer()
    number = tokenizer.token_to_id(END)
    assert tokenizer.decode_streams(1).push([number]) == [END]
    assert tokenizer.decode_streams(1, skip_special_tokens=True).push([number]) == [""]
    assert tokenizer.decode_streams(1, stop=[END]).push([number]) == [""]


def test_errors():
    tokenizer = small_tokenizer()
    streams = tokenizer.decode_streams(2)
    with pytest.raises(OptionError, match="ids has 1 ids; expected 2"):
        streams.push([97])
    for wrong in (-1, 10**6):
        with pytest.raises(TokenIdError, match=rf"there is no token with id {wrong} \(at position 1\)"):
            streams.push([0xC3, wrong])
    assert streams.push([97, 97]) == ["a", "a"]  # nothing was changed
    with pytest.raises(TokenIdError):
        streams.push([97, 1.5])
    for wrong in (None, 97, "a"):
        with pytest.raises(ArgumentTypeError):
            streams.push(wrong)
    for index in (2, -1):
        with pytest.raises(OptionError, match=f"index is {index}; expected"):
            streams.finish(index)
    with pytest.raises(OptionError, match="n is 0; expected"):
        tokenizer.decode_streams(0)
    with pytest.raises(OptionError, match="stop has an empty string"):
        tokenizer.decode_streams(1, stop=[""])
    with pytest.raises(ArgumentTypeError):
        tokenizer.decode_streams(1, stop=[1])
    with pytest.raises(ArgumentTypeError):
        tokenizer.decode_streams(1, stop="</s>")


def test_text_of_all_kinds(tokenizer):
    for text in TEXTS:
        try:
            ids = tokenizer.encode(text)
        except BpejitError:
            continue
        check(tokenizer, [ids, ids[::-1]], "replace", False)
