"""The folders of a training that writes several sizes of a tokenizer."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from bpejit import arguments
from bpejit.engines import RAY
from bpejit.errors import OptionError
from bpejit.formats.folder_writing import save_folder
from bpejit.model import Model
from bpejit.shrinking import first_merges
from bpejit.storage.outputs import existing_parent
from bpejit.storage.remote import is_remote


def runs_parent(out: str, engine: str) -> str:
    """Return the folder for temporary files of a training whose output is `out`; a URL only for Ray."""
    if is_remote(out):
        return out.rstrip("/").rpartition("/")[0] if engine == RAY else tempfile.gettempdir()
    return str(existing_parent(out))


def smaller_folders(out: str, also: Sequence[int]) -> dict[int, str]:
    """Return the folder of each smaller size, `OUT-N`, from the largest one on."""
    return {size: f"{out.rstrip('/')}-{size}" for size in sorted(set(also), reverse=True)}


def listed_sizes(also: Any) -> list[int]:
    """Return the sizes of the parameter `also`.

    Raises
    ------
    ArgumentTypeError
    """
    if isinstance(also, (str, bytes)) or not arguments.is_iterable(also):
        raise arguments.wrong_type("also", also, "a list of whole numbers", "give one such as [64000, 32000]")
    return [arguments.whole_number(f"also[{index}]", size) for index, size in enumerate(also)]


def check_smaller_sizes(sizes: Sequence[int], vocab_size: int, least: int) -> None:
    """Raise OptionError for a size that is below `least`, or not below `vocab_size`."""
    for size in sizes:
        if not least <= size < vocab_size:
            raise OptionError(
                f"also contains {size}; expected sizes from {least}, the bytes and the special tokens, up to {vocab_size - 1}, "
                "below `vocab_size=`: correct it"
            )


def save_sizes(model: Model, out: str, smaller: Mapping[int, str], *, overwrite: bool) -> str | None:
    """Save a trained model and its smaller sizes; return why other tools cannot read it, or None if they can.

    Raises
    ------
    OutputError
    """
    unreadable = save_folder(model, out, overwrite=overwrite)
    for size, folder in smaller.items():
        save_folder(first_merges(model, size), folder, overwrite=overwrite)
    return unreadable
