"""Commands of bpejit that write files, as processes that faults are injected into."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from conftest import data_text
from helpers.cli import COMMAND, ENVIRONMENT

from tests.faults.area import WrongError

Done = subprocess.CompletedProcess[str]
Files = dict[str, bytes]


class Task(NamedTuple):
    """A command that writes to the subfolder `out` of its working directory."""

    name: str
    arguments: list[str]


TASKS = [
    Task("train", ["train", "corpus.txt", "--vocab-size", "400", "--out", "out/tokenizer"]),
    Task("encode", ["encode", "corpus.txt", "--tokenizer", "tokenizer", "--out", "out/tokens.bin"]),
    Task("decode", ["decode", "tokens.bin", "--tokenizer", "tokenizer", "--out", "out/back.txt"]),
    Task("export hf", ["export", "tokenizer", "--to", "hf", "--out", "out/hf"]),
    Task("export tiktoken", ["export", "tokenizer", "--to", "tiktoken", "--out", "out/mine.tiktoken"]),
    Task("export gpt2", ["export", "tokenizer", "--to", "gpt2", "--out", "out/gpt2"]),
]


class Shared(NamedTuple):
    """The initial state of all cases.

    Parameters
    ----------
    folder : path
        The inputs.
    expected : dict of str to dict
        What each task writes to `out`.
    older : dict of str to dict
        The same for another tokenizer, as an older output.
    seconds : dict of str to float
        How long each task takes.
    """

    folder: Path
    expected: dict[str, Files]
    older: dict[str, Files]
    seconds: dict[str, float]


def read_files(folder: Path) -> Files:
    """Return the contents of all files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def write_files(folder: Path, files: Files) -> None:
    """Write files below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def run(task: Task, folder: Path, *more: str, program: list[str] | None = None, **options: Any) -> Done:
    """Run the command of a task to completion."""
    return subprocess.run(
        [*(program or COMMAND), *task.arguments, *more],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        check=False,
        **options,
    )


def prepare(folder: Path) -> Shared:
    """Make inputs, and run each task on them and on others."""
    text = data_text("prose.txt") + data_text("cjk.txt")
    made: list[dict[str, Files]] = []
    seconds: dict[str, float] = {}
    for name, corpus, vocab_size in (("older", text[:200_000], "300"), ("inputs", text * 4, "400")):
        inputs = folder / name
        inputs.mkdir()
        (inputs / "corpus.txt").write_bytes(corpus)
        for arguments in (
            ["train", "corpus.txt", "--vocab-size", vocab_size, "--special-token", "<|endoftext|>", "--out", "tokenizer"],
            ["encode", "corpus.txt", "--tokenizer", "tokenizer", "--out", "tokens.bin"],
        ):
            succeed(run(Task("inputs", arguments), inputs))
        outputs: dict[str, Files] = {}
        for task in TASKS:
            start = time.monotonic()
            (inputs / "out").mkdir()
            succeed(run(task, inputs))
            seconds[task.name] = time.monotonic() - start
            outputs[task.name] = read_files(inputs / "out")
            shutil.rmtree(inputs / "out")
        made.append(outputs)
    return Shared(folder / "inputs", made[1], made[0], seconds)


def succeed(done: Done) -> None:
    """Raise an exception if a command failed."""
    if done.returncode:
        raise WrongError(f"{' '.join(done.args)} ended with {done.returncode}:\n{done.stderr[-2000:]}")


def begin(shared: Shared, task: Task, *, replaces: bool) -> Path:
    """Return the folder to run a task in, with nothing in `out`, or with an older output."""
    out = shared.folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    if replaces:
        write_files(out, shared.older[task.name])
    return shared.folder


def check_files(shared: Shared, task: Task, *, replaces: bool) -> str:
    """Check that every file of an output is whole; return whether the output is old, new, absent or in between."""
    found = read_files(shared.folder / "out")
    new = shared.expected[task.name]
    old = shared.older[task.name] if replaces else {}
    for name, content in found.items():
        if name in new and content not in (new[name], old.get(name)):
            raise WrongError(f"{task.name}: `{name}` is half-written: {len(content)} bytes, {content[:60]!r}")
    outputs = {name: content for name, content in found.items() if name in new or name in old}
    if outputs == new:
        return "new output"
    if outputs == old:
        return "old output" if replaces else "no output"
    return "between the two"


def check_repeated(shared: Shared, task: Task, *, replaces: bool) -> None:
    """Run the command again: it completes, is resumed, or reports that the whole output exists; nothing else is left."""
    before = check_files(shared, task, replaces=replaces)
    found = sorted(read_files(shared.folder / "out"))
    more = ["--overwrite"] if replaces else []
    done = run(task, shared.folder, *more)
    if done.returncode == 1 and "continue it with `--resume`" in done.stderr:  # an encoding job keeps what it has finished
        done = run(task, shared.folder, *more, "--resume")
    exists = done.returncode == 1 and "already exists" in done.stderr and before == "new output"
    if done.returncode and not exists:
        raise WrongError(f"{task.name}: run again over {found}, the command fails: {done.stderr[-1000:]}")
    left = read_files(shared.folder / "out")
    if left != shared.expected[task.name] and (not exists or check_files(shared, task, replaces=replaces) != "new output"):
        raise WrongError(f"{task.name}: run again over {found}, it leaves {sorted(left)}: {done.stderr[-1000:]}")
