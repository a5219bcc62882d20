"""Tests of samples of a corpus, and of weights of its sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import small
from helpers.input_forms import FORMS, write_form

import bpejit
from bpejit.corpus.arrow_inputs import RowGroupsChunk
from bpejit.corpus.units import LEAST_PIECE
from bpejit.errors import ArgumentTypeError, CorpusError, OptionError

N_DOCUMENTS = small(3_000, 600)
DOCUMENTS = [f"document{number} " * 20 for number in range(N_DOCUMENTS)]
"""Each consists of one word of its own, so that the counts show which documents were read."""


def words(counts: bpejit.Counts) -> dict[int, int]:
    """Return how often the word of each document was counted."""
    found: dict[int, int] = {}
    for word, n in counts.table.to_counts().items():
        digits = bytes(byte for byte in word if chr(byte).isdigit()).decode()
        if digits:
            found[int(digits)] = found.get(int(digits), 0) + n
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "text.txt",
        "text.txt.gz",
        "lines.txt",
        "lines.txt.gz",
        pytest.param("folder", marks=pytest.mark.slow),
        "a.jsonl",
        "a.jsonl.gz",
        "small groups.parquet",
        "one group.parquet",
        "file.arrow",
    ],
)
def test_a_sample_is_even_and_depends_on_the_seed_alone(name: str, tmp_path: Path) -> None:
    path, options = write_form(tmp_path, name, DOCUMENTS)
    size = sum(map(len, DOCUMENTS))
    wanted = size // 5

    def sample(seed: int, **others: Any) -> bpejit.Counts:
        return bpejit.count(path, max_bytes=wanted, seed=seed, pattern=r"\w+|\W", **options, **others)

    found = sample(1, engine="serial")
    # The sizes in a Parquet file with groups of two rows are mostly headers.
    assert (0.3 if name == "small groups.parquet" else 0.6) * wanted < found.n_bytes < 1.4 * wanted
    numbers = np.array(sorted(words(found)))
    quarters = np.histogram(numbers, bins=4, range=(0, N_DOCUMENTS))[0]
    assert quarters.min() > 0.5 * quarters.max(), "not a prefix"
    assert sample(1, engine="threads", workers=3).table == found.table
    assert sample(1, engine="processes", workers=2, chunk_bytes=5_000).table == found.table
    assert sample(2).table != found.table


def test_a_small_corpus_is_its_own_sample(tmp_path: Path) -> None:
    path, _ = write_form(tmp_path, "text.txt", DOCUMENTS)
    assert bpejit.count(path, max_bytes=10**9).table == bpejit.count(path).table


def test_what_cannot_be_sampled(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="max_bytes cannot sample `texts`, whose size is unknown"):
        bpejit.count(iter(DOCUMENTS), max_bytes=100)
    path, _ = write_form(tmp_path, "text.txt", DOCUMENTS)
    with pytest.raises(OptionError, match="max_bytes is 0"):
        bpejit.count(path, max_bytes=0)


@pytest.mark.parametrize("options", [{}, {"max_memory": 200 << 20}, {"workers": 2, "engine": "processes"}])
def test_weights_multiply_counts(options: dict[str, Any], tmp_path: Path) -> None:
    for name, text in (("a", "one two two"), ("b", "two three"), ("c", "four")):
        (tmp_path / name).write_text(text)
    a, b, c = (str(tmp_path / name) for name in "abc")
    found = bpejit.count(c, sources={a: 3, b: 5}, pattern=r"\w+|\s", special_tokens=[], **options)
    assert found.table.to_counts() == {b"one": 3, b"two": 11, b"three": 5, b"four": 1, b" ": 11}
    assert [entry.get("weight", 1) for entry in found.header.inputs] == [3, 5, 1]
    repeated = bpejit.train([c, *[a] * 3, *[b] * 5], vocab_size=270)
    assert bpejit.train([c], sources={a: 3, b: 5}, vocab_size=270).vocab == repeated.vocab
    assert bpejit.train([], sources={a: 3}, vocab_size=260).vocab == bpejit.train([a] * 3, vocab_size=260).vocab


def test_invalid_weights(tmp_path: Path) -> None:
    path, _ = write_form(tmp_path, "text.txt", DOCUMENTS[:3])
    with pytest.raises(OptionError, match="is 0; expected a whole number from 1"):
        bpejit.count([], sources={str(path): 0})
    with pytest.raises(ArgumentTypeError, match="sources is"):
        bpejit.count(path, sources=["x"])  # type: ignore[arg-type]
    with pytest.raises(CorpusError, match="no input was given"):
        bpejit.count([], sources={})


def test_forms_are_known() -> None:
    assert "text.txt" in FORMS


def test_samples_of_long_records_have_the_size_that_was_asked_for(tmp_path: Path) -> None:
    """Pieces begin and end with records, which are as long as the pieces: a sample has at most one record too many."""
    sizes = [1000 + 997 * number % 30_000 for number in range(100)]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(b'{"text": "%s"}\n' % (b"x" * size) for size in sizes))
    for asked in (50_000, 400_000):
        for seed in range(8):
            found = bpejit.count(path, max_bytes=asked, seed=seed).n_bytes
            assert 0.85 * asked < found < asked + 32_000


def test_what_is_not_in_a_sample_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, options = write_form(tmp_path, "small groups.parquet", DOCUMENTS[:600])
    chunks: list[RowGroupsChunk] = []
    read = RowGroupsChunk.read
    monkeypatch.setattr(RowGroupsChunk, "read", lambda *given: (chunks.append(given[0]), read(*given))[1])
    bpejit.count(path, max_bytes=LEAST_PIECE, engine="serial", **options)
    assert 0 < sum(chunk.n_read for chunk in chunks) < 4 * LEAST_PIECE
