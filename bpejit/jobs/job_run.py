"""Run a part of a job: units in order, their results into files that only grow, and a checkpoint at the end of each unit."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from bpejit.corpus.fingerprints import modified_times
from bpejit.engines.base import Engine, Job, Progress, report_details
from bpejit.errors import CorpusError, OutputError
from bpejit.jit.listening import working_time
from bpejit.jobs.checkpoints import Checkpoints
from bpejit.jobs.job_plan import CompletePart, JobPlan
from bpejit.jobs.job_totals import AnyChunker, ChunkResult, Seconds, Totals, chain_checksum, size_of_units


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
    run = _PartRun(plan, checkpoint, seconds, report)
    checkpoints = Checkpoints(folder, plan.identity, brief=checkpoint is None and plan.options.part is None)
    results = run.results(engine)
    with closing(plan.open_sink(folder, checkpoint)) as sink, checkpoints, closing(results):
        for unit, result in results:
            sink.begin_unit(unit)
            if result is None:
                due = run.end_unit()
                # Not after the last unit, which the record of the complete part follows.
                checkpoints.note(run.fields(sink.state()), sink.changed(), write=due and unit is not plan.mine[-1])
            else:
                run.add(result, *sink.write(result))
        before = working_time()
        complete = run.fields(sink.finish()) | {"complete": True}
        checkpoints.complete(complete, sink.changed())
        seconds.finish += working_time() - before
        return CompletePart(complete, checkpoints.brief)


class _PartRun:
    """The units of a part that are not finished yet, in order, with the totals of the part and a hash of what was read."""

    def __init__(self, plan: JobPlan, checkpoint: Mapping[str, Any] | None, seconds: Seconds, report: Progress) -> None:
        self._plan = plan
        self._seconds = seconds
        self._report = report
        self._totals = Totals() if checkpoint is None else Totals.from_json(checkpoint["totals"])
        self._text_sha256 = "" if checkpoint is None else checkpoint["text"]["sha256"]
        self._modified = plan.modified  # from before the inputs are read
        self._rest = plan.mine[self._totals.units :]
        self._size = size_of_units(self._rest)
        self._unsaved = self._n_read = 0

    def fields(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a checkpoint, with the state of the sink."""
        text = {"sha256": self._text_sha256, "modified": self._modified, **self._plan.reading}
        return {"totals": self._totals.as_json(), "text": text, **state}

    def results(self, engine: Engine) -> Generator[tuple[Any, Any], None, None]:
        """Yield each result of a chunk with its unit, and None after the last chunk of a unit; measure the time."""
        self._report("encode", 0, self._size, "bytes")
        before = working_time()
        with closing(_map_units(self._rest, *self._plan.chunk_job(), engine)) as results:
            for unit, result in results:
                now = working_time()
                self._seconds.encode += now - before
                yield unit, result
                before = working_time()
                self._seconds.write += before - now

    def add(self, result: ChunkResult, tokens: int, documents: int) -> None:
        """Add the result of a chunk to the totals, and report progress."""
        totals = self._totals
        totals.tokens += tokens
        totals.documents += documents
        totals.bytes += result.n_bytes
        totals.read += result.n_read
        totals.skipped += result.skipped
        self._text_sha256 = chain_checksum(self._text_sha256, result.checksum)
        self._unsaved += max(result.n_read, result.n_bytes)  # of compressed input, the text
        self._n_read += result.n_read
        report_details(self._report, tokens=totals.tokens, documents=totals.documents)
        self._report("encode", self._n_read, self._size, "bytes")

    def end_unit(self) -> bool:
        """Count a finished unit; return True if a checkpoint is due.

        It is not due after each of thousands of small units, since writing it takes a few milliseconds.
        """
        self._totals.units += 1
        due = self._unsaved >= self._plan.options.unit_bytes // 4
        if due:
            self._unsaved = 0
        return due


def _map_units(units: Sequence[Any], job: Job, chunker: AnyChunker, engine: Engine) -> Generator[tuple[Any, Any], None, None]:
    """Yield each result of a chunk with its unit, and None after the last chunk of a unit."""
    marks: deque[tuple[Any, bool]] = deque()

    def chunks() -> Iterator[Any]:
        for unit in units:
            for chunk in chunker.chunks(unit.sources):
                marks.append((unit, True))
                yield chunk
            marks.append((unit, False))

    # The engine takes chunks ahead of the results.
    results: Any = engine.map_chunks(job, chunks())
    with closing(results):
        for result in results:
            while not marks[0][1]:
                yield marks.popleft()[0], None
            yield marks.popleft()[0], result
            while marks and not marks[0][1]:
                yield marks.popleft()[0], None
    while marks:
        yield marks.popleft()[0], None


def compare_text(
    plan: JobPlan,
    kept: int,
    checkpoint: Mapping[str, Any],
    engine: Engine,
    report: Progress,
) -> None:
    """Compare the text of finished units with what was encoded, since an input has another modification time.

    Raises
    ------
    OutputError
        If the text has changed.
    """
    job, chunker = plan.checksum_job(checkpoint)
    units = plan.mine[:kept]
    found, done, size = "", 0, size_of_units(units)
    report("compare", 0, size, "bytes")
    results: Any = engine.map_chunks(job, (chunk for unit in units for chunk in chunker.chunks(unit.sources)))
    with closing(results), suppress(CorpusError):  # it cannot be read as it could
        for checksum, n_read in results:
            found = chain_checksum(found, checksum)
            done += n_read
            report("compare", done, size, "bytes")
    if found == checkpoint["text"]["sha256"]:
        return
    times = {path: time for path, time in modified_times(plan.paths).items() if time is not None}
    last = max(times, key=lambda path: times[path], default="-")
    raise OutputError(
        f"the text of {kept} finished unit{'' if kept == 1 else 's'} in `{plan.folder}` has changed: of the inputs, "
        f"`{last}` was modified last; expected the text that was encoded: restore it, or start again with `overwrite=True`"
    )


def describe_resumed(plan: JobPlan, kept: int, checkpoint: Mapping[str, Any] | None) -> str:
    """Return a remark about where a resumed part goes on."""
    what = "the job" if plan.options.part is None else "part {} of {}".format(*plan.options.part)
    if not plan.mine:
        return f"{what} has no units: the input has {len(plan.units):,}, which belong to other parts"
    if checkpoint is None:
        return f"nothing of {what} is finished yet: beginning with unit 1 of {len(plan.mine)}"
    if checkpoint.get("complete"):
        return f"all {len(plan.mine)} units of {what} are encoded already"
    return f"resuming {what} after {kept} of {len(plan.mine)} units"


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
