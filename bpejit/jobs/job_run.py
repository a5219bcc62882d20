"""Run a part of a job: units in order, their results into files that only grow, and a checkpoint at the end of each unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from bpejit.engines.base import Engine, Progress
from bpejit.jit.listening import working_time
from bpejit.jobs.checkpoints import Checkpoints
from bpejit.jobs.job_plan import CompletePart, JobPlan
from bpejit.jobs.unit_loop import Seconds, UnitLoop


def run_units(
    plan: JobPlan,
    folder: Path,
    checkpoint: Mapping[str, Any] | None,
    engine: Engine,
    report: Progress,
    seconds: Seconds,
) -> CompletePart:
    """Work on the units of a part that are missing.

    Parameters
    ----------
    plan : JobPlan
        Of the part.
    folder : Path
        The folder of the part, locked by this process.
    checkpoint : dict, optional
        The last checkpoint, whose files are continued; None to begin.
    engine : Engine
    report : callable
    seconds : Seconds
        Is added to.

    Raises
    ------
    CorpusError
    OSError
        If a file cannot be written. The last checkpoint stays.
    """
    loop = UnitLoop(plan.mine, checkpoint, plan.options.unit_bytes, seconds, report)
    modified = plan.modified  # from before the inputs are read

    def fields(state: dict[str, Any]) -> dict[str, Any]:
        text = {"sha256": loop.text_sha256, "modified": modified, **plan.reading}
        return {"totals": loop.totals.as_json(), "text": text, **state}

    results = loop.results(*plan.chunk_job(), engine)
    checkpoints = Checkpoints(folder, plan.identity, brief=checkpoint is None and plan.options.part is None)
    with closing(plan.open_sink(folder, checkpoint)) as sink, checkpoints, closing(results):
        for unit, result in results:
            sink.begin_unit(unit)
            if result is None:
                due = loop.end_unit()
                # Not after the last unit, which the record of the complete part follows.
                checkpoints.note(fields(sink.state()), sink.changed(), write=due and unit is not loop.rest[-1])
            else:
                tokens, documents = sink.write(result)
                loop.add(result, tokens=tokens, documents=documents)
        before = working_time()
        complete = fields(sink.finish()) | {"complete": True}
        checkpoints.complete(complete, sink.changed())
        seconds.finish += working_time() - before
        return CompletePart(complete, checkpoints.brief)


@contextmanager
def keeping_brief(plan: JobPlan, folder: Path, done: CompletePart) -> Iterator[None]:
    """Write the checkpoint of a brief part after an error in its last steps, so that it can be resumed."""
    try:
        yield
    except BaseException:
        if done.brief:
            with suppress(OSError):
                Checkpoints(folder, plan.identity, brief=False).complete(dict(done.fields), folder.iterdir())
        raise
