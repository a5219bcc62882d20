"""Rows, mappings and tables in place of texts: their keys, or all their columns, would become the corpus."""

from __future__ import annotations

import collections
import csv
import io
import json
import re
import sqlite3
import types
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pytest
from helpers.formats import BYTES

import bpejit
from bpejit.subword import SubwordTextEncoder, TokenTextEncoder

ROWS = [{"text": "alpha", "url": "u1"}, {"text": "one two", "url": "u2"}]


class Named(NamedTuple):
    """A row of `itertuples`."""

    url: str
    text: str


class Frame:
    """A data frame: iterating over it yields the names of its columns."""

    columns = ("url", "text")

    def __iter__(self):
        return iter(self.columns)


def database_rows() -> sqlite3.Cursor:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    return database.execute("select 'alpha' as text, 'u1' as url")


OF_ROWS = "(row['text'] for row in rows)"

ITEMS = {
    "dicts": (lambda: ROWS, OF_ROWS),
    "ordered": (lambda: [collections.OrderedDict(row) for row in ROWS], OF_ROWS),
    "proxies": (lambda: [types.MappingProxyType(row) for row in ROWS], OF_ROWS),
    "user dicts": (lambda: (collections.UserDict(row) for row in ROWS), OF_ROWS),
    "csv": (lambda: csv.DictReader(io.StringIO("text,url\nalpha,u1\n")), OF_ROWS),
    "json": (lambda: map(json.loads, ['{"text": "alpha"}']), OF_ROWS),
    "batches": (lambda: iter([{"text": ["alpha", "beta"]}]), OF_ROWS),
    "other field": (lambda: [{"content": "alpha"}], "(row['content'] for row in rows)"),
    "named tuples": (lambda: [Named("u1", "alpha")], "(row.text for row in rows)"),
    "database": (database_rows, OF_ROWS),
    "frames": (lambda: [Frame()], OF_ROWS),
    "tables": (lambda: [pyarrow.table({"text": ["alpha"]})], OF_ROWS),
    "structured": (lambda: iter(np.array([(b"alpha", b"u")], dtype=[("text", "S5"), ("url", "S1")])), OF_ROWS),
}
"""Iterables of rows, and the call in the message."""

WHOLE = {
    "columns": (lambda: {"text": ["alpha"], "url": ["u"]}, "columns['text']"),
    "one row": (lambda: {"text": "alpha"}, "texts.values()"),
    "frame": (Frame, "frame['text'].to_list()"),
    "table": (lambda: pyarrow.table({"text": ["alpha"]}), "dataset['text']"),
}
"""Iterables of names or of columns."""

TOKENIZER = bpejit.Tokenizer(BYTES, [])

LISTS = {
    "train_from_iterator": lambda texts: bpejit.train_from_iterator(texts, vocab_size=257),
    "encode_batch": TOKENIZER.encode_batch,
    "encode_iterable": lambda texts: list(TOKENIZER.encode_iterable(texts)),
    "as_tiktoken": lambda texts: TOKENIZER.as_tiktoken().encode_ordinary_batch(texts),
    "subword": lambda texts: SubwordTextEncoder.build_from_generator(texts, 40),
}

PATHS = {
    "train": lambda inputs, _: bpejit.train(inputs, vocab_size=257),
    "count": lambda inputs, _: bpejit.count(inputs),
    "encode_files": lambda inputs, folder: TOKENIZER.encode_files(inputs, folder / "out.bin"),
    "verify": lambda inputs, _: bpejit.verify(TOKENIZER, inputs, against="tiktoken"),
    "plot": lambda inputs, _: TOKENIZER.plot_frequencies(inputs),
}


@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize(("rows", "right"), ITEMS.values(), ids=ITEMS)
def test_rows_are_no_texts(rows: Any, right: str, call: Any) -> None:
    with pytest.raises(bpejit.ArgumentTypeError, match=re.escape(right)):
        call(rows())


@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize(("table", "right"), WHOLE.values(), ids=WHOLE)
def test_tables_are_no_texts(table: Any, right: str, call: Any) -> None:
    with pytest.raises(bpejit.ArgumentTypeError, match=re.escape(right)):
        call(table())


@pytest.mark.parametrize(("table", "right"), WHOLE.values(), ids=WHOLE)
def test_tables_are_no_texts_of_as_hf(table: Any, right: str) -> None:
    with pytest.raises(bpejit.ArgumentTypeError, match=re.escape(right)):
        TOKENIZER.as_hf()(table())
    with pytest.raises(bpejit.ArgumentTypeError, match=re.escape(right)):
        TOKENIZER.as_hf()(["a"], table())


@pytest.mark.parametrize("call", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("given", [*(rows for rows, _ in ITEMS.values()), *(table for table, _ in WHOLE.values())])
def test_rows_and_tables_are_no_inputs(given: Any, call: Any, tmp_path) -> None:
    with pytest.raises(bpejit.ArgumentTypeError, match=re.escape("(row['text'] for row in rows)")):
        call(given(), tmp_path)


@pytest.mark.parametrize("call", PATHS.values(), ids=PATHS)
def test_list_of_texts_instead_of_paths__message_has_the_call(call: Any, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for texts in (["hello world", "more text"], np.array(["a", "b"]), ["Is this one? Yes", "x" * 5000]):
        with pytest.raises(bpejit.CorpusError, match=re.escape("such as iter(dataset['text'])")):
            call(texts, tmp_path)
    with pytest.raises(bpejit.ArgumentTypeError, match=re.escape("such as iter(dataset['text'])")):
        call(pyarrow.array(["hello world"]), tmp_path)


def test_list_with_an_existing_file__is_one_of_paths(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("alpha")
    with pytest.raises(bpejit.CorpusError, match=r"check the path and its permissions$"):
        bpejit.count([tmp_path / "a.txt", tmp_path / "b.txt"])


@pytest.mark.parametrize("texts", ["alpha", b"alpha"])
def test_encode_iterable__of_one_text(texts: Any) -> None:
    with pytest.raises(bpejit.ArgumentTypeError, match="expected a list of texts"):
        TOKENIZER.encode_iterable(texts)


@pytest.mark.parametrize("column", [pyarrow.array([1, 2]), pyarrow.array(ROWS)])
def test_column_without_texts(column: Any) -> None:
    with pytest.raises(bpejit.ArgumentTypeError, match="expected a column of strings"):
        bpejit.train_from_iterator(column, vocab_size=257)


def test_mapping_of_tokens_instead_of_a_list() -> None:
    with pytest.raises(bpejit.ArgumentTypeError, match="special_tokens is"):
        bpejit.Tokenizer(BYTES, [], {"<|x|>": 500})  # type: ignore[arg-type]
    with pytest.raises(bpejit.ArgumentTypeError, match="vocab_list is"):
        TokenTextEncoder(None, vocab_list={"a": 0})


def test_texts_stay_texts() -> None:
    named = {"a": "alpha", "b": "beta"}
    expected = [list(b"alpha"), list(b"beta")]
    for texts in (named.values(), (row for row in ("alpha", "beta")), np.array(["alpha", "beta"]), Column(["alpha", "beta"])):
        assert TOKENIZER.encode_batch(texts).tolist() == expected


class Column(list):
    """A column of pandas, whose `keys` returns its index."""

    dtype = np.dtype(object)

    def keys(self) -> range:
        return range(len(self))
