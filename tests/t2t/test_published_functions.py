"""The published functions of Tensor2Tensor that read files, build vocabularies and write examples, against plain Python."""

from __future__ import annotations

import logging
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

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
def test_vocabulary_of_a_folder(tmp_path: Path) -> None:
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
    again = subword.get_or_generate_vocab(tmp_path / "data", tmp_path, "vocab", 99, [("", ["missing"])])
    assert again.sha256 == built.sha256
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


@pytest.mark.parametrize("values", [[], [1.5], ["text"], [[1]]])
def test_cases_that_are_not_written(tmp_path: Path, values: object) -> None:
    with pytest.raises(CorpusError, match="the feature 'inputs'"):
        generate_files([{"inputs": [1]}, {"inputs": values}], [tmp_path / "train"])
    assert not list(tmp_path.iterdir())


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
