"""Tests of the benchmarks: all works and tools run, unequal results are refused, and the tables match the results."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import DATA, ROOT, data_text, read_shared, small

sys.path.insert(0, str(ROOT))
from benchmarks.compare import (
    __main__ as command,
    chart,
    corpora,
    machine,
    markdown,
    measure,
    report,
    results,
    settings,
    vocabularies,
)
from benchmarks.compare.processes import JobError, run_job, thread_limits
from benchmarks.compare.targets import NO_TARGETS, ROWS, TARGET_TOOLS, is_target, target_works, targets_block, targets_table
from benchmarks.compare.tools import TOOLS, CannotError, get_tool
from benchmarks.compare.tools._toktier import published_file
from benchmarks.compare.works import WORKS, Case, Metric, Work, get_work
from benchmarks.compare.works.split import Split


def toy_context(folder: Path) -> measure.Context:
    sizes = {**settings.TOY, "corpora": ["prose"], "vocabularies": ["trained"], "workers": 2}
    made = settings.Settings(**sizes)  # type: ignore[arg-type]
    texts = corpora.Corpora(folder, limit=made.limit)
    return measure.Context(made, folder, texts, vocabularies.Vocabularies(folder), ["bpejit", "tiktoken"])


@pytest.fixture(scope="module", autouse=True)
def _few_objects() -> Iterator[None]:
    """Leave what exists out of garbage collection, which the works start before each pass."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> measure.Context:
    return toy_context(tmp_path_factory.mktemp("toy"))


# ---- works


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", WORKS)
def test_work_measures_and_compares(name: str, toy: measure.Context) -> None:
    """The jobs run in this process, which is faster than one process each; `test_command` starts processes."""
    work = get_work(name)
    if name == "in_transformers":
        pytest.importorskip("transformers")
    tools = [get_tool(one) for one in ("bpejit", "tiktoken", *work.reference, *work.only) if one != "bpejit-avx2"]
    tools = [tool for tool in tools if work.includes(tool) and tool.version()]
    assert tools[0].name == "bpejit"
    rows = set()
    for case in work.cases(toy):
        json.dumps(case.key)
        rows.add(work.label(case.key))
        for tool in tools:
            params = json.loads(json.dumps(work.params_for(tool, case)))
            if type(work).run is not Work.run:
                environment = thread_limits(case.threads)
                found = work.run(tool, params, environment=environment, save=None, memory=False, timeout=100)
                assert found["metrics"]["seconds"] > 0
                continue
            metrics, result = work.job(tool, params)
            assert {metric.name for metric in work.metrics} <= set(metrics)
            assert min(min(value) if isinstance(value, list) else value for value in metrics.values()) >= 0
            expected = result if tool is tools[0] else work.job(tools[0], params)[1]
            same = result.size == expected.size and np.array_equal(result, expected)
            assert same or (name == "stream" and params["pieces"] == "lines")
    assert rows


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parametrize("name", ["train", "encode_own", "encode_file", "commands"])
def test_large_texts_take_part(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zstandard = pytest.importorskip("zstandard")
    data = data_text("cjk.txt")[:10_000].decode(errors="ignore").encode()
    for file in ("corpora/english.txt", "corpora/code.txt", "corpora/multilingual.txt", "corpora/hard.txt", "english.txt"):
        (tmp_path / "data" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / file).write_bytes(data)
    (tmp_path / "data" / "large").mkdir()
    for language in ("chinese", "japanese"):
        (tmp_path / "data" / "large" / f"{language}.txt.zst").write_bytes(zstandard.compress(data))
    monkeypatch.setenv("BPEJIT_SHARED_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(corpora, "WRITTEN", dict.fromkeys(corpora.WRITTEN, tmp_path / "data" / "english.txt"))
    context = toy_context(tmp_path)
    context.settings.corpora = []
    work, tool = get_work(name), get_tool("bpejit")
    cases = [case for case in work.cases(context) if "-large" in work.label(case.key)]
    assert len(cases) == (4 if name == "train" else 2)
    for case in cases:
        options = {"environment": thread_limits(case.threads), "save": None, "memory": False, "timeout": 100}
        found = work.run(tool, work.params_for(tool, case), **options)
        assert found["n_items"] > 0
    monkeypatch.setenv("BPEJIT_SHARED_DATA", str(tmp_path))
    monkeypatch.setattr(corpora, "WRITTEN", dict.fromkeys(corpora.WRITTEN, tmp_path / "absent"))
    assert toy_context(tmp_path).large_corpora(*corpora.LARGE, *corpora.WRITTEN) == []


@pytest.mark.slow
@pytest.mark.compiled
def test_command(tmp_path: Path) -> None:
    options = ["--size", "toy", "--corpora", "prose", "--vocabularies", "trained", "--tools", "tiktoken"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.compare", "--work", "load", *options, "--results", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("*.jsonl")
    measured = report.Measured(results.read(file))
    assert [result["tool"] for result in measured.results] == ["bpejit", "tiktoken"]
    assert all(result["metrics"]["seconds"]["median"] > 0 and result["equal"] is True for result in measured.results)
    assert {"version", "commit", "dirty", "date", "libraries"} <= set(measured.last)
    assert "loading trained" in report.tables_block(measured)
    # neither folders nor the name of this machine
    assert str(tmp_path) not in file.read_text()
    assert os.uname().nodename not in json.dumps(measured.machine)


class Pieces(Split):
    """A work in which tiktoken returns another result, and gigatoken fails."""

    name = "split"

    def includes(self, tool):
        return tool.name in ("bpejit", "tiktoken", "gigatoken", "rustbpe")

    def run(self, tool, params, *, environment, save, memory, timeout):
        if tool.name == "gigatoken":
            raise JobError("exit code 1: out of memory")
        if tool.name == "rustbpe":
            return {"cannot": "it does not split"}
        if save:
            np.save(save, np.array([1, 2, 3 if tool.name == "bpejit" else 4]))
        return {"digest": tool.name, "metrics": {"mb_s": 10.0}, "n_items": 3, "process_seconds": 0.1}


def test_unequal_results_are_not_timed(toy: measure.Context) -> None:
    context = toy_context(toy.folder)
    context.versions = dict.fromkeys(("bpejit", "tiktoken", "gigatoken", "rustbpe"), "1")
    context.tools = list(context.versions)
    measure.measure(context, Pieces(), Case({"pattern": "gpt2", "corpus": {"name": "prose", "bytes": 10}}, {}))
    found = {result["tool"]: result for result in context.results}
    assert found["bpejit"]["metrics"]["mb_s"]["median"] == 10
    assert found["bpejit"]["equal"] == "not compared: no other tool does this"
    assert found["tiktoken"]["status"] == "not timed: results differ from item 3 of 3 on"
    assert found["gigatoken"]["status"] == "exit code 1: out of memory"
    assert found["rustbpe"]["status"] == "it does not split"
    assert not any(found[name]["metrics"] for name in ("tiktoken", "gigatoken", "rustbpe"))


def test_slow_jobs_are_repeated_less() -> None:
    assert [measure.planned_rounds(seconds, 5) for seconds in (1, 6, 11)] == [5, 2, 0]


def test_runs_are_interleaved_and_failing_tools_dropped() -> None:
    order = []

    def run(name: str) -> dict[str, object]:
        order.append(name)
        if name == "b":
            raise JobError("stopped after 90 s")
        return {}

    found = measure.interleaved({name: (lambda name=name: run(name)) for name in "abc"}, {"a": 3, "b": 3, "c": 1})
    assert order == ["a", "b", "c", "a", "a"]
    assert found == {"a": [{}, {}, {}], "b": [{"error": "stopped after 90 s"}], "c": [{}]}


# ---- tools


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", [name for name in TOOLS if name not in ("bpejit", "bpejit-avx2")])
def test_tool_agrees_with_bpejit(name: str, toy: measure.Context) -> None:
    tool = get_tool(name)
    if tool.version() is None:
        pytest.skip(f"{name} is not installed: make bench")
    ours = get_tool("bpejit")
    for work_name in ("train", "encode", "halves", "documents", "batch", "encode_documents"):
        work = get_work(work_name)
        if not work.includes(tool) or not tool.comparable:
            continue
        # JSON lines: the form of documents that all of these tools read
        case = next(case for case in work.cases(toy) if case.key.get("form", "JSON lines") == "JSON lines")
        params = work.params_for(tool, case)
        if tool.interpreter == sys.executable:
            try:
                _, result = work.job(tool, params)
            except CannotError:
                assert name in ("quicktok", "toktok-rs", "toktier")  # they support their own vocabularies only
                continue
            assert np.array_equal(result, work.job(ours, params)[1])
        else:
            environment = thread_limits(case.threads)
            more = {"environment": environment, "save": None, "memory": False, "timeout": 100.0}
            assert work.run(tool, params, **more)["digest"] == work.run(ours, params, **more)["digest"]


# The SHA-256 of `tokenizer.json` of allenai/Olmo-3-1025-7B and of openai/gpt-oss-120b.
PUBLISHED_FILES = {
    "cl100k": "73fd5254624f39a88e3faac6a8e11300fc3c735ed37880d4f4f08db898eaecca",
    "o200k": "0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3",
}


def published_vocabulary(name: str, folder: Path) -> vocabularies.Vocabulary:
    read_shared(f"vocabs/{vocabularies.RANK_FILES[name]}.tiktoken")
    return vocabularies.Vocabularies(folder).get(name)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["cl100k", pytest.param("o200k", marks=pytest.mark.slow)])
def test_files_for_toktier_are_the_published_ones(name: str, tmp_path: Path) -> None:
    written = published_file(published_vocabulary(name, tmp_path))
    assert hashlib.sha256(written).hexdigest() == PUBLISHED_FILES[name]


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", PUBLISHED_FILES)
def test_toktier_agrees_with_bpejit(name: str, tmp_path: Path, toy: measure.Context) -> None:
    tool, ours = get_tool("toktier"), get_tool("bpejit")
    if tool.version() is None:
        pytest.skip("toktier is not installed: make bench")
    vocabulary = published_vocabulary(name, tmp_path)
    params = {"vocabulary": vocabulary.params(), "path": str(toy.corpus().path), "n_bytes": toy.corpus().n_bytes, "threads": 1}
    for work in map(get_work, ("encode", "halves", "documents")):
        assert np.array_equal(work.job(tool, params)[1], work.job(ours, params)[1])


def test_tool_without_package_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = get_tool("rustbpe")
    monkeypatch.setattr(tool, "package", "no-such-package-is-installed")
    assert tool.version() is None


def test_tools_take_part_by_their_methods() -> None:
    takes_part = {work: {name for name in TOOLS if get_work(work).includes(get_tool(name))} for work in WORKS}
    assert {"rustbpe", "bpeasy", "tokenizers", "gigatoken", "gigabpe"} <= takes_part["train"]
    assert "tokenizers-1.0" not in takes_part["train"]
    encoders = {"tiktoken", "tokenizers", "tokenizers-1.0", "gigatoken", "snaptokens", "fastokens", "quicktok", "toktok-rs"}
    for work in ("encode", "halves", "documents"):
        assert encoders | {"toktier"} <= takes_part[work]
        assert not {"rustbpe", "gigabpe", "plain-python", "regex"} & takes_part[work]
    assert takes_part["encode_documents"] == {"bpejit", "bpejit-avx2", "gigatoken", "datatrove", "megatron-scheme"}
    assert takes_part["split"] == {"bpejit", "bpejit-avx2", "regex"}
    assert takes_part["plain_python"] == {"bpejit", "bpejit-avx2", "plain-python"}


def test_failing_job_is_reported(tmp_path: Path) -> None:
    job = {"work": "no-such-work", "tool": "regex", "params": {}, "save": None}
    with pytest.raises(JobError, match=r"ModuleNotFoundError: .*no-such-work"):
        run_job([sys.executable, "-m", "benchmarks.compare.worker"], job, timeout=100)


# ---- inputs


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
        from bpejit.normalization.byte_characters import encode_byte_characters

        assert [f"{encode_byte_characters(left)} {encode_byte_characters(right)}" for left, right in merges] == [
            line for line in published if line and not line.startswith("#version")
        ]


def test_large_english_is_without_repeated_lines(tmp_path: Path) -> None:
    from benchmarks import large_texts

    again = "A long line that occurs in several files of the package."
    files = {
        "b.py": f'x = 1\n"""{again}\n\n    Short.\n    Short."""\ny = "not documentation"\n',
        "a.md": f"# Title\n\n{again}\n{again}  \n",
        "c.json": json.dumps([{"description": "A <b>tag</b> &amp; a description", "name": "not documentation"}, again]),
        "d.json": "broken",
        "e.txt": again,
        "f.so": again,
    }
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    with zipfile.ZipFile(tmp_path / "x.whl") as archive:
        assert list(large_texts.english_documents(archive, set())) == [
            f"# Title\n\n{again}\n<|endoftext|>".encode(),
            b"    Short.\n    Short.\n<|endoftext|>",
            b"A  tag  & a description\n<|endoftext|>",
        ]


def test_large_code_is_without_repeated_files(tmp_path: Path) -> None:
    from benchmarks import large_texts

    lines = [f"value_{number} = compute_the_value_of({number})" for number in range(4)]
    files = {
        "a.py": "\n".join(lines[:2]),
        "b.py": "\n".join(lines[:2]) + "\npass",
        "c.py": "\n".join(lines[1:4]) + "\n\n",
        "d.txt": "not code",
        "e.c": "int x;",
    }
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr("f.py", b"\xff not UTF-8")
    with zipfile.ZipFile(tmp_path / "x.whl") as archive:
        found = list(large_texts.code_documents(archive, set()))
    assert found == [f"{files[name]}<|endoftext|>".encode() for name in ("a.py", "c.py")]


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


def test_prefix_and_repetition_preserve_the_name(tmp_path: Path) -> None:
    made = corpora.Corpora(tmp_path, {"mine": DATA / "cjk.txt"})
    whole, prefix, repeated = made.get("mine"), made.prefix("mine", 10_000), made.repeated("mine", 1_000_000)
    assert {whole.name, prefix.name, repeated.name} == {"mine"}
    assert whole.read().startswith(prefix.read())
    assert repeated.read() == whole.read() * (repeated.n_bytes // whole.n_bytes)
    assert made.prefix("mine", 10**9) is whole


def test_documents_are_sorted_by_script() -> None:
    assert corpora.script_of("吾輩は猫である。名前はまだ無い。") == "japanese"
    assert corpora.script_of("床前明月光,疑是地上霜。") == "chinese"
    assert corpora.script_of("plain words") is None


def test_short_texts_have_the_stated_number_and_length() -> None:
    from benchmarks.compare.works.batch import CHARACTERS, short_texts

    texts = short_texts(data_text("prose.txt").decode(), 5_000)
    assert len(texts) == 5_000
    assert 50 <= np.mean([len(text) for text in texts]) <= 56
    assert max(map(len, texts)) <= CHARACTERS[1] + 2
    assert not any("<|endoftext|>" in text for text in texts)


def test_sizes_set_known_settings() -> None:
    for size in settings.SIZES.values():
        settings.Settings(**size)  # type: ignore[arg-type]
    made = command.settings_of(command.parser().parse_args(["--size", "toy", "--rounds", "3", "--corpora", "prose,cjk"]))
    assert (made.rounds, made.limit, made.corpora) == (3, settings.TOY["limit"], ["prose", "cjk"])
    with pytest.raises(SystemExit):
        command.parser().parse_args(["--work", "no-such-work"])


# ---- machines


@pytest.mark.parametrize(
    ("vendor", "numbers", "name"),
    [
        ("AuthenticAMD", (25, 17, 1), "Zen 4"),
        ("AuthenticAMD", (25, 1, 1), "Zen 3"),
        ("AuthenticAMD", (26, 2, 1), "Zen 5"),
        ("AuthenticAMD", (23, 49, 0), "Zen 2"),
        ("GenuineIntel", (6, 207, 2), "Emerald Rapids"),
        ("GenuineIntel", (6, 143, 8), "Sapphire Rapids"),
        ("GenuineIntel", (6, 85, 4), "Skylake"),
        ("GenuineIntel", (6, 85, 7), "Cascade Lake"),
        ("GenuineIntel", (6, 999, 1), "family 6, model 999, stepping 1"),
    ],
)
def test_microarchitectures(vendor: str, numbers: tuple[int, int, int], name: str) -> None:
    assert machine.microarchitecture(vendor, *numbers) == name


def test_processor_names_are_distinct() -> None:
    amd = {"vendor_id": "AuthenticAMD", "model name": "AMD EPYC", "stepping": "1"}
    intel = {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "207", "stepping": "2"}
    assert machine.cpu_name({**amd, "cpu family": "25", "model": "17"}) == "AMD EPYC (Zen 4)"
    assert machine.cpu_name({**amd, "cpu family": "26", "model": "2"}) == "AMD EPYC (Zen 5)"
    name = machine.cpu_name({**intel, "model name": "Intel(R) Xeon(R) Processor"})
    assert name == "Intel Xeon (Emerald Rapids)"
    assert machine.cpu_name({"CPU implementer": "0x41", "CPU part": "0xd4f"}) == "Arm (Neoverse V2)"
    assert machine.short_brand("Intel(R) Xeon(R) Gold 6354 CPU @ 3.00GHz") == "Intel Xeon Gold 6354"
    assert machine.short_brand("AMD EPYC 9654 96-Core Processor") == "AMD EPYC 9654"
    assert machine.file_name({"name": f"{name}, 2 cores, 25 GB"}) == "intel-xeon-emerald-rapids-2-cores-25-gb.jsonl"


def test_avx512_is_recognized_as_in_the_package() -> None:
    from bpejit.jit import target

    if os.environ.get("BPEJIT_CPU") or os.environ.get("NUMBA_CPU_NAME"):
        pytest.skip("the target is chosen by the environment")
    assert machine.has_avx512_vbmi() == target.current().has_avx512_vbmi


# ---- results and tables


def result(tool: str, seconds: float, *, date: str = "2026-01-01T00:00Z", corpus: str = "prose") -> results.Record:
    metrics = {"seconds": results.summary([seconds]), "peak_mb": results.summary([10 * seconds])}
    made = {"name": corpus, "bytes": 10_000, "sha256": "0", "made": "tests/data"}
    case = {"corpus": made, "vocab_size": 500, "workers": 2}
    more = {"equal": True, "threads": 2, "version": "1", "libraries": {"python": "3.12"}, "commit": "abc", "dirty": False}
    return {"record": "result", "work": "train", "case": case, "tool": tool, "date": date, "metrics": metrics, **more}


MACHINE = {"record": "machine", "name": "CPU, 2 cores, 8 GB", "instructions": "AVX2", "system": "Linux x86_64"}


def test_results_of_a_case_replace_the_older_ones(tmp_path: Path) -> None:
    file = tmp_path / "machine.jsonl"
    results.write(file, MACHINE, [result("bpejit", 2.0), result("rustbpe", 8.0)])
    results.write(file, MACHINE, [result("bpejit", 1.0)])
    assert results.read(file) == [MACHINE, result("bpejit", 1.0)]
    results.write(file, MACHINE, [result("bpejit", 1.0, corpus="cjk")])
    assert len(results.read(file)) == 3


def test_results_of_removed_works_and_tools_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "machine.jsonl"
    stale = [{**result("bpejit", 2.0), "work": "removed"}, result("removed", 2.0)]
    file.write_text("".join(json.dumps(line) + "\n" for line in [MACHINE, *stale]))
    results.write(file, MACHINE, [result("bpejit", 1.0)])
    assert results.read(file) == [MACHINE, result("bpejit", 1.0)]


def test_messages_of_tools_are_escaped() -> None:
    """They may have patterns, which Markdown would take for links."""
    assert markdown.escaped(r"unsupported: '[^\r]?\p{L}+[a_b]*' in `a[0]_b`") == (
        r"unsupported: '\[^\\r\]?\\p{L}+\[a\_b\]\*' in `a[0]_b`"
    )


def test_tables_are_rendered_between_the_markers() -> None:
    refused = {**result("gigatoken", 1.0), "metrics": {}, "status": "not timed: results differ from item 3 of 9 on"}
    measured = report.Measured([MACHINE, result("bpejit", 2.0), result("rustbpe", 8.0), refused], "machine.jsonl")
    page = report.render_page(report.PAGE.read_text(), [measured])
    assert "| prose, 10 KB, 500 tokens | 2.00, 20.0 MB | 8.00, 80.0 MB |" in page
    assert "- Training: rustbpe 4.00." in page
    assert "Cells without figures: gigatoken (not timed: results differ from item 3 of 9 on)." in page
    assert "- [CPU, 2 cores, 8 GB](results/machine.jsonl): AVX2, Linux x86_64, measured until 2026-01-01, commit abc." in page
    assert report.render_page(page, [measured]) == page
    summary = report.render_summary(report.SUMMARY.read_text(), [measured])
    assert "| prose, 10 KB, 500 tokens | 2.00, 20.0 MB | 8.00, 80.0 MB |" in summary
    with pytest.raises(ValueError, match="markers"):
        report.replace_block("no markers", "tables", "text")


def test_rows_with_equal_labels_show_a_range() -> None:
    class Ranged(Split):
        metrics = (Metric("mb_s", "MB/s", True),)

    rows = [{"metrics": {"mb_s": results.summary([value])}} for value in (585.0, 1987.0)]
    assert report.cell(Ranged(), rows) == "585 to 1,987"
    assert report.cell(Ranged(), rows[:1]) == "585"
    assert report.cell(Ranged(), [{"metrics": {}}]) == "-"
    assert report.cell(Ranged(), [{"metrics": {}, "status": "stopped after 90 s"}]) == "> 90 s"


def test_latest_machine_is_first(tmp_path: Path) -> None:
    results.write(tmp_path / "a.jsonl", {**MACHINE, "name": "new"}, [result("bpejit", 1.0, date="2026-02-01T00:00Z")])
    results.write(tmp_path / "b.jsonl", {**MACHINE, "name": "old"}, [result("bpejit", 1.0)])
    results.write(tmp_path / "c.jsonl", MACHINE, [])
    assert [measured.machine["name"] for measured in report.machines(tmp_path)] == ["new", "old"]


def test_machine_with_most_cases_is_first(tmp_path: Path) -> None:
    cases = [result("bpejit", 1.0), result("bpejit", 3.0, corpus="cjk"), result("bpeasy", 4.0)]
    results.write(tmp_path / "a.jsonl", {**MACHINE, "name": "old"}, cases)
    tools = [result(tool, seconds, date="2026-02-01T00:00Z") for tool, seconds in (("bpejit", 2.0), ("rustbpe", 5.0))]
    results.write(tmp_path / "b.jsonl", {**MACHINE, "name": "new"}, tools)
    found = report.machines(tmp_path)
    assert [measured.machine["name"] for measured in found] == ["old", "new"]
    main, other = report.render_summary(report.SUMMARY.read_text(), found).split("## On new\n")
    assert "| prose, 10 KB, 500 tokens | 1.00, 10.0 MB | 4.00, 40.0 MB |" in main
    assert "new, AVX2; 2026-02-01, commit abc; medians of several runs." in other
    assert "| prose, 10 KB, 500 tokens | 2.00, 20.0 MB | 5.00, 50.0 MB |" in other
    page = report.render_page(report.PAGE.read_text(), found)
    assert "- Training: bpeasy 4.00.\n\nOn new ([tables](../docs/speed.md)):\n\n- Training: rustbpe 2.50.\n" in page
    assert "rustbpe 1, bpeasy 1" in page
    assert "2.00, 20.0 MB" not in page


def test_committed_tables_match_committed_results() -> None:
    found = report.machines(results.RESULTS)
    targets = targets_block(results.RESULTS / "targets")
    assert report.render_page(report.PAGE.read_text(), found, targets) == report.PAGE.read_text()
    assert report.render_summary(report.SUMMARY.read_text(), found) == report.SUMMARY.read_text()
    assert chart.draw(found[0].results) == chart.PICTURE.read_text(encoding="utf-8")


def test_targets() -> None:
    assert set(target_works()) <= set(WORKS)
    assert {row.tool for row in ROWS} | {row.reference for row in ROWS} <= {*TARGET_TOOLS, ""}
    key = {"vocabulary": "gpt2", "corpus": "english", "texts": 9, "threads": 1}
    assert is_target("batch", key)
    assert not is_target("batch", {**key, "vocabulary": "o200k"})
    own = {"what": "large", "corpus": {"name": "japanese-large", "bytes": 200_000_000}, "workers": 2}
    assert is_target("commands", own)
    figures = [("batch", key, "bpejit", "mb_s", 150.0), ("batch", key, "gigatoken", "mb_s", 100.0)]
    figures += [("commands", own, "bpejit", "seconds", 4.0), ("commands", own, "bpejit-earlier", "seconds", 10.0)]
    measured = [
        {**result(tool, 1.0), "work": work, "case": case, "metrics": {metric: results.summary([value])}}
        for work, case, tool, metric, value in figures
    ]
    shown = targets_table(MACHINE, measured)
    assert "| 150 | 100 | 1.50 | 1.5 times gigatoken | yes |" in shown
    assert "| 50.0 | 20.0 | 2.50 | 3 times bpejit-earlier | no |" in shown
    assert shown.count("| - |\n") > 10


def test_part_of_the_targets_is_printed_and_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(context: measure.Context, work: Work, case: Case) -> None:
        figures = {"mb_s": results.summary([150.0])}
        context.results.append({**result("bpejit", 1.0), "work": work.name, "case": case.key, "metrics": figures})

    text = tmp_path / "text"
    text.write_text("some text")
    stored = tmp_path / "results"
    monkeypatch.setattr(results, "RESULTS", stored)
    monkeypatch.setattr(command, "prepare", lambda context: None)
    monkeypatch.setattr(command, "measure", measured)
    assert command.main(["--targets", "--work", "split,load", "--corpus", f"english={text}", "--vocabularies", "trained"]) == 0
    rows = capsys.readouterr().out.splitlines()[4:]
    assert [row.split(",")[0].removeprefix("| ") for row in rows] == [
        *(f"loading {name}" for name in ("gpt2", "cl100k", "o200k")),
        "splitting english with AVX2 instead of AVX-512",
    ]
    assert " 150 " in rows[-1]
    assert not stored.exists()
    with pytest.raises(SystemExit):
        command.main(["--targets", "--work", "scaling"])
    assert "expected one of batch, line, " in capsys.readouterr().err


def test_targets_are_rendered_from_a_folder(tmp_path: Path) -> None:
    assert targets_block(tmp_path) == NO_TARGETS
    results.write(tmp_path / "a.jsonl", MACHINE, [result("bpejit", 1.0)])
    first = targets_table(MACHINE, [result("bpejit", 1.0)])
    assert targets_block(tmp_path) == first
    later = {**result("bpejit", 2.0), "date": "2999-01-01T00:00Z"}
    results.write(tmp_path / "b.jsonl", MACHINE, [later])
    assert targets_block(tmp_path) == targets_table(MACHINE, [later]) + "\n\n" + first


def test_page_is_short() -> None:
    assert len(report.PAGE.read_text().splitlines()) <= 350
    works = [get_work(name) for name in WORKS]
    assert all(re.fullmatch(r"[A-Z].*\.|", work.about, re.DOTALL) for work in works)
