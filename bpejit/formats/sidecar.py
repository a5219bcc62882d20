"""Sidecar files: `NAME.bpejit.json` beside `NAME` stores what the format of `NAME` cannot represent.

format, format_version, bpejit_version
    The kind of file, and the version that wrote it.
sha256
    Hash of the file `NAME`. A file that was changed is not read.
pattern
    The split pattern: a regular expression in bpejit's dialect, or the name of a preset.
special_tokens
    Text and id of each special token.
unicode
    The version of Unicode of the pattern, in format version 2.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from bpejit import __version__
from bpejit.errors import TokenizerFormatError, shorten
from bpejit.model import Model
from bpejit.storage.exchange import recover_description
from bpejit.storage.files import StrPath, parse_json, read_file

FORMAT = "bpejit sidecar"

FORMAT_VERSION = 2
"""Version 2 has `unicode`. A model without it is written as version 1."""

SUFFIX = ".bpejit.json"


class Sidecar(NamedTuple):
    """Split pattern, special tokens and version of Unicode of a tokenizer file."""

    pattern: str
    special_tokens: dict[str, int]
    unicode: str | None


def sidecar_path(path: StrPath) -> Path:
    """Return the path of the sidecar of a file."""
    return Path(path).with_name(Path(path).name + SUFFIX)


def sidecar_json(model: Model, data: bytes) -> bytes:
    """Return the content of the sidecar of a file with the content `data`."""
    fields = {
        "format": FORMAT,
        "format_version": 1 if model.unicode is None else FORMAT_VERSION,
        "bpejit_version": __version__,
        "sha256": hashlib.sha256(data).hexdigest(),
        "pattern": model.pattern,
        "special_tokens": dict(model.special_tokens),
    }
    if model.unicode is not None:
        fields["unicode"] = model.unicode
    return json.dumps(fields, indent=2).encode("ascii") + b"\n"


def recover_files(path: StrPath) -> None:
    """Recover a file and its sidecar after an interrupted run. Call this before reading the file.

    Raises
    ------
    TokenizerFormatError
        If another process is replacing them, or they cannot be recovered.
    """
    if not sidecar_path(path).exists():
        recover_description(sidecar_path(path), error=TokenizerFormatError)


def read_sidecar(path: StrPath, data: bytes) -> Sidecar | None:
    """Return the sidecar of a file with the content `data`, or None if there is none.

    Raises
    ------
    TokenizerFormatError
        If the sidecar is broken, or the file was changed after the sidecar was written.
    """
    beside = sidecar_path(path)
    if not beside.exists():
        return None
    fields = parse_json(read_file(beside, error=TokenizerFormatError), beside, error=TokenizerFormatError)
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise TokenizerFormatError(
            f"`{beside}` is not a {FORMAT}; expected one that bpejit wrote beside `{path}`: remove the file"
        )
    version = fields.get("format_version")
    if version not in (1, FORMAT_VERSION):
        raise TokenizerFormatError(
            f"`{beside}` has format version {shorten(version)}, and bpejit {__version__} reads 1 and {FORMAT_VERSION}; "
            f"it was written by bpejit {fields.get('bpejit_version')}: install that or a later one"
        )
    pattern = _checked(beside, fields, "pattern", str, "a string")
    specials = _checked(beside, fields, "special_tokens", dict, "an object")
    for text, number in specials.items():
        if type(number) is not int:
            raise TokenizerFormatError(
                f"`{beside}`: the special token {shorten(text)} has the id {shorten(number)}; expected a whole number"
            )
    found = hashlib.sha256(data).hexdigest()
    expected = _checked(beside, fields, "sha256", str, "a string")
    if found != expected:
        raise TokenizerFormatError(
            f"`{path}` was changed after bpejit wrote it: its SHA-256 is {found}; expected {expected}, as in "
            f"`{beside}`: restore the file, or remove the sidecar and pass the pattern"
        )
    unicode = _checked(beside, fields, "unicode", str, "a string") if version > 1 else None
    return Sidecar(pattern, specials, unicode)


def _checked(path: Path, fields: dict[str, Any], key: str, kind: type, name: str) -> Any:
    value = fields.get(key)
    if not isinstance(value, kind):
        raise TokenizerFormatError(f"`{path}`: {key} is {shorten(value)}; expected {name}: restore the file, or export again")
    return value
