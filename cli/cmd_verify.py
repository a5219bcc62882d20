"""`bpejit verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .command_types import command
from .options import complete_path, input_argument, input_options_without, pattern_options, read_tokenizer
from .output_lines import write_line
from .progress import format_bytes, format_seconds, watch
from .reporting import is_quiet, json_text, report_options, wants_json, write_table

if TYPE_CHECKING:
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
@input_options_without("allow_special")
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
