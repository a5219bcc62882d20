"""Superwords: training compared with the twin, in any division of the work, and what is refused."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import regex
import tokenizers
import twins
from conftest import data_text, read_shared, small
from helpers.training import table_of
from hypothesis import given, strategies as st

import bpejit
from bpejit import CountsError, OptionError, TrainingError
from bpejit.arrays import padded_text
from bpejit.counting.pretoken_counter import PretokenCounter
from bpejit.kernels.counting.word_runs import JOINS, find_runs
from bpejit.splitting.pattern_compiler import joined_words
from bpejit.splitting.presets import PRESETS, stages_of
from bpejit.training.tie_rules import tie_rule_names

LINES = r"[^\n]+|\n+"
texts = st.lists(st.sampled_from(["the", " the", " of", "a", " a", "'s", "b, ", "1", "\n", " ", "\xe9", "(", "A"]), max_size=40)
ascii_words = st.lists(st.text("ab ", min_size=1, max_size=3).map(str.encode), min_size=1, max_size=8)


def sequences(corpus: list[str], pattern: str, joined: str) -> twins.superwords.Words:
    """Return the pre-tokens of texts as words, by the `regex` package."""
    outer, inner = regex.compile(joined, regex.V1), regex.compile(pattern, regex.V1)
    found = Counter(piece for text in corpus for piece in twins.splitting.split_piece(text, outer) if piece)
    return [([word.encode() for word in twins.splitting.split_piece(piece, inner) if word], n) for piece, n in found.items()]


@given(st.lists(st.tuples(ascii_words, st.integers(1, 9)), min_size=1, max_size=8), st.sets(st.sampled_from("ab ")), st.data())
def test_runs(pretokens: twins.superwords.Words, firsts: set[str], data: st.DataObject) -> None:
    known = data.draw(st.sets(st.sampled_from([word for words, _ in pretokens for word in words])))
    ids = {word: number for number, word in enumerate(sorted(known))}
    joins = {(ord(left), ord(right)) for left in "a " for right in firsts}
    counter = PretokenCounter()
    if ids:
        counter.add_table(table_of({word: number + 1 for word, number in ids.items()}))
    joined = np.zeros(JOINS, np.uint8)
    joined[[256 * left + right for left, right in joins]] = 1
    words = [word for words, _ in pretokens for word in words]
    text, _ = padded_text(b"".join(words))
    stops = np.cumsum([len(b"".join(words)) for words, _ in pretokens])
    ends = np.cumsum([len(word) for word in words]).astype(np.uint32)
    found, run_ends, run_counts = np.empty(ends.size, np.uint32), *np.empty((2, ends.size // 2), np.int64)
    counts = np.array([count for _, count in pretokens])
    n = find_runs(text, ends, stops, counts, *counter.take_slots(), joined, found, run_ends, run_counts)
    runs = [part.tolist() for part in np.split(found, run_ends[:n])[:-1]] if n else []
    assert list(zip(runs, run_counts[:n].tolist(), strict=True)) == twins.superwords.find_runs(pretokens, ids, joins)


settings = st.fixed_dictionaries(
    {
        "pattern": st.sampled_from(["gpt2", "cl100k", "o200k"]),
        "superword_pattern": st.sampled_from([None, LINES]),
        "max_words": st.sampled_from([None, 2, 3]),
        "tie_break": st.sampled_from(tie_rule_names()),
        "min_frequency": st.sampled_from([1, 2]),
        "workers": st.sampled_from([1, 2]),
    }
)


def check_against_the_twin(corpus: list[str], n_words: int, n_more: int, kind: str, options: dict[str, Any]) -> None:
    joined = options["superword_pattern"] or joined_words(options["pattern"])
    pretokens = sequences(corpus, PRESETS[options["pattern"]], joined)
    how = options["tie_break"], options["min_frequency"], options["max_words"]
    if kind == "super":
        expected = twins.superwords.learn_super(pretokens, n_words, n_more, *how)
    else:
        expected = twins.superwords.learn_boundless(pretokens, n_words + n_more, *how)
    size = {"vocab_size": 257 + n_words + n_more, **({"transition": 257 + n_words} if kind == "super" else {})}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there may be fewer merges
        try:
            model = bpejit.train(iter(corpus), superwords=kind, **size, **options).model
        except TrainingError:  # there are no superwords to learn
            assert not twins.superwords.learn_both(pretokens, len(expected), 1, how[0], 1, None)[1]
            return
    assert [(*pair, count) for pair, count in zip(model.merges, model.merge_counts, strict=True)] == expected
    assert model.pattern == joined


@given(
    st.lists(texts.map("".join).filter(len), min_size=1, max_size=5),
    st.integers(0, 30),
    st.integers(0, 20),
    st.sampled_from(["super", "super", "boundless"]),
    settings,
)
def test_merges_are_those_of_the_twin(corpus: list[str], n_words: int, n_more: int, kind: str, options: dict[str, Any]) -> None:
    check_against_the_twin(corpus, n_words, n_more, kind, options)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["super", "boundless"])
def test_merges_of_prose_are_those_of_the_twin(kind: str) -> None:
    corpus = data_text("prose.txt")[:50_000].decode().split("\n\n")
    options = {"pattern": "cl100k", "superword_pattern": None, "max_words": 3, "tie_break": "hf", "min_frequency": 2}
    check_against_the_twin(corpus, 400, 200, kind, options)


def merged_by_index(runs: list[list[int]], counts: list[int], tokens: list[bytes], n_merges: int) -> list[tuple[int, int, int]]:
    """Merge the most frequent pair again and again, with the runs of each pair, of which the twin has no list."""
    totals: Counter[tuple[int, int]] = Counter()
    places: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    for number, (run, count) in enumerate(zip(runs, counts, strict=True)):
        for pair in pairwise(run):
            totals[pair] += count
            places[pair].add(number)
    merges = []
    for _ in range(n_merges):
        most = max(totals.values())
        best = max((pair for pair, n in totals.items() if n == most), key=lambda pair: (tokens[pair[0]], tokens[pair[1]]))
        merges.append((*best, most))
        for number in list(places[best]):
            totals.subtract({pair: n * counts[number] for pair, n in Counter(pairwise(runs[number])).items()})
            runs[number] = twins.training.replace_pair(runs[number], best, len(tokens))
            for pair in pairwise(runs[number]):
                totals[pair] += counts[number]
                places[pair].add(number)
        tokens.append(tokens[best[0]] + tokens[best[1]])
    return merges


@pytest.mark.slow
@pytest.mark.compiled
def test_superwords_of_ten_megabytes() -> None:
    """The runs are found by the `regex` package and sets of Python, and merged by another algorithm."""
    text = read_shared("corpora/english.txt")[:10_000_000].decode(errors="ignore").replace("<|endoftext|>", " ")
    n_words, n_more = 8000, 300
    sizes = {"vocab_size": 256 + n_words + n_more, "special_tokens": [], "workers": 2}
    model = bpejit.train(iter([text]), superwords="super", transition=256 + n_words, **sizes).model
    plain = bpejit.train(iter([text]), **sizes | {"vocab_size": 256 + n_words})
    tokens = list(plain.vocab.values())
    ids = {token: number for number, token in enumerate(tokens) if len(plain.encode_array(token)) == 1}
    joins = {(left[-1], right[0]) for left, right in plain.merges}
    pretokens = sequences([text], PRESETS["gpt2"], str(joined_words("gpt2")))
    runs, counts = map(list, zip(*twins.superwords.find_runs(pretokens, ids, joins), strict=True))
    assert len(runs) == model.training["superwords"]["runs"]
    expected = [(tokens[left], tokens[right], n) for left, right, n in merged_by_index(runs, counts, tokens, n_more)]
    found = [(*pair, n) for pair, n in zip(model.merges, model.merge_counts, strict=True)][n_words:]
    assert found == expected


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("superwords") / "corpus.txt"
    path.write_bytes(
        data_text("prose.txt")[: small(300_000, 3_000)] + b"<|endoftext|>" + data_text("cjk.txt").decode()[:1_000].encode()
    )
    return path


SIZES = {"vocab_size": 700, "transition": 600, "superwords": "super"}


@pytest.fixture(scope="module")
def tokenizer(corpus: Path) -> bpejit.Tokenizer:
    return bpejit.train(corpus, **SIZES)


@pytest.mark.parametrize(
    "how",
    [
        {"workers": 1, "engine": "serial"},
        {"workers": 2, "engine": "threads", "chunk_bytes": 10_000},
        {"workers": 3, "engine": "processes", "chunk_bytes": 50_000},
        {"workers": 2, "max_memory": 1 << 28},
    ],
)
def test_the_division_of_the_work_does_not_matter(
    corpus: Path, tokenizer: bpejit.Tokenizer, tmp_path: Path, how: dict[str, Any]
) -> None:
    folder = {"temporary_folder": tmp_path} if "max_memory" in how else {}
    assert bpejit.train(corpus, **SIZES, **how, **folder).model == tokenizer.model


def test_counts(corpus: Path, tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    parts = [tmp_path / f"{number}.counts" for number in range(3)]
    for number, part in enumerate(parts):
        bpejit.count(corpus, superwords="super", shard=(number, 3), out=part)
    largest = max(map(bpejit.Counts.load, parts), key=lambda one: one.n_bytes)
    with pytest.warns(bpejit.BpejitWarning, match="1 of 3 parts of the inputs are counted; missing: "):
        bpejit.train_from_counts(largest, **SIZES)
    merged = bpejit.merge_counts(parts, tmp_path / "all.counts")
    assert merged == bpejit.count(corpus, superwords="boundless")
    assert merged.header.settings.words == PRESETS["gpt2"]
    assert bpejit.train_from_counts(merged, **SIZES).model == tokenizer.model
    plain = bpejit.count(corpus)
    with pytest.raises(CountsError, match=r"without sequences of words; expected counts for superwords"):
        bpejit.train_from_counts(plain, **SIZES)
    with pytest.raises(CountsError, match="are those of sequences of words, and superwords is None"):
        bpejit.train_from_counts(merged, vocab_size=700)
    with pytest.raises(CountsError, match="its pattern of words is None"):
        merged.merge(plain, allow_repeated_inputs=True)
    other = bpejit.count(corpus, superwords="super", pattern=r" ?\p{L}+|\s|.", superword_pattern=merged.pattern)
    with pytest.raises(CountsError, match="its pattern of words is"):
        merged.merge(other, allow_repeated_inputs=True)


def test_words_are_those_of_training_without_superwords(corpus: Path, tokenizer: bpejit.Tokenizer) -> None:
    plain = bpejit.train(corpus, vocab_size=600)
    assert tokenizer.merges[:343] == plain.merges
    assert tokenizer.training["superwords"] | {"runs": 0} == {
        "kind": "super",
        "transition": 600,
        "max_words": None,
        "pattern": PRESETS["gpt2"],
        "merges_of_words": 343,
        "runs": 0,
    }
    assert bpejit.train(corpus, vocab_size=600, superwords="super", transition=600).merges == plain.merges
    assert bpejit.train(corpus, vocab_size=704, superwords="super").training["superwords"]["transition"] == 616


def test_a_smaller_size_has_the_first_superwords(corpus: Path, tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    bpejit.train(corpus, **SIZES, out=tmp_path / "all", also=[650])
    small_one = bpejit.train(corpus, **SIZES | {"vocab_size": 650})
    assert bpejit.load(tmp_path / "all-650").merges == small_one.merges
    assert bpejit.load(tmp_path / "all").model == tokenizer.model
    with pytest.raises(OptionError, match="also has the size 599, at which"):
        bpejit.train(corpus, **SIZES, out=tmp_path / "more", also=[599])


def test_ids(corpus: Path, tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    """The tokens of the text are those that training counted, up to words of several tokens next to superwords."""
    text = corpus.read_text(encoding="utf-8").replace("<|endoftext|>", "")
    assert tokenizer.count(text) == pytest.approx(tokenizer.training["tokens"], rel=0.01)
    tokenizer.save(tmp_path / "saved")
    other = tokenizers.Tokenizer.from_file(str(tmp_path / "saved" / "tokenizer.json"))
    sample = text[: small(100_000, 500)]
    assert other.encode(sample, add_special_tokens=False).ids == tokenizer.encode(sample)


@pytest.mark.parametrize("most", [2, 3])
def test_max_words(corpus: Path, most: int) -> None:
    found = bpejit.train(corpus, **SIZES, max_words=most)
    splitter = bpejit.splitting.Splitter("gpt2")
    sizes = [splitter.split(*padded_text(token)).size for token in list(found.vocab.values())[599:699]]
    assert max(sizes) == most


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transition": 600}, "transition is given, and superwords is None"),
        ({"max_words": 2}, "max_words is given, and superwords is None"),
        ({"superword_pattern": LINES}, "superword_pattern is given, and superwords is None"),
        ({"superwords": "both"}, "superwords is 'both'; expected one of 'super', 'boundless'"),
        ({"superwords": "super", "transition": 256}, "transition is 256; expected a whole number from 257 to 700"),
        ({"superwords": "super", "transition": 701}, "transition is 701; expected a whole number from 257 to 700"),
        ({"superwords": "boundless", "transition": 600}, 'superwords is "boundless"'),
        ({"superwords": "super", "max_words": 1}, "max_words is 1; expected a whole number from 2"),
        ({"superwords": "super", "max_words": 2, "max_token_bytes": 9}, "max_words and max_token_bytes are given"),
        ({"superwords": "super", "symbols": "characters"}, "pre-tokens do not begin as bytes alone"),
        ({"superwords": "super", "pattern": r"\s+| ?\p{L}+"}, "the first alternative of the pattern"),
        ({"superwords": "super", "pattern": r"(?<! )\p{L}+|\s+"}, "or cannot be analyzed"),
        ({"superwords": "super", "superword_pattern": "[a-m]+|[^a-m]+"}, "divides the word b"),
        ({"superwords": "super", "superword_pattern": "gpt2"}, "there are no superwords to learn"),
    ],
)
def test_what_is_refused(corpus: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises((OptionError, TrainingError)) as caught:
        bpejit.train(corpus, vocab_size=700, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"kimi-k2"}))
@given(text=st.text("aB \n1.,'s\u4e2d\u0301(", max_size=40))
def test_joined_words(name: str, text: str) -> None:
    """Pre-tokens of the joined pattern are words of the pattern, and longest sequences of those with a letter."""
    data = text.encode()
    ends, joined = (
        twins.splitting.split_spans(data, [regex.compile(one, regex.V1) for one in stages_of(source)], [])
        for source in (PRESETS[name], joined_words(name))
    )
    assert set(joined) <= set(ends)
    words = [data[start:end].decode() for start, end in pairwise([0, *ends])]
    alphabetic = [any(map(str.isalpha, word)) for word in words]
    # A mark alone is a word of some patterns; of these two, the first stages separate words.
    if "\u0301" not in text and name not in ("deepseek-v3", "starcoder"):
        within = [end for end, one, other in zip(ends, alphabetic, alphabetic[1:], strict=False) if one and other]
        assert sorted(set(ends) - set(joined)) == within
