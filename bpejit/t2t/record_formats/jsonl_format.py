"""JSON lines: an object for each example, with a list for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from bpejit.arrays import Array
from bpejit.errors import OutputError
from bpejit.extras import import_extra
from bpejit.t2t.example_arrays import read_examples
from bpejit.t2t.record_formats.base import ByteOutput, RecordFormat, RecordWriter


class JsonlWriter(RecordWriter):
    """Writes lines by orjson."""

    def __init__(self, file: ByteOutput, names: Sequence[str]) -> None:
        orjson = import_extra("orjson", "the record format jsonl", error=OutputError)
        self._file = file
        self._names = names
        self._dumps = orjson.dumps
        self._option = orjson.OPT_APPEND_NEWLINE

    def write(self, data: Array, starts: Array) -> None:
        """Append lines."""
        columns = []
        for ids, own in read_examples(data, starts, names=self._names).values():
            listed = ids.tolist()
            columns.append([listed[start:end] for start, end in pairwise(own.tolist())])
        names = sorted(self._names, key=str.encode)
        dumps, option = self._dumps, self._option
        lines = [dumps(dict(zip(names, lists, strict=True)), option=option) for lists in zip(*columns, strict=True)]
        self._file.write(b"".join(lines))


class JsonlFormat(RecordFormat):
    """The format of JSON lines."""

    suffix = ".jsonl"
    writer = JsonlWriter
