"""Write a model in a format by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from bpejit.errors import TokenizerFormatError, shorten
from bpejit.formats.recognize import file_patterns
from bpejit.formats.registry import load_format, load_writable, name_by_suffix
from bpejit.formats.remote_tokenizers import stored_tokenizer
from bpejit.model import Model
from bpejit.registry import AUTO
from bpejit.storage.files import StrPath
from bpejit.storage.remote import is_remote


def check_save(path: StrPath, *, format: str, inputs: Iterable[StrPath], overwrite: bool) -> None:  # noqa: A002
    """Raise the errors of `save_model` that can be known before the tokenizer is read.

    Parameters
    ----------
    path, format, overwrite
        As for `save_model`.
    inputs : paths
        The files that the tokenizer is read from.

    Raises
    ------
    OutputError, TokenizerFormatError
    """
    _check_suffix(path, format)
    if is_remote(path):
        with stored_tokenizer(str(path), file_patterns()) as local:
            load_format(format).check_write(local, inputs=(), overwrite=overwrite)
        return
    load_format(format).check_write(path, inputs=inputs, overwrite=overwrite)


def _check_suffix(path: StrPath, format: str) -> None:  # noqa: A002
    owner = name_by_suffix(PurePath(path).suffix)
    if owner not in (None, format):
        raise TokenizerFormatError(
            f"`{path}` has a suffix of the format {owner}, and the format is {format}; expected another suffix: change "
            "the format, or the name"
        )


def chosen_format(path: StrPath, format: str) -> str:  # noqa: A002
    """Return the format, and for `auto` that of the suffix, or `bpejit`."""
    is_automatic = isinstance(format, str) and format == AUTO
    return (name_by_suffix(PurePath(path).suffix) or "bpejit") if is_automatic else format


def save_model(
    model: Model,
    path: StrPath,
    *,
    format: str = "bpejit",  # noqa: A002 - the usual word
    legacy_merges: bool = False,
    overwrite: bool = False,
) -> str | None:
    """Write a model; parameters, result and errors are the same as for `Tokenizer.save`."""
    found = load_writable(format)
    _check_suffix(path, format)
    if legacy_merges and not found.has_tokenizer_json:
        raise TokenizerFormatError(
            f"the format {shorten(format)} has no `tokenizer.json`; expected no `legacy_merges`: omit it"
        )
    if is_remote(path):
        with stored_tokenizer(str(path), file_patterns()) as local:
            return found.write(model, local, legacy_merges=legacy_merges, overwrite=overwrite)
    return found.write(model, path, legacy_merges=legacy_merges, overwrite=overwrite)
