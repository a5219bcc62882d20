"""One corpus in each form of input."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import zstandard

SEPARATOR = "<|endoftext|>"


def json_lines(documents: Sequence[str], field: str = "text") -> bytes:
    return b"".join(json.dumps({"id": n, field: text}).encode() + b"\n" for n, text in enumerate(documents))


def table(documents: Sequence[str | None], kind: Any = None) -> pa.Table:
    column = pa.array(documents, pa.string()).cast(kind or pa.string())
    return pa.table({"id": list(range(len(documents))), "text": column})


def write_parquet(path: Path, documents: Sequence[str], kind: Any = None, **options: Any) -> None:
    pyarrow.parquet.write_table(table(documents, kind), path, **options)


def write_arrow(
    path: Path, documents: Sequence[str], kind: Any = None, *, stream: bool = False, codec: str | None = None
) -> None:
    data = table(documents, kind)
    new = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
    with new(path, data.schema, options=pyarrow.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(data, max_chunksize=3)


def write_files(folder: Path, documents: Sequence[str]) -> None:
    folder.mkdir()
    for number, text in enumerate(documents):
        inner = folder / f"{number // 10:04d}"
        inner.mkdir(exist_ok=True)
        (inner / f"{number:04d}.txt").write_bytes(text.encode())
    (folder / ".hidden").write_bytes(b"not read")


def _compressed(
    path: Path, documents: Sequence[str], write: Callable[..., None], compress: Callable[[bytes], bytes], **options: Any
) -> None:
    write(path, documents, **options)
    path.write_bytes(compress(path.read_bytes()))


def _joined(documents: Sequence[str]) -> bytes:
    return SEPARATOR.join(documents).encode()


def _lines(documents: Sequence[str]) -> bytes:
    return "\n".join(documents).encode()


FORMS: dict[str, tuple[Callable[[Path, Sequence[str]], object], dict[str, Any]]] = {
    "text.txt": (lambda path, documents: path.write_bytes(_joined(documents)), {}),
    "text.txt.gz": (lambda path, documents: path.write_bytes(gzip.compress(_joined(documents))), {}),
    "text.txt.zst": (lambda path, documents: path.write_bytes(zstandard.compress(_joined(documents))), {}),
    "members.gz": (
        lambda path, documents: path.write_bytes(
            b"".join(gzip.compress(part) for part in (_joined(documents)[:100], _joined(documents)[100:], b""))
        ),
        {},
    ),
    "frames": (
        lambda path, documents: path.write_bytes(
            b"".join(zstandard.compress(part) for part in (_joined(documents)[:100], _joined(documents)[100:]))
        ),
        {},
    ),
    "folder": (write_files, {}),
    "folder of files": (write_files, {"documents": "file"}),
    "lines.txt": (lambda path, documents: path.write_bytes(_lines(documents)), {"documents": "line"}),
    "lines.txt.gz": (lambda path, documents: path.write_bytes(gzip.compress(_lines(documents))), {"documents": "line"}),
    "a.jsonl": (lambda path, documents: path.write_bytes(json_lines(documents)), {}),
    "a.jsonl.gz": (lambda path, documents: path.write_bytes(gzip.compress(json_lines(documents))), {}),
    "a.ndjson.zst": (lambda path, documents: path.write_bytes(zstandard.compress(json_lines(documents))), {}),
    "a.json": (lambda path, documents: path.write_bytes(json_lines(documents)), {}),
    "nested.jsonl": (
        lambda path, documents: path.write_bytes(
            b"\n\n".join(json.dumps({"a": {"b": text}}, ensure_ascii=False).encode() for text in documents)
        ),
        {"text_field": "a.b"},
    ),
    "small groups.parquet": (lambda path, documents: write_parquet(path, documents, row_group_size=2, compression="zstd"), {}),
    "one group.parquet": (lambda path, documents: write_parquet(path, documents), {}),
    "large_string.parquet": (lambda path, documents: write_parquet(path, documents, pa.large_string(), row_group_size=7), {}),
    "binary.parquet": (lambda path, documents: write_parquet(path, documents, pa.binary()), {}),
    "dictionary.parquet": (lambda path, documents: write_parquet(path, documents, pa.dictionary(pa.int32(), pa.string())), {}),
    "parquet": (lambda path, documents: write_parquet(path, documents), {"text_column": "text"}),
    "file.arrow": (write_arrow, {}),
    "stream.arrow.zst": (
        lambda path, documents: _compressed(path, documents, write_arrow, zstandard.compress, stream=True),
        {},
    ),
    "lz4.arrow": (lambda path, documents: write_arrow(path, documents, codec="lz4"), {}),
    "view.arrow": (lambda path, documents: write_arrow(path, documents, pa.string_view()), {}),
    "binary_view.arrow": (lambda path, documents: write_arrow(path, documents, pa.binary_view()), {}),
    "stream": (lambda path, documents: write_arrow(path, documents, stream=True), {}),
    "stream.arrow.gz": (
        lambda path, documents: (
            write_arrow(path.with_suffix(".tmp"), documents, stream=True),
            path.write_bytes(gzip.compress(path.with_suffix(".tmp").read_bytes())),
            path.with_suffix(".tmp").unlink(),
        ),
        {},
    ),
    "a.feather": (lambda path, documents: pyarrow.feather.write_feather(table(documents), path, compression="zstd"), {}),
}


def write_form(folder: Path, name: str, documents: Sequence[str]) -> tuple[Path, dict[str, Any]]:
    """Write a corpus in a form; return its path, and the options to read it."""
    write, options = FORMS[name]
    path = folder / name
    write(path, documents)
    return path, options
