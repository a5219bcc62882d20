"""Batches: the ids of each text are those of `encode`, whatever its neighbors are and however the batch is divided."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from conftest import data_text, small
from helpers.encoding import FALLBACK, SMALL, WORDS, learned_model, make_model
from hypothesis import given, strategies as st

import bpejit
from bpejit.arrays import EncodedBatch
from bpejit.encoding import batch_encoding, workspace
from bpejit.encoding.batch_encoding import divide, join_batches
from bpejit.encoding.encoder import Encoder
from bpejit.errors import CorpusError
from bpejit.model import NEVER_IN_UTF8, Model
from bpejit.normalization.json_fields import canonical
from bpejit.normalization.pipeline_config import PipelineConfig
from bpejit.splitting.presets import PRESETS
from bpejit.utf8 import encode_utf8, gather_texts

END = "<|s|>"
PIECES = [
    *("the", "ing", " ", "  ", "\n", "a", "1", "23", "'", "'s", "!", "é", "あ", "日本", "😀"),
    *(END, "<|", "|s|>", "\ud83d", "\ude00"),
    "\x1f",  # the separator between texts
]

strings = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
raw = st.binary(max_size=40) | strings.map(lambda text: encode_utf8(text)[:-1])
batches = st.lists(strings, max_size=12) | st.lists(raw, max_size=12) | st.lists(strings | raw, max_size=12)


@pytest.fixture(scope="module")
def models() -> dict[str, Encoder]:
    """Encoders with the merges of one text, by pattern."""
    learned = learned_model(data_text("prose.txt")[: small(100_000, 2_000)], small(500, 40), specials=[END])
    sources = {name: name for name in (PRESETS if small(1, 0) else ["gpt2", "cl100k"])}
    merges = list(learned.merges)
    return {name: Encoder(make_model(merges, [END], pattern=source)) for name, source in {**sources, "words": WORDS}.items()}


def check(encoder: Encoder, texts: list, options: dict) -> None:
    batch = encoder.encode_batch(texts, encoder.new_workspace(**options) if options else None)
    alone = encoder.new_workspace()
    expected = [encoder.encode(encode_utf8(text) if isinstance(text, str) else text, alone).tolist() for text in texts]
    assert batch.tolist() == expected
    assert [ids.tolist() for ids in batch] == expected
    assert batch.ids.dtype == np.uint32
    assert batch.starts.dtype == np.int64


@given(texts=batches)
def test_encode_batch__is_encode_of_each(texts, models):
    """In a small workspace, texts longer than its buffer are among the others."""
    check(models["gpt2"], texts, SMALL)


@given(texts=st.lists(strings, max_size=12), data=st.data())
def test_encode_batch__every_pattern(texts, models, data):
    check(models[data.draw(st.sampled_from(sorted(models)))], texts, {**SMALL, "text_bytes": 100})


@given(texts=st.lists(strings | raw, max_size=6))
def test_encode_batch__a_pattern_by_regex(texts):
    check(Encoder(make_model([(b"a", b"b")], [END], pattern=FALLBACK)), texts, SMALL)


@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k", "words"])
def test_encode_batch__lengths(models, name):
    """Lengths around those where the splitter changes its method, and a text that is far longer than the buffer."""
    encoder = models[name if name in models else "gpt2"]
    source = data_text("prose.txt").decode(errors="ignore")
    choose = random.Random(1)
    texts = [source[start : start + choose.randint(0, 200)] for start in range(0, small(100_000, 2_000), 60)]
    texts.insert(5, source[: small(100_000, 500)])
    texts += ["", "ends with spaces  ", "begins", "", "123", "456 ", " 7", "it'", "s", "\r", "\n", ""]
    check(encoder, texts, {"cache_bytes": 1 << 16, "cache_limit": 1 << 16})
    check(encoder, [text.encode()[1:-1] for text in texts], {"cache_bytes": 1 << 16, "text_bytes": 300})


def test_encode_batch__more_documents_than_a_call_takes(models, monkeypatch):
    monkeypatch.setattr(batch_encoding, "MAX_DOCUMENTS", 3)
    check(models["gpt2"], ["a", "", "", "", "", "b c", "", "é", "", "d"], {})
    monkeypatch.undo()
    check(models["gpt2"], [""] * (workspace.MAX_DOCUMENTS + 1) + ["a"], {})


@pytest.mark.parametrize("texts", [["\x1f"], ["\x1f" * 10_000], ["a", "b\x1f", "", "\x1f"] * 600, ["a"] * 600 + ["\x1f"]])
def test_encode_batch__texts_with_separators(texts, models):
    """Among them more separators than a call takes documents."""
    check(models["gpt2"], texts, {})
    check(models["gpt2"], [text.encode() for text in texts], {})


def test_encode_batch__a_special_token_with_a_separator():
    encoder = Encoder(make_model([(b"a", b"b")], ["b\x1fa"]))
    texts = ["ab", "ab\x1fab", "b", "a"]
    check(encoder, texts, {})
    ordinary = encoder.splitter_for(frozenset())
    expected = [encoder.encode(text.encode(), splitter=ordinary).tolist() for text in texts]
    assert encoder.encode_batch(texts, splitter=ordinary).tolist() == expected


def test_encode_batch__long_and_short_texts_in_turn(models):
    short, long = ["a b", "", "é"] * 100, ["word " * small(60_000, 3_000)]
    check(models["gpt2"], [*short, *long, *short, *long, *long, "\x1f", *short], {})


@pytest.mark.parametrize("buffer_bytes", [1, 10, 100])
def test_encode_batch__more_bytes_than_a_call_takes(models, buffer_bytes, monkeypatch):
    monkeypatch.setattr(batch_encoding, "BUFFER_BYTES", buffer_bytes)
    texts = ["a", "", "b c" * 10, "", "é" * 30, "d", "x" * 400, "あ"]
    check(models["gpt2"], texts, {**SMALL, "text_bytes": 64})
    check(models["gpt2"], texts, {})


def test_encode_batch__a_few_ids_for_much_text_and_many_for_little(monkeypatch):
    """The output is enlarged between calls and within them."""
    monkeypatch.setattr(batch_encoding, "_FULL_OUTPUT_BYTES", 1)
    encoder = Encoder(make_model([]))
    check(encoder, ["あ" * 20, "é", "", "日本" * 200] * small(50, 3), SMALL)


def test_encode_batch__byte_without_a_token():
    tokens = [bytes([byte]) for byte in range(256) if byte not in NEVER_IN_UTF8]
    encoder = Encoder(Model(dict(enumerate(tokens)), []))
    assert encoder.encode_batch(["ab", "c"]).tolist() == [[97, 98], [99]]
    with pytest.raises(CorpusError, match="0xff"):
        encoder.encode_batch([b"ab", b"c\xff"])
    assert encoder.encode_batch(["ab", "c"]).tolist() == [[97, 98], [99]]


def test_encode__after_a_batch(models):
    """A batch leaves nothing in the workspace that changes a single text."""
    encoder = models["gpt2"]
    alone = encoder.new_workspace()
    expected = encoder.encode(b"one two", alone).tolist()
    encoder.encode_batch(["a b", "c"], alone)
    assert encoder.encode(b"one two", alone).tolist() == expected
    stream = encoder.stream(alone)
    assert [*stream.feed(b"one ").tolist(), *stream.finish().tolist()] == encoder.encode(b"one ").tolist()


@given(st.lists(st.text(max_size=8) | st.none(), max_size=30), st.integers(1, 6), st.integers(1, 40))
def test_divide_and_join(texts, n_threads, least):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_encoding, "_LEAST_PER_THREAD", least)
        slices, used = divide(texts, n_threads, ())
    texts = [text or "" for text in texts]
    parts = [texts[part.start : part.stop] for part in slices]
    assert [text for part in parts for text in part] == texts
    assert 1 <= used <= max(1, min(n_threads, sum(map(len, texts)) // least))
    assert len(parts) >= min(used, len(texts))
    rows = [[[ord(character) for character in text] for text in part] for part in parts]
    encoded = [
        EncodedBatch(
            np.array([number for row in part for number in row], dtype=np.uint32),
            np.cumsum([0, *map(len, part)], dtype=np.int64),
        )
        for part in rows
    ]
    assert join_batches(encoded).tolist() == [row for part in rows for row in part]


@pytest.mark.parametrize("num_threads", [1, 2, 3, 50])
def test_num_threads(num_threads, monkeypatch):
    monkeypatch.setattr(batch_encoding, "_LEAST_PER_THREAD", 100)
    model = learned_model(data_text("prose.txt")[: small(100_000, 2_000)], small(500, 40))
    tokenizer = bpejit.Tokenizer.from_model(model)
    texts = data_text("prose.txt")[: small(50_000, 1_000)].decode(errors="ignore").splitlines()
    expected = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch(texts, num_threads=num_threads).tolist() == expected
    assert tokenizer.encode_batch([text.encode() for text in texts], num_threads=num_threads).tolist() == expected
    assert tokenizer.encode_batch([], num_threads=num_threads).tolist() == []
    assert tokenizer.as_tiktoken().encode_batch(texts, num_threads=num_threads) == expected


@pytest.mark.parametrize("other", ["é", b"\xff", bytearray(b"cd"), memoryview(b"cd"), np.frombuffer(b"cd", np.uint8)])
@pytest.mark.parametrize("place", [0, 3, 4, 9])
def test_encode_batch__one_text_of_another_type(other, place, monkeypatch):
    monkeypatch.setattr(batch_encoding, "_LEAST_PER_THREAD", 1)
    tokenizer = bpejit.Tokenizer.from_model(make_model([(b"a", b"b")]))
    texts = ["ab", "", "abc"] * 4
    texts[place] = other
    expected = [tokenizer.encode(text) for text in texts]
    for num_threads in (1, 3):
        assert tokenizer.encode_batch(texts, num_threads=num_threads).tolist() == expected
    texts[place] = 5
    with pytest.raises(bpejit.ArgumentTypeError, match=rf"texts\[{place}\] is 5"):
        tokenizer.encode_batch(texts)


mixed = st.lists(
    st.text(max_size=8) | st.sampled_from(["", "a" * 70, "\ud83d", "\ude00", "é" * 40, b"\xff", b"ab"]), max_size=20
)


@given(mixed)
def test_join_texts(texts):
    """With halves of a surrogate pair in adjacent texts, and text that is not UTF-8."""
    encoded = [encode_utf8(text) if isinstance(text, str) else text for text in texts]
    data, ends = gather_texts(texts)
    assert data.tobytes() == b"".join(encoded)
    assert ends.tolist() == np.cumsum([0, *map(len, encoded)])[1:].tolist()


class Shrinking(str):
    """A text that removes all others of its list when its length is read."""

    texts: list[str]

    def __len__(self) -> int:
        self.texts.clear()
        return str.__len__(self)


def test_encode_batch__a_list_that_changes():
    tokenizer = bpejit.Tokenizer.from_model(make_model([]))
    texts = ["a", "b", "c", "d"]
    texts[1] = Shrinking("b")
    texts[1].texts = texts  # type: ignore[attr-defined]
    with pytest.raises(bpejit.OptionError, match="instead of 4 were encoded"):
        tokenizer.encode_batch(texts)


def test_num_threads__wrong():
    tokenizer = bpejit.Tokenizer.from_model(make_model([]))
    with pytest.raises(bpejit.OptionError, match="num_threads is 0"):
        tokenizer.encode_batch(["a"], num_threads=0)


@pytest.mark.parametrize("place", [0, 1023, 1024, 2999])
def test_disallowed_special_tokens_of_a_batch(place):
    tokenizer = bpejit.Tokenizer.from_model(make_model([], [END]))
    texts = ["<|", "s|>"] * 1500  # joined, they form the token
    expected = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch(texts, allowed_special=()).tolist() == expected
    texts[place] = "ab" + END
    with pytest.raises(bpejit.SpecialTokenError, match="at character 2"):
        tokenizer.encode_batch(texts, allowed_special=())
    with pytest.raises(bpejit.SpecialTokenError, match="at byte 2"):
        tokenizer.encode_batch([text.encode() for text in texts], allowed_special=())


def test_encode_batch__a_pipeline():
    """Texts that the pipeline changes are among others."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    pipeline = PipelineConfig(canonical({"type": "NFC"}), canonical(byte_level))
    encoder = Encoder(dataclasses.replace(make_model([(b"\xc3", b"\xa9")], [END]), pipeline=pipeline))
    assert encoder.splitter.automaton is not None
    texts = ["e\u0301", "é", "", "ab " + END, "x" * 200, "e\u0301" * 100, "b"]
    check(encoder, texts, SMALL)
    check(encoder, texts, {})
    check(encoder, [], {})
