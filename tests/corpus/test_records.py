"""Tests of records without text, columns and fields that do not exist, damaged and remote inputs, and missing packages."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import zstandard
from click.testing import CliRunner
from helpers.cli import SEPARATELY, invoke, program
from helpers.input_forms import SEPARATOR, json_lines, table, write_arrow, write_form, write_parquet

import bpejit
from bpejit.corpus import arrow_inputs, columns as text_columns
from bpejit.corpus.chunks import text_chunks
from bpejit.corpus.kept_columns import JsonFields, unpack_rows
from bpejit.corpus.reading_options import InputOptions
from bpejit.errors import ArgumentTypeError, BpejitError, BpejitWarning, CorpusError

BAD_LINES = [
    b'{"text": "good"}',
    b'{"text": "cut off',
    b"",
    b'{"other": "x"}',
    b'{"text": null}',
    b'{"text": ["list"]}',
    b"[1, 2]",
    b'{"text": 5}',
    b'{"text": "\xff"}',
    b'  {"text": "\\ud83d\\ude00 half \\ud83d"}  ',
    b'{"text": NaN, "x": NaN}',
]
REASONS = [
    "line 2: it is not a JSON object",
    "line 4: it has no field `text`; the fields are `other`",
    "line 5: its field `text` is null, not a string",
    "line 6: its field `text` is an array, not a string",
    "line 7: it is not a JSON object",
]


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("chunk_bytes", [10, 1 << 20])
def test_bad_lines_are_skipped_and_counted(chunk_bytes: int, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"bad.jsonl{ending}"
    data = b"\n".join(BAD_LINES)
    path.write_bytes(gzip.compress(data) if ending else data)
    with pytest.warns(BpejitWarning, match="skipped 8 records that have no text") as caught:
        tokenizer = bpejit.train(path, vocab_size=257, chunk_bytes=chunk_bytes)
    assert all(f"`{path}`, {reason}" in str(caught[0].message) for reason in REASONS[:3])
    (lost,) = tokenizer.model.training["skipped_records"]
    assert lost["count"] == 8
    assert lost["first"] == [f"`{path}`, {reason}" for reason in REASONS]
    counts = bpejit.count(path, pattern=r"\w+|\W", chunk_bytes=chunk_bytes).table.to_counts()
    assert set(counts) == {b"good", "😀".encode(), b" ", b"half", "\ufffd".encode()}
    report = tokenizer.encode_files(path, tmp_path / "out.bin", chunk_bytes=chunk_bytes)
    assert (report.skipped.count, report.documents) == (8, 2)


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl"])
def test_ranges_of_units_are_not_smaller_than_asked_for(tmp_path: Path, form: str) -> None:
    documents = [f"document {number} " * 9 for number in range(90)]
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        write_parquet(path, documents, row_group_size=3)
    elif form == "arrow":
        write_arrow(path, documents)
    else:
        path.write_bytes(json_lines(documents))
    tokenizer = bpejit.train(iter(["some text"]), vocab_size=257)
    report = tokenizer.encode_files(path, tmp_path / "out.bin", unit_bytes=path.stat().st_size // 4)
    assert report.units in (4, 5)
    assert report.documents == len(documents)


def test_lines_of_several_files_are_counted_apart(tmp_path: Path) -> None:
    good = json_lines(["good"])
    (tmp_path / "a.jsonl").write_bytes(json_lines(["longer " * 20]) * 2 + b"bad\n" + good)
    (tmp_path / "b.jsonl").write_bytes(good * 7 + b"bad\n" + good + b"bad\n")
    paths = [tmp_path / name for name in ("a.jsonl", "b.jsonl", "a.jsonl")]
    report = bpejit.train(iter(["good"]), vocab_size=257).encode_files(paths, tmp_path / "out.bin", engine="serial")
    assert [record.place for record in report.skipped.first] == ["line 3", "line 8", "line 10", "line 3"]


@pytest.mark.parametrize("chunk_bytes", [10, 1 << 20])
def test_strict(chunk_bytes: int, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"\n".join([BAD_LINES[0]] * 7 + BAD_LINES))
    for engine in ("serial", "threads", "processes"):
        with pytest.raises(CorpusError, match="`, line 9: it is not a JSON object; expected a text in each"):
            bpejit.train(path, vocab_size=257, strict=True, chunk_bytes=chunk_bytes, engine=engine, workers=1)


def test_no_record_has_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(["one", "two"], "content"))
    with pytest.raises(
        CorpusError, match=r"none of the 2 records has a text; .*line 1: it has no field `text`; the fields are `id`, `content`"
    ):
        bpejit.train(tmp_path / "a.jsonl", vocab_size=257)
    assert bpejit.train(tmp_path / "a.jsonl", vocab_size=257, text_field="content").vocab_size == 257


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_nulls_are_skipped(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write = write_parquet if name.endswith("parquet") else write_arrow
    write(path, ["one", None, "", "two", None])  # type: ignore[list-item]
    with pytest.warns(BpejitWarning, match="skipped 2 records that have no text: .*row 2: its text is null; .*row 5: its"):
        bpejit.train(path, vocab_size=257)
    with pytest.raises(CorpusError, match="row 2: its text is null"):
        bpejit.train(path, vocab_size=257, strict=True)
    tokenizer = bpejit.train(iter(["one two"]), vocab_size=257)
    report = tokenizer.encode_files(path, tmp_path / "out.bin")
    assert (report.documents, report.skipped.count) == (3, 2)


def test_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, ["one"])
    with pytest.raises(CorpusError, match=r"has no column `body`; .*its columns of strings are `text`"):
        bpejit.train(path, vocab_size=257, text_column="body")
    with pytest.raises(CorpusError, match=r"the column `id` .* contains int64; expected strings"):
        bpejit.train(path, vocab_size=257, text_column="id")
    nested = pa.table({"a": pa.array([{"b": "one two"}, {"b": "three"}])})
    pyarrow.parquet.write_table(nested, tmp_path / "nested.parquet")
    expected = bpejit.count(iter(["one two", "three"])).table
    assert bpejit.count(tmp_path / "nested.parquet", text_column="a.b").table == expected


def test_large_row_groups_are_read_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [f"text number {number} " * (number % 50) for number in range(2000)]
    write_parquet(tmp_path / "a.parquet", documents)
    expected = bpejit.count(iter(documents)).table
    monkeypatch.setattr("bpejit.corpus.arrow_inputs.GROUP_BYTES", 1000)
    assert bpejit.count(tmp_path / "a.parquet", chunk_bytes=10_000).table == expected


def test_special_tokens_in_records_are_text(tmp_path: Path) -> None:
    texts = [f"one {SEPARATOR} two", SEPARATOR]
    (tmp_path / "a.jsonl").write_bytes(json_lines(texts))
    write_parquet(tmp_path / "a.parquet", texts)
    tokenizer = bpejit.train(iter(["some text " * 9]), vocab_size=280)
    for path in (tmp_path / "a.jsonl", tmp_path / "a.parquet"):
        tokenizer.encode_files(path, tmp_path / "out.bin", overwrite=True)
        expected = [token for text in texts for token in tokenizer.encode_ordinary(text)]
        assert bpejit.open_tokens(tmp_path / "out.bin").ids.tolist() == expected
        report = tokenizer.encode_files(path, tmp_path / "out.bin", overwrite=True, allow_special=True)
        assert bpejit.open_tokens(tmp_path / "out.bin").ids.tolist() == [
            token for text in texts for token in tokenizer.encode(text)
        ]
        assert report.documents == 2
        assert b"<|" in bpejit.count(path).table.to_counts()
        assert b"<|" not in bpejit.count(path, allow_special=True).table.to_counts()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt.gz", gzip.compress(b"text " * 9999, mtime=0)[:-9], "is not valid gzip data: it ends before the end"),
        ("a.txt.gz", gzip.compress(b"text " * 9999, mtime=0)[:40] + b"damaged" * 9, "is not valid gzip data"),
        ("a.txt.zst", zstandard.compress(b"text " * 9999)[:-9], "is not valid zstd data: it ends before the end"),
        ("a.parquet", b"PAR1" + bytes(50), "cannot read the input .* expected a complete Parquet file"),
        ("a.parquet", b"plain text", "expected a complete Parquet file"),
        ("a.arrow", b"ARROW1\0\0" + bytes(50), "expected a complete Arrow file"),
        ("a.arrow.gz", gzip.compress(b"ARROW1\0\0" + bytes(50), mtime=0), "read at any position.* expected a plain file"),
        ("a.parquet.gz", gzip.compress(b"PAR1" + bytes(50), mtime=0), "read at any position.* expected a plain file"),
    ],
)
def test_damaged_inputs(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CorpusError, match=message):
        bpejit.train(tmp_path / name, vocab_size=257)


@pytest.mark.parametrize(
    ("name", "module"),
    [("text.txt.zst", "zstandard"), ("one group.parquet", "pyarrow.parquet"), ("file.arrow", "pyarrow")],
)
def test_missing_packages_are_named(name: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = write_form(tmp_path, name, ["one"])
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        CorpusError, match=rf"`{module.partition('.')[0]}`, which is not installed .*pip install 'bpejit\[data\]'"
    ):
        bpejit.train(path, vocab_size=257)


def test_remote_inputs(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    documents = ["one two", "three", "four five " * 50]
    expected = bpejit.count(iter(documents)).table
    for name in ("text.txt", "text.txt.gz", "a.jsonl", "a.jsonl.gz", "one group.parquet", "small groups.parquet", "file.arrow"):
        path, options = write_form(tmp_path, name, documents)
        memory.pipe(f"/corpus/{name}", path.read_bytes())
        for address in (f"memory://corpus/{name}", f"file://{path}"):
            assert bpejit.count(address, **options).table == expected, name
    memory.pipe("/folder/a/one.txt", b"one two")
    memory.pipe("/folder/b.txt", b"three")
    memory.pipe("/folder/c.txt", documents[2].encode())
    assert bpejit.count("memory://folder").table == expected
    assert bpejit.count("memory://folder/b*.txt").table == bpejit.count(iter(["three"])).table
    memory.pipe("/folder/d.jsonl", json_lines(documents[2:]))
    with pytest.raises(CorpusError, match=r"the folder `memory://folder` has inputs of different formats: 3 of plain text"):
        bpejit.count("memory://folder")
    for missing in ("memory://folder/missing.txt", "memory://nothing/*.txt", "unknown://x"):
        with pytest.raises(CorpusError, match=r"memory://|unknown://"):
            bpejit.count(missing)


def test_wrong_texts() -> None:
    for texts, message in (
        ([1], r"texts\[0\] is 1, an int"),
        ([["a", None]], r"texts\[0\]\[1\] is None"),
        ("text", "texts is 'text'"),
    ):
        with pytest.raises(ArgumentTypeError, match=message):
            bpejit.train_from_iterator(texts, vocab_size=257)  # type: ignore[arg-type]
    column: Any = table(["one", None, "two"])["text"]
    with pytest.warns(BpejitWarning, match="skipped 1 record that has no text: `texts`, row 2"):
        bpejit.train_from_iterator(column, vocab_size=257)


def test_folders_skip_hidden_files(tmp_path: Path) -> None:
    for name in ("b/2.txt", "a/1.txt", ".git/x.txt", "b/.x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    from bpejit.corpus.sources import find_sources

    assert [Path(source.path).name for source in find_sources(tmp_path)] == ["1.txt", "2.txt"]


def test_names_with_dots(tmp_path: Path) -> None:
    flat = {"doc.text": ["one", "two"], "doc.id": [1, 2]}
    both = {"doc.text": ["one", "two"], "doc": [{"text": "wrong", "id": 3}] * 2}
    inner = {"a": [{"b.c": {"text": "one"}}, {"b.c": {"text": "two"}}]}
    encoder = bpejit.Tokenizer({number: bytes([number]) for number in range(256)}, [], [])
    for number, (columns, name, kept, ids) in enumerate(
        [
            (flat, "doc.text", "doc.id", [1, 2]),
            (both, "doc.text", "doc.id", [3, 3]),
            (inner, "a.b.c.text", "a.b.c.text", ["one", "two"]),
        ]
    ):
        data = pa.table(columns)
        paths = [tmp_path / f"{number}.{suffix}" for suffix in ("parquet", "arrow", "jsonl")]
        pyarrow.parquet.write_table(data, paths[0])
        with pa.ipc.new_file(paths[1], data.schema) as writer:
            writer.write_table(data)
        paths[2].write_text("".join(json.dumps(record) + "\n" for record in data.to_pylist()))
        for path in paths:
            out = tmp_path / "o.parquet"
            encoder.encode_files(
                *(path, out), format="parquet", text_field=name, text_column=name, keep_columns=[kept], overwrite=True
            )
            found = pyarrow.parquet.read_table(out)
            assert found["input_ids"].to_pylist() == [list(b"one"), list(b"two")], path
            assert found[kept].to_pylist() == ids


def test_records_with_either_spelling_of_a_name(tmp_path: Path) -> None:
    records = [{"a.b": "one"}, {"a": {"b": "two"}}, {"a": {"b": "no"}, "a.b": "three"}, {"a": {"c": 1}}, {"a": 5}, {"a.b": 5}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    counts = bpejit.count(tmp_path / "a.jsonl", text_field="a.b", pattern=r"\w+")
    assert counts.table.to_counts() == {b"one": 1, b"two": 1, b"three": 1}
    assert counts.header.inputs[0]["first_skipped"] == [
        f"`{tmp_path / 'a.jsonl'}`, {reason}"
        for reason in (
            "line 4: its field `a` has no field `b`; the fields are `c`",
            "line 5: its field `a` is a number, not an object",
            "line 6: its field `a.b` is a number, not a string",
        )
    ]


def test_a_column_that_occurs_twice_is_named(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table([pa.array(["one"])] * 2, names=["text", "text"]), tmp_path / "a.parquet")
    with pytest.raises(CorpusError, match=r"has 2 columns `text`; expected different names"):
        bpejit.count(tmp_path / "a.parquet")


@pytest.mark.parametrize("form", ["file", "stream", "memory"])
def test_nulls_among_the_values_of_a_dictionary(form: str, tmp_path: Path) -> None:
    values = pa.array(["alpha", None, "beta"])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 0], pa.int8()), values)
    data = pa.table({"text": pa.chunked_array([column, column]), "id": list(range(10))})
    tokenizer = bpejit.Tokenizer({number: bytes([number]) for number in range(256)}, [], [])
    if form == "memory":
        report = tokenizer.encode_files(iter([data["text"]]), tmp_path / "o.bin")
        assert (report.documents, report.skipped.count) == (6, 4)
        return
    path = tmp_path / form
    with (pa.ipc.new_file if form == "file" else pa.ipc.new_stream)(path, data.schema) as writer:
        writer.write_table(data)
    report = tokenizer.encode_files(path, tmp_path / "o.parquet", format="parquet", keep_columns=["id"])
    assert (report.documents, report.skipped.count) == (6, 4)
    assert "row 2: its text is null" in str(report.skipped.first[0])
    assert pyarrow.parquet.read_table(tmp_path / "o.parquet")["id"].to_pylist() == [0, 2, 4, 5, 7, 9]
    with pytest.raises(CorpusError, match="row 2: its text is null"):
        tokenizer.encode_files(path, tmp_path / "o.bin", strict=True)


def test_nulls_in_a_column_of_texts_are_counted_once() -> None:
    column = pa.chunked_array([["text"] * 20 + [None], [None], ["text"]])
    chunks = list(text_chunks([column], InputOptions(), 16))
    assert len(chunks) > 5
    assert sum(chunk.ends.size for chunk in chunks) == 21
    assert [str(record) for chunk in chunks for record in chunk.skipped.first] == [
        "`texts`, row 21: its text is null",
        "`texts`, row 22: its text is null",
    ]


def test_only_nulls_in_a_dictionary(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array([None], pa.string()))
    data = pa.table({"text": column})
    with pa.ipc.new_file(tmp_path / "a.arrow", data.schema) as writer:
        writer.write_table(data)
    with pytest.raises(CorpusError, match=r"none of the 2 records has a text; the first is .*row 1: its text is null"):
        bpejit.train(tmp_path / "a.arrow", vocab_size=257)


def test_commands_read_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.jsonl").write_bytes(b"\n".join(BAD_LINES))
    result = invoke("train", "bad.jsonl", "--vocab-size", "257", "--out", "t")
    assert result.exit_code == 0, result.stderr
    assert "note: skipped 8 records that have no text: `bad.jsonl`, line 2: it is not a JSON object" in result.stderr
    result = invoke("train", "bad.jsonl", "--vocab-size", "257", "--out", "u", "--strict")
    assert result.exit_code == 1
    assert "`--strict`" in result.stderr
    result = invoke("count", "bad.jsonl", "--out", "c", "--text-field", "other")
    assert result.exit_code == 0, result.stderr
    assert "skipped 9 records" in result.stderr
    result = invoke("count", "--source", "bad.jsonl=3", "--out", "d", "--max-bytes", "1M", "--seed", "3")
    assert result.exit_code == 0, result.stderr
    assert bpejit.Counts.load("d").header.inputs[0]["weight"] == 3
    result = invoke("count", "--source", "bad.jsonl", "--out", "e")
    assert "`--source`" in result.stderr.replace("'", "`")


@pytest.mark.parametrize("size", [3, 10_000])
def test_json_lines_on_standard_input(size: int, tmp_path: Path) -> None:
    tokenizer = bpejit.train(iter(["some text"]), vocab_size=258)
    tokenizer.save(tmp_path / "t")
    data = json_lines(["a" * size, "b"])
    for given in (data, gzip.compress(data)):
        arguments = ["encode", "-", "--tokenizer", str(tmp_path / "t"), "--out", str(tmp_path / "out"), "--overwrite"]
        result = CliRunner(**SEPARATELY).invoke(program, arguments, input=given)
        assert result.exit_code == 0, result.stderr
        assert tokenizer.decode(bpejit.open_tokens(tmp_path / "out").ids) == "a" * size + "b"


@pytest.mark.parametrize("name", ["stream", "stream.arrow.zst", "a.jsonl.gz"])
def test_records_from_a_pipe(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [f"document {number} " * (number % 40) for number in range(100)]
    path, _ = write_form(tmp_path, name, documents)
    read_end, write_end = os.pipe()
    data = path.read_bytes()
    thread = threading.Thread(target=_fill, args=(write_end, data))
    thread.start()
    with os.fdopen(read_end, "rb") as pipe:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
        counts = bpejit.count("-")
    thread.join()
    assert counts.table == bpejit.count(path).table


def _fill(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


@pytest.mark.parametrize("name", ["one group.parquet", "file.arrow"])
def test_formats_that_pipes_cannot_have(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = write_form(tmp_path, name, ["text"])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    with pytest.raises(CorpusError, match=r"standard input has a format that is read at any position.* a plain file"):
        bpejit.count("-")


@pytest.mark.parametrize("name", ["stream.arrow.zst", "one group.parquet"])
def test_columns_of_compressed_inputs(name: str, tmp_path: Path) -> None:
    path, _ = write_form(tmp_path, name, ["one", "", "two"])
    tokenizer = bpejit.Tokenizer({number: bytes([number]) for number in range(256)}, [], [])
    tokenizer.encode_files(path, tmp_path / "o.parquet", format="parquet", keep_columns=["id"])
    assert pyarrow.parquet.read_table(tmp_path / "o.parquet")["id"].to_pylist() == [0, 1, 2]
    with pytest.raises(CorpusError, match="has no column `other`"):
        tokenizer.encode_files(path, tmp_path / "p.parquet", format="parquet", keep_columns=["other"])


LONG = "a b c d " * 2000


def repeated(kind: str, path: Path) -> dict[str, Any]:
    """Write 40 rows of one text of 16 kB, which takes that space once; return the options to read it."""
    rows = 40
    plain, dictionary = pa.array([LONG] * rows), pa.array([LONG] * rows).dictionary_encode()
    table = {
        "parquet": pa.table({"text": plain}),
        "dictionaries in parquet": pa.table({"text": dictionary}),
        "struct": pa.table({"s": pa.StructArray.from_arrays([plain], ["a"])}),
        "arrow": pa.table({"text": dictionary}),
    }[kind]
    if kind == "arrow":
        pyarrow.feather.write_feather(table, path)
    else:
        pyarrow.parquet.write_table(table, path, compression="zstd")
    return {"text_column": "s.a"} if kind == "struct" else {}


@pytest.mark.parametrize("limit", [100_000, 20_000])
@pytest.mark.parametrize("kind", ["parquet", "dictionaries in parquet", "struct", "arrow"])
def test_repeated_values_are_decoded_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, limit: int) -> None:
    path = tmp_path / ("a.arrow" if kind == "arrow" else "a.parquet")
    options = repeated(kind, path)
    sizes = []
    original = text_columns._as_arrays
    monkeypatch.setattr(text_columns, "MOST_DECODED", limit)
    monkeypatch.setattr(arrow_inputs, "MOST_DECODED", limit)
    monkeypatch.setattr(text_columns, "_as_arrays", lambda array: (sizes.append(array.nbytes), original(array))[1])
    counts = bpejit.count(path, engine="serial", **options)
    assert counts.n_bytes == 40 * len(LONG)
    assert sum(sizes) >= counts.n_bytes
    assert max(sizes) < limit + 5000


def test_small_row_groups_before_a_large_one(tmp_path: Path) -> None:
    """With large chunks, the rows of the small groups were lost."""
    path = tmp_path / "a.parquet"
    random = np.random.default_rng(0)
    with pyarrow.parquet.ParquetWriter(path, pa.schema([("text", pa.string())]), use_dictionary=False) as writer:
        for rows, size in ((5, 100), (50, 100_000), (5, 100)):
            writer.write_table(pa.table({"text": [random.bytes(size).hex() for _ in range(rows)]}))
    total = 2 * (5 * 100 * 2 + 50 * 100_000)
    assert bpejit.count(path, chunk_bytes=64 << 20).n_bytes == total
    assert bpejit.count(path).n_bytes == total


def large_records(form: str, path: Path) -> int:
    """Write four records of which the second and the fourth have more than 1,000 bytes; return the bytes of the others."""
    texts = ["one", "x" * 5000, "three", "y" * 200_000]
    if form == "jsonl":
        path.write_bytes(json_lines(texts))
    elif form == "jsonl.gz":
        path.write_bytes(gzip.compress(json_lines(texts).rstrip(b"\n")))
    elif form == "arrow":
        write_arrow(path, texts)
    else:
        write_parquet(path, texts)
    return len("onethree")


@pytest.mark.parametrize("chunk_bytes", [100, 1 << 20])
@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "parquet", "arrow"])
def test_large_records(tmp_path: Path, form: str, chunk_bytes: int) -> None:
    path = tmp_path / f"a.{form}"
    left = large_records(form, path)
    options: dict[str, Any] = {"max_record": 1000, "chunk_bytes": chunk_bytes, "engine": "serial"}
    with pytest.raises(CorpusError, match=r"is too large: `.*`, (line|row) 2: it has .* bytes, and the limit is 1,000"):
        bpejit.count(path, **options)
    with pytest.raises(CorpusError, match="`skip_large_records=`"):
        bpejit.train(path, vocab_size=270, max_record=1000)
    counts = bpejit.count(path, skip_large_records=True, strict=True, **options)
    assert (counts.n_bytes, counts.inputs[0]["skipped"]) == (left, 2)
    assert bpejit.count(path, max_record=300_000).n_bytes == left + 205_000


def test_options_that_decide_about_errors_alone_do_not_change_ids() -> None:
    never = {"strict", "skip_large_records"}
    assert not InputOptions(strict=True).that_change_ids().keys() & {*never, "max_record", "keep_columns"}
    found = InputOptions(skip_large_records=True, max_record=7, keep_columns=("a",)).that_change_ids()
    assert (found["max_record"], found["keep_columns"], never & found.keys()) == (7, ("a",), set())


@pytest.mark.parametrize(("names", "message"), [("id", "a list of names"), (5, "a list of names"), (["a..b"], "'a..b'")])
def test_wrong_names_of_columns_to_keep(names: Any, message: str) -> None:
    with pytest.raises(BpejitError, match=message):
        InputOptions.checked(keep_columns=names)


def test_numbers_of_kept_fields_at_the_ends_of_64_bits() -> None:
    numbers = [-(1 << 63), (1 << 64) - 1, -(1 << 63) - 1, 1 << 64]
    kept = JsonFields(("n",))
    for number in numbers:
        kept.add({"n": number})
    found = [json.loads(text) for text in unpack_rows(kept.packed()).column(0).to_pylist()]
    assert [type(number) for number in found] == [int, int, float, float]
    assert found == numbers[:2] + [float(number) for number in numbers[2:]]


def test_least_record(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", ["a", "bc"])
    counts = bpejit.count(tmp_path / "a.parquet", max_record=1, skip_large_records=True)
    assert (counts.n_bytes, counts.inputs[0]["skipped"]) == (1, 1)


def test_record_that_begins_in_a_chunk_is_not_too_large_for_the_lines_before(tmp_path: Path) -> None:
    texts = ["short"] * 30_000 + ["x" * 150_000]  # 500 KB before a record of 150 KB, which is below the limit
    (tmp_path / "a.jsonl").write_bytes(json_lines(texts))
    counts = bpejit.count(tmp_path / "a.jsonl", max_record=160_000, chunk_bytes=600_000, engine="serial")
    assert counts.n_bytes == 30_000 * 5 + 150_000


def test_large_records_of_jobs_and_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    large_records("parquet", Path("a.parquet"))
    bpejit.train_from_iterator(["one two three"], vocab_size=260).save("tokenizer")
    result = invoke("encode", "a.parquet", "--out", "a.bin", "--max-record", "1k")
    assert (result.exit_code, "allow it with `--max-record`, or give `--skip-large-records`" in result.stderr) == (1, True)
    result = invoke("encode", "a.parquet", "--out", "a.bin", "--max-record", "1k", "--skip-large-records", "--overwrite")
    assert result.exit_code == 0, result.stderr
    assert "note: skipped 2 records: `a.parquet`, row 2: it has 5,000 bytes, and the limit is 1,000" in result.stderr
    assert '"max_record": 1000' in Path("a.bin.manifest.json").read_text()
    assert len(bpejit.open_tokens("a.bin")) < 10


def test_kept_columns_of_large_records(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pa.table({"text": ["a", None, "b" * 50, "c"], "id": [1, 2, 3, 4]}), path)
    tokenizer = bpejit.Tokenizer({number: bytes([number]) for number in range(256)}, [], [])
    tokenizer.encode_files(path, tmp_path / "o.parquet", keep_columns=["id"], max_record=10, skip_large_records=True)
    assert pyarrow.parquet.read_table(tmp_path / "o.parquet").to_pydict()["id"] == [1, 4]
