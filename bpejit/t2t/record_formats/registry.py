"""The registered formats of files of examples."""

from __future__ import annotations

from bpejit.errors import OptionError
from bpejit.registry import Registry
from bpejit.t2t.record_formats.base import RecordFormat

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
