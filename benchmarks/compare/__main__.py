"""The command: `python -m benchmarks.compare --help`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from . import (
    machine,
    report,
    results,
    work_baseline,
    work_calls,
    work_encode,
    work_encode_file,
    work_scaling,
    work_split,
    work_start,
    work_train,
)
from .context import Context
from .corpora import Corpora, MissingInputError
from .processes import run_job
from .tools import TOOLS
from .vocabularies import Vocabularies

WORKS: dict[str, Callable[[Context], None]] = {
    "train": work_train.run,
    "encode": work_encode.run,
    "encode-file": work_encode_file.run,
    "split": work_split.run,
    "long": work_calls.run_long,
    "short": work_calls.run_short,
    "start": work_start.run,
    "baseline": work_baseline.run,
    "scaling": work_scaling.run,
}

QUICK = {
    "rounds": 1,
    "limit": 1_000_000,
    "vocab_size": 4_000,
    "file_bytes": 16_000_000,
    "long_sizes": [10_000, 100_000],
    "first_runs": 0,
    "baseline_bytes": 100_000,
    "baseline_merges": 100,
    "scaling_sizes": [100_000, 1_000_000],
    "scaling_vocabularies": [1_000, 4_000],
}
"""Settings of --quick, for those that are not named."""

FULL = {
    "rounds": 5,
    "limit": None,
    "vocab_size": 32_000,
    "file_bytes": 400_000_000,
    "long_sizes": [100_000, 1_000_000, 10_000_000],
    "first_runs": 1,
    "baseline_bytes": 1_000_000,
    "baseline_merges": 1_000,
    "scaling_sizes": [1_000_000, 10_000_000, 100_000_000],
    "scaling_vocabularies": [1_000, 4_000, 16_000, 64_000, 128_000],
}


def pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE")
    return name, value


def numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def words(allowed: tuple[str, ...] | None = None) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        found = [one for one in text.split(",") if one]
        for one in found:
            if allowed and one not in allowed:
                raise argparse.ArgumentTypeError(f"{one!r} is not one of {', '.join(allowed)}")
        return found

    return parse


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        description="Compare bpejit with the other tokenizers that are installed (pip install -e '.[bench]').",
        epilog="Works: " + ", ".join(WORKS) + ". `--report` alone renders the tables of what was measured before.",
    )
    add = made.add_argument
    add("--work", type=words(tuple(WORKS)), default=list(WORKS), help="works, with commas between (default: all)")
    add("--tools", type=words(tuple(TOOLS)), default=[], help="tools besides bpejit (default: all that are installed)")
    add("--corpora", type=words(), default=[], help="names of texts, such as english,code,chinese,japanese,hard,prose,cjk")
    add("--corpus", type=pair, action="append", default=[], metavar="NAME=FILE", help="a text of your own; may be repeated")
    add("--vocabularies", type=words(), default=[], help="gpt2,cl100k,o200k,trained")
    add(
        "--vocabulary",
        type=pair,
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="a rank file, or vocab.json,merges.txt",
    )
    add("--quick", action="store_true", help="small inputs, one run: to see that everything works; results are not kept")
    add("--rounds", type=int, help="fresh processes per measurement")
    add("--limit", type=int, help="use only so many bytes of each text")
    add("--vocab-size", type=int, help="of the vocabularies to train")
    add("--workers", type=int, default=machine.cores(), help="workers and threads, where there are several")
    add("--timeout", type=float, default=90.0, help="seconds after which a run is stopped")
    add("--file-bytes", type=int, help="size of the text of encode-file")
    add("--long-sizes", type=numbers, help="sizes of the one pre-token, with commas between")
    add("--first-runs", type=int, help="how often to compile everything anew")
    add("--baseline-bytes", type=int)
    add("--baseline-merges", type=int)
    add("--scaling-sizes", type=numbers)
    add("--scaling-vocabularies", type=numbers)
    add("--results", type=Path, help="folder of the JSON lines (default: benchmarks/results; with --quick, none)")
    add("--report", action="store_true", help="measure nothing, render README.md and benchmarks/README.md")
    return made


def neutral_command(arguments: list[str]) -> str:
    """The command without the folders of this machine."""
    shown = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if equals and os.sep in value:
            argument = name + "=" + ",".join(Path(one).name for one in value.split(","))
        elif os.sep in argument:
            argument = Path(argument).name
        shown.append(argument)
    return " ".join(["python -m benchmarks.compare", *shown])


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(given)
    for name, value in (QUICK if options.quick else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    folder = options.results or results.RESULTS
    if options.report:
        report.render_files(folder)
        return 0
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bpejit-benchmarks-") as work_folder:
        corpora = Corpora(Path(work_folder), {name: Path(path) for name, path in options.corpus}, limit=options.limit)
        vocabularies = Vocabularies(Path(work_folder), dict(options.vocabulary))
        context = Context(options, Path(work_folder), corpora, vocabularies)
        missing = [name for name in TOOLS if name not in context.versions]
        if missing:
            context.say(f"not installed, and so not compared: {', '.join(missing)}")
        prepared = run_job("prepare", {})
        if prepared["compiled"]:
            context.say(f"compiled bpejit's kernels in {prepared['seconds']:.0f} s")
        try:
            for name in options.work:
                started = time.perf_counter()
                WORKS[name](context)
                context.say(f"{name}: {time.perf_counter() - started:.0f} s")
        except MissingInputError as error:
            context.say(f"error: {error}")
            return 1
        run = context.run_record(neutral_command(given))
    if options.results or not options.quick:
        path = folder / f"{machine.machine_kind()}.jsonl"
        results.write(path, run, context.results)
        context.say(f"wrote {path.name}")
        if not options.results:
            report.render_files(folder)
    else:
        print(report.tables([run, *context.results]))
    context.say(f"{time.perf_counter() - begun:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
