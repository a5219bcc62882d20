"""Restarts, and texts that several threads encode: the ids do not depend on the number of threads."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from conftest import data_text, small
from helpers.encoding import FALLBACK, learned_model, make_model
from helpers.symbols import KINDS, TEXT
from hypothesis import given, strategies as st

import bpejit
from bpejit.encoding import batch_encoding, restarts
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.restarts import find_restart, parts_of
from bpejit.splitting.presets import PRESETS
from bpejit.utf8 import encode_utf8

END = "<|s|>"
PIECES = [
    *(
        "the",
        "ing",
        " ",
        "  ",
        "\n",
        "\r\n",
        "a",
        "1",
        "23",
        "'",
        "'s",
        "'S ",
        "!",
        "é",
        "e\u0301",
        "あ",
        "日本",
        "😀",
        "x y",
        ". ",
    ),
    *(END, "<|", "|s|>", "\ud83d", "\ude00", "▁"),
]

strings = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)
texts = strings | st.binary(max_size=80) | strings.map(lambda text: encode_utf8(text)[1:])


def divide_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide texts of a few characters."""
    monkeypatch.setattr(batch_encoding, "_LEAST_PER_THREAD", 4)
    monkeypatch.setattr(restarts, "_LEAST_PART", 3)
    monkeypatch.setattr(restarts, "_WINDOW", 2)


@pytest.fixture
def divided(monkeypatch):
    divide_short(monkeypatch)


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, bpejit.Tokenizer]:
    merges = list(learned_model(data_text("prose.txt")[: small(100_000, 2_000)], small(500, 40), specials=[END]).merges)
    patterns = {name: name for name in (PRESETS if small(1, 0) else ["gpt2", "cl100k"])} | {"fallback": FALLBACK}
    return {name: bpejit.Tokenizer.from_model(make_model(merges, [END], pattern=one)) for name, one in patterns.items()}


@given(text=texts, n=st.integers(2, 5))
def test_num_threads(text, n, tokenizers):
    with pytest.MonkeyPatch.context() as patch:
        divide_short(patch)
        for tokenizer in tokenizers.values():
            ids = tokenizer.encode_array(text, num_threads=n)
            assert ids.dtype == np.uint32
            assert ids.tolist() == tokenizer.encode(text)
            assert tokenizer.encode_batch([text, "a b", text], num_threads=n).tolist() == [
                tokenizer.encode(one) for one in (text, "a b", text)
            ]


@given(text=texts)
def test_restarts__both_sides_are_encoded_alone(text, tokenizers):
    """The text before a restart is encoded as soon as the bytes after it that count are known."""
    for tokenizer in tokenizers.values():
        encoder: Encoder = tokenizer._codec.encoder
        found = find_restart(encoder.splitter, text, 1, len(text))
        if found >= 0:
            left = encoder.stream().feed(text[: found + restarts.reach_of(encoder.splitter)]).tolist()
            right = tokenizer.encode(text[found:])
            expected = tokenizer.encode(text)
            n_left = len(expected) - len(right)
            assert expected[n_left:] == right
            assert expected[: len(left)] == left
            before = text[:found]
            assert tokenizer.decode_bytes(expected[:n_left]) == (encode_utf8(before) if isinstance(before, str) else before)


@pytest.mark.parametrize("kind", KINDS)
def test_num_threads__kinds(kind, tmp_path, divided):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(KINDS[kind]()), encoding="utf-8")
    tokenizer = bpejit.load(path)
    text = (TEXT + "▁ é\n") * 3
    for one in (text, text.encode()):
        assert tokenizer.encode_array(one, num_threads=3).tolist() == tokenizer.encode(one)


def test_num_threads__special_tokens(tokenizers, divided):
    text = f"a b{END} c d{END}" * 9
    for options in ({"allowed_special": {END}}, {"disallowed_special": ()}):
        expected = tokenizers["gpt2"].encode(text, **options)
        assert tokenizers["gpt2"].encode_array(text, num_threads=3, **options).tolist() == expected
    with pytest.raises(bpejit.SpecialTokenError, match="at character 3"):
        tokenizers["gpt2"].encode_array(text, num_threads=3, disallowed_special="all")


def test_num_threads__missing_bytes(divided):
    """An error in one thread is the error of the call."""
    model = make_model([])
    tokens = {number: token for number, token in model.tokens.items() if token != b"\xff"}
    tokenizer = bpejit.Tokenizer.from_model(bpejit.model.Model(tokens, [], {}, "gpt2"))
    with pytest.raises(bpejit.CorpusError, match="0xff"):
        tokenizer.encode_array(b"a b " * 9 + b"\xff" + b" a b" * 99, num_threads=3)


def test_num_threads__one_cannot_start(tokenizers, divided, monkeypatch):
    """The error is raised when the threads that have started are done."""
    started = []

    def start(function, arguments):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(threading.Thread(target=function, args=arguments))
        started[0].start()

    tokenizer = tokenizers["gpt2"]
    text = "the ing 23 " * 50
    with monkeypatch.context() as patch:
        patch.setattr(restarts, "start_new_thread", start)
        with pytest.raises(RuntimeError, match="start new thread"):
            tokenizer.encode_array(text, num_threads=4)
        started[0].join(10)
        assert not started[0].is_alive()
    assert tokenizer.encode_array(text, num_threads=4).tolist() == tokenizer.encode(text)


def test_parts(tokenizers):
    """Each part is long, but not the whole text."""
    text = "the cat 1, " * 40_000
    parts = list(parts_of(tokenizers["gpt2"]._codec.encoder.splitter, text, 2))
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert parts[-1].stop == len(text)
    assert len(parts) > 1
    assert min(map(len, parts)) >= restarts._LEAST_PART
    assert len(list(parts_of(tokenizers["gpt2"]._codec.encoder.splitter, "a" * 400_000, 2))) == 1


def test_num_threads__many_ids(tokenizers, monkeypatch):
    """More ids than the output array has room for."""
    monkeypatch.setattr(restarts, "empty_output", lambda _: np.empty(100_000, np.uint32))
    text = "é1? " * 700_000
    assert np.array_equal(tokenizers["gpt2"].encode_array(text, num_threads=2), tokenizers["gpt2"].encode_array(text))


@pytest.mark.parametrize("wrong", [0, -1])
def test_num_threads__wrong(wrong, tokenizers):
    with pytest.raises(bpejit.OptionError, match=f"num_threads is {wrong}"):
        tokenizers["gpt2"].encode_array("a", num_threads=wrong)
