"""`bpejit decode`."""

from __future__ import annotations

import click

from .options import debug_option, dtype_option, overwrite_option, quiet_option, read_tokenizer, tokenizer_option
from .progress import format_bytes, format_rate, format_seconds, watch


@click.command()
@click.argument("tokens", metavar="TOKENS")
@tokenizer_option
@click.option("--out", metavar="FILE", help="Where the text is written; standard output without it, or with -.")
@overwrite_option
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
    overwrite: bool,
    dtype: str | None,
    quiet: bool,
) -> None:
    """Turn a file of token ids back into the bytes it was made from.

    TOKENS is a token file, or - for ids from standard input, which need --dtype.

    \b
    Example:
        bpejit decode tokens.bin --out back.txt
        bpejit decode tokens.bin | head
    """
    from bpejit.formats.recognise import tokenizer_files
    from bpejit.storage.outputs import check_outputs, is_standard_output
    from bpejit.tokenfiles.flat import token_inputs

    target = "-" if out is None else out
    with watch(quiet=quiet) as progress:
        check_outputs([target], inputs=[*token_inputs(tokens), *tokenizer_files(tokenizer_path)], overwrite=overwrite)
        tokenizer = read_tokenizer(tokenizer_path, pattern, special_tokens, unicode)
        begun = progress.seconds
        written = tokenizer.decode_file(tokens, target, dtype=dtype, overwrite=overwrite, progress=progress)
        seconds = progress.seconds - begun
    progress.say(
        f"decoded `{tokens}` into {format_bytes(written)} in {format_seconds(seconds)} "
        f"({format_rate(written, seconds, 'bytes')})" + (f"; wrote `{out}`" if not is_standard_output(target) else "")
    )
