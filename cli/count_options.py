"""Options of counting, which `bpejit count`, `bpejit train` and `bpejit counts import` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .count_type import Count
from .options import PATTERNS, complete_path, complete_pattern, unicode_option
from .progress import format_bytes

if TYPE_CHECKING:
    from bpejit import Counts

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_PATTERN = "gpt2"

DEFAULT_SPECIAL_TOKEN = "<|endoftext|>"


def count_setting_options(function: Function) -> Function:
    """Add `--pattern`, `--special-token`, `--no-special-tokens`, `--normalize-newlines` and `--unicode`."""
    for option in (
        unicode_option("that of the regex package"),
        click.option("--normalize-newlines", is_flag=True, help="Convert \\r\\n and \\r to \\n."),
        click.option("--no-special-tokens", is_flag=True, help="Use no special tokens."),
        click.option(
            "--special-token",
            "special_tokens",
            multiple=True,
            metavar="TEXT",
            help="Text that becomes a single token, excluded from training; may be repeated.  "
            f"[default: {DEFAULT_SPECIAL_TOKEN}]",
        ),
        click.option(
            "--pattern",
            metavar="NAME|REGEX",
            shell_complete=complete_pattern,
            help=f"Split pattern: {', '.join(PATTERNS)}, or a regular expression.  [default: {DEFAULT_PATTERN}]",
        ),
    ):
        function = option(function)
    return function


def memory_options(function: Function) -> Function:
    """Add `--max-memory` and `--temporary-folder`."""
    bound = click.option(
        "--max-memory",
        type=Count(1, is_size=True),
        metavar="SIZE",
        help="Most memory for counting, such as 2G. Tables beyond it are sorted on disk, with an equal result.",
    )
    folder = click.option(
        "--temporary-folder",
        metavar="FOLDER",
        shell_complete=complete_path,
        help="Where --max-memory and --engine ray write.  [default: the folder of the output]",
    )
    return bound(folder(function))


repeated_inputs_option = click.option(
    "--allow-repeated-inputs",
    is_flag=True,
    help="Merge counts files that have the same input, which is then counted as often.",
)


def chosen_special_tokens(special_tokens: tuple[str, ...], no_special_tokens: bool) -> tuple[str, ...]:
    """Return the special tokens that `--special-token` and `--no-special-tokens` select."""
    if no_special_tokens and special_tokens:
        raise click.UsageError("`--no-special-tokens` and `--special-token` cannot be combined: leave one out")
    return special_tokens or (() if no_special_tokens else (DEFAULT_SPECIAL_TOKEN,))


def counts_fields(counts: Counts) -> dict[str, Any]:
    """Return the totals of counts for a JSON report."""
    return {
        "bytes": counts.n_bytes,
        "pretokens": counts.n_pretokens,
        "distinct_pretokens": len(counts),
        "skipped_records": skipped_records(counts),
    }


def skipped_records(counts: Counts) -> int:
    """Return the number of records without text."""
    return sum(entry.get("skipped", 0) for entry in counts.header.inputs)


def counts_summary(counts: Counts) -> str:
    """Return the totals of counts for a summary."""
    return f"{counts.n_pretokens:,} pre-tokens ({len(counts):,} distinct) in {format_bytes(counts.n_bytes)}"
