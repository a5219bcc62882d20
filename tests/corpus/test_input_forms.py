"""Tests that every form of input has the same counts, ids and documents as plain text, for any engine and number of workers."""

from __future__ import annotations

import gzip
import re
import zipfile
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import data_text, small
from helpers.input_forms import FORMS, SEPARATOR, write_form

import bpejit
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.contents import Contents
from bpejit.corpus.sources import find_sources, total_bytes
from bpejit.corpus.units import plan_units
from bpejit.encoding.encoder import Encoder
from bpejit.engines import make_engine
from bpejit.jobs.encode_job import encode_job

FALLBACK = r"(?<=\s)\w+|\w+|\W"


def make_documents() -> list[str]:
    prose = data_text("prose.txt")[: small(40_000, 3_000)].decode(errors="ignore")
    cjk = data_text("cjk.txt")[: small(20_000, 1_500)].decode(errors="ignore")
    text = (prose + cjk).replace(SEPARATOR, "").replace("\n", " ").replace("\r", " ")
    size = small(900, 300)
    return [text[start : start + size] for start in range(0, len(text), size)] + ["one", "é", "a longer one. " * 40]


DOCUMENTS = make_documents()

# Each form with threads and with processes; the numbers of workers alternate, and each form has two of them.
IN_PARALLEL = [
    case
    for name, (threads, processes) in zip(FORMS, cycle([(1, 2), (2, 3), (3, 1)]), strict=False)
    for case in ((name, "threads", threads), (name, "processes", processes))
]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("forms")
    return {name: write_form(folder, name, DOCUMENTS) for name in FORMS}


@pytest.fixture(scope="module")
def tokenizers(corpora: dict[str, tuple[Path, dict[str, Any]]]) -> dict[str, bpejit.Tokenizer]:
    path = corpora["text.txt"][0]
    patterns = {"automaton": "gpt2", "regex": FALLBACK}
    return {name: bpejit.train(path, vocab_size=small(800, 280), pattern=pattern) for name, pattern in patterns.items()}


@pytest.fixture(scope="module")
def expected(tokenizers: dict[str, bpejit.Tokenizer]) -> dict[str, list[list[int]]]:
    """Return the ids of each document with each tokenizer."""
    return {name: [tokenizer.encode(text) for text in DOCUMENTS] for name, tokenizer in tokenizers.items()}


@pytest.fixture(scope="module")
def counted(corpora: dict[str, tuple[Path, dict[str, Any]]]) -> bpejit.Counts:
    """Return the counts of plain text."""
    return bpejit.count(corpora["text.txt"][0], engine="serial")


def encode(
    tokenizer: bpejit.Tokenizer, inputs: Any, options: dict[str, Any], engine: str, workers: int, chunk_bytes: int
) -> tuple[list[list[int]], int]:
    """Return the ids of each document without separators, and the bytes of text."""
    contents = Contents(**options)
    sources = find_sources(inputs, contents)
    total = total_bytes(sources)
    chunks = Chunker(tokenizer._codec.encoder.splitter, chunk_bytes=chunk_bytes).chunks(sources)
    ids: list[int] = []
    ends: list[int] = []
    n_bytes = n_read = 0
    for chunk in make_engine(engine, workers).map_chunks(encode_job(Encoder(tokenizer.model), "uint16"), chunks):
        assert not chunk.skipped
        ends += (chunk.ends + len(ids)).tolist()
        ids += chunk.ids.tolist()
        n_bytes += chunk.n_bytes
        n_read += chunk.n_read
    assert total is None or n_read == total
    assert ends[-1] == len(ids)
    separator = tokenizer.token_to_id(SEPARATOR)
    found = [ids[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return [document[:-1] if document[-1:] == [separator] else document for document in found], n_bytes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["automaton", "regex"])
@pytest.mark.parametrize("name", FORMS)
def test_encoding_of_forms_agrees(
    name: str,
    kind: str,
    corpora: dict[str, tuple[Path, dict[str, Any]]],
    tokenizers: dict[str, bpejit.Tokenizer],
    expected: dict[str, list[list[int]]],
) -> None:
    path, options = corpora[name]
    for chunk_bytes in (997, 1 << 20):
        found, n_bytes = encode(tokenizers[kind], path, options, "serial", 1, chunk_bytes)
        assert found == expected[kind]
    plain = name in ("text.txt", "text.txt.gz", "text.txt.zst", "members.gz", "frames")
    assert n_bytes - plain * (len(DOCUMENTS) - 1) * len(SEPARATOR) == sum(len(text.encode()) for text in DOCUMENTS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "engine", "workers"), IN_PARALLEL)
def test_encoding_of_forms_agrees_for_all_engines(
    name: str,
    engine: str,
    workers: int,
    corpora: dict[str, tuple[Path, dict[str, Any]]],
    tokenizers: dict[str, bpejit.Tokenizer],
    expected: dict[str, list[list[int]]],
) -> None:
    path, options = corpora[name]
    found, _ = encode(tokenizers["automaton"], path, options, engine, workers, 3_000)
    assert found == expected["automaton"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "engine", "workers"), [*((name, "serial", 1) for name in FORMS), *IN_PARALLEL])
def test_counting_of_forms_agrees(
    name: str, engine: str, workers: int, corpora: dict[str, tuple[Path, dict[str, Any]]], counted: bpejit.Counts
) -> None:
    path, options = corpora[name]
    found = bpejit.count(path, engine=engine, workers=workers, chunk_bytes=3_000, **options)
    assert found.table == counted.table


@pytest.mark.parametrize("name", FORMS)
def test_units_contain_complete_documents(
    name: str,
    corpora: dict[str, tuple[Path, dict[str, Any]]],
    tokenizers: dict[str, bpejit.Tokenizer],
    expected: dict[str, list[list[int]]],
) -> None:
    tokenizer = tokenizers["automaton"]
    path, options = corpora[name]
    sources = find_sources(path, Contents(**options))
    chunker = Chunker(tokenizer._codec.encoder.splitter, chunk_bytes=1_000)
    units = plan_units(sources, 5_000, chunker, SEPARATOR.encode())
    assert sum(unit.size or 0 for unit in units) == total_bytes(sources)
    worker = encode_job(Encoder(tokenizer.model), "uint16").start()
    separator = tokenizer.token_to_id(SEPARATOR)
    found = []
    n_read = 0
    for unit in units:
        ids: list[int] = []
        for chunk in chunker.chunks(unit.sources):
            encoded = worker.run(chunk)
            n_read += encoded.n_read
            before = 0
            for end in encoded.ends.tolist():
                found.append(ids + encoded.ids[before:end].tolist())
                ids, before = [], end
            ids += encoded.ids[before:].tolist()
        assert ids == []
    assert n_read == total_bytes(sources)
    found = [document[:-1] if document[-1:] == [separator] else document for document in found]
    assert found == expected["automaton"]


def batches(documents: list[str]) -> list[Any]:
    return [documents[start : start + 7] for start in range(0, len(documents), 7)]


ITERATORS = {
    "str": lambda: iter(DOCUMENTS),
    "bytes": lambda: (text.encode() for text in DOCUMENTS),
    "mixed": lambda: (text.encode() if number % 3 else text for number, text in enumerate(DOCUMENTS)),
    "bytearray": lambda: (bytearray(text.encode()) for text in DOCUMENTS),
    "batches": lambda: iter(batches(DOCUMENTS)),
    "numpy": lambda: iter(np.array(some, dtype=object) for some in batches(DOCUMENTS)),
    "generators": lambda: iter(iter(some) for some in batches(DOCUMENTS)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "workers"), [("serial", 1), ("threads", 2), ("processes", 2)])
@pytest.mark.parametrize("name", ITERATORS)
def test_iterators_agree(
    name: str,
    engine: str,
    workers: int,
    tokenizers: dict[str, bpejit.Tokenizer],
    expected: dict[str, list[list[int]]],
    counted: bpejit.Counts,
) -> None:
    assert bpejit.count(ITERATORS[name](), engine=engine, workers=workers, chunk_bytes=3_000).table == counted.table
    found, _ = encode(tokenizers["automaton"], ITERATORS[name](), {}, engine, workers, 3_000)
    assert found == expected["automaton"]


def test_train_from_iterator(corpora: dict[str, tuple[Path, dict[str, Any]]]) -> None:
    expected = bpejit.train(corpora["text.txt"][0], vocab_size=small(800, 280))
    for texts in (DOCUMENTS, tuple(DOCUMENTS), batches(DOCUMENTS), iter(DOCUMENTS)):
        assert bpejit.train_from_iterator(texts, vocab_size=small(800, 280)).vocab == expected.vocab
    assert bpejit.train((text for text in DOCUMENTS), vocab_size=small(800, 280)).vocab == expected.vocab


@pytest.mark.parametrize("name", ["lines.txt", "lines.txt.gz"])
def test_lines_with_their_ends(tmp_path: Path, name: str) -> None:
    data = b"\n".join(text.encode() for text in DOCUMENTS) + b"\r\n\n \n" + SEPARATOR.encode() + b" x\rno end"
    lines = re.findall(rb"[^\n]*\n|[^\n]+\Z", data)
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    expected = bpejit.count(iter(lines), special_tokens=[SEPARATOR])
    for options in ({"chunk_bytes": 100, "workers": 2}, {"workers": 1}):
        found = bpejit.count([path], documents="line-with-end", special_tokens=[SEPARATOR], **options)
        assert found == expected
    tokenizer = bpejit.train(iter(lines), vocab_size=300, special_tokens=[SEPARATOR])
    tokenizer.encode_files([path], tmp_path / "t.bin", documents="line-with-end", chunk_bytes=100, document_index=True)
    tokens = bpejit.open_tokens(tmp_path / "t.bin")
    assert [tokenizer.decode_bytes(tokens.document(number)) for number in range(tokens.n_documents)] == lines
    tokenizer.encode_files([path], tmp_path / "s.bin", documents="line-with-end", allow_special=True)
    special = tokenizer.token_to_id(SEPARATOR)
    assert ((tokens[:] == special).sum(), (bpejit.open_tokens(tmp_path / "s.bin")[:] == special).sum()) == (0, 1)


def test_file_in_an_archive_is_read(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    text = "some words " * 100
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("text.txt", text)
    assert bpejit.count(f"zip://text.txt::{tmp_path}/a.zip").n_bytes == len(text)
