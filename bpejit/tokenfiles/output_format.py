"""The format in which a token file is written: by name, or known from the suffix of its path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePath
from typing import BinaryIO

from bpejit.errors import OptionError
from bpejit.registry import AUTO
from bpejit.storage.files import StrPath
from bpejit.storage.outputs import is_device, is_standard_output
from bpejit.tokenfiles.registry import DEFAULT_FORMAT, format_names, load_format

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
