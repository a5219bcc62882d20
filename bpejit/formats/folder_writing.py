"""Write the folder in which bpejit saves a tokenizer (see `bpejit.formats.folder`), and the two formats that do so."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from bpejit import __version__
from bpejit.errors import OutputError, PatternError, TokenizerFormatError, shorten, visible
from bpejit.formats.any_format import output_path
from bpejit.formats.base import Given, TokenizerFormat, without_gz
from bpejit.formats.folder import (
    FORMAT,
    FORMAT_VERSION,
    OWN_FILE,
    PREPARATION_STEPS,
    PRIVATE_FILE,
    PUBLIC_FILES,
    TOKENIZER_FILE,
    load_folder,
)
from bpejit.formats.huggingface_writing import (
    CONFIG_FILE,
    file_sections,
    note,
    pre_tokenizer,
    special_token_obstacle,
    split_steps,
    tokenizer_config_json,
    tokenizer_json,
)
from bpejit.formats.missing_parts import TOOLS_UNICODE
from bpejit.formats.packed_vocabulary import parse_large
from bpejit.formats.settings_beside import SETTINGS_FILES
from bpejit.formats.tokenizer_files import TOKEN_BYTES_FILE, refuse_obstacle, token_lengths, write_files
from bpejit.model import Model, pattern_source
from bpejit.process_memory import collector_paused
from bpejit.splitting.presets import Pattern
from bpejit.storage.exchange import recover_description
from bpejit.storage.files import StrPath
from bpejit.storage.outputs import check_output_folder, check_outputs, creating_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack

_logger = logging.getLogger("bpejit.formats")

FILE_SUFFIXES = (".json", ".model", ".tiktoken")
"""Suffixes of the files in which tokenizers come, which a folder should not have."""


@collector_paused()  # a fifth of the time, and more where the model has just been made
def save_folder(
    model: Model, path: StrPath, *, legacy_merges: bool = False, must_be_public: bool = False, overwrite: bool = False
) -> str | None:
    """Save a model as a folder, which is created if it does not exist.

    Parameters
    ----------
    model : Model
    path : path
    legacy_merges : bool
        Write merges as `"a b"` (see `tokenizer_json`).
    must_be_public : bool
        Raise an exception if other tools cannot read the folder.
    overwrite : bool
        Replace a tokenizer in the folder. Other files are never touched.

    Returns
    -------
    str, optional
        The reason why other tools cannot read the folder; None if they can.

    Raises
    ------
    OutputError
        If a file cannot be written, or exists and `overwrite` is false. Existing files are unchanged then.
    TokenizerFormatError
        If other tools cannot read the folder, and `must_be_public`.
    """
    with output_path(path) as local:
        folder = Path(local)
        check_folder(folder, overwrite=overwrite)
        source = pattern_source(model.pattern)
        try:
            splitting = pre_tokenizer(model)
            obstacle = special_token_obstacle(model) if model.symbols is None else None
        except PatternError as error:
            splitting = split_steps(source)
            obstacle = str(error)
        written = tokenizer_json(model, splitting, legacy_merges=legacy_merges)
        if obstacle is None and model.symbols is not None:
            obstacle = _reading_obstacle(model, written)
        if must_be_public:
            refuse_obstacle(obstacle, "for Hugging Face")
        name = PRIVATE_FILE if obstacle else TOKENIZER_FILE
        contents = {name: written}
        stale = [folder / TOKENIZER_FILE, folder / CONFIG_FILE]
        if not obstacle:
            contents[CONFIG_FILE] = tokenizer_config_json(model)
            stale = [folder / PRIVATE_FILE] if _is_ours(folder, PRIVATE_FILE) else []
        own = _own_json(model, source, name, written, obstacle)
        with creating_folder(folder):
            named = {folder / file: data for file, data in contents.items()}
            write_files(model, named, folder / TOKEN_BYTES_FILE, (folder / OWN_FILE, own), stale=stale)
        return obstacle


def check_folder(path: StrPath, *, inputs: Iterable[StrPath] = (), overwrite: bool = False) -> None:
    """Raise the errors of `save_folder` that can be known beforehand, for example before hours of training.

    Raises
    ------
    OutputError
        If `path` is a file, has the suffix of one, or cannot be written to; or if an output exists and `overwrite` is false,
        or is one of the inputs.
    """
    suffix = PurePath(path).suffix
    if suffix in FILE_SUFFIXES:
        raise OutputError(
            f"`{visible(str(path))}` has the suffix of a file, and a tokenizer is saved as a folder; expected a name without "
            f"{suffix}: change the name, or save the folder and write the file with `bpejit export`"
        )
    with output_path(path) as local:
        check_output_folder(local, PUBLIC_FILES)
        targets = [Path(local) / name for name in (*PUBLIC_FILES, PRIVATE_FILE, TOKEN_BYTES_FILE)]
        check_outputs(targets, inputs=inputs, overwrite=overwrite, folder=local)


def _is_ours(folder: Path, name: str) -> bool:
    """Return True if bpejit wrote the file `name` in a folder. Other files of that name belong to the user."""
    try:
        own = json.loads((folder / OWN_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(own, dict) and own.get("format") == FORMAT and own.get("tokenizer_file") == name


def _reading_obstacle(model: Model, written: bytes) -> str | None:
    """Return why a `tokenizer.json` is not read as the model, whose symbols only some files describe, or None if it is."""
    from bpejit.formats.huggingface_reading import model_from_json

    try:
        content = parse_large(written, hook=dict) or json.loads(written)
        found = model_from_json(content, unicode=model.unicode or TOOLS_UNICODE)
    except TokenizerFormatError as error:
        return f"its `tokenizer.json` would not be read: {error}"
    same = (found.symbols, found.tokens, found.special_tokens, found.pipeline) == (
        *(model.symbols, model.tokens, model.special_tokens, model.pipeline),
    )
    return None if same and found.merges == model.merges else "its `tokenizer.json` would be read as other tokens"


def _own_json(model: Model, source: Pattern, name: str, written: bytes, obstacle: str | None) -> bytes:
    preparation = None
    if model.pipeline is not None:
        preparation = {name: json.loads(getattr(model.pipeline, name)) for name in PREPARATION_STEPS}
    fields = {
        "format": FORMAT,
        "format_version": _format_version(model),
        "bpejit_version": __version__,
        "tokenizer_file": name,
        "tokenizer_file_sha256": hashlib.sha256(written).hexdigest(),
        "not_for_other_tools": obstacle,
        "sha256": model.sha256,
        "pattern": {
            "name": model.pattern if isinstance(model.pattern, str) and source != model.pattern else None,
            "source": source,
        },
        "shared_ids": sorted(set(model.special_tokens.values()) & model.tokens.keys()),
        **({"sections_of_source": True} if file_sections(model) is not None else {}),
        "unicode": model.unicode,
        "ranked": model.ranked,
        "ignore_merges": model.ignore_merges,
        "preparation": preparation,
        "token_flags": {text: flags._asdict() for text, flags in model.token_flags.items()},
        "post_processor": json.loads(model.post_processor),
        **({} if model.symbols is None else {"symbols": model.symbols.as_dict()}),
        **({"decoder": json.loads(model.decoder)} if model.decoder else {}),
        "tie_break": model.tie_break,
        **({"config": model.config.fields} if model.config.fields else {}),
        "training": dict(model.training),
        "vocab_size": model.vocab_size,
        "merge_counts": model.merge_counts,
        "token_lengths": token_lengths(model),
    }
    # ASCII, since file names in the notes may contain bytes that are not UTF-8.
    lines = (f"  {json.dumps(key)}: {json.dumps(value, default=_plain_value)}" for key, value in fields.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


def _format_version(model: Model) -> int:
    """Return the oldest version of the format that can represent a model."""
    if model.symbols is not None or model.decoder:
        return FORMAT_VERSION
    if model.unicode is not None:
        return 3
    plain = not (model.ranked or model.ignore_merges or model.pipeline or model.token_flags)
    return 1 if plain and model.post_processor == "null" else 2


def _plain_value(value: Any) -> Any:
    """Convert paths and NumPy values in training notes to JSON types."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return value.tolist()
    raise TypeError(
        f"the training notes contain {shorten(value)}, a {type(value).__name__}; expected a value that JSON can represent"
    )


# ---- the two formats


class FolderFormat(TokenizerFormat):
    """bpejit's own folder, which other tools read as a Hugging Face tokenizer where that gives equal ids."""

    name = "bpejit"
    expected = "a folder that bpejit wrote"
    file_names = (OWN_FILE, *PUBLIC_FILES, PRIVATE_FILE, TOKEN_BYTES_FILE)
    exclusive = True
    writable = has_tokenizer_json = True
    check_write = staticmethod(check_folder)
    write = staticmethod(save_folder)

    def find(self, folder: Path) -> list[Path]:
        """Return the folder itself if bpejit wrote it."""
        recover_description(folder / OWN_FILE, error=TokenizerFormatError)
        return [folder] if (folder / OWN_FILE).exists() else []

    def locate(self, file: Path) -> Path | None:
        """Return the folder of a file that bpejit wrote."""
        recover_description(file.parent / OWN_FILE, error=TokenizerFormatError)
        named = without_gz(file).name in (OWN_FILE, TOKENIZER_FILE, PRIVATE_FILE)
        return file.parent if named and (file.parent / OWN_FILE).exists() else None

    def read(self, path: Path, **given: Unpack[Given]) -> Model:
        """Return the model in a folder."""
        return load_folder(path, unicode=given.get("unicode"))


_BEGIN = re.compile(rb'\s*\{\s*"version"\s*:\s*"[^"]*"\s*,\s*"truncation"\s*:')
"""The first two fields of every `tokenizer.json` that `tokenizers` writes."""


class HuggingFaceFormat(TokenizerFormat):
    """Hugging Face's `tokenizer.json` with `tokenizer_config.json`; it is written as part of a folder of bpejit."""

    name = "hf"
    expected = f"Hugging Face's `{TOKENIZER_FILE}`"
    file_names = (TOKENIZER_FILE, *SETTINGS_FILES)
    writable = has_tokenizer_json = True
    check_write = staticmethod(check_folder)

    def recognizes(self, head: bytes, content: Any) -> bool:
        """Return True for an object with a model, or one that begins as `tokenizers` writes it: large files are parsed once."""
        return _BEGIN.match(head) is not None or (isinstance(content, dict) and isinstance(content.get("model"), dict))

    def read(self, path: Path, **given: Unpack[Given]) -> Model:
        """Return the model in a file."""
        from bpejit.formats.huggingface_reading import read_tokenizer_json

        return read_tokenizer_json(path, unicode=given.get("unicode") or TOOLS_UNICODE)

    def read_folder(self, path: Path, **given: Unpack[Given]) -> Model:
        """Return the model in a file with the tokens and settings beside it."""
        from bpejit.formats.huggingface_reading import read_tokenizer_json

        return read_tokenizer_json(path, unicode=given.get("unicode") or TOOLS_UNICODE, with_settings=True)

    def write(self, model: Model, path: StrPath, *, legacy_merges: bool = False, overwrite: bool = False) -> str | None:
        """Write a folder, or raise TokenizerFormatError if Hugging Face's tools would give other ids."""
        obstacle = save_folder(model, path, legacy_merges=legacy_merges, must_be_public=True, overwrite=overwrite)
        for found in filter(None, (note(model), model.config.left_out)):
            _logger.info("%s: %s", os.fspath(path), found)
        return obstacle
