"""Prepared calls for short texts: the ids are those of the other path, and of the naive implementation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import data_text, small
from helpers.compat import NAMES, tiktoken_named, tokenizer_named
from helpers.encoding import PATTERNS, learned_model, make_model, merge_lists, naive_ids, texts
from hypothesis import given, strategies as st

import bpejit
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.workspace import SHORT_TEXT_BYTES, Workspace
from bpejit.jit import MISMATCH
from bpejit.jit.dispatch import addresses_of
from bpejit.kernels.constants import NEED_SCRATCH
from bpejit.kernels.encoding import pretoken_cache
from bpejit.utf8 import encode_utf8

END = "<|s|>"
PIECES = ["the", "ing", " ", "  ", "\n", "a", "1", "23", "'s", "!", "é", "日本", "😀", END, "<|", "\ud83d", "\ude00", "x" * 70]

strings = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)


@pytest.fixture(scope="module")
def prose() -> bpejit.Tokenizer:
    learned = learned_model(data_text("prose.txt")[: small(200_000, 2_000)], small(1_000, 40), specials=[END])
    return bpejit.Tokenizer.from_model(learned)


def in_another_way(tokenizer: bpejit.Tokenizer, text: str | bytes, **options) -> list[int]:
    """Encode through a stream."""
    encoder = tokenizer._codec.encoder
    stream = encoder.stream(encoder.new_workspace())
    if options:
        stream._splitter = tokenizer._codec.splitter_for(
            [text], options.get("allowed_special"), options.get("disallowed_special")
        )
    return [*stream.feed(text).tolist(), *stream.finish().tolist()]


@pytest.mark.parametrize("pattern", PATTERNS)
@given(merges=merge_lists(), data=texts)
def test_encode_list__naive(pattern, merges, data):
    model = make_model(merges, ["ab", "<|s|>"], pattern=pattern)
    encoder = Encoder(model)
    workspace = encoder.new_workspace(cache_bytes=1 << 16)
    expected = naive_ids(model, data, PATTERNS[pattern])
    for _ in range(2):  # the second time, from the cache
        assert encoder.encode_list(data, workspace, encoder.splitter) == expected
        assert encoder.encode(data, workspace).tolist() == expected


@given(text=strings)
def test_encode__is_that_of_a_stream(text, prose):
    for given_text in (text, encode_utf8(text)):
        expected = in_another_way(prose, given_text)
        ids = prose.encode(given_text)
        assert ids == expected
        assert all(type(number) is int for number in ids)
        assert prose.encode_array(given_text).tolist() == expected
        assert prose.encode(bytearray(encode_utf8(text))) == expected


@given(texts=st.lists(st.tuples(strings, st.sampled_from(["default", "all", "none"])), max_size=5))
def test_encode__sets_of_special_tokens_alternate(texts, prose):
    choices = {"default": {}, "all": {"allowed_special": "all"}, "none": {"disallowed_special": ()}}
    for text, choice in texts:
        assert prose.encode(text, **choices[choice]) == in_another_way(prose, text, **choices[choice])
    for text, _ in texts:
        ordinary = in_another_way(prose, text, disallowed_special=())
        assert prose.encode_ordinary(text) == prose.as_tiktoken().encode_ordinary(text) == ordinary


@pytest.mark.parametrize("extra", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("unit", ["a", "word ", "é", "日", " ", "1"])
def test_encode__lengths_around_the_limit(prose, unit, extra):
    text = (unit * SHORT_TEXT_BYTES)[: SHORT_TEXT_BYTES // len(unit.encode()) * len(unit) + extra]
    assert prose.encode(text) == in_another_way(prose, text)


def test_encode__every_length(prose):
    source = data_text("prose.txt")[: SHORT_TEXT_BYTES + 2]
    for length in range(0, len(source), small(3, 200)):
        assert prose.encode(source[:length]) == in_another_way(prose, source[:length])


def test_encode__after_the_cache_has_changed(prose):
    """A prepared call refers to addresses that change when the cache grows or shrinks."""
    encoder = Encoder(prose.model)
    workspace = encoder.new_workspace(cache_bytes=1 << 16)
    data = b"one two three, and four"
    expected = encoder.encode_list(data, workspace, encoder.splitter)
    for change in (Workspace.grow_cache, Workspace.shrink_cache):
        before = workspace.arrays
        workspace.progress[pretoken_cache.CLEARS] = 1
        change(workspace)
        assert workspace.arrays is not before
        assert workspace.addresses.tolist() == addresses_of(workspace.arrays).tolist()
        assert encoder.encode_list(data, workspace, encoder.splitter) == expected


@pytest.mark.parametrize("status", [NEED_SCRATCH, MISMATCH])
def test_encode__a_prepared_call_that_fails(prose, status):
    encoder = Encoder(prose.model)
    workspace = encoder.new_workspace()
    data = b"one two three"
    encoder.short_call(workspace, encoder.splitter)._run = lambda: status
    assert encoder.short_call(workspace, encoder.splitter).run(data) == -1
    assert encoder.encode_list(data, workspace, encoder.splitter) == in_another_way(prose, data)
    assert encoder.encode(data, workspace).tolist() == in_another_way(prose, data)


def test_threads(prose):
    lines = data_text("prose.txt")[: small(30_000, 500)].decode(errors="ignore").splitlines()
    expected = [in_another_way(prose, line) for line in lines]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: [prose.encode(line) for line in lines], range(small(12, 2))):
            assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_encode__tiktoken(name):
    tokenizer, theirs = tokenizer_named(name), tiktoken_named(name)
    for file in ("prose.txt", "code.txt", "cjk.txt"):
        for line in data_text(file)[: small(100_000, 1_000)].decode(errors="ignore").splitlines(keepends=True):
            assert tokenizer.encode(line) == theirs.encode(line, allowed_special="all")
