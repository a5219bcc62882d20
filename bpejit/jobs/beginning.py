"""Begin jobs: check the outputs, decide what happens to what an earlier run left, and claim the job.

`bpejit.jobs.store` has the states in which a run may find a job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bpejit.errors import OutputError
from bpejit.jobs.job_manifest import begun_manifest, find_begun_difference
from bpejit.jobs.job_plan import JobPlan
from bpejit.jobs.output_files import Finished
from bpejit.jobs.store import Left


def begin_job(plan: JobPlan, parts: int, say: Callable[[str], None], *, patience: float = 0.0) -> Finished | int:
    """Check the outputs of a job, and what an earlier run left.

    Parameters
    ----------
    plan : JobPlan
    parts : int
        The number of parts of a job that is not begun yet. An unfinished job with another number is resumed, unless the plan is
        that of a part.
    say : callable
        Called with remarks for the user.
    patience : float
        Seconds to wait for processes that work on the job, and end.

    Returns
    -------
    Finished or int
        The complete output if the job is resumed and nothing is left to do; otherwise the number of parts, which is that of the
        unfinished job if that is resumed.

    Raises
    ------
    OutputError
    """
    options, store = plan.options, plan.store
    done = store.find_settled(plan.names, plan.job) if options.resume else None
    if done is not None:
        say(f"nothing is left to do: `{done.manifest}` describes the complete output of this job")
        return done
    store.check(plan.names, plan.inputs, overwrite=options.overwrite)
    left = store.find_left()
    if left is None:
        store.prepare(plan.names)
    else:
        parts = _go_on(plan, left, parts, say, patience)
    if not store.has_locks:
        claim_job(plan, parts)
    return parts


def _go_on(plan: JobPlan, left: Left, parts: int, say: Callable[[str], None], patience: float) -> int:
    """Remove what an earlier run left unless the job goes on from there; return the number of parts."""
    options, store, begun = plan.options, plan.store, left.begun
    difference = find_begun_difference(begun, plan.job, options.texts)
    wanted_parts = parts
    if begun is not None and difference is None and begun.get("parts") != parts:
        if options.part is None and (options.resume or store.has_locks):
            wanted_parts = int(begun["parts"])
        else:
            difference = f"it is divided into {begun.get('parts')} parts, and this one into {parts}"
    remains = f"`{store.folder}` keeps {left.finished} of an unfinished job"
    if options.part is not None:
        if begun is not None and difference is not None:
            raise OutputError(
                f"{remains}, but {difference}; expected the same job in all parts: {continuing(begun)}, or remove the folder"
            )
        kept = None
        if begun is not None and not options.resume:
            kept = store.remove_part(*options.part, overwrite=options.overwrite)
        if kept is not None:
            raise OutputError(_unfinished(kept))
        return parts
    store.wait_for_others(patience)
    may_be_at_work = not store.has_locks
    if difference is None and (options.resume or (may_be_at_work and not left.kept)):
        return wanted_parts
    if difference is None and left.kept and not options.overwrite:
        raise OutputError(_unfinished(remains))
    if difference is not None and ((options.resume and left.kept) or may_be_at_work) and not options.overwrite:
        expected = "expected the same job to resume it:"
        if may_be_at_work:
            expected = "expected the same job: wait if it is at work; otherwise"
        raise OutputError(f"{remains}, but {difference}; {expected} {continuing(begun)}, or start again with `overwrite=True`")
    say(f"removed {store.clear(left)} in `{store.folder}`, which an unfinished run left")
    return parts


def continuing(begun: Mapping[str, Any] | None) -> str:
    """Return an advice to continue an unfinished job with the command that began it, if that is known."""
    command = (begun or {}).get("command")
    return f"continue it with `{command}`" if command else "give the same inputs and options"


def _unfinished(remains: str) -> str:
    return f"{remains}; expected none: continue it with `resume=True`, or start again with `overwrite=True`"


def begun_fields(plan: JobPlan, parts: int) -> dict[str, Any]:
    """Return the manifest of an unfinished job."""
    options = plan.options
    return begun_manifest(plan.job, parts) | {
        "units": len(plan.units),
        "overwrite": options.overwrite,
        "command": options.command,
        "texts": options.texts,
        **plan.begun_fields,
    }


def claim_job(plan: JobPlan, parts: int) -> dict[str, Any]:
    """Write the manifest of the unfinished job, unless another part has, and return it."""
    fields, store = begun_fields(plan, parts), plan.store
    if not store.claim(fields):
        difference = find_begun_difference(store.begun() or None, plan.job, plan.options.texts)
        if difference is not None:
            advice = "" if store.has_locks else "wait until that job ends, or "
            raise OutputError(
                f"`{store.folder}` belongs to another job: {difference}; expected the same one: {advice}remove the folder"
            )
    return fields
