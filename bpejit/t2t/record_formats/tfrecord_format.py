"""TFRecord files: the framed records, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from bpejit.arrays import Array
from bpejit.t2t.record_formats.base import ByteOutput, RecordFormat, RecordWriter


class TfrecordWriter(RecordWriter):
    """Copies records."""

    def __init__(self, file: ByteOutput, names: Sequence[str]) -> None:  # noqa: ARG002 - records have their own
        self._file = file

    def write(self, data: Array, starts: Array) -> None:
        """Append records."""
        self._file.write(data[int(starts[0]) : int(starts[-1])].data)


class TfrecordFormat(RecordFormat):
    """The format of TFRecord files, which have no suffix, as those of Tensor2Tensor."""

    writer = TfrecordWriter
