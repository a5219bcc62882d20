"""The boundaries of chunks of CS336, compared with their definition."""

from __future__ import annotations

import io

import pytest
from conftest import data_text
from hypothesis import given, strategies as st
from twins import chunk_boundaries as twin

import bpejit

END = b"<|endoftext|>"


def boundaries(text: bytes, n_chunks: int, token: bytes = END) -> list[int]:
    return bpejit.find_chunk_boundaries(io.BytesIO(text), n_chunks, token)


@pytest.mark.parametrize(
    ("text", "n_chunks", "expected"),
    [
        (b"", 1, [0]),
        (b"", 4, [0]),
        (b"no token", 1, [0, 8]),
        (b"no token", 4, [0, 8]),
        (b"ab<|endoftext|>cd", 1, [0, 17]),
        (b"ab<|endoftext|>cd", 2, [0, 17]),  # the search begins at 8, within the token
        (b"ab<|endoftext|>cd", 17, [0, 2, 17]),
        (b"ab<|endoftext|>cd", 100, [0, 2, 17]),  # chunks of no bytes: all searches begin at 0
        (b"<|endoftext|>" * 4, 4, [0, 13, 26, 39, 52]),
        (b"<|endoftext|>" * 4, 2, [0, 26, 52]),
        (b"x" * 100 + b"<|endoftext|>", 3, [0, 100, 113]),
    ],
)
def test_boundaries_of_small_texts(text: bytes, n_chunks: int, expected: list[int]) -> None:
    assert boundaries(text, n_chunks) == expected


def test_token_across_two_blocks_is_passed_over() -> None:
    inside = b"x" * 9000 + b"y" * 4083 + END + b"y" * 4904
    across = b"x" * 9000 + b"y" * 4084 + END + b"y" * 4903
    assert len(inside) == len(across) == 18_000
    assert boundaries(inside, 2) == [0, 9000 + 4083, 18_000]
    assert boundaries(across, 2) == [0, 18_000]


@given(
    st.lists(st.sampled_from([b"a", b"bc" * 100, END, END[:5], b"x" * 1200, b"y" * 4096]), max_size=40).map(b"".join),
    st.integers(1, 30),
    st.sampled_from([END, b"a", b"x", b"never", b""]),
)
def test_boundaries_are_those_of_the_definition(text: bytes, n_chunks: int, token: bytes) -> None:
    assert boundaries(text, n_chunks, token) == twin.find_chunk_boundaries(text, n_chunks, token)


@pytest.mark.parametrize("name", ["prose.txt", "code.txt", "cjk.txt"])
def test_boundaries_of_real_text(name: str) -> None:
    text = data_text(name)[:300_000]
    for n_chunks in (1, 2, 3, 7, 64, 1000):
        found = boundaries(text, n_chunks)
        assert found == twin.find_chunk_boundaries(text, n_chunks, END)
        assert all(text[position:].startswith(END) for position in found[1:-1])


def test_wrong_arguments_are_explained() -> None:
    with pytest.raises(bpejit.OptionError, match="desired_num_chunks is 0; expected a whole number from 1 up"):
        boundaries(b"text", 0)
    with pytest.raises(bpejit.ArgumentTypeError, match="split_special_token is '<e>', a str; expected bytes"):
        boundaries(b"text", 2, "<e>")  # type: ignore[arg-type]
