"""Tests of sources and chunks: what is read, where it is cut, and that the chunks are equivalent to the whole."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import data_text, small
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.corpus.chunks import Chunk, Chunker, ChunkReader
from bpejit.corpus.contents import Contents
from bpejit.corpus.sources import Source, find_sources, find_weighted_sources
from bpejit.counting.pretoken_counter import PretokenCounter
from bpejit.errors import CorpusError
from bpejit.splitting import Splitter

SPECIAL = b"<|endoftext|>"


def counts_of(data: bytes, splitter: Splitter) -> dict[bytes, int]:
    counter = PretokenCounter()
    text, n_bytes = padded_text(data)
    counter.add_text(splitter, text, np.full(1, n_bytes), n_bytes, True)
    return counter.table().to_counts()


def counts_of_chunks(chunks: list[Chunk], splitter: Splitter, *, normalize_newlines: bool = False) -> dict[bytes, int]:
    counter = PretokenCounter()
    reader = ChunkReader(normalize_newlines=normalize_newlines)
    for chunk in chunks:
        piece = chunk.read(reader)
        counter.add_text(splitter, piece.text, piece.stops, piece.cut, piece.final)
    return counter.table().to_counts()


# ---- sources -----------------------------------------------------------------------------------------------------------


def test_find_sources__files_globs_and_stdin_in_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / name).write_bytes(name.encode())
    found = find_sources([str(tmp_path / "c.md"), "-", str(tmp_path / "*.txt")])
    assert [Path(source.path).name for source in found] == ["c.md", "-", "a.txt", "b.txt"]
    assert [source.size for source in found] == [4, None, 5, 5]


def test_find_sources__globs_that_match_folders(tmp_path: Path) -> None:
    (tmp_path / "b" / "inner").mkdir(parents=True)
    for name in ("a.txt", "b/b.txt", "b/inner/c.txt", "b/.hidden", "d.txt"):
        (tmp_path / name).write_bytes(b"x")

    def names(pattern: str) -> list[str]:
        return [os.path.relpath(source.path, tmp_path) for source in find_sources([str(tmp_path / pattern)])]

    assert names("*") == ["a.txt", "b/b.txt", "b/inner/c.txt", "d.txt"]  # as if the shell expanded it
    assert names("**") == names("*")
    assert names("b/**/*.txt") == ["b/b.txt", "b/inner/c.txt"]


def test_find_sources__file_name_with_glob_characters(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_bytes(b"x")
    assert [source.size for source in find_sources(tmp_path / "a[1].txt")] == [1]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "no input was given"),
        (["missing.txt"], "`missing.txt`: No such file"),
        (["*.nothing"], r"no file matches the input `\*.nothing`"),
        (["."], "is a folder without files"),
        (["-", "-"], "listed twice"),
    ],
)
def test_find_sources__invalid_inputs(inputs: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorpusError, match=message):
        find_sources(inputs)


def test_weighted_sources__standard_input_once(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a")
    assert [source.weight for source in find_weighted_sources(["-"], {str(path): 2}, Contents())] == [1, 2]
    assert [source.weight for source in find_weighted_sources([path], {"-": 3}, Contents())] == [1, 3]
    with pytest.raises(CorpusError, match="`-`\\) is listed twice"):
        find_weighted_sources(["-"], {"-": 2}, Contents())


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_find_sources__file_without_a_size() -> None:
    (source,) = find_sources("/proc/self/status")
    assert source.size is not None
    assert source.size > 100
    words = "word " * 20_000
    with subprocess.Popen(["sh", "-c", "read line", words], stdin=subprocess.PIPE) as process:
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes():  # the shell has not started yet
            time.sleep(0.01)
        (source,) = find_sources(f"/proc/{process.pid}/cmdline")
        assert source.size == len(f"sh -c read line {words} ")
        process.communicate(b"\n")


# ---- chunks ------------------------------------------------------------------------------------------------------------

pieces = st.lists(
    st.sampled_from(
        ["word", " ", "  ", "\n", "\r\n", "\r", "don't", "12345", "é", "日本語", "。", "<|endoftext|>", "<|end", "!", "\t"]
    ),
    max_size=60,
)


@pytest.mark.parametrize("pattern", ["gpt2", "o200k"])
@given(parts=pieces, chunk_bytes=st.integers(1, 40))
def test_counts_of_chunks_equal_counts_of_text(
    pattern: str, parts: list[str], chunk_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = "".join(parts).encode()
    path = tmp_path_factory.getbasetemp() / "chunks.txt"
    path.write_bytes(data)
    splitter = Splitter(pattern, [SPECIAL])
    chunks = list(Chunker(splitter, chunk_bytes=chunk_bytes).chunks(find_sources(path)))

    assert [chunk.start for chunk in chunks[1:]] == [chunk.cut for chunk in chunks[:-1]]
    assert not chunks or (chunks[0].start == 0 and chunks[-1].cut == len(data))
    assert [chunk.final for chunk in chunks] == [False] * (len(chunks) - 1) + [True] * bool(chunks)
    assert counts_of_chunks(chunks, splitter) == counts_of(data, splitter)


@given(parts=pieces, chunk_bytes=st.integers(1, 40))
def test_counts_of_chunks_with_normalized_newlines(
    parts: list[str], chunk_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = "".join(parts).encode()
    path = tmp_path_factory.getbasetemp() / "newlines.txt"
    path.write_bytes(data)
    splitter = Splitter("cl100k", [SPECIAL])
    chunks = list(Chunker(splitter, chunk_bytes=chunk_bytes, normalize_newlines=True).chunks(find_sources(path)))
    normal = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert counts_of_chunks(chunks, splitter, normalize_newlines=True) == counts_of(normal, splitter)


def test_text_without_separators_is_cut(tmp_path: Path) -> None:
    data = data_text("prose.txt").replace(SPECIAL, b"")[: small(1_000_000, 20_000)]
    path = tmp_path / "prose.txt"
    path.write_bytes(data)
    splitter = Splitter("gpt2")
    size = len(data) // 10
    chunks = list(Chunker(splitter, chunk_bytes=size).chunks(find_sources(path)))
    assert len(chunks) == 10
    assert all(chunk.cut - chunk.start < size + 100 for chunk in chunks)
    assert counts_of_chunks(chunks, splitter) == counts_of(data, splitter)


@pytest.mark.parametrize("chunk_bytes", [1000, 3001, 1 << 20])
def test_pipe_chunks_equal_the_file(chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (data_text("cjk.txt") + data_text("code.txt"))[: small(400_000, 8_000)]
    splitter = Splitter("gpt2", [SPECIAL])
    read_end, write_end = os.pipe()

    def fill() -> None:
        with os.fdopen(write_end, "wb") as pipe:
            pipe.write(data)

    writer = threading.Thread(target=fill)
    writer.start()
    with os.fdopen(read_end, "rb") as pipe:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
        chunks = list(Chunker(splitter, chunk_bytes=chunk_bytes).chunks([Source("-", None)]))
        writer.join()
    assert b"".join(chunk.data[: chunk.cut - chunk.start] for chunk in chunks if chunk.data) == data
    assert counts_of_chunks(chunks, splitter) == counts_of(data, splitter)


def test_pattern_without_automaton_is_cut_after_special_tokens_only(tmp_path: Path) -> None:
    data = b"some words here <|endoftext|>" * 50 + b"the end"
    path = tmp_path / "text.txt"
    path.write_bytes(data)
    splitter = Splitter(r"(?<=x)y|\w+|\W", [SPECIAL])
    assert splitter.automaton is None
    chunks = list(Chunker(splitter, chunk_bytes=100).chunks(find_sources(path)))
    assert len(chunks) > 5
    assert all(data[: chunk.cut].endswith(SPECIAL) for chunk in chunks[:-1])
    assert counts_of_chunks(chunks, splitter) == counts_of(data, splitter)


def test_empty_file_has_no_chunks(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.touch()
    assert list(Chunker(Splitter("gpt2")).chunks(find_sources(path))) == []


def test_file_truncated_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(b"0123456789")
    with pytest.raises(CorpusError, match="it ends at byte 10; expected at least 20 bytes"):
        Chunk(str(path), 5, 20, 20, True).read(ChunkReader())


def test_reader_buffer_grows_for_long_chunk(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    data = np.random.default_rng(1).integers(0, 256, 5_000_000, dtype=np.uint8).tobytes()
    path.write_bytes(data)
    piece = Chunk(str(path), 0, len(data), len(data), True).read(ChunkReader())
    assert piece.text[: piece.stop].tobytes() == data
    assert piece.text.size >= piece.stop + 16


def test_groups_of_files_have_the_size_of_chunks(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"{number}.txt").write_bytes(b"%d " % number * 20)
    reader = ChunkReader()
    chunks = Chunker(Splitter("gpt2"), chunk_bytes=100).chunks(find_sources(tmp_path))
    assert [chunk.read(reader).n_bytes for chunk in chunks] == [80, 80, 80, 40]
