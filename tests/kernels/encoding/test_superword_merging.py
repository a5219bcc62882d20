"""Tests of encoding with superwords: the ids are those of merging whole pre-tokens, wherever the merges are divided."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import twins
from conftest import data_text
from helpers.encoding import make_model, make_workspace, naive_ids, naive_rules
from hypothesis import given, strategies as st

import bpejit
from bpejit.arrays import padded_text
from bpejit.encoding import encoder_tables
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.encoder_tables import make_tables
from bpejit.kernels.encoding import superword_merging
from bpejit.kernels.encoding.windowed_merging import SCRATCH_TOO_SMALL
from bpejit.model import Model

RUNS = r"[^\n]+|\n+"

OPTIONS = {"allowed_special": set(), "disallowed_special": ()}


@pytest.fixture(autouse=True)
def any_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few merges before the first superword be enough."""
    monkeypatch.setattr(encoder_tables, "_LEAST_WORDS", 1)
    monkeypatch.setattr(encoder_tables, "_LEAST_SHARE", 1 << 20)


@st.composite
def superword_models(draw: st.DrawFn) -> Model:
    """Draw models whose merges, in any order, each make another token; the first one makes no superword."""
    merges = [(b"a", b"b")]
    tokens = [b"a", b"b", b" ", b"ab", "é".encode()[:1], "é".encode()[1:], b"\n"]
    for _ in range(draw(st.integers(1, 25))):
        pair = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if len(pair[0] + pair[1]) <= 30 and pair[0] + pair[1] not in tokens:
            merges.append(pair)
            tokens.append(pair[0] + pair[1])
    return make_model(merges, pattern=RUNS)


texts = st.lists(st.sampled_from([b"a", b"b", b"ab", b" ", b" a", b" ab", "é".encode(), b"\xff", b"\n"]), max_size=60).map(
    b"".join
)


@given(superword_models(), texts)
def test_ids(model: Model, data: bytes) -> None:
    encoder = Encoder(model)
    workspace = encoder.new_workspace(cache_bytes=1 << 16)
    expected = naive_ids(model, data, RUNS)
    for _ in range(3):  # new, seen, and from the cache
        assert encoder.encode(data, workspace).tolist() == expected


@given(superword_models(), texts.filter(bool), st.integers(256, 700))
def test_encode_superwords(model: Model, data: bytes, scratch: int) -> None:
    tables = make_tables(model, {})
    if tables.super_ids.size == 0:
        return
    workspace = make_workspace(scratch=scratch)
    text, length = padded_text(data)
    out = np.zeros(length + 64, np.uint32)
    end = superword_merging.encode_superwords(text, np.uint64(0), np.uint64(length), tables, workspace, out, np.uint64(0))
    if end == SCRATCH_TOO_SMALL:
        assert scratch < 5 * length + 256
        return
    assert out[: int(end)].tolist() == twins.encoding.encode_superwords(data, *naive_rules(model))


def test_many_tokens_without_a_border() -> None:
    """A piece of more tokens than are scanned, with merges of all sizes."""
    merges = [(b"a", b"b"), (b"b", b" "), (b" ", b"a")]
    merges += [(b" a" * n, b" a" * n) for n in (1, 2, 4, 8)] + [(b"b ", b" a"), (b" a", b"b ")]
    model = make_model(merges, pattern=RUNS)
    data = b" a" * 500 + b"b " + b" a" * 37
    assert make_tables(model, {}).super_ids.size > 0
    assert Encoder(model).encode(data).tolist() == naive_ids(model, data, RUNS)


def test_word_as_a_pretoken_and_in_a_run() -> None:
    """A later merge within a word applies to the word alone, and later in a run than one across words."""
    merges = [(b"a", b"b"), (b" ", b"ab"), (b"c", b" ab"), (b"ab", b"c")]
    model = make_model(merges, pattern=RUNS)
    encoder = Encoder(model)
    workspace = encoder.new_workspace()
    for data in (b"abc", b"abc ab", b"abc", b"abc abc", b"abc ab"):
        assert encoder.encode(data, workspace).tolist() == naive_ids(model, data, RUNS)


@pytest.mark.parametrize(
    "merges",
    [
        [(b"a", b"b"), (b"ab", b" "), (b"b", b" "), (b"a", b"b ")],  # two merges make one token
        [(b"a", b"b"), (b"b", b"a")],  # no superword
    ],
)
def test_other_vocabularies_are_not_divided(merges: list[tuple[bytes, bytes]]) -> None:
    assert make_tables(make_model(merges, pattern=RUNS), {}).super_ids.size == 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[bpejit.Tokenizer, Path]:
    folder = tmp_path_factory.mktemp("superwords")
    file = folder / "text.txt"
    file.write_bytes(data_text("prose.txt")[:150_000] + data_text("cjk.txt")[:20_000])
    words = bpejit.train(file, vocab_size=800, workers=1)
    runs = bpejit.Tokenizer.from_model(replace(words.model, pattern=r"\p{N}{1,3}|[^\p{N}\n]+|\n+"))
    bpejit.extend(runs, file, vocab_size=1200, workers=1).save(folder / "tokenizer")
    return bpejit.load(folder / "tokenizer"), folder / "tokenizer" / "tokenizer.json"


def test_trained_tokenizer(trained: tuple[bpejit.Tokenizer, Path]) -> None:
    """Single texts, batches, streams, offsets and sessions, against the package tokenizers."""
    import tokenizers

    tokenizer, file = trained
    assert tokenizer._codec.encoder.tables.super_ids.size > 0
    judge = tokenizers.Tokenizer.from_file(str(file))
    text = (
        (data_text("prose.txt") + data_text("code.txt") + data_text("cjk.txt")[:60_000]).decode().replace("<|endoftext|>", "")
    )
    expected = judge.encode(text, add_special_tokens=False).ids
    for _ in range(2):
        assert tokenizer.encode_array(text).tolist() == expected
    lines = [*text.splitlines(keepends=True)[:2000], "a" * 3000, "", " of the" * 200]
    batch = [found.ids for found in judge.encode_batch(lines, add_special_tokens=False)]
    assert [ids.tolist() for ids in tokenizer.encode_batch(lines)] == batch
    assert tokenizer.count_batch(lines).tolist() == [len(ids) for ids in batch]
    rng = random.Random(1)
    pieces, at = [], 0
    while at < 50_000:
        size = rng.randrange(1, 300)
        pieces.append(text[at : at + size])
        at += size
    assert list(tokenizer.encode_iterable(pieces)) == tokenizer.encode("".join(pieces))
    located = tokenizer.encode_with_offsets(text[:20_000])
    assert located.ids.tolist() == tokenizer.encode(text[:20_000])
    session = tokenizer.session()
    for piece in pieces[:40]:
        session.append(piece)
    assert session.ids.tolist() == tokenizer.encode("".join(pieces[:40]))
