"""Extending a tokenizer over new text, compared with the twin trainer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import twins
from conftest import data_text, small
from helpers.training import table_of
from hypothesis import example, given, strategies as st

import bpejit
from bpejit import Counts, CountsError, TokenizerFormatError
from bpejit.counting.header import CountsHeader
from bpejit.training import cell_ranges
from bpejit.training.extending import settings_of
from bpejit.training.tie_rules import tie_rule_names
from bpejit.training.train import train_model

words = st.text("ab \xe9", min_size=1, max_size=12).map(lambda text: text.encode("latin-1"))
tables = st.dictionaries(
    words, st.one_of(st.integers(1, 5), st.sampled_from([2**31 - 1, 2**31, 2**40])), min_size=1, max_size=12
)


def counted(table: dict[bytes, int], model: bpejit.Model | None = None) -> Counts:
    settings = settings_of(model or bpejit.Model({b: bytes([b]) for b in range(256)}, [], {"<s>": 256}, unicode="16.0"))
    return Counts(CountsHeader(settings, [], 0, sum(table.values())), table_of(table))


def extended_by_the_twin(
    model: bpejit.Model, table: dict[bytes, int], n_new: int, rule: str, least: int, most: int | None
) -> list[tuple[bytes, bytes]]:
    """Apply the merges of a model to each word in plain Python, and continue merging."""
    tokens = [bytes([byte]) for byte in range(256)]
    pairs = {}
    for left, right in model.merges:
        pairs[left, right] = len(tokens)
        tokens.append(left + right)
    words = []
    for word, count in sorted(table.items()):
        sequence = list(word)
        for (left, right), merged in pairs.items():
            sequence = twins.training.replace_pair(sequence, (tokens.index(left), tokens.index(right)), merged)
        words.append((sequence, count))
    merges = twins.training.merge_some(words, tokens, len(tokens) + n_new, rule, least, most)
    return [(tokens[left], tokens[right]) for left, right, _ in merges]


@given(
    first=tables,
    second=tables,
    rule=st.sampled_from(tie_rule_names()),
    n_old=st.sampled_from([0, 1, 5, 40]),
    n_new=st.sampled_from([0, 1, 5, 100]),
    least=st.sampled_from([1, 3]),
    most=st.sampled_from([None, 3]),
    specials_first=st.booleans(),
)
@example({b"aaaaaaa": 3}, {b"aaaaaaaaaaaaa": 2, b"baaab": 2**31}, "greatest-bytes", 2, 100, 1, None, False)
def test_equals_the_twin(
    first: dict[bytes, int],
    second: dict[bytes, int],
    rule: str,
    n_old: int,
    n_new: int,
    least: int,
    most: int | None,
    specials_first: bool,
) -> None:
    model = train_model(counted(first), vocab_size=257 + n_old, tie_break=rule, special_tokens_first=specials_first, workers=1)
    wanted = model.vocab_size + n_new
    old, limits = bpejit.Tokenizer.from_model(model, lazy=True), {"min_frequency": least, "max_token_bytes": most}
    new = bpejit.extend(old, counted(second, model), vocab_size=wanted, workers=1, **limits).model
    expected = extended_by_the_twin(model, second, n_new, rule, least, most)
    assert list(new.merges) == [*model.merges, *expected]
    assert {number: new.vocab[number] for number in model.vocab} == model.vocab
    added = {number: token for number, token in new.tokens.items() if number not in model.vocab}
    assert added == dict(enumerate((left + right for left, right in expected), start=model.vocab_size))
    assert new.special_tokens == model.special_tokens
    (extension,) = new.training["extensions"]
    assert (extension["first_id"], extension["tokens"]) == (model.vocab_size, len(expected))


def test_extending_by_the_same_text_is_training_on(tmp_path: Path) -> None:
    text = data_text("prose.txt")[: small(50_000, 1_500)]
    (tmp_path / "a.txt").write_bytes(text)
    small_one = bpejit.train(tmp_path / "a.txt", vocab_size=300, special_tokens=[])
    large = bpejit.train(tmp_path / "a.txt", vocab_size=340, special_tokens=[])
    found = bpejit.extend(small_one, tmp_path / "a.txt", vocab_size=340)
    assert found == large
    assert list(found.model.merge_counts or ()) == list(large.model.merge_counts or ())
    twice = bpejit.extend(bpejit.extend(small_one, tmp_path / "a.txt", vocab_size=310), tmp_path / "a.txt", vocab_size=340)
    assert twice == large
    assert [entry["first_id"] for entry in twice.model.training["extensions"]] == [300, 310]


def test_threads_and_saving_do_not_change_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = data_text("code.txt")[: small(60_000, 1_500)]
    (tmp_path / "a.txt").write_bytes(text[: len(text) // 2])
    (tmp_path / "b.txt").write_bytes(text[len(text) // 2 :] + "été 早上好".encode() * 20)
    tokenizer = bpejit.train(tmp_path / "a.txt", vocab_size=320, special_tokens=["<|a|>", "<|endoftext|>"])
    one = bpejit.extend(tokenizer, tmp_path / "b.txt", vocab_size=400, workers=1)
    monkeypatch.setattr(cell_ranges, "LEAST_CELLS", 1)
    assert bpejit.extend(tokenizer, tmp_path / "b.txt", vocab_size=400, workers=3, engine="threads") == one
    counts = bpejit.count(tmp_path / "b.txt", special_tokens=["<|a|>", "<|endoftext|>"])
    assert bpejit.extend(tokenizer, counts, vocab_size=400) == one
    one.save(tmp_path / "new")
    again = bpejit.load(tmp_path / "new")
    assert again == one
    assert again.model.training["extensions"] == one.model.training["extensions"]
    ids = again.encode(text.decode())
    assert again.decode_bytes(ids) == text
    assert len(ids) < len(tokenizer.encode(text.decode()))
    assert max(ids) >= 322
    assert again.token_to_id("<|endoftext|>") == tokenizer.token_to_id("<|endoftext|>") == 319


def test_tokenizers_that_cannot_be_extended_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"ab ab ab abc")
    base = {byte: bytes([byte]) for byte in range(256)}
    ranked = bpejit.Model({**base, 256: b"ab"}, [], ranked=True)
    unmade = bpejit.Model({**base, 256: b"ab", 257: b"xyz"}, [(b"a", b"b")])
    doubly = bpejit.Model(
        {**base, 256: b"ab", 257: b"bc", 258: b"abc"},
        [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")],
    )
    for model, reason in ((ranked, "merge by rank"), (unmade, "made by no merge"), (doubly, "make the same token")):
        with pytest.raises(TokenizerFormatError, match=f"cannot be extended: .*{reason}"):
            bpejit.extend(bpejit.Tokenizer.from_model(model), tmp_path / "a.txt", vocab_size=300)
    plain = bpejit.Model({**base, 256: b"ab", 257: b"abc"}, [(b"a", b"b"), (b"ab", b"c")])
    tokenizer = bpejit.Tokenizer.from_model(plain)
    with pytest.raises(TokenizerFormatError, match="vocab_size is 10"):
        bpejit.extend(tokenizer, tmp_path / "a.txt", vocab_size=10)
    with pytest.raises(bpejit.CorpusError, match="no text"):
        bpejit.extend(tokenizer, counted({}, plain), vocab_size=300)
    with pytest.raises(CountsError, match="special tokens"):
        bpejit.extend(tokenizer, bpejit.count(tmp_path / "a.txt"), vocab_size=300)


def test_a_new_token_with_the_bytes_of_an_old_one_is_refused() -> None:
    base = {byte: bytes([byte]) for byte in range(256)}
    # The pair b c merges first, so that "abc" is "a" and "bc", although there is a token "abc".
    model = bpejit.Model(
        {**base, 256: b"bc", 257: b"ab", 258: b"abc"}, [(b"b", b"c"), (b"a", b"b"), (b"ab", b"c")], unicode="16.0"
    )
    with pytest.raises(TokenizerFormatError, match="makes b'abc', which has the id 258"):
        bpejit.extend(bpejit.Tokenizer.from_model(model, lazy=True), counted({b"abc": 5}, model), vocab_size=260)


def test_cells_of_tokens_are_those_of_bytes() -> None:
    table = table_of({b"ab": 2**31, b"c": 5, b"abc": 7, b"bb": 2**40})
    byte_ids = np.arange(256, dtype=np.uint64)
    has_pairs = (np.diff(table.starts) > 1) & (table.counts > 0)
    tokens = cell_ranges.TokenizedTable(table.pool.astype(np.uint64), table.starts, table.counts)
    for workers in (1, 3):
        one = cell_ranges.CellRanges(table, has_pairs, byte_ids, np.uint64(300), workers, 1)
        other = cell_ranges.CellRanges.of_tokens(tokens, has_pairs, np.uint64(300), workers, 1)
        assert np.array_equal(one.cells, other.cells)
        assert one.weights.tolist() == other.weights.tolist() == [0, 7, 2**31, 2**40]
        assert other.stops[0] == 1
        assert other.stops[-1] == other.cells.size
        assert all(other.cells[stop - 1] == 300 for stop in other.stops)
        one.close()
        other.close()
