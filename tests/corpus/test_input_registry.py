"""Tests of the registry of input formats."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
import pytest

import bpejit
from bpejit.corpus import registry
from bpejit.corpus.base import DocumentsChunk, InputFormat, LineFormat, join_documents
from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped
from bpejit.corpus.reading_options import InputOptions
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


class Answers(LineFormat):
    """A question and an answer in each line, separated by a tab; the text is the answer."""

    suffixes: ClassVar[tuple[str, ...]] = (".answers",)

    def recognizes(self, name: str, head: bytes) -> bool:
        return head.startswith(b"#answers\n")

    def parse(
        self, data: bytes, options: InputOptions, path: str, line_number: Callable[[int], int]
    ) -> tuple[bytes, Any, Skipped, None]:
        texts = [line.partition(b"\t")[2] for line in data.splitlines() if not line.startswith(b"#")]
        return *join_documents(texts), NOTHING_SKIPPED, None


@pytest.fixture
def answers() -> Iterator[None]:
    registry.register("answers", Answers, description="questions and answers")
    yield
    registry.unregister("answers")


def test_a_registered_format_of_lines_is_treated_like_the_others(answers: None, tmp_path: Path) -> None:
    texts = [b"answer%d " % number * 20 for number in range(2_000)]
    data = b"".join(b"question %d\t%b\n" % pair for pair in enumerate(texts))
    expected = bpejit.count(iter(texts))
    for name, content in {"a.answers": data, "b": b"#answers\n" + data}.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
        fsspec.filesystem("memory").pipe(f"/answers/{name}", content)
        for path in (tmp_path / name, tmp_path / f"{name}.gz", f"memory://answers/{name}"):
            counts = bpejit.count(path, chunk_bytes=10_000)
            assert counts.table == expected.table
            assert [entry["read_as"] for entry in counts.inputs] == [{"format": "answers"}]
            sample = bpejit.count(path, max_bytes=len(data) // 5, seed=1)
            assert len(data) / 8 < sample.n_bytes < len(data) / 4
            words = [word.decode() for word in sample.table.to_counts()]
            places = [int(word) for word in words if word.isdigit()]
            assert min(places) < 500, "it begins at the start"
            assert max(places) > 1_500, "it is no prefix"


def test_a_registered_format_of_lines_is_refused_if_it_looks_binary(answers: None, tmp_path: Path) -> None:
    (tmp_path / "a.answers").write_bytes("question\tanswer\n".encode("utf-16"))
    with pytest.raises(CorpusError, match="is text in UTF-16"):
        bpejit.count(tmp_path / "a.answers")
    with pytest.raises(CorpusError, match="no columns to keep"):
        bpejit.train(iter(["text"]), vocab_size=257).encode_files(
            tmp_path / "a.answers", tmp_path / "o.parquet", input_format="answers", keep_columns=["question"]
        )
