"""The benchmarks run, refuse what is not equal, and wrote the tables that stand in the README."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from conftest import DATA, ROOT, data_text, read_shared, small

sys.path.insert(0, str(ROOT))
from benchmarks.compare import __main__ as command
from benchmarks.compare import corpora, processes, report, results, vocabularies, work_encode, work_train
from benchmarks.compare.tools import TOOLS, get_tool

TOY_BYTES = 40_000


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> tuple[corpora.Corpus, vocabularies.Vocabulary]:
    folder = tmp_path_factory.mktemp("toy")
    corpus = corpora.Corpora(folder, limit=TOY_BYTES).get("prose")
    vocabulary = vocabularies.Vocabularies(folder).get("trained", corpus=corpus.path, vocab_size=600)
    return corpus, vocabulary


# ---- every script once


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["bench_split.py", "{text}", "--rounds", "1", "--pattern", "gpt2"], "gpt2"),
        (["bench_encoding.py", "--file", "{text}", "--bytes", "20000", "--vocab-size", "300", "--runs", "1"], "| decode |"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_script_runs(arguments: list[str], expected: str) -> None:
    named = [argument.format(text=DATA / "cjk.txt") for argument in arguments[1:]]
    assert expected in run([str(ROOT / "benchmarks" / arguments[0]), *named]).stdout


@pytest.mark.compiled
@pytest.mark.parametrize("work", command.WORKS)
def test_work_runs(work: str, tmp_path: Path) -> None:
    toy_options = ["--quick", "--limit", str(TOY_BYTES), "--corpora", "prose", "--vocabularies", "trained"]
    sizes = ["--vocab-size", "500", "--file-bytes", "100000", "--long-sizes", "1000", "--baseline-bytes", "10000"]
    growth = ["--baseline-merges", "10", "--scaling-sizes", "10000,20000", "--scaling-vocabularies", "300"]
    arguments = ["--tools", "bpejit,tiktoken", "--work", work, "--results", str(tmp_path)]
    run(["-m", "benchmarks.compare", *toy_options, *sizes, *growth, *arguments])

    (file,) = tmp_path.glob("*.jsonl")
    records = results.read(file)
    measured = report.Measured(records)
    ours = [result for result in measured.of(work) if result["tool"] == "bpejit"]
    assert ours
    assert all(result["metrics"] and result.get("equal", True) is True for result in ours)
    # neither folders nor the name of this machine
    assert str(tmp_path) not in file.read_text()
    assert os.uname().nodename not in json.dumps(measured.last["machine"])
    assert report.BLOCKS[work](measured).count("\n|") >= 2


@pytest.mark.compiled
@pytest.mark.parametrize("name", [name for name in TOOLS if name != "bpejit"])
def test_tool_takes_part(name: str, toy: tuple[corpora.Corpus, vocabularies.Vocabulary], tmp_path: Path) -> None:
    tool = get_tool(name)
    try:
        version(tool.package)
    except PackageNotFoundError:
        pytest.skip(f"{tool.package} is not installed: pip install -e '.[bench]'")
    corpus, vocabulary = toy
    assert tool.trains or tool.encodes
    if tool.trains:
        learned = []
        for one in (name, "bpejit"):
            saved = tmp_path / f"{one}.json"
            params = {"tool": one, "path": str(corpus.path), "vocab_size": 600, "workers": 1, "rule": tool.tie_rule or "hf"}
            processes.run_job("train", {**params, "save": str(saved)}, environment={"RAYON_NUM_THREADS": "1"}, timeout=100)
            learned.append(json.loads(saved.read_text()))
        if tool.tie_rule:
            assert work_train.compare(*learned) is True
    if tool.encodes:
        params = {"vocabulary": vocabulary.params(), "path": str(corpus.path), "n_bytes": corpus.n_bytes, "later_passes": 1}
        found = [
            processes.run_job("encode", {**params, "tool": one}, environment=work_encode.ONE_THREAD, timeout=100)
            for one in (name, "bpejit")
        ]
        if "cannot" in found[0]:
            assert name == "quicktok"  # it has no vocabularies but its own
        else:
            assert found[0]["sha256"] == found[1]["sha256"]


# ---- the parts


def test_merges_are_derived_from_ranks() -> None:
    letters = {bytes([byte]): byte for byte in range(256)}
    ranks = letters | {b"ab": 256, b"bc": 257, b"abc": 258, b"abbc": 259, b"xyz": 260}
    merges, unreachable = vocabularies.merges_from_ranks(ranks)
    # abc is ab + c: the lower rank goes first
    assert merges == [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"ab", b"bc")]
    assert unreachable == [b"xyz"]


@pytest.mark.parametrize("name", ["r50k_base", "cl100k_base"])
def test_derived_merges_of_published_vocabularies(name: str) -> None:
    ranks = vocabularies.parse_ranks(read_shared(f"vocabs/{name}.tiktoken"))
    merges, unreachable = vocabularies.merges_from_ranks(ranks)
    assert not unreachable
    assert len(merges) == len(ranks) - 256
    if name == "r50k_base":
        published = read_shared("cs336/gpt2_merges.txt").decode().splitlines()
        from bpejit.normalization.byte_characters import bytes_to_text

        assert [f"{bytes_to_text(left)} {bytes_to_text(right)}" for left, right in merges] == [
            line for line in published if line and not line.startswith("#version")
        ]


def test_texts_are_cut_at_documents(tmp_path: Path) -> None:
    text = data_text("prose.txt")[: small(300_000, 100_000)]
    blocks = list(corpora.blocks_of(text))
    assert b"".join(blocks) == text
    assert all(block.endswith((b"<|endoftext|>", b"\n")) for block in blocks[:-1])
    assert corpora.cut("aé".encode(), 2) == b"a"
    made = corpora.Corpora(tmp_path, {"mine": DATA / "cjk.txt"})
    short, long = made.mixed([10_000, 600_000])
    assert long.read().startswith(short.read())
    assert "repeated" in long.made
    assert "repeated" not in short.made


def test_documents_are_sorted_by_script() -> None:
    assert corpora.script_of("吾輩は猫である。名前はまだ無い。") == "japanese"
    assert corpora.script_of("床前明月光,疑是地上霜。") == "chinese"
    assert corpora.script_of("plain words") is None


def test_command_is_shown_without_folders() -> None:
    named = ["--corpus", "mine=/data/me/text.txt", "--vocabulary", "g=/data/v.json,/data/m", "--results", "/data/out"]
    shown = command.neutral_command(["--work", "train", *named])
    assert shown == "python -m benchmarks.compare --work train --corpus mine=text.txt --vocabulary g=v.json,m --results out"


def test_difference_of_merges_is_named() -> None:
    ours = {"tokens": ["6162", "6163"], "merges": [["61", "62"], ["61", "63"]]}
    assert work_train.compare({"tokens": ["6162", "6163"], "merges": None}, ours) is True
    assert "number 2" in str(work_train.compare({"tokens": ["6162", "6164"], "merges": None}, ours))
    assert "1 merges" in str(work_train.compare({"tokens": ["6162"], "merges": [["61", "62"]]}, ours))


def result(run: str, tool: str, seconds: float, corpus: str = "prose") -> results.Record:
    metrics = {"seconds": results.summary([seconds]), "peak_mb": results.summary([10 * seconds])}
    metrics["prepare_seconds"] = results.summary([0.5])
    case = {"corpus": {"name": corpus, "bytes": 10, "sha256": "0", "made": "tests/data"}, "vocab_size": 500}
    more = {"equal": True, "tie_rule": "hf", "threads": 2, "form": "file to merges", "version": "1"}
    return {"record": "result", "run": run, "work": "train", "case": case, "tool": tool, "metrics": metrics, **more}


def run_record(name: str) -> results.Record:
    machine = {"cpu": "CPU", "cores": 2, "memory_gb": 8, "system": "Linux", "python": "3.12"}
    cannot: dict[str, dict[str, str]] = {"train": {}, "encode": {}}
    more = {"commit": "abc", "command": "python", "versions": {"bpejit": "1"}, "cannot": cannot, "missing": []}
    return {"record": "run", "run": name, "machine": machine, **more}


def test_results_of_a_case_replace_the_older_ones(tmp_path: Path) -> None:
    file = tmp_path / "machine.jsonl"
    results.write(file, run_record("1"), [result("1", "bpejit", 2.0), result("1", "rustbpe", 8.0)])
    results.write(file, run_record("2"), [result("2", "bpejit", 1.0)])
    assert [(record["run"], record.get("tool")) for record in results.read(file)] == [("2", None), ("2", "bpejit")]
    results.write(file, run_record("3"), [result("3", "bpejit", 1.0, corpus="cjk")])
    assert [record["run"] for record in results.read(file)] == ["2", "3", "2", "3"]


def test_tables_are_rendered_between_the_markers() -> None:
    measured = report.Measured([run_record("2026-01-01T00:00:00Z"), result("2026-01-01T00:00:00Z", "bpejit", 2.0)])
    page = report.render_page(report.PAGE.read_text(), [measured])
    assert "| prose, 0.000 MB, 500 | bpejit | 2.00 |  | 20.0 |" in page
    readme = report.render_readme(report.README.read_text(), [measured])
    assert "| 500 on prose, 0.000 MB | 2.00 s, 20.0 MB |" in readme
    assert report.render_page(page, [measured]) == page
    with pytest.raises(ValueError, match="markers"):
        report.replace_block("no markers", "train", "text")


def test_committed_tables_are_those_of_the_committed_results() -> None:
    found = report.machines(results.RESULTS)
    assert report.render_page(report.PAGE.read_text(), found) == report.PAGE.read_text()
    assert report.render_readme(report.README.read_text(), found) == report.README.read_text()
