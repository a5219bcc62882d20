"""`--dry-run` of the commands that count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .progress import Progress, format_bytes, format_estimate, format_seconds

if TYPE_CHECKING:
    from bpejit.training.count_plan import CountPlan

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
