"""Columns and fields of records that pass through to the output, beside the texts: a row for each document.

Values of Parquet and Arrow keep their types. The type of a field of JSON is known only when all its values are: they are JSON
text until then, and the field's metadata has the kinds of the values so far, as bits.

A name with a dot is that of one column or field first, and otherwise leads to a field of an object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.errors import CorpusError
from bpejit.extras import import_extra

_KINDS = b"bpejit.kinds"
"""The key of the metadata of a field of JSON."""

_BOOL, _NEGATIVE, _NUMBER, _UNSIGNED, _WIDE, _FLOAT, _STRING, _OTHER = (1 << bit for bit in range(8))
"""Kinds of values: integers below 0, from 0 on, and from 2^63 on; those that a float64 may not hold have `_WIDE` as well."""

_KIND_OF = {bool: _BOOL, float: _FLOAT, str: _STRING}

_TYPES = {
    "bool": _BOOL,
    "int64": _NEGATIVE | _NUMBER | _WIDE,
    "uint64": _NUMBER | _UNSIGNED | _WIDE,
    "float64": _NEGATIVE | _NUMBER | _FLOAT,
}
"""The kinds of values that types of the output hold, the first that fits; values of other kinds are strings of JSON."""

_EXACT = 1 << 53


def find_name(record: dict[str, Any], name: str) -> list[str] | None:
    """Return the keys that lead to a field of a record or of an object in it; None if there is no such field.

    All of the name is looked up first, and then each part that ends before a dot, the longest one first.

    Examples
    --------
    >>> find_name({"doc.text": "one"}, "doc.text")
    ['doc.text']
    >>> find_name({"doc": {"text": "one"}}, "doc.text")
    ['doc', 'text']
    """
    if name in record:
        return [name]
    end = name.rfind(".")
    while end > 0:
        inner = record.get(name[:end])
        others = find_name(inner, name[end + 1 :]) if isinstance(inner, dict) else None
        if others is not None:
            return [name[:end], *others]
        end = name.rfind(".", 0, end)
    return None


def look_up(record: Any, name: str) -> Any:
    """Return the value of a field of a JSON record.

    Raises
    ------
    KeyError
        If it has no such field.
    """
    keys = find_name(record, name) if isinstance(record, dict) else None
    if keys is None:
        raise KeyError(name)
    for key in keys:
        record = record[key]
    return record


def _field_names(fields: Any) -> dict[str, Any]:
    """Return the names of the fields of a pyarrow.Schema or a struct, with those of structs in it."""
    return {field.name: _field_names(field.type) if str(field.type).startswith("struct<") else None for field in fields}


def find_column(schema: Any, name: str) -> tuple[list[str], Any] | None:
    """Return the names that lead to a column of a pyarrow.Schema, or to a field of a struct, and its type; None for none."""
    keys = find_name(_field_names(schema), name)
    if keys is None:
        return None
    found = schema.types[schema.names.index(keys[0])]
    for key in keys[1:]:
        found = found.field(key).type
    return keys, found


def pack_rows(batch: Any) -> bytes:
    """Return a record batch as a stream of Arrow, which can be pickled and appended to a file."""
    pyarrow = _arrow()
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack_rows(data: bytes | None) -> Any:
    """Return the record batch of `pack_rows`; without data, one that is empty."""
    pyarrow = _arrow()
    return pyarrow.record_batch([], names=[]) if data is None else pyarrow.ipc.open_stream(data).read_next_batch()


def stored_rows(path: Path, position: int = 0) -> Iterator[tuple[int, int, Any]]:
    """Yield the items of a file from a position on: the position and the number of each, and its record batch.

    An item is a little-endian int64 and a result of `pack_rows`. The batches are mapped into memory.
    """
    pyarrow = _arrow()
    if not path.exists() or not path.stat().st_size:  # which cannot be mapped
        return
    with pyarrow.memory_map(str(path)) as file:
        file.seek(position)
        while (position := file.tell()) < file.size():
            number = int.from_bytes(file.read(8), "little")
            for batch in pyarrow.ipc.open_stream(file):
                yield position, number, batch


def _arrow() -> Any:
    import_extra("pyarrow.ipc", "a column that passes through")
    return import_extra("pyarrow", "a column that passes through")


def no_columns(path: str) -> CorpusError:
    """Return the error for an input without columns, when some are to be kept."""
    what = {"-": "standard input is plain text, which has", "texts": "an iterator of texts has"}.get(
        path, f"the input `{path}` is plain text, which has"
    )
    return CorpusError(f"{what} no columns to keep; expected JSON lines, Parquet or Arrow: leave out `keep_columns=`")


def read_schema(data: bytes) -> Any:
    """Return a schema from its serialized form."""
    pyarrow = _arrow()
    return pyarrow.ipc.read_schema(pyarrow.py_buffer(data))


def kept_schema(schema: Any, names: Sequence[str], path: str) -> Any:
    """Return the schema of some columns of a file.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the file.
    names : sequence of str
        Columns, or fields of structs (see `find_name`).
    path : str

    Raises
    ------
    CorpusError
        If there is no such column, or its type cannot be written.
    """
    pyarrow = _arrow()
    fields = []
    for name in names:
        column = find_column(schema, name)
        if column is None:
            known = ", ".join(f"`{field.name}`" for field in list(schema)[:10]) or "none"
            raise CorpusError(
                f"the input `{path}` has no column `{name}`; expected one to keep: correct `keep_columns=`, or leave it out "
                f"(its columns are {known})"
            )
        found = column[1]
        if any("dictionary<" in str(found.field(index).type) for index in range(getattr(found, "num_fields", 0))):
            raise CorpusError(
                f"the column `{name}` of the input `{path}` contains {found}, and dictionaries inside of other types cannot be "
                "kept; expected plain values: convert it, or leave it out of `keep_columns=`"
            )
        fields.append(pyarrow.field(name, plain_type(found)))
    return pyarrow.schema(fields)


def column_of(batch: Any, name: str) -> Any:
    """Return a column of a record batch or a table, or a field of a struct, as an array or a chunked array.

    Raises
    ------
    KeyError
        If there is none.
    """
    found = find_column(batch.schema, name)
    if found is None:
        raise KeyError(name)
    first, *others = found[0]
    column = batch.column(first)
    return import_extra("pyarrow.compute", "a column of a struct").struct_field(column, others) if others else column


def plain_type(data_type: Any) -> Any:
    """Return the type of the values of a dictionary, and of strings with offsets for views; other types are returned as is."""
    pyarrow = _arrow()
    if pyarrow.types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    views = {"string_view": pyarrow.large_string(), "binary_view": pyarrow.large_binary()}
    return views.get(str(data_type), data_type)


def joined_array(column: Any) -> Any:
    """Return an array or a chunked array as one array, with the type that `plain_type` returns."""
    wanted = plain_type(column.type)
    column = column if column.type == wanted else column.cast(wanted)
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def keep_rows(batch: Any, names: Sequence[str]) -> Any:
    """Return some columns of a record batch or a table, as a record batch."""
    arrays = [joined_array(column_of(batch, name)) for name in names]
    return _arrow().record_batch(arrays, names=list(names))


class JsonFields:
    """Collects fields of JSON records.

    Parameters
    ----------
    names : sequence of str
        Fields (see `find_name`).
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._values: list[list[bytes | None]] = [[] for _ in names]
        self._kinds = [0] * len(names)
        self._dumps = import_extra("orjson", "JSON lines").dumps

    def add(self, record: Any) -> None:
        """Append the values of a record; those that it lacks are null."""
        for index, name in enumerate(self._names):
            try:
                value = record[name] if "." not in name else look_up(record, name)
            except KeyError:
                value = None
            self._values[index].append(None if value is None else self._text(value, index))

    def _text(self, value: Any, index: int) -> bytes:
        if type(value) is int and not -(1 << 63) <= value < 1 << 64:
            value = float(value)  # as orjson reads it
        self._kinds[index] |= _kind(value)
        try:
            if type(value) is float and not np.isfinite(value):
                raise ValueError
            found: bytes = self._dumps(value)
        except (TypeError, ValueError):  # NaN, halves of surrogate pairs, and more than 254 levels
            try:
                text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            except RecursionError:
                raise CorpusError(
                    f"a value of the field `{self._names[index]}` has too many levels; expected fewer than 900: "
                    "leave the field out of `keep_columns=`"
                ) from None
            found = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
        return found

    def packed(self) -> bytes:
        """Return all values (see `pack_rows`)."""
        pyarrow = _arrow()
        arrays = [pyarrow.array(values, pyarrow.large_binary()) for values in self._values]
        return pack_rows(pyarrow.record_batch(arrays, schema=json_schema(self._names, self._kinds)))


def json_schema(names: Sequence[str], kinds: Sequence[int] | None = None) -> Any:
    """Return the schema of fields of JSON, whose values have some kinds; by default, no kind is known yet."""
    pyarrow = _arrow()
    fields = [
        pyarrow.field(name, pyarrow.large_binary(), metadata={_KINDS: b"%d" % kind})
        for name, kind in zip(names, kinds or [0] * len(names), strict=True)
    ]
    return pyarrow.schema(fields)


def _kind(value: Any) -> int:
    if type(value) is not int:
        return _KIND_OF.get(type(value), _OTHER)
    found = _NEGATIVE if value < 0 else _UNSIGNED if value >> 63 else _NUMBER
    return found if -_EXACT <= value <= _EXACT else found | _WIDE


def merge_schemas(old: Any, new: Any) -> Any:
    """Return the schema that holds the values of two schemas with the same names; `old` may be None.

    Raises
    ------
    CorpusError
        If there is none.
    """
    if old is None or old.equals(new, check_metadata=True):
        return new
    pyarrow = _arrow()
    fields = []
    for first, second in zip(old, new, strict=True):
        kinds = [_json_kinds(field) for field in (first, second)]
        if kinds[0] is not None and kinds[1] is not None:
            fields.append(json_schema([first.name], [kinds[0] | kinds[1]]).field(0))
            continue
        found = None
        if kinds == [None, None]:
            try:
                parts = [pyarrow.schema([field]) for field in (first, second)]
                found = pyarrow.unify_schemas(parts, promote_options="permissive").field(0)
            except pyarrow.ArrowException:
                pass
        if found is None:
            shown = [
                "JSON" if kind is not None else str(field.type) for kind, field in zip(kinds, (first, second), strict=True)
            ]
            raise CorpusError(
                f"the column `{first.name}` contains {shown[0]} in some inputs and {shown[1]} in others; expected types that "
                "have one in common: convert the inputs, encode them one by one, or leave the column out of `keep_columns=`"
            )
        fields.append(found)
    return pyarrow.schema(fields)


def _json_kinds(field: Any) -> int | None:
    found = (field.metadata or {}).get(_KINDS)
    return None if found is None else int(found)


def final_schema(schema: Any) -> Any:
    """Return the schema of the output: the types of fields of JSON follow from the kinds of all their values."""
    pyarrow = _arrow()
    fields = []
    for field in schema:
        kinds = _json_kinds(field)
        found = field.type
        if kinds is not None:
            fitting = [name for name, allowed in _TYPES.items() if kinds and not kinds & ~allowed]
            found = pyarrow.type_for_alias(fitting[0] if fitting else "string")
        fields.append(pyarrow.field(field.name, found))
    return pyarrow.schema(fields)


def final_batch(batch: Any, known: Any, final: Any) -> Any:
    """Return a record batch with the types of the output.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
    known : pyarrow.Schema
        The merged schema of all batches.
    final : pyarrow.Schema
        `final_schema(known)`.
    """
    arrays = []
    for column, merged, field in zip(batch.columns, known, final, strict=True):
        kinds = _json_kinds(merged)
        arrays.append(column.cast(field.type) if kinds is None else _json_values(column, kinds, field.type))
    return _arrow().record_batch(arrays, schema=final)


def _json_values(column: Any, kinds: int, data_type: Any) -> Any:
    """Return JSON texts as values of a type; as strings, they stay JSON text unless all values are strings."""
    pyarrow = _arrow()
    if data_type == pyarrow.string() and kinds & ~_STRING:
        return column.cast(pyarrow.large_string()).cast(data_type)
    text = b"[" + b",".join(b"null" if value is None else value for value in column.to_pylist()) + b"]"
    try:
        values = import_extra("orjson", "JSON lines").loads(text)
    except ValueError:  # NaN
        values = json.loads(text)
    if data_type == pyarrow.float64():
        values = [None if value is None else float(value) for value in values]
    return pyarrow.array(values, data_type)
