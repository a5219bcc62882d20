"""Tests of argument checks: every public function refuses invalid arguments with messages of one style."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpejit
from bpejit import arguments
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder

TEXT = "low lower lowest, new newer newest. " * 20


class World:
    """Objects that the calls below use."""

    def __init__(self, folder: Path) -> None:
        self.corpus = folder / "corpus.txt"
        self.corpus.write_text(TEXT, encoding="utf-8")
        self.tokenizer = bpejit.train(self.corpus, vocab_size=280)
        self.subwords = SubwordTextEncoder.build_from_generator([TEXT], 40)

    def train(self, inputs: Any = None, **options: Any) -> Any:
        return bpejit.train(inputs or self.corpus, **{"vocab_size": 270, **options})

    def train_bpe(self, *args: Any, **options: Any) -> Any:
        return bpejit.train_bpe(self.corpus, *args, **options)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("arguments"))


WRONG = [
    (lambda w: w.train(vocab_size="500"), "vocab_size is '500', a str; expected a whole number from 257 up"),
    (lambda w: w.train(vocab_size=500.0), "vocab_size is 500.0, a float; expected a whole number from 257 up"),
    (lambda w: w.train(vocab_size=None), "vocab_size is None; expected a whole number from 257 up"),
    (lambda w: w.train(vocab_size=True), "vocab_size is True, a bool; expected a whole number"),
    (lambda w: bpejit.train(w.corpus), "argument: 'vocab_size'; expected inputs, vocab_size"),
    (lambda w: w.train(special_tokens="<|e|>"), "special_tokens is '<|e|>', a str; expected a list of str: give ['<|e|>']"),
    (lambda w: w.train(special_tokens=None), "special_tokens is None; expected a list of str: give a list, [] for none"),
    (lambda w: w.train(special_tokens={"a", "b"}), "a set; expected a list of str, whose order gives the ids"),
    (lambda w: w.train(special_tokens=["a", b"b"]), "special_tokens[1] is b'b', bytes; expected a str"),
    (lambda w: w.train(special_tokens={"a": 1}), "special_tokens is {'a': 1}, a dict; expected a list of str"),
    (lambda w: w.train(num_processes=4), "train() has no argument 'num_processes'; expected workers: use workers="),
    (lambda w: w.train(colour="red"), "train() has no argument 'colour'"),
    (lambda w: w.train(pattern=None), "pattern is None; expected the name of a preset"),
    (lambda w: w.train(tie_break=1), "tie_break is 1, an int; expected one of 'greatest-bytes'"),
    (lambda w: w.train(min_frequency="2"), "min_frequency is '2', a str; expected a whole number from 1 up"),
    (lambda w: w.train(max_token_bytes=2.5), "max_token_bytes is 2.5, a float; expected a whole number from 1 up"),
    (lambda w: w.train(normalize_newlines="no"), "normalize_newlines is 'no', a str; expected True or False"),
    (lambda w: w.train(special_tokens_first=1), "special_tokens_first is 1, an int; expected True or False"),
    (lambda w: w.train(unicode=16.0), "unicode is 16.0, a float; expected a str"),
    (lambda w: w.train(workers="2"), "workers is '2', a str; expected a whole number from 1 up"),
    (lambda w: w.train(engine=None), "engine is None; expected one of 'auto'"),
    (lambda w: w.train(chunk_bytes=1.0), "chunk_bytes is 1.0, a float; expected a whole number from 1 to"),
    (lambda w: w.train(progress="bar"), "progress is 'bar', a str; expected True, or a function"),
    (lambda w: w.train(5), "inputs is 5, an int; expected a path, or a list of paths"),
    (lambda w: w.train(b"corpus.txt"), "inputs is b'corpus.txt', bytes; expected a path"),
    (lambda w: w.train([w.corpus, None]), "inputs[1] is None; expected a path"),
    (lambda w: w.train_bpe(270, "<|endoftext|>"), "special_tokens is '<|endoftext|>', a str; expected a list of str"),
    (lambda w: w.train_bpe("270", []), "vocab_size is '270', a str; expected a whole number from 256 up"),
    (lambda w: w.train_bpe(270, [], num_processes=4), "train_bpe() has no argument 'num_processes'"),
    (lambda w: w.train_bpe(270, [], colour="red"), "train_bpe() has no argument 'colour'"),
    (lambda w: bpejit.train_bpe(None, 270, []), "input_path is None; expected a path"),
    (lambda w: w.tokenizer.encode(None), "text is None; expected text, as a str or bytes"),
    (lambda w: w.tokenizer.encode(["a"]), "text is ['a'], a list; expected text"),
    (lambda w: w.tokenizer.encode(np.zeros(3)), "with items of format 'd'; expected text, as a str or bytes"),
    (lambda w: w.tokenizer.encode(np.zeros((2, 2), np.uint8)), "an array of 2 dimensions"),
    (lambda w: w.tokenizer.encode_array(5), "text is 5, an int; expected text"),
    (lambda w: w.tokenizer.encode_ordinary(None), "text is None; expected text"),
    (lambda w: w.tokenizer.encode_with_offsets(None), "text is None; expected text"),
    (lambda w: w.tokenizer.encode_batch("abc"), "texts is 'abc', a str; expected a list of texts"),
    (lambda w: w.tokenizer.encode_batch(["a", None]), "texts[1] is None; expected text"),
    (lambda w: w.tokenizer.encode_iterable(None), "iterable is None; expected a list of texts"),
    (lambda w: list(w.tokenizer.encode_iterable(["a", 1])), "iterable[1] is 1, an int; expected text"),
    (lambda w: w.tokenizer.encode_segments(None), "segments is None; expected pairs"),
    (lambda w: w.tokenizer.encode_segments([(5, True)]), "segments[0][0] is 5, an int; expected text"),
    (lambda w: w.tokenizer.encode_segments_with_offsets([("a", 1)]), "segment 0 is ('a', 1); expected a pair"),
    (lambda w: w.tokenizer.encode("a", allowed_special=5), "allowed_special is 5, an int; expected 'all' or a set"),
    (lambda w: w.tokenizer.encode("a", disallowed_special="x"), "disallowed_special is 'x'; expected 'all' or a set"),
    (lambda w: w.tokenizer.encode_files(w.corpus, 5), "out is 5, an int; expected a path"),
    (lambda w: w.tokenizer.encode_files(w.corpus, "x", dtype=16), "dtype is 16, an int; expected one of 'auto'"),
    (lambda w: w.tokenizer.encode_files(w.corpus, "x", workers=1.5), "workers is 1.5, a float; expected a whole number"),
    (lambda w: w.tokenizer.decode(5), "ids is 5, an int; expected a list of token ids"),
    (lambda w: w.tokenizer.decode("abc"), "ids is 'abc', a str; expected a list of token ids"),
    (lambda w: w.tokenizer.decode(b"abc"), "ids is b'abc', bytes; expected a list of token ids"),
    (lambda w: w.tokenizer.decode(np.array(5)), "ids is array(5), an ndarray; expected a list of token ids"),
    (lambda w: w.tokenizer.decode_bytes(None), "ids is None; expected a list of token ids"),
    (lambda w: w.tokenizer.decode([1], errors=None), "errors is None; expected a str"),
    (lambda w: w.tokenizer.decode_stream(7), "ids is 7, an int; expected a list of token ids"),
    (lambda w: w.tokenizer.stream_decoder().feed("abc"), "ids is 'abc', a str; expected a list of token ids"),
    (lambda w: w.tokenizer.decode_file(None, "x"), "path is None; expected a path"),
    (lambda w: w.tokenizer.decode_file("x", None), "out is None; expected a path"),
    (lambda w: w.tokenizer.save(None), "path is None; expected a path"),
    (lambda w: w.tokenizer.save("x", format=5), "format is 5, an int; expected one of 'bpejit'"),
    (lambda w: w.tokenizer.save("x", legacy_merges="y"), "legacy_merges is 'y', a str; expected True or False"),
    (lambda w: w.tokenizer.as_tiktoken(5), "name is 5, an int; expected a str"),
    (lambda w: bpejit.Tokenizer(None, []), "vocab is None; expected a dict of int to bytes"),
    (lambda w: bpejit.Tokenizer(w.tokenizer.vocab, None), "merges is None; expected a list of pairs of bytes"),
    (lambda w: bpejit.Tokenizer(w.tokenizer.vocab, [], "x"), "special_tokens is 'x', a str; expected a list of str"),
    (lambda w: bpejit.Tokenizer(w.tokenizer.vocab, [], pattern=5), "pattern is 5, an int; expected the name of a preset"),
    (lambda w: bpejit.Tokenizer.from_files(None, "x"), "vocab_filepath is None; expected a path"),
    (lambda w: bpejit.Tokenizer.from_model(None), "model is None; expected a Model"),
    (lambda w: bpejit.load(None), "path is None; expected a path"),
    (lambda w: bpejit.load("x", special_tokens="<|e|>"), "special_tokens is '<|e|>', a str; expected a list of str"),
    (lambda w: bpejit.load("x", special_tokens={"<|e|>": "1"}), "special_tokens['<|e|>'] is '1', a str; expected a whole"),
    (lambda w: bpejit.load("x", pattern=5), "pattern is 5, an int; expected the name of a preset"),
    (lambda w: bpejit.open_tokens(None), "path is None; expected a path"),
    (lambda w: bpejit.open_tokens("x", dtype=16), "dtype is 16, an int; expected one of 'uint16', 'uint32'"),
    (lambda w: bpejit.verify(None, w.corpus, against="tokenizers"), "tokenizer is None; expected a Tokenizer"),
    (lambda w: bpejit.verify(w.tokenizer, w.corpus, against=None), "against is None; expected one of 'tokenizers'"),
    (lambda w: w.tokenizer.as_tiktoken().encode(None), "text is None; expected text"),
    (lambda w: w.tokenizer.as_tiktoken().encode_batch("abc"), "texts is 'abc', a str; expected a list of texts"),
    (lambda w: w.subwords.encode(None), "s is None; expected text, as a str or bytes"),
    (lambda w: list(w.subwords.encode_lines("abc")), "data is 'abc', a str; expected bytes"),
    (lambda w: w.subwords.decode(None), "ids is None; expected a list of token ids"),
    (lambda w: SubwordTextEncoder(5), "filename is 5, an int; expected a path"),
    (lambda w: SubwordTextEncoder.build_from_generator("abc", 40), "generator is 'abc', a str; expected a list of texts"),
    (lambda w: SubwordTextEncoder.build_from_generator(["abc"], "40"), "target_size is '40', a str; expected a whole number"),
    (lambda w: SubwordTextEncoder.build_to_target_size(40, None, 1, 9), "token_counts is None; expected a dict"),
    (lambda w: w.subwords.store_to_file(None), "filename is None; expected a path"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_types_are_refused(call: Any, message: str, world: World) -> None:
    with pytest.raises(bpejit.ArgumentTypeError, match=re.escape(message)) as caught:
        call(world)
    assert isinstance(caught.value, TypeError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda w: w.train(vocab_size=10), bpejit.TrainingError, "vocab_size is 10; expected a whole number from 257 up"),
        (lambda w: w.train(chunk_bytes=0), bpejit.OptionError, "chunk_bytes is 0; expected a whole number from 1 to"),
        (
            lambda w: w.tokenizer.encode_files(w.corpus),
            bpejit.OptionError,
            "neither of out and out_dir are given; expected one",
        ),
        (lambda w: w.tokenizer.decode([1], errors="skip"), bpejit.OptionError, "errors is 'skip'; expected 'replace'"),
        (lambda w: w.tokenizer.decode([1.5]), bpejit.TokenIdError, "1.5 (at position 0) is not a token id"),
        (lambda w: w.subwords.decode(["a"]), bpejit.TokenIdError, "'a' at position 0 is not an id"),
        (lambda w: w.subwords.encode(b"\xff"), bpejit.CorpusError, "s is not valid UTF-8 at byte 0"),
        (lambda w: bpejit.load(""), bpejit.TokenizerFormatError, "path is empty; expected a path"),
        (lambda w: bpejit.load("a\0b"), bpejit.TokenizerFormatError, "path is 'a\\x00b', which cannot be a path"),
        (lambda w: bpejit.verify(w.tokenizer, w.corpus, against="x"), bpejit.OptionError, "against is 'x'; expected one of"),
    ],
)
def test_wrong_values_are_refused(call: Any, error: type[Exception], message: str, world: World) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(world)


@pytest.mark.parametrize("text", ["It was a dark night.\nThe end.", "How are you today?", "word " * 2000, "one two three four"])
def test_text_instead_of_path_is_recognized(text: str) -> None:
    with pytest.raises(bpejit.CorpusError, match="write the text to a file, and give its path"):
        bpejit.train(text, vocab_size=300)


def test_num_processes_is_alias_of_workers(world: World) -> None:
    with pytest.raises(bpejit.ArgumentTypeError, match="use workers="):
        world.train_bpe(270, [], num_processes=4)


def test_numpy_integers_are_accepted(world: World) -> None:
    found = world.train(vocab_size=np.int64(265), min_frequency=np.uint8(1), normalize_newlines=np.bool_(False))
    assert found.vocab == world.train(vocab_size=265).vocab
    assert world.tokenizer.decode(np.array([104, 105], dtype=np.uint64)) == "hi"


KINDS = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "uint8": lambda data: np.frombuffer(data, dtype=np.uint8),
    "strided": lambda data: np.frombuffer(bytes(2 * len(data)), dtype=np.uint8).copy()[::2] + np.frombuffer(data, np.uint8),
    "backwards": lambda data: memoryview(data[::-1])[::-1],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", ["gpt2", r"(?<=l)o|.+?"], ids=["automaton", "regex"])
def test_every_method_accepts_bytes_like_objects(kind: str, pattern: str, world: World) -> None:
    tokenizer = world.train(pattern=pattern)
    data = "low <|endoftext|> é ".encode() + b"\xff new"
    given = KINDS[kind](data)
    ids = tokenizer.encode(data)
    assert tokenizer.encode(given) == ids
    assert tokenizer.encode(given, allowed_special="all") == ids
    assert tokenizer.encode_array(given).tolist() == ids
    assert tokenizer.encode_ordinary(given) == tokenizer.encode_ordinary(data)
    assert tokenizer.encode_batch([given, given], disallowed_special=()).ids.tolist() == 2 * tokenizer.encode_ordinary(data)
    assert list(tokenizer.encode_iterable([given])) == ids
    assert tokenizer.encode_segments([(given, True)]) == ids
    for found, expected in zip(tokenizer.encode_with_offsets(given), tokenizer.encode_with_offsets(data), strict=True):
        assert found.tolist() == expected.tolist()
    located = tokenizer.encode_segments_with_offsets([(given, True)])[0]
    assert located.char_ends.tolist() == tokenizer.encode_with_offsets(data).char_ends.tolist()
    with pytest.raises(bpejit.SpecialTokenError):
        tokenizer.encode_with_offsets(given, disallowed_special="all")


@pytest.mark.parametrize("value", [0, -1, 2**70, np.int8(5)])
def test_whole_number(value: Any) -> None:
    found = arguments.whole_number("n", value)
    assert found == value
    assert type(found) is int


def test_progress_line(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = Path(world.corpus).stat().st_size
    tokenizer = bpejit.train(world.corpus, vocab_size=260, progress=True)
    shown = capsys.readouterr().err
    assert f"count: 100 % of {size:,} bytes\n" in shown
    assert shown.endswith(" merges\n")
    tokenizer.encode_files(world.corpus, tmp_path / "tokens.bin", progress=True)
    assert capsys.readouterr().err.endswith(f"encode: 100 % of {size:,} bytes\n")
    bpejit.train(world.corpus, vocab_size=260, progress=False)
    line = arguments.progress(True)
    line("read", 5, None, "bytes")
    line("read", 6, None, "bytes")  # too early to be shown
    line("write", 3, 10, "tokens")
    line("write", 10, 10, "tokens")
    line("write", 10, 10, "tokens")
    del line
    assert capsys.readouterr().err == "\rread: 5 bytes\nwrite: 30 % of 10 tokens\rwrite: 100 % of 10 tokens\n"
    line = arguments.progress(True)
    line("read", 5, None, "bytes")
    del line
    assert capsys.readouterr().err == "\rread: 5 bytes\n"
