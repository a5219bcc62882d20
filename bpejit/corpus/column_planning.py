"""Check the columns to keep before any work begins, and find their types."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from bpejit.corpus.field_names import find_name
from bpejit.corpus.json_lines import parse_objects
from bpejit.corpus.kept_columns import merge_schemas, no_columns
from bpejit.corpus.registry import TEXT, load_format
from bpejit.corpus.sources import TEXTS, Source
from bpejit.errors import CorpusError, shorten

_FILES = 16
"""Number of files of JSON lines that are searched for a field."""

_HEAD_BYTES = 1 << 18
"""Bytes of each that are read."""


def plan_columns(sources: Sequence[Source]) -> bytes | None:
    """Return the schema of the columns to keep, of all sources together; None if it is not known before they are read.

    Raises
    ------
    CorpusError
        If a source has no such column, the types of a column have no type in common, or none of the first records of JSON lines
        has a field.
    """
    schemas: dict[bool, list[Any]] = {False: [], True: []}
    for source in sources:
        if source.size is None and source.texts is None:
            continue  # a pipe
        if source.input_format in (TEXT, TEXTS):
            raise no_columns(source.path)
        form = load_format(source.input_format)
        schema = form.column_schema(source)
        if schema is not None:
            schemas[form.is_empty(source)].append(schema)
    # An input without records has no values, so its types matter only if all inputs are like that.
    chosen = schemas[False] or schemas[True]
    found = reduce(merge_schemas, chosen) if chosen else None
    _check_fields([source for source in sources if source.input_format == "jsonl" and source.size is not None])
    return None if found is None else found.serialize().to_pybytes()


def _check_fields(sources: Sequence[Source]) -> None:
    """Raise CorpusError if no record at the start of the first files of JSON lines has one of the fields."""
    if not sources:
        return
    missing = list(sources[0].options.keep_columns)
    fields: dict[str, None] = {}
    for source in sources[:_FILES]:
        for record in parse_objects(_head(source)):
            missing = [name for name in missing if find_name(record, name) is None]
            if not missing:
                return
            if len(fields) < _FILES:
                fields |= dict.fromkeys(record)
    if fields:
        shown = ", ".join(f"`{shorten(name)[1:-1]}`" for name in list(fields)[:_FILES])
        raise CorpusError(
            f"none of the first records of `{sources[0].path}` has the field `{missing[0]}`; expected one to keep: correct "
            f"`keep_columns=`, or leave it out (the fields are {shown})"
        )


def _head(source: Source) -> bytes:
    """Return the lines at the start of an input."""
    if source.is_stream:
        with source.open_stream() as stream:
            data = stream.read_fully(_HEAD_BYTES)
    else:
        with source.open() as file:
            data = file.read(_HEAD_BYTES)
    return data if len(data) < _HEAD_BYTES else data[: data.rfind(b"\n") + 1]
