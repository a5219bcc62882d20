"""Count the pre-tokens of a corpus: `count`, and `count_corpus` for callers that read the counts only once.

`plan_count` estimates the time of counting, for dry runs of `bpejit count` and `bpejit train`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpejit import arguments
from bpejit.corpus.blocks import NOTHING_SKIPPED, no_texts
from bpejit.corpus.contents import Contents
from bpejit.corpus.fingerprints import identify_input
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.reading_options import InputOptions, ReadingOptions
from bpejit.corpus.registry import TEXT
from bpejit.corpus.sources import Source, check_shared_sources, find_weighted_sources, total_bytes
from bpejit.corpus.units import SAMPLES, plan_units, run_sample, sample_chunks
from bpejit.counting.count_job import CountedChunk, CountJob, CountWorker, Tally, describe_skipped, part_of_sources
from bpejit.counting.count_options import CountOptions, Memory, PlanOptions, RunSettings
from bpejit.counting.counts import Counts
from bpejit.counting.counts_file import write_counts
from bpejit.counting.header import CountSettings, CountsHeader
from bpejit.counting.pretoken_counter import add_up
from bpejit.counting.spilling import SpilledRuns, shared_runs_folder, spill_settings
from bpejit.engines import RAY, checked_work
from bpejit.errors import OptionError, OutputError
from bpejit.jobs.job_options import parse_shard
from bpejit.options import chosen, takes
from bpejit.process_memory import trim_heap
from bpejit.storage.files import StrPath, is_remote, local_path
from bpejit.storage.outputs import MANIFEST, check_outputs, existing_parent, job_folder
from bpejit.storage.remote import check_remote_output

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_OPTIONS = InputOptions()


@takes(CountOptions)
def count(
    inputs: Inputs,
    *,
    out: StrPath | None = None,
    shard: str | tuple[int, int] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    **options: Unpack[CountOptions],
) -> Counts:
    """Count the distinct pre-tokens of files.

    Parameters
    ----------
    inputs : path, list of paths, or iterator of texts
        As for `bpejit.train`.
    out : path, optional
        Write the counts to this file (see `Counts.load`), block by block.
    shard : str or (int, int), optional
        Count one of several parts of the inputs, as for `Tokenizer.encode_files`: "I/N", or "auto" for the variables of Slurm
        or torchrun. All parts merged (`merge_counts`) are the counts of all inputs.
    resume : bool, default False
        Count in a job that goes on where an earlier run with the same inputs and options ended, with any engine; a gigabyte of
        text is repeated. If `out` is complete, nothing is done. A job is slower by a few percent, and needs `out`. With
        `engine="ray"` and `out`, counting is always a job, so that a run without `resume` may be continued.
    overwrite : bool, default False
        Replace `out` if it exists.
    {options}

    Returns
    -------
    Counts

    Raises
    ------
    ArgumentTypeError, CorpusError, CountsError, OptionError, OutputError, PatternError, EngineError
    """
    settings = CountSettings.checked(**chosen(RunSettings, options))
    work = checked_work(options)
    memory = chosen(Memory, options)
    on_cluster = work["engine"] == RAY
    contents, found = open_inputs(inputs, options)
    part = None
    if shard is not None:
        if contents.sample is not None or on_cluster:
            other = "engine='ray', which divides the work" if on_cluster else "max_bytes, which chooses from all of it"
            raise OptionError(f"shard divides the inputs, and so does {other}; expected one of the two: leave one out")
        found, part = part_of_sources(found, describe_inputs(found, contents), settings, parse_shard(shard) or (0, 1))
    if out is not None:
        out = local_path(arguments.path("out", out, error=OutputError))
    resume, overwrite = arguments.flag("resume", resume), arguments.flag("overwrite", overwrite)
    if resume and out is None:
        raise OptionError(
            "resume is True, and there is no `out=`; expected both, since a job keeps its progress beside the output"
        )
    if out is not None and (resume or on_cluster or _is_begun(out)):
        if memory["temporary_folder"] is not None:
            raise OptionError(
                f"temporary_folder is given, and counting is a job, which keeps its progress beside `{out}`; expected one of "
                "them: leave `temporary_folder=` out"
            )
        from bpejit.counting.counting_plan import count_as_job  # not at the top: most counts are no jobs

        max_memory = _checked_memory(memory["max_memory"])
        header = CountsHeader(settings, describe_inputs(found, contents, part), parts=() if part is None else (part,))
        job = CountJob.of_settings(settings)
        count_as_job(job, header, found, contents, out, work, max_memory=max_memory, resume=resume, overwrite=overwrite)
        return Counts.load(out)
    if out is not None and is_remote(out):
        check_remote_output(out, overwrite=overwrite)
    elif out is not None:
        check_outputs([out], inputs=[source.path for source in found], overwrite=overwrite)
    if memory["temporary_folder"] is None:
        memory["temporary_folder"] = folder_of(out)
    with count_corpus(settings, found, contents, **work, **memory, part=part) as counts:
        if out is None:
            return Counts(counts.header, counts.any_order, in_order=False)
        write_counts(out, counts.header, counts.blocks(), work["report"])
    return Counts.load(out)


def _is_begun(out: str) -> bool:
    """Return True if there is an unfinished job with an output."""
    if not is_remote(out):
        return (job_folder(Path(out), per_input=False) / MANIFEST).exists()
    from bpejit.jobs.job_plan import open_store  # only here: importing it takes 20 ms

    return open_store(out, per_input=False).begun() is not None


def open_inputs(inputs: Inputs, options: Mapping[str, Any]) -> tuple[Contents, list[Source]]:
    """Return the checks of inputs, and their sources with weights, by the options of `ReadingOptions` and `Sampling`."""
    contents = Contents(strip_bom=True, **chosen(ReadingOptions, options))
    contents.choose_sample(options["max_bytes"], options["seed"])
    return contents, find_weighted_sources(inputs, options["sources"], contents)


def folder_of(out: str | None, *, urls: bool = False) -> str | None:
    """Return the path of the folder for an output, or its URL if temporary files may be at URLs."""
    if out is None or (is_remote(out) and not urls):
        return None
    return out.rstrip("/").rpartition("/")[0] if is_remote(out) else str(existing_parent(out))


def _checked_memory(max_memory: int | None) -> int | None:
    return arguments.optional_whole_number("max_memory", max_memory, least=1)


@contextmanager
def count_corpus(
    settings: CountSettings,
    sources: list[Source],
    contents: Contents,
    *,
    max_memory: int | None = None,
    temporary_folder: StrPath | None = None,
    part: Mapping[str, Any] | None = None,
    **work: Any,
) -> Iterator[Counts]:
    """Count the pre-tokens of all sources. With `max_memory`, the counts can be read until the context exits.

    Parameters
    ----------
    settings : CountSettings
    sources : list of Source
    contents : Contents
        Checks of the inputs; has a list of those with a byte-order mark.
    max_memory, temporary_folder
        As for `count`.
    part : dict, optional
        The record of a part, if the sources are one (see `part_of_sources`).
    **work
        What `checked_work` returns.
    """
    job = CountJob.of_settings(settings)
    total = contents.sampled_bytes(total_bytes(sources))
    max_memory = _checked_memory(max_memory)
    if work["engine"] == RAY:
        from bpejit.counting.counting_plan import count_as_job

        header = CountsHeader(settings, describe_inputs(sources, contents))
        with shared_runs_folder(_checked_folder(temporary_folder, urls=True)) as shared:
            count_as_job(job, header, sources, contents, f"{shared}/counts", work, max_memory=max_memory)
            yield Counts.load(f"{shared}/counts")
        return
    header_of = partial(_header, settings, sources, contents, part)
    spread = job.engine(work["engine"], work["workers"], total, sources, max_memory is not None)
    chunker = job.chunker(work["chunk_bytes"])
    tally = Tally(contents.sample is not None)

    def advance(chunk: CountedChunk) -> None:
        tally.add(chunk)
        work["report"]("count", tally.done, total, "bytes")

    with nullcontext() if max_memory is None else shared_runs_folder(_checked_folder(temporary_folder)) as folder:
        if max_memory and folder:
            job = replace(job, spill=spill_settings(folder, max_memory, spread.workers))
        trim_heap()  # forked workers inherit the memory that compiling the pattern has freed
        # There is no report before the workers run: a progress bar may start a thread, and then workers could not be forked.
        results = []
        for weight in sorted({source.weight for source in sources}):
            chunks = (
                chunker.chunks([source for source in sources if source.weight == weight])
                if contents.sample is None
                else sample_chunks(chunker, sources, *contents.sample, weight)
            )
            results += spread.fold_chunks(replace(job, weight=weight), chunks, advance)
        if folder is None:
            # Sorting 140,000 pre-tokens would take 25 ms, and the merges do not depend on the order.
            table = add_up(results, spread.workers)
            del results
            trim_heap()  # threads retain the memory of their tables
            counts = Counts(header_of(tally, table.n_total), table, in_order=False)
            del table  # so that `take_table` frees it before merges are learned
            yield counts
            return
        runs = SpilledRuns(folder, list(chain.from_iterable(results)))
        yield Counts(header_of(tally, runs.n_pretokens), runs)


def _checked_folder(temporary_folder: StrPath | None, *, urls: bool = False) -> str:
    """Return the path or the URL of the folder for runs."""
    if temporary_folder is None:
        return tempfile.gettempdir()
    parent = local_path(arguments.path("temporary_folder", temporary_folder, error=OutputError))
    if is_remote(parent):
        if not urls:
            raise OptionError(
                f"temporary_folder is `{parent}`; expected an existing folder of this machine: URLs need engine='ray'"
            )
        return parent
    if not Path(parent).is_dir():
        raise OptionError(f"temporary_folder is `{parent}`, which is not a folder; expected an existing folder: create it")
    return parent


def _header(
    settings: CountSettings,
    sources: list[Source],
    contents: Contents,
    part: Mapping[str, Any] | None,
    tally: Tally,
    n_pretokens: int,
) -> CountsHeader:
    """Return the header of counts, or raise CorpusError if no record has a text."""
    if not tally.n_bytes and tally.skipped:
        raise no_texts(sum(tally.skipped.values(), NOTHING_SKIPPED))
    inputs = describe_skipped(describe_inputs(sources, contents, part), tally.skipped)
    return CountsHeader(settings, inputs, tally.n_bytes, n_pretokens, () if part is None else (part,))


def describe_inputs(sources: list[Source], contents: Contents, part: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return what identifies each input, for `CountsHeader.inputs`: path, size, fingerprint, and how it is read."""
    inputs = []
    for source in sources:
        entry: dict[str, Any] = {"path": source.path, "bytes": source.size, **identify_input(source)}
        if source.path in contents.marked:
            entry["byte_order_mark"] = True
        given = source.options.that_change_ids()
        del given["input_format"], given["strip_bom"]  # the format that was found stands beside, and marks are told above
        options = {name: value for name, value in given.items() if value != getattr(DEFAULT_OPTIONS, name)}
        if source.input_format != TEXT or options:
            entry["read_as"] = {"format": source.input_format, **options}
        if source.weight != 1:
            entry["weight"] = source.weight
        if contents.sample is not None:
            entry["max_bytes"], entry["seed"] = contents.sample
        if part is not None:
            entry |= {"plan": part["plan"], "range": [source.start, source.size if source.stop is None else source.stop]}
        inputs.append(entry)
    return inputs


@dataclass(frozen=True)
class CountPlan:
    """Result of `plan_count`.

    Parameters
    ----------
    bytes : int, optional
        Bytes of input, or of the sample that `max_bytes` takes; None if unknown.
    pretokens : int
        Expected number of pre-tokens, without the weights of `sources`; 0 if unknown.
    seconds : float
        Expected time of counting; 0.0 if unknown. Sorting, merging and writing the distinct pre-tokens are not included: their
        number is not known from a sample.
    workers : int
        Chunks that are counted at the same time, or tasks on a cluster.
    max_memory : int, optional
        As given. Without it, memory grows with the number of distinct pre-tokens.
    parts : int
        Tasks on a cluster that count; 0 without one.
    cluster : str
        The Ray cluster, in words.
    """

    bytes: int | None
    pretokens: int
    seconds: float
    workers: int
    max_memory: int | None = None
    parts: int = 0
    cluster: str = ""


@takes(PlanOptions)
def plan_count(inputs: Inputs, **options: Unpack[PlanOptions]) -> CountPlan:
    """Plan what `bpejit.count`, and the counting of `bpejit.train`, would do, and estimate its time from a sample.

    Nothing is written. A few chunks of the input are counted, unless a pipe or an iterator, which can be read only once, is
    part of it. A cluster is asked for its size, and a local one is not started.

    Parameters
    ----------
    inputs : path, list of paths, or iterator of texts
    {options}

    Returns
    -------
    CountPlan

    Raises
    ------
    ArgumentTypeError, CorpusError, OptionError, PatternError, EngineError
    """
    work = checked_work(options)
    workers = work["workers"]
    engine = work["engine"]
    chunk_bytes = work["chunk_bytes"]
    max_memory = _checked_memory(options["max_memory"])
    contents, found = open_inputs(inputs, options)
    job = CountJob.of_settings(CountSettings.checked(**chosen(RunSettings, options)))
    chunker = job.chunker(chunk_bytes)
    total = total_bytes(found)
    size = contents.sampled_bytes(total)
    parts = 0
    cluster = ""
    if engine == RAY:
        from bpejit.counting.counting_plan import plan_counting_units
        from bpejit.engines.ray_cluster import describe_cluster
        from bpejit.jobs.cluster_jobs import choose_parts

        check_shared_sources(found)
        slots, cluster = describe_cluster(work["ray_address"], workers)
        parts = choose_parts(plan_counting_units(job, found, contents), slots)
    else:
        slots = job.engine(engine, workers, size, found, max_memory is not None).workers
    if max_memory is not None:
        spill_settings("", max_memory, slots)
    if total is None or size is None:
        return CountPlan(size, 0, 0.0, slots, max_memory, parts, cluster)
    worker = CountWorker(job)
    results, seconds = run_sample(worker, plan_units(found, max(total // SAMPLES, chunk_bytes), chunker, None), chunker)
    n_read = sum(chunk.n_read if contents.sample is None else chunk.n_bytes for chunk in results)
    share = size / n_read if n_read else 0.0
    counter = worker.finish()
    assert not isinstance(counter, list)
    table = counter.table()
    seconds *= share / (min(slots, parts) if parts else slots)
    return CountPlan(size, round(int(table.counts.sum()) * share), seconds, slots, max_memory, parts, cluster)
