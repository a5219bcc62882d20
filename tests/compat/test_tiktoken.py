"""Comparison of `as_tiktoken` with tiktoken: every method, on published vocabularies and a small one."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import data_text, read_shared, small
from helpers.cli import ENVIRONMENT
from helpers.compat import CHAT, END, NAMES, texts, tiktoken_named, tokenizer_named
from hypothesis import given, strategies as st

import bpejit
from bpejit.compat.tiktoken import Encoding

choices = st.one_of(st.just("all"), st.frozensets(st.sampled_from([*CHAT, "<|endofprompt|>", "x"])))

KINDS = (KeyError, OverflowError, TypeError, UnicodeDecodeError, UnicodeEncodeError, ValueError)
"""Subclasses before their bases: a UnicodeDecodeError is a ValueError."""


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the type of the error that it raises."""
    try:
        return call()
    except KINDS as error:
        return next(kind for kind in KINDS if isinstance(error, kind))


@pytest.fixture(scope="module", params=NAMES)
def both(request: pytest.FixtureRequest) -> tuple[Encoding, Any]:
    theirs = tiktoken_named(request.param)
    return tokenizer_named(request.param).as_tiktoken(request.param), theirs


@pytest.fixture(scope="module")
def ours() -> Encoding:
    return tokenizer_named("small").as_tiktoken()


@given(text=texts, allowed=choices, disallowed=choices)
def test_encode(text: str, allowed: Any, disallowed: Any, both: tuple[Encoding, Any]) -> None:
    ours, theirs = both
    options = {"allowed_special": allowed, "disallowed_special": disallowed}
    expected = outcome(lambda: theirs.encode(text, **options))
    assert outcome(lambda: ours.encode(text, **options)) == expected
    assert outcome(lambda: ours.encode_batch([text, ""], **options)) == (
        [expected, []] if isinstance(expected, list) else expected
    )
    array = outcome(lambda: ours.encode_to_numpy(text, **options))
    if isinstance(expected, list):
        assert array.tolist() == expected
        assert array.dtype == np.uint32
    else:
        assert array is expected
    assert outcome(lambda: ours.encode(text)) == outcome(lambda: theirs.encode(text))
    assert outcome(lambda: ours.encode(text, allowed_special=allowed)) == outcome(
        lambda: theirs.encode(text, allowed_special=allowed)
    )
    assert ours.encode_ordinary(text) == theirs.encode_ordinary(text)
    assert ours.encode_ordinary_batch([text]) == theirs.encode_ordinary_batch([text])


@pytest.mark.parametrize("name", ["prose.txt", "cjk.txt", "code.txt"])
def test_real_text(name: str, both: tuple[Encoding, Any]) -> None:
    ours, theirs = both
    text = data_text(name)[: small(300_000, 1_000)].decode("utf-8", "ignore")
    ids = theirs.encode(text, allowed_special="all")
    assert ours.encode(text, allowed_special="all") == ids
    assert ours.encode_to_numpy(text, allowed_special="all").tolist() == ids
    assert ours.decode(ids) == text
    assert ours.decode_with_offsets(ids) == theirs.decode_with_offsets(ids)
    assert ours.decode_tokens_bytes(ids) == theirs.decode_tokens_bytes(ids)
    lines = text.splitlines(keepends=True)[:200]
    assert ours.encode_batch(lines, allowed_special="all") == theirs.encode_batch(lines, allowed_special="all")


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.parametrize("corpus", ["english", "code", "multilingual", "hard"])
def test_corpora(corpus: str, both: tuple[Encoding, Any]) -> None:
    ours, theirs = both
    text = read_shared(f"corpora/{corpus}.txt").decode("utf-8", "ignore")
    for start in range(0, len(text), 1 << 20):
        part = text[start : start + (1 << 20)]
        assert ours.encode_ordinary(part) == theirs.encode_ordinary(part)
        assert ours.encode(part, allowed_special="all") == theirs.encode(part, allowed_special="all")


@given(ids=st.lists(st.integers(0, 260), max_size=30), errors=st.sampled_from(["replace", "ignore", "strict"]))
def test_decode(ids: list[int], errors: str, both: tuple[Encoding, Any]) -> None:
    ours, theirs = both
    assert ours.decode_bytes(ids) == theirs.decode_bytes(ids)
    assert outcome(lambda: ours.decode(ids, errors)) == outcome(lambda: theirs.decode(ids, errors))
    assert outcome(lambda: ours.decode(ids, errors=errors)) == outcome(lambda: theirs.decode(ids, errors=errors))
    assert outcome(lambda: ours.decode_with_offsets(ids)) == outcome(lambda: theirs.decode_with_offsets(ids))
    assert ours.decode_batch([ids, []]) == theirs.decode_batch([ids, []])
    assert ours.decode_bytes_batch([ids, []]) == theirs.decode_bytes_batch([ids, []])
    assert ours.decode_tokens_bytes(ids) == theirs.decode_tokens_bytes(ids)


ODD_IDS = [[-1], [2**31], [2**32 - 1], [2**32], [2**70], [0, 2**31, -1], [1.5], ["a"], [None], [True], [np.uint32(65)], []]


@pytest.mark.parametrize("ids", ODD_IDS, ids=map(repr, ODD_IDS))
def test_decode__odd_ids(ids: list[Any], both: tuple[Encoding, Any]) -> None:
    ours, theirs = both
    for method in ("decode", "decode_bytes", "decode_tokens_bytes", "decode_with_offsets"):
        expected = outcome(lambda method=method: getattr(theirs, method)(ids))
        assert outcome(lambda method=method: getattr(ours, method)(ids)) == expected, method
    for method in ("decode_batch", "decode_bytes_batch"):
        expected = outcome(lambda method=method: getattr(theirs, method)([[65], ids]))
        assert outcome(lambda method=method: getattr(ours, method)([[65], ids])) == expected, method
    for number in ids:
        expected = outcome(lambda number=number: theirs.decode_single_token_bytes(number))
        assert outcome(lambda number=number: ours.decode_single_token_bytes(number)) == expected


def test_decode__arrays_and_tuples(both: tuple[Encoding, Any]) -> None:
    ours, theirs = both
    for ids in ((65, 66), np.array([65, 66]), np.array([65, 66], np.uint16), range(65, 67)):
        assert ours.decode(ids) == theirs.decode(ids)


@pytest.mark.parametrize(
    "token", ["a", " the", END, "<|im_end|>", "é", b"\xff", b"a", "not a token", b"", "", END.encode(), "\ud800"]
)
def test_encode_single_token(token: str | bytes, both: tuple[Encoding, Any]) -> None:
    ours, theirs = both
    assert outcome(lambda: ours.encode_single_token(token)) == outcome(lambda: theirs.encode_single_token(token))


def test_properties(both: tuple[Encoding, Any]) -> None:
    ours, theirs = both
    for name in ("name", "eot_token", "n_vocab", "max_token_value", "special_tokens_set"):
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in ("_pat_str", "_mergeable_ranks", "_special_tokens", "_special_token_values"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert repr(ours) == repr(theirs)
    assert ours.token_byte_values() == theirs.token_byte_values()
    for number in (0, 65, ours.eot_token, ours.max_token_value, 10**9, -1):
        assert ours.is_special_token(number) == theirs.is_special_token(number)


def test_missing_end_of_text() -> None:
    with pytest.raises(KeyError):
        bpejit.Tokenizer({byte: bytes([byte]) for byte in range(256)}, []).as_tiktoken().eot_token  # noqa: B018


def test_sequence_of_patterns() -> None:
    tokenizer = bpejit.Tokenizer({byte: bytes([byte]) for byte in range(256)}, [], pattern=(r"\d", r"\w+"))
    with pytest.raises(bpejit.UnsupportedError, match="splits by 2 patterns in sequence"):
        tokenizer.as_tiktoken()._pat_str  # noqa: B018


def test_every_public_method_has_tiktokens_signature() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    missing = {name for name in vars(tiktoken.Encoding) if not name.startswith("_")} - set(dir(Encoding))
    assert missing == {"encode_with_unstable"}
    for name, theirs in vars(tiktoken.Encoding).items():
        if name.startswith("_") or name in missing or not callable(theirs):
            continue
        expected, found = (inspect.signature(method).parameters for method in (theirs, getattr(Encoding, name)))
        assert [(p.name, p.kind) for p in found.values()] == [(p.name, p.kind) for p in expected.values()], name
        for parameter in found.values():
            # An empty frozenset is equivalent to an empty set.
            assert parameter.default == expected[parameter.name].default, (name, parameter.name)


def test_copy_and_pickle(ours: Encoding) -> None:
    text = f"some text{END}"
    for other in (pickle.loads(pickle.dumps(ours)), copy.copy(ours), copy.deepcopy(ours)):
        assert other.name == ours.name
        assert other.encode(text, allowed_special="all") == ours.encode(text, allowed_special="all")


def test_errors_are_subclasses_of_bpejit_error(ours: Encoding) -> None:
    with pytest.raises(bpejit.SpecialTokenError, match="endoftext"):
        ours.encode(END)
    with pytest.raises(bpejit.TokenIdError, match=r"no token with id 2000000 \(at position 1\); expected ids from") as caught:
        ours.decode([0, 2_000_000])
    assert isinstance(caught.value, KeyError)
    assert not str(caught.value).startswith(('"', "'"))


def test_tiktoken_is_not_imported() -> None:
    code = """
import sys, bpejit
encoding = bpejit.Tokenizer({byte: bytes([byte]) for byte in range(256)}, [], ["<s>"]).as_tiktoken("name")
assert encoding.decode(encoding.encode("a<s>", allowed_special="all")) == "a<s>"
assert "tiktoken" not in sys.modules and "_tiktoken" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT, timeout=600)
