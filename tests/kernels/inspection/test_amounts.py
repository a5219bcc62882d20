"""Tests of the kernels that count tokens, characters and words."""

from __future__ import annotations

import numpy as np
import twins
from helpers.strategies import awkward_bytes, awkward_text
from hypothesis import example, given, strategies as st

from bpejit.arrays import padded_text
from bpejit.inspection.text_measures import SCRIPTS, ScriptTable
from bpejit.kernels.inspection import amounts


@given(st.lists(st.integers(0, 9), max_size=50))
def test_count_ids(ids):
    counts, expected = np.arange(10, dtype=np.int64), list(range(10))
    amounts.count_ids(np.array(ids, dtype=np.uint32), counts)
    twins.inspection.count_ids(ids, expected)
    assert counts.tolist() == expected


TABLES = ScriptTable(), ScriptTable(by_script=False)


def words_of(documents, table):
    """Return what the kernel counts, as its twin does."""
    text, n_bytes = padded_text(b"".join(documents))
    text[n_bytes:] = 0x80  # must not matter
    words, found = np.zeros(len(SCRIPTS), dtype=np.int64), np.full(amounts.N_AMOUNTS, -1, dtype=np.int64)
    stops = np.cumsum([len(data) for data in documents], dtype=np.int64)
    amounts.count_words(text, stops, table.kinds, table.byte_kinds, words, found)
    return words.tolist(), found.tolist()


def kind_in(table):
    """Return a function from a character to its script in a table."""

    def kind_of(character):
        if "\udc80" <= character <= "\udcff":
            return int(table.byte_kinds[0xFF])
        return int(table.kinds[ord(character)]) & ~amounts.SPACE

    return kind_of


def agrees(documents):
    for table in TABLES:
        assert words_of(documents, table) == twins.inspection.count_words(documents, kind_in(table), len(SCRIPTS))


@given(awkward_text())
def test_count_words(text):
    agrees([text.encode()])


@given(st.lists(awkward_bytes(), max_size=3))
@example([b" \x80 \xe2\x80\x80\x80 \xe2\x80"])
@example([b"a\xe2\x80", b"\x80 1b", b""])
def test_count_words_of_any_bytes(documents):
    agrees(documents)


def test_every_white_space():
    assert not any(chr(point).isspace() for point in range(0x3001, 0x110000))
    for point in range(0x3001):
        expected = 2 if chr(point).isspace() else 1
        for table in TABLES:
            assert sum(words_of([f"a{chr(point)}b".encode()], table)[0]) == expected, hex(point)


@given(awkward_bytes(), st.data())
def test_find_scripts(data, draw):
    if not data:
        return
    starts = draw.draw(st.lists(st.integers(0, len(data) - 1), max_size=5))
    ends = [draw.draw(st.integers(start + 1, len(data))) for start in starts]
    text, scripts = np.frombuffer(data, dtype=np.uint8), np.full(len(starts), 99, dtype=np.uint8)
    positions = [np.array(values, dtype=np.int64) for values in (starts, ends)]
    amounts.find_scripts(text, *positions, TABLES[0].kinds, TABLES[0].byte_kinds, scripts)
    assert scripts.tolist() == twins.inspection.find_scripts(data, starts, ends, kind_in(TABLES[0]))
