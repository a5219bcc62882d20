"""Tests of the borders of documents, and of indexing, in all formats of token files."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_file_helpers import HASH, write_documents

from bpejit.errors import OutputError, TokenFileError
from bpejit.tokenfiles.document_index import document_index_path
from bpejit.tokenfiles.opening import open_tokens, token_writer

FORMATS = ("bin", "npy", "megatron", "parquet", "llmc", "datatrove", "arrow", "text")


@pytest.mark.parametrize("name", FORMATS)
@given(
    documents=st.lists(st.lists(st.integers(0, 999), max_size=7), max_size=9),
    block=st.integers(1, 12),
    reading=st.integers(1, 12),
)
def test_documents_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, name: str, documents: list[list[int]], block: int, reading: int
) -> None:
    path = tmp_path_factory.mktemp("tokens") / "tokens"
    write_documents(path, documents, name=name, block=block)
    found = open_tokens(path)
    ids = [number for document in documents for number in document]
    assert found.ids.tolist() == found[:].tolist() == ids
    assert len(found) == found.n_tokens == len(ids)
    assert found.n_documents == len(documents)
    assert [found.document(number).tolist() for number in range(len(documents))] == documents
    assert [found[index] for index in range(len(ids))] == ids
    blocks = [part.tolist() for part in found.blocks(reading)]
    assert [number for block in blocks for number in block] == ids
    done, ends = 0, []
    for part, some in found.document_blocks(reading):
        assert part.tolist() == ids[done : done + part.size]
        assert some is not None
        ends += (some + done).tolist()
        done += part.size
    assert done == len(ids)
    assert ends == np.cumsum([len(document) for document in documents], dtype=int).tolist()
    found.verify()


@pytest.mark.parametrize("name", FORMATS)
def test_indexing(tmp_path: Path, name: str) -> None:
    write_documents(tmp_path / "t", [[1, 2, 3], [], [4, 5]], name=name)
    found = open_tokens(tmp_path / "t")
    assert (found[0], found[-1], found[np.int64(2)]) == (1, 5, 3)
    assert type(found[0]) is int
    assert found[1:3].tolist() == [2, 3]
    assert found[::-2].tolist() == [5, 3, 1]
    assert found[10:].tolist() == found[3:1].tolist() == []
    assert found.document(-1).tolist() == [4, 5]
    assert found.document(np.int64(1)).tolist() == []
    for wrong in (3, -4):
        with pytest.raises(IndexError, match="there is no document"):
            found.document(wrong)
    for wrong in (5, -6):
        with pytest.raises(IndexError):
            found[wrong]
    with pytest.raises(TypeError):
        found["0"]  # type: ignore[call-overload]
    assert not found[1:3].flags.writeable
    assert not found.document(0).flags.writeable


@pytest.mark.parametrize("name", FORMATS)
def test_ids_after_the_last_end_are_a_document(tmp_path: Path, name: str) -> None:
    options: Any = {"vocab_size": 10, "tokenizer_sha256": HASH, "format": name, "document_index": True}
    with token_writer(tmp_path / "t", **options) as writer:
        writer.write(np.array([1, 2, 3]), ends=np.array([2]))
        writer.write(np.array([4]))
    found = open_tokens(tmp_path / "t")
    assert [found.document(number).tolist() for number in range(2)] == [[1, 2], [3, 4]]
    assert found.n_documents == 2


@pytest.mark.parametrize("ends", [[4], [-1], [2, 1], [[1]], [0.5]])
def test_wrong_ends(tmp_path: Path, ends: list[Any]) -> None:
    with (
        pytest.raises(ValueError, match="the ends of documents"),
        token_writer(tmp_path / "t", vocab_size=10, tokenizer_sha256=HASH, document_index=True) as writer,
    ):
        writer.write(np.array([1, 2, 3]), ends=np.array(ends))
    assert list(tmp_path.iterdir()) == []


# ---- the document index


def test_document_index_is_a_numpy_file(tmp_path: Path) -> None:
    write_documents(tmp_path / "t.bin", [[1, 2], [], [3]])
    starts = np.load(tmp_path / "t.bin.docs.npy")
    assert starts.dtype == np.dtype("<i8")
    assert starts.tolist() == [0, 2, 2, 3]
    np.save(tmp_path / "numpy.npy", np.array([0, 2, 2, 3], dtype="<i8"))
    assert (tmp_path / "numpy.npy").read_bytes() == (tmp_path / "t.bin.docs.npy").read_bytes()
    description = json.loads((tmp_path / "t.bin.json").read_text())
    assert (description["format_version"], description["documents"]) == (1, 3)


def test_file_without_borders(tmp_path: Path) -> None:
    write_documents(tmp_path / "t", [[1, 2], [3]], document_index=False)
    found = open_tokens(tmp_path / "t")
    assert found.n_documents is None
    assert [(ids.tolist(), ends) for ids, ends in found.document_blocks()] == [([1, 2, 3], None)]
    with pytest.raises(TokenFileError, match=r"t.docs.npy`; expected that file: encode .* with `document_index=True`"):
        found.document(0)
    assert {path.name for path in tmp_path.iterdir()} == {"t", "t.json"}


def test_index_without_description(tmp_path: Path) -> None:
    write_documents(tmp_path / "t", [[1, 2], [3]])
    (tmp_path / "t.json").unlink()
    assert open_tokens(tmp_path / "t", dtype="uint16").document(1).tolist() == [3]


def test_old_index_is_removed(tmp_path: Path) -> None:
    write_documents(tmp_path / "t", [[1, 2], [3]])
    with pytest.raises(OutputError, match=r"already exists"):
        write_documents(tmp_path / "t", [[4]], document_index=False)
    write_documents(tmp_path / "t", [[4]], document_index=False, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"t", "t.json"}
    assert open_tokens(tmp_path / "t").n_documents is None


def test_index_is_refused_for_streams() -> None:
    with pytest.raises(OutputError, match="cannot be written to a stream"):
        write_documents(io.BytesIO(), [[1]])
    for path in ("-", os.devnull):
        with pytest.raises(OutputError, match="the result is several files"):
            write_documents(path, [[1]])


def save(path: Path, array: Any) -> None:
    with path.open("wb") as file:
        np.save(file, np.array(array))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "there is no such file"),
        (lambda path: path.write_bytes(b""), "not a complete NumPy file"),
        (lambda path: path.write_bytes(b"\x93NUMPY\1\0" + b"x" * 200), "not a complete NumPy file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes after its header"),
        (lambda path: save(path, [[0, 2, 3]]), "2 dimensions"),
        (lambda path: save(path, [0.0, 2, 3]), "3 numbers of float64"),
        (lambda path: save(path, np.empty(0, "<i8")), "0 numbers of int64"),
        (lambda path: save(path, [0, 2, 4]), "first and last number are 0 and 4; expected 0 and 3"),
        (lambda path: save(path, [1, 2, 3]), "first and last number are 1 and 3"),
        (lambda path: save(path, [0, 1, 2, 3]), "has 3 documents; expected 2"),
    ],
)
def test_damaged_index(tmp_path: Path, damage: Any, message: str) -> None:
    write_documents(tmp_path / "t", [[1, 2], [3]])
    damage(document_index_path(tmp_path / "t"))
    with pytest.raises(TokenFileError, match=message):
        open_tokens(tmp_path / "t")


def test_verify_reads_the_index(tmp_path: Path) -> None:
    write_documents(tmp_path / "t", [[1, 2], [3], [4]])
    save(document_index_path(tmp_path / "t"), [0, 3, 2, 4])
    found = open_tokens(tmp_path / "t")
    with pytest.raises(TokenFileError, match="document 1 starts at 3 and ends at 2"):
        found.verify()
