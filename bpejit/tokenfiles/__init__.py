"""Token files: reading and writing token ids on disk, in several formats.

A format is a class with the interface of `bpejit.tokenfiles.base.TokenFileFormat`. To add one, write a module with such a
class, and add its location to the table below, or call `register` from outside the package. `encode_files`,
`decode_file`, `open_tokens` and the commands then accept its name.

`opening` opens files. `base` has templates of formats, and `readers` what opens files. Most map one array of ids (with
`mapping`), and are in `array_files`; `arrow_files` has rows, and `text_files` lines. The format of an output is chosen here.

Writers reject ids that their dtype cannot hold before anything is written, and their files appear only when they are complete.
Readers check length, dtype and tokenizer, and require what the file does not contain as an argument. Everything on disk is
little-endian. Test a round trip, the code of the tool that reads the format, a full disk, and each kind of damage.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, BinaryIO

from bpejit.errors import OptionError, TokenFileError
from bpejit.options import AUTO, Registry

if TYPE_CHECKING:
    from bpejit.storage.files import StrPath
    from bpejit.storage.outputs import InputFiles
    from bpejit.tokenfiles.base import TokenFileFormat

DEFAULT_FORMAT = "bin"
"""The format that is written by default, and read if no format recognizes a file."""

TEXT_FORMAT = "text"
"""The format that options such as `--text` select."""

_formats: Registry[TokenFileFormat] = Registry(
    "token file format",
    {
        "bin": ("bpejit.tokenfiles.array_files:BinFormat", "ids without a header, as nanoGPT reads them"),
        "npy": ("bpejit.tokenfiles.array_files:NpyFormat", "a NumPy array"),
        "megatron": ("bpejit.tokenfiles.array_files:MegatronFormat", "FILE.bin and FILE.idx of Megatron"),
        "parquet": ("bpejit.tokenfiles.arrow_files:ParquetFormat", "a row per document"),
        "llmc": ("bpejit.tokenfiles.array_files:LlmcFormat", "ids after the header of llm.c"),
        "datatrove": ("bpejit.tokenfiles.array_files:DatatroveFormat", "FILE with FILE.index and FILE.metadata"),
        "arrow": ("bpejit.tokenfiles.arrow_files:ArrowFormat", "a row per document, mapped into memory"),
        TEXT_FORMAT: ("bpejit.tokenfiles.text_files:TextFormat", "numbers, a line per document"),
    },
    reserved=AUTO,
    error=TokenFileError,
)


register, unregister = _formats.register, _formats.unregister
"""Add and remove a format (see `Registry`) that functions and commands select by name: a class or function without parameters
that returns a `bpejit.tokenfiles.base.TokenFileFormat`.
"""

load_format = _formats.load

format_names, format_descriptions = _formats.names, _formats.descriptions
"""Return the names of all formats, without `auto`, and their descriptions."""


def dtype_names() -> tuple[str, ...]:
    """Return the names of the dtypes that at least one format stores."""
    return tuple(dict.fromkeys(dtype for name in format_names() for dtype in load_format(name).dtypes))


_OTHER_KINDS = {
    **dict.fromkeys((".json", ".jsonl", ".jsonlines", ".ndjson"), "JSON"),
    **dict.fromkeys((".txt", ".md", ".text"), "text"),
    **dict.fromkeys((".csv", ".tsv"), "tables as text"),
    **dict.fromkeys((".gz", ".zst", ".bz2", ".xz", ".zip", ".tar"), "compressed files"),
    **dict.fromkeys((".npz", ".pt", ".pth", ".safetensors", ".h5", ".hdf5", ".pkl", ".tfrecord"), "files of other libraries"),
    **dict.fromkeys((".tiktoken", ".model", ".subwords"), "vocabularies"),
}
"""Suffixes of files that are no token files, except for formats that have them as well. Others, such as `.dat`, say nothing."""


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
    owners, kind = list(_owners(suffix)), _OTHER_KINDS.get(suffix)
    if format not in owners and (owners or kind):
        what = kind or f"files of the format {' or '.join(owners)}"
        raise OptionError(f"`{path}` has a suffix of {what}, and the format is {format}; {_expected()}")


def _suffix(path: StrPath | BinaryIO | None) -> str:
    from bpejit.storage.outputs import is_device, is_standard_output  # not at the top: the help of commands lists the formats

    if not isinstance(path, (str, os.PathLike)) or is_standard_output(path) or is_device(path):
        return ""
    return PurePath(path).suffix.lower()


def _owners(suffix: str) -> Iterator[str]:
    """Yield the names of the formats with a suffix. A format is imported when the ones before it have been used."""
    for name in format_names() if suffix else ():
        form = load_format(name)
        if suffix in (form.suffix, *form.other_suffixes):
            yield name


def _expected() -> str:
    names = ", ".join(f"{name} ({load_format(name).suffix})" for name in format_names())
    return f"expected a suffix of {names}: change the format, or the name of the file"


def check_rows(format: str, pack: int | None, columns: Sequence[str] = ()) -> None:  # noqa: A002
    """Raise OptionError if a format has no rows, for `pack` or further columns, or names some of these columns itself."""
    form = load_format(format)
    asked = f"pack is {pack}" if pack is not None else f"keep_columns is {list(columns)}" if columns else ""
    if asked and not form.own_columns:
        raise OptionError(
            f"{asked}, and the format {format} has no rows; expected parquet or arrow: choose one of them, or leave the option "
            "out; windows of the ids can be read without rows, as the page on token files does"
        )
    own = [name for name in columns if name in form.own_columns]
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
    from bpejit.storage.outputs import check_outputs, is_device, is_standard_output  # as above

    if not isinstance(path, (str, os.PathLike)):
        return
    alone = is_standard_output(path) or is_device(path)
    check_outputs([path] if alone else load_format(format).files(path), inputs=inputs, overwrite=overwrite)
    check_suffix(path, format)
