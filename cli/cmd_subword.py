"""`bpejit subword train`, `encode` and `decode`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .command_types import Group, command
from .count_type import Count
from .options import (
    WRITTEN,
    bom_notes,
    complete_path,
    dtype_option,
    input_argument,
    input_options_without,
    out_option,
    overwrite_option,
    strip_bom_option,
    token_format_option,
)
from .progress import format_bytes, format_rate, format_seconds, watch
from .reporting import check_json_output, debug_option, report_options, wrote
from .token_files import wrote_token_file

if TYPE_CHECKING:
    from bpejit.corpus.contents import Contents

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
@input_options_without("documents", "allow_special")
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
@input_options_without("documents", "allow_special")
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
