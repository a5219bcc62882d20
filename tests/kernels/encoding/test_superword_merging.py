"""Tests of encoding with superwords: the ids are those of merging whole pre-tokens, wherever the merges are divided."""

from __future__ import annotations

import json
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
from bpejit.errors import TokenizerFormatError
from bpejit.kernels.constants import DONE, NEED_SCRATCH, NEED_SPACE, SPECIAL_FLAG
from bpejit.kernels.encoding import pretoken_cache, superword_merging
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


spans = st.lists(st.tuples(texts.filter(bool), st.booleans()), max_size=40)


def encode(
    model: Model, pieces: list[tuple[bytes, bool]], capacity: int, scratch: int, *, with_stops: bool
) -> tuple[list[int], list[int]]:
    """Encode spans, some of them special tokens; return the ids, and the end of the ids of each span."""
    specials = {piece: 5000 + i for i, piece in enumerate(dict.fromkeys(piece for piece, special in pieces if special))}
    tables = make_tables(model, specials)
    workspace = make_workspace(scratch=scratch)
    text, _ = padded_text(b"".join(piece for piece, _ in pieces))
    stops = np.cumsum([len(piece) for piece, _ in pieces], dtype=np.int64)
    ends = (stops | [SPECIAL_FLAG * special for _, special in pieces]).astype(np.uint32)
    progress = workspace.progress
    progress[pretoken_cache.N_SPANS] = len(pieces)
    progress[pretoken_cache.N_DOCUMENTS] = with_stops
    out = np.zeros(capacity, np.uint32)
    while (status := superword_merging.encode_superwords(text, ends, tables, workspace, out)) != DONE:
        if status == NEED_SCRATCH:
            workspace = workspace._replace(scratch=np.zeros(2 * workspace.scratch.size, np.uint32))
        else:
            assert status == NEED_SPACE
            out = np.concatenate([out, np.zeros(out.size, np.uint32)])
    assert progress[pretoken_cache.NEXT_SPAN] == len(pieces)
    ids = out[: progress[pretoken_cache.N_OUT]].tolist()
    expected = twins.encoding.encode_superwords(bytes(text), ends.tolist(), *naive_rules(model), specials)
    assert ids == expected
    return ids, workspace.run_stops[: len(pieces)].tolist()


@given(superword_models(), spans, st.integers(16, 300), st.integers(256, 700), st.booleans())
def test_encode_superwords(
    model: Model, pieces: list[tuple[bytes, bool]], capacity: int, scratch: int, with_stops: bool
) -> None:
    if make_tables(model, {}).super_merged.size == 0 or not pieces:
        return
    _, stops = encode(model, pieces, capacity, scratch, with_stops=with_stops)
    if with_stops:
        assert stops == [len(encode(model, pieces[: n + 1], 300, 700, with_stops=False)[0]) for n in range(len(pieces))]


@pytest.mark.parametrize(
    "data",
    [
        b" a" * 700 + b"b " + b" a" * 37,
        (b" a" * 30 + b"b b ") * 12,
        b"a" * 3000,
        b" ab" * 550 + b"\n" + b" ab" * 40,
        "é a".encode() * 100 + b" a" * 300,
        b"ab" * 600,
    ],
)
def test_many_tokens_without_a_border(data: bytes) -> None:
    """Pieces of more tokens than are scanned, than a word has bits, and than are encoded together."""
    merges = [(b"a", b"b"), (b"b", b" "), (b" ", b"a")]
    merges += [(b" a" * n, b" a" * n) for n in (1, 2, 4, 8)] + [(b"b ", b" a"), (b" a", b"b ")]
    model = make_model(merges, pattern=RUNS)
    assert make_tables(model, {}).super_merged.size > 0
    assert Encoder(model).encode(data).tolist() == naive_ids(model, data, RUNS)
    encode(model, [(data[:501], False), (b"<e>", True), (data[501:], False), (b"a", False)], 16, 256, with_stops=True)


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
        [(b"a", b"b"), (b"b", b" "), (b"ab", b"ab "), (b"ab", b" ")],  # a merge of a token that a later one makes
    ],
)
def test_other_vocabularies_are_not_divided(merges: list[tuple[bytes, bytes]]) -> None:
    assert make_tables(make_model(merges, pattern=RUNS), {}).super_merged.size == 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[bpejit.Tokenizer, Path]:
    folder = tmp_path_factory.mktemp("superwords")
    file = folder / "text.txt"
    file.write_bytes(data_text("prose.txt")[:150_000] + data_text("cjk.txt")[:20_000])
    words = bpejit.train(file, vocab_size=800, workers=1)
    runs = bpejit.Tokenizer.from_model(replace(words.model, pattern=r"\p{N}{1,3}|[^\p{N}\n]+|\n+"))
    bpejit.extend(runs, file, vocab_size=1200, workers=1).save(folder / "tokenizer")
    return bpejit.load(folder / "tokenizer"), folder / "tokenizer" / "tokenizer.json"


def test_published_layout(trained: tuple[bpejit.Tokenizer, Path], tmp_path: Path) -> None:
    """Files of SuperBPE's authors divide numbers by an unbounded look-ahead."""
    import tokenizers

    content = json.loads(trained[1].read_text(encoding="utf-8"))
    splits = [
        {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
        for regex in (r"\p{N}+", r"(?=(\d{3})+(?!\d))")
    ]
    content["pre_tokenizer"]["pretokenizers"][:-1] = splits
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    judge = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "one of the 1234567 of the 12 in 12345678901a1234b and so on " * 9 + data_text("prose.txt")[:20_000].decode()
    assert bpejit.load(tmp_path).encode(text) == judge.encode(text, add_special_tokens=False).ids


def test_trained_tokenizer(trained: tuple[bpejit.Tokenizer, Path]) -> None:
    """Single texts, batches, streams, offsets and sessions, against the package tokenizers."""
    import tokenizers

    tokenizer, file = trained
    assert tokenizer._codec.encoder.tables.super_merged.size > 0
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


def test_cut_texts_and_files(trained: tuple[bpejit.Tokenizer, Path], tmp_path: Path) -> None:
    """A prefix of a text may end within a superword, and a file is encoded in chunks."""
    tokenizer, _ = trained
    text = data_text("prose.txt")[:60_000].decode("utf-8", "ignore")
    ids = tokenizer.encode(text)
    for n in (0, 1, 2, 7, 500, len(ids) - 1, len(ids)):
        cut = tokenizer.truncate(text, n)
        assert cut.ids == ids[: len(cut.ids)] == tokenizer.encode(cut.text)
        assert n - 3 <= len(cut.ids) <= n
        assert cut.was_cut == (len(cut.ids) < len(ids))
        assert tokenizer.fits(cut.text, n)
    for at in ("line", "pretoken"):
        pieces = tokenizer.chunk(text, max_tokens=64, at=at)
        assert "".join(piece.text for piece in pieces) == text
        assert [piece.tokens for piece in pieces] == [tokenizer.count(piece.text) for piece in pieces]
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    for workers in (1, 2):
        tokenizer.encode_files(tmp_path / "text.txt", tmp_path / f"{workers}.bin", workers=workers)
        assert bpejit.open_tokens(tmp_path / f"{workers}.bin").ids.tolist() == ids
    assert tokenizer.decode(ids) == text


def test_formats_keep_the_ids_or_refuse(trained: tuple[bpejit.Tokenizer, Path], tmp_path: Path) -> None:
    tokenizer, _ = trained
    text = data_text("prose.txt")[:20_000].decode("utf-8", "ignore")
    tokenizer.save(tmp_path / "ranks.tiktoken", format="tiktoken")
    assert bpejit.load(tmp_path / "ranks.tiktoken").encode(text) == tokenizer.encode(text)
    with pytest.raises(TokenizerFormatError, match="does not split by the pattern `gpt2`"):
        tokenizer.save(tmp_path / "pair", format="gpt2")
    assert not (tmp_path / "pair").exists()
