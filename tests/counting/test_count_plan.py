"""Tests of `plan_count` and of the dry runs of commands that count."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from conftest import data_text
from helpers.cli import invoke, run, snapshot

import bpejit
from bpejit.corpus.contents import Contents
from bpejit.corpus.sources import find_sources
from bpejit.corpus.units import SAMPLES, plan_units, run_sample
from bpejit.counting.count_job import CountJob
from bpejit.counting.header import CountSettings
from bpejit.splitting.unicode_versions import installed_unicode

TEXT = data_text("prose.txt")[:300_000]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_bytes(TEXT[number * 100_000 : (number + 1) * 100_000])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("options", [{}, {"chunk_bytes": 50_000}, {"workers": 3, "engine": "threads"}, {"pattern": "[a-z]+|."}])
def test_plan_of_an_input_that_the_sample_covers(work: Path, options: dict[str, object]) -> None:
    counts = bpejit.count("in", **options)
    plan = bpejit.plan_count("in", **options)
    assert (plan.bytes, plan.pretokens) == (300_000, counts.n_pretokens)
    assert plan.workers == (3 if "workers" in options else 1)  # small inputs have one worker
    assert plan.seconds > 0
    assert (plan.parts, plan.cluster, plan.max_memory) == (0, "", None)


def test_plan_from_a_sample(work: Path) -> None:
    counts = bpejit.count("in")
    for options in ({"chunk_bytes": 4000}, {"chunk_bytes": 4000, "sources": {"in/0.txt": 5, "in/1.txt": 1, "in/2.txt": 1}}):
        plan = bpejit.plan_count([] if "sources" in options else "in", **options)
        assert plan.bytes == 300_000
        assert abs(plan.pretokens / counts.n_pretokens - 1) < 0.1


def test_plan_of_a_part_of_the_text(work: Path) -> None:
    plan = bpejit.plan_count("in", max_bytes=50_000)
    counts = bpejit.count("in", max_bytes=50_000)
    assert plan.bytes == 50_000
    assert abs(plan.pretokens / counts.n_pretokens - 1) < 0.1
    assert bpejit.plan_count("in", max_bytes=500_000).bytes == 300_000


def test_compressed_inputs(work: Path) -> None:
    Path("text.gz").write_bytes(gzip.compress(TEXT))
    plan = bpejit.plan_count("text.gz")
    assert plan.bytes == Path("text.gz").stat().st_size
    assert plan.pretokens > 0


def test_input_that_is_read_once_is_not_touched(work: Path) -> None:
    texts = iter(["a text", "another"])
    plan = bpejit.plan_count(texts)
    assert (plan.bytes, plan.pretokens, plan.seconds) == (None, 0, 0.0)
    assert next(texts) == "a text"


def test_sample_is_taken_from_all_units(work: Path) -> None:
    job = CountJob.of_settings(CountSettings("gpt2", installed_unicode(), (), False))
    chunker = job.chunker(1000)
    units = plan_units(find_sources("in", Contents(input_format="text")), 5000, chunker, None, grouped=False)
    seen = []

    class Worker:
        def __init__(self) -> None:
            self.worker = job.start()

        def run(self, chunk: object) -> object:
            seen.append(chunk)
            return self.worker.run(chunk)

    results, _ = run_sample(Worker(), units, chunker)
    assert len(seen) == len(results) == SAMPLES
    assert len({chunk.path for chunk in seen}) == 3
    assert run_sample(Worker(), [], chunker) == ([], 0.0)


def test_memory_that_is_too_little(work: Path) -> None:
    assert bpejit.plan_count("in", max_memory=1 << 30).max_memory == 1 << 30
    with pytest.raises(bpejit.OptionError, match="max_memory is 1000; expected at least"):
        bpejit.plan_count("in", max_memory=1000)


def test_count_writes_nothing(work: Path) -> None:
    before = snapshot(work)
    result = invoke("count", "in", "--out", "c.counts", "--dry-run")
    assert result.exit_code == 0, result.stderr
    n_pretokens = bpejit.count("in").n_pretokens
    assert result.stderr.startswith("would count 300.0 kB with 1 worker to `c.counts`; expected: ")
    assert f"expected: {round(n_pretokens, 3 - len(str(n_pretokens))):,} pre-tokens in " in result.stderr
    assert "memory of counting: grows with" in result.stderr
    result = invoke("count", "in", "--out", "c.counts", "--dry-run", "--json", "--max-memory", "1G")
    fields = json.loads(result.stdout)
    assert (fields["dry_run"], fields["bytes"], fields["pretokens"]) == (True, 300_000, n_pretokens)
    assert (fields["max_memory"], fields["parts"], fields["cluster"]) == (10**9, None, None)
    assert snapshot(work) == before


def test_train_writes_nothing(work: Path) -> None:
    before = snapshot(work)
    result = invoke("train", "in", "--vocab-size", "1k", "--dry-run", "--resume")
    assert result.exit_code == 0, result.stderr
    assert "counts of an earlier run are used" in result.stderr
    assert result.stderr.startswith(
        "would count 300.0 kB with 1 worker, and write a tokenizer of 1,000 tokens to `tokenizer`; expected: "
    )
    assert "note: learning merges needs memory for all distinct pre-tokens" in result.stderr
    assert snapshot(work) == before
    assert invoke("count", "in", "--out", "c.counts").exit_code == 0
    result = invoke("train", "--counts", "c.counts", "--vocab-size", "1k", "--dry-run")
    assert result.exit_code == 2
    assert "`--dry-run` and `--counts` cannot be combined" in result.stderr


@pytest.mark.slow
def test_standard_input(work: Path) -> None:
    result = run("count", "-", "--out", "c.counts", "--dry-run", input=b"text")
    errors = result.stderr.decode()
    assert errors.startswith("would count input of unknown size with ")
    assert "expected" not in errors
