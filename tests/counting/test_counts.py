"""Counts and counts files: counting, saving, merging, and training from them."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import data_text, small
from helpers.training import table_of
from hypothesis import given, settings, strategies as st

import bpejit
from bpejit import Counts, CountsError, OutputError
from bpejit.arrays import padded_text
from bpejit.counting.header import CountSettings, CountsHeader, merge_headers
from bpejit.splitting import Splitter

SETTINGS = CountSettings("gpt2", "16.0", ("<|endoftext|>",), False)


def made(counts: dict[bytes, int], settings: CountSettings = SETTINGS, name: str = "a.txt") -> Counts:
    header = CountsHeader(settings, [{"path": name, "bytes": 10}], 10, sum(counts.values()))
    return Counts(header, table_of(counts))


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write three texts, and return their names."""
    monkeypatch.chdir(tmp_path)
    data = data_text("prose.txt")[: small(60_000, 2_000)] + b"\xff\xfe long " + b"x" * 50 + "早上好".encode() * 9
    size = len(data) // 3
    for number, name in enumerate(("one.txt", "two.txt", "three.txt")):
        Path(name).write_bytes(data[number * size : (number + 1) * size])
    return ["one.txt", "two.txt", "three.txt"]


def folder_bytes(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_counts_are_those_of_the_pattern(texts: list[str]) -> None:
    counts = bpejit.count("one.txt", pattern=r"\w+|\W+", special_tokens=[])
    expected = Counter(split(Path("one.txt").read_bytes(), r"\w+|\W+"))
    assert counts.table.to_counts() == dict(sorted(expected.items()))
    assert len(counts) == len(expected)
    assert counts.n_pretokens == sum(expected.values())
    assert counts.n_bytes == Path("one.txt").stat().st_size
    assert [entry["path"] for entry in counts.inputs] == ["one.txt"]
    assert (counts.pattern, counts.special_tokens, counts.normalize_newlines) == (r"\w+|\W+", (), False)
    assert "pre-tokens" in repr(counts)


def test_counts_are_iterated_in_order(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    counts = bpejit.count(texts)
    expected = list(counts.table.to_counts().items())
    assert list(counts) == expected == sorted(expected)
    assert all(type(word) is bytes and type(n) is int for word, n in counts)
    counts.save("counts")
    loaded = Counts.load("counts")
    monkeypatch.setattr(type(loaded._source), "read_table", None)  # blocks are read instead
    assert list(loaded) == expected
    assert list(made({})) == []


def split(data: bytes, pattern: str) -> list[bytes]:
    text, size = padded_text(data)
    ends = Splitter(pattern, []).split(text, size).tolist()
    return [data[a:b] for a, b in itertools.pairwise([0, *ends])]


def test_a_file_returns_what_was_saved(texts: list[str]) -> None:
    counts = bpejit.count(texts)
    counts.save("all.counts")
    again = Counts.load("all.counts")
    assert again == counts
    assert again.header == counts.header
    assert len(again) == len(counts)
    with pytest.raises(OutputError, match="already exists"):
        counts.save("all.counts")
    again.save("copy.counts")
    assert Path("copy.counts").read_bytes() == Path("all.counts").read_bytes()
    bpejit.count(texts, out="direct.counts")
    assert Path("direct.counts").read_bytes() == Path("all.counts").read_bytes()


def test_training_from_counts_equals_training_from_text__for_any_order_of_merging(texts: list[str]) -> None:
    options = {"special_tokens": ["<|a|>", "<|endoftext|>"], "pattern": "cl100k"}
    bpejit.train(texts, vocab_size=400, **options).save("from-text")
    expected = folder_bytes("from-text")
    for name in texts:
        bpejit.count(name, out=f"{name}.counts", **options)
    files = [f"{name}.counts" for name in texts]
    merged = set()
    for number, order in enumerate((files, files[::-1], [files[1], files[0], files[2]])):
        bpejit.merge_counts(order[:2], f"pair-{number}.counts")
        bpejit.merge_counts([order[2], f"pair-{number}.counts"], f"all-{number}.counts")
        merged.add(Path(f"all-{number}.counts").read_bytes())
        in_memory = Counts.load(order[0]).merge(Counts.load(order[1]), Counts.load(order[2]))
        in_memory.save(f"memory-{number}.counts")
        merged.add(Path(f"memory-{number}.counts").read_bytes())
    bpejit.merge_counts(files, "at-once.counts")
    assert merged == {Path("at-once.counts").read_bytes()}
    assert bpejit.count(texts, **options) == Counts.load("at-once.counts")
    bpejit.count(list(reversed(texts)), out="text.counts", **options)
    assert merged == {Path("text.counts").read_bytes()}
    bpejit.train_from_counts(Counts.load("at-once.counts"), vocab_size=400).save("from-counts")
    assert folder_bytes("from-counts") == expected


@pytest.mark.parametrize("most", [2, 3])
def test_many_files_are_merged_in_several_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    tables = [{b"%d" % (number * other): number + 1 for other in range(9)} for number in range(7)]
    names = [str(tmp_path / f"{number}.counts") for number in range(7)]
    for number, table in enumerate(tables):
        made(table, name=f"{number}.txt").save(names[number])
    bpejit.merge_counts(names, tmp_path / "plain.counts")
    for module in ("counts", "spilling"):
        monkeypatch.setattr(f"bpejit.counting.{module}.MOST_RUNS", most)
    reports = []
    found = bpejit.merge_counts(names, tmp_path / "all.counts", progress=lambda *report: reports.append(report))
    assert (tmp_path / "all.counts").read_bytes() == (tmp_path / "plain.counts").read_bytes()
    assert found.table.to_counts() == dict(sorted(sum(map(Counter, tables), Counter[bytes]()).items()))
    assert reports[-1] == ("write", found.n_pretokens, found.n_pretokens, "pre-tokens")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("engine", ["serial", "threads", "processes"])
def test_engines_and_memory_do_not_change_the_file(texts: list[str], engine: str, tmp_path: Path) -> None:
    bpejit.count(texts, out="plain.counts", workers=1)
    bpejit.count(texts, out="other.counts", engine=engine, workers=2, chunk_bytes=5000)
    bpejit.count(texts, out="bounded.counts", engine=engine, workers=2, chunk_bytes=5000, max_memory=1 << 28)
    assert Path("plain.counts").read_bytes() == Path("other.counts").read_bytes() == Path("bounded.counts").read_bytes()
    bounded = bpejit.train(texts, vocab_size=300, engine=engine, workers=2, max_memory=1 << 28, temporary_folder=tmp_path)
    assert bounded == bpejit.train(texts, vocab_size=300)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_settings_that_differ_are_not_merged() -> None:
    counts = made({b"a": 1})
    for other, what in (
        (CountSettings("cl100k", "16.0", ("<|endoftext|>",), False), "pattern"),
        (CountSettings("gpt2", "15.0", ("<|endoftext|>",), False), "unicode"),
        (CountSettings("gpt2", "16.0", (), False), "special tokens"),
        (CountSettings("gpt2", "16.0", ("<|endoftext|>",), True), "normalize newlines"),
    ):
        with pytest.raises(CountsError, match=f"cannot merge counts 2 with counts 1: its {what} is"):
            counts.merge(made({b"a": 1}, other))
    source = CountSettings(bpejit.splitting.PRESETS["gpt2"], "16.0", ("<|endoftext|>",), False)
    assert counts.merge(made({b"a": 1}, source)).pattern == "gpt2"
    assert made({b"a": 1}, source).merge(counts).pattern == "gpt2"
    with pytest.raises(CountsError, match="too large"):
        merge_headers([CountsHeader(SETTINGS, n_pretokens=2**61)] * 2, ["a", "b"])


def test_inputs_that_were_counted_twice_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("1", "11", "empty"):
        Path(f"{name}.txt").write_text("" if name == "empty" else f"text {name}", encoding="utf-8")
    some = bpejit.count(["11.txt", "empty.txt"], out="some.counts")
    every = bpejit.count(["1.txt", "11.txt", "empty.txt"], out="every.counts")
    files = ["some.counts", "every.counts"]
    expected = "cannot merge `every.counts` with `some.counts`: both have counts of the input '11.txt', with 7 bytes"
    with pytest.raises(CountsError, match=expected):
        bpejit.merge_counts(files, "all.counts")
    with pytest.raises(CountsError, match=expected):
        some.merge(every)
    assert not Path("all.counts").exists()
    assert bpejit.merge_counts(files, "all.counts", allow_repeated_inputs=True).n_bytes == 7 + 7 + 6
    assert some.merge(every, allow_repeated_inputs=True) == Counts.load("all.counts")
    with pytest.raises(CountsError, match="both have counts"):  # of files that were merged before
        bpejit.merge_counts(["all.counts", "some.counts"], "more.counts")
    Path("11.txt").write_text("more 11", encoding="utf-8")
    assert some.merge(bpejit.count("11.txt")).n_bytes == 14  # another file of the same name and size
    with pytest.raises(bpejit.ArgumentTypeError, match="allow_repeated_inputs"):
        some.merge(every, allow_repeated_inputs="yes")  # type: ignore[arg-type]


def test_special_tokens_of_the_configuration_must_have_been_counted() -> None:
    with pytest.raises(bpejit.SpecialTokenError, match="pad_token"):
        bpejit.train_from_counts(made({b"ab": 1}), vocab_size=300, pad_token="<|pad|>")


def test_empty_counts_are_refused() -> None:
    with pytest.raises(bpejit.CorpusError, match="no text to learn from"):
        bpejit.train_from_counts(made({}), vocab_size=300)


tables = st.dictionaries(st.binary(min_size=1, max_size=20), st.integers(1, 2**50), max_size=30)


@settings(max_examples=30)  # each writes files and flushes them
@given(tables, st.data())
def test_damage_is_noticed(tmp_path_factory: pytest.TempPathFactory, counts: dict[bytes, int], data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("damage") / "c.counts"
    made(counts).save(path)
    content = bytearray(path.read_bytes())
    assert Counts.load(path).table.to_counts() == dict(sorted(counts.items()))
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] ^= data.draw(st.integers(1, 255))
    else:
        del content[place:]
    path.write_bytes(content)
    with pytest.raises(CountsError, match=r"c\.counts"):
        Counts.load(path).table  # noqa: B018
    out = path.with_name("out.counts")
    with pytest.raises(CountsError):
        bpejit.merge_counts([path], out)
    assert not out.exists()


def test_other_files_and_versions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.counts"
    path.write_bytes(b"hello")
    with pytest.raises(CountsError, match="is not a counts file"):
        Counts.load(path)
    path.write_bytes(b"bpejit counts 2\n")
    with pytest.raises(CountsError, match="version '2'"):
        Counts.load(path)
    with pytest.raises(CountsError, match="no such file"):
        Counts.load(tmp_path / "missing")
    with pytest.raises(CountsError, match="at least one"):
        bpejit.merge_counts([], path)
    with pytest.raises(OutputError, match="one of the inputs"):
        made({b"a": 1}).save(tmp_path / "d.counts")
        bpejit.merge_counts([tmp_path / "d.counts"], tmp_path / "d.counts", overwrite=True)


def test_counts_beyond_32_bits_survive(tmp_path: Path) -> None:
    counts = made({b"a": 2**61, b"b": 1})
    counts.save(tmp_path / "c.counts")
    assert Counts.load(tmp_path / "c.counts") == counts
    assert np.array_equal(Counts.load(tmp_path / "c.counts").table.counts, [2**61, 1])
