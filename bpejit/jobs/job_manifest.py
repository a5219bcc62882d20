"""The manifest of a job: what was asked for, and, once it is complete, what was written.

`<output>.manifest.json` beside the output, or `manifest.json` in a folder of outputs. It contains nothing that differs between
two runs of the same job: no times, no numbers of workers, no names of machines.

format, format_version
    What the file is.
job
    What was asked for: hash of the tokenizer, format and dtype of the output, all options that affect its bytes, and the
    inputs, each with path, size, and a hash of its size, head and tail.
documents, tokens, bytes_read, skipped
    Totals. `skipped` is the number of records without text. With `pack`, `tokens` are those in rows, and `left_out` the others.
outputs
    For each output its `path` in the folder of the manifest, `tokens`, `documents` and `bytes_read`, and `validation` if it
    contains the documents that were set aside. With `pack`, also `rows` and `left_out`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bpejit.errors import shorten

FORMAT = "bpejit job"

FORMAT_VERSION = 1

FOLDER_VERSION = 3
"""Version of the folder of an unfinished job: 2 has hashes; 3 has one file of columns for all outputs."""


def manifest_path(out: Path, *, per_input: bool) -> Path:
    """Return the path of the manifest of an output."""
    return out / "manifest.json" if per_input else out.with_name(f"{out.name}.manifest.json")


def begun_manifest(job: Mapping[str, Any], parts: int) -> dict[str, Any]:
    """Return the manifest of an unfinished job, divided into `parts`."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "folder_version": FOLDER_VERSION,
        "parts": parts,
        "job": job,
    }


def hash_job(job: Mapping[str, Any]) -> str:
    """Return a hash of what was asked for, which the checkpoints of a job contain."""
    return hashlib.sha256(json.dumps(job).encode("ascii")).hexdigest()


def finished_manifest(job: Mapping[str, Any], totals: Mapping[str, int], outputs: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the content of the manifest of a complete job."""
    fields = {"format": FORMAT, "format_version": FORMAT_VERSION, "job": job, **totals, "outputs": list(outputs)}
    return f"{_indented(fields)}\n".encode("ascii")


def _indented(fields: Mapping[str, Any], depth: int = 0) -> str:
    """Return JSON with a field in each line, and each object of a list in one line.

    `json.dumps` with `indent` takes three times as long, which is noticeable for 10,000 inputs.
    """
    inner = " " * (depth + 1)
    lines = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            text = _indented(value, depth + 1)
        elif isinstance(value, list) and value:
            text = f"[\n{inner} {_lines(value, inner)}\n{inner}]"
        else:
            text = _ENCODE(value)
        lines.append(f"{inner}{_ENCODE(name)}: {text}")
    return "{\n" + ",\n".join(lines) + f"\n{' ' * depth}}}"


def _lines(values: list[Any], indent: str) -> str:
    """Return JSON with each value of a list in one line."""
    if isinstance(values[0], dict):
        # All values in one call, which takes half the time for 10,000 inputs. The text between two of them occurs nowhere else:
        # a quotation mark in a string is preceded by a backslash, and the one that ends a string is not followed by a letter.
        return _ENCODE(values)[1:-1].replace('}, {"path": ', f'}},\n{indent} {{"path": ')
    return f",\n{indent} ".join(map(_ENCODE, values))


_ENCODE = json.JSONEncoder().encode


_OPTIONS = {
    "append": "append_token",
    "prepend": "prepend_token",
    **{
        name: name
        for name in (
            *("format", "dtype", "document_index", "pack", "shard_tokens", "shard_exact", "val_fraction", "seed", "unit_bytes"),
            *("input_format", "documents", "text_field", "text_column", "allow_special", "strip_bom", "keep_columns"),
        )
    },
}
"""The arguments that fields of a job are."""


def find_difference(
    found: Mapping[str, Any] | None, wanted: Mapping[str, Any], texts: Mapping[str, str] | None = None
) -> str | None:
    """Return how the job of a manifest differs from another job, as a clause; None if they are equal.

    `texts` are those of the tokens that are added to documents, by their ids.
    """
    if not isinstance(found, Mapping):
        return "its manifest cannot be read"
    found = json.loads(json.dumps(found))
    wanted = json.loads(json.dumps(wanted))
    for key in dict.fromkeys((*wanted, *found)):
        if found.get(key) == wanted.get(key):
            continue
        if key == "inputs":
            return _input_difference(found.get(key), wanted[key])
        if key in _OPTIONS:
            return _option_difference(key, found.get(key), wanted.get(key), texts or {})
        return f"it has `{key}` {shorten(found.get(key))}, and this one {shorten(wanted.get(key))}"
    return None


def _option_difference(key: str, found: Any, wanted: Any, texts: Mapping[str, str]) -> str:
    name = _OPTIONS[key]

    def shown(value: Any) -> str:
        if value is None or value is False:
            return f"no `{name}=`"
        value = texts.get(str(value), value) if name != key else value
        return f"`{name}={shorten(value) if isinstance(value, list) else json.dumps(value) if value is not True else True}`"

    return f"it has {shown(found)}, and this one {'has not' if wanted is None or wanted is False else f'has {shown(wanted)}'}"


def find_begun_difference(
    begun: Mapping[str, Any] | None, wanted: Mapping[str, Any], texts: Mapping[str, str] | None = None
) -> str | None:
    """Return how an unfinished job with a manifest differs from another job, as a clause; None if they are equal.

    `texts` are those of the tokens that the other job adds to documents, by their ids.
    """
    if begun is not None and begun.get("folder_version") != FOLDER_VERSION:
        return "it was begun by another version of bpejit, which may finish it"
    if begun is None:
        return find_difference(None, wanted)
    known = {**begun.get("texts", {}), **(texts or {})}
    return find_difference(begun.get("job"), wanted, known)


def _input_difference(found: Any, wanted: list[dict[str, Any]]) -> str:
    if not isinstance(found, list):
        return "it has no list of inputs"
    for old, new in zip(found, wanted, strict=False):
        if old == new:
            continue
        if old.get("path") != new["path"]:
            return f"it has the input {shorten(old.get('path'))}, and this one {shorten(new['path'])} in its place"
        if old.get("size") != new["size"]:
            return f"its input {shorten(new['path'])} had {old.get('size')} bytes, and now has {new['size']}"
        return f"the content of its input {shorten(new['path'])} has changed"
    return f"it has {len(found)} inputs, and this one {len(wanted)}"
