"""Count the pre-tokens of a corpus: `count`, and `count_corpus` for callers that read the counts only once."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from bpejit import arguments
from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped, no_texts, total_skipped
from bpejit.corpus.chunks import CHUNK_BYTES, Chunker
from bpejit.corpus.contents import Contents
from bpejit.corpus.fingerprints import identify_input
from bpejit.corpus.input_options import InputOptions
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.registry import TEXT
from bpejit.corpus.sampling import sample_chunks
from bpejit.corpus.sizes import MAX_RECORD
from bpejit.corpus.sources import Source, find_weighted_sources, total_bytes
from bpejit.counts.counts import Counts
from bpejit.counts.counts_file import write_counts
from bpejit.counts.header import CountSettings, CountsHeader
from bpejit.counts.shared_runs import shared_runs_folder
from bpejit.counts.spilling import SpilledRuns, spill_settings
from bpejit.engines import RAY, check_engine_options, check_ray_address
from bpejit.engines.base import Progress, no_progress
from bpejit.errors import OptionError, OutputError
from bpejit.jobs.job_options import parse_shard
from bpejit.process_memory import trim_heap
from bpejit.splitting import Pattern
from bpejit.splitting.unicode_versions import installed_unicode
from bpejit.storage.outputs import check_outputs
from bpejit.storage.remote import check_remote_output, is_remote, local_path, stored_file
from bpejit.training.count_job import CountedChunk, CountJob
from bpejit.training.count_parts import part_of_sources
from bpejit.training.counting import add_up
from bpejit.training.hash_tables import HashTables

END_OF_TEXT = "<|endoftext|>"

DEFAULT_OPTIONS = InputOptions()

_logger = logging.getLogger("bpejit")


@arguments.explain_wrong_arguments
def count(
    inputs: Inputs,
    *,
    out: str | os.PathLike[str] | None = None,
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
    shard: str | tuple[int, int] | None = None,
    max_memory: int | None = None,
    temporary_folder: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    engine: str = "auto",
    ray_address: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Progress | bool | None = None,
) -> Counts:
    """Count the distinct pre-tokens of files.

    Parameters
    ----------
    inputs : path, list of paths, or iterator of texts
        As for `bpejit.train`.
    out : path, optional
        Write the counts to this file (see `Counts.load`), block by block.
    pattern, special_tokens, normalize_newlines, unicode
        As for `bpejit.train`. Tokenizers that are trained from the counts have these settings.
    input_format, documents, text_field, text_column, allow_special, strict, max_record, skip_large_records
        As for `bpejit.train`.
    max_bytes, seed, sources
        As for `bpejit.train`.
    shard : str or (int, int), optional
        Count one of several parts of the inputs, as for `Tokenizer.encode_files`: "I/N", or "auto" for the variables of Slurm
        or torchrun. All parts merged (`merge_counts`) are the counts of all inputs.
    max_memory : int, optional
        Maximum memory in bytes, of all workers together. Tables that would exceed it are written to disk, sorted, and merged at
        the end. Does not change the result. Without `out`, the resulting table itself is in memory.
    temporary_folder : path, optional
        Where `max_memory` writes. By default the folder of `out`, or without `out` the folder for temporary files of the system
        (`TMPDIR`). Everything is removed at the end; files of killed runs are removed by the next run with this folder. With
        `engine="ray"`, all nodes must see it; it may be a URL, where a run that is killed leaves a prefix `.counting.*`.
    overwrite : bool, default False
        Replace `out` if it exists.
    workers, engine, ray_address, chunk_bytes, progress
        As for `bpejit.train`.

    Returns
    -------
    Counts

    Raises
    ------
    ArgumentTypeError, CorpusError, CountsError, OptionError, OutputError, PatternError, EngineError
    """
    settings = check_count_settings(pattern, unicode, special_tokens, normalize_newlines)
    report = arguments.progress(progress) or no_progress
    workers, engine, chunk_bytes = check_engine_options(workers, engine, chunk_bytes, clusters=True)
    ray_address = check_ray_address(ray_address, engine)
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
    found = find_weighted_sources(inputs, sources, contents)
    paths, part = [source.path for source in found], None
    if shard is not None:
        if max_bytes is not None or engine == RAY:
            other = "engine='ray', which divides the work" if engine == RAY else "max_bytes, which chooses from all of it"
            raise OptionError(f"shard divides the inputs, and so does {other}; expected one of the two: leave one out")
        found, part = part_of_sources(found, describe_inputs(found, contents), settings, parse_shard(shard) or (0, 1))
    if out is not None:
        out = local_path(arguments.path("out", out, error=OutputError))
    if out is not None and is_remote(out) and engine != RAY:
        return _count_to_url(
            *(settings, found, contents, out, max_memory, temporary_folder, workers, engine, chunk_bytes, report),
            overwrite=arguments.flag("overwrite", overwrite),
            part=part,
        )
    overwrite = arguments.flag("overwrite", overwrite)
    if out is not None and is_remote(out):
        check_remote_output(out, overwrite=overwrite)
    elif out is not None:
        check_outputs([out], inputs=paths, overwrite=overwrite)
    with count_corpus(
        settings,
        found,
        contents,
        max_memory=max_memory,
        temporary_folder=_folder_of(out) if temporary_folder is None else temporary_folder,
        workers=workers,
        engine=engine,
        ray_address=ray_address,
        chunk_bytes=chunk_bytes,
        report=report,
        out=out if engine == RAY else None,
        part=part,
    ) as counts:
        if out is None:
            return Counts(counts.header, counts.any_order, in_order=False)
        if engine != RAY:
            write_counts(out, counts.header, counts.blocks(), report)
    return Counts.load(out)


def check_count_settings(
    pattern: Pattern, unicode: str | None, special_tokens: Sequence[str], normalize_newlines: bool
) -> CountSettings:
    """Return the settings that arguments of `count` give.

    Raises
    ------
    ArgumentTypeError, OptionError, PatternError
    """
    return CountSettings(
        pattern=arguments.pattern("pattern", pattern),
        unicode=arguments.optional_string("unicode", unicode) or installed_unicode(),
        special_tokens=tuple(arguments.special_tokens("special_tokens", special_tokens)),
        normalize_newlines=arguments.flag("normalize_newlines", normalize_newlines),
    )


def _folder_of(out: str | None) -> str | None:
    """Return the path or the URL of the folder of an output."""
    if out is None:
        return None
    return out.rpartition("/")[0] if is_remote(out) else str(Path(out).absolute().parent)


def _count_to_url(
    settings: CountSettings,
    sources: list[Source],
    contents: Contents,
    out: str,
    max_memory: int | None,
    temporary_folder: str | os.PathLike[str] | None,
    workers: int | None,
    engine: str,
    chunk_bytes: int,
    report: Progress,
    *,
    overwrite: bool,
    part: Mapping[str, Any] | None,
) -> Counts:
    with (
        stored_file(out, overwrite=overwrite) as path,
        count_corpus(
            settings,
            sources,
            contents,
            max_memory=max_memory,
            temporary_folder=temporary_folder,
            workers=workers,
            engine=engine,
            chunk_bytes=chunk_bytes,
            report=report,
            part=part,
        ) as counts,
    ):
        write_counts(path, counts.header, counts.blocks(), report)
    return Counts.load(out)


@contextmanager
def count_corpus(
    settings: CountSettings,
    sources: list[Source],
    contents: Contents,
    *,
    workers: int | None = None,
    engine: str = "auto",
    ray_address: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    report: Progress = no_progress,
    max_memory: int | None = None,
    temporary_folder: str | os.PathLike[str] | None = None,
    out: str | None = None,
    part: Mapping[str, Any] | None = None,
) -> Iterator[Counts]:
    """Count the pre-tokens of all sources. With `max_memory`, the counts can be read until the context exits.

    Parameters
    ----------
    settings : CountSettings
    sources : list of Source
    contents : Contents
        Checks of the inputs; has a list of those with a byte-order mark.
    workers, engine, ray_address, chunk_bytes, report
        Checked by the caller.
    max_memory, temporary_folder
        As for `count`.
    out : str, optional
        With the engine `ray`, a counts file that the cluster writes.
    part : dict, optional
        The record of a part, if the sources are one (see `part_of_sources`).
    """
    job = CountJob.of_settings(settings)
    total = contents.sampled_bytes(total_bytes(sources))
    max_memory = arguments.optional_whole_number("max_memory", max_memory, least=1)
    if engine == RAY:
        with shared_runs_folder(_checked_folder(temporary_folder, urls=True)) as shared:
            yield _count_on_cluster(
                job,
                *(settings, sources, contents, shared, workers, ray_address),
                total=total,
                max_memory=max_memory,
                chunk_bytes=chunk_bytes,
                report=report,
                out=out,
            )
        return
    spread = job.engine(engine, workers, total, sources, max_memory is not None)
    job = replace(job, expected_bytes=None if total is None else total // spread.workers)
    chunker = Chunker(job.splitter(), chunk_bytes=chunk_bytes, normalize_newlines=job.normalize_newlines)
    done = n_bytes = 0
    skipped: dict[str, Skipped] = {}

    def advance(chunk: CountedChunk) -> None:
        nonlocal done, n_bytes
        done += chunk.n_read if contents.sample is None else chunk.n_bytes
        n_bytes += chunk.n_bytes
        if chunk.skipped:
            path = chunk.skipped.first[0].path
            skipped[path] = skipped.get(path, NOTHING_SKIPPED) + chunk.skipped
        report("count", done, total, "bytes")

    with nullcontext() if max_memory is None else shared_runs_folder(_checked_folder(temporary_folder)) as name:
        folder = None if name is None else Path(name)
        if max_memory is not None and folder is not None:
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
            _check_texts(len(table), skipped)
            total = table.n_total if isinstance(table, HashTables) else int(table.counts.sum())
            header = _header(settings, sources, contents, skipped, n_bytes, total, part)
            counts = Counts(header, table, in_order=False)
            del table  # so that `take_table` frees it before merges are learned
            yield counts
            return
        runs = SpilledRuns(str(folder), list(chain.from_iterable(results)))
        _check_texts(runs.n_pretokens, skipped)
        yield Counts(_header(settings, sources, contents, skipped, n_bytes, runs.n_pretokens, part), runs)


def _count_on_cluster(
    job: CountJob,
    settings: CountSettings,
    sources: list[Source],
    contents: Contents,
    folder: str,
    workers: int | None,
    ray_address: str | None,
    *,
    total: int | None,
    max_memory: int | None,
    chunk_bytes: int,
    report: Progress,
    out: str | None,
) -> Counts:
    """Count on a Ray cluster, which is left before merges are learned."""
    from bpejit.engines.ray_cluster import connected
    from bpejit.training.cluster_counting import count_on_cluster, write_cluster_counts

    with connected(ray_address, workers=workers) as cluster:
        getattr(report, "message", _logger.info)(f"counting on {cluster.describe()}")
        counted = count_on_cluster(
            *(job, sources, contents, cluster, folder),
            total=total,
            max_memory=max_memory,
            chunk_bytes=chunk_bytes,
            report=report,
        )
        runs = SpilledRuns(folder, counted.runs)
        _check_texts(runs.n_pretokens, counted.skipped)
        header = _header(settings, sources, contents, counted.skipped, counted.n_bytes, runs.n_pretokens)
        if out is not None:
            write_cluster_counts(out, header, counted, cluster, report)
    return Counts(header, runs)


def _checked_folder(temporary_folder: str | os.PathLike[str] | None, *, urls: bool = False) -> str:
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


def _check_texts(n_pretokens: int, skipped: dict[str, Skipped]) -> None:
    if not n_pretokens and skipped:
        raise no_texts(total_skipped(skipped.values()))


def _header(
    settings: CountSettings,
    sources: list[Source],
    contents: Contents,
    skipped: dict[str, Skipped],
    n_bytes: int,
    n_pretokens: int,
    part: Mapping[str, Any] | None = None,
) -> CountsHeader:
    inputs = describe_inputs(sources, contents)
    for entry, source in zip(inputs, sources, strict=True):
        if part is not None:
            entry |= {"plan": part["plan"], "range": [source.start, source.size if source.stop is None else source.stop]}
        lost = skipped.get(entry["path"])
        if lost:
            entry |= {"skipped": lost.count, "first_skipped": [str(record) for record in lost.first]}
    return CountsHeader(settings, inputs, n_bytes, n_pretokens, () if part is None else (part,))


def describe_inputs(sources: list[Source], contents: Contents) -> list[dict[str, Any]]:
    """Return what identifies each input, for `CountsHeader.inputs`: path, size, fingerprint, and how it is read."""
    inputs = []
    for source in sources:
        entry: dict[str, Any] = {"path": source.path, "bytes": source.size, **identify_input(source)}
        if source.path in contents.marked:
            entry["byte_order_mark"] = True
        chosen = {name: getattr(source.options, name) for name in ("documents", "text_field", "text_column", "allow_special")}
        options = {name: value for name, value in chosen.items() if value != getattr(DEFAULT_OPTIONS, name)}
        if source.input_format != TEXT or options:
            entry["read_as"] = {"format": source.input_format, **options}
        if source.weight != 1:
            entry["weight"] = source.weight
        if contents.sample is not None:
            entry["max_bytes"], entry["seed"] = contents.sample
        inputs.append(entry)
    return inputs
