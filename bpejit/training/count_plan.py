"""Plan the counting of a corpus, and estimate its time: `plan_count`, for dry runs of `bpejit count` and `bpejit train`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bpejit import arguments
from bpejit.corpus.chunks import CHUNK_BYTES, Chunker
from bpejit.corpus.contents import Contents
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.sizes import MAX_RECORD
from bpejit.corpus.sources import find_weighted_sources, total_bytes
from bpejit.corpus.units import plan_units
from bpejit.counts.spilling import spill_settings
from bpejit.engines import RAY, check_engine_options, check_ray_address
from bpejit.jobs.sampled_runs import SAMPLES, run_sample
from bpejit.splitting import Pattern
from bpejit.training.count_corpus import END_OF_TEXT, check_count_settings
from bpejit.training.count_job import CountJob, CountWorker


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


@arguments.explain_wrong_arguments
def plan_count(
    inputs: Inputs,
    *,
    pattern: Pattern = "gpt2",
    special_tokens: Sequence[str] = (END_OF_TEXT,),
    normalize_newlines: bool = False,
    unicode: str | None = None,
    input_format: str = "auto",
    documents: str = "separator",
    text_field: str = "text",
    text_column: str = "text",
    allow_special: bool = False,
    strict: bool = False,
    max_record: int = MAX_RECORD,
    skip_large_records: bool = False,
    max_bytes: int | None = None,
    seed: int = 0,
    sources: Mapping[str, int] | None = None,
    max_memory: int | None = None,
    workers: int | None = None,
    engine: str = "auto",
    ray_address: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> CountPlan:
    """Plan what `bpejit.count`, and the counting of `bpejit.train`, would do, and estimate its time from a sample.

    Nothing is written. A few chunks of the input are counted, unless a pipe or an iterator, which can be read only once, is
    part of it.

    Parameters
    ----------
    inputs : path, list of paths, or iterator of texts
    pattern, special_tokens, normalize_newlines, unicode
        As for `bpejit.count`.
    input_format, documents, text_field, text_column, allow_special, strict, max_record, skip_large_records
        As for `bpejit.count`.
    max_bytes, seed, sources, max_memory
        As for `bpejit.count`.
    workers, engine, ray_address, chunk_bytes
        As for `bpejit.count`. A cluster is asked for its size, and a local one is not started.

    Returns
    -------
    CountPlan

    Raises
    ------
    ArgumentTypeError, CorpusError, OptionError, PatternError, EngineError
    """
    workers, engine, chunk_bytes = check_engine_options(workers, engine, chunk_bytes, clusters=True)
    ray_address = check_ray_address(ray_address, engine)
    max_memory = arguments.optional_whole_number("max_memory", max_memory, least=1)
    contents = Contents(
        input_format,
        strip_bom=True,
        documents=documents,
        text_field=text_field,
        text_column=text_column,
        allow_special=allow_special,
        strict=strict,
        max_record=max_record,
        skip_large_records=skip_large_records,
    )
    contents.choose_sample(max_bytes, seed)
    job = CountJob.of_settings(check_count_settings(pattern, unicode, special_tokens, normalize_newlines))
    chunker = Chunker(job.splitter(), chunk_bytes=chunk_bytes, normalize_newlines=job.normalize_newlines)
    found = find_weighted_sources(inputs, sources, contents)
    total = total_bytes(found)
    size = contents.sampled_bytes(total)
    parts, cluster = 0, ""
    if engine == RAY:
        from bpejit.engines.ray_cluster import describe_cluster
        from bpejit.training.cluster_counting import check_shared_sources, plan_count_parts

        check_shared_sources(found)
        slots, cluster = describe_cluster(ray_address, workers)
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
    table = counter.table(in_order=False)
    share, seconds = sample.expect(size, min(slots, parts) if parts else slots)
    return CountPlan(size, round(int(table.counts.sum()) * share), seconds, slots, max_memory, parts, cluster)
