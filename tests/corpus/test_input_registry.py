"""Tests of the registry of input formats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import bpejit
from bpejit.corpus import registry
from bpejit.corpus.base import DocumentsChunk, InputFormat, join_documents
from bpejit.corpus.sources import Source
from bpejit.errors import CorpusError, OptionError


class Words(InputFormat):
    """One document in each word of a file."""

    suffixes: ClassVar[tuple[str, ...]] = (".words",)

    def chunks(self, source: Source, chunk_bytes: int) -> Iterator[DocumentsChunk]:
        data, ends = join_documents(Path(source.path).read_bytes().split())
        yield DocumentsChunk(np.frombuffer(data, dtype=np.uint8), ends, n_read=source.size or 0)

    def ranges(self, source: Source, unit_bytes: int) -> Iterator[tuple[int, int, int]]:
        yield 0, 1, source.size or 0


@pytest.fixture
def words() -> Iterator[None]:
    registry.register("words", Words, description="a document in each word")
    yield
    registry.unregister("words")


def test_a_registered_format_is_recognized_and_read(words: None, tmp_path: Path) -> None:
    (tmp_path / "a.words").write_text("one two\ntwo")
    (tmp_path / "b.txt").write_text("one two\ntwo")
    expected = {b"one": 1, b"two": 2}
    assert bpejit.count(tmp_path / "a.words").table.to_counts() == expected
    assert bpejit.count(tmp_path / "b.txt", input_format="words").table.to_counts() == expected
    tokenizer = bpejit.train(tmp_path / "a.words", vocab_size=259)
    assert tokenizer.encode_files(tmp_path / "a.words", tmp_path / "out.bin").documents == 3


def test_names_are_checked(words: None, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="already exists"):
        registry.register("words", Words)
    (tmp_path / "b.txt").write_text("text")
    with pytest.raises(OptionError, match="'auto', 'text', 'jsonl', 'parquet', 'arrow', 'words'"):
        bpejit.train(tmp_path / "b.txt", vocab_size=257, input_format="csv")
