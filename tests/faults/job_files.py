"""Damaged files of unfinished jobs: the resumed job is refused, or has the bytes of an uninterrupted one."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from conftest import data_text
from helpers.datagen import write_lines, write_problem

import bpejit
from bpejit.errors import BpejitError
from bpejit.jobs import final_files
from tests.faults.area import WrongError
from tests.faults.commands import Files, read_files

TITLE = "damaged, truncated, extended and exchanged files of unfinished jobs, resumed"
CASES = 200
TIMEOUT = 120.0

END = "<|endoftext|>"
TEXT = {"inputs": ["a.txt", "b.txt"], "unit_bytes": 12_000, "chunk_bytes": 3000, "engine": "serial"}
JOBS: dict[str, dict[str, Any]] = {
    "plain": {**TEXT, "out": "out/t.bin"},
    "shards": {
        **TEXT,
        "out": "out/t.bin",
        "shard_tokens": 9000,
        "val_fraction": 0.2,
        "append_token": END,
        "document_index": True,
    },
    "npy": {**TEXT, "out": "out/t.npy", "format": "npy", "document_index": True},
    "megatron": {**TEXT, "out": "out/t", "format": "megatron", "shard_tokens": 20_000},
    "parquet": {**TEXT, "out": "out/t.parquet", "format": "parquet", "shard_tokens": 8000},
    "rows": {**TEXT, "out": "out/t.arrow", "format": "arrow", "pack": 256, "append_token": END},
    "columns": {**TEXT, "inputs": "c.jsonl", "out": "out/t.parquet", "format": "parquet", "keep_columns": ["n"]},
    "inputs": {**TEXT, "out_dir": "out", "prepend_token": END},
    "data set": {"problem": "pairs.toml", "data_dir": "out", "unit_bytes": 12_000, "engine": "serial", "seed": 7},
}
STATES = ("interrupted", "interrupted", "complete", "joining", "finishing")
DAMAGE = ("flip", "flip", "digit", "truncate", "extend", "zeros", "exchange", "exchange parts", "remove")


class Shared(NamedTuple):
    """The folder with the inputs, and the files of each job."""

    folder: Path
    expected: dict[str, Files]


class Interrupt:
    """Progress that raises an exception in a stage, at some call."""

    def __init__(self, stage: str, calls: int) -> None:
        self.stage, self.left = stage, calls

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        if stage == self.stage:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt


def prepare(folder: Path) -> Shared:
    """Make the inputs, and run each job without faults."""
    text = data_text("prose.txt").decode()[:60_000]
    documents = [text[start : start + 700] for start in range(0, len(text), 700)]
    (folder / "a.txt").write_bytes(END.join(documents[:40]).encode())
    (folder / "b.txt").write_bytes(END.join(documents[40:]).encode())
    rows = [json.dumps({"text": document, "n": number}) for number, document in enumerate(documents)]
    (folder / "c.jsonl").write_text("\n".join(rows))
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    write_lines(folder / "source.txt", lines)
    write_lines(folder / "target.txt", [line[::-1].strip() for line in lines])
    splits = [{"split": "train", "shards": 3, "inputs": "source.txt", "targets": "target.txt"}, {"split": "eval", "shards": 1}]
    write_problem(folder / "pairs.toml", splits, approx_vocab_size=400)
    tokens = {byte: bytes([byte]) for byte in range(256)} | {256: b"th", 257: b"he"}
    model = bpejit.Model(tokens=tokens, merges=[(b"t", b"h"), (b"h", b"e")], special_tokens={END: 300}, unicode="16.0")
    bpejit.Tokenizer.from_model(model).save(folder / "tokenizer")
    expected = {}
    with working_in(folder):
        for name in JOBS:
            run(name)
            expected[name] = read_files(Path("out"))
            shutil.rmtree("out")
    return Shared(folder, expected)


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Work in a folder, with small blocks, so that files are begun while their spools grow."""
    home = Path.cwd()
    os.chdir(folder)
    try:
        with mock.patch.object(final_files, "BLOCK_TOKENS", 2000):
            yield
    finally:
        os.chdir(home)


def run(name: str, **options: Any) -> None:
    """Run a job, or a part of it."""
    job = JOBS[name] | options
    Path("out").mkdir(exist_ok=True)
    if "problem" in job:
        bpejit.generate_data(**job)
    else:
        bpejit.load("tokenizer").encode_files(**job)


def combine(name: str) -> None:
    bpejit.combine(JOBS[name].get("out", "out/pairs" if name == "data set" else "out"))


def leave_unfinished(name: str, state: str, case: random.Random) -> int:
    """Interrupt a job in a state, and return the number of its parts."""
    parts = case.choice([2, 3]) if state == "joining" else case.choice([1, 1, 2, 3])
    stage = {"joining": "shuffle" if name == "data set" else "combine", "finishing": ""}.get(state, "encode")
    for part in range(parts):
        some: dict[str, Any] = {"shard": (part, parts)} if parts > 1 else {}
        if state == "complete" and parts > 1 and part == parts - 1:
            break  # the others are complete
        calls = case.randrange(2, 6 if name == "data set" else 14) if stage == "encode" else case.randrange(3)
        progress = Interrupt(stage, calls) if state != "complete" or parts == 1 else None
        with suppress(KeyboardInterrupt), interrupting_exchange(state == "finishing"):
            run(name, progress=progress, **some)
    return parts


@contextmanager
def interrupting_exchange(wanted: bool) -> Iterator[None]:
    """Interrupt a job when its files are about to get their names."""
    if not wanted:
        yield
        return
    with mock.patch("bpejit.jobs.folder_store.exchange", side_effect=KeyboardInterrupt):
        yield


def damage(folder: Path, kind: str, case: random.Random) -> str:
    """Damage a file of a job; return which."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock" and path.stat().st_size)
    if kind == "exchange parts":
        parts = sorted(folder.glob("part-*"))
        if len(parts) > 1:
            first, second = case.sample(parts, 2)
            shutil.rmtree(first)
            shutil.copytree(second, first)
            return f"{second.name} copied over {first.name}"
        kind = "exchange"
    suffix = case.choice(sorted({path.suffix for path in files}))  # small files of each kind as often as large ones
    path = case.choice([path for path in files if path.suffix == suffix])
    data = bytearray(path.read_bytes())
    place = case.randrange(len(data))
    if kind == "exchange":
        other = case.choice([one for one in files if one.suffix == suffix])
        content = other.read_bytes()
        other.write_bytes(bytes(data))
        data = bytearray(content)
    elif kind == "digit" and (digits := [at for at, byte in enumerate(data) if 48 <= byte < 58]):
        data[case.choice(digits)] = case.randrange(48, 58)
    elif kind == "truncate":
        del data[place:]
    elif kind == "extend":
        data += case.randbytes(case.randrange(1, 50)) if case.random() < 0.5 else data[place:]
    elif kind == "zeros":
        data[place : place + 100] = bytes(len(data[place : place + 100]))
    elif kind == "remove":
        path.unlink()
        return f"{path.relative_to(folder)} removed"
    else:
        data[place] ^= 1 << case.randrange(8)
    if path.stat().st_nlink > 1:
        path.unlink()
    path.write_bytes(data)
    return f"{kind} in {path.relative_to(folder)}"


def attempt(shared: Shared, case: random.Random, number: int) -> str:
    """Interrupt a job, damage one of its files, resume it, and compare the result."""
    name = case.choice(list(JOBS))
    state = case.choice(STATES)
    with working_in(shared.folder):
        shutil.rmtree("out", ignore_errors=True)
        parts = leave_unfinished(name, state, case)
        jobs = [path for path in Path().glob("out/.*") if path.name.endswith(".bpejit-job")]
        if not jobs:
            return "finished before the fault"
        what = f"{name}, {state}, {parts} parts: {damage(jobs[0], case.choice(DAMAGE), case)}"
        try:
            for part in range(parts):
                run(name, resume=True, **({"shard": (part, parts)} if parts > 1 else {}))
            if parts > 1:
                combine(name)
        except BpejitError:
            return "refused"
        except Exception as error:
            raise WrongError(f"{what}: {type(error).__name__}: {error}") from error
        found = read_files(Path("out"))
    expected = shared.expected[name]
    if found != expected:
        different = [file for file in {*found, *expected} if found.get(file) != expected.get(file)]
        raise WrongError(f"{what}: {sorted(different)} differ")
    return "equal"
