"""`bpejit encode`."""

from __future__ import annotations

import click

from bpejit.tokenfiles import DEFAULT_FORMAT

from .command_types import command
from .options import (
    LazyChoice,
    bom_notes,
    dtype_choices,
    engine_options,
    input_argument,
    input_format_option,
    out_option,
    overwrite_option,
    read_tokenizer,
    strip_bom_option,
    text_format,
    text_option,
    token_format_option,
    tokenizer_option,
)
from .progress import format_bytes, format_rate, format_seconds, watch
from .reporting import check_json_output, report_options, wrote


@command()
@input_argument
@out_option("Token file to write, such as tokens.bin, or - for standard output.", required=True)
@overwrite_option
@tokenizer_option
@click.option(
    "--dtype",
    type=LazyChoice("dtype", lambda: ("auto", *dtype_choices())),
    default="auto",
    show_default=True,
    metavar="DTYPE",  # its choices would import NumPy
    help="Data type of the ids, such as uint16 or uint32; auto is the smallest that fits the vocabulary.",
)
@token_format_option(DEFAULT_FORMAT)
@text_option("Write ids")
@input_format_option
@strip_bom_option
@engine_options
@report_options
def encode(
    *,
    inputs: tuple[str, ...],
    out: str,
    overwrite: bool,
    tokenizer_path: str,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
    dtype: str,
    token_format: str,
    text: bool,
    input_format: str,
    strip_bom: bool,
    workers: int | None,
    engine: str,
) -> None:
    """Encode text into a file of token ids.

    INPUT is one or more files or globs, or - for standard input.
    FILE.json next to the file contains dtype, counts and the hash of the tokenizer.
    Standard output, pipes and devices receive only the ids, without a header or as numbers.

    \b
    Example:
        bpejit encode corpus.txt --out tokens.bin
        bpejit encode corpus.txt --out tokens.npy --format npy
        bpejit encode corpus.txt --out - --text | head
        gunzip -c corpus.txt.gz | bpejit encode - --out more.bin --tokenizer my-tokenizer
    """
    check_json_output(out)
    token_format = text_format(token_format, text=text)
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources
    from bpejit.formats.recognize import tokenizer_files
    from bpejit.tokenfiles.opening import check_token_outputs

    with watch() as progress:
        read = [source.path for source in find_sources(inputs, Contents(input_format))]
        check_token_outputs(out, inputs=[*read, *tokenizer_files(tokenizer_path)], overwrite=overwrite, format=token_format)
        tokenizer = read_tokenizer(tokenizer_path, pattern, special_tokens, unicode)
        report = tokenizer.encode_files(
            inputs,
            out,
            dtype=dtype,
            format=token_format,
            input_format=input_format,
            strip_bom=strip_bom,
            workers=workers,
            engine=engine,
            overwrite=overwrite,
            progress=progress,
        )
    ratio = f" ({report.bytes / report.tokens:.2f} bytes per token)" if report.tokens else ""
    size = None if report.path is None else report.path.stat().st_size
    details = report.dtype if size is None else f"{format_bytes(size)}, {report.dtype}"
    progress.finish(
        f"encoded {format_bytes(report.bytes)} into {report.tokens:,} tokens{ratio} in {format_seconds(report.seconds)} "
        f"({format_rate(report.bytes, report.seconds, 'bytes')}); {wrote(out)} ({details})",
        notes=bom_notes(report.byte_order_marks, stripped=strip_bom),
        out=out,
        tokens=report.tokens,
        bytes=report.bytes,
        dtype=report.dtype,
        format=token_format,
        tokenizer_sha256=tokenizer.sha256,
        seconds=report.seconds,
    )
