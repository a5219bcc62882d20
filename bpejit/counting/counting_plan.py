"""Counting as a kind of job, which runs on a cluster, and goes on where an earlier run ended.

The workers of a part count a group of units into a table each, which they write to sorted runs (`bpejit.counting.spilling`);
then there is a checkpoint. At the end, the runs of all parts are merged to the counts file, which describes itself: the job has
no other manifest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from bpejit.corpus.blocks import NOTHING_SKIPPED, AnyChunk, Skipped, check_texts
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.contents import Contents
from bpejit.corpus.reading_options import UNIT_BYTES
from bpejit.corpus.sources import Source
from bpejit.corpus.units import plan_units, sample_chunks
from bpejit.counting.count_job import CountedChunk, CountJob, Tally, describe_skipped
from bpejit.counting.counts_file import CountsReader, write_counts
from bpejit.counting.header import CountsHeader
from bpejit.counting.pretoken_counter import warm_counting
from bpejit.counting.spilling import MOST_RUNS, Run, SpillSettings, merge_some_runs, read_run, spill_settings
from bpejit.counting.table_streams import merge_streams
from bpejit.engines import AUTO, RAY, Engine, FunctionJob, make_engine
from bpejit.errors import CountsError, OptionError, OutputError
from bpejit.jobs.job_folder import FINAL, Fields, Totals, check_file, part_folder, skipped_as_json, skipped_of_json
from bpejit.jobs.job_options import Finished, JobOptions
from bpejit.jobs.job_plan import JobPlan, PartSink, open_store
from bpejit.jobs.job_records import CompleteParts, FilePairs, JobOutputs
from bpejit.jobs.running import run_job
from bpejit.progress_bar import Progress
from bpejit.splitting import compile_pattern
from bpejit.storage.files import file_sha256

MOST_UNITS = 1024
"""Units of small inputs, so that a cluster divides them evenly; those of larger ones have `UNIT_BYTES`."""

LEAST_UNIT = 1 << 20

GROUP_BYTES = 1 << 30
"""Bytes of input that a worker counts between checkpoints, in some seconds. Then its table is sorted and written to a run."""

UNBOUNDED = 1 << 62


class CountingUnit(NamedTuple):
    """What counting finishes together; see `bpejit.corpus.units.Unit`.

    Parameters
    ----------
    number : int
    weight : int
        The counts are multiplied by it.
    sources : tuple of Source, or of chunks
        Chunks are those of a sample.
    size : int, optional
    """

    number: int
    weight: int
    sources: tuple[Any, ...]
    size: int | None

    @property
    def starts_document(self) -> bool:
        """True: pre-tokens do not cross the borders of units, so a part may begin with any."""
        return True


class ChosenChunks:
    """Yields the chunks of a sample, as `Chunker` does for sources."""

    def chunks(self, chunks: Sequence[AnyChunk]) -> Iterator[AnyChunk]:
        """Yield the chunks of units, in order."""
        return iter(chunks)


def plan_counting_units(job: CountJob, sources: Sequence[Source], contents: Contents) -> list[CountingUnit]:
    """Return the units of sources, those of the same weight together; the chunks of a sample are chosen now."""
    chunker = job.chunker()
    total = contents.sampled_bytes(sum(source.length or 0 for source in sources)) or 0
    unit_bytes = min(UNIT_BYTES, max(LEAST_UNIT, total // MOST_UNITS))
    found: list[tuple[int, tuple[Any, ...], int | None]] = []
    for weight in sorted({source.weight for source in sources}):
        if contents.sample is None:
            same = [source for source in sources if source.weight == weight]
            found += [(weight, unit.sources, unit.size) for unit in plan_units(same, unit_bytes, chunker, None)]
        else:
            found += [(weight, (chunk,), None) for chunk in sample_chunks(chunker, sources, *contents.sample, weight)]
    if contents.sample is not None:  # its pieces are of one size
        found = [(weight, chunks, total // len(found)) for weight, chunks, _ in found]
    return [CountingUnit(number, *one) for number, one in enumerate(found)]


def count_as_job(
    job: CountJob,
    header: CountsHeader,
    sources: Sequence[Source],
    contents: Contents,
    out: str,
    work: Fields,
    *,
    max_memory: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> None:
    """Count the pre-tokens of sources in a job that writes a counts file.

    Parameters
    ----------
    job : CountJob
    header : CountsHeader
        Of the counts, without totals and skipped records.
    sources : sequence of Source
    contents : Contents
    out : str
        A path or a URL.
    work : dict
        What `checked_work` returns.
    max_memory : int, optional
        Bounds the memory of all workers together.
    resume, overwrite : bool
        As for `bpejit.count`.

    Raises
    ------
    CorpusError, OptionError, OutputError, EngineError
    """
    pipes = [source.path for source in sources if source.size is None]
    if pipes:
        raise OptionError(
            f"`{pipes[0]}` can be read only once; expected files, since a job that is resumed, or runs on a cluster, reads "
            "ranges of them: write the text to a file first"
        )
    store = open_store(out, per_input=False)
    command = getattr(work["report"], "command", "")
    options = JobOptions({}, False, None, resume, overwrite, GROUP_BYTES, {}, command)
    units = plan_counting_units(job, sources, contents)
    names, sampled = CountOutputs(store.out), contents.sample is not None
    plan = CountingPlan(
        names, describe_counting(header), options, units, units, store, job, work["chunk_bytes"], sampled, max_memory
    )
    run_job(plan if work["engine"] == RAY else plan.for_tasks(plan.make_engine(work).workers), work)


@dataclass(frozen=True)
class CountingPlan(JobPlan):
    """The counting of inputs into a counts file.

    Parameters
    ----------
    names, job, options, units, mine, store
        See `JobPlan`.
    counting : CountJob
    chunk_bytes : int
    sampled : bool
        Whether the units have the chunks of a sample.
    max_memory : int, optional
        In bytes, of all workers together.
    table_bytes : int
        Most memory of the table of a worker.
    """

    counting: CountJob
    chunk_bytes: int
    sampled: bool
    max_memory: int | None = None
    table_bytes: int = UNBOUNDED

    kernels = (warm_counting,)
    command = "bpejit count"
    stage = "count"

    @property
    def paths(self) -> list[str]:
        """The inputs of the part; all for a sample."""
        if self.sampled:
            return [entry["path"] for entry in self.job["inputs"]]
        return list(dict.fromkeys(source.path for unit in self.mine for source in unit.sources))

    @property
    def releases_gil(self) -> bool:
        """See `JobPlan`."""
        settings = self.counting.settings
        return compile_pattern(settings.pattern, unicode=settings.unicode).kind != "regex"

    def for_tasks(self, slots: int) -> CountingPlan:
        """Return the plan for some workers at the same time, which share the memory."""
        if self.max_memory is None:
            return self
        return replace(self, table_bytes=spill_settings("", self.max_memory, slots).table_bytes)

    def checksum_job(self, checkpoint: Fields) -> None:
        """Return None: counting a text again takes hardly longer than comparing it."""

    def chunk_job(self) -> tuple[CountJob, Chunker | ChosenChunks]:
        """Return the job that counts chunks in workers, and the chunker."""
        return self.counting, ChosenChunks() if self.sampled else self.counting.chunker(self.chunk_bytes)

    def map_units(
        self, units: Sequence[CountingUnit], engine: Engine, folder: Path, advance: Callable[[int], None]
    ) -> Generator[tuple[CountingUnit, CountedGroup | None, int], None, None]:
        """Yield what workers have counted of groups of units, between which there are checkpoints (see `JobPlan`)."""
        job, chunker = self.chunk_job()
        for group in self._groups(units, engine.workers):
            tally = Tally(self.sampled)

            def count(chunk: CountedChunk, tally: Tally = tally) -> None:
                tally.add(chunk)
                advance(tally.done)

            chunks = (chunk for unit in group for chunk in chunker.chunks(unit.sources))
            counting = replace(job, spill=SpillSettings(str(folder), self.table_bytes), weight=group[0].weight)
            try:
                runs = list(chain.from_iterable(engine.fold_chunks(counting, chunks, count)))
            except OutputError as error:  # its advice is to choose a folder for runs, but they belong to the part
                raise error.__cause__ or error from None
            skipped = sum(tally.skipped.values(), NOTHING_SKIPPED)
            yield group[-1], CountedGroup(tally.n_bytes, tally.done, skipped, tally.skipped, runs), 0
            yield group[-1], None, len(group)

    def _groups(self, units: Sequence[CountingUnit], workers: int) -> Iterator[list[CountingUnit]]:
        """Yield adjacent units of the same weight, with `unit_bytes` for each worker."""
        group: list[CountingUnit] = []
        size = 0
        for unit in units:
            if group and (unit.weight != group[0].weight or size >= self.options.unit_bytes * workers):
                yield group
                group, size = [], 0
            group.append(unit)
            size += unit.size or 0
        if group:
            yield group

    def open_sink(self, folder: Path, checkpoint: Fields | None) -> CountingSink:
        """Return what keeps runs (see `JobPlan`)."""
        return CountingSink(folder, checkpoint)


class CountedGroup(NamedTuple):
    """What was counted of several units.

    Parameters
    ----------
    n_bytes : int
        Bytes of text.
    n_read : int
        Bytes of input, or of text for a sample.
    skipped : Skipped
    by_input : dict of str to Skipped
        The same records by their input.
    runs : list of Run
        In the folder of the part.
    """

    n_bytes: int
    n_read: int
    skipped: Skipped
    by_input: Mapping[str, Skipped]
    runs: list[Run]
    checksum: bytes = b""


class CountingSink(PartSink):
    """Keeps the runs of a part and its skipped records.

    Parameters
    ----------
    folder : Path
        The folder of the part.
    checkpoint : dict, optional
        The last checkpoint of the part; None to begin.

    Raises
    ------
    OSError, OutputError
    """

    def __init__(self, folder: Path, checkpoint: Fields | None) -> None:
        known = checkpoint or {"runs": [], "skipped": {}}
        read_runs(folder, known, fresh=False)
        self._runs = list(known["runs"])
        self._found = Tally(False, skipped={path: skipped_of_json(found) for path, found in known["skipped"].items()})
        self._changed: list[Path] = []
        for path in {*folder.glob("*.run")} - {folder / run[0] for run in self._runs}:  # from after the checkpoint
            path.unlink()

    def write(self, result: CountedGroup) -> tuple[int, int]:
        """Take the runs of units; there are no ids and documents, the numbers of which are returned."""
        for run in result.runs:
            path = Path(run.path)
            self._runs.append([path.name, file_sha256(path), run.n, run.n_bytes, run.n_pretokens])
            self._changed.append(path)
        self._found.skip(result.by_input)
        return 0, 0

    def state(self) -> Fields:
        """Return the runs with their hashes, and the skipped records of each input."""
        skipped = {path: skipped_as_json(found) for path, found in self._found.skipped.items()}
        return {"runs": list(self._runs), "skipped": skipped}

    def changed(self) -> list[Path]:
        """Return the new runs."""
        changed, self._changed = self._changed, []
        return changed


def read_runs(folder: Path, checkpoint: Fields, *, fresh: bool) -> list[Run]:
    """Return the runs of a part, which have their hashes unless they are `fresh`; raise OutputError otherwise."""
    runs = []
    for name, sha256, *sizes in checkpoint["runs"]:
        if not fresh:
            check_file(folder / name, sha256, folder=folder)
        runs.append(Run(str(folder / name), *sizes))
    return runs


_TOTALS = "bytes", "pretokens"

_OF_RECORDS = "skipped", "first_skipped"


def _renamed(entry: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    """Return the description of an input with another name of its size; jobs and counts have different ones."""
    return {new if name == old else name: value for name, value in entry.items() if name not in _OF_RECORDS}


def describe_counting(header: CountsHeader) -> Fields:
    """Return what was asked for, for the manifest of an unfinished job: a header of counts without what was counted."""
    fields = json.loads(header.to_json())
    inputs = [_renamed(entry, "bytes", "size") for entry in fields["inputs"]]
    return {**{name: value for name, value in fields.items() if name not in _TOTALS}, "inputs": inputs}


def complete_header(job: Fields, n_bytes: int, n_pretokens: int, skipped: Mapping[str, Skipped]) -> CountsHeader:
    """Return the header of the counts of a job."""
    inputs = describe_skipped([_renamed(entry, "size", "bytes") for entry in job["inputs"]], skipped)
    fields = {**job, "bytes": n_bytes, "pretokens": n_pretokens, "inputs": inputs}
    return CountsHeader.from_json(json.dumps(fields).encode("ascii"))


@dataclass(frozen=True)
class CountOutputs(JobOutputs):
    """The counts file of a job, which is its own manifest.

    Parameters
    ----------
    out : Path
    """

    @property
    def has_many_files(self) -> bool:
        """False."""
        return False

    @property
    def manifest(self) -> Path:
        """The counts file."""
        return self.out

    def first_files(self) -> list[Path]:
        """Return the counts file."""
        return [self.out]

    def existing(self) -> list[Path]:
        """Return the counts file if it exists."""
        return [self.out] if self.out.exists() else []

    def read_description(self) -> Fields | None:
        """Return what the header of the counts file tells; None if there is no such file, or it is broken."""
        try:
            header = CountsReader(self.out).header
        except CountsError:
            return None
        return {"job": describe_counting(header), "bytes": header.n_bytes}

    def read_complete(self, fields: Fields) -> Finished:
        """Return the counts file that was described."""
        return Finished((self.out,), self.out, Totals(bytes=fields["bytes"]))

    def check_totals(self, job: Fields, totals: Totals) -> None:
        """Raise CorpusError if no record has a text."""
        if totals.skipped:
            check_texts(totals.bytes, totals.skipped, [entry["path"] for entry in job["inputs"]])

    def write_final(self, parts: CompleteParts, report: Progress, engine: Engine | None) -> tuple[FilePairs, Finished]:
        """Merge the runs of the parts (see `JobOutputs`)."""
        final, n_parts = self.folder / FINAL, len(parts.checkpoints)
        final.mkdir(exist_ok=True)
        runs: list[Run] = []
        found = Tally(False)
        for part, checkpoint in enumerate(parts.checkpoints):
            runs += read_runs(part_folder(self.folder, part, n_parts), checkpoint, fresh=parts.fresh)
            found.skip({path: skipped_of_json(records) for path, records in checkpoint["skipped"].items()})
        header = complete_header(parts.job, parts.totals.bytes, sum(run.n_pretokens for run in runs), found.skipped)
        if len(runs) > MOST_RUNS:
            runs = _merge_groups(final, runs, engine or make_engine(AUTO), report)
        write_counts(final / self.out.name, header, merge_streams([read_run(run.path) for run in runs]), report)
        return [(final / self.out.name, self.out)], Finished((self.out,), self.out, parts.totals)


def _merge_groups(folder: Path, runs: list[Run], engine: Engine, report: Progress) -> list[Run]:
    """Merge runs to at most `MOST_RUNS` new ones in a folder, groups of them in workers."""
    while len(runs) > MOST_RUNS:
        size = min(MOST_RUNS, -(-len(runs) // engine.workers))
        groups = [runs[begin : begin + size] for begin in range(0, len(runs), size)]
        merged: list[Run] = []
        tasks: Any = iter(groups)
        for run in engine.map_chunks(FunctionJob(partial(merge_some_runs, str(folder))), tasks):
            merged.append(run)
            report("combine", len(merged), len(groups), "runs")
        runs = merged
    return runs
