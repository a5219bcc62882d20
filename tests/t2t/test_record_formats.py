"""Tests of the formats of examples, read back by other readers."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from bpejit.errors import OptionError, OutputError
from bpejit.t2t.example_arrays import read_examples, write_examples
from bpejit.t2t.record_formats import formats, registry
from bpejit.t2t.record_formats.registry import RecordFormat, RecordWriter
from bpejit.testing import write_examples_file

NAMES = ["targets", "inputs", "inputs_position"]


def examples(n):
    generator = np.random.default_rng(n)
    features = {}
    for name in NAMES:
        starts = np.concatenate([[0], np.cumsum(generator.integers(1, 9, n))])
        features[name] = generator.integers(0, 2**31, starts[-1]), starts
    return features


def as_rows(features):
    lists = {name: [part.tolist() for part in np.split(ids, starts[1:-1])] for name, (ids, starts) in features.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def read_by_json(data):
    return [json.loads(line) for line in data.splitlines()]


def read_by_pyarrow(data):
    return pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO(data)).to_pylist()


def read_by_tfrecord(data, path):
    path.write_bytes(data)
    reader = pytest.importorskip("tfrecord.reader")
    found = reader.tfrecord_loader(str(path), None, dict.fromkeys(NAMES, "int"))
    return [{name: values.tolist() for name, values in row.items()} for row in found]


@pytest.mark.parametrize("name", ["tfrecord", "jsonl", "parquet"])
def test_read_back(tmp_path, name, monkeypatch):
    pytest.importorskip({"jsonl": "orjson", "parquet": "pyarrow"}.get(name, "google.protobuf"))
    monkeypatch.setattr(formats, "GROUP_IDS", 300)
    features = examples(101)
    files = [write_examples_file(name, features, n_block) for n_block in (1, 10, 1000)]
    assert len(set(files)) == 1, "files do not depend on the blocks"
    read = {"jsonl": read_by_json, "parquet": read_by_pyarrow, "tfrecord": lambda data: read_by_tfrecord(data, tmp_path / "x")}
    assert read[name](files[0]) == as_rows(features)
    if name == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet").ParquetFile(io.BytesIO(files[0]))
        assert parquet.num_row_groups > 3
        assert parquet.schema_arrow.names == sorted(NAMES)


def test_groups_have_a_largest_number_of_rows(monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(formats, "GROUP_EXAMPLES", 10)
    data = write_examples_file("parquet", examples(25), 7)
    parquet = pytest.importorskip("pyarrow.parquet").ParquetFile(io.BytesIO(data))
    assert [parquet.metadata.row_group(number).num_rows for number in range(parquet.num_row_groups)] == [10, 10, 5]


def test_failing_files():
    class Full:
        def write(self, data):
            raise OutputError("the disk is full")

    data, starts = write_examples(examples(3))
    for name in ("tfrecord", "jsonl"):
        with pytest.raises(OutputError, match="the disk is full"):
            registry.load_record_format(name).writer(Full(), NAMES).write(data, starts)


class CountFormat(RecordFormat):
    """Writes the number of examples of each block."""

    def writer(self, file, names):
        class Writer(RecordWriter):
            def write(self, data, starts):
                file.write(b"%d\n" % len(next(iter(read_examples(data, starts, names=names).values()))[1][1:]))

        return Writer()


def test_register():
    registry.register("counts", CountFormat, description="numbers")
    try:
        assert "counts" in registry.record_format_names()
        assert registry.record_format_descriptions()["counts"] == "numbers"
        assert write_examples_file("counts", examples(5), 2) == b"2\n2\n1\n"
    finally:
        registry.unregister("counts")
    with pytest.raises(OptionError, match="the record format 'counts' is not known"):
        registry.load_record_format("counts")
