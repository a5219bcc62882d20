"""Starting: help, a small text with everything compiled, and the first run on a machine, when nothing is."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from .context import Context, add_ratios, interleaved
from .corpora import ROOT, cut
from .processes import JobError, run_command, run_job
from .work_encode import ONE_THREAD


def command() -> list[str]:
    """The installed command, or the module where it is not installed."""
    script = Path(sys.executable).parent / "bpejit"
    return [str(script)] if script.is_file() else [sys.executable, "-m", "bpejit"]


def checked_command(words: list[str], **more: Any) -> dict[str, Any]:
    found = run_command([*command(), *words], **more)
    if found["exit_code"]:
        raise JobError(f"bpejit {words[0]} failed:\n{found['stderr'][-2000:]}")
    return found


def run(context: Context) -> None:
    options = context.options
    vocabulary = context.vocabulary((options.vocabularies or context.vocabularies.names())[0])
    prose = (ROOT / "tests" / "data" / "prose.txt").read_bytes()
    small = context.folder / "1KB.txt"
    small.write_bytes(cut(prose, 1_000))
    out = context.folder / "start.bin"
    encode = ["encode", str(small), "--out", str(out), "--tokenizer", str(vocabulary.saved), "--overwrite"]
    context.say("start: commands")
    checked_command(encode)
    runs = {"help": lambda: checked_command(["--help"]), "encode 1 KB": lambda: checked_command(encode)}
    for what, found in interleaved(runs, dict.fromkeys(runs, options.rounds)).items():
        case = {"what": what} if what == "help" else {"what": what, "vocabulary": vocabulary.name}
        context.record("start", case, "bpejit", {"seconds": [one["process_seconds"] for one in found]})
    in_python(context, vocabulary, small)
    if options.first_runs:
        first_run(context, prose)


def in_python(context: Context, vocabulary: Any, small: Path) -> None:
    """A Python process that imports a tool, loads a vocabulary and encodes 1 KB."""
    context.say("start: in Python")
    case = {"what": "import, load, encode 1 KB", "vocabulary": vocabulary.name}
    params = {"vocabulary": vocabulary.params(), "path": str(small)}

    def job(tool: str) -> dict[str, Any]:
        return run_job("start", {**params, "tool": tool}, environment=ONE_THREAD, timeout=context.options.timeout)

    begun = len(context.results)
    checked = {}
    for tool in context.encoders:
        try:
            checked[tool] = job(tool)
        except JobError as error:
            checked[tool] = {"cannot": str(error).splitlines()[-1]}
    allowed = [tool for tool, found in checked.items() if found.get("sha256") == checked["bpejit"]["sha256"]]
    runs = {tool: lambda tool=tool: job(tool) for tool in allowed}
    measured = interleaved(runs, dict.fromkeys(runs, context.options.rounds))
    for tool, found in checked.items():
        if tool in allowed:
            context.record("start", case, tool, {"seconds": [one["process_seconds"] for one in measured[tool]]}, equal=True)
        else:
            context.refuse("start", case, tool, found.get("cannot", "its ids differ from bpejit's"))
    add_ratios(context.results[begun:], "seconds")


def first_run(context: Context, prose: bytes) -> None:
    """Train, encode and decode with an empty cache of kernels: whatever each of them still has to compile."""
    context.say("start: first run on a machine")
    corpus = context.folder / "first.txt"
    corpus.write_bytes(cut(prose, 100_000))
    tokenizer, tokens = context.folder / "first-tokenizer", context.folder / "first.bin"
    works = {
        "train": ["train", str(corpus), "--vocab-size", "1000", "--out", str(tokenizer)],
        "encode": ["encode", str(corpus), "--out", str(tokens), "--tokenizer", str(tokenizer)],
        "decode": ["decode", str(tokens), "--out", str(context.folder / "first-back.txt"), "--tokenizer", str(tokenizer)],
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    says = True
    for _ in range(context.options.first_runs):
        with tempfile.TemporaryDirectory() as empty:
            environment = {"NUMBA_CACHE_DIR": empty, "BPEJIT_CACHE": "1"}
            for name, words in works.items():
                found = checked_command([*words, "--overwrite"], environment=environment)
                seconds[name].append(found["process_seconds"])
                says = says and (name != "train" or "compil" in found["stderr"])
    metrics = {f"{name}_seconds": values for name, values in seconds.items()}
    metrics["seconds"] = [sum(values) for values in zip(*seconds.values(), strict=True)]
    context.record("start", {"what": "first run"}, "bpejit", metrics, says_so=says)
