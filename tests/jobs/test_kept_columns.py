"""Tests of columns that pass through an encoding job."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from conftest import small
from helpers.input_forms import json_lines

import bpejit
from bpejit.errors import CorpusError, OptionError
from bpejit.storage.arrow_columns import ColumnRows
from bpejit.tokenfiles import arrow_files

END = "<|endoftext|>"
UNIT = {"unit_bytes": 1500, "chunk_bytes": 300}
N = small(120, 60)


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    tokens = {byte: bytes([byte]) for byte in range(256)} | {256: b"th", 257: b"he", 258: b" a"}
    merges = [(b"t", b"h"), (b"h", b"e"), (b" ", b"a")]
    model = bpejit.Model(tokens=tokens, merges=merges, special_tokens={END: 300}, unicode="16.0")
    return bpejit.Tokenizer.from_model(model)


def rows(n: int = N) -> list[dict[str, Any]]:
    """Return records with columns of several types; some texts are empty, some are null."""
    return [
        {
            "id": 10**12 + k,
            "text": None if k % 11 == 3 else "the text of a document " * (k % 7),
            "name": None if k % 5 == 0 else f"name {k} é",
            "score": k / 3,
            "good": k % 2 == 0,
            "tags": [f"t{j}" for j in range(k % 3)],
            "meta": {"url": f"https://example.org/{k}", "depth": k},
        }
        for k in range(n)
    ]


def expected(records: list[dict[str, Any]], names: list[str]) -> list[list[Any]]:
    """Return the values of the records that have a text."""

    def value(record: dict[str, Any], name: str) -> Any:
        first, _, rest = name.partition(".")
        return value(record[first], rest) if rest else record[first]

    return [[value(record, name) for name in names] for record in records if record["text"] is not None]


def write_input(path: Path, records: list[dict[str, Any]]) -> None:
    if ".json" in path.name:
        data = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return
    table = pa.Table.from_pylist(records)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=17)
    elif path.name.startswith("stream"):
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
    else:
        pyarrow.feather.write_feather(table, path, compression="uncompressed", chunksize=13)


def read(path: Path) -> pa.Table:
    return pq.read_table(path) if path.suffix == ".parquet" else pyarrow.feather.read_table(path, memory_map=False)


def values(table: pa.Table, names: list[str]) -> list[list[Any]]:
    assert table.column_names == ["input_ids", *names]
    return [[row[name] for name in names] for row in table.to_pylist()]


def texts(tokenizer: bpejit.Tokenizer, table: pa.Table) -> list[str]:
    return [tokenizer.decode([number for number in ids if number != 300]) for ids in table.column(0).to_pylist()]


NAMES = ["name", "id", "good", "score", "meta.url"]


@pytest.mark.parametrize("source", ["a.jsonl", "a.jsonl.gz", "a.parquet", "a.arrow", "stream.arrow"])
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_columns_pass_through(tokenizer: bpejit.Tokenizer, tmp_path: Path, source: str, form: str) -> None:
    records = rows()
    write_input(tmp_path / source, records)
    names = [*NAMES, "tags", "text"]
    out = tmp_path / f"out.{form}"
    report = tokenizer.encode_files(
        tmp_path / source, out, format=form, keep_columns=names, append_token=END, **UNIT, workers=2, engine="threads"
    )
    table = read(out)
    wanted = expected(records, names)
    if ".json" in source:
        wanted = [[*row[:5], json.dumps(row[5], separators=(",", ":")), row[6]] for row in wanted]
    assert values(table, names) == wanted
    assert texts(tokenizer, table) == [row[-1] for row in wanted]
    kinds = [str(field.type) for field in table.schema][1:6]
    assert kinds == ["string", "int64", "bool", "double", "string"]
    assert report.documents == len(wanted)
    opened = bpejit.open_tokens(out)
    assert opened.n_documents == len(wanted)
    opened.verify()


OPTIONS: dict[str, dict[str, Any]] = {
    "shards": {"shard_tokens": 900},
    "validation": {"val_fraction": 0.3, "seed": 4},
    "both": {"shard_tokens": 700, "val_fraction": 0.4, "append_token": END},
}


def read_all(folder: Path, pattern: str) -> list[Any]:
    return [row for path in sorted(folder.glob(pattern)) for row in values(read(path), ["id", "text"])]


SLOW = [pytest.param("shards", marks=pytest.mark.slow), pytest.param("validation", marks=pytest.mark.slow), "both"]


@pytest.mark.parametrize("source", ["a.jsonl", pytest.param("a.parquet", marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", SLOW)
def test_columns_with_shards_and_parts(tokenizer: bpejit.Tokenizer, tmp_path: Path, source: str, options: str) -> None:
    records = rows(90)
    write_input(tmp_path / source, records)
    chosen = {"format": "parquet", "keep_columns": ["id", "text"], **OPTIONS[options], **UNIT, "engine": "serial"}
    folders = [tmp_path / name for name in ("whole", "parts", "resumed")]
    for folder in folders:
        folder.mkdir()
    tokenizer.encode_files(tmp_path / source, folders[0] / "o.parquet", **chosen)
    for part in (2, 0, 1):
        tokenizer.encode_files(tmp_path / source, folders[1] / "o.parquet", shard=(part, 3), **chosen)
    _interrupted(tokenizer, tmp_path / source, folders[2] / "o.parquet", chosen)
    files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert files[0] == files[1] == files[2]
    rest = read_all(folders[0], "o*.parquet")
    assert sorted(rest) == expected(records, ["id", "text"])
    for path in folders[0].glob("o*.parquet"):
        table = read(path)
        assert texts(tokenizer, table) == table.column("text").to_pylist()


def _interrupted(tokenizer: bpejit.Tokenizer, source: Path, out: Path, options: dict[str, Any]) -> None:
    """Encode with several interruptions."""
    for calls in (4, 9, 14, 30):
        left = calls

        def stop(*_: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            tokenizer.encode_files(source, out, resume=True, progress=stop, **options)
    tokenizer.encode_files(source, out, resume=True, **options)


def test_documents_that_shards_divide(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    records = [{"id": k, "text": "abcdefg" * (k % 4)} for k in range(40)]
    write_input(tmp_path / "a.jsonl", records)
    options: dict[str, Any] = {"format": "arrow", "keep_columns": ["id"], "shard_tokens": 30, "shard_exact": True, **UNIT}
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    tokenizer.encode_files(tmp_path / "a.jsonl", tmp_path / "one" / "o.arrow", **options)
    for part in range(2):
        tokenizer.encode_files(tmp_path / "a.jsonl", tmp_path / "two" / "o.arrow", shard=(part, 2), **options)
    found: dict[int, list[int]] = {}
    for path in sorted((tmp_path / "one").glob("*.arrow")):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
        for row in read(path).to_pylist():
            found.setdefault(row["id"], []).extend(row["input_ids"])
    assert [tokenizer.decode(found[k]) for k in range(40)] == [record["text"] for record in records]


def test_an_output_for_each_input(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, first in (("a.jsonl", 0), ("b.jsonl", 100), ("c.jsonl", 200)):
        write_input(tmp_path / "in" / name, [{"id": k, "text": f"{k}"} for k in range(first, first + first // 10)])
    tokenizer.encode_files(tmp_path / "in", out_dir=tmp_path / "out", format="parquet", keep_columns=["id"], **UNIT)
    for name, first in (("a.jsonl", 0), ("b.jsonl", 100), ("c.jsonl", 200)):
        table = read(tmp_path / "out" / f"{name}.parquet")
        assert table.schema.field("id").type == pa.int64()
        assert table.column("id").to_pylist() == list(range(first, first + first // 10))


CASES: list[tuple[list[Any], str, list[Any]]] = [
    ([1, -2, None], "int64", [1, -2, None]),
    ([1, 2**64 - 1], "uint64", [1, 2**64 - 1]),
    ([-1, 2**64 - 1], "string", ["-1", str(2**64 - 1)]),
    ([1, 2.5], "double", [1.0, 2.5]),
    ([2**53 + 1, 2.5], "string", [str(2**53 + 1), "2.5"]),
    ([True, None, False], "bool", [True, None, False]),
    ([True, 1], "string", ["true", "1"]),
    (["a", None, ""], "string", ["a", None, ""]),
    (["a", 1, {"b": [None]}], "string", ['"a"', "1", '{"b":[null]}']),
    ([[1], [2, 3]], "string", ["[1]", "[2,3]"]),
    ([None, None], "string", [None, None]),
    ([], "string", []),
    (["\ud800", "x" * 100_000], "string", ["\ufffd", "x" * 100_000]),
    ([float("nan"), float("-inf"), 1], "double", ["nan", float("-inf"), 1.0]),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_types_of_fields(tokenizer: bpejit.Tokenizer, tmp_path: Path, case: int) -> None:
    given, kind, wanted = CASES[case]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": "t" * 200, "x": value}) + "\n" for value in given) + '{"x": 1}\n' * (not given))
    out = tmp_path / "o.parquet"
    if not given:
        with pytest.raises(CorpusError, match="none of the 1 records has a text"):
            tokenizer.encode_files(path, out, format="parquet", keep_columns=["x"], **UNIT)
        path.write_bytes(b"")
    tokenizer.encode_files(path, out, format="parquet", keep_columns=["x"], **UNIT)
    column = read(out).column("x")
    assert str(column.type) == kind
    found = ["nan" if value != value else value for value in column.to_pylist()]
    assert found == wanted


def test_fields_that_some_records_lack(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    lines = ['{"text": "a", "m": {"x": 1}}', '{"text": "b"}', "broken", '{"text": "c", "m": 3}', "", '{"m": {"x": 9}}']
    lines += ['\ufeff{"text": "\\ud800 d", "m": {"x": 5}}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    out = tmp_path / "o.arrow"
    report = tokenizer.encode_files(tmp_path / "a.jsonl", out, format="arrow", keep_columns=["m.x"])
    assert read(out).column("m.x").to_pylist() == [1, None, None, 5]
    assert report.skipped.count == 2


def test_no_documents(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array([], pa.string()), "id": pa.array([], pa.int16())}), tmp_path / "a.parquet")
    tokenizer.encode_files(tmp_path / "a.parquet", tmp_path / "o.parquet", format="parquet", keep_columns=["id"])
    assert read(tmp_path / "o.parquet").schema.field("id").type == pa.int16()


def test_types_of_several_files_are_merged(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    kinds = [(pa.int32(), pa.string()), (pa.int64(), pa.dictionary(pa.int8(), pa.string())), (pa.int8(), pa.large_string())]
    for number, (first, second) in enumerate(kinds):
        columns = {"text": ["a", "b"], "n": pa.array([number, 1], first), "s": pa.array(["x", "y"], second)}
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    out = tmp_path / "o.arrow"
    tokenizer.encode_files(str(tmp_path / "?.parquet"), out, format="arrow", keep_columns=["n", "s"])
    table = read(out)
    assert [str(field.type) for field in table.schema][1:] == ["int64", "large_string"]
    assert table.column("n").to_pylist() == [0, 1, 1, 1, 2, 1]
    assert table.column("s").to_pylist() == ["x", "y"] * 3


def test_values_of_any_type(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    import datetime
    import decimal

    table = pa.table(
        {
            "text": ["a", None, "c"],
            "when": pa.array([datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc)] * 3, pa.timestamp("us", "UTC")),
            "price": pa.array([decimal.Decimal("1.25")] * 3),
            "deep": pa.array([[{"a": [1, None]}], None, []]),
            "data": pa.array([b"\xff", b"", None], pa.binary()),
            "vector": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
            "map": pa.array([[("k", 1)]] * 3, pa.map_(pa.string(), pa.int32())),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    names = table.column_names[1:]
    for form in ("parquet", "arrow"):
        out = tmp_path / f"o.{form}"
        tokenizer.encode_files(tmp_path / "a.parquet", out, format=form, keep_columns=names)
        found = read(out)
        assert found.select(names).to_pylist() == table.take([0, 2]).select(names).to_pylist()
        assert [found.schema.field(name).type for name in names] == [table.schema.field(name).type for name in names]


def test_groups_end_when_columns_are_large(
    tokenizer: bpejit.Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_files, "GROUP_BYTES", 1000)
    records = [{"text": "t", "x": "y" * (k % 9 * 100)} for k in range(40)]
    write_input(tmp_path / "a.jsonl", records)
    files = []
    for chunk_bytes in (200, 5000):
        out = tmp_path / f"{chunk_bytes}.parquet"
        tokenizer.encode_files(tmp_path / "a.jsonl", out, format="parquet", keep_columns=["x"], chunk_bytes=chunk_bytes)
        files.append(out.read_bytes())
        assert read(out).column("x").to_pylist() == [record["x"] for record in records]
        assert pq.ParquetFile(out).num_row_groups > 10
    assert files[0] == files[1]


def test_rows_are_taken_in_order() -> None:
    data = [[], ["aa", "b"], ["c" * 10], ["d", None, "e"]]
    batches = (pa.record_batch({"x": pa.array(part, pa.string())}) for part in data)
    columns = ColumnRows(pa.schema([("x", pa.string())]), batches)
    assert columns.count_rows(2, 100) == 2
    assert columns.count_rows(9, 3) == 2
    assert columns.count_rows(9, 4) == 3
    assert columns.count_rows(9, 100) == 9
    assert columns.take(0)[0].to_pylist() == []
    assert columns.take(1)[0].to_pylist() == ["aa"]
    assert columns.count_rows(2, 11) == 2
    assert columns.take(4)[0].to_pylist() == ["b", "c" * 10, "d", None]
    with pytest.raises(ValueError, match="end 1 rows before"):
        columns.take(2)


ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("a.jsonl", {"keep_columns": ["idd"]}, "none of the first records of .* has the field `idd`.* `id`, `text`"),
    ("a.parquet", {"keep_columns": ["idd"]}, "has no column `idd`.*`id`, `text`"),
    ("a.arrow", {"keep_columns": ["meta.other"]}, "has no column `meta.other`"),
    ("a.txt", {"keep_columns": ["id"]}, "is plain text, which has no columns"),
    ("a.jsonl", {"keep_columns": ["id"], "format": "bin"}, "the format bin has no rows; expected parquet or arrow"),
    ("a.jsonl", {"keep_columns": ["id"], "pack": 8}, "keep_columns is .*, and pack is 8"),
    ("a.jsonl", {"keep_columns": ["input_ids"]}, "name of a column that the format parquet writes itself"),
    ("a.jsonl", {"keep_columns": ["id", "id"]}, "'id' twice"),
    ("a.jsonl", {"keep_columns": ["a..b"]}, "contains 'a..b'"),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_columns_that_cannot_be_kept(tokenizer: bpejit.Tokenizer, tmp_path: Path, case: int) -> None:
    source, options, message = ERRORS[case]
    if source.endswith(".txt"):
        (tmp_path / source).write_text("text")
    else:
        write_input(tmp_path / source, rows(9))
    before = sorted(tmp_path.iterdir())
    with pytest.raises((CorpusError, OptionError), match=message):
        tokenizer.encode_files(tmp_path / source, tmp_path / "o", **{"format": "parquet", **options})
    assert sorted(tmp_path.iterdir()) == before


def test_types_that_have_none_in_common(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"], "x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["a"], "x": ["s"]}), tmp_path / "b.parquet")
    write_input(tmp_path / "c.jsonl", [{"text": "a", "x": 1}])
    for names, shown in ((["a.parquet", "b.parquet"], "int64 in .* string"), (["c.jsonl", "a.parquet"], "JSON in .* int64")):
        with pytest.raises(CorpusError, match=f"the column `x` contains {shown}"):
            tokenizer.encode_files(
                [tmp_path / name for name in names], tmp_path / "o.parquet", format="parquet", keep_columns=["x"]
            )


def test_types_that_parquet_lacks(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    intervals = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    pyarrow.feather.write_feather(pa.table({"text": ["a"], "x": intervals}), tmp_path / "a.arrow")
    options: dict[str, Any] = {"keep_columns": ["x"], "overwrite": True}
    with pytest.raises(OptionError, match="which Parquet cannot store"):
        tokenizer.encode_files(tmp_path / "a.arrow", tmp_path / "o.parquet", format="parquet", **options)
    tokenizer.encode_files(tmp_path / "a.arrow", tmp_path / "o.arrow", format="arrow", **options)
    assert read(tmp_path / "o.arrow").column("x").to_pylist() == intervals.to_pylist()


def test_large_row_groups(tokenizer: bpejit.Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpejit.corpus.arrow_inputs.GROUP_BYTES", 1000)
    records = rows()
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet", row_group_size=100)
    out = tmp_path / "o.parquet"
    tokenizer.encode_files(tmp_path / "a.parquet", out, format="parquet", keep_columns=["id", "text"], **UNIT, engine="serial")
    assert values(read(out), ["id", "text"]) == expected(records, ["id", "text"])


def test_ids_do_not_depend_on_columns(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(["one", "", "two two", "three"]))
    tokenizer.encode_files(tmp_path / "a.jsonl", tmp_path / "plain.parquet", format="parquet")
    tokenizer.encode_files(tmp_path / "a.jsonl", tmp_path / "kept.parquet", format="parquet", keep_columns=["id"])
    plain, kept = (bpejit.open_tokens(tmp_path / name) for name in ("plain.parquet", "kept.parquet"))
    assert np.array_equal(plain.ids, kept.ids)
    assert plain.ids_sha256 == kept.ids_sha256


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(
    ("full", "empty", "kind"),
    [("a.parquet", "b.jsonl", pa.int64()), ("a.jsonl", "b.parquet", pa.int64()), ("a.arrow", "b.jsonl", pa.int64())],
)
def test_inputs_without_records_do_not_matter_to_types(
    tokenizer: bpejit.Tokenizer, tmp_path: Path, full: str, empty: str, kind: Any, order: tuple[int, int]
) -> None:
    inputs = [tmp_path / full, tmp_path / empty]
    write_input(inputs[0], rows(8))
    if empty.endswith(".jsonl"):
        inputs[1].touch()
    else:
        pq.write_table(pa.table({"text": pa.array([], pa.string()), "id": pa.array([], pa.float32())}), inputs[1])
    out = tmp_path / "out.parquet"
    tokenizer.encode_files([inputs[k] for k in order], out, format="parquet", keep_columns=["id"], engine="serial")
    table = pq.read_table(out)
    assert table.schema.field("id").type == kind
    assert table["id"].to_pylist() == [value for (value,) in expected(rows(8), ["id"])]
