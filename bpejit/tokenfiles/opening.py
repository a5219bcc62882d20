"""Open token files for reading and writing, in any registered format, which is named, or known from a file or its suffix."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import OptionError, TokenFileError
from bpejit.progress_bar import Progress
from bpejit.registry import AUTO
from bpejit.storage.files import StrPath
from bpejit.storage.outputs import InputFiles, check_outputs, is_device, is_standard_output
from bpejit.tokenfiles.base import TokenFileFormat, TokenReader, TokenSource
from bpejit.tokenfiles.registry import DEFAULT_FORMAT, format_names, load_format

if TYPE_CHECKING:
    from bpejit.storage.arrow_columns import ColumnRows
    from bpejit.tokenfiles.file_writer import TokenFileWriter

STANDARD_INPUT = "-"

_SEARCHED = 1 << 16
"""Number of ids that are searched for the end of a document at a time."""


_OTHER_KINDS = {
    **dict.fromkeys((".json", ".jsonl", ".jsonlines", ".ndjson"), "JSON"),
    **dict.fromkeys((".txt", ".md", ".text"), "text"),
    **dict.fromkeys((".csv", ".tsv"), "tables as text"),
    **dict.fromkeys((".gz", ".zst", ".bz2", ".xz", ".zip", ".tar"), "compressed files"),
    **dict.fromkeys((".npz", ".pt", ".pth", ".safetensors", ".h5", ".hdf5", ".pkl", ".tfrecord"), "files of other libraries"),
    **dict.fromkeys((".tiktoken", ".model", ".subwords"), "vocabularies"),
}
"""Suffixes of files that are no token files, except for formats that have them as well. Others, such as `.dat`, say nothing."""


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
    format: str = AUTO,  # noqa: A002
    **expected: Any,
) -> TokenSource:
    """Open a token file to read it once, in blocks; `-` is standard input.

    Parameters and errors are the same as for `open_tokens`.
    """
    if os.fspath(path) == STANDARD_INPUT:
        return format_of(path, format).open_stream(sys.stdin.buffer, dtype=dtype)
    return open_tokens(path, dtype=dtype, format=format, **expected)


def token_writer(
    path: StrPath | BinaryIO,
    *,
    pack: int | None = None,
    columns: ColumnRows | None = None,
    format: str = DEFAULT_FORMAT,  # noqa: A002
    **options: Any,
) -> TokenFileWriter:
    """Return the writer of a token file; other parameters and the errors are the same as for `TokenFileFormat.writer`.

    `pack` is the number of ids of each row, for formats that `check_packing` accepts, and `columns` has the rows of further
    columns, for those that `check_columns` accepts.
    """
    check_packing(format, pack)
    of_rows = {"pack": pack, "columns": columns}
    options |= {name: value for name, value in of_rows.items() if value is not None}
    return load_format(format).writer(path, **options)


def check_packing(format: str, pack: int | None) -> None:  # noqa: A002
    """Raise OptionError if a format has no rows of a fixed length, and `pack` is not None."""
    if pack is not None and not load_format(format).own_columns:
        raise OptionError(
            f"pack is {pack}, and the format {format} has no rows; expected parquet or arrow: choose one of them, or read "
            "windows of the ids, as the page on token files does"
        )


def check_columns(format: str, names: Sequence[str]) -> None:  # noqa: A002
    """Raise OptionError if a format has no further columns, or names some of them itself, and `names` is not empty."""
    if not names:
        return
    form = load_format(format)
    if not form.own_columns:
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


def describe_tokens(
    path: str,
    *,
    dtype: str | None = None,
    format: str = AUTO,  # noqa: A002
    verify: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return what is known about a token file, and its first ids; what is not known is None.

    With `verify`, all ids are read, and there is an exception if they do not match the description.
    """
    known = dtype is not None or format != AUTO or recognized_format(path) is not None
    # A file of an unknown format may have either dtype. If it is complete, it opens as uint16.
    tokens = open_tokens(path, dtype=dtype or (None if known else "uint16"), format=format)
    if verify:
        tokens.verify(progress=progress)
    return {
        "kind": "tokens",
        "path": path,
        "file_bytes": tokens.path.stat().st_size,
        "format": format_of(path, format).name if known else None,
        "dtype": tokens.dtype if known else None,
        "tokens": len(tokens) if known else None,
        "documents": tokens.n_documents if known else None,
        **{name: getattr(tokens, name) for name in ("bytes_read", "vocab_size", "tokenizer_sha256", "ids_sha256")},
        "verified": verify,
        "first_ids": tokens[:10].tolist() if known else None,
    }


def divided_documents(tokens: TokenReader, separator: int | None) -> Iterator[Array]:
    """Yield the documents of a token file, divided after an id if their borders are not stored."""
    if tokens.n_documents is not None or separator is None:
        yield from (tokens.document(number) for number in range(tokens.n_documents or 1))
        return
    start = end = 0
    while end < len(tokens):
        found = (tokens[end : end + _SEARCHED] == separator).nonzero()[0]
        end = end + int(found[0]) + 1 if found.size else min(end + _SEARCHED, len(tokens))
        if found.size or end == len(tokens):
            yield tokens[start:end]
            start = end


def output_format(
    path: StrPath | BinaryIO | None,
    format: str = AUTO,  # noqa: A002
    *,
    default: str | None = DEFAULT_FORMAT,
) -> str:
    """Return the name of the format in which a token file is written.

    Parameters
    ----------
    path : path or binary stream, optional
        The token file, or its URL. Streams, devices and None, for files that get the suffix of their format, have no suffix.
    format : str
        Name of a registered format, or `auto` for the first one with the suffix of `path`.
    default : str, optional
        The format for other suffixes. With None, one has to be named.

    Raises
    ------
    OptionError
        If the format is not known from the suffix.
    """
    if not isinstance(format, str) or format != AUTO:
        return format
    suffix = _suffix(path)
    found = default if suffix in _OTHER_KINDS else next(_owners(suffix), default)
    if found is None:
        raise OptionError(f"format is {AUTO!r}, and `{path}` has the suffix of no format; {_expected()}")
    return found


def check_suffix(path: StrPath | BinaryIO, format: str) -> None:  # noqa: A002
    """Raise OptionError if the suffix of a token file belongs to other formats only, or to another kind of file."""
    suffix = _suffix(path)
    if _has_suffix(format, suffix):
        return
    owners, kind = list(_owners(suffix)), _OTHER_KINDS.get(suffix)
    if owners or kind:
        what = kind or f"files of the format {' or '.join(owners)}"
        raise OptionError(f"`{path}` has a suffix of {what}, and the format is {format}; {_expected()}")


def _suffix(path: StrPath | BinaryIO | None) -> str:
    has_one = isinstance(path, (str, os.PathLike)) and not is_standard_output(path) and not is_device(path)
    return PurePath(path).suffix.lower() if has_one else ""  # type: ignore[arg-type]


def _owners(suffix: str) -> Iterator[str]:
    """Yield the names of the formats with a suffix. A format is imported when the ones before it have been used."""
    return (name for name in format_names() if _has_suffix(name, suffix))


def _has_suffix(format: str, suffix: str) -> bool:  # noqa: A002
    form = load_format(format) if suffix else None
    return form is not None and suffix in (form.suffix, *form.other_suffixes)


def _expected() -> str:
    names = ", ".join(f"{name} ({load_format(name).suffix})" for name in format_names())
    return f"expected a suffix of {names}: change the format, or the name of the file"
