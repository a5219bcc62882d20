"""Smaller tokenizers of one training, and the number of tokens of a corpus by size."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from conftest import data_text, small
from helpers.training import table_of
from hypothesis import given, strategies as st

import bpejit
from bpejit import Counts, CountsError, TokenizerFormatError
from bpejit.counting.header import CountSettings, CountsHeader
from bpejit.shrinking import first_merges, shrink_model
from bpejit.training.corpus_tokens import model_tokens_by_size
from bpejit.training.train import train_model


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_bytes(data_text("prose.txt")[: small(50_000, 1_500)] + b" aaaaaaaaaaaaaaaaa aaaaaa <|endoftext|>" * 5)
    return path


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("first", [False, True])
def test_shrinking_is_training_with_fewer_tokens(corpus: Path, first: bool, tmp_path: Path) -> None:
    options = {"special_tokens": ["<|endoftext|>", "<|b|>"], "special_tokens_first": first}
    large = bpejit.train(corpus, vocab_size=400, **options)
    for size in (258, 259, 330, 400):
        found = large.shrink(size)
        expected = bpejit.train(corpus, vocab_size=size, **options)
        assert found == expected
        found.save(tmp_path / f"found-{size}")
        expected.save(tmp_path / f"expected-{size}")
        assert folder_bytes(tmp_path / f"found-{size}") == folder_bytes(tmp_path / f"expected-{size}")
    for size in (257, 401):
        with pytest.raises(TokenizerFormatError, match=f"vocab_size is {size}; expected"):
            large.shrink(size)


def test_first_merges_of_a_text_with_few_merges(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc abc")
    model = train_model(tmp_path / "a.txt", vocab_size=500)
    assert model.vocab_size < 300
    assert first_merges(model, 400) == train_model(tmp_path / "a.txt", vocab_size=400)
    assert first_merges(model, 258) == train_model(tmp_path / "a.txt", vocab_size=258)


def test_models_of_other_tools() -> None:
    base = {byte: bytes([byte]) for byte in range(256)}
    ranked = bpejit.Model({**base, 256: b"ab", 257: b"abc", 258: b"cd"}, [], {"<s>": 300}, ranked=True)
    found = shrink_model(ranked, 258)
    assert (dict(found.tokens), found.special_tokens, found.ranked) == ({**base, 256: b"ab"}, {"<s>": 257}, True)
    unmade = bpejit.Model({**base, 256: b"ab", 257: b"xyz"}, [(b"a", b"b")])
    with pytest.raises(TokenizerFormatError, match=r"b'xyz' .* is made by no merge"):
        shrink_model(unmade, 257)
    shared = bpejit.Model({**base, 256: b"ab", 257: b"<s>"}, [(b"a", b"b"), (b"<", b"s>")][:1], {"<s>": 257})
    with pytest.raises(TokenizerFormatError, match="made by no merge"):
        shrink_model(shared, 257)
    roberta = '{"type":"RobertaProcessing","sep":["<s>",257],"cls":["<s>",257],"trim_offsets":true,"add_prefix_space":false}'
    processed = bpejit.Model({**base, 256: b"ab"}, [(b"a", b"b")], {"<s>": 257}, post_processor=roberta)
    with pytest.raises(TokenizerFormatError, match="post-processor contains ids"):
        shrink_model(processed, 257)
    byte_level = '{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true}'
    processed = bpejit.Model({**base, 256: b"ab"}, [(b"a", b"b")], {"<s>": 257}, post_processor=byte_level)
    assert shrink_model(processed, 257).special_tokens == {"<s>": 256}


@pytest.mark.parametrize("size", [256, 257, 300, 2000])
@pytest.mark.parametrize("text", [b"", b" x", b" aaaaa aaaaaaaaa b" * 99])
def test_sizes_of_the_text_of_training(tmp_path: Path, size: int, text: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" + text + data_text("code.txt")[: 3000 * (len(text) > 2)])
    options = {"special_tokens": [], "workers": 2}
    counts, found = bpejit.count(tmp_path / "a.txt", **options), []
    model = train_model(tmp_path / "a.txt", vocab_size=size, inspect_sizes=lambda *sizes: found.append(sizes), **options)
    train_model(counts, vocab_size=size, inspect_sizes=lambda *sizes: found.append(sizes))
    n_bytes, (n_tokens,) = model_tokens_by_size(counts, model, [model.vocab_size])
    assert found == [(n_bytes, n_tokens)] * 2


words = st.text("ab", min_size=1, max_size=12).map(str.encode)


@given(st.dictionaries(words, st.integers(1, 2**40), min_size=1, max_size=10))
def test_tokens_by_size_are_those_of_encoding(table: dict[bytes, int]) -> None:
    settings = CountSettings("gpt2", "16.0", (), False)
    counts = Counts(CountsHeader(settings, [], 0, sum(table.values())), table_of(table))
    model = train_model(counts, vocab_size=300, workers=1)
    sizes = list(range(256, model.vocab_size + 1))
    n_bytes, found = model_tokens_by_size(counts, model, sizes)
    assert n_bytes == sum(len(word) * count for word, count in table.items())
    for size, n_tokens in itertools.islice(zip(sizes, found, strict=True), 0, None, 3):
        encode = bpejit.Tokenizer.from_model(shrink_model(model, size)).encode_ordinary
        assert n_tokens == sum(len(encode(word)) * count for word, count in table.items())


def test_tokens_by_size_are_those_of_the_text(corpus: Path) -> None:
    counts = bpejit.count(corpus)
    tokenizer = bpejit.train_from_counts(counts, vocab_size=350)
    _, found = model_tokens_by_size(counts, tokenizer.model, [260, 350])
    for size, n_tokens in zip((260, 350), found, strict=True):
        smaller = tokenizer.shrink(size)
        end = smaller.token_to_id("<|endoftext|>")
        assert n_tokens == sum(number != end for number in smaller.encode(corpus.read_bytes().decode()))
    assert bpejit.tokens_by_size(counts, tokenizer, [350, 260]) == found[::-1]
    with pytest.raises(bpejit.OptionError, match=r"vocab_sizes\[0\] is 351"):
        bpejit.tokens_by_size(counts, tokenizer, [351])
    with pytest.raises(CountsError, match="were made with the pattern"):
        model_tokens_by_size(bpejit.count(corpus, pattern="cl100k"), tokenizer.model, [350])


@pytest.mark.parametrize("how", ["files", "texts", "counts"])
def test_training_of_the_tokenizer(tmp_path: Path, how: str) -> None:
    text = "some words to count, and some more " * 9
    (tmp_path / "a.txt").write_text(text)
    tokenizer = {
        "files": lambda: bpejit.train(tmp_path / "a.txt", vocab_size=270, out=tmp_path / "saved"),
        "texts": lambda: bpejit.train_from_iterator([text], vocab_size=270),
        "counts": lambda: bpejit.train_from_counts(bpejit.count(tmp_path / "a.txt"), vocab_size=270),
    }[how]()
    n_tokens = len(tokenizer.encode(text))
    assert tokenizer.training["tokens"] == n_tokens
    assert tokenizer.training["bytes_per_token"] == len(text) / n_tokens
    assert tokenizer.training["bytes"] == len(text)
    assert tokenizer.training["peak_memory"] >= 0
    if how == "files":
        assert bpejit.load(tmp_path / "saved").training == tokenizer.model.training
    assert "peak_memory" not in tokenizer.model.training
    assert bpejit.Tokenizer(dict(tokenizer.vocab), list(tokenizer.merges)).training == {}
