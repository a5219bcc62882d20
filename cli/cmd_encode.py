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
    describe_missing,
    describe_new,
    describe_units,
    job_fields,
    job_options,
    telling_what_is_kept,
)
from .progress import Progress, format_bytes, format_estimate, format_rate, format_seconds, watch
from .reporting import check_json_output, current, wrote
from .shared_options import (
    WRITTEN,
    TokenizerChoice,
    bom_notes,
    cluster_engine_options,
    dtype_option,
    input_argument,
    input_options,
    out_option,
    overwrite_option,
    path_argument,
    path_option,
    read_dtype_option,
    skipped_notes,
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
@path_argument("tokens", "TOKENS")
@tokenizer_option
@out_option("File to write the text to.  [default: standard output]")
@read_dtype_option
@token_format_option()
@text_option("Read ids")
def decode(
    *,
    tokens: str,
    tokenizer: TokenizerChoice,
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
    from bpejit.storage.outputs import check_outputs
    from bpejit.tokenfiles.opening import token_inputs

    with watch() as progress:
        read = [*token_inputs(tokens, format=token_format), *tokenizer.files()]
        check_outputs([target], inputs=read, overwrite=overwrite)
        decoder = tokenizer.load_lazily()
        begun = progress.seconds
        written = decoder.decode_file(tokens, target, dtype=dtype, format=token_format, overwrite=overwrite, progress=progress)
    finish_decoding(progress, tokens, target, written, progress.seconds - begun)


def finish_decoding(progress: Progress, tokens: str, out: str, written: int, seconds: float) -> None:
    """Report that a file of ids was decoded."""
    progress.finish(
        f"decoded `{tokens}` into {format_bytes(written)} in {format_seconds(seconds)} "
        f"({format_rate(written, seconds, 'bytes')}); {wrote(out)}",
        out=out,
        tokens=progress.stages["decode"].done,
        bytes=written,
        seconds=seconds,
    )


@command("combine")
@path_argument("out", "OUT")
@overwrite_option
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

    current().command = encode  # errors name its options, which are those of the parts
    with watch() as progress:
        report = bpejit.combine(out, overwrite=overwrite, progress=progress)
    fields: dict[str, Any] = {"seconds": report.seconds, "out": out}
    files = f"{len(report.paths):,} files"
    if isinstance(report, EncodeReport):
        what, details = f"{report.tokens:,} tokens of {format_bytes(report.bytes)}", describe_job(report)
        files = f"`{report.path}`" if report.path else files
        fields |= {"tokens": report.tokens, "bytes": report.bytes, "dtype": report.dtype, **job_fields(report)}
    else:
        what, details = f"{report.examples:,} examples with {report.ids:,} ids", describe_dataset(report)
        files += f", described by `{report.manifest}`"
        fields |= dataset_fields(report)
    progress.finish(f"joined {what} in {format_seconds(report.seconds)}; wrote {files}", details=details, **fields)


@command()
@input_argument
@path_option("-o", "--out", metavar="FILE", help="Token file to write, such as tokens.bin, or - for standard output.")
@path_option("--out-dir", metavar="FOLDER", help="Folder for one token file per input, instead of --out.")
@overwrite_option
@tokenizer_option
@dtype_option("Data type of the ids, such as uint16 or uint32; auto is the smallest that fits the vocabulary.", automatic=True)
@token_format_option(WRITTEN)
@text_option("Write ids")
@job_options
@input_options
@strip_bom_option
@cluster_engine_options
def encode(
    *,
    inputs: tuple[str, ...],
    out: str | None,
    out_dir: str | None,
    overwrite: bool,
    tokenizer: TokenizerChoice,
    dtype: str,
    token_format: str,
    text: bool,
    job: dict[str, Any],
    reading: dict[str, Any],
    strip_bom: bool,
    work: dict[str, Any],
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
    from bpejit.corpus.input_paths import list_inputs
    from bpejit.storage.outputs import check_outputs
    from bpejit.tokenfiles.opening import check_token_outputs
    from bpejit.tokenfiles.output_format import output_format

    token_format = output_format(out, text_format(token_format, text=text))

    with watch() as progress:
        forbidden: list[StrPath] = [*list_inputs(inputs), *tokenizer.files()]
        if is_remote(target):
            pass  # it is checked when the job begins
        elif out_dir is None and not (job["shard_tokens"] or job["resume"] or job["shard"]):
            check_token_outputs(target, inputs=forbidden, overwrite=overwrite or job["dry_run"], format=token_format)
        elif out_dir is None:
            check_outputs([target], inputs=forbidden, overwrite=True)
        encoder = tokenizer.load_lazily()
        with telling_what_is_kept(progress, target, per_input=out_dir is not None, job=job):
            options = {"strip_bom": strip_bom, **job, **reading, **work, "overwrite": overwrite, "progress": progress}
            report = encoder.encode_files(inputs, out, out_dir=out_dir, dtype=dtype, format=token_format, **options)
    fields = {
        "out": target,
        "tokens": report.tokens,
        "bytes": report.bytes,
        "dtype": report.dtype,
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
        notes=[*bom_notes(report.byte_order_marks, stripped=strip_bom), *skipped_notes(report.skipped)],
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
    expected = ""
    if report.tokens:
        expected = f"; expected: {format_estimate(report.tokens)} tokens in {format_seconds(report.seconds)}"
    memory = f"; memory of a task: {format_bytes(report.worker_memory)}" if report.cluster else ""
    return f"would encode {what}{expected}{memory}"
