"""`bpejit export` and `bpejit verify`."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from bpejit.corpus.reading_options import ReadingOptions

from . import shared_options as shared
from .command_types import command
from .progress import format_bytes, format_seconds, watch
from .reporting import fields_of, this_command, write_json, write_line, write_message, write_table

if TYPE_CHECKING:
    from bpejit.tokenizer import Tokenizer
    from bpejit.verification.acceptance import Reading


@command()
@shared.tokenizer_argument
@shared.input_argument
@click.option(
    "--against", type=click.Choice(("tokenizers", "tiktoken", "sentencepiece")), required=True, help="Tool to compare with."
)
@click.option(
    "--separator", default="<|endoftext|>", show_default=True, metavar="TEXT", help="Text that separates documents in a file."
)
@shared.declared_options(ReadingOptions, into="reading", without=("allow_special",))
@shared.pattern_options
def verify(
    *, tokenizer: shared.TokenizerChoice, inputs: tuple[str, ...], against: Any, separator: str, reading: dict[str, Any]
) -> None:
    """Compare the ids of a tokenizer with those of another tool.

    The comparison stops at the first difference.
    TOKENIZER is any tokenizer that `bpejit encode` reads.
    INPUT is one or more files, folders, globs or URLs, or - for standard input, as for `bpejit encode`.
    If TOKENIZER is a file of the other tool, that tool reads it directly; otherwise it is exported first.
    The exit code is 0 if all ids are equal, and 1 otherwise.

    \b
    Example:
        bpejit verify tokenizer corpus.txt --against tokenizers
        bpejit verify tokenizer corpus.txt --against tiktoken
    """
    from bpejit.verification.verify import verify as compare

    with watch() as progress:
        settings = {"against": against, "path": tokenizer.path, "separator": separator, **reading}
        report = compare(tokenizer.load(), inputs, **settings, progress=progress)
    for note in shared.skipped_notes(report.skipped):
        progress.message(note)
    repaired = f", {report.repaired:,} of them with U+FFFD in place of invalid UTF-8" if report.repaired else ""
    compared = (
        f"{report.documents:,} documents{repaired}, {format_bytes(report.bytes)}, {report.ids:,} ids "
        f"in {format_seconds(report.seconds)}"
    )
    found = report.difference
    sides = {} if found is None else {"ours": found.ours, "theirs": found.theirs}
    if this_command().json:
        named = {name: [{"id": number, "token": token} for number, token in tokens] for name, tokens in sides.items()}
        progress.finish(
            "",
            tool=report.tool,
            equal=found is None,
            **fields_of(report, "documents", "repaired"),
            skipped_records=report.skipped.count,
            **fields_of(report, "bytes", "ids"),
            difference=None if found is None else vars(found) | named,
            seconds=report.seconds,
        )
    elif found is not None:
        write_line(f"not equal to {report.tool}, after {compared}")
        shown = [
            "  ".join(f"{number} {'?' if token is None else repr(token)[1:]}" for number, token in tokens) or "nothing"
            for tokens in sides.values()
        ]
        place = f"{found.document}, bytes {found.start} to {found.end}"
        values = (found.path, place, repr(found.text), *shown)
        write_table(zip(("file", "document", "text", "bpejit", "other"), values, strict=True), width=10)
    elif not this_command().quiet:
        write_line(f"equal to {report.tool}: {compared}")
    if found is not None:
        raise click.exceptions.Exit(1)


def _format_names() -> tuple[str, ...]:
    from bpejit.formats.base import writable_names

    return tuple(name for name in writable_names() if name != "bpejit")


@command()
@shared.tokenizer_argument
@click.option(
    *("--to", "form"),
    type=shared.LazyChoice("format", _format_names),
    help="Format to write: hf, tiktoken (also by the suffix of --out), gpt2, or a registered one.",
)
@shared.out_option("Folder to write, or for tiktoken a file NAME.tiktoken.", metavar="PATH")
@shared.flag("--legacy-merges", help='For hf: write merges as "a b", for old readers.')
@shared.flag("--check", help="Read the file with the other tools that are installed, and compare ids.")
@shared.pattern_options
def export(
    *, tokenizer: shared.TokenizerChoice, form: str | None, out: str | None, overwrite: bool, legacy_merges: bool, check: bool
) -> None:
    """Write a tokenizer for another tool, with equal ids.

    TOKENIZER is a folder written by bpejit, a Hugging Face tokenizer.json, a file NAME.tiktoken, tekken.json,
    vocab.json of GPT-2 with merges.txt next to it, a folder with one of these, or hf:ORGANIZATION/NAME.
    A tokenizer that the format cannot represent exactly is refused with the reason.
    llama.cpp identifies split patterns by a hash of their results, and refuses custom patterns.
    --check without --to and --out checks TOKENIZER itself; the exit code is 1 if a reader returns different ids.

    \b
    Example:
        bpejit export tokenizer --to hf --out for-transformers
        bpejit export tokenizer --to tiktoken --out mine.tiktoken
        bpejit export tokenizer --check
    """
    if form is None and out is not None:
        from bpejit.formats.base import name_by_suffix

        form = name_by_suffix(PurePath(out).suffix)
    if (form is None) != (out is None) or not (form or check):
        raise click.UsageError("`--to` and `--out` belong together; expected both, or `--check` alone: give both")
    notes: list[str] = []
    if form is None or out is None:
        checked, path = tokenizer.load(), tokenizer.path
    else:
        from bpejit.formats.any_format import check_save
        from bpejit.formats.huggingface_writing import note

        check_save(out, format=form, inputs=tokenizer.files(), overwrite=overwrite)
        checked, path = tokenizer.load(), out
        checked.save(out, format=form, legacy_merges=legacy_merges, overwrite=overwrite)
        found = note(checked.model) if form == "hf" else ""
        notes = [found] if found else []
        if not (this_command().quiet or this_command().json):
            lines = f"wrote {_written(form, out)} for {form}", *_usage(form, out), *(f"note: {text}" for text in notes)
            for line in lines:
                write_message(line)
    checks = _check(checked, path) if check else None
    if this_command().json:
        write_json(out=out, format=form, notes=notes, checks=checks)
    if any(found.status == "different" for found in checks or ()):
        raise click.exceptions.Exit(1)


def _written(form: str, out: str) -> str:
    """Return the name of the output, or of each file of a format that writes several beside each other."""
    from bpejit.formats.base import load_format

    files = [file for file in load_format(form).outputs(out) if file.exists()]
    *first, last = [f"`{file}`" for file in files] if len(files) > 1 and files[0].samefile(out) else [f"`{out}`"]
    return f"{', '.join(first)} and {last}" if first else last


def _usage(form: str, out: str) -> list[str]:
    """Return the lines of Python that load the output."""
    if form in ("hf", "gpt2"):
        load = f"tokenizer = AutoTokenizer.from_pretrained({out!r})"
        return ["in Python:", "  from transformers import AutoTokenizer", f"  {load}"]
    if form != "tiktoken":
        return []
    from bpejit.formats.tiktoken_ranks import module_path

    module = module_path(out)
    return [f"in Python, from the folder `{module.parent}`:", f"  from {module.stem} import encoding"]


def _check(tokenizer: Tokenizer, path: str) -> list[Reading]:
    """Return the result of each reader of a file, and print them as a table unless the user wants JSON."""
    from bpejit.verification.acceptance import check_readers

    meanings = {"equal": "reads it with equal ids", "different": "RETURNS DIFFERENT IDS", "refused": "refuses it"}
    results = []
    for found in check_readers(tokenizer, path):
        results.append(found)
        if not this_command().json:
            reason = found.detail if len(found.detail) <= 160 else found.detail[:157] + "..."
            detail = f": {reason}" if found.status in ("different", "refused") else ""
            write_line(f"{found.reader:<16}{found.version:<12}{meanings.get(found.status, 'is not installed')}{detail}")
    return results
