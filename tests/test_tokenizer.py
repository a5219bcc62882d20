"""Tests of the public interface: training, methods of tokenizers, and errors."""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import data_text, read_shared, small
from hypothesis import given, strategies as st

import bpejit
from bpejit.encoding import file_decoding
from bpejit.formats.any_format import load_model
from bpejit.model import Model
from bpejit.normalization.byte_characters import decode_byte_characters as unmap
from bpejit.storage.files import OutputFile

END = "<|endoftext|>"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_bytes(data_text("prose.txt")[: small(200_000, 3_000)])
    return path


@pytest.fixture(scope="module")
def tokenizer(corpus: Path) -> bpejit.Tokenizer:
    return bpejit.train([corpus], vocab_size=small(1000, 270))


def write(folder: Path, data: bytes, name: str = "text.txt") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


# ---- training ----------------------------------------------------------------------------------------------------------


def test_train__assigns_ids_to_bytes_then_merges_then_special_tokens(tmp_path: Path) -> None:
    tokenizer = bpejit.train(write(tmp_path, b"aaabdaaabac" * 2), vocab_size=260, special_tokens=["<s>"])
    assert tokenizer.vocab[97] == b"a"
    assert tokenizer.merges[0] == (b"a", b"a")
    assert tokenizer.vocab[256] == b"aa"
    assert tokenizer.special_tokens == {"<s>": 259}
    assert list(tokenizer.vocab) == list(range(260))
    assert tokenizer.vocab_size == 260


def test_train__special_tokens_first(corpus: Path, tokenizer: bpejit.Tokenizer) -> None:
    first = bpejit.train(corpus, vocab_size=tokenizer.vocab_size + 1, special_tokens=[END, "<s>"], special_tokens_first=True)
    assert first.special_tokens == {END: 0, "<s>": 1}
    assert first.merges == tokenizer.merges
    text = "one two" + END
    assert first.encode(text) == [number + 2 for number in tokenizer.encode(text)[:-1]] + [0]


def test_train__no_merges_across_special_tokens(tmp_path: Path) -> None:
    path = write(tmp_path, ("ab" + END).encode() * 50 + b"a" + END.encode() + b"b")
    tokenizer = bpejit.train(path, vocab_size=300)
    assert tokenizer.merges == ((b"a", b"b"),)
    assert tokenizer.model.merge_counts == (50,)


def test_train__stops_without_pairs(tmp_path: Path) -> None:
    tokenizer = bpejit.train(write(tmp_path, b"abab cd"), vocab_size=1000)
    assert tokenizer.vocab_size < 270
    assert tokenizer.encode("abab cd") == [tokenizer.model.ids[b"abab"], tokenizer.model.ids[b" cd"]]


def test_train__min_frequency_and_max_token_bytes(corpus: Path) -> None:
    whole = bpejit.train(corpus, vocab_size=small(3000, 300))
    frequent = bpejit.train(corpus, vocab_size=small(3000, 300), min_frequency=20)
    n = len(frequent.merges)
    assert frequent.merges == whole.merges[:n]
    assert whole.model.merge_counts is not None
    assert n == sum(count >= 20 for count in whole.model.merge_counts)
    short = bpejit.train(corpus, vocab_size=small(3000, 300), max_token_bytes=3)
    assert max(len(token) for token in short.model.tokens.values()) == 3


def test_train__normalize_newlines(tmp_path: Path) -> None:
    unix = write(tmp_path, b"one\ntwo\n\nthree\n" * 20, "unix.txt")
    other = write(tmp_path, b"one\r\ntwo\r\n\rthree\n" * 20, "other.txt")
    assert bpejit.train(other, vocab_size=270, normalize_newlines=True).merges == bpejit.train(unix, vocab_size=270).merges
    assert bpejit.train(other, vocab_size=270).merges != bpejit.train(unix, vocab_size=270).merges


def test_train__records_its_inputs(corpus: Path, tokenizer: bpejit.Tokenizer) -> None:
    notes = tokenizer.model.training
    assert notes["inputs"] == [{"path": str(corpus), "bytes": corpus.stat().st_size}]
    assert notes["bytes"] == corpus.stat().st_size
    assert notes["distinct_pretokens"] <= notes["pretokens"]


def test_train__pattern_without_automaton(tmp_path: Path) -> None:
    path = write(tmp_path, b"foo bar foo baz" * 30)
    tokenizer = bpejit.train(path, vocab_size=262, pattern=r"(?<=\s)\w+|\w+|\W")
    assert tokenizer.decode(tokenizer.encode("foo bar")) == "foo bar"
    assert b"foo" in tokenizer.model.ids


@pytest.mark.parametrize("tie_break", ["greatest-bytes", "smallest-ids", "hf"])
def test_train__tie_rules(tie_break: str, tmp_path: Path) -> None:
    # Three pairs, all equally frequent; the space is late in the byte order of Hugging Face.
    tokenizer = bpejit.train(write(tmp_path, b"ab.zy. q"), vocab_size=258, special_tokens=[], tie_break=tie_break)
    first = {"greatest-bytes": (b"z", b"y"), "smallest-ids": (b" ", b"q"), "hf": (b"a", b"b")}[tie_break]
    assert tokenizer.merges[0] == first
    assert tokenizer.model.tie_break == tie_break


def test_train_bpe__matches_cs336_reference(shared_data: Path) -> None:
    vocab, merges = bpejit.train_bpe(shared_data / "cs336" / "corpus.en", 500, [END])
    lines = read_shared("cs336/train-bpe-reference-merges.txt").decode().splitlines()
    assert merges == [tuple(unmap(part) for part in line.split(" ")) for line in lines]
    assert sorted(vocab) == list(range(500))
    assert set(vocab.values()) == {bytes([byte]) for byte in range(256)} | {a + b for a, b in merges} | {END.encode()}


def test_train_bpe__special_tokens_are_not_merged_into_tokens(shared_data: Path) -> None:
    vocab, _ = bpejit.train_bpe(shared_data / "cs336" / "tinystories_sample.txt", 1000, [END])
    assert [token for token in vocab.values() if b"<|" in token] == [END.encode()]


# ---- encoding and decoding ---------------------------------------------------------------------------------------------


@given(data=st.binary(max_size=200))
def test_round_trip_of_any_bytes(data: bytes, tokenizer: bpejit.Tokenizer) -> None:
    assert tokenizer.decode_bytes(tokenizer.encode_array(data)) == data


@given(text=st.text(max_size=100))
def test_round_trip_of_any_text(text: str, tokenizer: bpejit.Tokenizer) -> None:
    ids = tokenizer.encode(text)
    assert all(type(number) is int for number in ids)
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode_array(text).dtype == np.uint32


@given(pieces=st.lists(st.sampled_from(["one", " ", "  ", "\n", END, "<|end", "of", "text|>", "é", "don't "]), max_size=30))
def test_encode_iterable__matches_whole_text(pieces: list[str], tokenizer: bpejit.Tokenizer) -> None:
    assert list(tokenizer.encode_iterable(pieces)) == tokenizer.encode("".join(pieces))


def test_encode_iterable__two_interleaved(tokenizer: bpejit.Tokenizer) -> None:
    lines = data_text("prose.txt")[:3000].decode(errors="ignore").splitlines(keepends=True)
    expected = tokenizer.encode("".join(lines))
    a, b = tokenizer.encode_iterable(lines), tokenizer.encode_iterable(lines)
    assert [number for pair in zip(a, b, strict=True) for number in pair] == [number for number in expected for _ in "ab"]


def test_encode_batch(tokenizer: bpejit.Tokenizer) -> None:
    texts = ["one two", "", b"\xff\x00", "three" + END]
    batch = tokenizer.encode_batch(texts)
    assert [ids.tolist() for ids in batch] == [tokenizer.encode(text) for text in texts]
    assert len(batch) == 4
    assert batch.starts.tolist()[0] == 0
    assert len(tokenizer.encode_batch([])) == 0


def test_decode__replaces_invalid_utf8(tokenizer: bpejit.Tokenizer) -> None:
    ids = tokenizer.encode_array(b"a\xffb")
    assert tokenizer.decode(ids) == "a�b"
    with pytest.raises(UnicodeDecodeError):
        tokenizer.decode(ids, errors="strict")


@pytest.mark.parametrize("bad", [-1, 10**6, 2**40])
def test_decode__reports_unknown_id(bad: int, tokenizer: bpejit.Tokenizer) -> None:
    with pytest.raises(bpejit.TokenIdError, match=rf"no token with id {bad} \(at position 2\); expected ids from 0 to"):
        tokenizer.decode([1, 2, bad])


def test_threads_can_share_a_tokenizer(tokenizer: bpejit.Tokenizer) -> None:
    text = data_text("prose.txt")[: small(50_000, 2_000)].decode(errors="ignore")
    expected = tokenizer.encode(text)
    with ThreadPoolExecutor(4) as pool:
        assert all(ids == expected for ids in pool.map(lambda _: tokenizer.encode(text), range(small(20, 4))))


@pytest.mark.parametrize("duplicate", [lambda one: pickle.loads(pickle.dumps(one)), copy.copy, copy.deepcopy])
def test_copies(duplicate: Callable[[bpejit.Tokenizer], bpejit.Tokenizer], tokenizer: bpejit.Tokenizer) -> None:
    other = duplicate(tokenizer)
    assert other.model == tokenizer.model
    assert other.encode("some text") == tokenizer.encode("some text")


# ---- CS336's constructor -----------------------------------------------------------------------------------------------

BYTES = {number: bytes([number]) for number in range(256)}


def test_constructor__appends_missing_special_tokens() -> None:
    vocab = {**BYTES, 256: b"<s>", 300: b"ab"}
    tokenizer = bpejit.Tokenizer(vocab, [(b"a", b"b")], ["<s>", "<new>"])
    assert tokenizer.special_tokens == {"<s>": 256, "<new>": 301}
    assert tokenizer.encode("ab<s>a<new>") == [300, 256, 97, 301]
    assert len(vocab) == 258, "the caller's dict stays as it was"


def test_constructor__without_special_tokens() -> None:
    tokenizer = bpejit.Tokenizer(dict(BYTES), [])
    assert tokenizer.encode(END) == list(END.encode())


def test_constructor__longest_special_token_wins() -> None:
    tokenizer = bpejit.Tokenizer(dict(BYTES), [], [END, END + END])
    double = tokenizer.special_tokens[END + END]
    assert tokenizer.encode(f"a{END}{END}b{END}") == [97, double, 98, tokenizer.special_tokens[END]]


def test_constructor__vocabulary_without_all_bytes_is_refused() -> None:
    with pytest.raises(bpejit.TokenizerFormatError, match=r"lacks 1 of the 256 single bytes \(0x41\)"):
        bpejit.Tokenizer({number: token for number, token in BYTES.items() if token != b"A"}, [])


# ---- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("special_tokens_first", [False, True])
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3", "o200k", "deepseek-v3", "kimi-k2", (r"\p{N}", r"\s+|\S+")])
def test_save_and_load(pattern: str, special_tokens_first: bool, corpus: Path, tmp_path: Path) -> None:
    tokenizer = bpejit.train(corpus, vocab_size=small(600, 262), pattern=pattern, special_tokens_first=special_tokens_first)
    assert tokenizer.save(tmp_path / "tokenizer") is None
    loaded = bpejit.load(tmp_path / "tokenizer")
    assert loaded.model == tokenizer.model
    assert loaded.sha256 == tokenizer.sha256
    text = data_text("code.txt")[:2000] + END.encode()
    assert loaded.encode(text) == tokenizer.encode(text)


def test_encode_and_decode_files(corpus: Path, tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    stages: list[tuple[str, int, int | None, str]] = []
    report = tokenizer.encode_files(corpus, tmp_path / "tokens.bin", progress=lambda *step: stages.append(step))
    assert report.dtype == "uint16"
    assert np.fromfile(tmp_path / "tokens.bin", "<u2").tolist() == tokenizer.encode(corpus.read_bytes())
    assert stages[-1] == ("encode", corpus.stat().st_size, corpus.stat().st_size, "bytes")

    assert tokenizer.decode_file(tmp_path / "tokens.bin", tmp_path / "back.txt") == corpus.stat().st_size
    assert (tmp_path / "back.txt").read_bytes() == corpus.read_bytes()
    stream = io.BytesIO()
    tokenizer.decode_file(tmp_path / "tokens.bin", stream)
    assert stream.getvalue() == corpus.read_bytes()


def test_decode_file__of_a_lazy_tokenizer_makes_no_encoder(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    lazy = bpejit.Tokenizer.from_model(tokenizer.model, lazy=True)
    np.array(tokenizer.encode("hello there"), "<u2").tofile(tmp_path / "tokens.bin")
    lazy.decode_file(tmp_path / "tokens.bin", tmp_path / "back.txt", dtype="uint16")
    assert (tmp_path / "back.txt").read_bytes() == b"hello there"
    assert not {"encoder", "_workspaces"} & set(vars(lazy._codec))
    lazy.encode("hello")
    assert lazy._codec.decoder is lazy._codec.encoder


def test_encode_files__does_not_merge_across_inputs(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    a, b = write(tmp_path, b"hello  ", "a.txt"), write(tmp_path, b" there", "b.txt")
    tokenizer.encode_files([a, b], tmp_path / "tokens.bin")
    assert bpejit.open_tokens(tmp_path / "tokens.bin").ids.tolist() == tokenizer.encode("hello  ") + tokenizer.encode(" there")


def test_encode_files__empty_input_produces_empty_file(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    assert tokenizer.encode_files(write(tmp_path, b""), tmp_path / "tokens.bin").tokens == 0
    assert tokenizer.decode_file(tmp_path / "tokens.bin", tmp_path / "back.txt") == 0


def test_decode_file__invalid_id_preserves_old_output(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    np.array([65, 60000], "<u2").tofile(tmp_path / "tokens.bin")
    old = write(tmp_path, b"old", "back.txt")
    with pytest.raises(bpejit.TokenIdError, match=r"id 60000 \(at position 1\)"):
        tokenizer.decode_file(tmp_path / "tokens.bin", old, dtype="uint16", overwrite=True)
    assert old.read_bytes() == b"old"


def large_token_file(path: Path, tokenizer: bpejit.Tokenizer) -> bytes:
    """Write ids of 4 MB, which `decode_file` writes in several pieces."""
    ids = np.array(tokenizer.encode(data_text("code.txt")[:5000]), "<u2")
    ids = np.tile(ids, (4 << 20) // 5000)
    ids.tofile(path)
    return tokenizer.decode_bytes(ids)


@pytest.mark.parametrize("processors", [1, 2])
def test_decode_file__of_several_pieces(
    tokenizer: bpejit.Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processors: int
) -> None:
    monkeypatch.setattr(file_decoding, "count_cpus", lambda: processors)
    data = large_token_file(tmp_path / "tokens.bin", tokenizer)
    assert tokenizer.decode_file(tmp_path / "tokens.bin", tmp_path / "back.txt", dtype="uint16") == len(data)
    assert (tmp_path / "back.txt").read_bytes() == data
    stream = io.BytesIO()
    assert tokenizer.decode_file(tmp_path / "tokens.bin", stream, dtype="uint16") == len(data)
    assert stream.getvalue() == data
    assert tokenizer.decode_file(tmp_path / "tokens.bin", os.devnull, dtype="uint16") == len(data)


def test_decode_file__late_errors_preserve_old_output(
    tokenizer: bpejit.Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = large_token_file(tmp_path / "tokens.bin", tokenizer)
    old = write(tmp_path, b"old", "back.txt")

    def decode(path: str = "tokens.bin") -> None:
        tokenizer.decode_file(tmp_path / path, old, dtype="uint16", overwrite=True)

    (tmp_path / "wrong.bin").write_bytes((tmp_path / "tokens.bin").read_bytes() + b"\x60\xea")
    with pytest.raises(bpejit.TokenIdError, match="id 60000 "):
        decode("wrong.bin")

    def full(file: OutputFile, piece: memoryview) -> int:
        if file.n_bytes > len(data) // 2:
            raise bpejit.OutputError("the disk is full")
        return whole(file, piece)

    whole = OutputFile.write
    monkeypatch.setattr(OutputFile, "write", full)
    with pytest.raises(bpejit.OutputError, match="the disk is full"):
        decode()
    assert old.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back.txt", "tokens.bin", "wrong.bin"]


def test_decode_file__tokens_of_another_tokenizer_are_refused(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    other = bpejit.Tokenizer(dict(BYTES), [])
    other.encode_files(write(tmp_path, b"abc"), tmp_path / "tokens.bin")
    with pytest.raises(bpejit.TokenFileError, match=other.sha256[:8]):
        tokenizer.decode_file(tmp_path / "tokens.bin", tmp_path / "back.txt")
    assert not (tmp_path / "back.txt").exists()


# ---- invalid settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"vocab_size": 256},
            bpejit.TrainingError,
            r"vocab_size is 256; expected a whole number from 257 up \(space for the 256 bytes and 1 special token\)",
        ),
        (
            {"tie_break": "random"},
            bpejit.TrainingError,
            "tie_break is 'random'; expected one of 'greatest-bytes', 'smallest-ids', 'hf'",
        ),
        ({"pattern": "(unclosed"}, bpejit.PatternError, "unclosed"),
        ({"special_tokens": [""]}, bpejit.TrainingError, "a special token is empty"),
        ({"min_frequency": 0}, bpejit.TrainingError, "min_frequency is 0; expected a whole number from 1 up"),
        ({"max_token_bytes": 0}, bpejit.TrainingError, "max_token_bytes is 0; expected a whole number from 1 up"),
        ({"engine": "cloud"}, bpejit.EngineError, "engine is 'cloud'; expected one of 'auto', 'serial'"),
        ({"workers": 0}, bpejit.EngineError, "workers is 0; expected a whole number from 1 up"),
        ({"inputs": "missing.txt"}, bpejit.CorpusError, "cannot read the input `missing.txt`"),
    ],
)
def test_train__invalid_options(options: dict[str, object], error: type[Exception], message: str, corpus: Path) -> None:
    with pytest.raises(error, match=message):
        bpejit.train(**{"inputs": corpus, "vocab_size": 300, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [b"", END.encode() * 3], ids=["empty", "special-tokens-only"])
def test_train__empty_corpus_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(bpejit.CorpusError, match="contains no text to learn from"):
        bpejit.train(write(tmp_path, data), vocab_size=300)


def test_load__reports_missing_files(tmp_path: Path) -> None:
    with pytest.raises(bpejit.TokenizerFormatError, match="nothing-here"):
        bpejit.load(tmp_path / "nothing-here")


@pytest.mark.parametrize("was_on", [True, False])
def test_load__pauses_the_garbage_collector(was_on: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def read(path: Path, **options: Any) -> Model:
        seen.append(gc.isenabled())
        return load_model(path, **options)

    monkeypatch.setattr("bpejit.tokenizer.load_model", read)
    bpejit.Tokenizer({byte: bytes([byte]) for byte in range(256)}, []).save(tmp_path / "saved")
    if not was_on:
        gc.disable()
    try:
        bpejit.load(tmp_path / "saved")
        assert gc.isenabled() == was_on
        with pytest.raises(bpejit.TokenizerFormatError):
            bpejit.load(tmp_path / "missing")
        assert gc.isenabled() == was_on
    finally:
        gc.enable()
    assert seen == [False, False]


def test_trained_tokenizer_encodes_without_compiling(tmp_path):
    (tmp_path / "text.txt").write_text("low lower lowest " * 50, encoding="utf-8")
    trained = bpejit.train([tmp_path / "text.txt"], vocab_size=270)
    assert "_encoder" not in vars(trained)
    trained.save(tmp_path / "tokenizer")
    other = pickle.loads(pickle.dumps(trained))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(trained.encode, ["lower lowest"] * 20))
    assert found == [other.encode("lower lowest")] * 20
    assert found[0] == bpejit.load(tmp_path / "tokenizer").encode("lower lowest")
    assert len(found[0]) < 5
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        trained.missing  # noqa: B018
