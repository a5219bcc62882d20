"""`bpejit compare` and `bpejit report`."""

from __future__ import annotations

from typing import Any

import bpejit

from . import shared_options as shared
from .cmd_stats import counting_options, given_tokenizers
from .command_types import command
from .progress import format_bytes, format_seconds, watch
from .reporting import check_json_output, this_command, write_lines, wrote
from .text_output import color_console, color_option, separator, styled_rows


@command()
@shared.tokenizer_argument
@shared.path_argument("inputs", "[INPUT]...", nargs=-1)
@shared.out_option("Page to write, such as report.html, or - for standard output.", required=True)
@shared.path_option("--against", multiple=True, metavar="TOKENIZER", help="Another tokenizer; may be repeated.")
@counting_options
@shared.pattern_options
def report(
    *,
    tokenizer: shared.TokenizerChoice,
    inputs: tuple[str, ...],
    out: str,
    overwrite: bool,
    against: tuple[str, ...],
    options: dict[str, Any],
) -> None:
    """Write a page about a tokenizer, with charts and all tokens.

    The page has figures, charts, all tokens with their counts and merge trees, and sample texts.
    INPUT is files or globs, or - for standard input.
    The page is one file that loads nothing from the network.

    \b
    Example:
        bpejit report tokenizer corpus.txt --out report.html
        bpejit report tokenizer corpus.txt --against my-tokenizer --out both.html
        bpejit report tokenizer --against my-tokenizer --name A --name B -o b.html
    """
    check_json_output(out)
    choices = [tokenizer, *map(shared.TokenizerChoice, against)]
    with watch() as progress, given_tokenizers(choices, inputs, options, out=out, overwrite=overwrite) as (first, *others):
        page = bpejit.report(first, inputs, against=others, **options, progress=progress)
        page.save(out, overwrite=overwrite)
    fields = page.to_dict()
    progress.finish(
        f"{wrote(out)} ({format_bytes(fields['bytes'])}) in {format_seconds(progress.seconds)}",
        out=out,
        **fields,
        notes=shared.skipped_notes(page.skipped),
    )


@command()
@shared.path_argument("first", "A")
@shared.path_argument("second", "B")
@shared.path_argument("inputs", "[INPUT]...", nargs=-1)
@counting_options
@shared.count_option("--count", least=0, default=10, text="Number of tokens and ranks to show, 0 for none.")
@shared.count_option("--texts", "n_texts", least=0, default=3, text="Number of differing texts to show.")
@color_option
def compare(*, first: str, second: str, inputs: tuple[str, ...], options: dict[str, Any], color: str, **shown: Any) -> None:
    """Compare two tokenizers, and how they encode texts.

    The report compares their vocabularies, the order of their merges, and the ids of texts.
    A and B are tokenizers; INPUT is files or globs, or - for standard input.
    The texts that differ most are looked for in the first 4 MB of each input.

    \b
    Example:
        bpejit compare tokenizer my-tokenizer
        bpejit compare tokenizer my-tokenizer corpus.txt --texts 5
    """
    choices = [shared.TokenizerChoice(path) for path in (first, second)]
    with watch() as progress, given_tokenizers(choices, inputs, options) as (one, other):
        found = bpejit.compare(one, other, inputs, **options, **shown, progress=progress)
    if not this_command().json:
        from bpejit.inspection.token_rows import plain_tokens

        console = color_console(color)
        for line in found.all_lines():
            if isinstance(line, str):
                write_lines([line])
            elif console is None:
                write_lines(f"  {plain_tokens(line.rows, separator())}".split("\n"))
            else:
                console.print(styled_rows(line.rows), soft_wrap=True)
    progress.finish("", **found.to_dict(), notes=shared.skipped_notes(found.skipped))
