"""Training on symbols: interface, alphabets, `explain`, threads, and other trainers than Hugging Face's."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import twins
from conftest import data_text, examples, small
from helpers.cli import invoke
from helpers.training import table_of
from hypothesis import example, given, strategies as st

import bpejit
from bpejit.counting.counts import Counts
from bpejit.errors import BpejitError, OptionError, TrainingError
from bpejit.training.alphabets import SymbolTable, find_alphabet
from bpejit.training.merge_learner import MergeLearner
from bpejit.training.symbol_settings import METASPACE_PATTERN, SymbolSettings
from bpejit.training.tie_rules import tie_rule_names
from bpejit.training.tracing import PlainLearner
from bpejit.training.train_options import MergeSettings

HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}

TEXT = "the cat sat on the mat, the fat cat: größe 你好 你好吗 world\n"

Merges = list[tuple[bytes, bytes, int]]


def learn(
    counts: dict[bytes, int], n_merges: int, settings: SymbolSettings, rule: str = "hf", **threads: int
) -> tuple[Merges, np.ndarray]:
    """Return the merges of pre-tokens, and what the cells were filled with (see `fill_symbol_cells`)."""
    table = table_of(counts)
    alphabet = find_alphabet(table, settings, threads.get("workers", 1))
    merges = MergeSettings(rule, max_token_bytes=settings.most_characters)
    learner = MergeLearner(SymbolTable(table, alphabet), n_merges, merges, **threads)
    totals = learner.ranges.totals  # type: ignore[attr-defined]
    found = learner.run()
    strings, n = list(learner.token_strings()), len(alphabet.tokens)
    rows = zip(found.left.tolist(), found.right.tolist(), found.counts.tolist(), strict=True)
    return [(strings[left], strings[right], count) for left, right, count in list(rows)[n:]], totals


def train(text: str = TEXT, size: int = 60, **options: Any) -> bpejit.Tokenizer:
    return bpejit.train_from_iterator(iter([text]), vocab_size=size, **({"tie_break": "hf"} | options))


def test_the_textbook_example() -> None:
    options: dict[str, Any] = {"symbols": "characters", "word_end": "</w>", "tie_break": "hf"}
    record = bpejit.explain(words=HUGS, merges=2, **options).to_dict()
    assert [(merge["pair"], merge["count"]) for merge in record["merges"]] == [(["p", "u"], 17), (["h", "u"], 15)]
    text = " ".join(word for word, count in HUGS.items() for _ in range(count))
    tokenizer = train(text, 20, **options)
    tokens = [
        "b",
        "g",
        "h",
        "n",
        "p",
        "s",
        "u",
        "g</w>",
        "n</w>",
        "s</w>",
        "pu",
        "hu",
        "pun</w>",
        "hug</w>",
        "gs</w>",
        "pug</w>",
    ]
    assert [token.decode() for token in tokenizer.vocab.values()][:16] == tokens
    assert tokenizer.special_tokens == {"<|endoftext|>": 19}
    assert tokenizer.training["symbols"]["symbols"] == 10


words = st.text("ab é\u3000你▁", min_size=1, max_size=9)
tables = st.dictionaries(words, st.integers(1, 4), min_size=1, max_size=8)
settings_of_words = st.sampled_from(
    [
        SymbolSettings(characters=True),
        SymbolSettings(characters=True, limit=3),
        SymbolSettings(characters=True, word_end="</w>"),
        SymbolSettings(characters=True, word_end="</w>", most_characters=3),
        SymbolSettings(characters=True, metaspace=True, prefix_space=True, coverage=0.7),
        SymbolSettings(characters=False, word_end="</w>"),
    ]
)


@pytest.mark.parametrize("rule", tie_rule_names())
@examples(0.5)
@given(tables, settings_of_words)
@example({"a\udc80b": 3, "\udc80": 1}, SymbolSettings(characters=False, word_end="</w>"))
@example({"a\udc80b": 3, "\udc80": 1}, SymbolSettings(characters=True))
def test_explain_equals_the_kernels(rule: str, table: dict[str, int], settings: SymbolSettings) -> None:
    counts = {text.encode("utf-8", "surrogateescape"): count for text, count in table.items()}
    learner = PlainLearner(counts, MergeSettings(rule), settings)
    found = []
    while merge := learner.merge():
        left, right = (token.encode("utf-8", "surrogateescape") for token in merge["pair"])
        found.append((left, right, merge["count"]))
    assert found == learn(counts, 1000, settings, rule)[0]


@examples(0.5)
@given(tables, settings_of_words, st.integers(2, 4))
def test_threads(table: dict[str, int], settings: SymbolSettings, workers: int) -> None:
    counts = {text.encode(): count for text, count in table.items()}
    found = learn(counts, 1000, settings, workers=workers, least_cells=1, least_postings=1)
    expected = learn(counts, 1000, settings)
    assert found[0] == expected[0]
    assert found[1].tolist() == expected[1].tolist()


@pytest.mark.compiled
@pytest.mark.parametrize("options", [{"word_end": "</w>"}, {"metaspace": True, "limit_alphabet": 300}, {}], ids=str)
def test_workers_and_counts_do_not_matter(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(data_text("prose.txt")[:300_000] + data_text("cjk.txt")[:60_000])
    settings = {"vocab_size": 5000, "symbols": "characters", "unk_token": "<unk>", **options}
    first, *others = (bpejit.train(path, workers=workers, **settings) for workers in (1, 2, 3, 8))
    assert all(other.model == first.model for other in others)
    split = {"pattern": METASPACE_PATTERN} if "metaspace" in options else {}
    counts = bpejit.count(path, special_tokens=["<|endoftext|>", "<unk>"], **split)
    counts.save(tmp_path / "counts")
    assert bpejit.train_from_counts(Counts.load(tmp_path / "counts"), **settings).model == first.model


@given(st.dictionaries(st.sampled_from("abcé你▁\U0001f600"), st.integers(1, 9), min_size=1), st.data())
def test_characters_by_number_and_share(counts: dict[str, int], data: st.DataObject) -> None:
    table = table_of({one.encode() * 2: count for one, count in counts.items()})
    doubled = Counter({one: 2 * count for one, count in counts.items()})
    limit = data.draw(st.one_of(st.none(), st.integers(1, 8)))
    coverage = data.draw(st.floats(0.01, 1)) if limit is None else None
    alphabet = find_alphabet(table, SymbolSettings(characters=True, limit=limit, coverage=coverage))
    kept = twins.symbols.choose_alphabet(doubled, limit, coverage)
    assert [token.decode() for token in alphabet.tokens] == kept
    assert alphabet.left_out == len(counts) - len(kept)


def test_layout_of_llama() -> None:
    specials = ["<unk>", "<s>", "</s>"]
    options = {"metaspace": True, "prefix_space": True, "byte_fallback": True, "unk_token": "<unk>"}
    tokenizer = train(size=300, symbols="characters", special_tokens=specials, special_tokens_first=True, **options)
    assert tokenizer.special_tokens == {"<unk>": 0, "<s>": 1, "</s>": 2}
    symbols = tokenizer.model.symbols
    assert symbols is not None
    assert symbols.byte_ids == tuple(range(3, 259))
    assert list(tokenizer.vocab.values())[259:262] == [b"\n", b",", b":"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unk_token": "<unk>", "limit_alphabet": 15},
        {"byte_fallback": True, "character_coverage": 0.9},
        {"metaspace": True, "prefix_space": True, "byte_fallback": True, "limit_alphabet": 15},
    ],
    ids=str,
)
def test_decoding_and_numbers_of_tokens(options: dict[str, Any]) -> None:
    tokenizer = train(size=320, symbols="characters", **options)
    ids = tokenizer.encode(TEXT)
    number = tokenizer.training["tokens"]
    assert tokenizer.training["bytes_per_token"] == len(TEXT.encode()) / number
    left_out = tokenizer.training["symbols"]["left_out"]
    assert number == len(ids) if left_out == 0 else number < len(ids)
    if "unk_token" not in options:
        assert tokenizer.decode(ids) == TEXT


def test_a_special_token_shares_the_id_of_an_equal_token() -> None:
    with pytest.warns(bpejit.BpejitWarning, match="nothing was left"):
        tokenizer = bpejit.train_from_iterator(
            iter(["thexthexthe"]), vocab_size=40, symbols="characters", special_tokens=["the"], tie_break="hf"
        )
    assert tokenizer.model.ids[b"the"] == tokenizer.special_tokens["the"]
    assert sorted(tokenizer.model.tokens) == list(range(len(tokenizer.model.tokens)))


def test_no_special_tokens() -> None:
    tokenizer = bpejit.train_from_iterator(["hug pug"], vocab_size=8, symbols="characters", special_tokens=[])
    assert tokenizer.special_tokens == {}
    assert tokenizer.decode(tokenizer.encode("hug")) == "hug"


def test_sentencepiece_breaks_ties_by_length() -> None:
    """Its trainer has the same merges until two pairs are equally frequent: then the shorter token comes first."""
    sentencepiece = pytest.importorskip("sentencepiece")

    def theirs(lines: Iterator[str], vocab_size: int) -> list[str]:
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=out,
            model_type="bpe",
            vocab_size=vocab_size,
            character_coverage=1.0,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            split_by_unicode_script=False,
            split_by_number=False,
            minloglevel=2,
        )
        processor = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
        pieces = [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]
        return [piece for piece in pieces if len(piece) > 1]

    def own(lines: Iterator[str], vocab_size: int) -> tuple[list[str], list[int]]:
        options = {"symbols": "characters", "metaspace": True, "prefix_space": True, "special_tokens": []}
        model = bpejit.train_from_iterator(lines, vocab_size=vocab_size, tie_break="hf", **options).model
        return [(left + right).decode().replace(" ", "▁") for left, right in model.merges], list(model.merge_counts or ())

    lines = [line for line in data_text("prose.txt")[: small(200_000, 5_000)].decode().split("\n") if line.strip()]
    found, counts = own(iter(lines), 400)
    tie = next(number for number, (one, other) in enumerate(pairwise(counts)) if one == other)
    assert tie > small(20, 3)
    assert theirs(iter(lines), 400)[:tie] == found[:tie]
    hugs = ["hug"] * 1000 + ["pug"] * 210
    assert own(iter(hugs), 7)[0] == ["ug", "hug"]
    assert theirs(iter(hugs), 10)[:2] == ["ug", "▁h"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"symbols": "words"}, OptionError, "symbols is 'words'; expected one of 'bytes', 'characters'"),
        ({"metaspace": True}, OptionError, 'metaspace is given, and symbols is "bytes"; expected "characters"'),
        (
            {"symbols": "characters", "limit_alphabet": 5, "character_coverage": 0.9},
            OptionError,
            "expected at most one of them",
        ),
        (
            {"symbols": "characters", "word_end": "</w>", "byte_fallback": True},
            OptionError,
            "word_end and byte_fallback are given",
        ),
        ({"symbols": "characters", "word_end": "</w>", "metaspace": True}, OptionError, "word_end and metaspace are given"),
        (
            {"symbols": "characters", "max_token_bytes": 5, "max_token_characters": 5},
            OptionError,
            "max_token_bytes and max_token_characters are given",
        ),
        ({"symbols": "characters", "prefix_space": True}, OptionError, "prefix_space is True, and metaspace is False"),
        (
            {"symbols": "characters", "character_coverage": 1.5},
            OptionError,
            "character_coverage is 1.5; expected a number above 0",
        ),
        ({"word_end": "< w>"}, OptionError, "word_end is '< w>'; expected a text without white space and surrogates"),
        (
            {"symbols": "characters", "metaspace": True, "pattern": "cl100k"},
            TrainingError,
            "pattern is 'cl100k', and metaspace",
        ),
        ({"symbols": "characters", "size": 20}, TrainingError, "vocab_size is 20, and the text has"),
        ({"symbols": "characters", "size": 0}, TrainingError, "vocab_size is 0; expected a whole number from 2 up"),
        ({"word_end": "</w>", "size": 500}, TrainingError, "space for the 512 bytes and 1 special token"),
        ({"symbols": "characters", "word_end": "a"}, TrainingError, "two tokens are written 'ba', since the text contains 'a'"),
    ],
    ids=str,
)
def test_wrong_calls(options: dict[str, Any], error: type[BpejitError], message: str) -> None:
    text = "bax bay bax b" if options.get("word_end") == "a" else TEXT
    with pytest.raises(error, match=re.escape(message)):
        train(text, **options)


def test_counts_with_another_pattern(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text(TEXT)
    counts = bpejit.count(tmp_path / "corpus.txt")
    with pytest.raises(TrainingError, match=r"the counts were made with the pattern 'gpt2'; expected '\[ "):
        bpejit.train_from_counts(counts, vocab_size=60, symbols="characters", metaspace=True)


def test_smaller_sizes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text(TEXT)
    with pytest.raises(OptionError, match="also has the size 300, and pre-tokens do not begin as bytes alone"):
        bpejit.train(tmp_path / "corpus.txt", vocab_size=320, symbols="characters", out=tmp_path / "out", also=[300])


def test_commands(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text(TEXT)
    options = ["--symbols", "characters", "--metaspace", "--byte-fallback", "--character-coverage", "0.9"]
    done = invoke(
        "train", tmp_path / "corpus.txt", "--vocab-size", 300, "--out", tmp_path / "out", *options, "--tie-break", "hf"
    )
    assert done.exit_code == 0, done.output
    expected = train(size=300, symbols="characters", metaspace=True, byte_fallback=True, character_coverage=0.9)
    assert bpejit.load(tmp_path / "out").vocab == expected.vocab
    refused = invoke("train", tmp_path / "corpus.txt", "--vocab-size", 300, "--out", tmp_path / "new", "--metaspace")
    assert refused.exit_code == 1
    assert '--metaspace is given, and symbols is "bytes"' in refused.output
