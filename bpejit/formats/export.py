"""Write a model in a format by name."""

from __future__ import annotations

from collections.abc import Iterable

from bpejit.errors import TokenizerFormatError, shorten
from bpejit.formats.recognize import file_patterns
from bpejit.formats.registry import load_format, load_writable
from bpejit.formats.remote_tokenizers import stored_tokenizer
from bpejit.model import Model
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
    OutputError
    """
    if is_remote(path):
        with stored_tokenizer(str(path), file_patterns()) as local:
            load_format(format).check_write(local, inputs=(), overwrite=overwrite)
        return
    load_format(format).check_write(path, inputs=inputs, overwrite=overwrite)


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
    if legacy_merges and not found.has_tokenizer_json:
        raise TokenizerFormatError(
            f"the format {shorten(format)} has no `tokenizer.json`; expected no `legacy_merges`: omit it"
        )
    if is_remote(path):
        with stored_tokenizer(str(path), file_patterns()) as local:
            return found.write(model, local, legacy_merges=legacy_merges, overwrite=overwrite)
    return found.write(model, path, legacy_merges=legacy_merges, overwrite=overwrite)
