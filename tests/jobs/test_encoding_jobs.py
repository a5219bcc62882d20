"""Tests of encoding jobs: shards, validation sets, parts, and runs that are interrupted and resumed."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import data_text, small
from helpers.cli import snapshot
from helpers.killing import KILLED, needs_fork, run_killed

import bpejit
from bpejit.errors import EngineError, OptionError, OutputError, SpecialTokenError
from bpejit.jobs import job_folder as job_folder_module
from bpejit.jobs.folder_store import FolderStore
from bpejit.jobs.job_folder import held, part_folder
from bpejit.jobs.job_options import parse_shard
from bpejit.storage.outputs import job_folder
from bpejit.tokenfiles import format_names, load_format

END = "<|endoftext|>"
INPUTS = ["one.txt", "folder/two.txt", "folder/three.txt", "empty.txt"]
UNIT = {"unit_bytes": small(20_000, 2000), "chunk_bytes": small(5000, 700)}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "index": {"document_index": True, "append_token": END},
    "shards": {"shard_tokens": small(9000, 1500), "prepend_token": "<|start|>", "append_token": END},
    "exact": {"shard_tokens": small(9000, 1500), "shard_exact": True, "document_index": True},
    "validation": {"val_fraction": 0.3, "seed": 5, "shard_tokens": small(9000, 1500), "document_index": True},
}


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    tokens = {byte: bytes([byte]) for byte in range(256)} | {256: b"th", 257: b"he", 258: b" a", 259: b"\n\n"}
    merges = [(b"t", b"h"), (b"h", b"e"), (b" ", b"a"), (b"\n", b"\n")]
    model = bpejit.Model(tokens=tokens, merges=merges, special_tokens={END: 300, "<|start|>": 301}, unicode="16.0")
    return bpejit.Tokenizer.from_model(model)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    text = data_text("cjk.txt")[-small(90_000, 6000) :]
    (tmp_path / "one.txt").write_bytes(text[: len(text) // 2])
    (tmp_path / "folder" / "two.txt").write_bytes(text[len(text) // 2 :])
    (tmp_path / "folder" / "three.txt").write_bytes(b"without a separator " * 30)
    (tmp_path / "empty.txt").write_bytes(b"")
    return tmp_path


def results(folder: Path) -> dict[str, bytes]:
    """Return the files that jobs wrote."""
    return {name: data for name, data in snapshot(folder).items() if not name.endswith(".txt")}


def clear(folder: Path) -> None:
    for name in results(folder):
        (folder / name).unlink()


class Interrupt:
    """A progress callback that interrupts a run at its n-th call."""

    def __init__(self, calls: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.left = calls
        self.error = error

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise self.error


class _InterruptJoin:
    """A progress callback that interrupts joining."""

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        if stage == "combine" and done:
            raise KeyboardInterrupt


def test_result_and_report(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    report = tokenizer.encode_files(INPUTS, "tokens.bin", **UNIT)
    texts = [Path(name).read_bytes() for name in INPUTS]
    ids = np.concatenate([tokenizer.encode_array(text) for text in texts])
    found = bpejit.open_tokens("tokens.bin")
    assert np.array_equal(found.ids, ids)
    found.verify()
    assert report.path == Path("tokens.bin")
    assert report.paths == (Path("tokens.bin"),)
    assert (report.tokens, report.bytes) == (ids.size, sum(map(len, texts)))
    assert report.documents == sum(text.count(END.encode()) + (not text.endswith(END.encode())) for text in texts if text)
    assert report.units > 3
    assert (report.kept_units, report.missing_parts, report.skipped.count) == (0, 0, 0)
    assert set(report.stages) == {"plan", "encode", "write", "finish"}
    assert 0 < sum(report.stages.values()) <= report.seconds
    assert set(results(work)) == {"tokens.bin", "tokens.bin.json", "tokens.bin.manifest.json"}
    manifest = json.loads((work / "tokens.bin.manifest.json").read_bytes())
    assert [entry["path"] for entry in manifest["job"]["inputs"]] == INPUTS
    assert [entry["size"] for entry in manifest["job"]["inputs"]] == list(map(len, texts))
    assert (manifest["tokens"], manifest["documents"], manifest["bytes_read"]) == (ids.size, report.documents, report.bytes)
    assert [output["path"] for output in manifest["outputs"]] == ["tokens.bin"]


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_result_is_independent_of_the_division(work: Path, tokenizer: bpejit.Tokenizer, name: str) -> None:
    options = OPTIONS[name] | UNIT
    tokenizer.encode_files(INPUTS, "tokens.bin", **options)
    expected = results(work)
    runs: list[dict[str, Any]] = [
        {"engine": "threads", "workers": 3, "chunk_bytes": small(3000, 500)},
        {"engine": "processes", "workers": 2, "chunk_bytes": 1 << 20},
    ]
    for run in runs:
        clear(work)
        tokenizer.encode_files(INPUTS, "tokens.bin", **(options | run))
        assert results(work) == expected
    for parts in (2, 5):
        clear(work)
        order = [*range(1, parts), 0]
        for part in order:
            report = tokenizer.encode_files(INPUTS, "tokens.bin", shard=f"{part}/{parts}", **options)
            assert report.missing_parts == parts - 1 - order.index(part)
            assert bool(report.paths) == (part == 0)
        assert results(work) == expected


def test_documents_of_shards_and_validation(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    tokenizer.encode_files(INPUTS, "plain.bin", document_index=True, append_token=END, **UNIT)
    plain = bpejit.open_tokens("plain.bin")
    documents = [plain.document(number).tolist() for number in range(plain.n_documents)]
    assert all(document[-1] == 300 and document.count(300) == 1 for document in documents)
    limit = OPTIONS["shards"]["shard_tokens"]
    report = tokenizer.encode_files(
        INPUTS, "t.bin", shard_tokens=limit, val_fraction=0.2, append_token=END, document_index=True, **UNIT
    )
    names = [path.name for path in report.paths]
    n_train = sum("val" not in name for name in names)
    assert n_train > 2
    assert names == [f"t-{i:05d}.bin" for i in range(n_train)] + [f"t-val-{i:05d}.bin" for i in range(len(names) - n_train)]
    train, aside = [], []
    for path in report.paths:
        found = bpejit.open_tokens(path)
        found.verify()
        some = [found.document(number).tolist() for number in range(found.n_documents)]
        assert sum(map(len, some[:-1])) < limit
        assert sum(map(len, some)) >= limit or path.name in (f"t-{n_train - 1:05d}.bin", names[-1])
        assert found.bytes_read == len(tokenizer.decode_bytes(found.ids))
        (aside if "val" in path.name else train).extend(some)
    assert 0.1 < len(aside) / len(documents) < 0.3
    assert len(train) + len(aside) == len(documents)
    assert sorted(train + aside) == sorted(documents)


def test_one_output_for_each_input(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    report = tokenizer.encode_files(INPUTS, out_dir="out/deep", **UNIT)
    assert [str(path) for path in report.paths] == [
        "out/deep/one.txt.bin",
        "out/deep/folder/two.txt.bin",
        "out/deep/folder/three.txt.bin",
        "out/deep/empty.txt.bin",
    ]
    for name, path in zip(INPUTS, report.paths, strict=True):
        found = bpejit.open_tokens(path)
        found.verify()
        assert np.array_equal(found.ids, tokenizer.encode_array(Path(name).read_bytes()))
    expected = results(work)
    assert report.manifest == Path("out/deep/manifest.json")
    with pytest.raises(OutputError, match="already exists"):
        tokenizer.encode_files(INPUTS, out_dir="out/deep", **UNIT)
    for part in (0, 1, 2):
        tokenizer.encode_files(INPUTS, out_dir="out/deep", shard=(part, 3), overwrite=True, **UNIT)
    assert results(work) == expected
    with pytest.raises(OptionError, match=r"one\.txt` is listed twice"):
        tokenizer.encode_files(["one.txt", "one.txt"], out_dir="again", **UNIT)


def test_outputs_of_a_glob_of_folders(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    for name in ("x", "y"):
        Path("many", name).mkdir(parents=True)
        Path("many", name, "a.txt").write_text(name)
    report = tokenizer.encode_files("many/*/a.txt", out_dir="out", **UNIT)
    assert [str(path) for path in report.paths] == ["out/x/a.txt.bin", "out/y/a.txt.bin"]
    report = tokenizer.encode_files(["many/x/*.txt", "many/y"], out_dir="other", **UNIT)
    assert [str(path) for path in report.paths] == ["other/x/a.txt.bin", "other/y/a.txt.bin"]


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_interrupted_anywhere_and_resumed(work: Path, tokenizer: bpejit.Tokenizer, name: str, engine: str) -> None:
    options = OPTIONS[name] | UNIT | {"engine": engine, "workers": 2}
    tokenizer.encode_files(INPUTS, "tokens.bin", **options)
    expected = results(work)
    kept = set()
    for calls in range(0, 40, small(3, 7)):
        clear(work)
        try:
            tokenizer.encode_files(INPUTS, "tokens.bin", progress=Interrupt(calls), **options)
            break
        except KeyboardInterrupt:
            pass
        assert not set(results(work)) & set(expected), "no output appears"
        assert job_folder(work / "tokens.bin").exists() == bool(results(work)), "a folder without finished units is removed"
        report = tokenizer.encode_files(INPUTS, "tokens.bin", resume=True, **options)
        assert results(work) == expected
        kept.add(report.kept_units)
    assert len(kept) > 3


def test_interrupted_parts_and_joins(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    options = OPTIONS["validation"] | UNIT
    tokenizer.encode_files(INPUTS, "tokens.bin", **options)
    expected = results(work)
    clear(work)
    interrupted = 0
    for part in (1, 0):
        for calls in range(2, 40, 3):  # the join reports its progress as well
            try:
                tokenizer.encode_files(
                    INPUTS, "tokens.bin", shard=(part, 2), resume=True, progress=Interrupt(calls), engine="serial", **options
                )
                break
            except KeyboardInterrupt:
                interrupted += 1
                assert not set(results(work)) & set(expected)
    assert interrupted > 3
    assert results(work) == expected
    clear(work)
    for part in (0, 1):
        with suppress(KeyboardInterrupt):
            tokenizer.encode_files(INPUTS, "tokens.bin", shard=(part, 2), progress=_InterruptJoin(), **options)
    assert not set(results(work)) & set(expected)
    bpejit.combine("tokens.bin")
    assert results(work) == expected


def interrupted(work: Path, tokenizer: bpejit.Tokenizer, calls: int = 12, **options: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode_files(INPUTS, "tokens.bin", progress=Interrupt(calls), **(UNIT | options))
    assert job_folder(work / "tokens.bin").exists()


def test_unfinished_job_is_not_lost(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    interrupted(work, tokenizer)
    with pytest.raises(OutputError, match=r"keeps \d+ finished units .* `resume=True`, or start again with `overwrite=True`"):
        tokenizer.encode_files(INPUTS, "tokens.bin", **UNIT)
    with pytest.raises(OutputError, match=r"it has no `append_token=`, and this one has `append_token=.<.endoftext.>.`"):
        tokenizer.encode_files(INPUTS, "tokens.bin", append_token=END, resume=True, **UNIT)
    with pytest.raises(OutputError, match="it has 4 inputs, and this one 3"):
        tokenizer.encode_files(INPUTS[:3], "tokens.bin", resume=True, **UNIT)
    (work / "one.txt").write_bytes(b"x" + (work / "one.txt").read_bytes()[1:])
    with pytest.raises(OutputError, match=r"the content of its input 'one\.txt' has changed"):
        tokenizer.encode_files(INPUTS, "tokens.bin", resume=True, **UNIT)
    (work / "one.txt").write_bytes((work / "one.txt").read_bytes() + b"y")
    with pytest.raises(OutputError, match=r"its input 'one\.txt' had \d+ bytes, and now has \d+"):
        tokenizer.encode_files(INPUTS, "tokens.bin", resume=True, **UNIT)
    with pytest.raises(OutputError, match="in its place"):
        tokenizer.encode_files(INPUTS[1:], "tokens.bin", resume=True, **UNIT)
    report = tokenizer.encode_files(INPUTS, "tokens.bin", overwrite=True, **UNIT)
    assert report.kept_units == 0
    assert not job_folder(work / "tokens.bin").exists()


def test_unfinished_run_of_another_job_is_removed(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    interrupted(work, tokenizer)
    messages: list[str] = []

    class Report(Interrupt):
        def message(self, text: str) -> None:
            messages.append(text)

    tokenizer.encode_files(INPUTS, "tokens.bin", append_token=END, progress=Report(10**9), **UNIT)
    assert any(message.startswith("removed ") for message in messages)


def test_complete_output_is_not_encoded_again(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    tokenizer.encode_files(INPUTS, "tokens.bin", **UNIT)
    before = {path: path.stat().st_mtime_ns for path in work.iterdir()}
    report = tokenizer.encode_files(INPUTS, "tokens.bin", resume=True, progress=Interrupt(0), **UNIT)
    assert report.kept_units == report.units
    assert report.path == Path("tokens.bin")
    assert {path: path.stat().st_mtime_ns for path in work.iterdir()} == before
    with pytest.raises(OutputError, match="already exists"):
        tokenizer.encode_files(INPUTS, "tokens.bin", append_token=END, resume=True, **UNIT)
    with pytest.raises(OutputError, match="already exists"):
        tokenizer.encode_files(INPUTS, "tokens.bin", **UNIT)


@pytest.mark.parametrize("folder", ["..", "absolute"])
def test_outputs_that_a_manifest_lists_elsewhere_are_none(work: Path, tokenizer: bpejit.Tokenizer, folder: str) -> None:
    (work / "out").mkdir()
    manifest = tokenizer.encode_files("one.txt", "out/tokens.bin", **UNIT).manifest
    for name in ("tokens.bin", "tokens.bin.json"):
        (work / "out" / name).rename(work / name)
    fields = json.loads(manifest.read_bytes())
    fields["outputs"][0]["path"] = str((work if folder == "absolute" else Path(folder)) / "tokens.bin")
    manifest.write_text(json.dumps(fields))
    report = tokenizer.encode_files("one.txt", "out/tokens.bin", resume=True, **UNIT)
    assert (report.paths, report.kept_units) == ((Path("out/tokens.bin"),), 0)


@pytest.mark.parametrize("name", format_names())
def test_formats_are_resumed_and_read(work: Path, tokenizer: bpejit.Tokenizer, name: str) -> None:
    form = load_format(name)
    out = f"tokens{form.suffix}"
    options: dict[str, Any] = {"format": name, "append_token": END, "document_index": True, **UNIT}
    tokenizer.encode_files(INPUTS, "plain.bin", append_token=END, document_index=True, **UNIT)
    expected = bpejit.open_tokens("plain.bin")
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode_files(INPUTS, out, progress=Interrupt(12), **options)
    report = tokenizer.encode_files(INPUTS, out, resume=True, **options)
    assert report.kept_units > 0
    again = tokenizer.encode_files(INPUTS, out, resume=True, progress=Interrupt(0), **options)
    assert again.kept_units == again.units
    ids = [np.asarray(block) for block in form.open(out).blocks()]
    assert np.array_equal(np.concatenate(ids), expected.ids)


@pytest.mark.parametrize("described", [True, False])
def test_overwriting_removes_the_files_of_the_older_job(work: Path, tokenizer: bpejit.Tokenizer, described: bool) -> None:
    tokenizer.encode_files(INPUTS, "tokens.bin", val_fraction=0.3, shard_tokens=500, document_index=True, **UNIT)
    assert len(results(work)) > 20
    if not described:
        (work / "tokens.bin.manifest.json").unlink()
    report = tokenizer.encode_files(INPUTS, "tokens.bin", shard_tokens=10**9, overwrite=True, **UNIT)
    assert set(results(work)) == {"tokens-00000.bin", "tokens-00000.bin.json", "tokens.bin.manifest.json"}
    assert report.paths == (Path("tokens-00000.bin"),)
    tokenizer.encode_files(INPUTS, "tokens.bin", overwrite=True, **UNIT)
    assert set(results(work)) == {"tokens.bin", "tokens.bin.json", "tokens.bin.manifest.json"}


def test_failed_worker_and_full_disk_keep_finished_units(
    work: Path, tokenizer: bpejit.Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer.encode_files(INPUTS, "tokens.bin", **UNIT)
    expected = results(work)
    clear(work)
    with pytest.raises(EngineError):
        tokenizer.encode_files(INPUTS, "tokens.bin", progress=Interrupt(9, EngineError), **UNIT)
    with monkeypatch.context() as patch:
        written = [0]

        def full(file: Any, data: memoryview) -> None:
            written[0] += len(data)
            if written[0] > small(30_000, 2000):
                file.write(data[: len(data) // 2])
                raise OSError(28, "No space left on device")
            file.write(data)

        patch.setattr("bpejit.jobs.job_folder._write_all", full)
        with pytest.raises(OutputError, match=r"cannot write `tokens\.bin`: the disk is full"):
            tokenizer.encode_files(INPUTS, "tokens.bin", resume=True, **UNIT)
    report = tokenizer.encode_files(INPUTS, "tokens.bin", resume=True, **UNIT)
    assert report.kept_units > 0
    assert results(work) == expected


def test_two_processes_do_not_write_the_same_job(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    interrupted(work, tokenizer)
    folder = part_folder(job_folder(work / "tokens.bin"), 0, 1)
    with held(folder, "works on it"):
        for options in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(OutputError, match="another process works on"):
                tokenizer.encode_files(INPUTS, "tokens.bin", **UNIT, **options)
    tokenizer.encode_files(INPUTS, "tokens.bin", resume=True, **UNIT)


@pytest.mark.parametrize("step", ["_take_lock", "_without_empty"])
def test_interrupt_while_the_lock_is_taken(
    work: Path, tokenizer: bpejit.Tokenizer, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(work)
    owner = FolderStore if hasattr(FolderStore, step) else job_folder_module
    original = getattr(owner, step)

    def interrupt(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode_files(INPUTS, "tokens.bin", **UNIT)
    assert snapshot(work) == before


def test_parts_of_different_jobs_are_refused(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    tokenizer.encode_files(INPUTS, "tokens.bin", shard="1/3", **UNIT)
    with pytest.raises(
        OutputError,
        match=r"it has no `append_token=`, and this one has `append_token=.<.endoftext.>.`; expected the same job in all parts",
    ):
        tokenizer.encode_files(INPUTS, "tokens.bin", shard="0/3", append_token=END, **UNIT)
    with pytest.raises(OutputError, match="divided into 3 parts, and this one into 4"):
        tokenizer.encode_files(INPUTS, "tokens.bin", shard="0/4", **UNIT)
    with pytest.raises(OutputError, match=r"2 of the 3 parts of `tokens\.bin` are not complete: 0, 2"):
        bpejit.combine("tokens.bin")
    with pytest.raises(OutputError, match=r"finished units? of this part"):
        tokenizer.encode_files(INPUTS, "tokens.bin", shard="1/3", **UNIT)
    assert tokenizer.encode_files(INPUTS, "tokens.bin", shard="1/3", resume=True, **UNIT).missing_parts == 2
    with pytest.raises(OutputError, match="there are no parts of"):
        bpejit.combine("others.bin")


def test_more_parts_than_documents(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    text = b"one long document " * 2000
    Path("long.txt").write_bytes(text)
    tokenizer.encode_files("long.txt", "a.bin", unit_bytes=3000)
    for part in range(4):
        tokenizer.encode_files("long.txt", "b.bin", unit_bytes=3000, shard=(part, 4))
    assert Path("a.bin").read_bytes() == Path("b.bin").read_bytes()
    assert Path("a.bin.json").read_bytes() == Path("b.bin.json").read_bytes()


@needs_fork
@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "existing", "stride"),
    [("plain", True, 1), ("plain", False, 7), ("validation", True, 13), ("validation", False, 17)],
)
def test_killed_at_any_step(work: Path, tokenizer: bpejit.Tokenizer, name: str, existing: bool, stride: int) -> None:
    options = {**OPTIONS[name], "unit_bytes": 40_000, "engine": "serial", "overwrite": existing}
    tokenizer.encode_files(INPUTS, "tokens.bin", **options)
    expected = results(work)
    old: dict[str, bytes] = {}
    outcomes = set()
    for step in range(1, 400, stride):
        clear(work)
        if existing:
            tokenizer.encode_files(INPUTS[1:2], "tokens.bin", **(options | {"overwrite": False}))
            old = results(work)
        killed = run_killed(lambda: tokenizer.encode_files(INPUTS, "tokens.bin", **options), step, work)
        found = {file: data for file, data in results(work).items() if not file.startswith(".")}
        for file, data in found.items():
            assert data in (expected.get(file), old.get(file)), f"step {step}: `{file}` is half-written"
        report = tokenizer.encode_files(INPUTS, "tokens.bin", **options, resume=True)
        outcomes.add("resumed" if report.kept_units else "begun again")
        assert results(work) == expected, f"step {step}"
        if not killed:
            break
    else:
        pytest.fail("there are more steps than thought")
    assert outcomes == {"resumed", "begun again"}


def test_output_that_appears_meanwhile_is_not_replaced(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    def write(*_: Any) -> None:
        (work / "tokens.bin").write_bytes(b"mine")

    with pytest.raises(OutputError, match=r"cannot write `tokens\.bin`: it already exists"):
        tokenizer.encode_files(INPUTS, "tokens.bin", progress=write, **UNIT)
    assert (work / "tokens.bin").read_bytes() == b"mine"


def test_file_system_without_links(work: Path, tokenizer: bpejit.Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    options = OPTIONS["validation"] | UNIT
    tokenizer.encode_files(INPUTS, "tokens.bin", **options)
    expected = results(work)

    def no_links(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    tokenizer.encode_files(INPUTS, "tokens.bin", overwrite=True, **options)
    assert results(work) == expected


@needs_fork
@pytest.mark.compiled
def test_finished_units_outlast_a_kill(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    def kill(stage: str, done: int, *_: Any) -> None:
        if done > 3 * UNIT["unit_bytes"]:
            os._exit(KILLED)

    run = partial(tokenizer.encode_files, INPUTS, "tokens.bin", progress=kill, engine="serial", **UNIT)
    assert run_killed(run, 10**6, work)
    assert tokenizer.encode_files(INPUTS, "tokens.bin", resume=True, **UNIT).kept_units > 0


@needs_fork
@pytest.mark.compiled
@pytest.mark.parametrize("options", [{"resume": True}, {"overwrite": True, "append_token": END}])
def test_rest_of_an_interrupted_exchange_is_removed(
    options: dict[str, Any], work: Path, tokenizer: bpejit.Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer.encode_files(INPUTS, "tokens.bin", **UNIT)
    expected = results(work)
    with monkeypatch.context() as patch:
        patch.setattr(job_folder_module, "exchange_files", lambda *_: os._exit(KILLED))
        again = partial(tokenizer.encode_files, INPUTS, "tokens.bin", engine="serial", overwrite=True, **UNIT)
        assert run_killed(again, 10**6, work)
    assert len(results(work)) > 2 * len(expected), "with second names of the new files"
    report = tokenizer.encode_files(INPUTS, "tokens.bin", **options, **UNIT)
    assert (report.kept_units > 0, set(results(work))) == ("resume" in options, set(expected))


# ---- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "16"}, (3, 16)),
        ({"SLURM_ARRAY_TASK_ID": "16", "SLURM_ARRAY_TASK_COUNT": "16", "SLURM_ARRAY_TASK_MIN": "1"}, (15, 16)),
        ({"RANK": "0", "WORLD_SIZE": "2"}, (0, 2)),
        ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_ARRAY_TASK_ID": "3"}, (1, 2)),
        ({"SLURM_ARRAY_TASK_ID": "20", "SLURM_ARRAY_TASK_COUNT": "16", "SLURM_ARRAY_TASK_MIN": "1"}, "without gaps"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK='x'"),
        ({}, "neither SLURM_ARRAY_TASK_ID"),
    ],
)
def test_shard_of_the_environment(environment: dict[str, str], expected: tuple[int, int] | str) -> None:
    if isinstance(expected, tuple):
        assert parse_shard("auto", environment) == expected
        return
    with pytest.raises(OptionError, match=expected):
        parse_shard("auto", environment)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shard": "3/3"}, "shard is '3/3'; expected I/N with I from 0 to N - 1"),
        ({"shard": "half"}, "shard is 'half'"),
        ({"append_token": "<none>"}, "append_token is '<none>'; expected a special token of the tokenizer"),
        ({"val_fraction": 1}, "val_fraction is 1; expected a number from 0"),
        ({"shard_exact": True}, "shard_exact is True, but there is no number of ids"),
        ({"shard_tokens": 0}, "shard_tokens is 0"),
        ({"out_dir": "x"}, "both of out and out_dir are given"),
        ({"out": None}, "neither of out and out_dir are given"),
        ({"out": "-", "resume": True}, "`-` is a stream"),
        ({"inputs": "-", "resume": True}, "standard input can be read only once"),
        ({"out": "folder/two.txt", "format": "text", "overwrite": True}, "it is one of the inputs"),
        ({"out": "missing/tokens.bin"}, "the folder `missing` does not exist"),
    ],
)
def test_wrong_options(work: Path, tokenizer: bpejit.Tokenizer, options: dict[str, Any], message: str) -> None:
    before = snapshot(work)
    with pytest.raises((OptionError, OutputError, SpecialTokenError), match=message.replace("[", r"\[")):
        tokenizer.encode_files(**({"inputs": INPUTS, "out": "tokens.bin"} | options))
    assert snapshot(work) == before


def test_stream_gets_tokens_of_documents(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    tokenizer.encode_files(INPUTS, "tokens.bin", append_token=END)
    with (work / "stream").open("wb") as stream:
        report = tokenizer.encode_files(INPUTS, stream, append_token=END)
    assert (work / "stream").read_bytes() == (work / "tokens.bin").read_bytes()
    assert report.documents > 10
    assert report.path is None


def test_permissions_and_links_of_outputs_stay(work: Path, tokenizer: bpejit.Tokenizer) -> None:
    (work / "elsewhere").mkdir()
    (work / "tokens.bin").symlink_to(work / "elsewhere" / "real.bin")
    tokenizer.encode_files(INPUTS, "tokens.bin", **UNIT)
    assert (work / "tokens.bin").is_symlink()
    (work / "elsewhere" / "real.bin").chmod(0o640)
    tokenizer.encode_files(INPUTS, "tokens.bin", overwrite=True, **UNIT)
    assert (work / "elsewhere" / "real.bin").stat().st_mode & 0o777 == 0o640
    assert (work / "tokens.bin").is_symlink()


def test_dtype_is_chosen_by_the_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: bpejit.Tokenizer) -> None:
    """As Megatron does, its format takes int32 for fewer tokens than uint16 can hold."""
    (tmp_path / "a.txt").write_bytes(b"a text")
    tokenizer.encode_files(tmp_path / "a.txt", tmp_path / "few", format="megatron")
    monkeypatch.setattr("bpejit.tokenfiles.array_files._UINT16_SIZE", tokenizer.vocab_size)
    tokenizer.encode_files(tmp_path / "a.txt", tmp_path / "many", format="megatron")
    found = [bpejit.open_tokens(tmp_path / f"{name}.bin").dtype for name in ("few", "many")]
    assert found == [np.dtype("uint16"), np.dtype("int32")]
