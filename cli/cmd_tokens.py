"""`bpejit tokens`: commands that read token files."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from . import shared_options as shared
from .cmd_info import token_file_rows, wrote_token_file
from .command_types import Group
from .progress import watch
from .reporting import check_json_output, fields_of, named, this_command, write_json, write_line, write_lines, write_report
from .shared_options import Paths
from .text_output import quoted

tokenizer_option = shared.path_option(
    "--tokenizer", "tokenizer_path", metavar="PATH", help="Tokenizer that the file was encoded with."
)


@click.group(cls=Group)
def tokens() -> None:
    """Show, verify and convert token files.

    TOKENS are token files, quoted globs, or manifests of jobs; several are read as one, in this order.

    \b
    Example:
        bpejit tokens info tokens.bin
        bpejit tokens head tokens.bin --tokenizer tokenizer
        bpejit tokens verify tokens.bin
        bpejit tokens convert tokens.bin --out tokens.npy
    """


@tokens.command()
@shared.tokens_argument("path")
@shared.read_dtype_option
@shared.token_format_option()
def info(*, path: Paths, dtype: str | None, token_format: str) -> None:
    """Show the size, type and origin of a token file.

    \b
    Example:
        bpejit tokens info tokens.bin
        bpejit tokens info tokens.bin --json
    """
    from bpejit.tokenfiles.opening import describe_tokens

    fields = describe_tokens(path, dtype=dtype, format=token_format)
    write_report(fields, lambda: token_file_rows(fields))


@tokens.command()
@shared.tokens_argument("path")
@shared.count_option("-n", "--count", default=10, text="Number of ids to show.")
@shared.count_option(
    *("--first-documents", "documents"),
    text="Show the first N documents instead: as text with --tokenizer, and otherwise as ids.",
)
@tokenizer_option
@shared.pattern_options
@shared.read_dtype_option
@shared.token_format_option()
def head(
    *,
    path: Paths,
    count: int,
    documents: int | None,
    tokenizer: shared.TokenizerChoice | None,
    dtype: str | None,
    token_format: str,
) -> None:
    """Show the first ids of a token file, with their text, or documents.

    Each id is in a line, with its text if a tokenizer is given.
    TOKENS are token files, or - for ids from standard input, which need --dtype.
    With --first-documents, it shows the first documents. A file without their borders is divided after the end-of-text token.

    \b
    Example:
        bpejit tokens head tokens.bin --count 20
        bpejit tokens head tokens.bin --tokenizer tokenizer
        bpejit tokens head tokens.bin --first-documents 2 --tokenizer tokenizer
    """
    from bpejit.jobs.encode_job import find_separator
    from bpejit.tokenfiles.opening import divided_documents, open_tokens, read_tokens

    decoder = tokenizer and tokenizer.load()
    expected: dict[str, Any] = {"dtype": dtype, "format": token_format}
    if decoder is not None:
        expected |= {"tokenizer_sha256": decoder.sha256, "vocab_size": decoder.vocab_size}
    ids: list[Any]
    if documents is None:
        file = read_tokens(path, **expected)
        ids = list(islice((number for block in file.blocks(count) for number in block.tolist()), count))
        shown, more = [[number] for number in ids], {}
    else:
        file = open_tokens(path, **expected)
        found = divided_documents(file, None if decoder is None else find_separator(decoder.model))
        ids = shown = [one.tolist() for one in islice(found, documents)]
        more = {"documents": file.n_documents}
    texts = None if decoder is None else [decoder.decode_bytes(one) for one in shown]
    if this_command().json:
        write_json(path=path, dtype=file.dtype, tokens=file.n_tokens, **more, ids=ids, texts=texts)
    elif texts is None:
        write_lines(" ".join(map(str, one)) for one in shown)
    elif documents is None:
        write_lines(f"{number:<8}{quoted(text)}" for number, text in zip(ids, texts, strict=True))
    else:
        for number, text in enumerate(texts):
            write_lines([f"document {number}: {len(shown[number]):,} tokens", quoted(text)])


@tokens.command()
@shared.tokens_argument("path")
@shared.path_option(
    "--corpus",
    multiple=True,
    metavar="INPUT",
    help="Decode the file with --tokenizer and compare it with this input; repeat it for several inputs, in order.",
)
@tokenizer_option
@shared.pattern_options
@shared.token_format_option()
@shared.input_options
def verify(
    *,
    path: Paths,
    corpus: tuple[str, ...],
    reading: dict[str, Any],
    tokenizer: shared.TokenizerChoice | None,
    token_format: str,
) -> None:
    """Compare a token file with the hashes in its description.

    They are those of its ids and of the borders of its documents.
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
    from bpejit.tokenfiles.opening import describe_tokens, open_tokens
    from bpejit.verification.verify import check_corpus

    if corpus and tokenizer is None:
        raise click.UsageError("`--corpus` needs the tokenizer that the file was encoded with: give `--tokenizer`")
    has_hash, lines = True, []
    with watch() as progress:
        if tokenizer is not None:
            decoder = tokenizer.load()
            file = open_tokens(path, format=token_format, tokenizer_sha256=decoder.sha256, vocab_size=decoder.vocab_size)
            if corpus:
                n_bytes, n_added = check_corpus(decoder, file, corpus, Contents(**reading), progress=progress)
                added = f", and {n_added:,} special tokens were added" if n_added else ""
                lines.append(f"{named(path)} decodes to the corpus of {n_bytes:,} bytes{added}")
                has_hash = file.has_hashes
        fields = describe_tokens(path, format=token_format, verify=has_hash, progress=progress)
    if has_hash:
        of_files = f"SHA-256 {fields['ids_sha256']}" if fields["files"] == 1 else f"{fields['files']:,} files"
        lines.append(f"verified {named(path)}: {fields['tokens']:,} tokens, {of_files}")
    if this_command().json:
        write_json(**fields)
    elif not this_command().quiet:
        write_lines(lines)


@tokens.command()
@shared.tokens_argument("path")
@shared.out_option("Token file to write, or - for standard output.", required=True)
@shared.token_format_option(shared.SUFFIX)
@shared.dtype_option("Data type of the new ids; auto is the smallest that fits the vocabulary.", automatic=True)
@shared.dtype_option("Data type of the old ids, for files that do not state it.", name="--input-dtype")
@shared.count_option(
    "--pack", text="Divide all ids into rows of N, with the lengths of the documents in each row; for parquet and arrow."
)
@tokenizer_option
@shared.pattern_options
def convert(
    *, path: Paths, out: str, token_format: str, pack: int | None, tokenizer: shared.TokenizerChoice | None, **options: Any
) -> None:
    """Write a token file in another format, with its documents.

    With --tokenizer, a file without the borders of documents is divided after the end-of-text token.

    \b
    Example:
        bpejit tokens convert tokens.bin --out tokens.npy
        bpejit tokens convert tokens.npy -o all --format megatron
        bpejit tokens convert tokens.npy -o all.parquet --tokenizer tokenizer
    """
    from bpejit.jobs.encode_job import find_separator
    from bpejit.storage.outputs import is_standard_output
    from bpejit.tokenfiles.conversion import convert_tokens

    check_json_output(out)
    separator = tokenizer and find_separator(tokenizer.load().model)
    with watch() as progress:
        done = convert_tokens(path, out, format=token_format, separator=separator, pack=pack, progress=progress, **options)
    if this_command().json:
        write_json(path=path, out=out, **fields_of(done, "format", "dtype", "tokens", "documents", "left_out"))
    elif not this_command().quiet and not is_standard_output(out):
        rows = "documents" if pack is None else f"rows of {pack:,} ({done.left_out:,} ids at the end left out)"
        borders = "" if done.documents is None else f", {done.documents:,} {rows}"
        wrote = wrote_token_file(out, done.format, done.dtype)
        write_line(f"converted {named(path)}: {done.tokens:,} tokens{borders}; {wrote}")
