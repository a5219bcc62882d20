"""The published functions of Tensor2Tensor that read files, build vocabularies and write examples, against plain Python."""

from __future__ import annotations

import logging
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import data_text
from helpers.published_records import frame_record, published_data, serialize_example
from hypothesis import given, strategies as st
from twins.subwords import bisect_subtokens, drop_spaces, split_words

import bpejit
from bpejit import subword
from bpejit.errors import CorpusError, OutputError
from bpejit.subword import RESERVED_TOKENS, SubwordTextEncoder, generate_files, shuffle_dataset, tokenizer
from bpejit.t2t.tfrecords import parse_example

FILES = st.lists(st.text(alphabet="ab \té\u3000\r\n,1_", max_size=20), max_size=3)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text as the published code reads them: without carriage returns, with their ends."""
    found = text.replace("\r", "").split("\n")
    return [f"{line}\n" for line in found[:-1]] + [line for line in found[-1:] if line]


def count(texts: list[str]) -> Counter[str]:
    return Counter(token for text in texts for token in drop_spaces(split_words(text)))


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "bpejit.subword")
    return caplog


@given(texts=FILES, most=st.sampled_from([None, 0, 1, 2, 3, 5]))
def test_counts_of_files(tmp_path_factory: pytest.TempPathFactory, texts: list[str], most: int | None) -> None:
    folder = tmp_path_factory.mktemp("files")
    for number, text in enumerate(texts):
        (folder / f"part-{number}").write_bytes(text.encode())
    (folder / "other").write_bytes(b"other")
    lines = [line.strip() for text in texts for line in lines_of(text)]
    assert tokenizer.corpus_token_counts(f"{folder}/part-*", most) == count(lines[: most or None])
    whole, left = [], most or 1000
    for text in texts:
        kept = lines_of(text)[:left]
        whole.append("".join(kept))
        left -= len(kept)
    assert tokenizer.corpus_token_counts(f"{folder}/part-*", most, split_on_newlines=False) == count(whole)
    assert [list(subword.txt_line_iterator(folder / f"part-{number}")) for number in range(len(texts))] == [
        [line.strip() for line in lines_of(text)] for text in texts
    ]


def test_counts_of_no_files(tmp_path: Path) -> None:
    assert tokenizer.corpus_token_counts(f"{tmp_path}/missing*", None) == Counter()
    assert tokenizer.vocab_token_counts(f"{tmp_path}/missing*", None) == {}
    assert tokenizer.decode(tokenizer.encode("low, lower")) == "low, lower"


def test_counts_of_listed_tokens(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    (tmp_path / "b").write_text("low,1\nlow,9\n", encoding="utf-8")
    (tmp_path / "a").write_text(" low,3\n, ,4 \nno count\n\nlower,+5\n", encoding="utf-8")
    assert tokenizer.vocab_token_counts(f"{tmp_path}/[ab]", None) == {"low": 9, ", ": 4, "lower": 5}
    assert log.messages == ["Malformed vocab line #2 'no count'", "Malformed vocab line #3 ''"]
    assert tokenizer.vocab_token_counts(f"{tmp_path}/[ab]", 6) == {"low": 1, ", ": 4, "lower": 5}
    (tmp_path / "c").write_text("low,many\n", encoding="utf-8")
    with pytest.raises(ValueError, match="'many'"):
        tokenizer.vocab_token_counts(f"{tmp_path}/c", None)


def test_vocabulary_is_printed_and_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = SubwordTextEncoder()
    encoder._init_subtokens_from_list(["<pad>_", "a_", "", "é"])
    encoder.dump()
    assert capsys.readouterr().out == "0 : '<pad>_', 1 : 'a_', 3 : 'é'\n"
    path = tmp_path / "vocab"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(OutputError, match="already exists"):
        encoder.store_to_file(path, overwrite=False)
    encoder.store_to_file(path)
    assert path.read_text(encoding="utf-8") == "'<pad>_'\n'a_'\n''\n'é'\n"


@pytest.mark.compiled
def test_search_for_a_vocabulary_is_logged(log: pytest.LogCaptureFixture) -> None:
    counts = count(data_text("prose.txt")[:20_000].decode().split("\n"))
    encoder = SubwordTextEncoder.build_to_target_size(300, counts, 1, 40)
    tried = [int(text.split()[-1]) for text in log.messages if text.startswith("Trying min_count")]
    assert tried[0] == 20
    assert len(tried) > 1
    expected = []
    for least in tried:
        expected.append(f"Trying min_count {least}")
        for rounds in range(1, 5):
            other = SubwordTextEncoder()
            with log.at_level(logging.WARNING, "bpejit.subword"):
                other.build_from_token_counts(counts, least, rounds)
            expected += [f"Iteration {rounds - 1}", f"vocab_size = {other.vocab_size}"]
    assert log.messages == expected
    assert f"vocab_size = {encoder.vocab_size}" in log.messages


@pytest.mark.compiled
def test_records_are_changed_after_shuffling(tmp_path: Path) -> None:
    plain, changed = tmp_path / "plain-unshuffled-train", tmp_path / "changed-unshuffled-train"
    for path in (plain, changed):
        generate_files(cases(50), [path])
    given_records: list[list[bytes]] = []

    def change(records: list[bytes]) -> Any:
        given_records.append(list(records))
        return (record * 2 for record in records[:-1])

    shuffle_dataset([plain], seed=5)
    shuffle_dataset([changed], change, seed=5)
    expected = [*published_data(tmp_path / "plain-train")]
    assert given_records == [expected]
    assert [*published_data(tmp_path / "changed-train")] == [record * 2 for record in expected[:-1]]
    assert not changed.exists()
    generate_files(cases(9), [changed.with_name("late-unshuffled")])
    with pytest.raises(IndexError):
        shuffle_dataset([changed.with_name("late-unshuffled")], lambda records: [records[9]])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["changed-train", "late-unshuffled", "plain-train"]


@pytest.mark.compiled
def test_vocabulary_of_a_folder(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    lines = [line.strip() for line in data_text("prose.txt")[:30_000].decode().split("\n")]
    text = "\n".join(lines) + "\n"
    (tmp_path / "inner.txt").write_text(text, encoding="utf-8")
    with tarfile.open(tmp_path / "texts.tgz", "w:gz") as archive:
        archive.add(tmp_path / "inner.txt", "folder/inner.txt")
    step = int(len(text.encode()) / 10_000 / 2) + 1
    chosen, left = [], 10_000
    for line in lines[step - 1 :: step]:
        if left > 0:
            chosen.append(line)
            left -= len(line)
    expected = bisect_subtokens(count(chosen * 2), 300, 1, 1000, RESERVED_TOKENS, 12)
    sources = [(str(tmp_path / "texts.tgz"), ["inner.txt", "folder/inner.txt"])]
    arguments: tuple[Any, ...] = (tmp_path, "vocab", 300, sources, 1e4, 12)
    built = subword.get_or_generate_vocab(tmp_path / "data", *arguments)
    assert list(built.all_subtoken_strings) == expected
    assert SubwordTextEncoder(tmp_path / "data" / "vocab").sha256 == built.sha256
    stored = tmp_path / "data" / "vocab"
    assert log.messages[0] == f"Generating vocab file: {stored}"
    before = sorted(tmp_path.rglob("*"))
    for place, name in ((None, "vocab"), (tmp_path / "data", None)):
        log.clear()
        assert subword.get_or_generate_vocab(place, tmp_path, name, *arguments[2:]).sha256 == built.sha256
        assert log.messages[0] == "Generating vocab file: None"
    assert sorted(tmp_path.rglob("*")) == before
    log.clear()
    again = subword.get_or_generate_vocab(tmp_path / "data", tmp_path, "vocab", 99, [("", ["missing"])])
    assert again.sha256 == built.sha256
    assert log.messages == [f"Found vocab file: {stored}"]
    assert not (tmp_path / "folder").exists()


def test_samples_of_two_files_are_encoded(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"low \r\n\n lower\nlowest")
    (tmp_path / "b").write_bytes(b"tief\n-\ntiefer\n")
    samples = list(subword.text2text_txt_iterator(tmp_path / "a", tmp_path / "b"))
    assert samples == [
        {"inputs": "low", "targets": "tief"},
        {"inputs": "", "targets": "-"},
        {"inputs": "lower", "targets": "tiefer"},  # the longer file has another line
    ]
    plain, other = subword.ByteTextEncoder(), subword.ByteTextEncoder(num_reserved_ids=10)
    given_samples = [{"inputs": "b", "targets": "c", "idx": [7]}, {"targets": ""}]
    encoded = subword.text2text_generate_encoded(given_samples[:1], plain, other, inputs_prefix="a", targets_prefix="x")
    assert list(encoded) == [{"inputs": [99, 100, 1], "targets": [130, 109, 1], "idx": [7]}]
    assert given_samples[0]["inputs"] == [99, 100, 1]
    assert list(subword.text2text_generate_encoded(given_samples[1:], plain, has_inputs=False)) == [{"targets": [1]}]


def cases(number: int) -> list[dict[str, list[int]]]:
    return [
        {"inputs": [k, 1], "targets": [2**40 + k] * (k % 3 + 1), **({"idx": [k]} if k % 4 == 3 else {})} for k in range(number)
    ]


@pytest.mark.compiled
@pytest.mark.parametrize(("most", "cycle"), [(None, 1), (0, 3), (7, 2), (1, 1)])
def test_cases_go_to_files_in_turn(tmp_path: Path, log: pytest.LogCaptureFixture, most: int | None, cycle: int) -> None:
    paths = [tmp_path / f"set-unshuffled-train-{number}" for number in range(3)]
    found = cases(20)
    generate_files([None, *found[:5], None, *found[5:]], list(map(str, paths)), most, cycle)
    kept = found[: most or None]
    for number, path in enumerate(paths):
        expected = [case for k, case in enumerate(kept) if k // cycle % 3 == number]
        assert path.read_bytes() == b"".join(frame_record(serialize_example(case)) for case in expected)
    assert log.messages == ["Generating case 0.", f"Generated {len(kept)} Examples"]


@pytest.mark.compiled
def test_files_are_shuffled_once(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    sources = [tmp_path / f"set-unshuffled-train-{number}" for number in range(2)]
    targets = [tmp_path / f"set-train-{number}" for number in range(2)]
    generate_files(cases(400), sources)
    before = [[*published_data(path)] for path in sources]
    log.clear()
    shuffle_dataset(sources, seed=3)
    assert log.messages == ["Shuffling data...", "Data shuffled."]
    assert sorted(tmp_path.iterdir()) == targets
    after = [[*published_data(path)] for path in targets]
    assert after != before
    assert [sorted(records) for records in after] == [sorted(records) for records in before]
    assert sorted(after[0]) != after[0]
    log.clear()
    generate_files(iter([{"inputs": []}]), sources)  # the shuffled files exist, and the cases are not read
    sources[0].write_bytes(b"")
    shuffle_dataset(sources)
    shuffle_dataset(targets)
    assert (
        log.messages
        == [f"Skipping generator because outputs files exists at {sources}"]
        + ["Skipping shuffle because output files exist"] * 2
    )
    assert sorted(tmp_path.iterdir()) == [*targets, sources[0]]


@pytest.mark.parametrize(
    "values", [[], [1, 2.5], [1, "a"], [1, 2**63], [1, [2]], [1.5, "2"], [1.5, 2**2000], ["a", b"b"], ["\ud800"], [[1]], [None]]
)
def test_cases_that_are_not_written(tmp_path: Path, values: list[Any]) -> None:
    for case in ({"inputs": values}, {"inputs": values, "floats": [0.5]}):
        with pytest.raises(CorpusError, match="the feature 'inputs'"):
            generate_files([{"inputs": [1]}, case], [tmp_path / "train"])
    with pytest.raises(CorpusError, match=r"the features are \{\}"):
        generate_files([{}], [tmp_path / "train"])
    assert not list(tmp_path.iterdir())


@pytest.mark.compiled
def test_kinds_of_values(tmp_path: Path) -> None:
    """The first value tells the kind; the records are those of protocol buffers."""
    mixed: list[dict[str, Any]] = [
        {"inputs": [7, 2**40, -1], "label": ["é", "b"], "weight": [0.5, 2, 1e300], "image": [b"\xff\x00", b""]},
        {"inputs": np.array([3, 4]), "x" * 300: map(float, "12")},
        {"targets": "ab"},
        {"targets": np.array([5], np.int32)},
    ]
    lists = [{name: list(values) for name, values in case.items()} for case in ({**one} for one in mixed[:1] + mixed[2:])]
    lists.insert(1, {"inputs": [3, 4], "x" * 300: [1.0, 2.0]})
    generate_files(mixed, [tmp_path / "train"])
    data = [*published_data(tmp_path / "train")]
    assert list(map(parse_example, data)) == [parse_example(serialize_example(case)) for case in lists]
    assert data[2:] == list(map(serialize_example, lists))[2:]
    assert parse_example(data[0])["weight"] == [0.5, 2, float("inf")]
    assert parse_example(data[0])["label"] == ["é".encode(), b"b"]


@pytest.mark.compiled
def test_tags_of_sgm_files_are_removed(tmp_path: Path) -> None:
    first = ['<srcset setid="x">', "<doc>", "<p>", '<seg id="1"> low &amp; high </seg>', '<seg id="2">b</seg>', "</p>", ""]
    second = ['<refset setid="x">', "<doc>", "<p>", '<seg id="1">tief</seg>', '<seg id="2"></seg>', "plain", "</p>"]
    for ending in ("sgm", "txt"):
        (tmp_path / f"a.{ending}").write_text("\n".join(first) + "\n", encoding="utf-8")
        (tmp_path / f"b.{ending}").write_text("\n".join(second) + "\n", encoding="utf-8")

    def samples(one: str, other: str, name: str) -> list[tuple[bytes, bytes]]:
        (tmp_path / f"{name}.toml").write_text(
            f'vocab_type = "character"\n[[dataset_splits]]\nsplit = "eval"\ninputs = "{one}"\ntargets = "{other}"\n'
        )
        report = bpejit.generate_data(tmp_path / f"{name}.toml", tmp_path / "data", engine="serial")
        examples = [parse_example(record) for path in report.paths for record in published_data(Path(path))]
        return sorted(tuple(bytes(i - 2 for i in one[key][:-1]) for key in ("inputs", "targets")) for one in examples)

    assert samples("a.sgm", "b.sgm", "tagged") == [(b"low &amp; high", b"tief")]
    plain = [(a.encode(), b.encode()) for a, b in zip(first, second, strict=True) if a]
    assert samples("a.txt", "b.txt", "plain") == samples("a.sgm", "b.txt", "mixed") == sorted(plain)
