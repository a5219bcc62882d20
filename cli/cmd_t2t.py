"""`bpejit subword train`, `encode` and `decode`, and `bpejit datagen`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bpejit.corpus.reading_options import ReadingOptions

from .cmd_info import wrote_token_file
from .command_types import Count, Group, command
from .encoding_options import dataset_fields, dataset_notes, describe_dataset, describe_new, telling_what_is_kept
from .progress import Progress, format_bytes, format_rate, format_seconds, watch
from .reporting import check_json_output, debug_option, report_options, wrote
from .shared_options import (
    WRITTEN,
    LazyChoice,
    bom_notes,
    cluster_engine_options,
    complete_path,
    declared_options,
    dtype_option,
    input_argument,
    out_option,
    overwrite_option,
    strip_bom_option,
    token_format_option,
)

if TYPE_CHECKING:
    from bpejit.corpus.contents import Contents
    from bpejit.t2t.datagen.generation import GenerationReport


def _record_formats() -> tuple[str, ...]:
    from bpejit.t2t.record_formats.registry import record_format_names

    return record_format_names()


@command()
@click.argument("problem", metavar="PROBLEM", shell_complete=complete_path)
@click.option(
    "--data-dir",
    metavar="FOLDER",
    required=True,
    shell_complete=complete_path,
    help="Folder for the vocabularies and the shards, or a URL such as s3://bucket/data.",
)
@click.option("--overwrite", is_flag=True, help="Replace a data set that exists. Vocabularies that exist are always used.")
@click.option(
    "--tmp-dir",
    metavar="FOLDER",
    shell_complete=complete_path,
    help="Folder that a Python class may use.  [default: temporary]",
)
@click.option(
    "--format",
    "record_format",
    type=LazyChoice("format", _record_formats),
    default="tfrecord",
    show_default=True,
    metavar="NAME",
    help="Format of the shards: tfrecord, jsonl or parquet.",
)
@click.option("--seed", type=Count(0), default=0, show_default=True, metavar="N", help="Selects the order of the examples.")
@click.option("--strict", is_flag=True, help="Stop at a malformed or empty sample, instead of skipping it.")
@click.option(
    "--max-memory",
    type=Count(1 << 20, is_size=True),
    default="1G",
    show_default=True,
    metavar="SIZE",
    help="Memory for shuffling, of all workers together.",
)
@click.option(
    "--shard",
    metavar="I/N|auto",
    help="Generate only part I of N, from 0 to N - 1. auto reads SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT, or "
    "RANK and WORLD_SIZE. The last part to finish joins all of them.",
)
@click.option("--task-id", type=Count(0), metavar="I", help="I of --shard I/N, with --num-tasks.")
@click.option("--num-tasks", type=Count(1), metavar="N", help="N of --shard I/N, with --task-id.")
@click.option("--resume", is_flag=True, help="Continue an earlier run of the same job where it ended.")
@click.option("--dry-run", is_flag=True, help="Show the plan and the expected time, and write nothing.")
@cluster_engine_options
@report_options
def datagen(
    *,
    problem: str,
    data_dir: str,
    overwrite: bool,
    tmp_dir: str | None,
    record_format: str,
    seed: int,
    strict: bool,
    max_memory: int,
    shard: str | None,
    task_id: int | None,
    num_tasks: int | None,
    resume: bool,
    dry_run: bool,
    workers: int | None,
    engine: str,
    ray_address: str | None,
) -> None:
    """Generate training data: shards of encoded, shuffled examples.

    PROBLEM is a TOML file that describes the samples and their encoding, or MODULE:CLASS for a Python class.
    A vocabulary that does not exist in the folder of the data is built from a sample of the training set.
    A run that was interrupted or killed continues with --resume.

    \b
    Example:
        bpejit datagen translation.toml --data-dir data
        bpejit datagen translation.toml --data-dir parts --shard 0/8 --resume
        bpejit datagen problems.py:Reversal --data-dir data
    """
    if (task_id is None) != (num_tasks is None) or (task_id is not None and shard is not None):
        raise click.UsageError(
            "`--task-id` and `--num-tasks` stand for `--shard I/N`; expected both of them, or `--shard`, or none: correct the "
            "command"
        )
    if task_id is not None:
        shard = f"{task_id}/{num_tasks}"
    from bpejit.t2t.datagen.generation import generate_data
    from bpejit.t2t.datagen.problem_files import load_problem

    with watch() as progress:
        loaded = load_problem(problem)
        out = f"{data_dir.rstrip('/') or '/'}/{loaded.dataset_filename()}"
        with telling_what_is_kept(progress, out, per_input=False, job={"resume": resume}):
            report = generate_data(
                loaded,
                data_dir,
                tmp_dir=tmp_dir,
                format=record_format,
                seed=seed,
                strict=strict,
                max_memory=max_memory,
                shard=shard,
                resume=resume,
                dry_run=dry_run,
                overwrite=overwrite,
                workers=workers,
                engine=engine,
                ray_address=ray_address,
                progress=progress,
            )
    fields = {
        "data_dir": data_dir,
        **dataset_fields(report),
        "vocabularies": [str(path) for path in report.vocabularies],
        "dry_run": dry_run,
    }
    if dry_run:
        progress.finish(_describe_dataset_plan(report, out, max_memory), **fields)
        return
    progress.finish(
        _dataset_summary(report, progress, out), details=describe_dataset(report), notes=dataset_notes(report), **fields
    )


def _dataset_summary(report: GenerationReport, progress: Progress, out: str) -> str:
    if not progress.stages:  # nothing was left to do
        files = f"{len(report.paths):,} files, described by `{report.manifest}`"
        return f"{report.examples:,} examples with {report.ids:,} ids in {files}"
    what = f"part {report.part}, " if report.part and report.missing_parts else ""
    text = f"generated {what}{report.examples:,} examples with {report.ids:,} ids from {format_bytes(report.bytes)}"
    text += f"{describe_new(report, report.stages.get('vocabulary', 0.0))}; "
    if report.missing_parts:
        text = text if report.units else f"part {report.part} has no units; "
        return f"{text}{report.missing_parts} of the parts of `{out}` {'is' if report.missing_parts == 1 else 'are'} missing"
    if not report.paths:
        return f"{text}all parts are complete, and another process joins them"
    return f"{text}wrote {len(report.paths):,} files, described by `{report.manifest}`"


def _describe_dataset_plan(report: GenerationReport, out: str, max_memory: int) -> str:
    kept = f", {report.kept_units:,} of them finished by an earlier run" if report.kept_units else ""
    units = f"{report.units:,} unit{'' if report.units == 1 else 's'}"
    if report.cluster:
        units += f", {report.parts:,} part{'' if report.parts == 1 else 's'}, on {report.cluster}"
    built = ", ".join(f"`{path}`" for path in report.new_vocabularies)
    first = f"would build {built}, and " if built else "would "
    expected = ""
    if report.examples:
        expected = (
            f"; expected: {report.examples:,} examples with {report.ids:,} ids in {format_seconds(report.seconds)}, and then "
            f"shuffling with at most {format_bytes(max_memory)} of memory"
        )
    elif built:
        expected = "; the time can be estimated when the vocabulary exists"
    task = f"; memory of a task: {format_bytes(report.worker_memory)}" if report.examples and report.cluster else ""
    return f"{first}generate `{out}` from {format_bytes(report.bytes)} in {units}{kept}{expected}{task}"


vocab_option = click.option(
    "--vocab",
    required=True,
    metavar="FILE",
    shell_complete=complete_path,
    help="Vocabulary written by `bpejit subword train`.",
)


def _skipped_notes(contents: Contents) -> list[str]:
    from bpejit.corpus.blocks import skipped_note

    return [skipped_note(contents.skipped.count, contents.skipped.first)] if contents.skipped else []


@click.group(cls=Group)
@debug_option
def subword() -> None:
    """Train and use Tensor2Tensor's subword vocabularies.

    \b
    Example:
        bpejit subword train corpus.txt --vocab-size 8192 --out vocab.subwords
        bpejit subword encode corpus.txt --vocab vocab.subwords --out ids.bin --append-eos
        bpejit subword decode ids.bin --vocab vocab.subwords --out back.txt
    """


@command()
@input_argument
@click.option("--vocab-size", type=Count(1), required=True, metavar="N", help="Number of subtokens, within about 1 %.")
@out_option("Vocabulary to write, such as vocab.subwords.", required=True)
@click.option(
    "--max-subtoken-length",
    type=Count(1),
    metavar="N",
    help="Subtokens have fewer characters than this.",
)
@click.option(
    "--byte-budget",
    type=Count(1, is_size=True),
    metavar="SIZE",
    help="Sample larger files: every n-th line, up to this many bytes per file, such as 500M or 1G.",
)
@click.option(
    "--reserved",
    multiple=True,
    metavar="TEXT",
    help="Text that gets one of the first ids, after <pad> and <EOS>; may be repeated.",
)
@declared_options(ReadingOptions, into="reading", without=("documents", "allow_special"))
@overwrite_option
@report_options
def train(
    *,
    inputs: tuple[str, ...],
    vocab_size: int,
    out: str,
    max_subtoken_length: int | None,
    byte_budget: int | None,
    reserved: tuple[str, ...],
    reading: dict[str, Any],
    overwrite: bool,
) -> None:
    """Build a subword vocabulary from text with one sentence per line.

    INPUT is one or more files, folders, globs or URLs, or - for standard input, as for `bpejit encode`; the texts of records
    have one sentence per line as well.
    Files named *.tsv have lines with a word, a tab and a count.

    \b
    Example:
        bpejit subword train corpus.txt --vocab-size 8192 --out vocab.subwords
        bpejit subword train 'shards/*.txt' --vocab-size 8192 --byte-budget 1G --out large.subwords
    """
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources
    from bpejit.storage.files import check_writable
    from bpejit.storage.outputs import check_outputs, is_standard_output
    from bpejit.t2t.subword_files import train_vocabulary

    contents = Contents(strip_bom=True, **reading)
    with watch() as progress:
        check_outputs(
            [out],
            inputs=[source.path for source in find_sources(inputs, Contents(**reading))],
            overwrite=overwrite,
        )
        if not is_standard_output(out):
            check_writable(out)  # before an hour of counting
        encoder = train_vocabulary(
            inputs,
            vocab_size,
            max_subtoken_length=max_subtoken_length,
            byte_budget=byte_budget,
            reserved=reserved,
            contents=contents,
            progress=progress,
        )
        encoder.store_to_file(out, overwrite=overwrite)
        seconds = progress.seconds
    stages = ", ".join(stage.describe() for stage in progress.stages.values())
    read = progress.stages["count"].done
    progress.finish(
        f"trained {encoder.vocab_size:,} subtokens on {format_bytes(read)} in {format_seconds(seconds)}: {stages}; "
        f"{wrote(out)}",
        notes=[*bom_notes(contents.marked, stripped=True), *_skipped_notes(contents)],
        out=out,
        vocab_size=encoder.vocab_size,
        sha256=encoder.sha256,
        bytes=read,
        seconds=seconds,
    )


@command()
@input_argument
@vocab_option
@out_option("Token file to write, such as ids.bin, or - for standard output.", required=True)
@overwrite_option
@click.option(
    "--append-eos", is_flag=True, help="Write the id of <EOS>, 1, after each line, so that decode restores the lines."
)
@token_format_option(WRITTEN)
@declared_options(ReadingOptions, into="reading", without=("documents", "allow_special"))
@strip_bom_option
@report_options
def encode(
    *,
    inputs: tuple[str, ...],
    vocab: str,
    out: str,
    overwrite: bool,
    append_eos: bool,
    token_format: str,
    reading: dict[str, Any],
    strip_bom: bool,
) -> None:
    """Encode text with one sentence per line into a file of ids.

    INPUT is one or more files, folders, globs or URLs, or - for standard input, as for `bpejit encode`; the texts of records
    have one sentence per line as well.
    The file has no header; FILE.json next to it contains dtype, counts and the hash of the vocabulary.

    \b
    Example:
        bpejit subword encode corpus.txt --vocab vocab.subwords --out ids.bin --append-eos
    """
    check_json_output(out)
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources
    from bpejit.t2t.subword_files import encode_file, load_vocabulary
    from bpejit.tokenfiles.opening import check_token_outputs
    from bpejit.tokenfiles.output_format import output_format

    token_format = output_format(out, token_format)
    contents = Contents(strip_bom=strip_bom, **reading)
    with watch() as progress:
        read = [source.path for source in find_sources(inputs, Contents(**reading))]
        check_token_outputs(out, inputs=[*read, vocab], overwrite=overwrite, format=token_format)
        encoder = load_vocabulary(vocab)
        report = encode_file(
            encoder,
            inputs,
            out,
            append_eos=append_eos,
            format=token_format,
            contents=contents,
            overwrite=overwrite,
            progress=progress,
        )
        seconds = progress.stages["encode"].seconds
    ratio = f" ({report.bytes / report.tokens:.2f} bytes per id)" if report.tokens else ""
    progress.finish(
        f"encoded {report.lines:,} lines, {format_bytes(report.bytes)}, into {report.tokens:,} ids{ratio} in "
        f"{format_seconds(seconds)} ({format_rate(report.bytes, seconds, 'bytes')}); "
        f"{wrote_token_file(out, token_format, report.dtype)}",
        notes=[*bom_notes(contents.marked, stripped=strip_bom), *_skipped_notes(contents)],
        out=out,
        lines=report.lines,
        tokens=report.tokens,
        bytes=report.bytes,
        dtype=report.dtype,
        format=token_format,
        tokenizer_sha256=encoder.sha256,
        seconds=seconds,
    )


@command()
@click.argument("tokens", metavar="TOKENS", shell_complete=complete_path)
@vocab_option
@out_option("File to write the text to.  [default: standard output]")
@overwrite_option
@dtype_option
@token_format_option()
@report_options
def decode(*, tokens: str, vocab: str, out: str | None, overwrite: bool, dtype: str | None, token_format: str) -> None:
    """Decode a file of ids into text, with a line for each <EOS>.

    TOKENS is a token file, or - for ids from standard input, which need --dtype.
    Ids encoded without --append-eos become one line.

    \b
    Example:
        bpejit subword decode ids.bin --vocab vocab.subwords --out back.txt
    """
    target = "-" if out is None else out
    check_json_output(target)
    from bpejit.storage.outputs import check_outputs
    from bpejit.t2t.subword_files import decode_file, load_vocabulary
    from bpejit.tokenfiles.opening import token_inputs

    with watch() as progress:
        check_outputs([target], inputs=[*token_inputs(tokens, format=token_format), vocab], overwrite=overwrite)
        encoder = load_vocabulary(vocab)
        written = decode_file(encoder, tokens, target, dtype=dtype, format=token_format, overwrite=overwrite, progress=progress)
        seconds = progress.stages["decode"].seconds
    progress.finish(
        f"decoded `{tokens}` into {format_bytes(written)} in {format_seconds(seconds)} "
        f"({format_rate(written, seconds, 'bytes')}); {wrote(target)}",
        out=target,
        tokens=progress.stages["decode"].done,
        bytes=written,
        seconds=seconds,
    )


for subcommand in (train, encode, decode):
    subword.add_command(subcommand)
