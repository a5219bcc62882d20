"""TensorFlow reads the shards of data sets, checksums included; run by `make readers` (see `test_acceptance.py`)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from helpers.datagen import LABELS, pairs, write_lines, write_problem

import bpejit
from bpejit.t2t.tfrecords import parse_example, read_records

PYTHON = Path(os.environ.get("BPEJIT_READERS", ROOT / ".readers")) / "tensorflow" / "bin" / "python"

SCRIPT = """
import json, sys
import tensorflow as tf

for path in sys.argv[1:]:
    for record in tf.data.TFRecordDataset(path):
        features = tf.train.Example.FromString(record.numpy()).features.feature
        print(json.dumps({name: list(value.int64_list.value) for name, value in sorted(features.items())}))
"""


@pytest.mark.parametrize(
    ("split", "settings"),
    [
        ({"targets": "source.txt"}, {"kind": "text2self"}),
        ({"inputs": "source.txt", "targets": "target.txt"}, {"packed_length": 64}),
        ({"tabbed": "pairs.tsv"}, {"has_shared_vocab": False}),
        ({"tabbed": "classes.tsv"}, {"kind": "text2class", "class_labels": LABELS}),
    ],
)
def test_tensorflow_reads_data_sets(tmp_path: Path, split: dict[str, str], settings: dict[str, Any]) -> None:
    if not PYTHON.exists():
        pytest.skip("needs the environment tensorflow: run `make readers`")
    write_lines(tmp_path / "source.txt", [source for source, _ in pairs()])
    write_lines(tmp_path / "target.txt", [target for _, target in pairs()])
    write_lines(tmp_path / "pairs.tsv", [f"{source}\t{target}" for source, target in pairs()])
    write_lines(tmp_path / "classes.tsv", [f"{source}\t{LABELS[len(source) > 80]}" for source, _ in pairs()])
    problem = write_problem(tmp_path / "p.toml", [{"split": "train", "shards": 3, **split}], approx_vocab_size=400, **settings)
    paths = bpejit.generate_data(problem, tmp_path / "data").paths
    output = subprocess.run([PYTHON, "-c", SCRIPT, *map(str, paths)], capture_output=True, text=True, check=True).stdout
    found = [json.loads(line) for line in output.splitlines()]
    assert found
    assert found == [parse_example(record) for path in paths for record in read_records(path)]
