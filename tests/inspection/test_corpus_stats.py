"""Tests of the statistics of `bpejit stats`, against plain Python and tiktoken."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import chain

import numpy as np
import pytest
import regex
from conftest import data_text, read_shared, small
from helpers.encoding import make_model
from helpers.strategies import awkward_bytes, awkward_text
from hypothesis import given, strategies as st

import bpejit
from bpejit.arrays import padded_text
from bpejit.corpus.contents import Contents
from bpejit.corpus.sources import find_sources
from bpejit.encoding.codec import Codec
from bpejit.inspection.corpus_stats import corpus_stats, coverage, efficiency, frequency_classes, renyi_entropy, usage_by_rank
from bpejit.inspection.text_measures import (
    COMMON,
    SCRIPTS,
    UNDETERMINED,
    ScriptTable,
    TextMeasures,
    measure_text,
    scripts_around,
    token_scripts,
)
from bpejit.inspection.token_counts import count_inputs
from bpejit.inspection.vocabulary_measures import token_properties
from bpejit.splitting import PRESETS


def script_of(character):
    names = [name for name in SCRIPTS[1:-1] if regex.match(rf"\p{{Script={name}}}", character)]
    common = regex.match(r"[\p{Script=Common}\p{Script=Inherited}]", character)
    return names[0] if names else "Common" if common else "Other"


def array_of(data):
    return np.frombuffer(data, dtype=np.uint8)


# ---- measures of text --------------------------------------------------------------------------------------------------


@given(st.lists(awkward_text(6), max_size=6))
def test_measures_equal_those_of_strings(parts):
    found = TextMeasures()
    for part in parts:
        found = found.followed_by(measure_text(*padded_text(part.encode()), ScriptTable()))
    text = "".join(parts)
    assert (found.bytes, found.characters, found.words) == (len(text.encode()), len(text), len(text.split()))


# ---- scripts -----------------------------------------------------------------------------------------------------------


@given(awkward_text(8))
def test_scripts_of_tokens(text):
    tokens = [text.encode()] if len(text.encode()) > 1 else []
    model = make_model([])
    model = bpejit.Model(tokens={**model.tokens, **dict(enumerate(tokens, start=1000))}, merges=[], ranked=True)
    found = token_scripts(model, ScriptTable())
    for number, token in enumerate(tokens, start=1000):
        expected = next((script_of(c) for c in token.decode() if script_of(c) != "Common"), "Common")
        assert SCRIPTS[found[number]] == expected


def test_scripts_of_partial_tokens():
    tokens = [b" \xe4\xb8", b"\xad", b"a\xe4", b"\x80\xd0\xb6", b"1\xff", b"\xf0\x9f"]
    model = make_model([])
    singles = {number: bytes([number]) for number in range(256)}
    model = bpejit.Model(tokens={**singles, **{300 + i: t for i, t in enumerate(tokens) if len(t) > 1}}, merges=[], ranked=True)
    found = token_scripts(model, ScriptTable())
    assert found[300] == UNDETERMINED
    assert found[0xAD] == UNDETERMINED
    assert SCRIPTS[found[302]] == "Latin"
    assert SCRIPTS[found[303]] == "Cyrillic"
    assert found[304] == found[305] == UNDETERMINED
    assert found[ord("1")] == COMMON


@given(awkward_bytes(), st.data())
def test_scripts_around_any_cut(data, draw):
    text = data.decode("utf-8", "ignore")
    encoded = text.encode()
    if not encoded:
        return
    start = draw.draw(st.integers(0, len(encoded) - 1))
    end = draw.draw(st.integers(start + 1, min(len(encoded), start + 4)))
    at = start if encoded[start] & 0xC0 == 0x80 else end - 1
    owner = len(encoded[: at + 1].decode("utf-8", "ignore"))
    complete = encoded[: at + 1].decode("utf-8", "surrogateescape").encode("utf-8", "surrogateescape")
    index = owner - 1 if len(text[:owner].encode()) == len(complete) else owner
    padded = np.concatenate([array_of(encoded), np.zeros(4, np.uint8)])
    (found,) = scripts_around(padded, np.array([start]), np.array([end]), ScriptTable())
    assert SCRIPTS[found] == script_of(text[index])


# ---- distributions -----------------------------------------------------------------------------------------------------


def test_renyi_efficiency_of_published_examples():
    # The examples of the package tokenization-scorer, by the authors of the measure; they have order 3.
    for text, expected in (
        ("pick @@ed pick @@l @@ed pick @@les", 0.8031528501359657),
        ("pick @@e @@d pick @@l @@e @@d pick @@l @@e @@s", 0.9105681923824472),
    ):
        counts = np.array(list(Counter(text.split()).values()))
        assert efficiency(renyi_entropy(counts, 3), counts.size) == pytest.approx(expected, rel=1e-12)


@given(st.lists(st.integers(0, 1000), max_size=30))
def test_distributions(values):
    counts = np.array(values, dtype=np.int64)
    positive = sorted((value for value in values if value), reverse=True)
    total = sum(positive)
    shannon = -math.fsum(value / total * math.log2(value / total) for value in positive) if total else 0
    assert renyi_entropy(counts, 1) == pytest.approx(shannon, abs=1e-9)
    assert renyi_entropy(counts, 2.5) <= shannon + 1e-9
    for entry in coverage(counts):
        assert entry["share"] == pytest.approx(sum(positive[: entry["tokens"]]) / total)
    for entry in frequency_classes(counts):
        assert entry["tokens"] == sum(entry["least"] <= value <= entry["most"] for value in values)
    if values:
        assert sum(entry["tokens"] for entry in frequency_classes(counts)) == len(values)
        ranges = usage_by_rank(counts, np.ones(counts.size, dtype=np.bool_))
        assert sum(part["tokens"] for part in ranges) == len(values)
        assert sum(part["used"] for part in ranges) == len(positive)
        assert sum(part["share"] for part in ranges) == pytest.approx(1 if total else 0)


# ---- whole inputs ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def codec(tmp_path_factory):
    corpus = tmp_path_factory.mktemp("stats") / "corpus.txt"
    corpus.write_bytes(data_text("prose.txt")[: small(60_000, 3000)] + data_text("cjk.txt")[: small(60_000, 3000)])
    return Codec(bpejit.train([corpus], vocab_size=small(600, 280), special_tokens=["<|e|>"]).model)


def check(codec, texts, found):
    """Compare counted inputs with counts of encoded texts in plain Python."""
    model = codec.model
    total = Counter()
    for name, text in texts.items():
        ids = codec.encode(text).tolist()
        group = found.groups[name]
        assert dict(zip(group.ids.tolist(), group.counts.tolist(), strict=True)) == Counter(ids)
        words = len(text.decode("utf-8", "ignore").split())
        assert (group.measures.bytes, group.measures.words) == (len(text), words)
        total.update(ids)
    assert dict(zip(found.total.ids.tolist(), found.total.counts.tolist(), strict=True)) == total
    figures = corpus_stats(model, found)
    n_tokens = total.total()
    assert figures["total"]["tokens"] == n_tokens
    assert figures["total"]["bytes_per_token"] == pytest.approx(sum(map(len, texts.values())) / n_tokens)
    assert figures["total"]["single_byte_share"] == pytest.approx(
        sum(count for number, count in total.items() if len(model.vocab[number]) == 1) / n_tokens
    )

    def is_partial(token):
        return token.decode("utf-8", "ignore").encode() != token

    partial = sum(count for number, count in total.items() if is_partial(model.vocab[number]))
    assert figures["total"]["partial_share"] == pytest.approx(partial / n_tokens)
    assert figures["unused_tokens"] == len(model.vocab) - len(total)
    assert [token["count"] for token in figures["most_frequent"]] == [count for _, count in total.most_common(10)]
    return figures


@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_counts_equal_encoding(codec, tmp_path, engine, monkeypatch):
    texts = {
        "a.txt": data_text("prose.txt")[: small(100_000, 2000)],
        "b.txt": data_text("cjk.txt")[: small(100_000, 1999)].decode("utf-8", "ignore").encode(),
        "empty.txt": b"",
        "c.txt": b"one<|e|> two",
    }
    monkeypatch.chdir(tmp_path)
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    monkeypatch.setattr("bpejit.inspection.token_counts.CHUNK_BYTES", 3000)
    found = count_inputs(codec, find_sources(list(texts), Contents()), engine=engine, workers=2, by_script=True)
    check(codec, texts, found)
    assert sum(entry["tokens"] for entry in found.scripts) == found.total.total
    assert sum(entry["bytes"] for entry in found.scripts) == found.total.measures.bytes
    assert sum(entry["characters"] for entry in found.scripts) == found.total.measures.characters


def test_scripts_equal_plain_python(codec, tmp_path):
    text = ("Ελλάδα жук 中文字 ひらがな العربية ไทย 12 !" * 3).encode()
    (tmp_path / "text.txt").write_bytes(text)
    found = count_inputs(codec, find_sources([tmp_path / "text.txt"], Contents()), by_script=True)
    expected = Counter()
    position = 0
    for number in codec.encode(text).tolist():
        token = codec.model.vocab[number]
        first = token.decode("utf-8", "ignore")
        named = [script_of(c) for c in first if script_of(c) != "Common"]
        if not named:
            start, end = position, position + len(token)
            at = start if text[start] & 0xC0 == 0x80 else end - 1
            while text[at] & 0xC0 == 0x80:
                at -= 1
            named = [script_of(text[at:].decode("utf-8", "ignore")[0])]
        expected[named[0]] += 1
        position += len(token)
    assert {entry["script"]: entry["tokens"] for entry in found.scripts} == expected


def test_labels_join_files(codec, tmp_path):
    for name in ("en-1.txt", "other.txt", "en-2.txt"):
        (tmp_path / name).write_bytes(b"some words " * 5)
    paths = [tmp_path / name for name in ("en-1.txt", "other.txt", "en-2.txt")]
    found = count_inputs(codec, find_sources(paths, Contents()), labels={"*/en-*.txt": "english"})
    assert list(found.groups) == ["english", str(tmp_path / "other.txt")]
    assert found.groups["english"].measures.words == 20
    assert found.groups["english"].total == 2 * found.groups[str(tmp_path / "other.txt")].total


def test_documents_of_other_formats(codec, tmp_path):
    texts = ["some words", " and", "more", "", "<|e|>", "\u3000x", "中", "文\u3000", "end"]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    for number in range(3):  # small files, which are not counted together
        (tmp_path / f"{number}.txt").write_bytes(b"file " * (number + 1))
    paths = [tmp_path / "texts.jsonl", *(tmp_path / f"{number}.txt" for number in range(3))]
    found = count_inputs(codec, find_sources(paths, Contents()), by_script=True)
    ids = [codec.encode(text, None, ()).tolist() for text in texts]
    group = found.groups[str(paths[0])]
    assert dict(zip(group.ids.tolist(), group.counts.tolist(), strict=True)) == Counter(chain.from_iterable(ids))
    assert group.measures.words == sum(len(text.split()) for text in texts)
    assert group.measures.characters == sum(map(len, texts))
    assert [found.groups[str(path)].measures.words for path in paths[1:]] == [1, 2, 3]
    assert sum(entry["tokens"] for entry in found.scripts) == found.total.total


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", ["corpora/english.txt", "corpora/multilingual.txt"])
def test_published_vocabulary_equals_tiktoken(name, tmp_path):
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    path = tmp_path / "cl100k_base.tiktoken"
    path.write_bytes(read_shared("vocabs/cl100k_base.tiktoken"))
    text = read_shared(name)[:500_000].decode("utf-8", "ignore")
    (tmp_path / "text.txt").write_bytes(text.encode())
    tokenizer = bpejit.load(path)
    other = tiktoken.Encoding(
        "other",
        pat_str=PRESETS["cl100k"],
        mergeable_ranks=load_tiktoken_bpe(str(path)),
        special_tokens=dict(tokenizer.special_tokens),
    )
    expected = Counter(other.encode(text, allowed_special="all"))
    found = count_inputs(Codec(tokenizer.model), find_sources([tmp_path / "text.txt"], Contents()))
    assert dict(zip(found.total.ids.tolist(), found.total.counts.tolist(), strict=True)) == expected
    figures = corpus_stats(tokenizer.model, found)["total"]
    n = expected.total()
    assert figures["entropy"] == pytest.approx(-math.fsum(c / n * math.log2(c / n) for c in expected.values()))
    renyi = math.log2(math.fsum((c / n) ** 2.5 for c in expected.values())) / -1.5
    assert figures["renyi_efficiency"] == pytest.approx(renyi / math.log2(len(expected)))
    assert (figures["bytes"], figures["characters"], figures["words"]) == (len(text.encode()), len(text), len(text.split()))


def test_properties_of_tokens(codec):
    properties = token_properties(codec.model)
    for number, token in codec.model.vocab.items():
        assert properties.lengths[number] == len(token)
        assert properties.partial[number] == (token.decode("utf-8", "ignore").encode() != token)
    assert properties.special.sum() == 1
