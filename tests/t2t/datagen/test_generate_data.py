"""Tests of data sets: every kind of problem against plain Python, parts, and runs that are interrupted and resumed."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import small
from helpers import t2t_cases
from helpers.cli import snapshot
from helpers.datagen import (
    LABELS,
    PlainSubwords,
    pairs,
    plain_shards,
    records_of,
    sentences,
    write_lines,
    write_problem,
)
from helpers.killing import needs_fork, run_killed
from helpers.t2t import STORED, TEXTS, write_text

import bpejit
from bpejit.errors import CorpusError, OptionError, OutputError, TokenizerFormatError
from bpejit.storage.outputs import job_folder
from bpejit.subword import SubwordTextEncoder
from bpejit.t2t.datagen.problem_files import FileProblem
from bpejit.t2t.datagen.problems import (
    GenerationReport,
    Text2ClassProblem,
    Text2SelfProblem,
    Text2TextProblem,
    load_problem,
)
from bpejit.t2t.tfrecords import parse_example, read_records

SIZE = small(400, 150)
UNIT = {"unit_bytes": small(20_000, 1000)}
SPLITS: list[dict[str, Any]] = [{"split": "train", "shards": 3}, {"split": "eval"}, {"split": "test", "shards": 2}]
KINDS = ("self", "pairs", "tabbed", "class", "records")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    found = pairs()
    for number in range(3):
        some = found[number::3]
        write_lines(tmp_path / f"source{number}.txt", [source for source, _ in some])
        write_lines(tmp_path / f"target{number}.txt", [target for _, target in some])
        write_lines(tmp_path / f"pairs{number}.tsv", [f"{source}\t{target}" for source, target in some])
        write_lines(tmp_path / f"classes{number}.tsv", [f"{source}\t{label_of(source)}" for source, _ in some])
        write_lines(tmp_path / f"pairs{number}.jsonl", [json.dumps({"en": {"text": s}, "zh": t}) for s, t in some])
    return tmp_path


def label_of(text: str) -> str:
    return LABELS[len(text) > 80]


def problem_of(kind: str, **settings: Any) -> Path:
    """Write the problem of a kind."""
    inputs: dict[str, dict[str, str]] = {
        "self": {"targets": "source{}.txt"},
        "pairs": {"inputs": "source{}.txt", "targets": "target{}.txt"},
        "tabbed": {"tabbed": "pairs{}.tsv"},
        "class": {"tabbed": "classes{}.tsv"},
        "records": {"records": "pairs{}.jsonl", "inputs_field": "en.text", "targets_field": "zh"},
    }
    splits = [split | {key: value.format(number) for key, value in inputs[kind].items()} for number, split in enumerate(SPLITS)]
    known = {"self": {"kind": "text2self"}, "class": {"kind": "text2class", "class_labels": LABELS}}
    settings = {"name": kind, "approx_vocab_size": SIZE, **known.get(kind, {}), **settings}
    return write_problem(Path(f"{kind}.toml"), splits, **settings)


def plain_examples(kind: str, number: int, vocabulary: Path) -> list[dict[str, list[int]]]:
    """Return the examples of a split in plain Python."""
    encode = PlainSubwords(vocabulary).encode
    found = pairs()[number::3]
    if kind == "self":
        return [{"targets": encode(source)} for source, _ in found]
    if kind == "class":
        return [{"inputs": encode(source), "targets": [LABELS.index(label_of(source))]} for source, _ in found]
    return [{"inputs": encode(source), "targets": encode(target)} for source, target in found]


def generated(folder: str | Path) -> dict[str, bytes]:
    """Return the shards and the manifest of a data set."""
    return {name: data for name, data in snapshot(Path(folder)).items() if not name.startswith("vocab.")}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_equals_plain_python(work: Path, kind: str) -> None:
    """With one chunk for each split, even the order of the records is known."""
    report = bpejit.generate_data(str(problem_of(kind)), "data", seed=3)
    (vocabulary,) = report.vocabularies
    assert vocabulary.name == f"vocab.{kind}.{SIZE}.subwords"
    expected = []
    first_shard = n_ids = 0
    for number, split in enumerate(SPLITS):
        examples = plain_examples(kind, number, vocabulary)
        shards = split.get("shards", 1)
        expected += plain_shards(examples, shards, 3, number, first_shard)
        first_shard += shards
        n_ids += sum(len(ids) for example in examples for ids in example.values())
    assert [path.name for path in report.paths] == [
        *(f"{kind}-train-0000{shard}-of-00003" for shard in range(3)),
        f"{kind}-dev-00000-of-00001",
        *(f"{kind}-test-0000{shard}-of-00002" for shard in range(2)),
    ]
    assert [path.read_bytes() for path in report.paths] == expected
    assert (report.examples, report.ids, report.skipped.count) == (len(pairs()), n_ids, 0)
    manifest = json.loads((work / "data" / f"{kind}.manifest.json").read_bytes())
    assert manifest["examples"] == report.examples
    assert [entry["path"] for entry in manifest["outputs"]] == [path.name for path in report.paths]
    assert sum(entry["examples"] for entry in manifest["outputs"]) == report.examples
    assert [entry["bytes"] for entry in manifest["outputs"]] == list(map(len, expected))


def test_read_by_another_package(work: Path) -> None:
    reader = pytest.importorskip("tfrecord.reader")
    report = bpejit.generate_data("pairs.toml" if problem_of("pairs") else "", "data")
    for path in report.paths:
        read = [
            {name: ids.tolist() for name, ids in example.items()}
            for example in reader.tfrecord_loader(str(path), None, {"inputs": "int", "targets": "int"})
        ]
        assert read == [parse_example(record) for record in read_records(path)]
        assert read


@pytest.mark.parametrize("kind", ["pairs", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "pairs")])
def test_result_is_independent_of_the_division(work: Path, kind: str) -> None:
    problem = str(problem_of(kind, packed_length=64) if kind == "pairs" else problem_of(kind))
    report = bpejit.generate_data(problem, "data", **UNIT)
    assert report.units > 3
    expected = generated("data")
    runs: list[dict[str, Any]] = [{"engine": "threads", "workers": 2}, {"engine": "threads", "workers": 4}]
    for index, run in enumerate(runs):
        bpejit.generate_data(problem, f"run{index}", **UNIT, **run)
        assert generated(f"run{index}") == expected
    for part in (2, 0, 1):
        report = bpejit.generate_data(problem, "parts", **UNIT, shard=(part, 3))
    assert report.missing_parts == 0
    assert generated("parts") == expected


@pytest.mark.slow
def test_processes_give_the_same_result(work: Path) -> None:
    problem = str(problem_of("pairs"))
    bpejit.generate_data(problem, "data", **UNIT)
    bpejit.generate_data(problem, "processes", **UNIT, engine="processes", workers=2)
    assert generated("processes") == generated("data")


def test_plan(work: Path) -> None:
    problem = str(problem_of("pairs"))
    plan = bpejit.generate_data(problem, "data", **UNIT, dry_run=True)
    assert (plan.examples, plan.ids, plan.seconds) == (0, 0, 0.0)  # the vocabulary does not exist
    assert plan.new_vocabularies
    report = bpejit.generate_data(problem, "data", **UNIT)
    before = generated("data")
    plan = bpejit.generate_data(problem, "data", **UNIT, dry_run=True)
    assert (plan.units, plan.new_vocabularies, plan.paths) == (report.units, (), ())
    assert abs(plan.examples / report.examples - 1) < 0.25
    assert abs(plan.ids / report.ids - 1) < 0.25
    assert plan.seconds > 0
    assert generated("data") == before
    part = bpejit.generate_data(problem, "data", **UNIT, dry_run=True, shard="0/2")
    assert 0 < part.examples < plan.examples


def test_order_depends_on_the_seed(work: Path) -> None:
    problem = str(problem_of("self"))
    first = bpejit.generate_data(problem, "first", seed=1)
    second = bpejit.generate_data(problem, "second", seed=2)
    assert generated("first") != generated("second")
    train = slice(0, 3)
    assert records_of(first.paths[train]) == records_of(second.paths[train])


class _Stop:
    """A progress callback that interrupts a stage at its n-th call."""

    def __init__(self, calls: int, stage: str) -> None:
        self.left, self.stage = calls, stage

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        self.left -= stage == self.stage
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("stage", "calls"), [("encode", 0), ("encode", 2), ("encode", 5), ("shuffle", 0), ("shuffle", 3)])
def test_interrupted_and_resumed(work: Path, stage: str, calls: int) -> None:
    problem = str(problem_of("pairs"))
    bpejit.generate_data(problem, "data", **UNIT)
    bpejit.generate_data(problem, "again", **UNIT, dry_run=True)
    with pytest.raises(KeyboardInterrupt):
        bpejit.generate_data(problem, "again", **UNIT, progress=_Stop(calls, stage))
    assert not [name for name in generated("again") if "/" not in name]
    if calls or stage == "shuffle":
        with pytest.raises(OutputError, match=r"finished units?"):
            bpejit.generate_data(problem, "again", **UNIT)
        with pytest.raises(OutputError, match="seed"):
            bpejit.generate_data(problem, "again", **UNIT, seed=9, resume=True)
    report = bpejit.generate_data(problem, "again", **UNIT, resume=True)
    assert (report.kept_units > 0) == bool(calls or stage == "shuffle")
    assert generated("again") == generated("data")
    again = bpejit.generate_data(problem, "again", **UNIT, resume=True)
    assert (again.examples, again.kept_units) == (report.examples, report.units)
    with pytest.raises(OutputError, match="already exists"):
        bpejit.generate_data(problem, "again", **UNIT)
    bpejit.generate_data(problem, "again", **UNIT, overwrite=True)
    assert generated("again") == generated("data")


@needs_fork
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "stride"), [("pairs", 7), ("self", 29), ("tabbed", 31), ("class", 37), ("records", 41)])
def test_killed_and_resumed(work: Path, kind: str, stride: int) -> None:
    problem = str(problem_of(kind))
    bpejit.generate_data(problem, "data", **UNIT)
    expected = generated("data")
    folder = work / "again"

    def generate() -> None:
        bpejit.generate_data(problem, folder, **UNIT, engine="serial", resume=True)

    step, killed = 1, True
    while killed:
        killed = run_killed(generate, step, folder)
        shards = [path for path in folder.glob(f"{kind}-*") if path.is_file()]
        assert len(shards) == 6 or not (folder / f"{kind}.manifest.json").exists()
        generate()
        assert generated(folder) == expected
        for name in generated(folder):
            (folder / name).unlink()
        step += stride
    assert step > 50


def test_samples_divided_among_splits(work: Path) -> None:
    splits = [
        {"split": "train", "shards": 4, "inputs": ["source0.txt", "source1.txt"], "targets": ["target0.txt", "target1.txt"]}
    ]
    problem = write_problem(work / "divided.toml", [*splits, {"split": "eval"}], approx_vocab_size=SIZE)
    report = bpejit.generate_data(problem, "data", **UNIT)
    counts = [sum(1 for _ in read_records(path)) for path in report.paths]
    assert [path.name for path in report.paths][3:] == ["divided-train-00003-of-00004", "divided-dev-00000-of-00001"]
    assert sum(counts) == report.examples == len(pairs()[0::3]) + len(pairs()[1::3])
    assert max(counts) - min(counts) <= report.units


def _segment(example: dict[str, list[int]], name: str, number: int) -> tuple[int, ...]:
    """Return the ids of an original example."""
    return tuple(i for i, part in zip(example[name], example[f"{name}_segmentation"], strict=True) if part == number)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jsonl", "parquet"])
@pytest.mark.parametrize("packed_length", [None, 64])
def test_formats_have_the_same_examples(work: Path, name: str, packed_length: int | None) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    settings = {} if packed_length is None else {"packed_length": packed_length}
    report = bpejit.generate_data(problem_of("pairs", **settings), "data", seed=4)
    other = bpejit.generate_data(problem_of("pairs", **settings), "other", seed=4, format=name, **UNIT | {"workers": 2})
    assert [path.name for path in other.paths] == [f"{path.name}.{name}" for path in report.paths]
    again = bpejit.generate_data(problem_of("pairs", **settings), "again", seed=4, format=name)
    for path, same in zip(report.paths, again.paths, strict=True):
        if name == "jsonl":
            found = [json.loads(line) for line in same.read_text(encoding="ascii").splitlines()]
        else:
            found = parquet.read_table(same).to_pylist()
        assert found == [parse_example(record) for record in read_records(path)]
    with pytest.raises(OptionError, match="record format"):
        bpejit.generate_data("pairs.toml", "data", format="text")


def test_packed(work: Path) -> None:
    report = bpejit.generate_data(problem_of("pairs", packed_length=128, packed_spacing=1), "data")
    encode = PlainSubwords(report.vocabularies[0]).encode
    expected = sorted((tuple(encode(source)), tuple(encode(target))) for source, target in pairs())
    found = []
    for record in records_of(report.paths):
        example = parse_example(record)
        assert set(example) == {
            f"{name}{kind}" for name in ("inputs", "targets") for kind in ("", "_segmentation", "_position")
        }
        numbers = range(1, max(example["targets_segmentation"]) + 1)
        found.extend(tuple(_segment(example, name, number) for name in ("inputs", "targets")) for number in numbers)
    assert sorted(found) == expected
    assert len(records_of(report.paths)) == report.examples < len(expected)


def test_forms_of_inputs_give_the_same_examples(work: Path) -> None:
    expected = records_of(bpejit.generate_data(problem_of("pairs"), "data").paths[:3])
    (work / "source.gz").write_bytes(gzip.compress((work / "source0.txt").read_bytes()))
    (work / "pairs0.jsonl.gz").write_bytes(gzip.compress((work / "pairs0.jsonl").read_bytes()))
    with tarfile.open(work / "pairs.tgz", "w:gz") as archive:
        for name in ("source0.txt", "target0.txt", "pairs0.tsv"):
            archive.add(work / name, f"inner/{name}")
    forms: list[dict[str, Any]] = [
        {"inputs": "source.gz", "targets": "target0.txt"},
        {"records": "pairs0.jsonl.gz", "inputs_field": "en.text", "targets_field": "zh"},
        {"archive": "pairs.tgz", "inputs": "inner/source0.txt", "targets": "inner/target0.txt"},
        {"archive": "pairs.tgz", "tabbed": "inner/pairs0.tsv"},
    ]
    vocabulary = str(work / "data" / f"vocab.pairs.{SIZE}.subwords")
    for index, form in enumerate(forms):
        split = {"split": "train", "shards": 1, **form}
        problem = write_problem(work / f"form{index}.toml", [split], vocab_filename=vocabulary)
        assert records_of(bpejit.generate_data(problem, "data").paths) == expected, form


@pytest.mark.parametrize("shared", [True, False])
def test_forms_of_inputs_give_the_same_vocabulary(work: Path, shared: bool) -> None:
    """The sample is spread evenly over inputs of all forms, also over compressed ones."""
    for name in ("source", "target"):
        (work / f"{name}.gz").write_bytes(gzip.compress((work / f"{name}0.txt").read_bytes()))
    forms: list[dict[str, Any]] = [
        {"inputs": "source0.txt", "targets": "target0.txt"},
        {"inputs": "source.gz", "targets": "target.gz"},
        {"records": "pairs0.jsonl", "inputs_field": "en.text", "targets_field": "zh"},
        {"tabbed": "pairs0.tsv"},
    ]
    written = []
    for index, form in enumerate(forms):
        split = [{"split": "train", "shards": 1, **form}]
        settings = {"approx_vocab_size": SIZE, "file_byte_budget": small(4000, 1000), "has_shared_vocab": shared}
        report = bpejit.generate_data(write_problem(work / f"form{index}.toml", split, **settings), "data")
        written.append([path.read_bytes() for path in report.vocabularies])
    assert len(written[0]) == (1 if shared else 2)
    assert written == [written[0]] * len(forms)


def test_existing_vocabulary_is_used(work: Path) -> None:
    problem = problem_of("pairs", has_shared_vocab=False)
    report = bpejit.generate_data(problem, "data")
    assert [path.name for path in report.vocabularies] == [
        f"vocab.pairs-inputs.{SIZE}.subwords",
        f"vocab.pairs-targets.{SIZE}.subwords",
    ]
    sources, targets = (SubwordTextEncoder(path) for path in report.vocabularies)
    example = parse_example(next(iter(read_records(report.paths[3]))))
    assert (sources.decode(example["inputs"][:-1]), targets.decode(example["targets"][:-1])) in pairs()
    times = [path.stat().st_mtime_ns for path in report.vocabularies]
    bpejit.generate_data(problem, "data", overwrite=True)
    assert [path.stat().st_mtime_ns for path in report.vocabularies] == times


@pytest.mark.parametrize("budget", [1000, 3000, 10**9])
def test_vocabulary_equals_the_published_sample(work: Path, budget: int) -> None:
    """The vocabulary is that of `generate_lines_for_vocab` and `build_from_generator`."""
    (path,) = bpejit.generate_data(problem_of("pairs", file_byte_budget=budget), "data").vocabularies

    def lines() -> Iterator[str]:
        for name in ("source0.txt", "target0.txt"):
            left, counter = budget, 0
            skipped = int((work / name).stat().st_size / budget / 2)
            for line in (work / name).read_text(encoding="utf-8").split("\n")[:-1]:
                if counter < skipped:
                    counter += 1
                    continue
                if left <= 0:
                    break
                left -= len(line.strip())
                counter = 0
                yield line.strip()

    expected = SubwordTextEncoder.build_from_generator(lines(), SIZE, max_subtoken_length=200)
    assert SubwordTextEncoder(path).all_subtoken_strings == expected.all_subtoken_strings


def test_bpe(work: Path) -> None:
    report = bpejit.generate_data(problem_of("pairs", vocab_type="bpe", approx_vocab_size=500), "data")
    tokenizer = bpejit.load(report.vocabularies[0])
    assert tokenizer.vocab_size == 500
    assert {token: tokenizer.special_tokens[token] for token in ("<pad>", "<EOS>")} == {"<pad>": 0, "<EOS>": 1}
    expected = sorted(tuple((*tokenizer.encode(text), 1) for text in pair) for pair in pairs())
    examples = map(parse_example, records_of(report.paths))
    assert sorted((tuple(one["inputs"]), tuple(one["targets"])) for one in examples) == expected


def test_characters_and_tokens(work: Path) -> None:
    report = bpejit.generate_data(problem_of("self", vocab_type="character"), "data")
    expected = sorted([*(byte + 2 for byte in source.encode()), 1] for source, _ in pairs())
    assert sorted(parse_example(record)["targets"] for record in records_of(report.paths)) == expected
    words = sorted({word for source, _ in pairs() for word in source.split()})[::2]
    write_lines(work / "words.txt", ["<pad>", "<EOS>", "<unk>", *words])
    problem = problem_of("self", name="words", vocab_type="tokens", vocab_filename=str(work / "words.txt"), oov_token="<unk>")
    report = bpejit.generate_data(problem, "data")
    known = {word: index for index, word in enumerate(words, start=3)}
    expected = sorted([*(known.get(word, 2) for word in source.split()), 1] for source, _ in pairs())
    assert sorted(parse_example(record)["targets"] for record in records_of(report.paths)) == expected


class Reversed(Text2TextProblem):
    """Pairs of a text and its reverse."""

    approx_vocab_size = SIZE
    dataset_splits = SPLITS  # type: ignore[assignment]
    is_generate_per_split = True
    packed_length: int | None = None

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        number = ["train", "eval", "test"].index(dataset_split)
        for index, (source, _) in enumerate(pairs()[number::3]):
            yield {"inputs": source, "targets": source[::-1], "idx": [index]}


class Unlabeled(Text2ClassProblem):
    """Texts with a label."""

    approx_vocab_size = SIZE
    is_generate_per_split = False
    num_classes = 2

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        assert dataset_split == "train"
        for index, (source, _) in enumerate(pairs()):
            yield {"inputs": source, "label": index % 2 if index < 50 else 2}


class Lines(Text2SelfProblem):
    """Single texts, one of them with a line break."""

    approx_vocab_size = SIZE
    is_generate_per_split = False
    dataset_splits = [{"split": "train", "shards": 1}]  # type: ignore[assignment] # noqa: RUF012

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        yield from ({"targets": source} for source, _ in pairs(20))
        yield {"targets": "a text of\ntwo lines "}


def test_python_classes(work: Path) -> None:
    report = bpejit.generate_data(Reversed(), "data", seed=1)
    encode = PlainSubwords(report.vocabularies[0]).encode
    expected = []
    for number, (first_shard, shards) in enumerate(((0, 3), (3, 1), (4, 2))):
        examples = [
            {"inputs": encode(source), "targets": encode(source[::-1]), "idx": [index]}
            for index, (source, _) in enumerate(pairs()[number::3])
        ]
        expected += plain_shards(examples, shards, 1, number, first_shard)
    assert [path.read_bytes() for path in report.paths] == expected
    with pytest.raises(CorpusError, match=r"unlabeled, sample 51: the class label 2 is not in the list"):
        bpejit.generate_data(Unlabeled(), "data")
    report = bpejit.generate_data(Lines(), "data")
    encoder = SubwordTextEncoder(report.vocabularies[0])
    found = sorted(encoder.decode(parse_example(record)["targets"][:-1]) for record in records_of(report.paths))
    assert found == sorted([*(source for source, _ in pairs(20)), "a text of\ntwo lines "])


def test_method_of_a_problem(work: Path) -> None:
    Lines().generate_data("data", tmp_dir="tmp")
    bpejit.generate_data(Lines(), "expected")
    assert snapshot(Path("data")) == snapshot(Path("expected"))
    load_problem(problem_of("pairs")).generate_data("files")
    assert (work / "files" / "pairs.manifest.json").exists()
    with pytest.raises(OptionError, match="task_id is 0; expected -1: divide the work with"):
        Lines().generate_data("data", task_id=0)


def test_class_named_on_the_command_line(work: Path) -> None:
    (work / "own.py").write_text(
        "from bpejit.t2t.datagen.problems import Text2SelfProblem\n\n"
        "class OwnProblem(Text2SelfProblem):\n    pass\n\nclass Other:\n    pass\n",
        encoding="utf-8",
    )
    assert load_problem(f"{work}/own.py:OwnProblem").name == "own_problem"
    with pytest.raises(OptionError, match="expected a subclass"):
        load_problem(f"{work}/own.py:Other")
    with pytest.raises(OptionError, match="cannot create the problem"):
        load_problem("own_missing:Other")


def test_side_that_ends_early(work: Path) -> None:
    lines = sentences("prose", 10)
    write_lines(work / "target0.txt", lines)
    match = r"`.*target0.txt` ends after line 10, and `.*source0.txt` has"
    with pytest.raises(CorpusError, match=match):
        bpejit.generate_data(problem_of("pairs"), "data")
    (work / "target0.txt").write_bytes(gzip.compress((work / "target0.txt").read_bytes()))
    with pytest.raises(CorpusError, match=r"`.*target0.txt` ends after line 10, and `.*source0.txt` has"):
        bpejit.generate_data(problem_of("pairs", file_byte_budget=100), "data")
    assert not job_folder(work / "data" / "pairs").exists()


def test_malformed_samples_are_skipped(work: Path) -> None:
    good = (work / "pairs0.tsv").read_bytes().split(b"\n")
    bad = [b"one field", b"", b"a\tb\tc", b" \tempty inputs"]
    (work / "pairs0.tsv").write_bytes(b"\n".join([*good[:10], *bad, *good[10:]]))
    report = bpejit.generate_data(problem_of("tabbed"), "data", **UNIT)
    assert report.skipped.count == 4
    assert [(record.place, record.reason) for record in report.skipped.first] == [
        ("line 11", "it has 1 field separated by tabs, not 2"),
        ("line 12", "it is empty"),
        ("line 13", "it has 3 fields separated by tabs, not 2"),
        ("line 14", "its inputs are empty"),
    ]
    assert report.examples == len(pairs())
    with pytest.raises(CorpusError, match=r"pairs0.tsv`, line 11: it has 1 field"):
        bpejit.generate_data(problem_of("tabbed"), "data", **UNIT, overwrite=True, strict=True)
    write_lines(work / "source0.txt", ["", *sentences("prose", 3)])
    write_lines(work / "target0.txt", ["a", *sentences("prose", 3)])
    with pytest.raises(CorpusError, match=r"source0.txt`, line 1: its inputs are empty"):
        bpejit.generate_data(problem_of("pairs"), "data", strict=True)


def test_label_outside_the_list(work: Path) -> None:
    with (work / "classes0.tsv").open("ab") as file:
        file.write(b"a text\tmedium\n")
    n_lines = len(pairs()[0::3]) + 1
    with pytest.raises(CorpusError, match=rf"classes0.tsv`, line {n_lines}: the class label 'medium' is not in the list"):
        bpejit.generate_data(problem_of("class"), "data", **UNIT)


def test_missing_reserved_token(work: Path) -> None:
    write_lines(work / "bad.subwords", ["'<pad>_'", "'a_'", "'b'"])
    problem = problem_of("pairs", vocab_filename=str(work / "bad.subwords"))
    with pytest.raises(TokenizerFormatError, match="lacks the reserved token '<EOS>': id 1 is 'a_'"):
        bpejit.generate_data(problem, "data")
    bpejit.train("source0.txt", vocab_size=300).save(work / "plain")
    problem = problem_of("pairs", vocab_type="bpe", vocab_filename=str(work / "plain"))
    with pytest.raises(TokenizerFormatError, match="lacks the reserved token '<pad>'"):
        bpejit.generate_data(problem, "data")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"kind": "text2image"}, "kind is 'text2image'; expected text2text"),
        ({"kinds": "text2self"}, "it has the key `kinds`"),
        ({"approx_vocab_size": "8k"}, "approx_vocab_size is '8k'; expected a whole number"),
        ({"packed_length": 0}, "packed_length is 0; expected 1 or more"),
        ({"kind": "text2class", "dataset_splits": [{"tabbed": "a"}]}, "class_labels is missing; expected a list of labels"),
        ({"kind": "text2class", "dataset_splits": [{"tabbed": "a"}], "class_labels": ["a", "a"]}, "class_labels has 'a' twice"),
        ({"vocab_type": "words"}, "vocab_type is 'words'"),
        ({"dataset_splits": []}, "there are no splits"),
    ],
)
def test_errors_of_problems(work: Path, change: dict[str, Any], match: str) -> None:
    settings = {"dataset_splits": [{"split": "train", "inputs": "a", "targets": "b"}]} | change
    with pytest.raises(OptionError, match=match):
        getattr(FileProblem(settings), "class_labels", repr)("")


def test_files_of_a_problem_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_bytes(b"\xef\xbb\xbfneg\r\npos\r\n")
    (tmp_path / "p.toml").write_bytes(
        b'\xef\xbb\xbfkind = "text2class"\nclass_labels = "labels.txt"\n[[dataset_splits]]\nsplit = "train"\ntabbed = "a"\n'
    )
    assert load_problem(tmp_path / "p.toml").class_labels("") == ["neg", "pos"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("splits", "match"),
    [
        ([{"split": "valid"}], "split is 'valid'"),
        ([{"split": "train"}], "the split train has no inputs"),
        ([{"split": "train", "inputs": "a"}], "expected `inputs` and `targets`, or `tabbed`, or `records`"),
        ([{"split": "train", "tabbed": "a"}, {"split": "eval"}, {"split": "test", "tabbed": "a"}], "the split eval has no"),
        ([{"split": "train", "tabbed": "a"}, {"split": "train", "tabbed": "a"}], "listed twice"),
        ([{"split": "train", "tabbed": "a", "shards": 0}], "shards is 0"),
        (
            [{"tabbed": "a", "inputs_field": "b"}],
            "it has `inputs_field`; expected `inputs_field` and `targets_field`, together",
        ),
        ([{"records": "a", "label_field": "b"}], "it has `label_field`"),
    ],
)
def test_errors_of_splits(splits: list[dict[str, Any]], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        FileProblem({"dataset_splits": splits})


@pytest.mark.parametrize(
    ("form", "match"),
    [
        ({"tabbed": "pairs0.jsonl"}, "has the format jsonl; expected lines with tabs for `tabbed`: name it in `records`"),
        ({"records": "pairs0.tsv"}, "has the format text; expected JSON lines for `records`: name it in `tabbed`"),
        (
            {"records": "pairs0.jsonl"},
            r"all of the \d+ samples were skipped; the first is .*, line 1: it has no field `inputs`",
        ),
        (
            {"inputs": "pairs0.jsonl", "targets": "target0.txt"},
            "has the format jsonl; expected lines of text for the key of a feature: name it in `records`",
        ),
        ({"archive": "none.tgz", "inputs": "a", "targets": "b"}, "there is no file `.*none.tgz`"),
        ({"inputs": ["source0.txt", "source1.txt"], "targets": "target0.txt"}, "2 of `inputs`, 1 of `targets`"),
        (
            {"tabbed": "one.tsv"},
            "all of the 2 samples were skipped; .*one.tsv`, line 1: it has 1 field separated by tabs, not 2",
        ),
        (
            {"inputs": "source.gz", "targets": "target0.txt"},
            r"`.*source.gz` ends after line 3, and `.*target0.txt` has \d+ of them",
        ),
    ],
)
def test_errors_of_inputs(work: Path, form: dict[str, Any], match: str) -> None:
    pytest.importorskip("fsspec")
    write_lines(work / "one.tsv", ["one field"] * 2)
    (work / "source.gz").write_bytes(gzip.compress(b"a\nb\nc\n"))
    problem = write_problem(work / "wrong.toml", [{"split": "train", **form}], approx_vocab_size=SIZE)
    with pytest.raises(CorpusError, match=match):
        bpejit.generate_data(problem, "data")
    assert not (work / "data").exists()


class Given(Text2TextProblem):
    """Samples that are given."""

    approx_vocab_size = SIZE
    is_generate_per_split = False

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        for sample in self.samples:
            if isinstance(sample, Exception):
                raise sample
            yield sample


@pytest.mark.parametrize("vocab_type", ["subwords", "character"])
@pytest.mark.parametrize(
    ("sample", "match"),
    [
        ({"inputs": "a b c", "targets": 3}, "problem given, sample 2: targets is 3; expected a text"),
        ({"inputs": "a"}, "sample 2: it has no targets; expected a dict with the texts 'inputs', 'targets'"),
        (("a", "b"), r"sample 2: it is \('a', 'b'\); expected a dict"),
        (ValueError("own"), "the problem given failed to generate its samples: ValueError: own; .* correct `generate_samples`"),
    ],
)
def test_errors_of_samples(work: Path, vocab_type: str, sample: Any, match: str) -> None:
    problem = Given([{"inputs": "a b c", "targets": "d e f"}, sample])
    type(problem).vocab_type = vocab_type  # type: ignore[assignment, method-assign]
    with pytest.raises(CorpusError, match=match):
        bpejit.generate_data(problem, "data")
    assert not (work / "data").exists()


@needs_fork
@pytest.mark.slow
def test_vocabulary_is_built_once(work: Path) -> None:
    """Parts that begin at the same time wait for the one that builds the vocabulary."""
    problem = str(problem_of("pairs"))
    bpejit.generate_data(problem, "data")
    children = []
    for part in range(3):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                bpejit.generate_data(problem, "parts", shard=(part, 3), engine="serial")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    assert snapshot(Path("parts")) == snapshot(Path("data"))


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    ("case", "size", "budget"), [("sample", 300, 10_000), pytest.param("file", 500, 10**12, marks=pytest.mark.slow)]
)
def test_vocabulary_files_equal_those_of_tensor2tensor(work: Path, name: str, case: str, size: int, budget: int) -> None:
    """The stored hashes are those of files that Tensor2Tensor wrote; the languages need optional data."""
    write_text(name, work)
    problem = write_problem(
        *(work / "language.toml", [{"split": "train", "shards": 1, "targets": f"{name}.txt"}]),
        kind="text2self",
        approx_vocab_size=size,
        file_byte_budget=budget,
        max_subtoken_length=10**9,  # the stored files were written without a bound
    )
    (path,) = bpejit.generate_data(problem, "data").vocabularies
    stored = json.loads(STORED.read_text(encoding="utf-8"))[name]
    assert t2t_cases.sha256(path.read_bytes()) == stored[case]["quotes True"][0]


@pytest.mark.parametrize("form", ["tfrecord", "jsonl"])
def test_parts_are_combined(work: Path, form: str) -> None:
    """The process that joins the parts is interrupted."""
    problem = str(problem_of("pairs"))
    whole = bpejit.generate_data(problem, "data", **UNIT, format=form)
    with pytest.raises(OutputError, match=r"there are no parts of `parts/pairs`.* FOLDER/NAME"):
        bpejit.combine("parts/pairs")
    bpejit.generate_data(problem, "parts", **UNIT, format=form, shard=(0, 3), max_memory=1 << 20)
    with pytest.raises(OutputError, match=r'2 of the 3 parts of `parts/pairs` are not complete: 1, 2; .*`shard="I/3"`'):
        bpejit.combine("parts/pairs")
    bpejit.generate_data(problem, "parts", **UNIT, format=form, shard=(1, 3))
    with pytest.raises(KeyboardInterrupt):
        bpejit.generate_data(problem, "parts", **UNIT, format=form, shard=(2, 3), progress=_Stop(2, "shuffle"))
    assert not [name for name in generated("parts") if "/" not in name]
    found = bpejit.combine("parts/pairs")
    assert isinstance(found, GenerationReport)
    assert generated("parts") == generated("data")
    assert (found.examples, found.ids, found.bytes) == (whole.examples, whole.ids, whole.bytes)
    assert [path.name for path in found.paths] == [path.name for path in whole.paths]
    again = bpejit.combine("parts/pairs")
    assert isinstance(again, GenerationReport)
    assert (again.examples, again.ids, again.paths) == (found.examples, found.ids, found.paths)
    found.paths[0].unlink()
    with pytest.raises(OutputError, match="there are no parts"):
        bpejit.combine("parts/pairs")


def test_combining_replaces_files_only_with_permission(work: Path) -> None:
    problem = str(problem_of("pairs"))
    bpejit.generate_data(problem, "data", seed=1)
    (work / "parts").mkdir()
    with pytest.raises(KeyboardInterrupt):
        bpejit.generate_data(problem, "parts", seed=1, shard=(0, 1), progress=_Stop(0, "shuffle"))
    name = "pairs-train-00001-of-00003"
    (work / "parts" / name).write_bytes(b"something else")
    with pytest.raises(OutputError, match="already exists"):
        bpejit.combine("parts/pairs")
    assert (work / "parts" / name).read_bytes() == b"something else"
    bpejit.combine("parts/pairs", overwrite=True)
    assert generated("parts") == generated("data")


@pytest.mark.parametrize("existing", [False, True])
def test_errors_of_inputs_leave_nothing(work: Path, existing: bool) -> None:
    """No vocabulary is built before both sides are compared, and before the outputs are checked."""
    problem = problem_of("pairs")
    if existing:
        (work / "out" / "data").mkdir(parents=True)
        (work / "out" / "data" / "pairs-train-00000-of-00003").write_bytes(b"kept")
        with pytest.raises(OutputError, match="already exists"):
            bpejit.generate_data(problem, "out/data")
        assert snapshot(Path("out")) == {"data/pairs-train-00000-of-00003": b"kept"}
    write_lines(work / "target1.txt", [target for _, target in pairs()[:5]])
    with pytest.raises(CorpusError, match="ends after line 5"):
        bpejit.generate_data(problem, "out/data", overwrite=existing)
    write_lines(work / "source0.txt", [])
    write_lines(work / "target0.txt", [])
    write_lines(work / "source1.txt", [source for source, _ in pairs()[:5]])
    with pytest.raises(CorpusError, match="sample for the vocabulary"):
        bpejit.generate_data(problem, "out/data", overwrite=existing)
    assert not existing or snapshot(Path("out")) == {"data/pairs-train-00000-of-00003": b"kept"}
    assert (work / "out").exists() == existing
