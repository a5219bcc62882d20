"""`bpejit tokens`: commands that read token files."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from bpejit.registry import AUTO

from .cmd_info import FIRST_IDS, describe_token_file, token_file_lines, wrote_token_file
from .command_types import Count, Group, command
from .output_lines import write_line, write_lines
from .reporting import (
    check_json_output,
    debug_option,
    is_quiet,
    json_text,
    report_options,
    wants_json,
    write_json,
    write_table,
)
from .shared_options import (
    SUFFIX,
    LazyChoice,
    complete_path,
    dtype_choices,
    dtype_option,
    input_options,
    out_option,
    overwrite_option,
    pattern_options,
    read_tokenizer,
    token_format_option,
)
from .text_output import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bpejit import Tokenizer
    from bpejit.arrays import Array
    from bpejit.tokenfiles.base import TokenReader

SEARCHED = 1 << 16
"""Number of ids that are searched for the end of a document at a time."""

tokens_argument = click.argument("path", metavar="TOKENS", shell_complete=complete_path)

tokenizer_option = click.option(
    "--tokenizer",
    "tokenizer_path",
    metavar="PATH",
    shell_complete=complete_path,
    help="Tokenizer that the file was encoded with.",
)


@click.group(cls=Group)
@debug_option
def tokens() -> None:
    """Show, verify and convert token files.

    \b
    Example:
        bpejit tokens info tokens.bin
        bpejit tokens head tokens.bin --tokenizer tokenizer
        bpejit tokens verify tokens.bin
        bpejit tokens convert tokens.bin --out tokens.npy
    """


@command()
@tokens_argument
@dtype_option
@token_format_option()
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
@click.option(
    "--first-documents",
    "documents",
    type=Count(1),
    metavar="N",
    help="Show the first N documents instead: as text with --tokenizer, and otherwise as ids.",
)
@tokenizer_option
@pattern_options
@dtype_option
@token_format_option()
@report_options
def head(
    *,
    path: str,
    count: int,
    documents: int | None,
    tokenizer_path: str | None,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
    dtype: str | None,
    token_format: str,
) -> None:
    """Show the first ids of a token file, one per line, with their text if a tokenizer is given.

    TOKENS is a token file, or - for ids from standard input, which need --dtype.
    With --first-documents, it shows the first documents. A file without their borders is divided after the end-of-text token.

    \b
    Example:
        bpejit tokens head tokens.bin --count 20
        bpejit tokens head tokens.bin --tokenizer tokenizer
        bpejit tokens head tokens.bin --first-documents 2 --tokenizer tokenizer
    """
    from bpejit.tokenfiles.opening import open_tokens, read_tokens

    tokenizer = None
    if tokenizer_path is not None:
        tokenizer = read_tokenizer(tokenizer_path, pattern, special_tokens, unicode)
    expected: dict[str, Any] = {"dtype": dtype, "format": token_format}
    if tokenizer is not None:
        expected |= {"tokenizer_sha256": tokenizer.sha256, "vocab_size": tokenizer.vocab_size}
    if documents is not None:
        _show_documents(open_tokens(path, **expected), documents, tokenizer)
        return
    file = read_tokens(path, **expected)
    ids = [number for block in islice(file.blocks(count), 1) for number in block.tolist()]
    texts = None if tokenizer is None else _decode_each(tokenizer, ids)
    if wants_json():
        shown = None if texts is None else [json_text(text) for text in texts]
        write_json(path=path, dtype=file.dtype, tokens=file.n_tokens, ids=ids, texts=shown)
        return
    lines = map(str, ids) if texts is None else (f"{number:<8}{quoted(text)}" for number, text in zip(ids, texts, strict=True))
    write_lines(lines)


@command()
@tokens_argument
@click.option(
    "--corpus",
    multiple=True,
    metavar="INPUT",
    shell_complete=complete_path,
    help="Decode the file with --tokenizer and compare it with this input; repeat it for several inputs, in order.",
)
@tokenizer_option
@pattern_options
@token_format_option()
@input_options
@report_options
def verify(
    *,
    path: str,
    corpus: tuple[str, ...],
    reading: dict[str, Any],
    tokenizer_path: str | None,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
    token_format: str,
) -> None:
    """Read a token file, and compare its ids and the borders of its documents with the hashes in its description.

    With --tokenizer, the description has to name that tokenizer as well.
    With --corpus, the file has to decode to that text, apart from special tokens that were added to the documents.
    The exit code is 0 if everything matches, and 1 otherwise.

    \b
    Example:
        bpejit tokens verify tokens.bin
        bpejit tokens verify tokens.bin --tokenizer tokenizer
        bpejit tokens verify tokens.bin --tokenizer tokenizer --corpus corpus.txt
    """
    from bpejit.corpus.contents import Contents
    from bpejit.tokenfiles.opening import open_tokens
    from bpejit.verification.corpus_check import check_corpus

    if corpus and tokenizer_path is None:
        raise click.UsageError("`--corpus` needs the tokenizer that the file was encoded with: give `--tokenizer`")

    if tokenizer_path is not None:
        tokenizer = read_tokenizer(tokenizer_path, pattern, special_tokens, unicode)
        file = open_tokens(path, format=token_format, tokenizer_sha256=tokenizer.sha256, vocab_size=tokenizer.vocab_size)
        if corpus:
            checked = check_corpus(tokenizer, file, corpus, Contents(**reading))
    has_hash = not corpus or file.ids_sha256 is not None
    fields = describe_token_file(path, None, token_format, verify=has_hash)
    if wants_json():
        write_json(**fields)
    elif not is_quiet():
        if corpus:
            added = f", and {checked.added:,} special tokens were added" if checked.added else ""
            write_line(f"`{path}` decodes to the corpus of {checked.bytes:,} bytes{added}")
        if not has_hash:
            return
        write_line(f"verified `{path}`: {fields['tokens']:,} tokens, SHA-256 {fields['ids_sha256']}")


@command()
@tokens_argument
@out_option("Token file to write, or - for standard output.", required=True)
@overwrite_option
@token_format_option(SUFFIX)
@click.option(
    "--dtype",
    type=LazyChoice("dtype", lambda: (AUTO, *dtype_choices()), known=AUTO),
    default=AUTO,
    show_default=True,
    metavar="DTYPE",  # its choices would import NumPy
    help="Data type of the new ids; auto is the smallest that fits the vocabulary.",
)
@click.option(
    "--input-dtype",
    type=LazyChoice("dtype", dtype_choices),
    metavar="DTYPE",
    help="Data type of the old ids, for files that do not state it.",
)
@click.option(
    "--pack",
    type=Count(1),
    metavar="N",
    help="Divide all ids into rows of N, with the lengths of the documents in each row; for parquet and arrow.",
)
@tokenizer_option
@pattern_options
@report_options
def convert(
    *,
    path: str,
    out: str,
    overwrite: bool,
    token_format: str,
    dtype: str,
    input_dtype: str | None,
    pack: int | None,
    tokenizer_path: str | None,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
) -> None:
    """Write a token file in another format, with its documents.

    With --tokenizer, a file without the borders of documents is divided after the end-of-text token.

    \b
    Example:
        bpejit tokens convert tokens.bin --out tokens.npy
        bpejit tokens convert tokens.npy --out corpus --format megatron --tokenizer tokenizer
    """
    check_json_output(out)
    from bpejit.storage.outputs import is_standard_output
    from bpejit.tokenfiles.conversion import convert_tokens

    separator = None
    if tokenizer_path is not None:
        from bpejit.jobs.encode_job import find_separator

        separator = find_separator(read_tokenizer(tokenizer_path, pattern, special_tokens, unicode).model)
    done = convert_tokens(
        path,
        out,
        format=token_format,
        dtype=dtype,
        input_dtype=input_dtype,
        separator=separator,
        pack=pack,
        overwrite=overwrite,
    )
    if wants_json():
        write_json(
            path=path,
            out=out,
            format=done.format,
            dtype=done.dtype,
            tokens=done.tokens,
            documents=done.documents,
            left_out=done.left_out,
        )
    elif not is_quiet() and not is_standard_output(out):
        rows = "documents" if pack is None else f"rows of {pack:,} ({done.left_out:,} ids at the end left out)"
        borders = "" if done.documents is None else f", {done.documents:,} {rows}"
        write_line(f"converted `{path}`: {done.tokens:,} tokens{borders}; {wrote_token_file(out, done.format, done.dtype)}")


def _show_documents(tokens: TokenReader, count: int, tokenizer: Tokenizer | None) -> None:
    shown = [ids.tolist() for ids in islice(_documents(tokens, tokenizer), count)]
    texts = None if tokenizer is None else [tokenizer.decode_bytes(ids) for ids in shown]
    if wants_json():
        write_json(
            path=str(tokens.path),
            dtype=tokens.dtype,
            tokens=tokens.n_tokens,
            documents=tokens.n_documents,
            ids=shown,
            texts=None if texts is None else [json_text(text) for text in texts],
        )
        return
    for number, ids in enumerate(shown):
        write_line(f"document {number}: {len(ids):,} tokens" if texts else " ".join(map(str, ids)))
        if texts:
            write_line(quoted(texts[number]))


def _documents(tokens: TokenReader, tokenizer: Tokenizer | None) -> Iterator[Array]:
    """Yield the documents of a file, divided after the end-of-text token if their borders are not stored."""
    from bpejit.jobs.encode_job import find_separator

    separator = None if tokenizer is None else find_separator(tokenizer.model)
    if tokens.n_documents is not None or separator is None:
        yield from (tokens.document(number) for number in range(tokens.n_documents or 1))
        return
    start = 0
    while start < len(tokens):
        end = start
        while end < len(tokens):
            found = (tokens[end : end + SEARCHED] == separator).nonzero()[0]
            end = end + int(found[0]) + 1 if found.size else min(end + SEARCHED, len(tokens))
            if found.size:
                break
        yield tokens[start:end]
        start = end


def _decode_each(tokenizer: Tokenizer, ids: list[int]) -> list[bytes]:
    return [tokenizer.decode_bytes([number]) for number in ids]


for subcommand in (info, head, verify, convert):
    tokens.add_command(subcommand)
