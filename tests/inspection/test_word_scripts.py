"""Tests of words by script, against plain Python over the text in one piece."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
import regex
from helpers.encoding import make_model
from helpers.strategies import awkward_bytes, awkward_text
from hypothesis import example, given, settings, strategies as st

from bpejit.arrays import padded_text
from bpejit.corpus.contents import Contents
from bpejit.corpus.sources import find_sources
from bpejit.encoding.codec import Codec
from bpejit.errors import CorpusError
from bpejit.inspection.text_measures import SCRIPTS, ScriptTable, TextMeasures, measure_text
from bpejit.inspection.token_counts import count_inputs

TABLE, PLAIN = ScriptTable(), ScriptTable(by_script=False)

MIXED = [b"a", "ж".encode(), "中".encode(), "β".encode(), b"1", b"!", "\u0301".encode(), "\u201c".encode(), "\u07ca".encode()]
MIXED += [
    b" ",
    b"\n",
    "\u3000".encode(),
    "\u00a0".encode(),
    "\u2028".encode(),
    "😀".encode(),
    b"\x80",
    b"\xe2\x80",
    b"\xe3",
    b"\xff",
]
MIXED += ["\U00010330".encode(), b"\xe0\x81\xa1", b"\xed\xa0\x80"]


def mixed_bytes(max_size=12):
    return st.one_of(st.lists(st.sampled_from(MIXED), max_size=max_size).map(b"".join), awkward_bytes(max_size))


def script_of(character):
    if "\udc80" <= character <= "\udcff":  # a byte that is not valid UTF-8
        return "Other"
    if regex.match(r"[\p{Script=Common}\p{Script=Inherited}]", character):
        return "Common"
    names = [name for name in SCRIPTS[1:-1] if regex.match(rf"\p{{Script={name}}}", character)]
    return names[0] if names else "Other"


def words_by_script(data):
    """Return the number of words of each script."""
    found = Counter()
    for word in data.decode("utf-8", "surrogateescape").split():
        found[next((script for script in map(script_of, word) if script != "Common"), "Common")] += 1
    return found


def named(measures):
    assert measures.word_counts.min() >= 0
    return {SCRIPTS[index]: count for index, count in enumerate(measures.word_counts.tolist()) if count}


def padded(data):
    text, n_bytes = padded_text(data)
    text[n_bytes:] = 0x80  # must not matter
    return text, n_bytes


@given(mixed_bytes())
@example(b"\xe2\x80")
@example(b" \x80 ")
def test_words_equal_plain_python(data):
    measures = measure_text(*padded(data), TABLE)
    assert named(measures) == words_by_script(data)
    assert measures.words == measure_text(*padded(data), PLAIN).words == len(data.decode("utf-8", "replace").split())


@given(mixed_bytes(30), st.lists(st.integers(1, 7)))
def test_blocks_equal_whole_texts(data, sizes):
    text = data.decode("utf-8", "surrogateescape")
    measures, plain, rest = TextMeasures(), TextMeasures(), text
    for size in [*sizes, len(text) + 1]:
        part, rest = rest[:size].encode("utf-8", "surrogateescape"), rest[size:]
        measures = measures.followed_by(measure_text(*padded(part), TABLE))
        plain = plain.followed_by(measure_text(*padded(part), PLAIN))
    assert named(measures) == words_by_script(data)
    assert measures.words == plain.words


@given(st.lists(mixed_bytes(4), max_size=8))
@example([b"a\xe2\x80", b"\x80b"])
@example([b"\xe2\x80", b"\x80"])
def test_documents_divide_words(documents):
    block = padded(b"".join(documents))
    ends = np.cumsum([len(document) for document in documents], dtype=np.int64)
    measures = measure_text(*block, TABLE, ends)
    assert named(measures) == sum(map(words_by_script, documents), Counter())
    assert measures.words == measure_text(*block, PLAIN, ends).words


@pytest.mark.parametrize("engine", ["serial", "threads", "processes"])
def test_inputs_of_any_engine(tmp_path, engine, monkeypatch):
    samples = [
        b"one ",
        "жук".encode(),
        "“中文”\u3000".encode(),
        b"\n--",
        b" a\xe2\x80 \x80\x80",
        "!ж1 ".encode(),
        b"1,2 x",
        b"\xff ",
    ]
    rng = np.random.default_rng(0)
    texts = [b"".join(samples[index] for index in rng.integers(0, len(samples), 300)) for _ in range(2)]
    texts += [b"", b"!" * 500 + "ж".encode() + b"a" * 500]
    paths = [tmp_path / f"{index}.txt" for index in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text)
    lines = ["one two", "", "\u3000", "ж", "中", "a"]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf-8")
    expected = sum(map(words_by_script, [*texts, *map(str.encode, lines)]), Counter())
    sources = find_sources([*paths, tmp_path / "lines.jsonl"], Contents())
    for chunk_bytes in (1, 7, 100, 1 << 20) if engine == "serial" else (100,):
        monkeypatch.setattr("bpejit.inspection.token_counts.CHUNK_BYTES", chunk_bytes)
        found = count_inputs(Codec(make_model([])), sources, engine=engine, workers=2, by_script=True)
        assert {entry["script"]: entry["words"] for entry in found.scripts if entry["words"]} == expected
        assert sum(entry["words"] for entry in found.scripts) == found.total.measures.words


@settings(max_examples=20)
@given(st.lists(awkward_text(4), max_size=4), st.integers(1, 9))
def test_inputs_of_any_chunk_size(tmp_path_factory, texts, chunk_bytes):
    folder = tmp_path_factory.getbasetemp()
    paths = [folder / f"words-{index}.txt" for index in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bpejit.inspection.token_counts.CHUNK_BYTES", chunk_bytes)
        sources = find_sources(paths, Contents()) if paths else []
        if not any(texts):
            with pytest.raises(CorpusError, match="contains no text"):
                count_inputs(Codec(make_model([])), sources, engine="serial")
            return
        found = count_inputs(Codec(make_model([])), sources, engine="serial", by_script=True)
    expected = sum((words_by_script(text.encode()) for text in texts), Counter())
    assert {entry["script"]: entry["words"] for entry in found.scripts if entry["words"]} == expected


def test_words_of_a_script_without_tokens(tmp_path):
    model = make_model([], ["ж"])
    (tmp_path / "text.txt").write_text("a ж", encoding="utf-8")
    (_, _, found) = count_inputs(Codec(model), find_sources([tmp_path / "text.txt"], Contents()), by_script=True).scripts
    assert (found["script"], found["tokens"], found["words"]) == ("Cyrillic", 0, 1)
    assert found["bytes_per_token"] is found["characters_per_token"] is found["words_per_token"] is None
