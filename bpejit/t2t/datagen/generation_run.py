"""Run the generation of a data set in this process: all of its parts, or one, and join them after the last one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from bpejit.engines import make_engine
from bpejit.engines.base import Progress
from bpejit.jit.listening import working_time
from bpejit.jobs.unit_loop import Seconds, Totals
from bpejit.t2t.datagen.dataset_finishing import FolderParts
from bpejit.t2t.datagen.dataset_job import DatasetPlan, DatasetResult
from bpejit.t2t.datagen.remote_dataset import StoredParts

_logger = logging.getLogger("bpejit")


def parts_of(plan: DatasetPlan) -> FolderParts | StoredParts:
    """Return where the parts of a data set are."""
    return FolderParts(plan.names) if plan.remote is None else StoredParts(plan.remote, plan.names)


def run_generation(plan: DatasetPlan, *, workers: int | None, engine: str, report: Progress) -> DatasetResult:
    """Generate a data set, or the part of it that this process works on.

    Parameters
    ----------
    plan : DatasetPlan
    workers, engine
        How the work is distributed.
    report : callable
        Progress. If it has a method `message`, that is called with remarks for the user.

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError
    """
    begun = working_time()
    say: Callable[[str], None] = getattr(report, "message", None) or _logger.info
    place = parts_of(plan)
    found = place.begin(plan, place.default_parts(plan.units), say)
    if not isinstance(found, int):
        return DatasetResult(found, True, len(plan.units), len(plan.units), 0)
    parts, options = found, plan.options
    result = DatasetResult(Totals(), False, len(plan.mine), 0, 0, Seconds(plan=working_time() - begun))
    spread = make_engine(engine, workers, input_bytes=plan.size, returns_arrays=True)
    progress = _PartsProgress(report, plan.size)
    mine = range(parts) if options.part is None else [options.part[0]]
    for part in mine:
        some = plan
        if plan.remote is not None or parts > 1:
            resume = options.resume or parts > 1
            some = replace(plan, options=replace(options, part=(part, parts), resume=resume))
        if part and options.part is None and plan.remote is None:
            done = place.begin(some, parts, say)
            if not isinstance(done, int):
                return replace(result, totals=done, complete=True)
        with place.working(some, parts):
            before, after = place.generate(some, parts, spread, progress, result.seconds, say)
            progress.begin_next(before, after)
            result.totals += after
            result.kept += before.units
            result.new_bytes += after.bytes - before.bytes
            if part != mine[-1]:
                continue
            result.missing = len(place.missing(parts))
            if not result.missing:
                ended = working_time()
                finished = place.finish(spread, report, max_memory=plan.max_memory) or place.complete(plan.job)
                result.seconds.finish += working_time() - ended
    if result.missing:
        return result
    if finished is None:
        say("all parts are complete, and another process joins them")
        return result
    return replace(result, totals=finished, complete=True)


class _PartsProgress:
    """Progress of parts that run one after the other."""

    def __init__(self, report: Progress, total: int | None) -> None:
        self._report = report
        self._total = total
        self._read = 0
        self._counted = Totals()
        self._details = getattr(report, "details", None)

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        if stage == "encode":
            done, total = self._read + done, self._total
        self._report(stage, done, total, unit)

    def details(self, *, tokens: int, documents: int) -> None:
        if self._details is not None:
            self._details(tokens=self._counted.tokens + tokens, documents=self._counted.documents + documents)

    def begin_next(self, before: Totals, after: Totals) -> None:
        """Go on to the next part; an earlier run had read `before` of this one."""
        if self._total is not None:
            self._total = max(self._total - before.read, 0)
        self._read += after.read - before.read
        self._counted += after
