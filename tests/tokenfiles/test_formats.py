"""Tests of the layouts of token files: as numpy reads them, and as the published layout describes them."""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.token_files import HASH, write_documents

import bpejit
from bpejit.errors import OptionError, OutputError, TokenFileError
from bpejit.tokenfiles import array_files, arrow_files
from bpejit.tokenfiles.opening import format_of, open_tokens, recognized_format

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")

DOCUMENTS = [[1, 2, 3], [], [4, 5], [6]]
IDS = [1, 2, 3, 4, 5, 6]
HEADERS = ["npy", "llmc", "megatron", "datatrove", "parquet", "arrow"]


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_npy_is_what_numpy_writes(tmp_path: Path) -> None:
    write_documents(tmp_path / "t.npy", DOCUMENTS, name="npy", document_index=False)
    np.save(tmp_path / "numpy.npy", np.array(IDS, dtype="<u2"))
    assert (tmp_path / "t.npy").read_bytes() == (tmp_path / "numpy.npy").read_bytes()
    assert np.load(tmp_path / "t.npy", mmap_mode="r").tolist() == IDS
    description = json.loads((tmp_path / "t.npy.json").read_text())
    assert (description["format_version"], description["file_format"], description["tokens"]) == (2, "npy", 6)
    write_documents(tmp_path / "d.npy", DOCUMENTS, name="npy")
    assert np.load(tmp_path / "d.npy.docs.npy").tolist() == [0, 3, 3, 5, 6]


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int32", "int64"])
def test_npy_of_numpy_is_read(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "t.npy", np.array(IDS, dtype=dtype))
    found = open_tokens(tmp_path / "t.npy")
    assert (found.dtype, found.ids.tolist(), found.n_documents, found.vocab_size) == (dtype, IDS, None, None)
    assert np.concatenate(list(found.blocks(4))).tolist() == IDS
    with pytest.raises(TokenFileError, match="cannot be verified"):
        found.verify()
    with pytest.raises(TokenFileError, match="expected uint16: omit the dtype" if dtype != "uint16" else "expected uint32"):
        open_tokens(tmp_path / "t.npy", dtype="uint32" if dtype == "uint16" else "uint16")


@pytest.mark.parametrize("number", [-1, 2**32])
def test_npy_with_numbers_that_are_no_ids(tmp_path: Path, number: int) -> None:
    np.save(tmp_path / "t.npy", np.array([1, number]))
    found = open_tokens(tmp_path / "t.npy")
    with pytest.raises(TokenFileError, match=f"contains the id {number}; expected ids from 0 to"):
        list(found.blocks())


@pytest.mark.parametrize(
    "array", [np.zeros((2, 2), "<u2"), np.zeros(3, "<f4"), np.zeros(3, ">u2"), np.array(["a"]), np.zeros(0, "b")]
)
def test_other_npy_files_are_refused(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "t.npy", array)
    with pytest.raises(TokenFileError, match="expected"):
        open_tokens(tmp_path / "t.npy")


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<u2', 'fortran_order': False, 'shape': (6,), ",
        b"{'descr': '<u2', 'fortran_order': False, 'shape': (6L,), '\\d': 1}",
        b"{'descr': '<u2', 'fortran_order': False, 'shape': (-6,)}",
        b"{'descr': '<u2', 'fortran_order': False, 'shape': (10**30,)}",
        b"{'descr': ('<u2', 3.5), 'fortran_order': False, 'shape': (6,)}",
        b"{'descr': '<u2', 'shape': (6,)}",
        b"[" * 2000,
        b"\xff\0",
        b"",
    ],
)
def test_npy_headers_that_are_none(tmp_path: Path, header: bytes) -> None:
    data = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + np.array(IDS, "<u2").tobytes()
    for damaged in (data, b"\x93NUMPY\7\3" + data[8:], data[: 8 + len(header) // 2]):
        (tmp_path / "t.npy").write_bytes(damaged)
        with pytest.raises(TokenFileError, match="is not a complete NumPy file"):
            open_tokens(tmp_path / "t.npy")


def test_npy_without_header(tmp_path: Path) -> None:
    """Files of dolma and OLMo have the suffix, but no header."""
    np.array(IDS, "<u2").tofile(tmp_path / "t.npy")
    with pytest.raises(TokenFileError, match="not a complete NumPy file"):
        open_tokens(tmp_path / "t.npy", format="npy")
    assert open_tokens(tmp_path / "t.npy", dtype="uint16").ids.tolist() == IDS


# ---- llm.c


@pytest.mark.parametrize(
    ("vocab_size", "dtype", "magic", "version"), [(50257, "<u2", 20240520, 1), (128000, "<u4", 20240801, 7)]
)
def test_llmc_layout(tmp_path: Path, vocab_size: int, dtype: str, magic: int, version: int) -> None:
    write_documents(tmp_path / "t.bin", DOCUMENTS, name="llmc", document_index=False, vocab_size=vocab_size)
    data = (tmp_path / "t.bin").read_bytes()
    header = np.zeros(256, dtype="<i4")
    header[:3] = magic, version, 6
    assert data == header.tobytes() + np.array(IDS, dtype).tobytes()
    (tmp_path / "t.bin.json").unlink()
    found = open_tokens(tmp_path / "t.bin")
    assert (found.dtype, found.ids.tolist(), found.n_documents) == (np.dtype(dtype).name, IDS, None)
    assert type(format_of(tmp_path / "t.bin")).name == "llmc"
    with pytest.raises(TokenFileError, match="omit the dtype"):
        open_tokens(tmp_path / "t.bin", dtype="uint32" if found.dtype == "uint16" else "uint16")


def test_llmc_counts_ids_with_31_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_files, "_LIMIT", 6)
    with pytest.raises(TokenFileError, match=r"cannot write more than 5 ids .* `shard_tokens=`"):
        write_documents(tmp_path / "t.bin", DOCUMENTS, name="llmc")
    assert files(tmp_path) == set()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "begins with the numbers none"),
        (struct.pack("<3i", 20240520, 1, 1), "is not a token file of llm.c"),
        (struct.pack("<256i", 20240520, 2, 1, *[0] * 253) + b"\1\0", "begins with the numbers 20240520, 2"),
        (struct.pack("<256i", 20240520, 1, 2, *[0] * 253) + b"\1\0", "n_tokens is 1; expected 2"),
        (struct.pack("<256i", 20240520, 1, 1, *[0] * 253) + b"\1", "1 bytes of ids, which is not a multiple of 2"),
    ],
)
def test_broken_llmc_file(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "t.bin").write_bytes(data)
    with pytest.raises(TokenFileError, match=message):
        open_tokens(tmp_path / "t.bin", format="llmc")


# ---- Megatron


def read_megatron(prefix: Path) -> tuple[np.dtype[Any], list[int], list[int], list[int], list[int]]:
    """Read an indexed dataset as Megatron's `IndexedDataset` does: dtype, ids, lengths, positions and documents."""
    data = Path(f"{prefix}.idx").read_bytes()
    assert data[:9] == b"MMIDIDX\0\0"
    version, code, n_sequences, n_documents = struct.unpack_from("<QBQQ", data, 9)
    assert version == 1
    dtype = np.dtype({4: "<i4", 5: "<i8", 8: "<u2"}[code])
    lengths = np.frombuffer(data, "<i4", n_sequences, 34)
    positions = np.frombuffer(data, "<i8", n_sequences, 34 + lengths.nbytes)
    documents = np.frombuffer(data, "<i8", n_documents, 34 + lengths.nbytes + positions.nbytes)
    assert 34 + lengths.nbytes + positions.nbytes + documents.nbytes == len(data)
    ids = np.fromfile(f"{prefix}.bin", dtype)
    return dtype, ids.tolist(), lengths.tolist(), positions.tolist(), documents.tolist()


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65499, "<u2"), (65500, "<i4"), (70000, "<i4")])
@pytest.mark.parametrize("name", ["corpus", "corpus.bin", "corpus.idx"])
def test_megatron_layout(tmp_path: Path, vocab_size: int, dtype: str, name: str) -> None:
    write_documents(tmp_path / name, DOCUMENTS, name="megatron", vocab_size=vocab_size)
    assert files(tmp_path) == {"corpus.bin", "corpus.idx", "corpus.bin.json"}
    size = np.dtype(dtype).itemsize
    expected = (np.dtype(dtype), IDS, [3, 0, 2, 1], [0, 3 * size, 3 * size, 5 * size], [0, 1, 2, 3, 4])
    assert read_megatron(tmp_path / "corpus") == expected
    for again in ("corpus", "corpus.bin", "corpus.idx"):
        assert [open_tokens(tmp_path / again).document(number).tolist() for number in range(4)] == DOCUMENTS
    (tmp_path / "corpus.bin.json").unlink()
    found = open_tokens(tmp_path / "corpus")
    assert (found.dtype, found.n_documents, found.ids.tolist()) == (np.dtype(dtype).name, 4, IDS)


def test_megatron_dtypes(tmp_path: Path) -> None:
    write_documents(tmp_path / "a", DOCUMENTS, name="megatron", vocab_size=65536, dtype="uint16")
    assert open_tokens(tmp_path / "a").dtype == "uint16"
    with pytest.raises(TokenFileError, match="dtype is 'uint32'; expected one of 'uint16', 'int32', 'int64'"):
        write_documents(tmp_path / "b", DOCUMENTS, name="megatron", dtype="uint32")
    with pytest.raises(TokenFileError, match="uint16 holds ids up to 65535"):
        write_documents(tmp_path / "b", DOCUMENTS, name="megatron", vocab_size=65537, dtype="uint16")
    write_documents(tmp_path / "c", DOCUMENTS, name="megatron", vocab_size=2**31 + 1)
    assert open_tokens(tmp_path / "c").dtype == "int64"


def test_megatron_with_many_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_files, "_BLOCK", 2)
    documents = [[number] * (number % 4) for number in range(9)]
    write_documents(tmp_path / "t", documents, name="megatron")
    _, _, lengths, positions, numbers = read_megatron(tmp_path / "t")
    assert lengths == [len(document) for document in documents]
    assert positions == [0, *np.cumsum(lengths)[:-1] * 2]
    assert numbers == list(range(10))


def test_megatron_with_several_sequences_per_document(tmp_path: Path) -> None:
    np.array(IDS, "<u2").tofile(tmp_path / "t.bin")
    numbers = np.array([0, 2, 2, 3], "<i8").tobytes()
    header = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, 3, 4)
    lengths, positions = np.array([1, 2, 3], "<i4").tobytes(), np.array([0, 2, 6], "<i8").tobytes()
    (tmp_path / "t.idx").write_bytes(header + lengths + positions + numbers + b"\0\0\0")  # with modes
    found = open_tokens(tmp_path / "t")
    assert [found.document(number).tolist() for number in range(3)] == [[1, 2, 3], [], [4, 5, 6]]


def test_too_long_document_for_megatron(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_files, "_LONGEST", 2)
    with pytest.raises(TokenFileError, match="a document has 3 ids"):
        write_documents(tmp_path / "t", DOCUMENTS, name="megatron")
    assert files(tmp_path) == set()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:20], "begins with"),
        (lambda data: b"M" * len(data), "begins with b'MMMMMMMMM'"),
        (lambda data: data[:17] + b"\7" + data[18:], "dtype code 7"),
        (lambda data: data[:9] + b"\2" + data[10:], "has version 2"),
        (lambda data: data[:-1], "bytes; expected"),
        (lambda data: data[:30] + b"\3" + data[31:], "bytes; expected"),
        (lambda data: data[:46] + b"\2" + data[47:], "ends at the byte 14; expected 12"),
        (lambda data: data[:-8] + b"\3" + data[-7:], "documents from the sequence 0 to 3; expected 0 to 4"),
    ],
)
def test_broken_megatron_index(tmp_path: Path, damage: Any, message: str) -> None:
    write_documents(tmp_path / "t", DOCUMENTS, name="megatron")
    (tmp_path / "t.idx").write_bytes(damage((tmp_path / "t.idx").read_bytes()))
    with pytest.raises(TokenFileError, match=message):
        open_tokens(tmp_path / "t")


@pytest.mark.parametrize(
    ("form", "at", "number", "message"),
    [
        ("<i", 34, 4, "sequence 0 has 4 ids from the byte 0 to 6"),
        ("<i", 34 + 4, -1, "sequence 1 has -1 ids"),
        ("<i", 34 + 8, 2**31 - 1, "sequence 2 has 2147483647 ids"),
        ("<q", 34 + 16, 2, "sequence 0 has 3 ids from the byte 2 to 6; expected sequences of uint16 that follow each other"),
        ("<q", 34 + 24, 10**9, "sequence 0 has 3 ids from the byte 0 to 1000000000"),
        ("<q", 34 + 24, -8, "from the byte 0 to -8"),
        ("<q", 34 + 32, 7, "sequence 1 has 0 ids from the byte 6 to 7"),
        ("<q", 34 + 32, 0, "sequence 1 has 0 ids from the byte 6 to 0"),
        ("<q", 34 + 48 + 8, 10**6, "begin with sequences from 0 to 1000000; expected ascending numbers up to 4"),
        ("<q", 34 + 48 + 8, -3, "begin with sequences from -3 to 4"),
    ],
)
def test_megatron_index_that_contradicts_itself(tmp_path: Path, form: str, at: int, number: int, message: str) -> None:
    write_documents(tmp_path / "t", DOCUMENTS, name="megatron")
    (tmp_path / "t.bin.json").unlink()
    data = bytearray((tmp_path / "t.idx").read_bytes())
    struct.pack_into(form, data, at, number)
    (tmp_path / "t.idx").write_bytes(data)
    found = open_tokens(tmp_path / "t")
    with pytest.raises(TokenFileError, match=message):
        list(found.document_blocks())
    with pytest.raises(TokenFileError, match="does not describe the documents"):
        for number in range(4):
            found.document(number)


def test_files_of_bpejit_without_index(tmp_path: Path) -> None:
    write_documents(tmp_path / "t", DOCUMENTS, name="megatron")
    (tmp_path / "t.idx").unlink()
    with pytest.raises(TokenFileError, match=r"cannot read `.*t.idx`: there is no such file"):
        open_tokens(tmp_path / "t")


@pytest.mark.parametrize("name", ["t", "t.bin", "t.idx"])
def test_description_that_is_damaged_is_named(tmp_path: Path, name: str) -> None:
    write_documents(tmp_path / "t", DOCUMENTS, name="megatron")
    (tmp_path / "t.bin.json").write_text("{")
    with pytest.raises(TokenFileError, match=r"t.bin.json` is broken at line 1"):
        open_tokens(tmp_path / name)


# ---- datatrove


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65536, "<u2"), (65537, "<u4")])
def test_datatrove_layout(tmp_path: Path, vocab_size: int, dtype: str) -> None:
    write_documents(tmp_path / "t.ds", DOCUMENTS, name="datatrove", vocab_size=vocab_size)
    assert files(tmp_path) == {"t.ds", "t.ds.index", "t.ds.metadata", "t.ds.json"}
    assert np.fromfile(tmp_path / "t.ds", dtype).tolist() == IDS
    assert np.fromfile(tmp_path / "t.ds.index", "<u8").tolist() == [3, 3, 5, 6]
    size = np.dtype(dtype).itemsize
    assert (tmp_path / "t.ds.metadata").read_text() == f"bpejit:{HASH}|{size}\n6\n6 T"
    (tmp_path / "t.ds.json").unlink()
    found = open_tokens(tmp_path / "t.ds")
    assert (found.dtype, found.ids.tolist(), found.n_documents) == (np.dtype(dtype).name, IDS, 4)
    (tmp_path / "t.ds.metadata").unlink()
    with pytest.raises(TokenFileError, match=r'metadata`; .* pass `dtype="uint16"`'):
        open_tokens(tmp_path / "t.ds")
    assert open_tokens(tmp_path / "t.ds", dtype=np.dtype(dtype).name).ids.tolist() == IDS


def test_broken_datatrove_files(tmp_path: Path) -> None:
    write_documents(tmp_path / "t.ds", DOCUMENTS, name="datatrove")
    index, metadata = tmp_path / "t.ds.index", tmp_path / "t.ds.metadata"
    good = index.read_bytes()
    for data, message in ((good[:-8], "the last document ends at 5; expected 6"), (good[:-1], "not a multiple of 8")):
        index.write_bytes(data)
        with pytest.raises(TokenFileError, match=message):
            open_tokens(tmp_path / "t.ds")
    index.write_bytes(np.array([3, 2, 5, 6], "<u8").tobytes())
    with pytest.raises(TokenFileError, match="document 1 starts at 3 and ends at 2"):
        open_tokens(tmp_path / "t.ds").verify()
    index.write_bytes(good)
    for text, message in (
        ("gpt2|2\n7\n7 T", r"n_tokens is 6; expected 7, as in .*metadata`"),
        ("gpt2|4\n3\n3 T", r"ids of uint32 according to .*; expected uint16"),
    ):
        metadata.write_text(text)
        with pytest.raises(TokenFileError, match=message):
            open_tokens(tmp_path / "t.ds")
    metadata.write_text("gpt2|3\n")
    with pytest.raises(TokenFileError, match=r"begins with b'gpt2\|3'; expected"):
        open_tokens(tmp_path / "t.ds")


# ---- Parquet and Arrow

LISTS = ["parquet", "arrow"]


def read_table(path: Path, name: str) -> pa.Table:
    return pq.read_table(path) if name == "parquet" else feather.read_table(path)


def write_table(table: pa.Table, path: Path, name: str, **options: Any) -> None:
    if name == "parquet":
        pq.write_table(table, path, **options)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(("vocab_size", "dtype"), [(65536, "uint16"), (65537, "int32")])
def test_lists_are_read_by_pyarrow(tmp_path: Path, name: str, vocab_size: int, dtype: str) -> None:
    write_documents(tmp_path / "t", DOCUMENTS, name=name, vocab_size=vocab_size)
    table = read_table(tmp_path / "t", name)
    assert table.to_pydict() == {"input_ids": DOCUMENTS}
    assert str(table.schema.field("input_ids").type.value_type) == dtype
    assert files(tmp_path) == {"t", "t.json"}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("rows", [2, 100])
def test_groups_do_not_depend_on_blocks(tmp_path: Path, name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_files, "GROUP_TOKENS", 4)
    monkeypatch.setattr(arrow_files, "GROUP_ROWS", rows)
    documents = [[number] * (number % 6) for number in range(30)]
    for block in (1, 2, 7, 100):
        write_documents(tmp_path / str(block), documents, name=name, block=block)
    contents = {(tmp_path / str(block)).read_bytes() for block in (1, 2, 7, 100)}
    assert len(contents) == 1
    found = open_tokens(tmp_path / "1")
    ids = [number for document in documents for number in document]
    assert found[3:40].tolist() == ids[3:40]
    assert [found.document(number).tolist() for number in range(30)] == documents
    for size in (1, 3, 100):
        parts = list(found.document_blocks(size))
        assert [number for part, _ in parts for number in part.tolist()] == ids
        assert sum(0 if ends is None else ends.size for _, ends in parts) == 30
    if name == "parquet":
        metadata = pq.ParquetFile(tmp_path / "1").metadata
        assert metadata.num_row_groups > 5
        assert json.loads(metadata.metadata[b"bpejit.tokens"])[0] >= (4 if rows == 100 else 0)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("dtype", ["uint16", "int32", "int64"])
@pytest.mark.parametrize("column", ["input_ids", "tokens"])
def test_lists_of_other_tools(tmp_path: Path, name: str, dtype: str, column: str) -> None:
    kind = pa.list_(getattr(pa, dtype)())
    table = pa.table({"id": ["a", "b", "c", "d"], column: pa.array(DOCUMENTS, kind)})
    write_table(table.slice(1), tmp_path / "t", name, **({"row_group_size": 2} if name == "parquet" else {}))
    found = open_tokens(tmp_path / "t")
    assert (found.dtype, found.ids.tolist(), found.n_documents) == (dtype, [4, 5, 6], 3)
    assert found.document(1).tolist() == [4, 5]
    assert open_tokens(tmp_path / "t", dtype=dtype).ids.tolist() == [4, 5, 6]
    with pytest.raises(TokenFileError, match="omit the dtype"):
        open_tokens(tmp_path / "t", dtype="uint32")


@pytest.mark.parametrize("name", LISTS)
def test_other_columns_are_refused(tmp_path: Path, name: str) -> None:
    write_table(pa.table({"text": ["a"]}), tmp_path / "t", name)
    with pytest.raises(TokenFileError, match=r"its columns are text \(string\); expected `input_ids` or"):
        open_tokens(tmp_path / "t")
    for lists in ([[1], None], [[1, None]]):
        write_table(pa.table({"input_ids": pa.array(lists, pa.list_(pa.int32()))}), tmp_path / "n", name)
        with pytest.raises(TokenFileError, match="has nulls in its column"):
            list(open_tokens(tmp_path / "n").blocks())


@pytest.mark.parametrize("name", LISTS)
def test_damaged_lists(tmp_path: Path, name: str) -> None:
    write_documents(tmp_path / "t", DOCUMENTS, name=name)
    changed = [[1, 2, 3], [], [4, 7], [6]]
    schema = read_table(tmp_path / "t", name).schema.remove_metadata()
    write_table(pa.table({"input_ids": changed}, schema=schema), tmp_path / "t", name)
    with pytest.raises(TokenFileError, match="does not match"):
        open_tokens(tmp_path / "t").verify()
    data = (tmp_path / "t").read_bytes()
    for damaged in (b"", data[:20], data[:-1]):
        (tmp_path / "t").write_bytes(damaged)
        with pytest.raises(TokenFileError, match=r"cannot be read: .*; expected a complete (Parquet|Arrow) file"):
            open_tokens(tmp_path / "t")
    write_table(pa.table({"input_ids": changed[:2]}, schema=schema), tmp_path / "t", name)
    with pytest.raises(TokenFileError, match="n_tokens is 3; expected 6, as in"):
        open_tokens(tmp_path / "t")


@pytest.mark.parametrize(
    ("counts", "message"),
    [("[5]", "has 6 ids in its group 0; expected 5"), ("[6, 0]", ""), ("[1e400]", ""), ("[" * 5000, ""), ("7", "")],
)
def test_parquet_with_a_wrong_number_of_ids(tmp_path: Path, counts: str, message: str) -> None:
    table = pa.table({"input_ids": pa.array(DOCUMENTS, pa.list_(pa.uint16()))})
    pq.write_table(table.replace_schema_metadata({"bpejit.tokens": counts}), tmp_path / "t")
    found = open_tokens(tmp_path / "t")
    if not message:  # not what this format stores, so the ids are counted
        assert (len(found), found.ids.tolist()) == (6, IDS)
        return
    for read in (lambda: list(found.blocks()), lambda: list(found.document_blocks()), lambda: found[0], lambda: found.ids):
        with pytest.raises(TokenFileError, match=message):
            read()


@pytest.mark.parametrize("offsets", [[0, 5, 3], [0, 2, 1 << 30], [-4, 2, 3], [0, 3, 2]])
def test_arrow_offsets_that_leave_the_values(tmp_path: Path, offsets: list[int]) -> None:
    write_table(pa.table({"input_ids": pa.array([[1, 2], [3]], pa.list_(pa.uint16()))}), tmp_path / "t", "arrow")
    stored = np.array([0, 2, 3], "<i4").tobytes()
    data = (tmp_path / "t").read_bytes()
    assert data.count(stored) == 1
    (tmp_path / "t").write_bytes(data.replace(stored, np.array(offsets, "<i4").tobytes()))
    with pytest.raises(TokenFileError, match="cannot be read"):
        bpejit.convert_tokens(tmp_path / "t", tmp_path / "out", format="parquet")


@pytest.mark.parametrize("name", LISTS)
def test_other_columns_are_checked(tmp_path: Path, name: str) -> None:
    kind = pa.list_(pa.uint16())
    twice = pa.Table.from_arrays([pa.array(DOCUMENTS, kind)] * 2, names=["input_ids"] * 2)
    write_table(twice, tmp_path / "t", name)
    with pytest.raises(TokenFileError, match="has no column of token ids: its columns are input_ids"):
        open_tokens(tmp_path / "t")
    write_table(pa.table({"input_ids": pa.array([[1, 2], [3, 4]], pa.list_(pa.uint16(), 2))}), tmp_path / "t", name)
    with pytest.raises(TokenFileError, match="fixed_size_list"):
        open_tokens(tmp_path / "t")


@pytest.mark.parametrize("name", LISTS)
def test_without_pyarrow(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_documents(tmp_path / "t", DOCUMENTS, name=name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    for call in (
        lambda: open_tokens(tmp_path / "t"),
        lambda: write_documents(tmp_path / "u", DOCUMENTS, name=name),
    ):
        with pytest.raises(TokenFileError, match=r"needs the package `pyarrow`.*pip install 'bpejit\[data\]'"):
            call()
    assert files(tmp_path) == {"t", "t.json"}


@pytest.mark.parametrize("name", LISTS)
def test_too_long_document_for_lists(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_files, "_LONGEST", 2)
    with pytest.raises(TokenFileError, match="3 ids, and the lists of the format"):
        write_documents(tmp_path / "t", [[1, 2, 3]], name=name)
    assert files(tmp_path) == set()


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("group", [1, 12, 1000])
def test_packed_rows(tmp_path: Path, name: str, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ids in order, in rows of four, with the documents, or parts of documents, in each row."""
    monkeypatch.setattr(arrow_files, "GROUP_TOKENS", group)
    documents = [[number] * (number * 7 % 6) for number in range(1, 20)]
    ids = [number for document in documents for number in document]
    contents = set()
    for block in (1, 5, 100):
        write_documents(tmp_path / "d", documents, block=block, overwrite=True)
        done = bpejit.convert_tokens(tmp_path / "d", tmp_path / "t", format=name, pack=4, overwrite=True)
        contents.add((tmp_path / "t").read_bytes())
    assert len(contents) == 1
    n_rows = len(ids) // 4
    assert (done.tokens, done.documents, done.left_out) == (4 * n_rows, n_rows, len(ids) % 4)
    assert done.left_out
    table = read_table(tmp_path / "t", name).to_pydict()
    assert table["input_ids"] == [ids[4 * row : 4 * row + 4] for row in range(n_rows)]
    for row, lengths in zip(table["input_ids"], table["document_lengths"], strict=True):
        changes = [index for index in range(1, 4) if row[index] != row[index - 1]]
        assert np.cumsum(lengths).tolist() == [*changes, 4]
    found = open_tokens(tmp_path / "t")
    assert (found.n_documents, found.document(1).tolist()) == (n_rows, ids[4:8])
    found.verify()


def test_encoding_into_packed_rows(tmp_path: Path) -> None:
    tokenizer = bpejit.Tokenizer({number: bytes([number]) for number in range(256)}, [], ["<|e|>"])
    (tmp_path / "text.txt").write_text("abc\ndefgh\n\nij\n")
    given: Any = {"format": "parquet", "documents": "line", "append_token": "<|e|>"}
    tokenizer.encode_files(tmp_path / "text.txt", tmp_path / "plain", **given)
    tokenizer.encode_files(tmp_path / "text.txt", tmp_path / "packed", pack=4, **given)
    bpejit.convert_tokens(tmp_path / "plain", tmp_path / "converted", format="parquet", pack=4)
    assert (tmp_path / "packed").read_bytes() == (tmp_path / "converted").read_bytes()
    rows = pq.read_table(tmp_path / "packed").to_pydict()
    assert [tokenizer.decode(row) for row in rows["input_ids"]] == ["abc<|e|>", "defg", "h<|e|><|e|>i"]
    assert rows["document_lengths"] == [[4], [4], [2, 1, 1]]
    manifest = json.loads((tmp_path / "packed.manifest.json").read_text())
    assert (manifest["job"]["pack"], manifest["outputs"][0]["tokens"]) == (4, 12)
    with pytest.raises(OptionError, match="the format bin has no rows"):
        tokenizer.encode_files(tmp_path / "text.txt", tmp_path / "x", pack=4)


@pytest.mark.parametrize("name", LISTS)
def test_rows_of_one_id(tmp_path: Path, name: str) -> None:
    write_documents(tmp_path / "d", DOCUMENTS)
    bpejit.convert_tokens(tmp_path / "d", tmp_path / "t", format=name, pack=1)
    table = read_table(tmp_path / "t", name).to_pydict()
    assert table == {"input_ids": [[1], [2], [3], [4], [5], [6]], "document_lengths": [[1]] * 6}


def test_packing_needs_rows(tmp_path: Path) -> None:
    write_documents(tmp_path / "d", DOCUMENTS)
    with pytest.raises(OptionError, match="pack is 4, and the format npy has no rows; expected parquet or arrow"):
        bpejit.convert_tokens(tmp_path / "d", tmp_path / "t", format="npy", pack=4)


# ---- all


@pytest.mark.parametrize("name", HEADERS)
def test_tokenizer_is_checked(tmp_path: Path, name: str) -> None:
    write_documents(tmp_path / "t", DOCUMENTS, name=name)
    assert open_tokens(tmp_path / "t", tokenizer_sha256=HASH, vocab_size=1000).vocab_size == 1000
    with pytest.raises(TokenFileError, match="another tokenizer"):
        open_tokens(tmp_path / "t", tokenizer_sha256="b" * 64)
    with pytest.raises(TokenFileError, match="vocab_size is 1000; expected 999"):
        open_tokens(tmp_path / "t", vocab_size=999)
    assert recognized_format(tmp_path / "t") is not None
    with pytest.raises(TokenFileError, match=f"file_format is {name}; expected"):
        open_tokens(open_tokens(tmp_path / "t").path, format="bin")


@pytest.mark.parametrize("name", HEADERS)
def test_streams_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written to a stream"), (tmp_path / "t").open("wb") as file:
        write_documents(file, DOCUMENTS, name=name)
    for path in ("-", os.devnull):
        with pytest.raises(OutputError, match="the result is several files"):
            write_documents(path, DOCUMENTS, name=name)


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("vocab_size", [65536, 65537])
def test_round_trip_through_a_tokenizer(tmp_path: Path, name: str, vocab_size: int) -> None:
    tokens = [bytes([byte]) for byte in range(256)]
    tokenizer = bpejit.Tokenizer({**dict(enumerate(tokens)), vocab_size - 1: b"<|e|>"}, [], ["<|e|>"])
    (tmp_path / "text.txt").write_text("ab<|e|>c<|e|>")
    report = tokenizer.encode_files(tmp_path / "text.txt", tmp_path / "t", format=name)
    found = open_tokens(tmp_path / "t")
    assert found.ids.tolist() == [97, 98, vocab_size - 1, 99, vocab_size - 1]
    assert report.dtype == found.dtype
    found.verify()
    tokenizer.decode_file(tmp_path / "t", tmp_path / "back.txt")
    assert (tmp_path / "back.txt").read_text() == "ab<|e|>c<|e|>"
