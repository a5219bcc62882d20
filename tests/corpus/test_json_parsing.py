"""Tests of parsing JSON without orjson: the same records are read, with equal values."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

import bpejit
from bpejit.corpus.json_lines import find_parser, load_value

LINES = [
    b'{"text": "good", "n": 1}',
    b'{"text": "half \\ud83d", "n": -0}',
    b'{"text": "NaN", "n": NaN}',
    b'{"text": "Infinity", "n": [Infinity, -Infinity]}',
    b'{"text": "raw \xed\xa0\xbd half"}',
    b'{"text": "invalid \xff"}',
    b'{"text": "control \x01"}',
    b'{"text": "tab \t"}',
    b'{"text": "first", "text": "second", "n": 1, "n": 2}',
    b'{"text": "large", "n": %d}' % (1 << 64),
    b'{"text": "largest", "n": %d}' % ((1 << 64) - 1),
    b'{"text": "negative", "n": %d}' % -(1 << 63),
    b'{"text": "below", "n": %d}' % (-(1 << 63) - 1),
    b'{"text": "digits", "n": %b}' % (b"1" * 5000),
    b'{"text": "huge", "n": 1e400}',
    b'{"text": "tiny", "n": 1e-400}',
    b'{"text": "float", "n": 0.1}',
    b'{"text": "zeros", "n": 01}',
    b'{"text": "point", "n": 1.}',
    b'{"text": "plus", "n": +1}',
    b'{"text": "comma",}',
    b"{'text': 'quotes'}",
    b'{"text": "two"} {"text": "three"}',
    b'\xef\xbb\xbf{"text": "marked"}',
    b'\x0b {"text": "white space"}\x0c\r',
    b'{"text": "nul \\u0000"}',
    b'{"text": "escape \\x"}',
    b'{"text": "bare',
    b"[1]",
    b"",
    b'{"text": "deep string", "n": "%b"}' % (b"[{" * 3000),
]


@contextmanager
def without_orjson() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "orjson", None)
        assert find_parser() is load_value
        yield


def test_the_same_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(LINES))
    tokenizer = bpejit.Tokenizer({number: bytes([number]) for number in range(256)}, [], [])

    def read(name: str) -> tuple[Any, Any]:
        report = tokenizer.encode_files(path, tmp_path / name)
        return report.skipped, bpejit.open_tokens(tmp_path / name).ids.tolist()

    expected = read("a.bin")
    with without_orjson():
        found = read("b.bin")
    assert found == expected
    assert expected[0].count == 12
    text = bytes(expected[1])
    for word in (b"good", "half \ufffd".encode(), b"second", b"digits", b"white space", b"marked"):
        assert word in text


def test_packages_that_output_needs_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES[0])
    tokenizer = bpejit.Tokenizer({number: bytes([number]) for number in range(256)}, [], [])
    with without_orjson(), pytest.raises(bpejit.CorpusError, match=r"`orjson`, which is not installed"):
        tokenizer.encode_files(tmp_path / "a.jsonl", tmp_path / "a.parquet", format="parquet", keep_columns=["n"])


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.booleans())
def test_values_are_equal(value: Any, ascii_only: bool) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert same(load_value(line), orjson.loads(line))


@given(st.binary(max_size=20) | st.text('[]{}":,0123456789.-+eE\\utrufalsn \n', max_size=20).map(str.encode))
def test_what_orjson_reads_is_read(line: bytes) -> None:
    try:
        expected = orjson.loads(line)
    except ValueError:
        return
    assert same(load_value(line), expected)
