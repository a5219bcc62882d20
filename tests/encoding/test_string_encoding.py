"""The builtin function that encodes short strings: equal ids, no leaks, and None where another way is needed."""

from __future__ import annotations

import copy
import dataclasses
import gc
import os
import pickle
import signal
import sys
import unicodedata
from functools import partial

import numpy as np
import pytest
import twins
from conftest import data_text, small
from helpers.compat import NAMES, tiktoken_named, tokenizer_named
from helpers.encoding import FALLBACK, learned_model, make_model, merge_lists
from helpers.leaks import growth
from hypothesis import given, settings, strategies as st

import bpejit
from bpejit.compat.tiktoken import Encoding
from bpejit.encoding.codec import Codec
from bpejit.encoding.workspace import SHORT_TEXT_BYTES, Workspace
from bpejit.errors import BpejitError, SpecialTokenError
from bpejit.kernels.encoding import pretoken_cache
from bpejit.model import Model
from bpejit.normalization.json_fields import canonical
from bpejit.normalization.pipeline_config import PipelineConfig
from bpejit.process_memory import DEFAULT_BYTES, process_budget

END = "<|s|>"
PIECES = [
    "the",
    "ing",
    " ",
    "  ",
    "\n",
    "a",
    "ab",
    "1",
    "23",
    "'s",
    "é",
    "日本",
    "😀",
    END,
    "<|",
    "\ud83d",
    "\ude00",
    "x" * 600,
]

strings = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


class Text(str):
    """A string of another type."""

    __slots__ = ()


def made_codec(**options) -> Codec:
    return Codec(learned_model(data_text("prose.txt")[: small(100_000, 2_000)], small(500, 30), specials=[END], **options))


@pytest.fixture(scope="module")
def codec() -> Codec:
    return made_codec()


@pytest.fixture(scope="module")
def builtin(codec):
    """The function itself."""
    if codec.encode_short("the") is None:
        pytest.skip("no builtin functions in this mode")
    return codec.encode_short


def _encoded(codec: Codec, options: tuple, text: str) -> list[int]:
    return codec.encode(text, *options).tolist()


@given(text=strings)
def test_encode_string(text, codec, builtin):
    specials = set(codec.model.special_vocab)
    for function, options, limit in (
        (builtin, (), sys.maxsize),
        (codec.encode_short_ordinary, (None, ()), sys.maxsize),
        (codec._short_encoding(codec.encoder.splitter, 300), (), 300),
    ):
        encode = partial(_encoded, codec, options)
        expected = twins.python_objects.encode_string(text, encode, SHORT_TEXT_BYTES, limit)
        for _ in range(2):
            found = function(text)
            assert found == expected
        if function is builtin:
            _check_array(codec.encode_short_array(text), expected)
    assert specials


def test_function_stops_when_the_cache_may_grow(builtin, monkeypatch):
    monkeypatch.setattr(process_budget, "_limit", process_budget.used + DEFAULT_BYTES)
    codec = made_codec()
    expected = codec.encode_short("the")
    (workspace,) = codec._workspaces
    size = workspace.arrays.slots.size
    workspace.progress[pretoken_cache.CLEARS] += 1
    for function in (codec.encode_short, codec.encode_short_ordinary, codec.encode_short_array):
        assert function("the") is None
    assert codec.encode_list("the") == expected
    assert workspace.arrays.slots.size == 2 * size
    assert codec.encode_short("the") == codec.encode_short_array("the").tolist() == expected


def _check_array(found: np.ndarray | None, expected: list[int] | None) -> None:
    if expected is None:
        assert found is None
        return
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape, found.flags.owndata, found.flags.writeable) == (np.uint32, (len(expected),), True, True)
    assert found.tolist() == expected


@pytest.fixture(scope="module")
def normalizing(codec, builtin) -> Codec:
    """A codec with a normalizer, which does not change ASCII, and without tokens for bytes that are not in UTF-8."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    pipeline = PipelineConfig(canonical({"type": "NFC"}), canonical(byte_level))
    return Codec(dataclasses.replace(codec.model, pipeline=pipeline))


@given(text=strings | st.lists(st.sampled_from(["e", "\u0301", "é", " ", END])).map("".join))
def test_encode_string__a_pipeline(text, codec, normalizing):
    expected = normalizing.encode(text).tolist()
    normalized = unicodedata.normalize("NFC", text)
    if "\ud83d" not in text and "\ude00" not in text:
        assert expected == codec.encode(normalized).tolist()
    found = normalizing.encode_short(text)
    assert found == (expected if text.isascii() and len(text) <= SHORT_TEXT_BYTES else None)
    ordinary = normalizing.encode(text, None, ()).tolist()
    assert normalizing.encode_short_ordinary(text) in (None, ordinary)


def test_encode_string__missing_bytes(builtin):
    tokens = dict(enumerate(bytes([byte]) for byte in range(256) if byte != 0xC0))
    codec = Codec(Model(tokens, [], {END: 255}))
    assert codec.model.missing_bytes == (0xC0,)
    assert codec.encode_short("a b") == codec.encode("a b").tolist() == [97, 32, 98]
    for text in ("é", END, "\u00c0", "x" * 600):
        assert codec.encode_short(text) == codec.encode(text).tolist()


@given(text=strings)
def test_as_tiktoken__special_tokens(text, codec):
    """The usual choices of special tokens, for which short texts take another way, as types that do not take it."""
    encoding = Encoding(codec, "name")
    assert encoding.encode(text, allowed_special="all") == codec.encode(text, {END}).tolist()
    expected = codec.encode(text, None, frozenset()).tolist()
    assert encoding.encode(text, disallowed_special=()) == encoding.encode(text, disallowed_special=[]) == expected
    for allowed in ("all", {END}):
        if END in text:
            with pytest.raises(SpecialTokenError):
                encoding.encode(text, allowed_special=allowed, disallowed_special=[END])
        else:
            assert encoding.encode(text, allowed_special=allowed, disallowed_special=[END]) == expected


@pytest.mark.parametrize("pattern", ["gpt2", FALLBACK])
@settings(max_examples=20)  # each makes a tokenizer
@given(merges=merge_lists(), step=st.sampled_from([1, 2_000]), text=strings)
def test_tokenizer__all_models(pattern, step, merges, text):
    """The ids of any model, of which some are above 262,144, and some patterns have no automaton."""
    tokenizer = bpejit.Tokenizer.from_model(make_model(merges, [END, "ab"], pattern=pattern, step=step))
    assert tokenizer.encode(text) == tokenizer.encode_array(text).tolist()
    ordinary = tokenizer.encode_array(text, disallowed_special=()).tolist()
    assert tokenizer.encode_ordinary(text) == tokenizer.as_tiktoken().encode_ordinary(text) == ordinary
    if END in text or "ab" in text:
        with pytest.raises(SpecialTokenError):
            tokenizer.as_tiktoken().encode(text)
    else:
        assert tokenizer.as_tiktoken().encode(text) == ordinary


@pytest.mark.parametrize("name", NAMES)
def test_as_tiktoken__encode(name):
    ours, theirs = tokenizer_named(name).as_tiktoken(), tiktoken_named(name)
    for line in data_text("prose.txt")[: small(50_000, 500)].decode(errors="ignore").replace("<|", "").splitlines():
        assert ours.encode(line) == theirs.encode(line) == theirs.encode(line, disallowed_special=())
    for special in theirs.special_tokens_set:
        text = f"before {special} after"
        with pytest.raises(ValueError, match="special token"):
            theirs.encode(text)
        with pytest.raises(SpecialTokenError):
            ours.encode(text)
        assert ours.encode(text, disallowed_special=()) == theirs.encode(text, disallowed_special=())


@pytest.mark.parametrize(
    "given_object", [b"the", bytearray(b"the"), None, 5, 2.5, [], "", Text("the"), "é" * 1_000, "x" * 1_025]
)
def test_other_objects(codec, builtin, given_object):
    expected = [] if given_object == "" else None
    assert builtin(given_object) == expected
    before = sys.getrefcount(given_object)
    for _ in range(100):
        assert builtin(given_object) == expected
    assert sys.getrefcount(given_object) == before
    tokenizer = bpejit.Tokenizer.from_model(codec.model)
    if isinstance(given_object, (str, bytes, bytearray)):
        assert tokenizer.encode(given_object) == tokenizer.encode_array(given_object).tolist()
    else:
        with pytest.raises(BpejitError):
            tokenizer.encode(given_object)
    with pytest.raises(TypeError):
        builtin()
    with pytest.raises(TypeError):
        builtin("the", "the")


def test_no_leaks(codec, builtin):
    texts = ["the 1234 words, and é", "no\ud800", "x" * 2_000, b"bytes", "", "日本語の文"]
    for function in (builtin, codec.encode_short_array):
        for text in texts:
            function(text)
        blocks, nones = growth(lambda function=function: [function(text) for text in texts], 4_000)
        assert blocks < 200
        assert nones < 200


def test_without_memory(builtin):
    memory = pytest.importorskip("_testcapi")
    text = "the words, and é"
    expected = builtin(text)
    outcomes = set()
    for count in range(6):
        memory.set_nomemory(count, count + 1)
        try:
            found = builtin(text)
        except MemoryError:
            found = "error"
        finally:
            memory.remove_mem_hooks()
        assert found in (expected, "error")
        outcomes.add(str(found))
    assert len(outcomes) == 2
    assert builtin(text) == expected


def test_a_workspace_in_use(codec, builtin):
    expected = builtin("the words")
    with codec.workspace() as workspace:
        assert builtin("the words") is None
        with codec.workspace() as other:
            assert builtin("the words") is None
        assert other in codec._workspaces
        assert builtin("the words") is None
        assert codec.encode_list("the words") == expected
    assert codec._workspaces[-1] is workspace
    assert builtin("the words") == expected
    codec._workspaces.reverse()  # the other one is used first
    assert builtin("the words") == expected


def test_the_collector_runs_other_code(builtin):
    """Creating a list may run finalizers, which encode other texts, and let other threads do so."""
    texts = ["the words", "other words, and more of them", "1 2 3 4 5 6 7 8 9"]
    expected = [builtin(text) for text in texts]
    inner = []

    def encode_others(phase, info):
        inner.extend(builtin(text) for text in texts)

    threshold = gc.get_threshold()
    gc.callbacks.append(encode_others)
    try:
        gc.set_threshold(1, 1, 1)
        for _ in range(20):
            kept = [[builtin(text), []] for text in texts]
            assert [ids for ids, _ in kept] == expected
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(encode_others)
    assert inner
    assert all(ids is None or ids in expected for ids in inner)
    assert builtin(texts[0]) == expected[0]


def test_a_cache_that_changes():
    codec = made_codec()
    lines = data_text("prose.txt")[:20_000].decode(errors="ignore").splitlines()
    expected = [codec.encode(line).tolist() for line in lines]
    for change in (Workspace.grow_cache, Workspace.shrink_cache, Workspace.grow_cache):
        assert [codec.encode_short(line) or codec.encode_list(line) for line in lines] == expected
        with codec.workspace() as workspace:
            workspace.progress[pretoken_cache.CLEARS] = 1
            change(workspace)
    assert [codec.encode_short(line) or codec.encode_list(line) for line in lines] == expected


def test_copies(codec, builtin):
    tokenizer = bpejit.Tokenizer.from_model(codec.model)
    expected = tokenizer.encode("the words")
    for other in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert other.encode("the words") == expected
    del tokenizer
    gc.collect()
    assert other.encode("the words") == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork(builtin):
    expected = builtin("the words")
    child = os.fork()
    if not child:
        os._exit(0 if builtin("the words") == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_interrupts(codec, builtin):
    tokenizer = bpejit.Tokenizer.from_model(codec.model)
    expected = tokenizer.encode("the words, and more")

    def interrupt(number, frame):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    interrupts = 0
    try:
        while interrupts < 20:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.002)  # once, since a second interrupt would not find this handler
                while True:
                    assert tokenizer.encode("the words, and more") == expected
            except KeyboardInterrupt:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert tokenizer.encode("the words, and more") == expected
