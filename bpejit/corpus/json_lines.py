"""JSON lines: a JSON object in each line, one field of which is the text of a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from bpejit.arrays import Array
from bpejit.corpus.base import InputFormat, join_documents
from bpejit.corpus.blocks import MOST_SHOWN, Skipped, SkippedRecord, large_reason, refuse, too_large
from bpejit.corpus.chunk_reader import AnyChunk
from bpejit.corpus.field_names import find_name, look_up
from bpejit.corpus.input_options import InputOptions
from bpejit.corpus.json_heads import BYTE_ORDER_MARK, SUFFIXES, is_json_lines
from bpejit.corpus.json_parsing import find_parser, load_record
from bpejit.corpus.kept_columns import JsonFields, KeptColumns, json_schema
from bpejit.corpus.lines import file_lines, stream_lines
from bpejit.errors import shorten
from bpejit.utf8 import encode_utf8

if TYPE_CHECKING:
    from bpejit.corpus.input_streams import InputStream
    from bpejit.corpus.sources import Source


class JsonLines(InputFormat):
    """JSON lines."""

    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    starts: ClassVar[bytes | None] = b"{"

    def recognizes(self, name: str, head: bytes) -> bool:
        """Return True for records in an input whose name may be that of JSON (see `bpejit.corpus.json_heads`)."""
        return is_json_lines(name, head)

    def chunks(self, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield ranges of a file."""
        return file_lines(source, chunk_bytes, parse_json_lines, source.options.allow_special)

    def stream_chunks(self, stream: InputStream, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield lines in memory."""
        return stream_lines(stream, chunk_bytes, parse_json_lines, source.options, source.options.allow_special)

    def column_schema(self, source: Source) -> Any:
        """Return the schema of the fields to keep. Records may lack them, and have null then."""
        return json_schema(source.options.keep_columns)

    def ranges(self, source: Source, unit_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Divide a file into ranges of lines."""
        return line_ranges(source, unit_bytes)


def line_ranges(source: Source, unit_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Divide a file at the ends of lines (see `InputFormat.ranges`)."""
    size = source.size or 0
    start = source.start
    with source.open() as file:
        while start < size:
            stop = find_line(file, min(start + unit_bytes, size), size)
            yield start, stop, stop - start
            start = stop


def find_line(file: BinaryIO, position: int, size: int) -> int:
    """Return the first position from `position` on where a line of a file starts, or its size."""
    file.seek(position - 1)
    while position < size and (data := file.read(1 << 14)):
        end = data.find(b"\n")
        if end >= 0:
            return position + end
        position += len(data)
    return size


def parse_json_lines(
    data: bytes, options: InputOptions, path: str, line_number: Callable[[int], int]
) -> tuple[bytes, Array, Skipped, KeptColumns | None]:
    """Return the texts of records as documents (see `bpejit.corpus.lines.Parse`)."""
    loads = find_parser()
    name = options.text_field
    has_dot = "." in name
    texts: list[bytes] = []
    kept = JsonFields(options.keep_columns) if options.keep_columns else None
    n_skipped = 0
    shown: list[SkippedRecord] = []
    position = 0
    limit = options.max_record
    while position <= len(data):
        # One line at a time: a list of all lines would be a second copy of them.
        end = data.find(b"\n", position)
        line = data[position : end if end >= 0 else len(data)]
        if len(line) > limit:
            reason = large_reason(len(line), limit, "at least ")
            record = SkippedRecord(path, f"line {line_number(position)}", reason)
            if not options.skip_large_records:
                raise too_large(record)
            n_skipped += 1
            shown = [*shown, record][:MOST_SHOWN]
            position += len(line) + 1
            continue
        try:
            record = loads(line)
            value = look_up(record, name) if has_dot else record[name]
            texts.append(value.encode())
        except Exception:  # anything may be wrong with a record
            found = describe_record(line, name)
            if isinstance(found, bytes):
                texts.append(found)
                if kept is not None:
                    kept.add(load_record(_clean(line)))
            elif found:
                n_skipped += 1
                if options.strict or len(shown) < MOST_SHOWN:
                    shown.append(SkippedRecord(path, f"line {line_number(position)}", found))
                if options.strict:
                    raise refuse(shown[-1]) from None
        else:
            if kept is not None:
                kept.add(record)
        position += len(line) + 1
    return *join_documents(texts), Skipped(n_skipped, tuple(shown)), None if kept is None else kept.packed()


def parse_objects(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects of lines; other lines are left out."""
    for line in data.split(b"\n"):
        record = load_record(_clean(line))
        if record is not None:
            yield record


def _clean(line: bytes) -> bytes:
    return line.removeprefix(BYTE_ORDER_MARK).strip()


def describe_record(line: bytes, field: str) -> bytes | str:
    """Return the text of a record that the fast path does not read, or why it has none; an empty string for an empty line."""
    line = _clean(line)
    if not line:
        return ""
    record = load_record(line)
    if record is None:
        return "it is not a JSON object"
    value: Any = record
    path = ""
    for name in find_name(record, field) or field.split("."):
        if not isinstance(value, dict):
            return f"its field `{path}` is {_kind(value)}, not an object"
        if name not in value:
            inside = f"its field `{path}` has" if path else "it has"
            fields = ", ".join(f"`{shorten(key)[1:-1]}`" for key in list(value)[:6])
            return f"{inside} no field `{name}`; the fields are {fields or 'none'}"
        value = value[name]
        path = f"{path}.{name}" if path else name
    return encode_utf8(value) if isinstance(value, str) else f"its field `{path}` is {_kind(value)}, not a string"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    kinds = {int: "a number", float: "a number", str: "a string", list: "an array"}
    return kinds.get(type(value), "an object")
