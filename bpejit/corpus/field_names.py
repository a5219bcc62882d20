"""Names of fields and columns. A name with a dot is that of one field first, and otherwise leads to a field of an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _own_fields(value: Any) -> Any:
    return value if isinstance(value, dict) else None


def find_name(record: Any, name: str, fields: Callable[[Any], Any] = _own_fields) -> list[str] | None:
    """Return the keys that lead to a field; None if there is no such field.

    Parameters
    ----------
    record : dict
    name : str
        All of it is looked up first, and then each part that ends before a dot, the longest one first.
    fields : callable
        `fields(value)` returns the fields of a value as a dict, or None if it has none.

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
        inner = fields(record[name[:end]]) if name[:end] in record else None
        others = None if inner is None else find_name(inner, name[end + 1 :], fields)
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


def _column_fields(data_type: Any) -> Any:
    if not str(data_type).startswith("struct<"):
        return None
    fields = [data_type.field(index) for index in range(data_type.num_fields)]
    return {field.name: field.type for field in fields}


def find_column(schema: Any, name: str) -> tuple[list[str], Any] | None:
    """Return the names that lead to a column of a pyarrow.Schema, or to a field of a struct, and its type; None for none."""
    found: Any = {field.name: field.type for field in schema}
    keys = find_name(found, name, _column_fields)
    if keys is None:
        return None
    for number, key in enumerate(keys):
        found = (_column_fields(found) if number else found)[key]
    return keys, found
