"""Convert token files from one format to another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bpejit import arguments
from bpejit.arguments import showing_progress
from bpejit.errors import TokenFileError, warn_user
from bpejit.options import AUTO
from bpejit.progress_bar import Progress
from bpejit.storage.files import StrPath
from bpejit.tokenfiles import check_rows, check_token_outputs, load_format, output_format
from bpejit.tokenfiles.opening import open_tokens, token_inputs
from bpejit.tokenfiles.readers import TokenPaths, TokenReader


@dataclass(frozen=True)
class Conversion:
    """Result of `convert_tokens`.

    Parameters
    ----------
    path : Path, optional
        The new token file; None for a stream or a device.
    tokens : int
    documents : int, optional
        None if the borders of documents are not stored.
        With `pack`, the number of rows.
    dtype : str
    left_out : int
        Ids that do not fill a row.
    format : str
        The format of the new token file.
    """

    path: Path | None
    tokens: int
    documents: int | None
    dtype: str
    left_out: int = 0
    format: str = ""


@showing_progress
def convert_tokens(
    path: TokenPaths,
    out: StrPath,
    *,
    format: str = AUTO,  # noqa: A002 - the usual word
    dtype: str = "auto",
    input_format: str = AUTO,
    input_dtype: str | None = None,
    separator: int | None = None,
    pack: int | None = None,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> Conversion:
    """Write the ids and documents of token files to a new one in another format, block by block.

    Other columns of Parquet and Arrow files are not written; a BpejitWarning says so if the new file could have them.

    Parameters
    ----------
    path : path, or list of paths
        The token files to read, as for `open_tokens`.
    out : path
        The token file to write. `-` is standard output, for formats that can be written to a stream.
    format : str
        The format of the new file, or `auto` for the one with the suffix of `out`.
    dtype : str
        The dtype of the new file, or `auto` for the first of its format that holds every id.
    input_format : str
        The format of the old file, or `auto` for the one that recognizes it.
    input_dtype : str, optional
        The dtype of the old file, if it has no description.
    separator : int, optional
        The id after which a document ends, such as that of `<|endoftext|>`, for files without the borders of documents.
    pack : int, optional
        The number of ids of each row, for Parquet and Arrow: all ids in order, divided into rows, whatever documents they
        belong to. The column `document_lengths` has the lengths of the documents, or parts of documents, in each row. Ids at
        the end that do not fill a row are left out.
    overwrite : bool
        Whether to replace existing files.
    progress : callable or bool, optional
        As for `bpejit.train`.

    Returns
    -------
    Conversion

    Raises
    ------
    TokenFileError
        If a format is unknown, the file is broken, or `dtype` cannot hold its ids.
    OutputError
        If the new file cannot be written, or exists and `overwrite` is false.
    OptionError
        If the suffix of `out` belongs to another format, or to none and `format` is `auto`.
    """
    out = arguments.path("out", out)
    separator = arguments.optional_whole_number("separator", separator, least=0)
    dtype = arguments.string("dtype", dtype)
    input_dtype = arguments.optional_string("input_dtype", input_dtype)
    pack = arguments.optional_whole_number("pack", pack, least=1, most=2**31 - 1)
    overwrite = arguments.flag("overwrite", overwrite)
    report = arguments.progress(progress)
    format = output_format(out, format, default=None)  # noqa: A001
    check_rows(format, pack)
    check_token_outputs(out, inputs=token_inputs(path, format=input_format), overwrite=overwrite, format=format)
    try:
        tokens = open_tokens(path, dtype=input_dtype, format=input_format)
    except TokenFileError as error:
        raise TokenFileError(str(error).replace("`dtype=", "`input_dtype=")) from error
    if tokens.has_hashes:
        tokens.verify(progress=report)  # the new file has a hash of its own, which would not tell that the old one was damaged
    has_borders = tokens.n_documents is not None or separator is not None
    vocab_size = tokens.vocab_size
    if vocab_size is None:
        vocab_size = 1 + max((int(block.max()) for block in tokens.blocks()), default=-1)
    if pack is None and load_format(format).own_columns:
        _name_lost_columns(tokens)
    writer = load_format(format).writer(
        out,
        dtype=dtype,
        vocab_size=vocab_size,
        tokenizer_sha256=tokens.tokenizer_sha256,
        overwrite=overwrite,
        document_index=has_borders and out != "-",
        **({} if pack is None else {"pack": pack}),
    )
    done = 0
    report("convert", done, len(tokens), "tokens")
    with writer:
        writer.write(tokens[:0], n_bytes=tokens.bytes_read or 0)
        for ids, ends in tokens.document_blocks():
            if ends is None and separator is not None:
                ends = np.flatnonzero(ids == separator) + 1
            writer.write(ids, ends=ends)
            done += ids.size
            report("convert", done, len(tokens), "tokens")
    documents = None if writer.path is None else open_tokens(writer.path).n_documents
    return Conversion(writer.path, writer.n_tokens, documents, writer.dtype.name, getattr(writer, "left_out", 0), format)


def _name_lost_columns(tokens: TokenReader) -> None:
    columns = getattr(tokens, "other_columns", ())
    if columns:
        warn_user(
            f"the columns {', '.join(columns)} of `{tokens.path}` are not converted; expected ids and documents alone: encode "
            "the texts with `keep_columns=`"
        )
