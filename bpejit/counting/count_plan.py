"""Plan the counting of a corpus, and estimate its time: `plan_count`, for dry runs of `bpejit count` and `bpejit train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bpejit import arguments
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.sources import total_bytes
from bpejit.corpus.units import plan_units
from bpejit.counting.count_corpus import open_inputs
from bpejit.counting.count_job import CountJob, CountWorker
from bpejit.counting.count_options import PlanOptions, SplitSettings
from bpejit.counting.header import CountSettings
from bpejit.counting.spilling import spill_settings
from bpejit.engines import RAY
from bpejit.engines.work_options import checked_work
from bpejit.jobs.sampled_runs import SAMPLES, run_sample
from bpejit.options import chosen, takes

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
    workers, engine, chunk_bytes = work["workers"], work["engine"], work["chunk_bytes"]
    max_memory = arguments.optional_whole_number("max_memory", options["max_memory"], least=1)
    contents, found = open_inputs(inputs, options)
    job = CountJob.of_settings(CountSettings.checked(**chosen(SplitSettings, options)))
    chunker = Chunker(job.splitter(), chunk_bytes=chunk_bytes, normalize_newlines=job.normalize_newlines)
    total = total_bytes(found)
    size = contents.sampled_bytes(total)
    parts, cluster = 0, ""
    if engine == RAY:
        from bpejit.counting.cluster_counting import check_shared_sources, plan_count_parts
        from bpejit.engines.ray_cluster import describe_cluster

        check_shared_sources(found)
        slots, cluster = describe_cluster(work["ray_address"], workers)
        parts = len(plan_count_parts(job, found, contents, chunk_bytes, total=size, slots=slots))
    else:
        slots = job.engine(engine, workers, size, found, max_memory is not None).workers
    if max_memory is not None:
        spill_settings(Path(), max_memory, slots)
    if total is None or size is None:
        return CountPlan(size, 0, 0.0, slots, max_memory, parts, cluster)
    worker = CountWorker(job)
    sample = run_sample(worker, plan_units(found, max(total // SAMPLES, chunk_bytes), chunker, None), chunker)
    if contents.sample is not None:
        sample = sample._replace(n_read=sum(chunk.n_bytes for chunk in sample.results))
    counter = worker.finish()
    assert not isinstance(counter, list)
    table = counter.table()
    share, seconds = sample.expect(size, min(slots, parts) if parts else slots)
    return CountPlan(size, round(int(table.counts.sum()) * share), seconds, slots, max_memory, parts, cluster)
