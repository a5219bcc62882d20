"""The format in which a token file is written: by name, or known from the suffix of its path."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import BinaryIO

from bpejit.errors import OptionError
from bpejit.storage.files import StrPath
from bpejit.storage.outputs import is_device, is_standard_output
from bpejit.tokenfiles.registry import AUTO, DEFAULT_FORMAT, DEPRECATED_FORMATS, format_names, load_format

_OTHER_KINDS = {
    **dict.fromkeys((".json", ".jsonl", ".jsonlines", ".ndjson"), "JSON"),
    **dict.fromkeys((".txt", ".md", ".text"), "text"),
    **dict.fromkeys((".csv", ".tsv"), "tables as text"),
    **dict.fromkeys((".gz", ".zst", ".bz2", ".xz", ".zip", ".tar"), "compressed files"),
    **dict.fromkeys((".npz", ".pt", ".pth", ".safetensors", ".h5", ".hdf5", ".pkl", ".tfrecord"), "files of other libraries"),
    **dict.fromkeys((".tiktoken", ".model", ".subwords"), "vocabularies"),
}
"""Suffixes of files that are no token files. Others, such as `.dat`, say nothing."""


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
        The format for suffixes that say nothing. With None, one has to be named.

    Raises
    ------
    OptionError
        If the suffix belongs to other formats only or to another kind of file, or the format is not known from it.
    TokenFileError
        If there is no format with this name.
    """
    if format not in (AUTO, *format_names(), *DEPRECATED_FORMATS):
        load_format(format)  # raises the error
    suffix = ""
    if isinstance(path, (str, os.PathLike)) and not is_standard_output(path) and not is_device(path):
        suffix = PurePath(path).suffix.lower()
    formats = {name: load_format(name) for name in format_names()} if suffix else {}
    owners = [name for name, form in formats.items() if suffix in (form.suffix, *form.other_suffixes)]
    kind = _OTHER_KINDS.get(suffix)
    if format != AUTO:
        if DEPRECATED_FORMATS.get(format, format) in owners or not (owners or kind):
            return format
    elif kind is None and (owners or default):
        return owners[0] if owners else str(default)
    if format == AUTO and kind is None:
        found = f"format is {AUTO!r}, and `{path}` has the suffix of no format"
    else:
        what = f"files of the format {' or '.join(owners)}" if kind is None else kind
        found = f"`{path}` has a suffix of {what}" + ("" if format == AUTO else f", and the format is {format}")
    names = ", ".join(f"{name} ({load_format(name).suffix})" for name in format_names())
    raise OptionError(f"{found}; expected a format and a suffix of {names}: change the format, or the name of the file")
