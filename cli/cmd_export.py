"""`bpejit export` and `bpejit verify`."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from bpejit.corpus.reading_options import ReadingOptions

from .command_types import command
from .output_lines import write_line, write_message
from .progress import format_bytes, format_seconds, watch
from .reporting import is_quiet, json_text, report_options, wants_json, write_json, write_table
from .shared_options import (
    LazyChoice,
    complete_path,
    declared_options,
    input_argument,
    out_option,
    overwrite_option,
    pattern_options,
    read_tokenizer,
)

if TYPE_CHECKING:
    from bpejit.tokenizer import Tokenizer
    from bpejit.verification.verify import Difference


@command()
@click.argument("tokenizer_path", metavar="TOKENIZER", shell_complete=complete_path)
@input_argument
@click.option("--against", type=click.Choice(("tokenizers", "tiktoken")), required=True, help="Tool to compare with.")
@click.option(
    "--separator",
    default="<|endoftext|>",
    show_default=True,
    metavar="TEXT",
    help="Text that separates documents in a file.",
)
@declared_options(ReadingOptions, into="reading", without=("allow_special",))
@pattern_options
@report_options
def verify(
    *,
    tokenizer_path: str,
    inputs: tuple[str, ...],
    against: Any,
    separator: str,
    reading: dict[str, Any],
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
) -> None:
    """Compare the ids of a tokenizer with those of another tool, and stop at the first difference.

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
        tokenizer = read_tokenizer(tokenizer_path, pattern, special_tokens, unicode)
        report = compare(
            tokenizer,
            inputs,
            against=against,
            path=tokenizer_path,
            separator=separator,
            **reading,
            progress=progress,
        )
    if report.skipped:
        from bpejit.corpus.blocks import skipped_note

        progress.message(skipped_note(report.skipped.count, report.skipped.first))
    repaired = f", {report.repaired:,} of them with U+FFFD in place of invalid UTF-8" if report.repaired else ""
    compared = (
        f"{report.documents:,} documents{repaired}, {format_bytes(report.bytes)}, {report.ids:,} ids "
        f"in {format_seconds(report.seconds)}"
    )
    equal = report.difference is None
    if wants_json():
        progress.finish(
            "",
            tool=report.tool,
            equal=equal,
            documents=report.documents,
            repaired=report.repaired,
            skipped_records=report.skipped.count,
            bytes=report.bytes,
            ids=report.ids,
            difference=None if report.difference is None else _fields(report.difference),
            seconds=report.seconds,
        )
    elif report.difference is not None:
        write_line(f"not equal to {report.tool}, after {compared}")
        write_table(_lines(report.difference), width=10)
    elif not is_quiet():
        write_line(f"equal to {report.tool}: {compared}")
    if not equal:
        raise click.exceptions.Exit(1)


def _fields(found: Difference) -> dict[str, Any]:
    def fields(tokens: list[tuple[int, bytes | None]]) -> list[dict[str, Any]]:
        return [{"id": number, "token": None if token is None else json_text(token)} for number, token in tokens]

    return {
        "path": found.path,
        "document": found.document,
        "start": found.start,
        "end": found.end,
        "text": found.text,
        "ours": fields(found.ours),
        "theirs": fields(found.theirs),
    }


def _lines(found: Difference) -> list[tuple[str, str]]:
    return [
        ("file", found.path),
        ("document", f"{found.document}, bytes {found.start} to {found.end}"),
        ("text", repr(found.text)),
        ("bpejit", _tokens(found.ours)),
        ("other", _tokens(found.theirs)),
    ]


def _tokens(tokens: list[tuple[int, bytes | None]]) -> str:
    return "  ".join(f"{number} {'?' if token is None else repr(token)[1:]}" for number, token in tokens) or "nothing"


def _format_names() -> tuple[str, ...]:
    from bpejit.formats.registry import writable_names

    return tuple(name for name in writable_names() if name != "bpejit")


@command()
@click.argument("tokenizer", metavar="TOKENIZER", shell_complete=complete_path)
@click.option(
    "--to",
    "form",
    type=LazyChoice("format", _format_names),
    help="Format to write: hf, tiktoken (also by the suffix of --out), gpt2, or a registered one.",
)
@out_option("Folder to write, or for tiktoken a file NAME.tiktoken.", metavar="PATH")
@overwrite_option
@click.option("--legacy-merges", is_flag=True, help='For hf: write merges as "a b", for old readers.')
@click.option("--check", is_flag=True, help="Read the file with the other tools that are installed, and compare ids.")
@pattern_options
@report_options
def export(
    *,
    tokenizer: str,
    form: str | None,
    out: str | None,
    overwrite: bool,
    legacy_merges: bool,
    check: bool,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
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
        from bpejit.formats.registry import name_by_suffix

        form = name_by_suffix(PurePath(out).suffix)
    if (form is None) != (out is None) or not (form or check):
        raise click.UsageError("`--to` and `--out` belong together; expected both, or `--check` alone: give both")
    report: dict[str, Any] = {"out": out, "format": form, "notes": [], "checks": None}
    if form is None or out is None:
        checked, path = read_tokenizer(tokenizer, pattern, special_tokens, unicode), tokenizer
    else:
        from bpejit.formats.export import check_save
        from bpejit.formats.recognize import tokenizer_files

        check_save(out, format=form, inputs=tokenizer_files(tokenizer), overwrite=overwrite)
        checked, path = read_tokenizer(tokenizer, pattern, special_tokens, unicode), out
        checked.save(out, format=form, legacy_merges=legacy_merges, overwrite=overwrite)
        report["notes"] = _notes(form, checked)
        if not (is_quiet() or wants_json()):
            notes = [f"note: {note}" for note in report["notes"]]
            for line in (f"wrote {_written(form, out)} for {form}", *_usage(form, out), *notes):
                write_message(line)
    different = False
    if check:
        report["checks"] = _check(checked, path)
        different = any(found["status"] == "different" for found in report["checks"])
    if wants_json():
        write_json(**report)
    if different:
        raise click.exceptions.Exit(1)


def _written(form: str, out: str) -> str:
    """Return the name of the output, or of each file of a format that writes several beside each other."""
    from bpejit.formats.registry import load_format

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


def _notes(form: str, tokenizer: Tokenizer) -> list[str]:
    if form != "hf":
        return []
    from bpejit.formats.readers import note

    found = note(tokenizer.model)
    return [found] if found else []


def _check(tokenizer: Tokenizer, path: str) -> list[dict[str, str]]:
    """Return the result of each reader of a file, and print them as a table unless the user wants JSON."""
    from bpejit.verification.acceptance import check_readers

    meanings = {"equal": "reads it with equal ids", "different": "RETURNS DIFFERENT IDS", "refused": "refuses it"}
    results = []
    for found in check_readers(tokenizer, path):
        results.append({"reader": found.reader, "version": found.version, "status": found.status, "detail": found.detail})
        if wants_json():
            continue
        meaning = meanings.get(found.status, "is not installed")
        detail = f": {_shorten(found.detail)}" if found.status in ("different", "refused") else ""
        write_line(f"{found.reader:<16}{found.version:<12}{meaning}{detail}")
    return results


def _shorten(text: str) -> str:
    return text if len(text) <= 160 else text[:157] + "..."
