"""Merge learning, compared with the twin trainer and with other trainers, on generated and on real text."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
import regex
import twins
from conftest import data_text, small
from helpers.learner import learn_merges
from helpers.training import table_of
from hypothesis import example, given, strategies as st

from bpejit.arrays import MergeTable, PretokenTable
from bpejit.errors import ArgumentTypeError, TrainingError
from bpejit.kernels.constants import NEED_SPACE
from bpejit.kernels.training import merging
from bpejit.training import cell_ranges, merge_learner
from bpejit.training.tie_rules import load_tie_rule, tie_rule_names
from bpejit.training.train_options import MergeSettings

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

alphabets = st.sampled_from(["a", "ab", "abc", "\0a", "a \x80\xff!", "".join(map(chr, range(256)))])
words = alphabets.flatmap(lambda alphabet: st.text(alphabet, max_size=20)).map(lambda text: text.encode("latin-1"))
# Few different counts make ties; the large ones need more than 32 bits, in one count or in the sum of several.
counts = st.one_of(st.integers(0, 3), st.integers(1, 200), st.sampled_from([2**31 - 1, 2**31, 2**32 + 1, 2**50]))
tables = st.dictionaries(words, counts, max_size=12)
rules = st.sampled_from(tie_rule_names())


def as_list(merges: MergeTable) -> list[tuple[int, int, int]]:
    return list(zip(merges.left.tolist(), merges.right.tolist(), merges.counts.tolist(), strict=True))


def count_text(text: str, special_token: str = "<|endoftext|>") -> Counter[bytes]:
    split = regex.compile(GPT2)
    return Counter(match.group().encode() for piece in text.split(special_token) for match in split.finditer(piece))


def merged_bytes(merges: MergeTable) -> list[tuple[bytes, bytes]]:
    tokens = twins.training.expand_merges(merges.left.tolist(), merges.right.tolist())
    return [(tokens[left], tokens[right]) for left, right, _ in as_list(merges)]


@pytest.fixture
def tiny_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every array that can grow too small initially."""
    monkeypatch.setattr(cell_ranges, "FIRST_SLOTS", 4)
    monkeypatch.setattr(merge_learner, "FIRST_SLOTS", 4)
    monkeypatch.setattr(merge_learner, "FIRST_POOL_BYTES", 256)


# ---- the twin trainer


@given(
    table=tables,
    rule=rules,
    n_merges=st.sampled_from([0, 1, 3, 1000]),
    min_frequency=st.sampled_from([1, 2, 5, 2**32]),
    max_token_bytes=st.sampled_from([None, 1, 2, 3, 5, 8]),
)
@example({b"aaaaaaaa": 1, b"aaa": 2}, "greatest-bytes", 1000, 1, None)
@example({b"abababab": 1, b"bababa": 1}, "smallest-ids", 1000, 1, None)
@example({b"abababab": 1, b"bababa": 1}, "greatest-bytes", 1000, 1, 4)
@example({b" !": 1, b"~\xa1": 1, b"\xad\xae": 1, b"\0\x01": 1}, "hf", 1000, 1, None)
def test_equals_the_twin(
    table: dict[bytes, int], rule: str, n_merges: int, min_frequency: int, max_token_bytes: int | None
) -> None:
    merges = learn_merges(
        table_of(table),
        n_merges,
        MergeSettings(rule, min_frequency, max_token_bytes),
    )
    assert as_list(merges) == twins.training.learn_merges(table, n_merges, rule, min_frequency, max_token_bytes)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_arrays")
@pytest.mark.parametrize("step", [2, 16, 2**40])
@pytest.mark.parametrize("rule", tie_rule_names())
def test_equals_the_twin__real_text(rule: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many phases or one, growing arrays, English and Chinese."""
    monkeypatch.setattr(merge_learner, "STEP", step)
    monkeypatch.setattr(merge_learner, "LAST_STEP", step)
    size = small(20_000, 2_000)
    text = data_text("prose.txt")[:size] + data_text("cjk.txt")[:size]
    table = count_text(text.decode("utf-8", "replace"))
    needed_space = 0
    merge_some = merging.merge_some

    def watched(*arguments: object) -> int:
        nonlocal needed_space
        status = merge_some(*arguments)
        needed_space += status == NEED_SPACE
        return int(status)

    monkeypatch.setattr(merging, "merge_some", watched)
    merges = learn_merges(table_of(table), small(200, 40), MergeSettings(rule))
    assert needed_space > 1
    assert as_list(merges) == expected_on_real_text(rule, table)


_expected: dict[str, list[tuple[int, int, int]]] = {}


def expected_on_real_text(rule: str, table: Counter[bytes]) -> list[tuple[int, int, int]]:
    if rule not in _expected:
        _expected[rule] = twins.training.learn_merges(table, small(200, 40), rule)
    return _expected[rule]


# ---- invariance


@given(table=tables, rule=rules, data=st.data())
def test_order_of_pretokens_does_not_matter(table: dict[bytes, int], rule: str, data: st.DataObject) -> None:
    one = table_of(table)
    shuffled = data.draw(st.permutations(sorted(table)))
    pool = np.frombuffer(b"".join(shuffled), np.uint8)
    starts = np.cumsum([0, *map(len, shuffled)])
    other = PretokenTable(pool, starts, np.array([table[word] for word in shuffled], np.int64))
    settings = MergeSettings(rule)
    assert learn_merges(one, 50, settings) == learn_merges(other, 50, settings)


@pytest.mark.parametrize("rule", tie_rule_names())
def test_threads_do_not_matter(rule: str) -> None:
    text = data_text("cjk.txt").decode()[: small(200_000, 2000)] + data_text("prose.txt").decode()[: small(200_000, 2000)]
    counts = dict(count_text(text))
    most = max(counts, key=lambda word: counts[word])
    table = table_of({**counts, most: 2**31, most + b"s": 2**32})
    n_merges = small(2000, 40)
    expected = learn_merges(table, n_merges, MergeSettings(rule))
    assert len(expected) == n_merges
    for workers, least_postings in ((2, 10**9), (2, 1), (3, 50), (5, 1), (7, 300)):
        learner = merge_learner.MergeLearner(
            table, n_merges, MergeSettings(rule), workers=workers, least_cells=1, least_postings=least_postings
        )
        assert len(learner.ranges) == workers
        assert learner.run() == expected


@given(
    table=tables,
    rule=rules,
    workers=st.integers(2, 7),
    max_token_bytes=st.sampled_from([None, 2, 3]),
    least_postings=st.sampled_from([1, 2, 5]),
)
@example({b"aaaaaaaa": 1, b"aaa": 2}, "greatest-bytes", 2, None, 1)
@example({b"abababab": 1, b"bababa": 1, b"aabb": 3}, "smallest-ids", 3, None, 1)
def test_threads_do_not_matter__more_than_pretokens(
    table: dict[bytes, int], rule: str, workers: int, max_token_bytes: int | None, least_postings: int
) -> None:
    settings = MergeSettings(rule, max_token_bytes=max_token_bytes)
    packed = table_of(table)
    learner = merge_learner.MergeLearner(packed, 1000, settings, workers=workers, least_cells=1, least_postings=least_postings)
    merges = learner.run()
    assert merges == learn_merges(packed, 1000, settings)


@given(table=tables, rule=rules, workers=st.integers(1, 3))
def test_types_of_cells_do_not_matter(table: dict[bytes, int], rule: str, workers: int) -> None:
    packed = table_of(table)
    expected = learn_merges(packed, 1000, MergeSettings(rule))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_ranges, "cell_type", lambda boundary, weights: np.uint64)
        learner = merge_learner.MergeLearner(
            packed, 1000, MergeSettings(rule), workers=workers, least_cells=1, least_postings=1
        )
    assert learner.ranges.cells.dtype == np.uint64
    assert learner.run() == expected


def test_cells_are_wide_if_ids_and_weights_need_it() -> None:
    weights = np.zeros(1 << 12, np.uint64)
    assert cell_ranges.cell_type(np.uint64((1 << 20) - 1), weights) is np.uint32
    assert cell_ranges.cell_type(np.uint64(1 << 20), weights) is np.uint64
    assert cell_ranges.cell_type(np.uint64((1 << 20) - 1), np.zeros((1 << 12) + 1, np.uint64)) is np.uint64


def test_phases_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    name, n_merges = small(("code.txt", 3000), ("code.txt", 60))
    text = data_text(name).decode()[: small(10**6, 5000)]
    table = table_of(dict(count_text(text)))
    expected = learn_merges(table, n_merges)
    assert len(expected) == n_merges
    for step in (2, 5, 2**40):
        monkeypatch.setattr(merge_learner, "STEP", step)
        monkeypatch.setattr(merge_learner, "LAST_STEP", step)
        assert learn_merges(table, n_merges) == expected


def test_counts_of_merges_never_rise() -> None:
    text = data_text("cjk.txt").decode()[: small(10**6, 3000)]
    counts = learn_merges(table_of(dict(count_text(text))), small(4000, 50)).counts
    assert (np.diff(counts) <= 0).all()
    assert counts[0] > counts[-1] > 0


# ---- stopping


def test_stops_when_no_pair_is_left() -> None:
    table = table_of({b"abc": 3, b"d": 100, b"": 7, b"never": 0})
    assert as_list(learn_merges(table, 10)) == [(ord("b"), ord("c"), 3), (ord("a"), 256, 3)]


@pytest.mark.parametrize("counts", [{}, {b"": 5}, {b"x": 5, b"y": 1}, {b"xyz": 0, b"zyx": -4}])
def test_without_any_pair(counts: dict[bytes, int]) -> None:
    merges = learn_merges(table_of(counts), 10)
    assert len(merges) == 0


def test_all_thresholds_are_reached() -> None:
    """Pairs that occur once or twice are merged eventually, for any highest count and any thresholds."""
    for most in range(1, small(700, 100)):
        table = table_of({b"ab": most, b"cd": 2, b"ef": 1})
        merges = learn_merges(table, 10, MergeSettings(min_frequency=1))
        assert sorted(merges.counts.tolist()) == sorted([most, 2, 1])


def test_min_frequency_is_inclusive() -> None:
    table = table_of({b"ab": 5, b"cd": 4})
    assert as_list(learn_merges(table, 10, MergeSettings(min_frequency=5))) == [(ord("a"), ord("b"), 5)]
    assert len(learn_merges(table, 10, MergeSettings(min_frequency=4))) == 2
    assert len(learn_merges(table, 10, MergeSettings(min_frequency=6))) == 0


def test_max_token_bytes_is_inclusive() -> None:
    table = table_of({b"abcdefgh": 5})
    for longest in range(1, 10):
        merges = learn_merges(table, 10, MergeSettings(max_token_bytes=longest))
        tokens = twins.training.expand_merges(merges.left.tolist(), merges.right.tolist())
        assert max(map(len, tokens)) == min(longest, 8)


def test_settings_that_forbid_every_pair() -> None:
    """The threshold of the first phase comes from a pair that may not be merged."""
    table = table_of({b"ab": 2**50, b"cd": 1})
    assert len(learn_merges(table, 10, MergeSettings(max_token_bytes=1))) == 0


def test_arrays_are_not_larger_than_the_corpus_allows() -> None:
    assert len(learn_merges(table_of({b"abcd": 1}), merge_learner.MAX_MERGES)) == 3


@given(table=tables, rule=rules)
@example({b"zaazaa": 2, b"\xad\xae\0": 1}, "hf")
def test_token_strings(table: dict[bytes, int], rule: str) -> None:
    learner = merge_learner.MergeLearner(table_of(table), 20, MergeSettings(rule))
    merges = learner.run()
    expected = twins.training.expand_merges(merges.left.tolist(), merges.right.tolist())
    assert list(learner.token_strings()) == expected


# ---- progress


def test_progress() -> None:
    calls: list[tuple[int, int]] = []
    table = table_of(dict(count_text(data_text("prose.txt").decode()[: small(200_000, 3000)])))
    learn_merges(table, 100, progress=lambda done, total: calls.append((done, total)))
    done = [done for done, _ in calls]
    assert {total for _, total in calls} == {100}
    assert len(calls) > 1
    assert done == sorted(done)
    assert done[-1] == 100


def test_progress_may_interrupt() -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_merges(table_of({b"abcd": 1}), 3, progress=interrupt)


# ---- invalid settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tie_break": "shortest"}, r"tie_break is 'shortest'; expected one of 'greatest-bytes', 'smallest-ids', 'hf'"),
        ({"tie_break": 1}, r"tie_break is 1, an int"),
        ({"min_frequency": 0}, r"min_frequency is 0; expected a whole number from 1 up"),
        ({"min_frequency": 2**63}, r"min_frequency is 9223372036854775808; expected a whole number from 1 to"),
        ({"max_token_bytes": 0}, r"max_token_bytes is 0; expected a whole number from 1 up"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((TrainingError, ArgumentTypeError), match=message):
        MergeSettings(**settings)


def test_settings_are_plain_numbers() -> None:
    settings = MergeSettings(min_frequency=np.int32(3), max_token_bytes=np.uint8(7))  # type: ignore[arg-type]
    assert (type(settings.min_frequency), type(settings.max_token_bytes)) == (int, int)
    assert settings == MergeSettings(min_frequency=3, max_token_bytes=7)


@pytest.mark.parametrize("n_merges", [-1, merge_learner.MAX_MERGES + 1])
def test_number_of_merges_is_checked(n_merges: int) -> None:
    with pytest.raises(TrainingError, match=f"n_merges is {n_merges}; expected a whole number from 0"):
        learn_merges(table_of({b"ab": 1}), n_merges)


def test_too_many_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_learner, "MAX_CELLS", 10)
    learn_merges(table_of({b"abcdefgh": 1}), 5)
    with pytest.raises(TrainingError, match="found 11 cells"):
        learn_merges(table_of({b"abcdefghi": 1}), 5)


def test_too_large_counts() -> None:
    with pytest.raises(TrainingError, match="less than 2\\^62"):
        learn_merges(table_of({b"abcd": 2**60}), 5)
    assert as_list(learn_merges(table_of({b"abc": 2**60}), 1)) == [(ord("b"), ord("c"), 2**60)]


# ---- other trainers


def test_byte_order_of_hf() -> None:
    """The first and the last byte of each group have their ids in GPT-2's vocab.json."""
    ranks = hf_ranks()
    numbers = {33: 0, 126: 93, 161: 94, 172: 105, 174: 106, 255: 187, 0: 188, 32: 220, 127: 221, 160: 254, 173: 255}
    assert {byte: ranks[byte] for byte in numbers} == numbers


def hf_ranks() -> list[int]:
    order = load_tie_rule("hf").byte_order
    return [order.index(byte) for byte in range(256)]


def shown_bytes() -> dict[str, int]:
    """Return the byte of each of GPT-2's characters."""
    ranks = hf_ranks()
    characters = {byte: chr(byte) if ranks[byte] < 188 else chr(256 + ranks[byte] - 188) for byte in range(256)}
    return {character: byte for byte, character in characters.items()}


def learn_with_hugging_face(texts: list[str], vocab_size: int, min_frequency: int, pre_tokenizer: object, alphabet: list[str]):
    """Return the merges of Hugging Face's trainer, and the pre-tokens that it counted."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=min_frequency, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    pretokens = Counter(piece for text in texts for piece, _ in pre_tokenizer.pre_tokenize_str(text))
    return [tuple(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]], pretokens


@pytest.mark.parametrize(("name", "min_frequency"), [("prose.txt", 1), ("cjk.txt", 0), ("code.txt", 3)])
def test_hf_equals_hugging_face(name: str, min_frequency: int) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    text = data_text(name).decode()[: small(300_000, 3000)]
    n_merges = small(4000, 60)
    expected, pretokens = learn_with_hugging_face(
        text.splitlines(keepends=True), 256 + n_merges, min_frequency, byte_level, byte_level.alphabet()
    )
    byte_of = shown_bytes()

    def to_bytes(shown: str) -> bytes:
        return bytes(byte_of[character] for character in shown)

    table = table_of({to_bytes(pretoken): count for pretoken, count in pretokens.items()})
    merges = learn_merges(table, n_merges, MergeSettings("hf", max(1, min_frequency)))
    assert merged_bytes(merges) == [(to_bytes(left), to_bytes(right)) for left, right in expected]
    assert len(merges) >= small(2000, 40)


@pytest.mark.slow
@given(st.lists(st.text("ab!~ \xa0\xe9", min_size=1, max_size=20), min_size=1, max_size=20), st.integers(0, 3))
def test_hf_equals_hugging_face__ties(texts: list[str], min_frequency: int) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    expected, pretokens = learn_with_hugging_face(texts, 2000, min_frequency, byte_level, byte_level.alphabet())
    byte_of = shown_bytes()

    def to_bytes(shown: str) -> bytes:
        return bytes(byte_of[character] for character in shown)

    table = table_of({to_bytes(pretoken): count for pretoken, count in pretokens.items()})
    merges = learn_merges(table, 2000 - 256, MergeSettings("hf", max(1, min_frequency)))
    assert merged_bytes(merges) == [(to_bytes(left), to_bytes(right)) for left, right in expected]


def test_smallest_ids_equals_hugging_face_on_plain_letters() -> None:
    """For printable ASCII, the order of Hugging Face's character tokens is that of the bytes."""
    tokenizers = pytest.importorskip("tokenizers")
    white_space = tokenizers.pre_tokenizers.WhitespaceSplit()
    text = "".join(character for character in data_text("prose.txt").decode() if character.isascii())[: small(300_000, 3000)]
    alphabet = [chr(code) for code in range(33, 127)]
    n_merges = small(3000, 60)
    expected, pretokens = learn_with_hugging_face([text], len(alphabet) + n_merges, 1, white_space, alphabet)
    table = table_of({pretoken.encode(): count for pretoken, count in pretokens.items()})
    merges = learn_merges(table, n_merges, MergeSettings("smallest-ids"))
    assert merged_bytes(merges) == [(left.encode(), right.encode()) for left, right in expected]


@pytest.mark.compiled
def test_golden_merges_of_cs336(shared_data) -> None:
    """Compare with `train-bpe-reference-merges.txt` of Stanford's CS336, written in GPT-2's characters."""
    folder = shared_data / "cs336"
    table = count_text((folder / "corpus.en").read_bytes().decode())
    merges = learn_merges(table_of(dict(table)), 500 - 257)
    byte_of = shown_bytes()
    golden = [
        tuple(bytes(byte_of[character] for character in part) for part in line.split(" "))
        for line in (folder / "train-bpe-reference-merges.txt").read_text(encoding="utf-8").splitlines()
    ]
    assert len(golden) == 243
    assert merged_bytes(merges) == golden
