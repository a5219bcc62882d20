"""Tests of jobs whose outputs are at s3:// URLs, with a server in this process."""

# ruff: noqa: F811 - a fixture is imported

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import data_text, small
from helpers.s3 import Bucket, bucket  # noqa: F401 - a fixture

import bpejit
from bpejit.errors import OptionError, OutputError
from bpejit.jobs import url_store
from bpejit.jobs.job_records import begun_manifest
from bpejit.jobs.url_store import UrlStore
from bpejit.tokenfiles import format_names

pytestmark = pytest.mark.slow  # each job makes some twenty requests

END = "<|endoftext|>"
UNIT = {"unit_bytes": small(9000, 900), "chunk_bytes": small(3000, 300), "engine": "serial"}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "index": {"document_index": True, "append_token": END},
    "shards": {"shard_tokens": small(9000, 900), "append_token": END},
    "validation": {"val_fraction": 0.3, "seed": 5, "shard_tokens": small(9000, 900), "document_index": True},
}


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    tokens = {byte: bytes([byte]) for byte in range(256)} | {256: b"th", 257: b"he", 258: b" a"}
    merges = [(b"t", b"h"), (b"h", b"e"), (b" ", b"a")]
    return bpejit.Tokenizer.from_model(bpejit.Model(tokens=tokens, merges=merges, special_tokens={END: 300}, unicode="16.0"))


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(url_store, "PART_UNITS", 1)
    text = data_text("prose.txt")[: small(50_000, 4000)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.txt").write_bytes(text[: len(text) // 2])
    (tmp_path / "in" / "two.txt").write_bytes(text[len(text) // 2 :])
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stored(bucket: Bucket) -> dict[str, bytes]:
    return {key: bucket.get(key) for key in bucket.list_keys()}


def is_clean(work: Path) -> bool:
    return not list((work / "scratch").iterdir())


@pytest.mark.parametrize("name", OPTIONS)
def test_outputs_equal_local_ones(name: str, tokenizer: bpejit.Tokenizer, bucket: Bucket, work: Path) -> None:
    options = {**UNIT, **OPTIONS[name]}
    (work / "local").mkdir()
    local = tokenizer.encode_files("in", work / "local" / "x.bin", **options)
    report = tokenizer.encode_files("in", f"{bucket.url}/a/x.bin", **options)
    assert {key.removeprefix("a/"): data for key, data in stored(bucket).items()} == files(work / "local")
    assert (report.tokens, report.bytes, report.documents) == (local.tokens, local.bytes, local.documents)
    assert [str(path) for path in report.paths] == [f"{bucket.url}/a/{path.name}" for path in local.paths]
    assert str(report.manifest) == f"{bucket.url}/a/x.bin.manifest.json"
    assert is_clean(work)


@pytest.mark.parametrize("form", sorted({*format_names()} - {"bin"}))
def test_formats(form: str, tokenizer: bpejit.Tokenizer, bucket: Bucket, work: Path) -> None:
    (work / "local").mkdir()
    tokenizer.encode_files("in", work / "local" / "x", format=form, **UNIT)
    tokenizer.encode_files("in", f"{bucket.url}/x", format=form, **UNIT)
    assert stored(bucket) == files(work / "local")


def test_one_output_for_each_input(tokenizer: bpejit.Tokenizer, bucket: Bucket, work: Path) -> None:
    tokenizer.encode_files("in", out_dir=work / "local", **UNIT)
    report = tokenizer.encode_files("in", out_dir=f"{bucket.url}/tokens", **UNIT)
    assert {key.removeprefix("tokens/"): data for key, data in stored(bucket).items()} == files(work / "local")
    assert len(report.paths) == 2
    with pytest.raises(OutputError, match="already exists"):
        tokenizer.encode_files("in", out_dir=f"{bucket.url}/tokens/", **UNIT)


def test_hidden_outputs(tokenizer: bpejit.Tokenizer, bucket: Bucket, work: Path) -> None:
    (work / "in" / "two.txt").rename(work / ".two.txt")
    inputs = ["in/one.txt", ".two.txt"]
    for name, options in (("folder", {"out_dir": "tokens"}), ("file", {"out": ".x.bin", "shard_tokens": small(9000, 900)})):
        (work / name).mkdir()
        where = next(iter(options))
        tokenizer.encode_files(inputs, **{**options, where: work / name / str(options[where])}, **UNIT)
        at_url = {**options, where: f"{bucket.url}/{name}/{options[where]}"}
        report = tokenizer.encode_files(inputs, **at_url, **UNIT)
        found = {key.removeprefix(f"{name}/"): data for key, data in stored(bucket).items() if key.startswith(f"{name}/")}
        assert found == files(work / name)
        assert {str(path).removeprefix(f"{bucket.url}/{name}/") for path in report.paths} <= found.keys()
        with pytest.raises(OutputError, match="already exists"):
            tokenizer.encode_files(inputs, **at_url, **UNIT)
        with pytest.raises(OutputError, match=r"\.two\.txt.*already exists" if name == "folder" else "already exists"):
            tokenizer.encode_files([".two.txt"], **at_url, **UNIT)


def test_existing_outputs(tokenizer: bpejit.Tokenizer, bucket: Bucket, work: Path) -> None:
    out = f"{bucket.url}/x.bin"
    shards = {"shard_tokens": small(9000, 900), "shard_exact": True}
    tokenizer.encode_files("in", out, **shards, **UNIT)
    before = stored(bucket)
    assert len(before) > 6
    with pytest.raises(OutputError, match=rf"cannot write `{bucket.url}/x-00000.bin`: it already exists"):
        tokenizer.encode_files("in", out, **shards, **UNIT)
    assert stored(bucket) == before
    report = tokenizer.encode_files("in", out, **shards, resume=True, **UNIT)  # nothing is left to do
    assert [str(path) for path in report.paths] == [f"{bucket.url}/{key}" for key in sorted(before) if key.endswith(".bin")]
    tokenizer.encode_files("in/one.txt", out, **shards, overwrite=True, **UNIT)
    (work / "local").mkdir()
    tokenizer.encode_files("in/one.txt", work / "local" / "x.bin", **shards, **UNIT)
    assert len(files(work / "local")) < len(before)
    assert stored(bucket) == files(work / "local")  # the shards that are not needed are removed
    url = bucket.put("text.txt", b"text")
    with pytest.raises(OutputError, match="one of the inputs"):
        tokenizer.encode_files(url, url, format="text", overwrite=True)
    assert is_clean(work)


def test_parts_of_several_machines(tokenizer: bpejit.Tokenizer, bucket: Bucket, work: Path) -> None:
    options = {**UNIT, **OPTIONS["validation"]}
    (work / "local").mkdir()
    tokenizer.encode_files("in", work / "local" / "x.bin", **options)
    out = f"{bucket.url}/x.bin"
    with pytest.raises(OutputError, match="there are no parts"):
        bpejit.combine(out)
    report = tokenizer.encode_files("in", out, shard="2/3", **options)
    assert (report.missing_parts, report.paths) == (2, ())
    with pytest.raises(OutputError, match=r"part-2-of-3.tar` is a finished part; expected none: continue"):
        tokenizer.encode_files("in", out, shard="2/3", **options)
    again = tokenizer.encode_files("in", out, shard="2/3", resume=True, **options)
    assert (again.tokens, again.kept_units) == (report.tokens, report.units)
    with pytest.raises(OutputError, match="expected the same job in all parts"):
        tokenizer.encode_files("in", out, shard="0/3", **{**options, "seed": 6})
    with pytest.raises(OutputError, match="it is divided into 3 parts, and this one into 4"):
        tokenizer.encode_files("in", out, shard="0/4", **options)
    with pytest.raises(OutputError, match=r"2 of the 3 parts of .* are not complete: 0, 1"):
        bpejit.combine(out)
    tokenizer.encode_files("in", out, shard="0/3", **options)
    last = tokenizer.encode_files("in", out, shard="1/3", **options)
    assert stored(bucket) == files(work / "local")
    assert len(last.paths) == len([name for name in files(work / "local") if name.endswith(".bin")])
    done = bpejit.combine(out)
    assert [str(path) for path in done.paths] == [str(path) for path in last.paths]
    assert is_clean(work)


class Stopped(Exception):
    pass


def failing(number: int, error: BaseException) -> Any:
    """Return a replacement for `put_file` that fails at its n-th call, without storing anything."""
    left = [number]
    put = UrlStore.put_file

    def fail(self: UrlStore, path: Path, url: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            with self.access(url):
                raise error
        put(self, path, url)

    return fail


@pytest.mark.parametrize(
    ("error", "stride"),
    [(KeyboardInterrupt(), small(6, 9)), (PermissionError("denied"), 9), (OSError("SlowDown"), small(11, 9))],
)
def test_interrupted_anywhere(
    error: BaseException,
    stride: int,
    tokenizer: bpejit.Tokenizer,
    bucket: Bucket,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {**UNIT, **OPTIONS["shards"]}
    (work / "local").mkdir()
    tokenizer.encode_files("in", work / "local" / "x.bin", **options)
    expected = files(work / "local")
    interrupted = 0
    for number in range(0, 40, stride):
        out = f"{bucket.url}/{number}/x.bin"
        with monkeypatch.context() as patch:
            patch.setattr(UrlStore, "put_file", failing(number, error))
            try:
                tokenizer.encode_files("in", out, **options)
                break
            except (KeyboardInterrupt, OutputError) as raised:
                interrupted += 1
                if isinstance(raised, OutputError):
                    assert "access is denied" in str(raised) or "SlowDown" in str(raised)  # noqa: PT017
        assert f"{number}/x.bin.manifest.json" not in bucket.list_keys()
        kept = UrlStore(out, False).kept()
        report = tokenizer.encode_files("in", out, resume=True, **options)
        assert report.kept_units == (0 if kept is None else kept.units)
        found = {key.partition("/")[2]: bucket.get(key) for key in bucket.list_keys() if key.startswith(f"{number}/")}
        assert found == expected, number
        assert is_clean(work)
    assert interrupted > 1


def test_unfinished_jobs(
    tokenizer: bpejit.Tokenizer,
    bucket: Bucket,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = f"{bucket.url}/x.bin"
    with monkeypatch.context() as patch:
        patch.setattr(UrlStore, "put_file", failing(2, KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            tokenizer.encode_files("in", out, **UNIT)
    assert [key for key in bucket.list_keys() if key.endswith(".tar")] == [
        f".x.bin.bpejit-job/part-{part}-of-{total}.tar"
        for part in range(2)
        for total in [json.loads(bucket.get(".x.bin.bpejit-job/manifest.json"))["parts"]]
    ]
    with pytest.raises(OutputError, match=r"keeps 2 finished parts of an unfinished job; expected none: continue it with"):
        tokenizer.encode_files("in", out, **UNIT)
    with pytest.raises(
        OutputError,
        match=r"keeps 2 finished parts .* but it has no `append_token=`, and this one has `append_token=.<.endoftext.>.`",
    ):
        tokenizer.encode_files("in", out, append_token=END, resume=True, **UNIT)
    plan = tokenizer.encode_files("in", out, resume=True, dry_run=True, **UNIT)
    assert plan.kept_units == 2
    tokenizer.encode_files("in", out, append_token=END, overwrite=True, **UNIT)
    (work / "local").mkdir()
    tokenizer.encode_files("in", work / "local" / "x.bin", append_token=END, **UNIT)
    assert stored(bucket) == files(work / "local")


def test_exchanged_and_damaged_parts_are_refused(tokenizer: bpejit.Tokenizer, bucket: Bucket, work: Path) -> None:
    out = f"{bucket.url}/x.bin"
    for part in range(2):
        tokenizer.encode_files("in", out, shard=(part, 3), **UNIT)
    names = [f".x.bin.bpejit-job/part-{part}-of-3.tar" for part in range(2)]
    data = [bucket.get(name) for name in names]
    bucket.put(names[1], data[0])
    with pytest.raises(OutputError, match=r"part-1-of-3\.tar` belongs to part 0 of 3 .*, and not to part 1 of 3"):
        tokenizer.encode_files("in", out, shard=(1, 3), resume=True, **UNIT)
    with pytest.raises(OutputError, match=r"is damaged|belongs to part 0 of 3"):
        tokenizer.encode_files("in", out, shard=(2, 3), **UNIT)
    bucket.put(names[1], data[1])
    flipped = bytearray(data[0])
    flipped[len(flipped) // 2] ^= 1
    bucket.put(names[0], bytes(flipped))
    with pytest.raises(OutputError, match=rf"`{bucket.url}/{names[0]}.* is damaged: .*: remove `{bucket.url}/{names[0]}`"):
        bpejit.combine(out)
    bucket.put(names[0], data[0])
    bpejit.combine(out)
    (work / "local").mkdir()
    tokenizer.encode_files("in", work / "local" / "x.bin", **UNIT)
    assert stored(bucket) == files(work / "local")


def test_two_runs_at_the_same_time(tokenizer: bpejit.Tokenizer, bucket: Bucket, work: Path) -> None:
    out = f"{bucket.url}/x.bin"
    errors: list[BaseException] = []

    def encode() -> None:
        try:
            tokenizer.encode_files("in", out, **UNIT)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=encode) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (work / "local").mkdir()
    tokenizer.encode_files("in", work / "local" / "x.bin", **UNIT)
    # A run that is late may store a part after the job is complete; there are no locks that would prevent it.
    assert {name: data for name, data in stored(bucket).items() if not name.startswith(".x.bin.bpejit-job/")} == files(
        work / "local"
    )
    assert all(isinstance(error, OutputError) for error in errors), errors
    # Another job is refused while the claim of the first one exists, even before a part is finished.
    UrlStore(f"{bucket.url}/y.bin", False).claim(begun_manifest({"format": "npy"}, 2))
    with pytest.raises(OutputError, match=r"keeps 0 finished parts of an unfinished job, but it has .*wait if it is at work"):
        tokenizer.encode_files("in", f"{bucket.url}/y.bin", **UNIT)


def test_errors(tokenizer: bpejit.Tokenizer, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OutputError, match="the bucket `no-such-bucket-here` does not exist"):
        tokenizer.encode_files("in", "s3://no-such-bucket-here/x.bin", **UNIT)
    with pytest.raises(OptionError, match="can be read only once"):
        tokenizer.encode_files(iter(["text"]), f"{bucket.url}/x.bin", resume=True)
    tokenizer.encode_files(iter(["text"]), f"{bucket.url}/x.bin")
    assert bucket.get("x.bin") == b"".join(byte.to_bytes(2, "little") for byte in b"text")


def test_local_outputs_import_no_fsspec(tokenizer: bpejit.Tokenizer, work: Path) -> None:
    tokenizer.save(work / "tokenizer")
    script = (
        "import bpejit, sys; bpejit.load('tokenizer').encode_files('in', 'x.bin', resume=True); "
        "assert 'fsspec' not in sys.modules and 's3fs' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = tokenizer.encode_files("in", f"file://{work}/y.bin")
    assert report.path == work / "y.bin"
