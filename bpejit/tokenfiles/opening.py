"""Open token files for reading and writing, in any registered format."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from bpejit import arguments
from bpejit.errors import OptionError, TokenFileError
from bpejit.registry import AUTO
from bpejit.storage.files import StrPath
from bpejit.storage.outputs import InputFiles, check_outputs, is_device, is_standard_output
from bpejit.tokenfiles.base import TokenFileFormat, TokenReader, TokenSource, TokenWriter
from bpejit.tokenfiles.output_format import check_suffix
from bpejit.tokenfiles.registry import DEFAULT_FORMAT, format_names, load_format

if TYPE_CHECKING:
    from bpejit.storage.arrow_columns import ColumnRows

STANDARD_INPUT = "-"


def open_tokens(
    path: StrPath,
    *,
    dtype: str | None = None,
    tokenizer_sha256: str | None = None,
    vocab_size: int | None = None,
    format: str = AUTO,  # noqa: A002 - the usual word
) -> TokenReader:
    """Open a token file as a read-only sequence of ids, and check it against its description.

    The result has a length, and is indexed like an array: `tokens[i]` is an id, and `tokens[a:b]` an array of ids. If the
    borders of documents are stored, there are `n_documents` of them, and `document(k)` returns the ids of one. Formats whose
    ids are one array on disk are mapped into memory. The ids themselves are not read; `verify` compares them with the hash in
    the description.

    Parameters
    ----------
    path : path
    dtype : str, optional
        `uint16` or `uint32`; required for a file of ids alone without a description.
    tokenizer_sha256 : str, optional
        `Model.sha256` of the tokenizer that is expected to have written the file. A file without a description passes.
    vocab_size : int, optional
        The vocabulary size of the same tokenizer.
    format : str
        Name of a registered format, or `auto` for the one that recognizes the file, and `bin` if none does.

    Raises
    ------
    TokenFileError
        If the file is missing or broken, was written by another tokenizer, or its dtype is not known.
    """
    path = arguments.path("path", path, error=TokenFileError)
    tokenizer_sha256 = arguments.optional_string("tokenizer_sha256", tokenizer_sha256)
    vocab_size = arguments.optional_whole_number("vocab_size", vocab_size, least=0)
    found = format_of(path, format)
    return found.open(path, dtype=dtype, tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size)


def read_tokens(
    path: StrPath,
    *,
    dtype: str | None = None,
    tokenizer_sha256: str | None = None,
    vocab_size: int | None = None,
    format: str = AUTO,  # noqa: A002
) -> TokenSource:
    """Open a token file to read it once, in blocks; `-` is standard input.

    Parameters and errors are the same as for `open_tokens`.
    """
    if os.fspath(path) == STANDARD_INPUT:
        return format_of(path, format).open_stream(sys.stdin.buffer, dtype=dtype)
    return open_tokens(path, dtype=dtype, tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size, format=format)


def token_writer(
    path: StrPath | BinaryIO,
    *,
    dtype: str = "auto",
    vocab_size: int,
    tokenizer_sha256: str | None,
    overwrite: bool = False,
    document_index: bool = False,
    pack: int | None = None,
    columns: ColumnRows | None = None,
    format: str = DEFAULT_FORMAT,  # noqa: A002
) -> TokenWriter:
    """Return the writer of a token file; the parameters and errors are the same as for `TokenFileFormat.writer`.

    `pack` is the number of ids of each row, for formats that `check_packing` accepts, and `columns` has the rows of further
    columns, for those that `check_columns` accepts.
    """
    check_packing(format, pack)
    packing: dict[str, Any] = {} if pack is None else {"pack": pack}
    if columns is not None:
        packing["columns"] = columns
    return load_format(format).writer(
        path,
        dtype=dtype,
        vocab_size=vocab_size,
        tokenizer_sha256=tokenizer_sha256,
        overwrite=overwrite,
        document_index=document_index,
        **packing,
    )


def check_packing(format: str, pack: int | None) -> None:  # noqa: A002
    """Raise OptionError if a format has no rows of a fixed length, and `pack` is not None."""
    if pack is not None and "pack" not in inspect.signature(load_format(format).writer).parameters:
        raise OptionError(
            f"pack is {pack}, and the format {format} has no rows; expected parquet or arrow: choose one of them, or read "
            "windows of the ids, as the page on token files does"
        )


def check_columns(format: str, names: Sequence[str]) -> None:  # noqa: A002
    """Raise OptionError if a format has no further columns, or names some of them itself, and `names` is not empty."""
    if not names:
        return
    form = load_format(format)
    if not has_columns(form):
        raise OptionError(
            f"keep_columns is {list(names)}, and the format {format} has no columns; expected parquet or arrow: choose one of "
            "them, or leave `keep_columns=` out"
        )
    own = [name for name in names if name in form.own_columns]
    if own:
        raise OptionError(
            f"keep_columns contains {own[0]!r}, which is the name of a column that the format {format} writes itself; expected "
            "another name: rename the column of the input, or leave it out"
        )


def has_columns(form: TokenFileFormat) -> bool:
    """Return True if a format has further columns beside the ids."""
    return "columns" in inspect.signature(form.writer).parameters


def check_token_outputs(
    path: StrPath | BinaryIO,
    *,
    inputs: Iterable[StrPath] | InputFiles = (),
    overwrite: bool = False,
    format: str = DEFAULT_FORMAT,  # noqa: A002
) -> None:
    """Raise OutputError if `check_outputs` does for the files of a token file, or its suffix does not fit; a stream passes."""
    if not isinstance(path, (str, os.PathLike)):
        return
    alone = is_standard_output(path) or is_device(path)
    check_outputs([path] if alone else load_format(format).files(path), inputs=inputs, overwrite=overwrite)
    check_suffix(path, format)


def token_inputs(path: StrPath, *, format: str = AUTO) -> list[StrPath]:  # noqa: A002
    """Return the files that are read with a token file."""
    return [path] if os.fspath(path) == STANDARD_INPUT else format_of(path, format).files(path)


def format_of(path: StrPath, name: str = AUTO) -> TokenFileFormat:
    """Return the format with a name; for `auto`, the one that recognizes a file, or the default format.

    Raises
    ------
    TokenFileError
        If there is no format with this name.
    """
    if not isinstance(name, str) or name != AUTO:
        return load_format(name)
    return recognized_format(path) or load_format(DEFAULT_FORMAT)


def recognized_format(path: StrPath) -> TokenFileFormat | None:
    """Return the format that recognizes a file, or None if none does."""
    if os.fspath(path) == STANDARD_INPUT:
        return None
    candidates = map(load_format, format_names())
    return next((candidate for candidate in candidates if candidate.recognizes(Path(path))), None)
