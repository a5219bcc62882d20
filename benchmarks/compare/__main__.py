"""The command: `python -m benchmarks.compare --help`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from . import machine, report, results
from .corpora import Corpora, MissingInputError
from .measure import Context, measure
from .processes import run_job
from .settings import SIZES, TARGETS, Settings
from .targets import TARGET_TOOLS, is_target, target_works, targets_table
from .tools import TOOLS, get_tool
from .vocabularies import Vocabularies
from .works import WORKS, get_work


def pair(text: str) -> tuple[str, str]:
    """Parse NAME=FILE."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, got {text!r}")
    return name, value


def words(allowed: tuple[str, ...] | None = None) -> Callable[[str], list[str]]:
    """Return a parser of comma-separated words."""

    def parse(text: str) -> list[str]:
        found = [one for one in text.split(",") if one]
        for one in found:
            if allowed and one not in allowed:
                raise argparse.ArgumentTypeError(f"expected one of {', '.join(allowed)}, got {one!r}")
        return found

    return parse


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        description="Compare bpejit with the other tokenizers that are installed; `make bench` installs them.",
        epilog=f"Works: {', '.join(WORKS)}. Tools: {', '.join(TOOLS)}.",
    )
    add = made.add_argument
    add("--work", type=words(tuple(WORKS)), help="comma-separated works (default: all)")
    add("--tools", type=words(tuple(TOOLS)), default=[], help="comma-separated tools (default: all that are installed)")
    add("--size", choices=SIZES, default="full", help="full; quick, to see that everything works; toy, for the tests")
    add("--corpora", type=words(), help="comma-separated texts, such as english,code,chinese,japanese,hard,prose,cjk")
    add("--corpus", type=pair, action="append", default=[], metavar="NAME=FILE", help="a text of your own; may be repeated")
    add("--vocabularies", type=words(), help="comma-separated vocabularies: gpt2,cl100k,o200k,trained")
    vocabulary_help = "a rank file, or vocab.json,merges.txt; may be repeated"
    add("--vocabulary", type=pair, action="append", default=[], metavar="NAME=FILE", help=vocabulary_help)
    add("--rounds", type=int, help="fresh processes for each figure")
    add("--workers", type=int, help="processes or threads, where a work has several")
    add("--limit", type=int, help="bytes of each text")
    add("--timeout", type=float, help="seconds after which a process is stopped")
    results_help = "folder of the JSON lines (default: benchmarks/results; without --size full, none)"
    add("--results", type=Path, help=results_help)
    add("--targets", action="store_true", help="measure the cases of the table of targets in one run")
    add("--report", action="store_true", help="measure nothing: render the pages and the chart from the results")
    return made


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the settings: those of the size, replaced by the options that are given."""
    given = {field.name: getattr(options, field.name, None) for field in fields(Settings)}
    base = {**(TARGETS if options.targets else {}), **SIZES[options.size]}
    return Settings(**{**base, **{name: value for name, value in given.items() if value is not None}})


def prepare(context: Context) -> None:
    """Compile the kernels, so that no job compiles them, and touch memory, so that no job waits for the host to provide it."""
    machine.warm_memory(context.settings.warm_bytes)
    for name in context.tools:
        tool = get_tool(name)
        if tool.package == "bpejit" and not tool.is_reference:
            command = [tool.interpreter, "-m", "benchmarks.compare.worker"]
            run_job(command, {"work": "", "tool": name, "params": {}, "save": None}, environment=tool.environment)


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = parser().parse_args(arguments)
    if options.report:
        report.render_files(options.results or results.RESULTS)
        return 0
    works = target_works() if options.targets else list(WORKS)
    if unknown := [name for name in options.work or () if name not in works]:
        parser().error(f"argument --work: with --targets, expected one of {', '.join(works)}, got {unknown[0]!r}")
    in_part = bool(options.work)
    options.work = options.work or works
    if options.targets:
        options.tools = options.tools or TARGET_TOOLS
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bpejit-benchmarks-") as name:
        folder, settings = Path(name), settings_of(options)
        corpora = Corpora(folder, {name: Path(path) for name, path in options.corpus}, limit=settings.limit)
        vocabularies = Vocabularies(folder, dict(options.vocabulary))
        context = Context(settings, folder, corpora, vocabularies, options.tools)
        if missing := [name for name in TOOLS if name not in context.versions]:
            context.say(f"not available: {', '.join(missing)}")
        prepare(context)
        described = machine.machine()
        stored = options.results or results.RESULTS
        path = (stored / "targets" if options.targets else stored) / machine.file_name(described)
        # All figures of the table of targets are of one run.
        stores = options.results is not None or (options.size == "full" and not (options.targets and in_part))
        if stores and options.targets:
            path.unlink(missing_ok=True)
        try:
            for name in options.work:
                started = time.perf_counter()
                work = get_work(name)
                for case in work.cases(context):
                    if options.targets and not is_target(name, case.key):
                        continue
                    measure(context, work, case)
                    if stores:  # after each case, so that an interrupted run loses only one
                        results.write(path, described, context.results)
                context.say(f"{name}: {time.perf_counter() - started:.0f} s")
        except MissingInputError as error:
            context.say(f"error: {error}")
            return 1
    if stores:
        context.say(f"wrote {path.name}")
        if not options.results:
            report.render_files()
    elif context.results and options.targets:
        print(targets_table(described, context.results, options.work))
    elif context.results:
        print(report.tables_block(report.Measured([described, *context.results])))
    context.say(f"{time.perf_counter() - begun:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
