"""`bpejit verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .options import debug_option, input_format_option, pattern_options, quiet_option, read_tokenizer
from .progress import format_bytes, format_seconds, watch

if TYPE_CHECKING:
    from bpejit.verification.verify import Difference


@click.command()
@click.argument("tokenizer_path", metavar="TOKENIZER")
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@click.option("--against", type=click.Choice(("tokenizers", "tiktoken")), required=True, help="The tool to compare with.")
@click.option(
    "--separator", default="<|endoftext|>", show_default=True, metavar="TEXT", help="What ends a document within a file."
)
@input_format_option
@pattern_options
@quiet_option
@debug_option
def verify(
    *,
    tokenizer_path: str,
    inputs: tuple[str, ...],
    against: Any,
    separator: str,
    input_format: str,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
    quiet: bool,
) -> None:
    """Compare the ids of a tokenizer with those of another tool, and stop at the first difference.

    TOKENIZER is what `bpejit encode` takes; INPUT is files, globs, or - for standard input.
    A file of the other tool is read by that tool itself; other tokenizers are exported for it.
    The exit code is 0 if all ids are equal, and 1 if not.

    \b
    Example:
        bpejit verify tokenizer corpus.txt --against tokenizers
        bpejit verify tokenizer corpus.txt --against tiktoken
    """
    from bpejit.verification.verify import verify as compare

    with watch(quiet=quiet) as progress:
        tokenizer = read_tokenizer(tokenizer_path, pattern, special_tokens, unicode)
        report = compare(
            tokenizer,
            inputs,
            against=against,
            path=tokenizer_path,
            separator=separator,
            input_format=input_format,
            progress=progress,
        )
    repaired = f", {report.repaired:,} of them with U+FFFD for bytes that are no UTF-8" if report.repaired else ""
    compared = (
        f"{report.documents:,} documents{repaired}, {format_bytes(report.bytes)}, {report.ids:,} ids "
        f"in {format_seconds(report.seconds)}"
    )
    if report.difference is None:
        if not quiet:
            click.echo(f"equal to {report.tool}: {compared}")
        return
    click.echo(f"not equal to {report.tool}, after {compared}")
    for name, value in _lines(report.difference):
        click.echo(f"{name:<10}{value}")
    raise click.exceptions.Exit(1)


def _lines(found: Difference) -> list[tuple[str, str]]:
    return [
        ("file", found.path),
        ("document", f"{found.document}, bytes {found.start} to {found.end}"),
        ("text", repr(found.text)),
        ("bpejit", _tokens(found.ours)),
        ("the other", _tokens(found.theirs)),
    ]


def _tokens(tokens: list[tuple[int, bytes | None]]) -> str:
    return "  ".join(f"{number} {'?' if token is None else repr(token)[1:]}" for number, token in tokens) or "nothing"
