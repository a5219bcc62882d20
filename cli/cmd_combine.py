"""`bpejit combine`."""

from __future__ import annotations

import click

from .command_types import command
from .job_reports import dataset_fields, describe_dataset, describe_job, job_fields
from .option_names import COMMAND
from .options import complete_path, overwrite_option
from .progress import format_bytes, format_seconds, watch
from .reporting import report_options


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
    from bpejit.encoding.file_encoding import EncodeReport

    from .cmd_encode import encode

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
