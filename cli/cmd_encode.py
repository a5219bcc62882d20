"""`bpejit encode`, `bpejit combine` and `bpejit decode`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .cmd_info import wrote_token_file
from .command_types import command
from .encoding_options import (
    dataset_fields,
    describe_dataset,
    describe_job,
    describe_new,
    job_fields,
    job_options,
    telling_what_is_kept,
)
from .progress import format_bytes, format_estimate, format_rate, format_seconds, watch
from .reporting import COMMAND, check_json_output, report_options, wrote
from .shared_options import (
    WRITTEN,
    LazyChoice,
    bom_notes,
    cluster_engine_options,
    complete_path,
    dtype_choices,
    dtype_option,
    input_argument,
    input_options,
    out_option,
    overwrite_option,
    read_tokenizer,
    strip_bom_option,
    text_format,
    text_option,
    token_format_option,
    tokenizer_option,
)

if TYPE_CHECKING:
    from bpejit.jobs.file_encoding import EncodeReport
    from bpejit.storage.files import StrPath


@command()
@click.argument("tokens", metavar="TOKENS", shell_complete=complete_path)
@tokenizer_option
@out_option("File to write the text to.  [default: standard output]")
@overwrite_option
@dtype_option
@token_format_option()
@text_option("Read ids")
@report_options
def decode(
    *,
    tokens: str,
    tokenizer_path: str,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
    out: str | None,
    overwrite: bool,
    dtype: str | None,
    token_format: str,
    text: bool,
) -> None:
    """Decode a file of token ids into the original bytes.

    TOKENS is a token file, or - for ids from standard input, which need --dtype or --text.

    \b
    Example:
        bpejit decode tokens.bin --out back.txt
        bpejit decode tokens.bin | head
        echo 72 105 | bpejit decode - --text
    """
    target = "-" if out is None else out
    check_json_output(target)
    token_format = text_format(token_format, text=text)
    from bpejit.formats.recognize import tokenizer_files
    from bpejit.storage.outputs import check_outputs
    from bpejit.tokenfiles.opening import token_inputs

    with watch() as progress:
        read = [*token_inputs(tokens, format=token_format), *tokenizer_files(tokenizer_path)]
        check_outputs([target], inputs=read, overwrite=overwrite)
        tokenizer = read_tokenizer(tokenizer_path, pattern, special_tokens, unicode, lazy=True)
        begun = progress.seconds
        written = tokenizer.decode_file(
            tokens, target, dtype=dtype, format=token_format, overwrite=overwrite, progress=progress
        )
        seconds = progress.seconds - begun
    progress.finish(
        f"decoded `{tokens}` into {format_bytes(written)} in {format_seconds(seconds)} "
        f"({format_rate(written, seconds, 'bytes')}); {wrote(target)}",
        out=target,
        tokens=progress.stages["decode"].done,
        bytes=written,
        seconds=seconds,
    )


@command("combine")
@click.argument("out", metavar="OUT", shell_complete=complete_path)
@overwrite_option
@report_options
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
    import bpejit
    from bpejit.jobs.file_encoding import EncodeReport

    click.get_current_context().meta[COMMAND] = encode  # errors name its options, which are those of the parts
    with watch() as progress:
        report = bpejit.combine(out, overwrite=overwrite, progress=progress)
    if not isinstance(report, EncodeReport):
        progress.finish(
            f"joined {report.examples:,} examples with {report.ids:,} ids in {format_seconds(report.seconds)}; wrote "
            f"{len(report.paths):,} files, described by `{report.manifest}`",
            details=describe_dataset(report),
            out=out,
            **dataset_fields(report),
        )
        return
    files = f"`{report.path}`" if report.path else f"{len(report.paths):,} files"
    progress.finish(
        f"joined {report.tokens:,} tokens of {format_bytes(report.bytes)} in {format_seconds(report.seconds)}; wrote {files}",
        details=describe_job(report),
        seconds=report.seconds,
        out=out,
        tokens=report.tokens,
        bytes=report.bytes,
        dtype=report.dtype,
        **job_fields(report),
    )


@command()
@input_argument
@out_option("Token file to write, such as tokens.bin, or - for standard output.")
@click.option(
    "--out-dir", metavar="FOLDER", shell_complete=complete_path, help="Folder for one token file per input, instead of --out."
)
@overwrite_option
@tokenizer_option
@click.option(
    "--dtype",
    type=LazyChoice("dtype", lambda: ("auto", *dtype_choices()), known="auto"),
    default="auto",
    show_default=True,
    metavar="DTYPE",  # its choices would import NumPy
    help="Data type of the ids, such as uint16 or uint32; auto is the smallest that fits the vocabulary.",
)
@token_format_option(WRITTEN)
@text_option("Write ids")
@job_options
@input_options
@strip_bom_option
@cluster_engine_options
@report_options
def encode(
    *,
    inputs: tuple[str, ...],
    out: str | None,
    out_dir: str | None,
    overwrite: bool,
    tokenizer_path: str,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
    dtype: str,
    token_format: str,
    text: bool,
    job: dict[str, Any],
    reading: dict[str, Any],
    strip_bom: bool,
    workers: int | None,
    engine: str,
    ray_address: str | None,
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
        bpejit encode corpus.txt --out train.bin --shard-tokens 100M --val-fraction 0.005
        bpejit encode corpus.txt --out tokens.npy
        bpejit encode corpus.txt --out - --text | head
        gunzip -c corpus.txt.gz | bpejit encode - --out more.bin --tokenizer my-tokenizer
    """
    if (out is None) == (out_dir is None):
        found = "neither `--out` nor `--out-dir` is given" if out is None else "`--out` and `--out-dir` are both given"
        raise click.UsageError(
            f"{found}; expected one of them: `--out FILE` for one output, such as `--out tokens.bin`, or `--out-dir FOLDER` "
            "for one per input"
        )
    from bpejit.storage.remote import is_remote, local_path

    out, out_dir = (name if name is None else local_path(name) for name in (out, out_dir))
    target = str(out if out_dir is None else out_dir)
    check_json_output(target)
    token_format = text_format(token_format, text=text)
    from bpejit.corpus.input_paths import list_inputs
    from bpejit.formats.recognize import tokenizer_files
    from bpejit.storage.outputs import check_outputs
    from bpejit.tokenfiles.opening import check_token_outputs
    from bpejit.tokenfiles.output_format import output_format

    token_format = output_format(out, token_format)

    with watch() as progress:
        read = list_inputs(inputs)
        forbidden: list[StrPath] = [*read, *tokenizer_files(tokenizer_path)]
        if is_remote(target):
            pass  # it is checked when the job begins
        elif out_dir is None and not (job["shard_tokens"] or job["resume"] or job["shard"]):
            check_token_outputs(target, inputs=forbidden, overwrite=overwrite or job["dry_run"], format=token_format)
        elif out_dir is None:
            check_outputs([target], inputs=forbidden, overwrite=True)
        tokenizer = read_tokenizer(tokenizer_path, pattern, special_tokens, unicode, lazy=True)
        with telling_what_is_kept(progress, target, per_input=out_dir is not None, job=job):
            report = tokenizer.encode_files(
                inputs,
                out,
                out_dir=out_dir,
                dtype=dtype,
                format=token_format,
                **job,
                **reading,
                strip_bom=strip_bom,
                workers=workers,
                engine=engine,
                ray_address=ray_address,
                overwrite=overwrite,
                progress=progress,
            )
    fields = {
        "out": target,
        "tokens": report.tokens,
        "bytes": report.bytes,
        "dtype": report.dtype,
        "format": token_format,
        "tokenizer_sha256": tokenizer.sha256,
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
        notes=[*bom_notes(report.byte_order_marks, stripped=strip_bom), *_skipped_notes(report)],
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
        text = text if report.units else f"part {report.part} has no units; "
        return f"{text}{report.missing_parts} of the parts of `{out}` {'is' if report.missing_parts == 1 else 'are'} missing"
    if report.part:
        new, seconds = format_bytes(report.new_bytes), format_seconds(report.seconds)
        done = f"encoded part {report.part}, {new} in this run, and" if report.units else f"part {report.part} has no units;"
        text = f"{done} joined all parts, {whole}, in {seconds}; "
    if len(report.paths) > 1:
        return f"{text}wrote {len(report.paths):,} files ({token_format}, {report.dtype}), described by `{report.manifest}`"
    return f"{text}{wrote_token_file(report.path or out, token_format, report.dtype)}"


def _skipped_notes(report: EncodeReport) -> list[str]:
    from bpejit.corpus.blocks import skipped_note

    return [skipped_note(report.skipped.count, report.skipped.first)] if report.skipped else []


def _describe_plan(report: EncodeReport, out: str, token_format: str) -> str:
    kept = f", {report.kept_units:,} of them finished by an earlier run" if report.kept_units else ""
    expected = (
        f"; expected: {format_estimate(report.tokens)} tokens in {format_seconds(report.seconds)}" if report.tokens else ""
    )
    units = f"{report.units:,} unit{'' if report.units == 1 else 's'}"
    if report.cluster:
        parts = f"{report.parts:,} part{'' if report.parts == 1 else 's'}"
        units += f", {parts}, on {report.cluster}"
        expected += f"; memory of a task: {format_bytes(report.worker_memory)}"
    return f"would encode {format_bytes(report.bytes)} in {units}{kept} to `{out}` ({token_format}, {report.dtype}){expected}"
