"""The registered formats of files of examples."""

from __future__ import annotations

from collections.abc import Callable

from bpejit.errors import OptionError
from bpejit.registry import Registry
from bpejit.t2t.record_formats.base import RecordFormat

DEFAULT_RECORD_FORMAT = "tfrecord"

_formats: Registry[RecordFormat] = Registry(
    "record format",
    {
        "tfrecord": ("bpejit.t2t.record_formats.tfrecord_format:TfrecordFormat", "TFRecord of tf.train.Example"),
        "jsonl": ("bpejit.t2t.record_formats.jsonl_format:JsonlFormat", "JSON lines, an object per example"),
        "parquet": ("bpejit.t2t.record_formats.parquet_format:ParquetRecordFormat", "a row per example, a list per feature"),
    },
    error=OptionError,
)


def register(name: str, format: Callable[[], RecordFormat] | str, *, description: str = "") -> None:  # noqa: A002
    """Add a format of files of examples.

    Parameters
    ----------
    name : str
    format : callable or str
        Class or function without parameters that returns a `RecordFormat`, or its location as `"package.module:name"`.
    description : str
        Text for help pages.

    Raises
    ------
    ArgumentTypeError
        If `format` has the wrong type.
    OptionError
        If the name is taken, or is not a valid name.
    """
    _formats.register(name, format, description=description)


def unregister(name: str) -> None:
    """Remove a format.

    Raises
    ------
    OptionError
        If there is no format with this name.
    """
    _formats.unregister(name)


def record_format_names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return _formats.names()


def record_format_descriptions() -> dict[str, str]:
    """Return the description of each format by name."""
    return _formats.descriptions()


def load_record_format(name: str) -> RecordFormat:
    """Return a format by name.

    Raises
    ------
    OptionError
        If there is no format with this name.
    """
    return _formats.load(name)
