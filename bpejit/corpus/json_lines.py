"""JSON lines: a JSON object in each line, one field of which is the text of a document.

JSON is parsed by orjson where it is installed, otherwise by Python's own module; the records and their values are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from bpejit.arrays import Array
from bpejit.corpus.base import LineFormat, join_documents
from bpejit.corpus.blocks import MOST_SHOWN, Skipped, SkippedRecord, large_reason, refuse, too_large
from bpejit.corpus.contents import BYTE_ORDER_MARK
from bpejit.corpus.input_streams import HEAD_BYTES
from bpejit.corpus.kept_columns import JsonFields, find_name, json_schema, look_up
from bpejit.corpus.reading_options import InputOptions
from bpejit.errors import CorpusError, shorten
from bpejit.utf8 import encode_utf8

if TYPE_CHECKING:
    from bpejit.corpus.sources import Source

_JSON_NAME = re.compile(r"\.(?:json|jsonl|ndjson|jsonlines|ldjson|jl)(?![a-z0-9])")
"""A part of a name, such as that of data.jsonl.tmp or data.json-00001."""

_CUT = 4000
"""Size from which a head without a newline may end within the first key."""

_FIRST_RECORDS_BYTES = 1 << 18
"""Bytes of a file in which its first records are searched."""

_STRING = rb'"(?:[^"\\]|\\.)*'
_OBJECT = re.compile(rb"\{\s*%b\"\s*:" % _STRING, re.DOTALL)
_LIST = re.compile(rb"\[\s*\{\s*(?:%b\"\s*:|\})" % _STRING, re.DOTALL)
_FIRST_VALUE = re.compile(rb"\{\s*%b\"\s*:\s*[\"\[{0-9tfnNI-]" % _STRING, re.DOTALL)
_CUT_OBJECT = re.compile(rb"\{\s*%b(?:\"\s*:?\s*)?\Z" % _STRING, re.DOTALL)


class JsonLines(LineFormat):
    """JSON lines. A name that ends in `.jl` does not tell, since such files may be Julia."""

    suffixes = (".jsonl", ".ndjson", ".jsonlines", ".ldjson")
    likely_suffixes = (".json", ".jl")
    starts = (b"[", b"{")
    resemblance = (
        "with braces and names, but the first bytes look like JSON; for records, write each on a line of its own, for example "
        'with `jq -c .`, in a file that ends in `.jsonl`, or pass `input_format="jsonl"`'
    )

    def recognizes(self, name: str, head: bytes) -> bool:
        """Return True for records in an input whose name may be that of JSON.

        The first line is an object, or most of the others are, since the first one may be damaged or a comment.
        """
        body = strip_head(head)
        likely = body.startswith(b"{") or name == "-" or name.endswith(self.likely_suffixes)
        if not likely or not may_have_records(name):
            return False
        line, found, rest = body.partition(b"\n")
        if not found:
            return _FIRST_VALUE.match(body) is not None or (len(body) > _CUT and _CUT_OBJECT.match(body) is not None)
        if load_record(line) is not None:
            return True
        if body.startswith(b"["):
            return False
        others = [other for other in rest.split(b"\n") if other.strip()]
        if len(head) >= HEAD_BYTES:
            others = others[:-1]  # the last one is incomplete
        n_records = sum(other.lstrip().startswith(b"{") and bool(load_record(other)) for other in others)
        return 2 * n_records > len(others)

    def refuses(self, name: str, head: bytes, *, chosen: bool) -> tuple[str, str] | None:
        """Refuse a list of records."""
        if not (chosen or may_have_records(name)) or not is_list_of_records(head):
            return None
        return "one JSON list of records", "write each record on a line of its own, for example with `jq -c '.[]'`"

    def resembles(self, name: str, head: bytes) -> bool:
        """Return True for text that begins like an object or a list of objects; for names in `.json`, like any of these."""
        body = strip_head(head)
        if name.endswith(".json") and body[:1] in (b"{", b"["):
            return True
        return (_OBJECT.match(body) or _LIST.match(body)) is not None

    def column_schema(self, source: Source) -> Any:
        """Return the schema of the fields to keep. Records may lack them, and have null then."""
        return json_schema(source.options.keep_columns)

    def first_records(self, source: Source) -> Iterator[dict[str, Any]]:
        """Yield the objects of the first lines; other lines are left out."""
        with source.open_stream() if source.is_stream else source.open() as file:
            data: bytes = getattr(file, "read_fully", file.read)(_FIRST_RECORDS_BYTES)
        for line in data[: data.rfind(b"\n") + 1 if len(data) == _FIRST_RECORDS_BYTES else None].split(b"\n"):
            record = load_record(_clean(line))
            if record is not None:
                yield record

    def parse(
        self, data: bytes, options: InputOptions, path: str, line_number: Callable[[int], int]
    ) -> tuple[bytes, Array, Skipped, bytes | None]:
        """Return the texts of records."""
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
            record = None
            error: Callable[[SkippedRecord], CorpusError] | None = None
            found: bytes | str
            if len(line) > limit:
                found = large_reason(len(line), limit, "at least ")
                error = None if options.skip_large_records else too_large
            else:
                try:
                    record = loads(line)
                    value = look_up(record, name) if has_dot else record[name]
                    found = value.encode()
                except Exception:  # anything may be wrong with a record
                    found = describe_record(line, name)
                    record = None
                    error = refuse if options.strict else None
            if isinstance(found, bytes):
                texts.append(found)
                if kept is not None:
                    kept.add(load_record(_clean(line)) if record is None else record)
            elif found:
                n_skipped += 1
                if error is not None or len(shown) < MOST_SHOWN:
                    shown.append(SkippedRecord(path, f"line {line_number(position)}", found))
                if error is not None:
                    raise error(shown[-1])
            position += len(line) + 1
        return *join_documents(texts), Skipped(n_skipped, tuple(shown)), None if kept is None else kept.packed()


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


def strip_head(head: bytes) -> bytes:
    """Return the first bytes of an input without a byte-order mark and white space."""
    return head.removeprefix(BYTE_ORDER_MARK).lstrip()


def may_have_records(name: str) -> bool:
    """Return True for the name of an input that may be JSON: standard input, a name without a suffix, or with one of JSON.

    Parameters
    ----------
    name : str
        In lower case, without the end that says that it is compressed.
    """
    base = re.split(r"[/\\]", name)[-1]
    return name == "-" or "." not in base or _JSON_NAME.search(base) is not None


def is_list_of_records(head: bytes) -> bool:
    """Return True if an input is one JSON list of objects; lines that are lists themselves are not."""
    body = strip_head(head)
    if _LIST.match(body) is None:
        return False
    line, _, rest = body.partition(b"\n")
    if not rest.strip():
        return True
    try:
        load_value(line)
    except ValueError:
        return True
    return False


def find_parser() -> Callable[[bytes], Any]:
    """Return the function that parses most lines: that of orjson, or `load_value`, which takes some three times as long."""
    try:
        from orjson import loads
    except ImportError:
        return load_value
    return loads


def load_record(line: bytes) -> Any:
    """Return the object that a line consists of; None if it is not valid JSON, or not an object.

    This accepts all that orjson accepts, and what it refuses: halves of surrogate pairs, NaN, and numbers out of range.
    """
    try:
        record = load_value(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def load_value(line: bytes) -> Any:
    """Return the value that a line consists of, by Python's own module.

    Raises
    ------
    ValueError
        If it is not valid JSON, or has too many levels.
    """
    encoding, decode = _decoder()
    try:
        return decode(line.decode(encoding(line), "surrogatepass"))
    except RecursionError as cause:
        raise ValueError("it has too many levels") from cause


@cache
def _decoder() -> tuple[Callable[[bytes], str], Callable[[str], Any]]:
    import json

    return json.detect_encoding, json.JSONDecoder(parse_int=_whole_number).decode


def _whole_number(digits: str) -> int | float:
    """Return a number as orjson does: as a float if it has more than 64 bits. Python refuses numbers with 4,301 digits."""
    if len(digits) > 20:
        return float(digits)
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 64 else float(digits)
