"""`bpejit tokens`: commands that read token files."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from bpejit.tokenfiles import AUTO

from .command_types import command
from .count_type import Count
from .options import complete_path, dtype_option, pattern_options, read_tokenizer, token_format_option
from .quoting import quoted
from .reporting import debug_option, is_quiet, json_text, report_options, wants_json, write_json, write_table
from .token_files import FIRST_IDS, describe_token_file, token_file_lines

if TYPE_CHECKING:
    from bpejit import Tokenizer

tokens_argument = click.argument("path", metavar="TOKENS", shell_complete=complete_path)

tokenizer_option = click.option(
    "--tokenizer",
    "tokenizer_path",
    metavar="PATH",
    shell_complete=complete_path,
    help="Tokenizer that the file was encoded with.",
)


@click.group()
@debug_option
def tokens() -> None:
    """Show and verify token files.

    \b
    Example:
        bpejit tokens info tokens.bin
        bpejit tokens head tokens.bin --tokenizer tokenizer
        bpejit tokens verify tokens.bin
    """


@command()
@tokens_argument
@dtype_option
@token_format_option(AUTO)
@report_options
def info(*, path: str, dtype: str | None, token_format: str) -> None:
    """Show the size, type and origin of a token file.

    \b
    Example:
        bpejit tokens info tokens.bin
        bpejit tokens info tokens.bin --json
    """
    fields = describe_token_file(path, dtype, token_format)
    if wants_json():
        write_json(**fields)
    else:
        write_table(token_file_lines(fields))


@command()
@tokens_argument
@click.option("-n", "--count", type=Count(1), default=FIRST_IDS, show_default=True, metavar="N", help="Number of ids to show.")
@tokenizer_option
@pattern_options
@dtype_option
@token_format_option(AUTO)
@report_options
def head(
    *,
    path: str,
    count: int,
    tokenizer_path: str | None,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
    dtype: str | None,
    token_format: str,
) -> None:
    """Show the first ids of a token file, one per line, with their text if a tokenizer is given.

    TOKENS is a token file, or - for ids from standard input, which need --dtype.

    \b
    Example:
        bpejit tokens head tokens.bin --count 20
        bpejit tokens head tokens.bin --tokenizer tokenizer
    """
    from bpejit.tokenfiles.opening import read_tokens

    tokenizer = None
    if tokenizer_path is not None:
        tokenizer = read_tokenizer(tokenizer_path, pattern, special_tokens, unicode)
    file = read_tokens(
        path,
        dtype=dtype,
        format=token_format,
        tokenizer_sha256=None if tokenizer is None else tokenizer.sha256,
        vocab_size=None if tokenizer is None else tokenizer.vocab_size,
    )
    ids = [number for block in islice(file.blocks(count), 1) for number in block.tolist()]
    texts = None if tokenizer is None else _decode_each(tokenizer, ids)
    if wants_json():
        shown = None if texts is None else [json_text(text) for text in texts]
        write_json(path=path, dtype=file.dtype, tokens=file.n_tokens, ids=ids, texts=shown)
        return
    lines = map(str, ids) if texts is None else (f"{number:<8}{quoted(text)}" for number, text in zip(ids, texts, strict=True))
    for line in lines:
        click.echo(line)


@command()
@tokens_argument
@tokenizer_option
@pattern_options
@token_format_option(AUTO)
@report_options
def verify(
    *,
    path: str,
    tokenizer_path: str | None,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
    token_format: str,
) -> None:
    """Read all ids of a token file, and compare them with the SHA-256 in its description.

    With --tokenizer, the description has to name that tokenizer as well.
    The exit code is 0 if everything matches, and 1 otherwise.

    \b
    Example:
        bpejit tokens verify tokens.bin
        bpejit tokens verify tokens.bin --tokenizer tokenizer
    """
    from bpejit.tokenfiles.opening import open_tokens

    if tokenizer_path is not None:
        tokenizer = read_tokenizer(tokenizer_path, pattern, special_tokens, unicode)
        open_tokens(path, format=token_format, tokenizer_sha256=tokenizer.sha256, vocab_size=tokenizer.vocab_size)
    fields = describe_token_file(path, None, token_format, verify=True)
    if wants_json():
        write_json(**fields)
    elif not is_quiet():
        click.echo(f"verified `{path}`: {fields['tokens']:,} tokens, SHA-256 {fields['ids_sha256']}")


def _decode_each(tokenizer: Tokenizer, ids: list[int]) -> list[bytes]:
    return [tokenizer.decode_bytes([number]) for number in ids]


for subcommand in (info, head, verify):
    tokens.add_command(subcommand)
