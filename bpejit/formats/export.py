"""A model written in a format by its name."""

from __future__ import annotations

from pathlib import Path

from bpejit.errors import TokenizerFormatError
from bpejit.files import StrPath
from bpejit.formats.folder import made_folder, save_folder
from bpejit.formats.gpt2 import save_gpt2_pair
from bpejit.formats.tiktoken import write_tiktoken
from bpejit.model import Model

FORMATS = ("bpejit", "hf", "tiktoken", "gpt2")


def save_model(
    model: Model,
    path: StrPath,
    *,
    format: str = "bpejit",  # noqa: A002 - it is the word for it
    legacy_merges: bool = False,
) -> str | None:
    """Write a model; parameters, result and errors are those of `Tokenizer.save`."""
    if format not in FORMATS:
        raise TokenizerFormatError(f"there is no format {format!r}; expected {', '.join(FORMATS)}: choose one of these")
    if legacy_merges and format not in ("bpejit", "hf"):
        raise TokenizerFormatError(f"the format {format!r} has no `tokenizer.json`; expected no `legacy_merges`: leave it out")
    if format == "tiktoken":
        write_tiktoken(model, path)
        return None
    if format == "gpt2":
        with made_folder(Path(path)):
            save_gpt2_pair(model, path)
        return None
    return save_folder(model, path, legacy_merges=legacy_merges, must_be_public=format == "hf")
