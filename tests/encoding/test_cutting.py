"""Counting and cutting: what `count`, `fits`, `truncate` and `chunk` return, compared with whole encodings."""

from __future__ import annotations

import random
import tracemalloc
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from conftest import data_text, examples, small
from helpers.encoding import FALLBACK, WORDS, learned_model, make_model
from helpers.random_symbols import random_file, random_text
from helpers.strategies import PIECES
from helpers.symbols import KINDS
from hypothesis import example, given, strategies as st

import bpejit
from bpejit.arrays import padded_text, starts_of
from bpejit.encoding import cutting
from bpejit.encoding.codec import Codec
from bpejit.encoding.cutting import UNITS, Truncated
from bpejit.errors import ArgumentTypeError, CorpusError, OptionError, SpecialTokenError, TokenizerFormatError
from bpejit.formats.huggingface_reading import model_from_json
from bpejit.splitting.presets import PRESETS
from bpejit.utf8 import encode_utf8, widths

END = "<|s|>"
texts = st.lists(st.sampled_from([*PIECES, END, "<|s", "the", "ing ", "\ud83d", "\ude00"]), max_size=small(12, 6)).map("".join)
raw = st.lists(st.sampled_from([b"a", b"the ", b"\xe6", b"\x97\xa5", "é".encode(), "😀".encode()[:3], b"\xff"]), max_size=8)


@pytest.fixture(autouse=True)
def _short_steps(monkeypatch):
    """Read a few characters at a time."""
    monkeypatch.setattr(cutting, "_LEAST_STEP", 3)
    monkeypatch.setattr(cutting, "_PER_TOKEN", 1)


@pytest.fixture(scope="module", params=[*(PRESETS if small(1, 0) else ["gpt2"]), WORDS, FALLBACK])
def tokenizer(request) -> bpejit.Tokenizer:
    text = data_text("prose.txt")[: small(50_000, 1_000)]
    model = learned_model(text, small(500, 20), "gpt2", specials=[END, " <|"])
    return bpejit.Tokenizer.from_model(model.__class__(model.tokens, model.merges, model.special_tokens, request.param))


def plainly_truncated(tokenizer: bpejit.Tokenizer, text: Any, n: int, side: str, **special: Any) -> Truncated:
    """Follow the definition of `truncate` step by step, from the encoding of the whole text."""
    ids = tokenizer.encode(text, **special)
    if len(ids) <= n:
        return Truncated(ids, text, False)
    parts = [tokenizer.id_to_token(number) for number in ids]
    characters = set(starts_of(widths(b"".join(parts).decode("utf-8", "surrogateescape"))).tolist())
    for size in range(n, -1, -1):
        part = ids[:size] if side == "right" else ids[len(ids) - size :]
        if len(b"".join(parts[: size if side == "right" else len(ids) - size])) in characters:
            cut = tokenizer.decode(part) if isinstance(text, str) else tokenizer.decode_bytes(part)
            if len(tokenizer.encode(cut, **special)) <= n:
                return Truncated(part, cut, True)
    raise AssertionError


def check(tokenizer: bpejit.Tokenizer, text: Any, **special: Any) -> None:
    n_ids = len(tokenizer.encode(text, **special))
    assert tokenizer.count(text, **special) == n_ids
    for n in range(n_ids + 2):
        assert tokenizer.fits(text, n, **special) is (n_ids <= n)
        for side in ("right", "left"):
            found = tokenizer.truncate(text, n, side=side, **special)
            assert found == plainly_truncated(tokenizer, text, n, side, **special)
            assert len(tokenizer.encode(found.text, **special)) <= n


def check_pieces(tokenizer: bpejit.Tokenizer, text: str, limits: tuple[int, int], at: str, **special: Any) -> None:
    max_tokens, overlap = limits

    def fit(part: str, limit: int) -> bool:
        return len(tokenizer.encode(part, **special)) <= limit

    try:
        pieces = tokenizer.chunk(text, max_tokens=max_tokens, overlap=overlap, at=at, **special)
    except OptionError:
        assert not all(fit(character, max_tokens) for character in text)
        return
    assert "".join(piece.text[piece.overlap :] for piece in pieces) == text
    for piece in pieces:
        assert piece.tokens == len(tokenizer.encode(piece.text, **special)) <= max_tokens
        assert fit(piece.text[: piece.overlap], overlap)
        assert piece.overlap < len(piece.text)


@given(text=texts | raw.map(b"".join))
def test_definitions__every_pattern(tokenizer, text):
    check(tokenizer, text)


@given(text=texts)
def test_definitions__special_tokens_as_text(tokenizer, text):
    check(tokenizer, text, disallowed_special=())
    check(tokenizer, text, allowed_special={END}, disallowed_special=())


@given(text=texts, max_tokens=st.integers(1, 12), data=st.data(), at=st.sampled_from(UNITS))
def test_chunk__every_pattern(tokenizer, text, max_tokens, data, at):
    check_pieces(tokenizer, text, (max_tokens, data.draw(st.integers(0, max_tokens - 1))), at)
    check_pieces(tokenizer, text, (max_tokens, 0), at, disallowed_special=())


@examples(0.3)
@given(seed=st.integers(0, 1_000_000))
@example(307_883)  # added tokens that strip white space, and a normalizer that changes nothing
def test_definitions__random_files(seed):
    """Files with added tokens that strip white space, normalizers, prefixes and decoders of all kinds."""
    generator = random.Random(seed)
    content = KINDS[generator.choice([*KINDS])]() if generator.random() < 0.1 else random_file(generator)
    try:
        tokenizer = bpejit.Tokenizer.from_model(model_from_json(content))
        batch = [random_text(generator)[:16] for _ in range(4)]
        expected = [len(tokenizer.encode(text)) for text in batch]
        for text in batch[:2]:
            check(tokenizer, text)
            max_tokens = generator.randint(1, 8)
            check_pieces(tokenizer, text, (max_tokens, generator.randrange(max_tokens)), generator.choice(UNITS))
    except (TokenizerFormatError, CorpusError):  # a file that is refused, or a text without ids
        return
    assert tokenizer.count_batch(batch).tolist() == expected
    assert tokenizer.encode_batch(batch).tolist() == [tokenizer.encode(text) for text in batch]


def test_chunk__a_text_that_ends_shortly_after_a_cut():
    """Too few bytes follow to tell whether a special token begins there."""
    generator = random.Random(300_167)
    generator.random()
    tokenizer = bpejit.Tokenizer.from_model(model_from_json(random_file(generator)))
    assert "<pad>" in tokenizer.special_tokens
    check_pieces(tokenizer, "bc\r\nAb\u2603<pad>1<pa", (3, 1), "line")


@given(batch=st.lists(texts | raw.map(b"".join), max_size=8))
def test_count_batch(tokenizer, batch):
    found = tokenizer.count_batch(batch)
    assert found.dtype == np.int64
    assert found.tolist() == [len(tokenizer.encode(text)) for text in batch]
    ordinary = [len(tokenizer.encode(text, disallowed_special=())) for text in batch]
    assert tokenizer.count_batch(batch, disallowed_special=()).tolist() == ordinary


@pytest.fixture(scope="module")
def gpt2() -> bpejit.Tokenizer:
    return bpejit.Tokenizer.from_model(learned_model(data_text("prose.txt")[: small(50_000, 1_000)], 100, specials=[END]))


def test_count_batch__lengths_and_threads(gpt2):
    source = data_text("prose.txt").decode(errors="ignore")[: small(1_000_000, 2_000)]
    choose = random.Random(1)
    parts = [source[start : start + choose.randint(0, 3_000)] for start in range(0, len(source), small(700, 60))]
    parts.insert(3, source[: small(300_000, 1_000)])
    parts.append("a\x1fb")
    expected = np.diff(gpt2.encode_batch(parts).starts).tolist()
    assert gpt2.count_batch(parts).tolist() == expected
    assert gpt2.count_batch(iter(parts), num_threads=3).tolist() == expected
    assert gpt2.count(source) == len(gpt2.encode(source))


@pytest.mark.skipif(not small(1, 0), reason="takes long without compiling")
def test_count_batch__memory_does_not_grow_with_the_ids(gpt2):
    batch = ["0 1 é " * 1_000] * 1_000 + ["9 " * 1_500_000]
    gpt2.count_batch(batch[:2])
    tracemalloc.start()
    try:
        n_ids = int(gpt2.count_batch(batch).sum())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert n_ids > 6_000_000
    assert peak < 8_000_000  # the longest text in UTF-8, and buffers


def test_truncate__reads_only_what_it_needs(gpt2, monkeypatch):
    read = []
    monkeypatch.setattr(gpt2._codec.encoder.runner, "run_text", spy(gpt2._codec.encoder.runner.run_text, read))
    text = "some words " * small(100_000, 2_000)
    for side in ("right", "left"):
        assert gpt2.truncate(text, 20, side=side).was_cut
    assert not gpt2.fits(text, 20)
    assert 0 < sum(read) < 5_000


def spy(run, read):
    def called(workspace, automaton, text, limit, stop, *rest, **options):
        read.append(stop)
        return run(workspace, automaton, text, limit, stop, *rest, **options)

    return called


@given(text=texts, data=st.data())
def test_chunk__counts_of_units(tokenizer, text, data):
    """Ranges of any units have as many ids as their text; positions where text may be cut are those that `find_cut` finds."""
    text = encode_utf8(text).decode()
    bounds = sorted({0, len(text), *data.draw(st.sets(st.integers(0, len(text))))})
    codec, splitter = tokenizer._codec, tokenizer._codec.encoder.splitter
    sizes = np.array([tokenizer.count(text[start:stop]) for start, stop in pairwise(bounds)], np.int64)
    counts = cutting._Counts(codec, text, bounds, sizes, splitter)
    for first, after in combinations(range(len(bounds)), 2):
        assert counts.of(first, after) == tokenizer.count(text[bounds[first] : bounds[after]])
    if splitter.automaton is not None:
        padded, n_bytes = padded_text(f"{text}{'z' * 9}".encode())
        ends = [len(text[:bound].encode()) for bound in bounds[1:-1]]
        expected = [splitter.find_cut(padded, end, end, n_bytes) == end for end in ends]
        assert cutting._find_cuts(codec, text, bounds, splitter)[0].tolist()[1:-1] == expected


def test_chunk__encodes_a_text_few_times(gpt2, monkeypatch):
    counted = []
    plain = Codec.count_by
    monkeypatch.setattr(Codec, "count_by", lambda self, text, splitter: counted.append(text) or plain(self, text, splitter))
    pieces = gpt2.chunk("One line.\nAnother one\n" * small(5000, 50), max_tokens=50, overlap=20)
    assert len(pieces) > small(1000, 10)
    assert counted == []


def test_chunk__units():
    """Here each byte is a token."""
    single = bpejit.Tokenizer.from_model(make_model([]))
    text = "One line.\nTwo\n\nA paragraph,\nof two.\n \n\nThe end"

    def pieces(max_tokens: int, **options: Any) -> list[str]:
        found = single.chunk(text, max_tokens=max_tokens, **options)
        return [f"{piece.text[: piece.overlap]}|{piece.text[piece.overlap :]}" for piece in found]

    assert pieces(15) == ["|One line.\nTwo\n\n", "|A paragraph,\n", "|of two.\n \n\n", "|The end"]
    assert pieces(24, at="paragraph") == ["|One line.\nTwo\n\n", "|A paragraph,\nof two.\n \n\n", "|The end"]
    assert pieces(15, overlap=6)[:3] == ["|One line.\nTwo\n\n", "\n|A paragraph,\n", "|of two.\n \n\n"]
    assert pieces(20, overlap=9, at="pretoken")[:2] == ["|One line.\nTwo\n\nA", ".\nTwo\n\nA| paragraph,\n"]
    assert pieces(8)[:4] == ["|One line", "|.\nTwo\n\n", "|A paragr", "|aph,\n"]
    assert single.chunk("", max_tokens=3) == []


def test_chunk__takes_long_units_apart_in_linear_time(gpt2):
    pieces = gpt2.chunk("9" * small(100_000, 500) + "\n", max_tokens=100)
    assert len(pieces) >= small(300, 1)
    assert "".join(piece.text for piece in pieces) == "9" * small(100_000, 500) + "\n"


def test_arguments(gpt2):
    for call in (gpt2.truncate, gpt2.fits):
        with pytest.raises(OptionError, match="n is -1; expected"):
            call("a", -1)
        with pytest.raises(SpecialTokenError):
            call("a" + END, 1, allowed_special=set())
    assert gpt2.truncate("", 0) == ([], "", False)
    assert gpt2.truncate("a", 0) == ([], "", True)
    assert gpt2.truncate(bytearray(b"ab cd"), 0).text == b""
    with pytest.raises(OptionError, match="side is 'end'; expected"):
        gpt2.truncate("a", 1, side="end")
    with pytest.raises(OptionError, match="at is 'word'; expected"):
        gpt2.chunk("a", max_tokens=1, at="word")
    with pytest.raises(OptionError, match="overlap is 2; expected less than max_tokens, 2"):
        gpt2.chunk("a", max_tokens=2, overlap=2)
    with pytest.raises(OptionError, match="the character '☃' has 3 tokens"):
        gpt2.chunk("a☃", max_tokens=2)
    with pytest.raises(ArgumentTypeError):
        gpt2.chunk(b"a", max_tokens=2)
    with pytest.raises(ArgumentTypeError):
        gpt2.count(3)
