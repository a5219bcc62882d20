"""Comparison with the `regex` package on real text: whole, in pieces, and divided at safe cuts."""

from __future__ import annotations

import random

import numpy as np
import pytest
from conftest import PARITY, data_text, read_shared, small
from helpers.splitting import cached_splitter, split_at_cuts, split_by_regex, split_stream, split_whole

from bpejit.arrays import padded_text
from bpejit.splitting import PRESETS, Splitter, compile_pattern

SPECIAL_TOKENS = (b"<|endoftext|>",)

DISTINCT = [name for name in PRESETS if compile_pattern(name).name == name]
"""Presets without aliases of the same pattern."""

LONG = ("gpt2", "cl100k", "o200k", "deepseek-v3")
"""One preset of each family: these split more text than the others, to limit the time."""


def sparse_cuts(splitter: Splitter, data: bytes, distance: int) -> list[int]:
    """Return safe cuts that are about `distance` bytes apart."""
    text, n = padded_text(data)
    cuts: list[int] = []
    wished = distance
    while wished < n:
        cut = splitter.find_cut(text, wished, n, n)
        if cut < 0:
            break
        cuts.append(cut)
        wished = cut + distance
    return cuts


def random_pieces(data: bytes, longest: int) -> list[bytes]:
    choose = random.Random(len(data))
    pieces = []
    while data:
        size = choose.randint(0, longest)
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def check(pattern: str, data: bytes, distance: int = 4096) -> None:
    splitter = cached_splitter(pattern, SPECIAL_TOKENS)
    expected = np.array(split_by_regex(splitter, data), dtype=np.uint32)
    ways = {
        "whole": split_whole(splitter, data),
        "cut": split_at_cuts(splitter, data, sparse_cuts(splitter, data, distance)),
        "stream": split_stream(splitter, random_pieces(data[: 64 * distance], distance), n_ends=128),
    }
    for way, ends in ways.items():
        got = np.array(ends, dtype=np.uint32)
        if way == "stream" and len(data) > 64 * distance:
            # The streamed prefix may end within a span: compare all but its last span.
            got = got[: max(got.size - 3, 0)]
            assert np.array_equal(got, expected[: got.size]), (pattern, way)
        else:
            assert np.array_equal(got, expected), (pattern, way, int(np.argmax(got[: expected.size] != expected[: got.size])))


@pytest.mark.parametrize("pattern", DISTINCT)
@pytest.mark.parametrize(
    "name", ["prose.txt", *(pytest.param(name, marks=pytest.mark.slow) for name in ("code.txt", "cjk.txt"))]
)
def test_repository_texts(pattern: str, name: str) -> None:
    n_bytes = 400_000 if pattern in LONG else 150_000
    check(pattern, data_text(name)[: small(n_bytes, 5_000)], distance=small(4096, 300))


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("pattern", DISTINCT)
@pytest.mark.parametrize(
    ("name", "n_bytes"),
    [
        ("corpora/hard.txt", 3_000_000),
        ("corpora/hard_bytes.bin", 2_000_000),
        ("corpora/multilingual.txt", 1_500_000),
        ("corpora/english.txt", 1_000_000),
        ("corpora/code.txt", 1_000_000),
        ("tinystories/tinystories_head_2M.txt", 500_000),
    ],
)
def test_corpora(pattern: str, name: str, n_bytes: int) -> None:
    size = n_bytes if pattern in LONG else n_bytes // 4
    check(pattern, read_shared(name)[: size if PARITY else size // 8], distance=20_000)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("pattern", DISTINCT)
def test_long_runs(pattern: str) -> None:
    # One pre-token, or one kind of character, of 300 KB.
    unit = 300_000 if pattern in LONG else 100_000
    for data in (
        b"a" * unit,
        b" " * unit,
        b"\n" * unit,
        b"7" * unit,
        b"!" * unit,
        b"\xff" * unit,
        "中".encode() * unit,
        b" \n" * unit,
    ):
        check(pattern, data[:unit] + b"x", distance=30_000)


@pytest.mark.slow
def test_many_special_tokens() -> None:
    tokens = tuple(f"<|reserved_special_token_{i}|>".encode() for i in range(small(3000, 50)))
    tokens = (*tokens, *(b" " * n for n in range(2, 25)), "…".encode(), b"\t\t")
    splitter = Splitter("llama3", tokens)
    data = b"    x<|reserved_special_token_12|><|reserved_special_token_1|\t\t\t<|reserved_special_token_7|> y" * small(20, 5)
    assert split_whole(splitter, data) == split_by_regex(splitter, data)
    code = data_text("code.txt")[: small(5_000, 2_000)]
    assert split_whole(splitter, code) == split_by_regex(splitter, code)
