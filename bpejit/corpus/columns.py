"""Columns of strings of Parquet and Arrow files as arrays, without a Python object for each text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import repeat
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.base import DocumentsChunk, divide_documents, share
from bpejit.corpus.blocks import MOST_SHOWN, NOTHING_SKIPPED, Skipped, SkippedRecord, large_reason, refuse, too_large
from bpejit.corpus.kept_columns import (
    column_of,
    find_column,
    find_name,
    joined_array,
    keep_rows,
    kept_schema,
    merge_schemas,
    no_columns,
    pack_rows,
)
from bpejit.corpus.reading_options import InputOptions
from bpejit.corpus.registry import load_format
from bpejit.corpus.sources import Source
from bpejit.errors import CorpusError, shorten
from bpejit.extras import import_extra

MOST_DECODED = 128 << 20
"""Bytes of text that a batch may have. A value that is repeated takes its space in a dictionary once, and many times here."""


_FILES = 16
"""Number of files of records that are searched for a field, and of fields that a message shows."""


def import_pyarrow(module: str, path: str) -> Any:
    """Import a module of pyarrow, for an input."""
    return import_extra(module, f"the input `{path}`")


@contextmanager
def arrow_errors(path: str, kind: str) -> Iterator[None]:
    """Raise errors of pyarrow as CorpusError."""
    try:
        yield
    except (CorpusError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CorpusError(
            f"cannot read the input `{path}`: {reason}; expected a complete {kind} file: copy it again, or choose another "
            "`input_format=`"
        ) from error


def check_column(schema: Any, path: str, options: InputOptions) -> None:
    """Raise CorpusError unless a schema has the column of the texts, and this contains strings or bytes."""
    found = find_column(schema, options.text_column)
    if found is None:
        texts = [f"`{field.name}`" for field in schema if is_text(field.type)]
        raise CorpusError(
            f"the input `{path}` has no column `{options.text_column}`; expected one with the texts: choose it with "
            f"`text_column=` (its columns of strings are {', '.join(texts[:10]) or 'none'})"
        )
    keys, kind = found
    if schema.names.count(keys[0]) > 1:
        raise CorpusError(
            f"the input `{path}` has {schema.names.count(keys[0])} columns `{keys[0]}`; expected different names: rename "
            "them, or choose another one with `text_column=`"
        )
    if not is_text(kind):
        raise CorpusError(
            f"the column `{options.text_column}` of the input `{path}` contains {kind}; expected strings: choose another one "
            "with `text_column=`"
        )
    if options.keep_columns:
        kept_schema(schema, options.keep_columns, path)


def read_columns(options: InputOptions) -> list[str]:
    """Return the names of the columns to read: that of the texts, and those to keep."""
    return list(dict.fromkeys((options.text_column, *options.keep_columns)))


def is_text(data_type: Any) -> bool:
    """Return True for a type of pyarrow whose values are strings or bytes."""
    value = getattr(data_type, "value_type", data_type) if str(data_type).startswith("dictionary<") else data_type
    value = getattr(value, "storage_type", value)
    return str(value) in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")


def read_rows(table: Any, path: str, first_row: int, options: InputOptions) -> tuple[Array, Array, Skipped, Any]:
    """Return the documents of a table, and its columns to keep.

    Parameters
    ----------
    table : pyarrow.RecordBatch or pyarrow.Table
        The column of the texts has strings or bytes of any type, whose dictionaries are bounded (see `bounded_parts`).
    path : str
        The input, for messages.
    first_row : int
        Number of the first row, from 0.
    options : InputOptions
        Which columns are read, whether a null is skipped or an error, and which texts are too large.

    Returns
    -------
    data : uint8 [n]
        The texts, adjacent: a view of the memory of the column.
    ends : int64 [documents]
    skipped : Skipped
        The nulls, and the texts that are too large.
    kept : pyarrow.RecordBatch, optional
        The columns to keep, with a row for each document; None if there are none.
    """
    column = column_of(table, options.text_column)
    storage = getattr(column.type, "storage_type", column.type)
    array = joined_array(column if storage == column.type else column.cast(storage))  # with nulls for those of a dictionary
    rows = np.arange(len(array))
    skipped = NOTHING_SKIPPED
    if array.null_count:
        is_null = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
        reasons: Iterable[str] = repeat("its text is null")
        skipped = _skipped(path, rows[is_null] + first_row, reasons, refuse if options.strict else None)
        rows = rows[~is_null]
        array = array.drop_null()
    data, ends = _as_arrays(array)
    lengths = np.diff(ends, prepend=0)
    fits = lengths <= options.max_record
    if not fits.all():
        reasons = (large_reason(size, options.max_record) for size in lengths[~fits].tolist())
        skipped += _skipped(path, rows[~fits] + first_row, reasons, None if options.skip_large_records else too_large)
        data = data[np.repeat(fits, lengths)]
        ends = np.cumsum(lengths[fits])
        rows = rows[fits]
    kept = keep_rows(table, options.keep_columns) if options.keep_columns else None
    if kept is not None and rows.size < kept.num_rows:
        kept = kept.take(rows)
    return data, ends, skipped, kept


def _skipped(path: str, rows: Array, reasons: Iterable[str], error: Callable[[SkippedRecord], CorpusError] | None) -> Skipped:
    """Return the records in some rows, counted from 0, or raise an error about the first of them."""
    shown = tuple(
        SkippedRecord(path, f"row {row + 1}", reason) for row, reason in zip(rows[:MOST_SHOWN].tolist(), reasons, strict=False)
    )
    if error is not None:
        raise error(shown[0])
    return Skipped(int(rows.size), shown)


def _as_arrays(array: Any) -> tuple[Array, Array]:
    if not len(array):
        return np.empty(0, np.uint8), np.empty(0, np.int64)
    large = array.cast(import_extra("pyarrow", "a column of strings").large_binary())
    _, offset_buffer, data = large.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[large.offset :][: len(large) + 1]
    start = int(offsets[0])
    stop = int(offsets[-1])
    return np.frombuffer(data or b"", np.uint8)[start:stop], offsets[1:] - start


def bounded_parts(rows: Any, columns: Sequence[Any]) -> Iterator[Any]:
    """Yield slices of rows in which the values of dictionaries have at most `MOST_DECODED` bytes, or which are single rows.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
    columns : sequence of pyarrow.Array
        The columns of the rows that will be decoded.
    """
    sizes = [size for column in columns if (size := _decoded_sizes(column)) is not None]
    if not sizes:
        yield rows
        return
    ends = np.cumsum(sum(sizes))
    start = 0
    while start < ends.size:
        limit = (int(ends[start - 1]) if start else 0) + MOST_DECODED
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        yield rows if stop - start >= ends.size else rows.slice(start, stop - start)
        start = stop


def _decoded_sizes(column: Any) -> Array | None:
    """Return the bytes of the value of each row; None for columns without a dictionary of texts."""
    column = getattr(column, "storage", column)
    if not hasattr(column, "dictionary") or not is_text(column.type):
        return None
    compute = import_extra("pyarrow.compute", "a column of strings")
    lengths = compute.binary_length(column.dictionary)
    sizes = compute.fill_null(lengths.take(column.indices), 0)
    return np.asarray(sizes.to_numpy(zero_copy_only=False)).astype(np.int64)


def longest_values(array: Any) -> int:
    """Return the bytes of the longest value in the dictionaries of an array, also of those within lists and structs."""
    if hasattr(array, "dictionary"):
        compute = import_extra("pyarrow.compute", "a column of strings")
        return int(compute.max(compute.binary_length(array.dictionary)).as_py() or 0)
    if not (hasattr(array, "flatten") and array.type.num_fields):
        return 0
    children = array.flatten()
    if not isinstance(children, list):
        children = [children]
    return max(map(longest_values, children))


def batch_chunks(
    batches: Iterator[Any], path: str, options: InputOptions, chunk_bytes: int, *, n_bytes: int, n_rows: int, first_row: int = 0
) -> Iterator[DocumentsChunk]:
    """Yield the documents of record batches, as chunks in memory.

    Parameters
    ----------
    batches : iterator of pyarrow.RecordBatch
    path : str
    options : InputOptions
    chunk_bytes : int
    n_bytes : int
        The bytes of the input that all batches together stand for.
    n_rows : int
        The number of rows of all batches.
    first_row : int
        Number of the first row, from 0.
    """
    read = done = 0
    wanted = read_columns(options)
    parts = (part for batch in batches for part in bounded_parts(batch, [column_of(batch, name) for name in wanted]))
    for batch in filter(len, parts):
        data, ends, skipped, kept = read_rows(batch, path, first_row + done, options)
        first = 0
        for text, stops in divide_documents(data, ends, chunk_bytes) if ends.size else [(data, ends)]:
            columns = None if kept is None else pack_rows(kept.slice(first, stops.size))
            first += stops.size
            # Rows without documents belong to the last chunk.
            now = share(n_bytes, done + (first if first < ends.size else batch.num_rows), n_rows)
            yield DocumentsChunk(text, stops, options.allow_special, now - read, skipped, columns)
            read, skipped = now, NOTHING_SKIPPED
        done += batch.num_rows
    if n_bytes > read:
        yield DocumentsChunk(b"", np.empty(0, np.int64), n_read=n_bytes - read)


def plan_columns(sources: Sequence[Source]) -> bytes | None:
    """Return the schema of the columns to keep, of all sources together; None if it is not known before they are read.

    Raises
    ------
    CorpusError
        If a source has no such column, the types of a column have no type in common, or none of the first records of JSON lines
        has a field.
    """
    schemas: dict[bool, list[Any]] = {False: [], True: []}
    files: list[tuple[Source, Iterator[dict[str, Any]]]] = []
    for source in sources:
        if source.texts is not None:
            raise no_columns(source.path)
        if source.size is not None:  # no pipe
            form = load_format(source.input_format)
            schemas[form.is_empty(source)].append(form.column_schema(source))
            files.append((source, form.first_records(source)))
    _check_fields(files)
    # An input without records has no values, so its types matter only if all inputs are like that.
    found = reduce(merge_schemas, schemas[False] or schemas[True], None)
    return None if found is None else found.serialize().to_pybytes()


def _check_fields(files: Sequence[tuple[Source, Iterator[dict[str, Any]]]]) -> None:
    """Raise CorpusError if no record at the start of the first files, which are given, has one of the fields."""
    missing = list(files[0][0].options.keep_columns) if files else []
    fields: dict[str, None] = {}
    searched: dict[str, None] = {}
    for source, records in files:
        for record in records:
            missing = [name for name in missing if find_name(record, name) is None]
            if not missing:
                return
            if len(fields) < _FILES:
                fields |= dict.fromkeys(record)
            searched[source.path] = None
        if len(searched) == _FILES:
            break
    if fields:
        shown = ", ".join(f"`{shorten(name)[1:-1]}`" for name in list(fields)[:_FILES])
        raise CorpusError(
            f"none of the first records of `{next(iter(searched))}` has the field `{missing[0]}`; expected one to keep: "
            f"correct `keep_columns=`, or leave it out (the fields are {shown})"
        )
