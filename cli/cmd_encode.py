"""`bpejit encode`."""

from __future__ import annotations

import click

from .options import (
    debug_option,
    input_argument,
    input_format_option,
    overwrite_option,
    quiet_option,
    read_tokenizer,
    say_marks,
    spread_options,
    strip_bom_option,
    tokenizer_option,
)
from .progress import format_bytes, format_rate, format_seconds, watch


@click.command()
@input_argument
@click.option(
    "--out", required=True, metavar="FILE", help="The token file to write, such as tokens.bin; - for standard output."
)
@overwrite_option
@tokenizer_option
@click.option(
    "--dtype",
    type=click.Choice(("auto", "uint16", "uint32")),
    default="auto",
    show_default=True,
    help="Type of an id in the file; auto takes the smaller one that holds the vocabulary.",
)
@input_format_option
@strip_bom_option
@spread_options
@quiet_option
@debug_option
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
    input_format: str,
    strip_bom: bool,
    workers: int | None,
    engine: str,
    quiet: bool,
) -> None:
    """Turn text into a file of token ids.

    INPUT is files, globs, or - for standard input.
    The file has no header; beside it, FILE.json says dtype, counts and tokenizer.
    Standard output, pipes and devices receive the ids alone; --dtype chooses their type.

    \b
    Example:
        bpejit encode corpus.txt --out tokens.bin
        gunzip -c corpus.txt.gz | bpejit encode - --out more.bin --tokenizer my-tokenizer
    """
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources
    from bpejit.formats.recognise import tokenizer_files
    from bpejit.tokenfiles.writer import check_token_outputs

    with watch(quiet=quiet) as progress:
        read = [source.path for source in find_sources(inputs, Contents(input_format))]
        check_token_outputs(out, inputs=[*read, *tokenizer_files(tokenizer_path)], overwrite=overwrite)
        tokenizer = read_tokenizer(tokenizer_path, pattern, special_tokens, unicode)
        report = tokenizer.encode_files(
            inputs,
            out,
            dtype=dtype,
            input_format=input_format,
            strip_bom=strip_bom,
            workers=workers,
            engine=engine,
            overwrite=overwrite,
            progress=progress,
        )
    size = f"{format_bytes(report.path.stat().st_size)}, " if report.path is not None else ""
    ratio = f" ({report.bytes / report.tokens:.2f} bytes per token)" if report.tokens else ""
    progress.say(
        f"encoded {format_bytes(report.bytes)} into {report.tokens:,} tokens{ratio} in {format_seconds(report.seconds)} "
        f"({format_rate(report.bytes, report.seconds, 'bytes')}); "
        f"wrote `{out}` ({size}{report.dtype})"
    )
    say_marks(progress, report.byte_order_marks, stripped=strip_bom)
