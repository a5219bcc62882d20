"""`bpejit decode`."""

from __future__ import annotations

import click

from .command_types import command
from .options import (
    complete_path,
    dtype_option,
    out_option,
    overwrite_option,
    read_tokenizer,
    text_format,
    text_option,
    token_format_option,
    tokenizer_option,
)
from .progress import format_bytes, format_rate, format_seconds, watch
from .reporting import check_json_output, report_options, wrote


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
