"""Tests of messages: they are short, say what to do, and name options in commands and parameters in Python."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from helpers.cli import MODULE, invoke

import bpejit
from bpejit.errors import shorten
from bpejit.t2t.subword_files import count_tokens
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder

with_option_names = __import__(f"{MODULE}.reporting", fromlist=["with_option_names"]).with_option_names

MOST = 2000
"""The maximum length of a message in characters."""

LONG = "(word and \\ quote ' " * 250
HUGE: list[Any] = [
    LONG,
    LONG.encode(),
    10**4000,
    -(10**5000),
    [LONG] * 50,
    {LONG: LONG},
    (LONG, 1),
    {LONG},
    "\0" * 5000,
    1e300,
]


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus = folder / "corpus.txt"
        self.corpus.write_text("low lower lowest " * 20, encoding="utf-8")
        self.tokenizer = bpejit.train(self.corpus, vocab_size=270)
        self.hf = self.tokenizer.as_hf(pad_token="<|endoftext|>")
        self.subwords = SubwordTextEncoder.build_from_generator(["low lower"], 40)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("messages"))


OPTIONS = (
    *("vocab_size", "special_tokens", "pattern", "tie_break", "min_frequency", "max_token_bytes", "normalize_newlines"),
    *("special_tokens_first", "unicode", "input_format", "workers", "engine", "chunk_bytes", "progress"),
)

CALLS: dict[str, Any] = {
    **{
        f"train {name}": lambda w, value, name=name: bpejit.train(w.corpus, **{"vocab_size": 260, name: value})
        for name in OPTIONS
    },
    "train inputs": lambda w, value: bpejit.train(value, vocab_size=260),
    "train keyword": lambda w, value: bpejit.train(w.corpus, **{str(value)[:100_000]: 1}) if isinstance(value, str) else None,
    "train special token": lambda w, value: bpejit.train(w.corpus, vocab_size=256, special_tokens=[value]),
    "train_bpe": lambda w, value: bpejit.train_bpe(value, value, value),
    "load": lambda w, value: bpejit.load(value),
    "load options": lambda w, value: bpejit.load(w.corpus, pattern=value, special_tokens=value, unicode=value),
    "Tokenizer vocab": lambda w, value: bpejit.Tokenizer({0: value}, []),
    "Tokenizer vocab ids": lambda w, value: bpejit.Tokenizer({**w.tokenizer.vocab, shorten(value, 3000): b"x"}, []),
    "Tokenizer merges": lambda w, value: bpejit.Tokenizer(w.tokenizer.vocab, [(value, b"x")]),
    "Tokenizer wrong merges": lambda w, value: bpejit.Tokenizer(w.tokenizer.vocab, [(LONG.encode(), b"x")]),
    "Tokenizer specials": lambda w, value: bpejit.Tokenizer(w.tokenizer.vocab, [], [value]),
    "from_files": lambda w, value: bpejit.Tokenizer.from_files(value, value),
    "encode": lambda w, value: w.tokenizer.encode(value, allowed_special=value),
    "encode disallowed": lambda w, value: w.tokenizer.encode(LONG, disallowed_special={LONG}),
    "encode_batch": lambda w, value: w.tokenizer.encode_batch(value),
    "encode_iterable": lambda w, value: list(w.tokenizer.encode_iterable([value, 5])),
    "encode_segments": lambda w, value: w.tokenizer.encode_segments([value]),
    "encode_files": lambda w, value: w.tokenizer.encode_files(value, value),
    "encode_files out": lambda w, value: w.tokenizer.encode_files(w.corpus, value),
    "encode_files dtype": lambda w, value: w.tokenizer.encode_files(w.corpus, "x", dtype=value),
    "decode": lambda w, value: w.tokenizer.decode(value),
    "decode ids": lambda w, value: w.tokenizer.decode([value]),
    "decode errors": lambda w, value: w.tokenizer.decode([1], errors=value),
    "decode_file": lambda w, value: w.tokenizer.decode_file(value, value),
    "save": lambda w, value: w.tokenizer.save(value),
    "save format": lambda w, value: w.tokenizer.save("x", format=value),
    "open_tokens": lambda w, value: bpejit.open_tokens(value),
    "verify": lambda w, value: bpejit.verify(w.tokenizer, value, against="tokenizers"),
    "verify against": lambda w, value: bpejit.verify(w.tokenizer, w.corpus, against=value),
    "as_hf": lambda w, value: w.tokenizer.as_hf(pad_token=value),
    "hf": lambda w, value: w.hf(value),
    "hf padding": lambda w, value: w.hf("a", padding=value if isinstance(value, str) else "x"),
    "hf decode": lambda w, value: w.hf.decode([value] if not isinstance(value, (list, tuple)) else value),
    "tiktoken token": lambda w, value: w.tokenizer.as_tiktoken().encode_single_token(value),
    "tiktoken decode": lambda w, value: w.tokenizer.as_tiktoken().decode([value]),
    "subword encode": lambda w, value: w.subwords.encode(value),
    "subword decode": lambda w, value: w.subwords.decode([value]),
    "subword build": lambda w, value: SubwordTextEncoder.build_from_generator(["a"], value, value, value),
    "subword counts": lambda w, value: SubwordTextEncoder.build_to_target_size(30, {LONG: value}, 1, 9),
    "subword load": lambda w, value: SubwordTextEncoder(value),
}


@pytest.mark.parametrize("name", CALLS)
def test_messages_shorten_quoted_values(name: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.folder)
    errors: list[Exception] = []
    for value in HUGE:
        try:
            CALLS[name](world, value)
        except (bpejit.BpejitError, TypeError, ValueError) as error:
            errors.append(error)
    assert errors
    assert max(len(str(error)) for error in errors) < MOST
    if name not in ("hf decode", "hf", "tiktoken token"):
        assert [error for error in errors if not isinstance(error, bpejit.BpejitError)] == []


JSON_FIELDS = (
    *("version", "model.type", "model.vocab.x", "model.merges.0", "model.unk_token", "added_tokens.0.content"),
    *("added_tokens.0.id", "added_tokens.0.lstrip", "pre_tokenizer.type", "normalizer", "post_processor.type", "decoder"),
)


@pytest.mark.parametrize("field", JSON_FIELDS)
def test_messages_about_tokenizer_json_are_short(field: str, world: World, tmp_path: Path) -> None:
    world.tokenizer.save(tmp_path / "saved")
    for value in (LONG, {"type": LONG}, {"type": "Sequence", LONG: LONG}, [LONG, LONG], 10**4000, [[LONG, LONG]]):
        message = ""
        content = json.loads((tmp_path / "saved" / "tokenizer.json").read_text(encoding="utf-8"))
        *path, last = field.split(".")
        target = content
        for key in path:
            target = target[int(key)] if key.isdigit() else (target[key] or target.setdefault(key, {}) or {})
        if isinstance(target, list):
            target[int(last)] = value
        else:
            target[last] = value
        file = tmp_path / "tokenizer.json"
        file.write_text(json.dumps(content), encoding="utf-8")
        try:
            bpejit.load(file)
        except bpejit.BpejitError as error:
            message = str(error)
        assert len(message) < MOST + len(str(file))


def test_count_with_thousands_of_digits_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "counts.tsv"
    for count in ("9" * 5000, "1" + "0" * 15, "x"):
        path.write_text(f"low\t3\nlower\t{count}\n", encoding="utf-8")
        with pytest.raises(bpejit.CorpusError, match=r"counts.tsv`, line 2: .* with a count below 10\^15"):
            count_tokens(path)
    path.write_text(f"low\t{'9' * 15}\nlower\t{'0' * 5000}7\n", encoding="utf-8")
    assert count_tokens(path) == {"low": 10**15 - 1, "lower": 7}


def test_info_quotes_special_tokens(world: World, tmp_path: Path) -> None:
    bpejit.train(world.corpus, vocab_size=261, special_tokens=["<|e|>", " ", "\t\n", "\u00a0x"]).save(tmp_path / "t")
    shown = invoke("info", tmp_path / "t").output
    assert "special tokens  '<|e|>' = 257, ' ' = 258, '\\t\\n' = 259, '\\u00a0x' = 260\n" in shown


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "cl100k_base",
            "`curl -o cl100k_base.tiktoken https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken` writes",
        ),
        ("o200k_harmony", "/encodings/o200k_base.tiktoken` writes"),
        ("p50k_edit", "`cp stored/ec7223a39ce59f226a68acc30dc1af2788490e15 p50k_edit.tiktoken`"),
        ("gpt-4o", "a model with the vocabulary o200k_base of tiktoken"),
        ("gpt2", "pass `hf:openai-community/gpt2` for the Hugging Face Hub"),
        ("llama3", "`llama3` is the name of a split pattern, not a file"),
        ("meta-llama/Llama-3.1-8B", "for the Hugging Face Hub pass `hf:meta-llama/Llama-3.1-8B`"),
    ],
)
def test_names_that_are_not_files(name: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "stored")
    (tmp_path / "stored").mkdir()
    (tmp_path / "stored" / "ec7223a39ce59f226a68acc30dc1af2788490e15").write_bytes(b"")  # where tiktoken stores p50k_base
    (tmp_path / "text").write_bytes(b"text")
    with pytest.raises(bpejit.TokenizerFormatError, match=re.escape(expected)):
        bpejit.load(name)
    for command in (["encode", "text", "--out", "x", "--tokenizer", name], ["info", name]):
        result = invoke(*command)
        assert result.exit_code == 1
        assert expected in result.stderr


def test_tokenizer_files_compressed_with_gzip(world: World, tmp_path: Path) -> None:
    world.tokenizer.save(tmp_path / "mine.tiktoken", format="tiktoken")
    world.tokenizer.save(tmp_path / "folder")
    ranks = (tmp_path / "mine.tiktoken").read_bytes()
    expected = world.tokenizer.encode("low lower <|endoftext|>")
    (tmp_path / "mine.tiktoken.gz").write_bytes(gzip.compress(ranks[:1000]) + gzip.compress(ranks[1000:]))
    (tmp_path / "some").write_bytes(gzip.compress(ranks))
    (tmp_path / "tokenizer.json.gz").write_bytes(gzip.compress((tmp_path / "folder" / "tokenizer.json").read_bytes()))
    assert bpejit.load(tmp_path / "mine.tiktoken.gz").encode("low lower <|endoftext|>") == expected  # its sidecar, too
    found = bpejit.load(tmp_path / "some", pattern="gpt2", special_tokens=world.tokenizer.special_tokens)
    assert found.encode("low lower <|endoftext|>") == expected
    assert bpejit.load(tmp_path / "tokenizer.json.gz").encode("low lower <|endoftext|>") == expected
    (tmp_path / "cut.tiktoken.gz").write_bytes(gzip.compress(ranks)[:-9])
    with pytest.raises(bpejit.TokenizerFormatError, match="is compressed with gzip and broken: it is truncated"):
        bpejit.load(tmp_path / "cut.tiktoken.gz", pattern="gpt2")
    (tmp_path / "bad.tiktoken.gz").write_bytes(b"\x1f\x8b" + bytes(50))
    with pytest.raises(bpejit.TokenizerFormatError, match="is compressed with gzip and broken"):
        bpejit.load(tmp_path / "bad.tiktoken.gz", pattern="gpt2")


def test_messages_of_commands_name_options() -> None:
    command = click.Command(
        "train", params=[click.Option(["--vocab-size"]), click.Option(["--special-token", "special_tokens"])]
    )
    for python, shown in {
        "vocab_size is 3; expected more": "--vocab-size is 3; expected more",
        "special_tokens[0] is b'x', bytes": "--special-token[0] is b'x', bytes",
        "give `special_tokens=`, or `vocab_size=`": "give `--special-token`, or `--vocab-size`",
        'give `vocab_size="auto"`': "give `--vocab-size auto`",
        "give `vocab_size=True`": "give `--vocab-size`",
        "no `colour=` here": "no `colour=` here",
        "the vocab_size is left": "the vocab_size is left",
    }.items():
        assert with_option_names(python, command) == shown
    assert with_option_names("give `dtype=`", None) == "give `dtype=`"
