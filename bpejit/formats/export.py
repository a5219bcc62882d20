"""A model written in a format by its name."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from bpejit.errors import TokenizerFormatError, shorten
from bpejit.formats.folder import check_folder, made_folder, save_folder
from bpejit.formats.gpt2 import gpt2_files, save_gpt2_pair
from bpejit.formats.readers import note
from bpejit.formats.tiktoken import tiktoken_files, write_tiktoken
from bpejit.model import Model
from bpejit.storage.files import StrPath
from bpejit.storage.outputs import check_not_stream, check_output_folder, check_outputs

_logger = logging.getLogger("bpejit.formats")

FORMATS = ("bpejit", "hf", "tiktoken", "gpt2")


def check_save(path: StrPath, *, format: str, inputs: Iterable[StrPath], overwrite: bool) -> None:  # noqa: A002
    """Raise what `save_model` would, as far as it is known before the tokenizer is read.

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
    if format == "tiktoken":
        check_not_stream(path, [file.name for file in tiktoken_files("NAME.tiktoken")])
        check_outputs(tiktoken_files(path), inputs=inputs, overwrite=overwrite)
    elif format == "gpt2":
        check_output_folder(path, [file.name for file in gpt2_files(path)])
        check_outputs(gpt2_files(path), inputs=inputs, overwrite=overwrite, folder=path)
    else:
        check_folder(path, inputs=inputs, overwrite=overwrite)


def save_model(
    model: Model,
    path: StrPath,
    *,
    format: str = "bpejit",  # noqa: A002 - it is the word for it
    legacy_merges: bool = False,
    overwrite: bool = False,
) -> str | None:
    """Write a model; parameters, result and errors are those of `Tokenizer.save`."""
    if format not in FORMATS:
        raise TokenizerFormatError(f"there is no format {shorten(format)}; expected {', '.join(FORMATS)}: choose one of these")
    if legacy_merges and format not in ("bpejit", "hf"):
        raise TokenizerFormatError(
            f"the format {shorten(format)} has no `tokenizer.json`; expected no `legacy_merges`: leave it out"
        )
    if format == "tiktoken":
        write_tiktoken(model, path, overwrite=overwrite)
        return None
    if format == "gpt2":
        check_output_folder(path, [file.name for file in gpt2_files(path)])
        with made_folder(Path(path)):
            save_gpt2_pair(model, path, overwrite=overwrite)
        return None
    obstacle = save_folder(model, path, legacy_merges=legacy_merges, must_be_public=format == "hf", overwrite=overwrite)
    if format == "hf" and (found := note(model)):
        _logger.info("%s: %s", os.fspath(path), found)
    return obstacle
