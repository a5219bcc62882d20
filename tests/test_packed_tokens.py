"""Tests of tokens in arrays: they behave like the dictionary of a rank file that is read line by line."""

from __future__ import annotations

import base64
import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from helpers.formats import read_tiktoken
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings
from bpejit.errors import TokenizerFormatError
from bpejit.formats.tiktoken_ranks import _parse_each, parse_ranks
from bpejit.model import Model, in_order
from bpejit.packed_tokens import PackedMerges, PackedTokens

TOKENS = {**{byte: bytes([byte]) for byte in range(256)}, 300: b"ab", 301: b"abc", 1 << 20: "日本語の".encode()}

pytestmark = pytest.mark.compiled  # in plain Python, files are read line by line


def ranks_of(tokens: dict[int, bytes]) -> bytes:
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in tokens.items())


def test_in_order() -> None:
    shuffled = dict(reversed(TOKENS.items()))
    packed = parse_ranks(ranks_of(TOKENS), "ranks")
    assert in_order(packed) == in_order(shuffled) == list(TOKENS.values())


def test_mapping() -> None:
    packed = parse_ranks(ranks_of(TOKENS), "ranks")
    assert isinstance(packed, PackedTokens)
    for key in (0, 97, 300, 1 << 20, np.int64(301)):
        assert packed[key] == TOKENS[key]
        assert key in packed
    for key in (-1, 256, 299, 302, 1 << 21, 1 << 70, "a", None, 1.5):
        assert key not in packed
        assert packed.get(key) is None
    assert "_by_id" not in vars(packed)  # no dictionary was made
    assert len(packed) == len(TOKENS)
    assert packed == TOKENS
    assert packed == _parse_each(ranks_of(TOKENS), "ranks")
    assert list(packed.items()) == list(TOKENS.items())
    assert (list(packed), list(packed.values())) == (list(TOKENS), list(TOKENS.values()))
    assert repr(packed) == repr(TOKENS)
    assert pickle.loads(pickle.dumps(packed)) == copy.deepcopy(packed) == TOKENS
    with pytest.raises(KeyError):
        packed[256]
    with pytest.raises(TypeError, match="read-only"):
        packed[0] = b"x"


def test_models_are_equal() -> None:
    packed = Model(parse_ranks(ranks_of(TOKENS), "ranks"), [], {"<|end|>": 500}, ranked=True)
    plain = Model(TOKENS, [], {"<|end|>": 500}, ranked=True)
    assert packed == plain
    assert packed.sha256 == plain.sha256
    assert packed.vocab_size == plain.vocab_size == (1 << 20) + 1
    assert packed.missing_bytes == plain.missing_bytes == ()
    assert packed.ids == plain.ids
    assert packed.vocab == plain.vocab
    assert pickle.loads(pickle.dumps(packed)) == plain
    assert packed.with_special_tokens(["<|x|>"]) == plain.with_special_tokens(["<|x|>"])


def test_missing_bytes_are_noticed() -> None:
    for missing in (b"a", b"\xc0"):
        tokens = {number: token for number, token in TOKENS.items() if token != missing}
        found = parse_ranks(ranks_of(tokens), "ranks")
        assert isinstance(found, PackedTokens)
        if missing == b"a":
            with pytest.raises(TokenizerFormatError, match=r"lacks 1 of the 256 single bytes \(0x61\)"):
                Model(found, [], ranked=True)
        else:
            assert Model(found, [], ranked=True).missing_bytes == (0xC0,)


def test_repeated_token_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ranks.tiktoken"
    path.write_bytes(ranks_of({**TOKENS, (1 << 20) + 1: b"ab"}))
    with pytest.raises(TokenizerFormatError, match=r"line 260 is broken.*this one is in line 257"):
        read_tiktoken(path, pattern="gpt2")


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), max_size=30, unique=True))
def test_merges(pairs: list[tuple[int, int]]) -> None:
    left, right = np.array(pairs, np.int32).reshape(-1, 2).T
    tokens = [*(bytes([byte]) for byte in range(256)), *(bytes(pair) for pair in pairs)]
    strings = ByteStrings.from_list(tokens)
    packed = PackedMerges(strings, left, right)
    expected = tuple((bytes([a]), bytes([b])) for a, b in pairs)
    assert len(packed) == len(expected)
    assert "pairs" not in vars(packed)
    assert packed == expected
    assert expected == packed
    assert packed == PackedMerges(strings, left, right)
    assert packed != (*expected, (b"a", b"b"))
    assert (tuple(packed), packed[1:], hash(packed), repr(packed)) == (expected, expected[1:], hash(expected), repr(expected))
    assert pickle.loads(pickle.dumps(packed)) == copy.deepcopy(packed) == expected

    model = Model(PackedTokens(strings, np.arange(len(tokens))), PackedMerges(strings, left, right))
    sha256 = model.sha256
    assert "pairs" not in vars(model.merges)
    plain = Model(dict(enumerate(tokens)), expected)
    assert (model, sha256) == (plain, plain.sha256)
    assert plain == model
    assert hash(model) == hash(plain)
    assert pickle.loads(pickle.dumps(model)) == plain
    for token in (*tokens, b"", b"abc"):
        assert model.find(token) == plain.find(token) == plain.ids.get(token)


def test_merges_of_other_tokens_are_checked() -> None:
    strings = ByteStrings.from_list([*(bytes([byte]) for byte in range(256)), b"ab"])
    merges = PackedMerges(strings, np.array([97]), np.array([98]))
    assert Model(dict(enumerate(strings)), merges).merges == ((b"a", b"b"),)
    with pytest.raises(TokenizerFormatError, match="is not in the vocabulary"):
        Model(dict(enumerate(list(strings)[:256])), merges)
