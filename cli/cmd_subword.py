"""`bpejit subword train`, `encode` and `decode`."""

from __future__ import annotations

import re

import click

from bpejit.errors import shorten

from .options import (
    debug_option,
    dtype_option,
    input_argument,
    input_format_option,
    overwrite_option,
    quiet_option,
    say_marks,
    strip_bom_option,
)
from .progress import format_bytes, format_rate, format_seconds, watch

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

vocab_option = click.option("--vocab", required=True, metavar="FILE", help="The vocabulary that `bpejit subword train` wrote.")


def _byte_size(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Read a number of bytes, such as `500M`."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKMGT]?)B?", value)
    size = int(float(match[1]) * UNITS[match[2].replace("K", "k")]) if match else 0
    if size < 1:
        raise click.BadParameter(f"{shorten(value)} is not a number of bytes; expected one such as 500000, 500M or 1G")
    return size


@click.group()
@debug_option
def subword() -> None:
    """Tensor2Tensor's subword vocabularies: train one, and encode and decode with it.

    \b
    Example:
        bpejit subword train corpus.txt --vocab-size 8192 --out vocab.subwords
        bpejit subword encode corpus.txt --vocab vocab.subwords --out ids.bin --append-eos
        bpejit subword decode ids.bin --vocab vocab.subwords --out back.txt
    """


@subword.command()
@input_argument
@click.option("--vocab-size", type=click.IntRange(min=1), required=True, metavar="N", help="Subtokens, within about 1 %.")
@click.option("--out", required=True, metavar="FILE", help="The vocabulary to write, such as vocab.subwords.")
@click.option(
    "--max-subtoken-length",
    type=click.IntRange(min=1),
    metavar="N",
    help="Make only subtokens with fewer characters than this.",
)
@click.option(
    "--byte-budget",
    callback=_byte_size,
    metavar="SIZE",
    help="Of a file that is larger take every n-th line, evenly, until this is used; 500M or 1G, for example.",
)
@click.option(
    "--reserved",
    multiple=True,
    metavar="TEXT",
    help="A text that gets one of the first ids, behind <pad> and <EOS>; may be repeated.",
)
@input_format_option
@overwrite_option
@quiet_option
@debug_option
def train(
    *,
    inputs: tuple[str, ...],
    vocab_size: int,
    out: str,
    max_subtoken_length: int | None,
    byte_budget: int | None,
    reserved: tuple[str, ...],
    input_format: str,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Build a vocabulary of subtokens from text, a sentence on each line.

    INPUT is files, globs, or - for standard input.
    A file whose name ends in .tsv has lines of a word, a tab and a count.

    \b
    Example:
        bpejit subword train corpus.txt --vocab-size 8192 --out vocab.subwords
        bpejit subword train 'shards/*.txt' --vocab-size 8192 --byte-budget 1G --out large.subwords
    """
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources
    from bpejit.storage.outputs import check_outputs
    from bpejit.t2t.subword_files import check_output, train_vocabulary

    contents = Contents(input_format, strip_bom=True)
    with watch(quiet=quiet) as progress:
        check_outputs(
            [out], inputs=[source.path for source in find_sources(inputs, Contents(input_format))], overwrite=overwrite
        )
        check_output(out)  # not after an hour of counting
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
    read = progress.stages["counting"].done
    progress.say(
        f"trained {encoder.vocab_size:,} subtokens on {format_bytes(read)} in {format_seconds(seconds)}: {stages}; "
        f"wrote `{out}`"
    )
    say_marks(progress, contents.marked, stripped=True)


@subword.command()
@input_argument
@vocab_option
@click.option("--out", required=True, metavar="FILE", help="The token file to write, such as ids.bin; - for standard output.")
@overwrite_option
@click.option(
    "--append-eos", is_flag=True, help="Write the id of <EOS>, 1, behind each line; decode needs it to find the lines."
)
@input_format_option
@strip_bom_option
@quiet_option
@debug_option
def encode(
    *,
    inputs: tuple[str, ...],
    vocab: str,
    out: str,
    overwrite: bool,
    append_eos: bool,
    input_format: str,
    strip_bom: bool,
    quiet: bool,
) -> None:
    """Turn text, a sentence on each line, into a file of ids.

    INPUT is files, globs, or - for standard input.
    The file has no header; beside it, FILE.json says dtype, counts and vocabulary.

    \b
    Example:
        bpejit subword encode corpus.txt --vocab vocab.subwords --out ids.bin --append-eos
    """
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources
    from bpejit.t2t.subword_files import encode_file, load_vocabulary
    from bpejit.tokenfiles.writer import check_token_outputs

    contents = Contents(input_format, strip_bom=strip_bom)
    with watch(quiet=quiet) as progress:
        read = [source.path for source in find_sources(inputs, Contents(input_format))]
        check_token_outputs(out, inputs=[*read, vocab], overwrite=overwrite)
        encoder = load_vocabulary(vocab)
        report = encode_file(
            encoder, inputs, out, append_eos=append_eos, contents=contents, overwrite=overwrite, progress=progress
        )
        seconds = progress.stages["encoding"].seconds
    ratio = f" ({report.bytes / report.tokens:.2f} bytes per id)" if report.tokens else ""
    progress.say(
        f"encoded {report.lines:,} lines, {format_bytes(report.bytes)}, into {report.tokens:,} ids{ratio} in "
        f"{format_seconds(seconds)} ({format_rate(report.bytes, seconds, 'bytes')}); wrote `{out}` ({report.dtype})"
    )
    say_marks(progress, contents.marked, stripped=strip_bom)


@subword.command()
@click.argument("tokens", metavar="TOKENS")
@vocab_option
@click.option("--out", metavar="FILE", help="Where the text is written; standard output without it, or with -.")
@overwrite_option
@dtype_option
@quiet_option
@debug_option
def decode(*, tokens: str, vocab: str, out: str | None, overwrite: bool, dtype: str | None, quiet: bool) -> None:
    """Turn a file of ids back into text, a line for each <EOS>.

    TOKENS is a token file, or - for ids from standard input, which need --dtype.
    Ids that were written without --append-eos become one line.

    \b
    Example:
        bpejit subword decode ids.bin --vocab vocab.subwords --out back.txt
    """
    from bpejit.storage.outputs import check_outputs, is_standard_output
    from bpejit.t2t.subword_files import decode_file, load_vocabulary
    from bpejit.tokenfiles.flat import token_inputs

    target = "-" if out is None else out
    with watch(quiet=quiet) as progress:
        check_outputs([target], inputs=[*token_inputs(tokens), vocab], overwrite=overwrite)
        encoder = load_vocabulary(vocab)
        written = decode_file(encoder, tokens, target, dtype=dtype, overwrite=overwrite, progress=progress)
        seconds = progress.stages["decoding"].seconds
    progress.say(
        f"decoded `{tokens}` into {format_bytes(written)} in {format_seconds(seconds)} "
        f"({format_rate(written, seconds, 'bytes')})" + (f"; wrote `{out}`" if not is_standard_output(target) else "")
    )
