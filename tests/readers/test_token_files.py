"""Tests that Megatron and datatrove read token files with the same ids and documents; run by `make readers`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, data_text

import bpejit

PYTHON = Path(os.environ.get("BPEJIT_READERS", ROOT / ".readers")) / "datasets" / "bin" / "python"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="needs the environment datasets: run `make readers`")

MEGATRON = """
import json, sys, torch
from megatron.core.datasets.indexed_dataset import IndexedDataset
for mmap in (True, False):
    dataset = IndexedDataset(sys.argv[1], mmap=mmap)
    rows = [row.tolist() for row in dataset[:]] if mmap else [dataset[number].tolist() for number in range(len(dataset))]
    fields = [str(dataset.index.dtype.__name__), rows, dataset.document_indices.tolist(), dataset.sequence_lengths.tolist()]
    print("RESULT", json.dumps(fields))
"""

MEGATRON_BUILDER = """
import json, sys
from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder
documents = json.load(open(sys.argv[2]))
builder = IndexedDatasetBuilder(sys.argv[1] + ".bin", dtype=DType.optimal_dtype(int(sys.argv[3])))
for document in documents:
    builder.add_document(document, [len(document)])
builder.finalize(sys.argv[1] + ".idx")
"""

DATATROVE = """
import json, sys
from datatrove.utils.dataset import DatatroveFolderDataset
dataset = DatatroveFolderDataset(sys.argv[1], 63, filename_pattern="*.ds", token_size=int(sys.argv[2]), return_positions=True)
rows = [(row["input_ids"].tolist(), row["positions"].tolist()) for row in (dataset[number] for number in range(len(dataset)))]
print("RESULT", json.dumps(rows))
"""


def run(script: str, *arguments: str) -> list:
    done = subprocess.run([PYTHON, "-W", "ignore", "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line.removeprefix("RESULT ")) for line in done.stdout.splitlines() if line.startswith("RESULT ")]


@pytest.fixture(scope="module", params=[3000, 70_000], ids=["uint16", "wide"])
def encoded(request, tmp_path_factory):
    """Return a folder with a token file of each format, and the ids of the documents."""
    folder = tmp_path_factory.mktemp("encoded")
    documents = data_text("prose.txt").decode()[:200_000].replace("<|endoftext|>", "").split("\n\n")
    text = "".join(f"{document}<|endoftext|>" for document in documents)
    (folder / "text.txt").write_text(text, encoding="utf-8")
    tokenizer = bpejit.train(folder / "text.txt", vocab_size=3000, special_tokens=["<|endoftext|>"])
    if request.param > 65536:
        vocab = {**tokenizer.vocab, request.param - 1: b"<|far|>"}
        tokenizer = bpejit.Tokenizer(vocab, tokenizer.merges, ["<|endoftext|>", "<|far|>"])
    for name, path in (("megatron", "corpus"), ("datatrove", "corpus.ds")):
        tokenizer.encode_files(folder / "text.txt", folder / path, format=name)
    return folder, [tokenizer.encode(f"{document}<|endoftext|>") for document in documents]


def test_megatron_reads_its_format(encoded):
    folder, documents = encoded
    size = bpejit.open_tokens(folder / "corpus").dtype
    for dtype, rows, indices, lengths in run(MEGATRON, str(folder / "corpus")):
        assert dtype == size
        assert rows == documents
        assert indices == list(range(len(documents) + 1))
        assert lengths == [len(document) for document in documents]


def test_megatron_writes_the_same_files(encoded):
    """`IndexedDatasetBuilder`, as `preprocess_data.py` calls it, writes the same bytes."""
    folder, documents = encoded
    (folder / "documents.json").write_text(json.dumps(documents))
    size = 3000 if bpejit.open_tokens(folder / "corpus").dtype == "uint16" else 70_000
    run(MEGATRON_BUILDER, str(folder / "theirs"), str(folder / "documents.json"), str(size))
    for suffix in (".bin", ".idx"):
        assert (folder / f"theirs{suffix}").read_bytes() == (folder / f"corpus{suffix}").read_bytes()


def test_datatrove_reads_its_format(encoded):
    folder, documents = encoded
    ids = np.concatenate([np.array(document) for document in documents])
    positions = np.concatenate([np.arange(len(document)) for document in documents])
    size = np.dtype(bpejit.open_tokens(folder / "corpus.ds").dtype).itemsize
    (rows,) = run(DATATROVE, str(folder), str(size))
    assert len(rows) == ids.size // 64
    for number, (found, places) in enumerate(rows):
        window = slice(64 * number, 64 * number + 64)
        assert found == ids[window].tolist()
        # datatrove counts from the start of the window in a document that began before it
        expected = positions[window]
        starts = np.flatnonzero(expected == 0)
        first = int(starts[0]) if starts.size else 64
        assert places[:first] == list(range(first))
        assert places[first:] == expected[first:].tolist()
