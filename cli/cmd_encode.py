"""`bpejit encode`, `bpejit combine` and `bpejit decode`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

import bpejit
from bpejit.errors import shorten
from bpejit.jobs.job_options import OutputOptions

from . import shared_options as shared
from .cmd_info import wrote_token_file
from .command_types import command
from .progress import (
    Progress,
    counted,
    format_bytes,
    format_estimate,
    format_memory,
    format_rate,
    format_seconds,
    telling_what_is_kept,
    watch,
)
from .reporting import check_json_output, fields_of, named, this_command, wrote
from .shared_options import Paths

if TYPE_CHECKING:
    from bpejit.jobs.file_encoding import EncodeReport
    from bpejit.jobs.job_options import JobReport
    from bpejit.t2t.datagen.problems import GenerationReport


def job_fields(report: EncodeReport) -> dict[str, Any]:
    """Return the fields of the JSON report about an encoding job."""
    return {
        **fields_of(report, "documents", "left_out"),
        "skipped_records": report.skipped.count,
        **_run_fields(report),
        "parts": report.parts,
        "cluster": report.cluster or None,
        "timing": report.stages,
    }


def dataset_fields(report: GenerationReport) -> dict[str, Any]:
    """Return the fields of the JSON report about a data set."""
    counts = {**fields_of(report, "examples", "ids", "bytes"), "skipped_samples": report.skipped.count}
    return {**counts, **_run_fields(report), "timing": report.stages, "seconds": report.seconds}


def _run_fields(report: JobReport) -> dict[str, Any]:
    """Return the fields that reports about all jobs have."""
    run = fields_of(report, "manifest", "units", "kept_units", "missing_parts", "new_bytes")
    memory = fields_of(report, "peak_memory", "worker_memory")
    return {"outputs": report.paths, **run, "part": report.part or None, **memory}


def describe_job(report: EncodeReport) -> str:
    """Return the second line of a summary of an encoding job: documents, memory, and where the time went."""
    left_out = f"{report.left_out:,} ids that do not fill a row left out" if report.left_out else ""
    skipped = f"{counted(report.skipped.count, 'record')} skipped" if report.skipped else ""
    return _describe_run(report, counted(report.documents, "document"), left_out, skipped)


def describe_dataset(report: GenerationReport) -> str:
    """Return the second line of a summary of a data set: vocabularies, memory, and where the time went."""
    built = f"vocabulary {', '.join(f'`{path}`' for path in report.vocabularies)}" if report.vocabularies else ""
    return _describe_run(report, built, f"{counted(report.skipped.count, 'sample')} skipped" if report.skipped else "")


def _describe_run(report: JobReport, *parts: str) -> str:
    """Return what summaries of all jobs tell after `parts`: units of an earlier run, memory, and where the time went."""
    kept = f"{report.kept_units:,} of {report.units:,} units from an earlier run" if report.kept_units else ""
    memory = format_memory(report.peak_memory, report.worker_memory)
    stages = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in report.stages.items() if seconds)
    return "; ".join(filter(None, (*parts, kept, memory, f"time: {stages}" if stages else "")))


def describe_new(report: JobReport, apart: float = 0.0) -> str:
    """Return how long a run took, without `apart` seconds, and its rate; the rate is of what this run has encoded."""
    seconds = report.seconds - apart
    if not report.new_bytes and report.bytes:
        return ", all of it in an earlier run"
    rate = f"{format_seconds(seconds)} ({format_rate(report.new_bytes, seconds, 'bytes')})"
    if report.new_bytes < report.bytes:
        return f", {format_bytes(report.new_bytes)} of it in this run, in {rate}"
    return f" in {rate}"


def describe_missing(report: JobReport, text: str, out: str) -> str:
    """Return the summary of a part of a job whose other parts are missing; `text` is about what it has done."""
    text = text if report.units else f"part {report.part} has no units; "
    return f"{text}{report.missing_parts} of the parts of `{out}` {'is' if report.missing_parts == 1 else 'are'} missing"


def describe_units(report: JobReport) -> str:
    """Return the units of a plan, and where they run."""
    parts = f", {counted(report.parts, 'part')}, on {report.cluster}" if report.cluster else ""
    kept = f", {report.kept_units:,} of them finished by an earlier run" if report.kept_units else ""
    return f"{counted(report.units, 'unit')}{parts}{kept}"


def dataset_notes(report: GenerationReport) -> list[str]:
    """Return a remark about the samples that were skipped."""
    skipped = report.skipped
    shown = "; ".join(map(str, skipped.first[:3])) + ("; ..." if skipped.count > 3 else "")
    return [f"skipped {counted(skipped.count, 'malformed or empty sample')}: {shown}"] if skipped else []


def _share(value: Any) -> float:
    """Return a number from 0 up to, but not including, 1, or a percentage."""
    text = str(value).strip()
    with suppress(ValueError):
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        if 0 <= share < 1:
            return share
    raise click.BadParameter(f"{shorten(value)}; expected a number from 0 up to 1, such as 0.005 or 0.5%")


@command()
@shared.tokens_argument("tokens")
@shared.tokenizer_option
@shared.out_option("File to write to.  [default: standard output]")
@shared.read_dtype_option
@shared.token_format_option()
@shared.text_option("Read ids")
def decode(
    *, tokens: Paths, tokenizer: shared.TokenizerChoice, out: str | None, overwrite: bool, token_format: str, **options: Any
) -> None:
    """Decode token files into the original bytes.

    TOKENS are token files, quoted globs or manifests of jobs, or - for ids from standard input, which need --dtype or --text.

    \b
    Example:
        bpejit decode tokens.bin --out back.txt
        bpejit decode tokens.bin | head
        echo 72 105 | bpejit decode - --text
    """
    target = "-" if out is None else out
    check_json_output(target)
    with watch() as progress:
        tokenizer.check_output(target, overwrite=overwrite)
        decoder = tokenizer.load_lazily()
        begun = progress.seconds
        options |= {"format": token_format, "overwrite": overwrite, "progress": progress}
        written = decoder.decode_file(tokens, target, **options)
    finish_decoding(progress, tokens, target, written, progress.seconds - begun)


def finish_decoding(progress: Progress, tokens: Paths, out: str, written: int, seconds: float) -> None:
    """Report that files of ids were decoded."""
    progress.finish(
        f"decoded {named(tokens)} into {format_bytes(written)} in {format_seconds(seconds)} "
        f"({format_rate(written, seconds, 'bytes')}); {wrote(out)}",
        out=out,
        tokens=progress.stages["decode"].done,
        bytes=written,
        seconds=seconds,
    )


@command("combine")
@shared.path_argument("out", "OUT")
@shared.overwrite_option
def combine_command(*, out: str, overwrite: bool) -> None:
    """Join the parts of a job that was divided with --shard.

    OUT is the --out or --out-dir of bpejit encode, or FOLDER/NAME for bpejit datagen: --data-dir and the name of the data set.
    The last part to finish joins them itself; this command does so after that part was killed, and otherwise checks that the
    output is complete.

    \b
    Example:
        bpejit combine tokens.bin
        bpejit combine data/translation
    """
    from bpejit.jobs.file_encoding import EncodeReport

    this_command().command = encode  # errors name its options, which are those of the parts
    with watch() as progress:
        report = bpejit.combine(out, overwrite=overwrite, progress=progress)
    fields: dict[str, Any] = {"seconds": report.seconds, "out": out}
    files = f"{len(report.paths):,} files"
    if isinstance(report, EncodeReport):
        what, details = f"{report.tokens:,} tokens of {format_bytes(report.bytes)}", describe_job(report)
        files = f"`{report.path}`" if report.path else files
        fields |= fields_of(report, "tokens", "bytes", "dtype") | job_fields(report)
    else:
        what, details = f"{report.examples:,} examples with {report.ids:,} ids", describe_dataset(report)
        files += f", described by `{report.manifest}`"
        fields |= dataset_fields(report)
    progress.finish(f"joined {what} in {format_seconds(report.seconds)}; wrote {files}", details=details, **fields)


@command()
@shared.input_argument
@shared.path_option("-o", "--out", metavar="FILE", help="Token file to write, such as tokens.bin, or - for standard output.")
@shared.path_option("--out-dir", metavar="FOLDER", help="Folder for one token file per input, instead of --out.")
@shared.overwrite_option
@shared.tokenizer_option
@shared.dtype_option(
    "Data type of the ids, such as uint16 or uint32; auto is the smallest that fits the vocabulary.", automatic=True
)
@shared.token_format_option(shared.WRITTEN)
@shared.text_option("Write ids")
@shared.declared_options(OutputOptions, into="output", val_fraction={"type": _share, "show_default": False})
@shared.shard_option("Encode only part I of N, from 0 to N - 1")
@shared.resume_option
@shared.dry_run_option
@shared.input_options
@shared.strip_bom_option
@shared.cluster_engine_options
def encode(
    *,
    inputs: tuple[str, ...],
    out: str | None,
    out_dir: str | None,
    tokenizer: shared.TokenizerChoice,
    token_format: str,
    output: dict[str, Any],
    reading: dict[str, Any],
    work: dict[str, Any],
    **job: Any,
) -> None:
    """Encode text into files of token ids.

    INPUT is one or more files, folders, globs or URLs, or - for standard input.
    FILE.json next to the file contains dtype, counts and the hash of the tokenizer, and FILE.manifest.json the inputs and
    options.
    Standard output, pipes and devices receive only the ids, without a header or as numbers.
    A run that was interrupted or killed continues with --resume.

    \b
    Example:
        bpejit encode corpus.txt --out tokens.bin
        bpejit encode corpus.txt -o train.bin --shard-tokens 10M --val-fraction 1%
        bpejit encode corpus.txt --out tokens.npy
        bpejit encode corpus.txt --out - --text | head
        zcat corpus.txt.gz | bpejit encode - -o all.bin --tokenizer my-tokenizer
    """
    if (out is None) == (out_dir is None):
        found = "neither `--out` nor `--out-dir` is given" if out is None else "`--out` and `--out-dir` are both given"
        raise click.UsageError(
            f"{found}; expected one of them: `--out FILE` for one output, such as `--out tokens.bin`, or `--out-dir FOLDER` "
            "for one per input"
        )
    from bpejit.corpus.input_paths import list_inputs
    from bpejit.storage.files import is_remote, local_path
    from bpejit.tokenfiles import check_token_outputs, output_format

    out, out_dir = (name if name is None else local_path(name) for name in (out, out_dir))
    target = str(out if out_dir is None else out_dir)
    check_json_output(target)
    token_format = output_format(out, token_format)
    with watch() as progress:
        if out_dir is None:
            tokenizer.check_output(target, overwrite=True)
            if not (is_remote(target) or output["shard_tokens"] or job["resume"] or job["shard"]):
                overwrite = job["overwrite"] or job["dry_run"]
                check_token_outputs(target, inputs=list_inputs(inputs), overwrite=overwrite, format=token_format)
        encoder = tokenizer.load_lazily()
        with telling_what_is_kept(progress, target, per_input=out_dir is not None, is_part=job["shard"] is not None):
            options = {"format": token_format, **output, **job, **reading, **work}
            report = encoder.encode_files(inputs, out, out_dir=out_dir, **options, progress=progress)
    fields = {
        "out": target,
        **fields_of(report, "tokens", "bytes", "dtype"),
        "format": token_format,
        "tokenizer_sha256": encoder.sha256,
        **job_fields(report),
        "dry_run": job["dry_run"],
        "seconds": report.seconds,
    }
    if job["dry_run"]:
        progress.finish(_describe_plan(report, target, token_format), **fields)
        return
    progress.finish(
        _summary(report, target, token_format),
        details=describe_job(report),
        notes=[*shared.bom_notes(report.byte_order_marks, stripped=job["strip_bom"]), *shared.skipped_notes(report.skipped)],
        **fields,
    )


def _summary(report: EncodeReport, out: str, token_format: str) -> str:
    tokens = report.tokens + report.left_out
    ratio = f" ({report.bytes / tokens:.2f} bytes per token)" if tokens else ""
    where = f" on {report.cluster}" if report.cluster else ""
    whole = f"{format_bytes(report.bytes)} into {report.tokens:,} tokens{ratio}"
    part = f"part {report.part}, " if report.missing_parts else ""
    text = f"encoded {part}{whole}{where}{describe_new(report)}; "
    if report.missing_parts:
        return describe_missing(report, text, out)
    if report.part:
        new, seconds = format_bytes(report.new_bytes), format_seconds(report.seconds)
        done = f"encoded part {report.part}, {new} in this run, and" if report.units else f"part {report.part} has no units;"
        text = f"{done} joined all parts, {whole}, in {seconds}; "
    if len(report.paths) > 1:
        return f"{text}wrote {len(report.paths):,} files ({token_format}, {report.dtype}), described by `{report.manifest}`"
    return f"{text}{wrote_token_file(report.path or out, token_format, report.dtype)}"


def _describe_plan(report: EncodeReport, out: str, token_format: str) -> str:
    what = f"{format_bytes(report.bytes)} in {describe_units(report)} to `{out}` ({token_format}, {report.dtype})"
    estimate = f"{format_estimate(report.tokens)} tokens in {format_seconds(report.seconds)}"
    expected = f"; expected: {estimate}" if report.tokens else ""
    memory = f"; memory of a task: {format_bytes(report.worker_memory)}" if report.cluster else ""
    return f"would encode {what}{expected}{memory}"
