"""The interface of formats of files of examples, and those that are registered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from bpejit.arrays import Array
from bpejit.errors import OptionError
from bpejit.options import Registry


class ByteOutput(Protocol):
    """An open file, such as `bpejit.storage.files.OutputFile`."""

    def write(self, data: bytes | memoryview, /) -> Any:
        """Append all bytes."""


class RecordWriter(ABC):
    """Writes examples to an open file."""

    @abstractmethod
    def write(self, data: Array, starts: Array) -> None:
        """Append examples.

        Parameters
        ----------
        data : uint8 [bytes]
            Framed records of lists of integers, which have been checked.
        starts : int64 [n + 1]
            Where each starts and the last one ends.

        Raises
        ------
        OutputError
            If writing fails.
        """

    def finish(self) -> None:  # noqa: B027 - most formats end with the last example
        """Write what follows the examples. The file stays open."""

    def abandon(self) -> None:  # noqa: B027
        """Release resources without writing to the file, after an error."""


class RecordFormat:
    """A format of files of examples.

    Attributes
    ----------
    suffix : str
        What the names of its files end with; empty if they have no suffix.
    writer : type
        `writer(file, names)` returns a writer for an open file; `names` are the features of all examples. It raises OutputError
        if a package is not installed.
    """

    suffix: ClassVar[str] = ""
    writer: Callable[[ByteOutput, Sequence[str]], RecordWriter]


DEFAULT_RECORD_FORMAT = "tfrecord"

_formats: Registry[RecordFormat] = Registry(
    "record format",
    {
        "tfrecord": ("bpejit.t2t.record_formats.formats:TfrecordFormat", "TFRecord of tf.train.Example"),
        "jsonl": ("bpejit.t2t.record_formats.formats:JsonlFormat", "JSON lines, an object per example"),
        "parquet": ("bpejit.t2t.record_formats.formats:ParquetRecordFormat", "a row per example, a list per feature"),
    },
    error=OptionError,
)


register, unregister = _formats.register, _formats.unregister
"""Add and remove a format (see `Registry`): a class or function without parameters that returns a `RecordFormat`."""

record_format_names, record_format_descriptions = _formats.names, _formats.descriptions
load_record_format = _formats.load
