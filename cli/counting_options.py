"""Options and plans of counting, which `bpejit count`, `bpejit train` and `bpejit counts import` share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from bpejit.counting.count_options import END_OF_TEXT, Memory

from .progress import Progress, format_bytes, format_estimate, format_seconds
from .shared_options import Function, declared_options

if TYPE_CHECKING:
    from bpejit import Counts
    from bpejit.counting.count_plan import CountPlan

dry_run_option = click.option("--dry-run", is_flag=True, help="Show the plan and the expected time, and write nothing.")


def finish_plan(
    progress: Progress, plan: CountPlan, out: str, *, then: str = "", after: str, notes: tuple[str, ...] = ()
) -> None:
    """Report a plan of counting.

    Parameters
    ----------
    progress : Progress
    plan : CountPlan
    out : str
    then : str
        What follows the counting.
    after : str
        What the expected time does not include.
    notes : tuple of str
    """
    size = "input of unknown size" if plan.bytes is None else format_bytes(plan.bytes)
    where = f"with {plan.workers:,} worker{'' if plan.workers == 1 else 's'}"
    if plan.cluster:
        where = f"in {plan.parts:,} part{'' if plan.parts == 1 else 's'}, on {plan.cluster}"
    expected = ""
    if plan.pretokens:
        expected = f"; expected: {format_estimate(plan.pretokens)} pre-tokens in {format_seconds(plan.seconds)}, {after}"
    memory = "grows with the number of distinct pre-tokens, unless `--max-memory` bounds it"
    if plan.max_memory is not None:
        memory = f"at most {format_bytes(plan.max_memory)}"
    progress.finish(
        f"would count {size} {where}{then} to `{out}`{expected}; memory of counting: {memory}",
        notes=notes,
        **plan_fields(plan, out),
        seconds=plan.seconds,
    )


def plan_fields(plan: CountPlan, out: str) -> dict[str, Any]:
    """Return the fields of the JSON report about a plan."""
    return {
        "out": out,
        "bytes": plan.bytes,
        "pretokens": plan.pretokens or None,
        "workers": plan.workers,
        "parts": plan.parts or None,
        "cluster": plan.cluster or None,
        "max_memory": plan.max_memory,
        "dry_run": True,
    }


memory_options = declared_options(Memory)
"""Decorator that adds `--max-memory` and `--temporary-folder`."""


def options_of_counting(group: type) -> Callable[[Function], Function]:
    """Return a decorator that adds a group with `SplitSettings`, and `--no-special-tokens`.

    The function receives their values as the argument `options`, a dict.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def resolved(*args: Any, options: dict[str, Any], no_special_tokens: bool, **given: Any) -> Any:
            options["special_tokens"] = chosen_special_tokens(options["special_tokens"], no_special_tokens)
            return function(*args, options=options, **given)

        without = click.option("--no-special-tokens", is_flag=True, help="Use no special tokens.")
        added: Any = declared_options(group, into="options")(without(resolved))
        return added  # type: ignore[no-any-return]

    return decorate


repeated_inputs_option = click.option(
    "--allow-repeated-inputs",
    is_flag=True,
    help="Merge counts files that have the same input, which is then counted as often.",
)


def chosen_special_tokens(special_tokens: tuple[str, ...], no_special_tokens: bool) -> tuple[str, ...]:
    """Return the special tokens that `--special-token` and `--no-special-tokens` select."""
    if no_special_tokens and special_tokens:
        raise click.UsageError("`--no-special-tokens` and `--special-token` cannot be combined: leave one out")
    return special_tokens or (() if no_special_tokens else (END_OF_TEXT,))


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
