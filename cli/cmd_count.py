"""`bpejit count`, `bpejit merge-counts` and `bpejit counts`, and what they share with `bpejit train`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import bpejit
from bpejit.counting.count_options import CountOptions, PlanOptions, SplitSettings
from bpejit.options import chosen

from . import shared_options as shared
from .command_types import Group, command
from .progress import Progress, counted, format_bytes, format_estimate, format_seconds, telling_what_is_kept, watch
from .reporting import check_json_output, fields_of, write_report, wrote

if TYPE_CHECKING:
    from bpejit import Counts
    from bpejit.counting.count_corpus import CountPlan

counts_argument = shared.path_argument("path", "COUNTS")


def finish_plan(
    progress: Progress, plan: CountPlan, out: str, *, then: str = "", after: str, notes: Sequence[str] = ()
) -> None:
    """Report a plan of counting: what follows it (`then`), and what the expected time does not include (`after`)."""
    size = "input of unknown size" if plan.bytes is None else format_bytes(plan.bytes)
    workers, parts = counted(plan.workers, "worker"), counted(plan.parts, "part")
    where = f"in {parts}, on {plan.cluster}" if plan.cluster else f"with {workers}"
    expected = ""
    if plan.pretokens:
        expected = f"; expected: {format_estimate(plan.pretokens)} pre-tokens in {format_seconds(plan.seconds)}, {after}"
    memory = "grows with the number of distinct pre-tokens, unless `--max-memory` bounds it"
    if plan.max_memory is not None:
        memory = f"at most {format_bytes(plan.max_memory)}"
    progress.finish(
        f"would count {size} {where}{then} to `{out}`{expected}; memory of counting: {memory}",
        notes=notes,
        out=out,
        bytes=plan.bytes,
        pretokens=plan.pretokens or None,
        workers=plan.workers,
        parts=plan.parts or None,
        cluster=plan.cluster or None,
        **fields_of(plan, "max_memory", "seconds"),
        dry_run=True,
    )


def _totals(counts: Counts) -> dict[str, Any]:
    """Return the totals of counts for a JSON report."""
    return {
        "bytes": counts.n_bytes,
        "pretokens": counts.n_pretokens,
        "distinct_pretokens": len(counts),
        "skipped_records": sum(entry.get("skipped", 0) for entry in counts.header.inputs),
    }


def _finish(progress: Progress, done: str, counts: Counts, out: str, notes: list[str] | None = None) -> None:
    """Report counts that were read or written; `done` is the summary with `{}` for their totals, or empty for no summary."""
    what = f"{counts.n_pretokens:,} pre-tokens ({len(counts):,} distinct) in {format_bytes(counts.n_bytes)}"
    progress.finish(
        f"{done.format(what)} in {format_seconds(progress.seconds)}; {wrote(out)}" if done else "",
        notes=notes or [],
        out=out,
        **_totals(counts),
    )


@click.group(cls=Group)
def counts() -> None:
    """Show counts files, and convert from and to tab-separated text.

    \b
    Example:
        bpejit counts info corpus.counts
        bpejit counts export corpus.counts --out words.tsv
        bpejit counts import words.tsv --out again.counts
    """


@counts.command("info")
@counts_argument
@shared.flag("--verify", help="Read all of the file, and compare its SHA-256.")
def describe_counts(*, path: str, verify: bool) -> None:
    """Show the settings, inputs and totals of a counts file.

    \b
    Example:
        bpejit counts info corpus.counts
        bpejit counts info corpus.counts --verify --json
    """
    from bpejit.splitting.presets import pattern_source, stages_of

    from .text_output import quoted

    found = bpejit.Counts.load(path)
    if verify:
        for _ in found.blocks():
            pass
    source, size = pattern_source(found.pattern), Path(path).stat().st_size
    fields = {
        "path": path,
        "file_bytes": size,
        "pattern": found.pattern if source != found.pattern else None,
        "pattern_source": source,
        "words": found.header.settings.words,
        **fields_of(found, "unicode", "special_tokens", "normalize_newlines"),
        **_totals(found),
        "inputs": list(found.inputs),
        "verified": verify,
    }
    patterns, words = map(stages_of, (found.pattern, found.header.settings.words or ()))
    specials = (quoted(token.encode("utf-8", "surrogateescape")) for token in found.special_tokens)
    rows = [
        ("counts file", path),
        ("file size", f"{size:,} bytes{', verified' if verify else ''}"),
        ("pre-tokens", f"{found.n_pretokens:,}, {len(found):,} distinct"),
        ("text", f"{found.n_bytes:,} bytes of {counted(len(found.inputs), 'input')}"),
        ("pattern", ", then ".join(patterns)),
        *([("words", ", then ".join(words))] if words else []),
        ("unicode", found.unicode),
        ("special tokens", " ".join(specials)),
        ("newlines", "normalized" if found.normalize_newlines else "unchanged"),
    ]
    write_report(fields, lambda: rows)


@counts.command("export")
@counts_argument
@shared.out_option("File to write; - is standard output.", default="-", show_default=True)
def export_counts(*, path: str, out: str, overwrite: bool) -> None:
    """Write counts as tab-separated text, a line for each word.

    A line is `count<TAB>word`. Lines are sorted by the bytes of the words.
    In a word, \\\\, \\t, \\n and \\r are a backslash, a tab and the ends of lines,
    and \\xNN is a byte that is not part of UTF-8, or another control character.

    \b
    Example:
        bpejit counts export corpus.counts --out words.tsv
        bpejit counts export corpus.counts | sort -rn | head
    """
    from bpejit.storage.outputs import is_standard_output

    check_json_output(out)
    with watch() as progress:
        found = bpejit.Counts.load(path)
        found.to_tsv(out, overwrite=overwrite)
    _finish(progress, "" if is_standard_output(out) else "exported {}", found, out)


@counts.command("import")
@shared.path_argument("path", "TSV")
@shared.out_option("File to write the counts to.", required=True)
@shared.options_of_counting(SplitSettings)
def import_counts(*, path: str, out: str, overwrite: bool, options: dict[str, Any]) -> None:
    """Read tab-separated text that was counted elsewhere.

    It has a line `count<TAB>word` for each word, in any order. Words are escaped as in the output of `bpejit counts export`.
    The options say how the words were found. They become part of tokenizers that are trained from the counts.

    \b
    Example:
        bpejit counts import words.tsv --pattern gpt2 --out words.counts
    """
    from bpejit.storage.outputs import check_outputs

    check_outputs([out], inputs=[path], overwrite=overwrite)
    with watch() as progress:
        found = bpejit.Counts.from_tsv(path, **options)
        found.save(out, overwrite=overwrite)
    _finish(progress, "imported {}", found, out)


@command()
@shared.path_argument("inputs", "INPUT...", nargs=-1)
@shared.out_option("File to write the counts to.", required=True)
@shared.options_of_counting(CountOptions)
@shared.shard_option("Count only part I of N, from 0 to N - 1, for `bpejit merge-counts`", last="")
@shared.resume_option
@shared.dry_run_option
def count(
    *,
    inputs: tuple[str, ...],
    out: str,
    overwrite: bool,
    options: dict[str, Any],
    shard: str | None,
    resume: bool,
    dry_run: bool,
) -> None:
    """Count the distinct pre-tokens of text.

    INPUT is one or more files, folders, globs or URLs, or - for standard input.
    Counts of several corpora are merged by `bpejit merge-counts`, and `bpejit train --counts` trains from them.
    The tokenizer is the same as one trained on the text.

    \b
    Example:
        bpejit count corpus.txt --out corpus.counts
        bpejit count corpus.txt --pattern cl100k --max-memory 2G --out all.counts
        bpejit count --source corpus.txt=2 --source more.txt=1 --out mixed.counts
        bpejit count corpus.txt --shard 0/4 --out part-0.counts
    """
    inputs = shared.given_or_piped(inputs, instead=options["sources"], other=", or give files with `--source`")
    from bpejit.corpus.blocks import skipped_note

    options |= {"shard": shard, "resume": resume, "overwrite": overwrite}
    with watch() as progress:
        if dry_run:
            plan = bpejit.plan_count(inputs, **chosen(PlanOptions, options))
        else:
            with telling_what_is_kept(progress, out):
                counts = bpejit.count(inputs, out=out, progress=progress, **options)
    if dry_run:
        finish_plan(progress, plan, out, after="and then sorting and writing the distinct ones")
        return
    first = [record for entry in counts.header.inputs for record in entry.get("first_skipped", ())]
    n_skipped = _totals(counts)["skipped_records"]
    earlier = "" if "count" in progress.stages else ", all of it in an earlier run,"
    _finish(progress, f"counted {{}}{earlier}", counts, out, [skipped_note(n_skipped, first)] if n_skipped else [])


@command("merge-counts")
@shared.path_argument("inputs", "COUNTS...", nargs=-1, required=True)
@shared.out_option("File to write the merged counts to.", required=True)
@shared.repeated_inputs_option
def merge_counts_command(*, inputs: tuple[str, ...], out: str, overwrite: bool, allow_repeated_inputs: bool) -> None:
    """Merge files written by `bpejit count`.

    Neither the order of the files nor any grouping changes the result, and memory does not grow with their size.
    Files that differ in pattern, version of Unicode, special tokens or normalization of newlines are refused.
    So are files that have counts of the same input.

    \b
    Example:
        bpejit merge-counts one.counts two.counts --out both.counts
    """
    from bpejit.counting.header import missing_counts

    with watch() as progress:
        counts = bpejit.merge_counts(
            inputs, out, overwrite=overwrite, allow_repeated_inputs=allow_repeated_inputs, progress=progress
        )
    missing = missing_counts(counts.header)
    _finish(progress, f"merged {counted(len(inputs), 'file')}, {{}},", counts, out, [missing] if missing else [])
