"""`bpejit decode`."""

from __future__ import annotations

import sys

import click

from .options import debug_option, dtype_option, quiet_option, read_tokenizer, tokenizer_option
from .progress import format_bytes, format_rate, format_seconds, watch


@click.command()
@click.argument("tokens", metavar="TOKENS")
@tokenizer_option
@click.option("--out", metavar="FILE", help="Where the text is written; standard output without it.")
@dtype_option
@quiet_option
@debug_option
def decode(
    *,
    tokens: str,
    tokenizer_path: str,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
    out: str | None,
    dtype: str | None,
    quiet: bool,
) -> None:
    """Turn a file of token ids back into the bytes it was made from.

    \b
    Example:
        bpejit decode tokens.bin --out back.txt
        bpejit decode tokens.bin | head
    """
    with watch(quiet=quiet) as progress:
        tokenizer = read_tokenizer(tokenizer_path, pattern, special_tokens, unicode)
        begun = progress.seconds
        target = sys.stdout.buffer if out is None else out
        written = tokenizer.decode_file(tokens, target, dtype=dtype, progress=progress)
        seconds = progress.seconds - begun
    progress.say(
        f"decoded `{tokens}` into {format_bytes(written)} in {format_seconds(seconds)} "
        f"({format_rate(written, seconds, 'bytes')})" + (f"; wrote `{out}`" if out is not None else "")
    )
