"""The interface of a kind of job, and how a job begins or goes on.

A job *maps* over the units of its input and *combines* what its parts have written. A kind of job, such as encoding, is a
`JobPlan` (what a part does with its units) and a `JobOutputs` (what becomes of complete parts; `bpejit.jobs.job_records`).
`begin_job` and `last_checkpoint` decide what happens to what an earlier run left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bpejit.corpus.fingerprints import chain_checksum, modified_times, times_sha256
from bpejit.corpus.units import size_of_units
from bpejit.engines import Engine, Job, make_engine, remarks
from bpejit.errors import CorpusError, OptionError, OutputError
from bpejit.jobs.folder_store import FolderStore, Left
from bpejit.jobs.job_folder import Fields, Totals
from bpejit.jobs.job_options import Finished, JobOptions, Part
from bpejit.jobs.job_records import JobOutputs, begun_manifest, find_begun_difference, identify_part, read_checkpoint
from bpejit.jobs.url_store import Store, UrlStore
from bpejit.progress_bar import Progress
from bpejit.storage.files import is_remote, local_path
from bpejit.storage.outputs import InputFiles

if TYPE_CHECKING:
    from typing_extensions import Self


def open_store(out: str, *, per_input: bool) -> Store:
    """Return the store of a job with an output, a path or a URL."""
    out = local_path(out)
    return UrlStore(out.rstrip("/"), per_input) if is_remote(out) else FolderStore(Path(out), per_input)


def find_store(out: str) -> Store:
    """Return the store of an output: a folder of outputs if a job or a manifest is in it, and otherwise a single one."""
    single, folder = open_store(out, per_input=False), open_store(out, per_input=True)
    if single.begun() is None and (folder.begun() is not None or folder.described() is not None):
        return folder
    return single


class PartSink(ABC):
    """Writes the results of the units of a part into files that only grow."""

    def begin_unit(self, unit: Any) -> None:  # noqa: B027 - not all kinds need it
        """Take note of the unit of the next results."""

    @abstractmethod
    def write(self, result: Any) -> tuple[int, int]:
        """Append the result of a chunk; return the numbers of ids and of documents.

        Raises
        ------
        CorpusError, OSError
        """

    @abstractmethod
    def state(self) -> Fields:
        """Return the fields for a checkpoint from which another sink continues."""

    @abstractmethod
    def changed(self) -> list[Path]:
        """Return the files that may have changed since the last call."""

    def finish(self) -> Fields:
        """Complete the files; return the fields for the checkpoint of the complete part."""
        return self.state()

    def close(self) -> None:  # noqa: B027 - not all kinds keep files open
        """Close the files."""


@dataclass(frozen=True)
class JobPlan(ABC):
    """A job, or a part of one, before it runs.

    Parameters
    ----------
    names : JobOutputs
    job : dict
        What was asked for, as in the manifest.
    options : JobOptions
    units, mine : list of units
        All units, and those of the part that this process works on.
    store : Store
        Where the outputs appear, and the parts are until then. At a URL, the paths in `names` are placeholders.
    """

    names: JobOutputs
    job: Fields
    options: JobOptions
    units: Sequence[Any]
    mine: Sequence[Any]
    store: Store

    command: ClassVar[str]
    """The beginning of the names of tasks on a cluster."""

    stage: ClassVar[str] = "encode"
    """The stage of progress while units are worked on."""

    kernels: ClassVar[tuple[Callable[[], object], ...]]
    """Functions that call the kernels that a part needs."""

    @property
    def size(self) -> int | None:
        """Bytes of input of the part; None if unknown."""
        return size_of_units(self.mine)

    @property
    @abstractmethod
    def paths(self) -> list[str]:
        """The inputs of the part."""

    @property
    def times(self) -> dict[str, int]:
        """The modification times of inputs that are known, in nanoseconds."""
        return {}

    @property
    def begun_fields(self) -> Fields:
        """Fields of the manifest of the unfinished job that only joining needs, and that may differ between parts."""
        return {}

    def identity(self) -> Fields:
        """Return what the checkpoints of the part tell of it."""
        return identify_part(self.job, *(self.options.part or (0, 1)), self.mine)

    def part(self, part: int, parts: int, units: list[Any]) -> Self:
        """Return the plan of a part with these units; what exists of the part is resumed."""
        return replace(self, options=replace(self.options, part=(part, parts), resume=True), mine=units)

    @property
    def releases_gil(self) -> bool:
        """Whether the work runs in kernels (see `choose_engine`)."""
        return True

    def make_engine(self, work: Fields) -> Engine:
        """Return the engine for the units of the part."""
        return make_engine(work["engine"], work["workers"], input_bytes=self.size, releases_gil=self.releases_gil)

    @cached_property
    def modified(self) -> str | None:
        """A hash of the modification times of the inputs, from before they are read."""
        return times_sha256(modified_times(self.paths, self.times))

    @abstractmethod
    def checksum_job(self, checkpoint: Fields) -> tuple[Job, Any] | None:
        """Return the job whose results are checksums of chunks and their bytes of input, and what divides units into chunks.

        None if a part begins again when an input has another modification time.
        """

    @property
    def reading(self) -> Fields:
        """What checkpoints tell of how units are read, for `checksum_job`."""
        return {}

    @abstractmethod
    def chunk_job(self) -> tuple[Job, Any]:
        """Return the job whose results the sink writes, and what divides units into chunks by `chunks(unit.sources)`.

        Results have `n_bytes` of text, `n_read` of input, `skipped` records, and the `checksum` of what was read.
        """

    def map_units(
        self,
        units: Sequence[Any],
        engine: Engine,
        folder: Path,  # noqa: ARG002
        advance: Callable[[int], None],  # noqa: ARG002
    ) -> Generator[tuple[Any, Any, int], None, None]:
        """Yield each result with its unit, in order, and None when units are complete, with their number.

        Parameters
        ----------
        units : list of units
        engine : Engine
        folder : Path
            That of the part.
        advance : callable
            Called with the bytes of input that are read of the next result.
        """
        marks: deque[tuple[Any, bool]] = deque()
        job, chunker = self.chunk_job()

        def chunks() -> Iterator[Any]:
            for unit in units:
                for chunk in chunker.chunks(unit.sources):
                    marks.append((unit, True))
                    yield chunk
                marks.append((unit, False))

        def ended() -> Iterator[tuple[Any, Any, int]]:
            while marks and not marks[0][1]:
                yield marks.popleft()[0], None, 1

        # The engine takes chunks ahead of the results.
        results: Any = engine.map_chunks(job, chunks())
        with closing(results):
            for result in results:
                yield from ended()
                yield marks.popleft()[0], result, 0
                yield from ended()
        yield from ended()

    @abstractmethod
    def open_sink(self, folder: Path, checkpoint: Fields | None) -> PartSink:
        """Return what writes the results of chunks.

        Parameters
        ----------
        folder : Path
            The folder of the part, locked by this process.
        checkpoint : dict, optional
            The last checkpoint, whose files are continued; None to begin.

        Raises
        ------
        OSError, OutputError
        """

    def check_shared(self) -> None:
        """Raise OptionError if the machines of a cluster cannot divide the job among them."""
        if self.options.part is not None:
            raise OptionError(
                "shard is given, and engine is 'ray', which divides the job itself; expected one of the two: leave `shard=` out"
            )

    def for_tasks(self, slots: int) -> Self:  # noqa: ARG002 - not all kinds bound memory
        """Return the plan for a cluster that runs `slots` tasks at the same time."""
        return self

    def shared(self) -> Self:
        """Return what the plans of all tasks on a cluster have in common, with the number of the units alone."""
        return replace(self, units=range(len(self.units)), mine=())


def slice_units(units: Sequence[Any], chosen: Part | None) -> list[Any]:
    """Return the units of a part: a range of all of them, such that all parts have about the same number of bytes.

    A part begins where a document begins. `chosen` is its index and the number of parts; None for all units.
    """
    if chosen is None:
        return list(units)
    part, parts = chosen
    starts = np.cumsum([0, *(unit.size or 0 for unit in units)])
    begins = [index for index, unit in enumerate(units) if unit.starts_document]
    wanted = [int(starts[-1]) * index // parts + (index == parts) for index in (part, part + 1)]
    first, stop = np.searchsorted(starts[np.array(begins, int)], wanted)
    borders = [*begins, len(units)]
    return list(units[borders[first] : borders[stop]])


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
    store.check(plan.names, InputFiles([entry["path"] for entry in plan.job["inputs"]]), overwrite=options.overwrite)
    left = store.find_left()
    if left is not None:
        parts = _go_on(plan, left, parts, say, patience)
    if isinstance(store, UrlStore):
        claim_job(plan, parts)
    return parts


def _go_on(plan: JobPlan, left: Left, parts: int, say: Callable[[str], None], patience: float) -> int:
    """Remove what an earlier run left unless the job goes on from there; return the number of parts."""
    options, store, begun = plan.options, plan.store, left.begun
    has_locks = isinstance(store, FolderStore)
    difference = find_begun_difference(begun, plan.job, options.texts)
    begun_parts = parts
    if begun is not None and difference is None and begun.get("parts") != parts:
        if options.part is None and (options.resume or has_locks):
            begun_parts = int(begun["parts"])
        else:
            difference = f"it is divided into {begun.get('parts')} parts, and this one into {parts}"
    remains = f"`{store.folder}` keeps {store.words_for(left.kept)} of an unfinished job"
    if options.part is not None:
        if begun is not None and difference is not None:
            raise OutputError(
                f"{remains}, but {difference}; expected the same job in all parts: {continuing(begun)}, or remove the folder"
            )
        resumes = begun is None or options.resume
        kept = None if resumes else store.remove_part(*options.part, overwrite=options.overwrite)
        if kept is not None:
            raise OutputError(_unfinished(kept))
        return parts
    if isinstance(store, FolderStore):
        store.wait_for_others(patience)
    if difference is None and (options.resume or not (has_locks or left.kept)):
        return begun_parts
    if not options.overwrite:
        if difference is None and left.kept:
            raise OutputError(_unfinished(remains))
        if difference is not None and (not has_locks or (options.resume and left.kept)):
            what = " to resume it:" if has_locks else ": wait if it is at work; otherwise"
            raise OutputError(
                f"{remains}, but {difference}; expected the same job{what} {continuing(begun)}, or start again with "
                "`overwrite=True`"
            )
    say(f"removed {store.clear(left)} in `{store.folder}`, which an unfinished run left")
    return parts


def continuing(begun: Fields | None) -> str:
    """Return an advice to continue an unfinished job with the command that began it, if that is known."""
    command = (begun or {}).get("command")
    return f"continue it with `{command}`" if command else "give the same inputs and options"


def _unfinished(remains: str) -> str:
    return f"{remains}; expected none: continue it with `resume=True`, or start again with `overwrite=True`"


def begun_fields(plan: JobPlan, parts: int) -> Fields:
    """Return the manifest of an unfinished job."""
    options = plan.options
    return begun_manifest(plan.job, parts) | {
        "units": len(plan.units),
        "overwrite": options.overwrite,
        "command": options.command,
        "texts": options.texts,
        **plan.begun_fields,
    }


def claim_job(plan: JobPlan, parts: int) -> Fields:
    """Write the manifest of the unfinished job, unless another part has, and return it."""
    fields, store = begun_fields(plan, parts), plan.store
    if not store.claim(fields):
        difference = find_begun_difference(store.begun() or None, plan.job, plan.options.texts)
        if difference is not None:
            advice = "" if isinstance(store, FolderStore) else "wait until that job ends, or "
            raise OutputError(
                f"`{store.folder}` belongs to another job: {difference}; expected the same one: {advice}remove the folder"
            )
    return fields


def last_checkpoint(plan: JobPlan, folder: Path, engine: Engine, report: Progress) -> Fields | None:
    """Return the last checkpoint of a part from which the run goes on; None to begin.

    Parameters
    ----------
    plan : JobPlan
        Of the part.
    folder : Path
        The folder of the part, locked by this process.
    engine : Engine
    report : callable

    Raises
    ------
    OutputError
        If it is damaged or that of another part, or the text of its finished units has changed.
    """
    if not plan.options.resume:
        return None
    found = read_checkpoint(folder, plan.identity())
    kept = Totals.of_checkpoint(found).units
    if found is None or found["text"]["modified"] == plan.modified:
        remarks(report)(_describe_resumed(plan, kept, found))
        return found
    checksums = plan.checksum_job(found)
    if checksums is None:
        remarks(report)("an input has another modification time: beginning again")
        return None
    remarks(report)(_describe_resumed(plan, kept, found))
    _compare_text(plan, kept, found, checksums, engine, report)
    return found


def _compare_text(
    plan: JobPlan, kept: int, checkpoint: Fields, checksums: tuple[Job, Any], engine: Engine, report: Progress
) -> None:
    """Compare the text of finished units with what was read; raise OutputError if it has changed."""
    job, chunker = checksums
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
        f"the text of {kept} finished unit{'' if kept == 1 else 's'} in `{plan.names.folder}` has changed: of the inputs, "
        f"`{last}` was modified last; expected the text that was read: restore it, or start again with `overwrite=True`"
    )


def _describe_resumed(plan: JobPlan, kept: int, checkpoint: Fields | None) -> str:
    """Return a remark about where a resumed part goes on."""
    what = "the job" if plan.options.part is None else "part {} of {}".format(*plan.options.part)
    if not plan.mine:
        return f"{what} has no units: the input has {len(plan.units):,}, which belong to other parts"
    if checkpoint is None:
        return f"nothing of {what} is finished yet: beginning with unit 1 of {len(plan.mine)}"
    if checkpoint.get("complete"):
        return f"all {len(plan.mine)} units of {what} are finished already"
    return f"resuming {what} after {kept} of {len(plan.mine)} units"
