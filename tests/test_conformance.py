"""Every format passes the checks that other packages run on theirs, and these notice what is wrong with a format."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.input_forms import FORMS, write_form

from bpejit.corpus import registry
from bpejit.corpus.base import LineFormat, join_documents
from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped
from bpejit.corpus.json_lines import JsonLines
from bpejit.corpus.reading_options import InputOptions
from bpejit.corpus.sources import Source
from bpejit.t2t.example_arrays import read_examples
from bpejit.t2t.record_formats.registry import RecordFormat, RecordWriter, record_format_names
from bpejit.testing import ConformanceError, check_input_format, check_record_format, check_token_format
from bpejit.tokenfiles import format_names
from bpejit.tokenfiles.array_files import BinFormat, NpyFormat
from bpejit.tokenfiles.mapping import MappedTokens

TEXTS = [*(f"text {number} é" * (number % 5) for number in range(60)), "x", "", "the last one"]

# Those of plain text without lines have no records, and a folder is not a file.
INPUTS = {
    "lines.txt": "text",
    "a.jsonl": "jsonl",
    "small groups.parquet": "parquet",
    "dictionary.parquet": "parquet",
    "file.arrow": "arrow",
    "stream": "arrow",
    "a.feather": "arrow",
}


@pytest.mark.parametrize("name", format_names())
def test_token_formats(name: str) -> None:
    check_token_format(name)


@pytest.mark.parametrize("name", INPUTS)
def test_input_formats(tmp_path: Path, name: str) -> None:
    path, options = write_form(tmp_path, name, TEXTS)
    check_input_format(INPUTS[name], path.read_bytes(), TEXTS, name=path.name, **options)
    assert set(INPUTS) <= set(FORMS)
    assert set(INPUTS.values()) == set(registry.input_format_names())


def read_by_pyarrow(data: bytes) -> list[dict[str, list[int]]]:
    found: list[dict[str, list[int]]] = pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO(data)).to_pylist()
    return found


def read_by_json(data: bytes) -> list[dict[str, list[int]]]:
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("name", record_format_names())
def test_record_formats(name: str) -> None:
    pytest.importorskip({"jsonl": "orjson", "parquet": "pyarrow"}.get(name, "numpy"))
    check_record_format(name, {"jsonl": read_by_json, "parquet": read_by_pyarrow}.get(name))


class WithoutBorders(NpyFormat):
    """Does not find the borders of documents."""

    name = "without-borders"

    def find_borders(self, *_: Any) -> None:
        return


class Replacing(BinFormat):
    """Replaces existing files."""

    name = "replacing"

    def writer(self, path: Any, **options: Any) -> Any:
        return super().writer(path, **{**options, "overwrite": True})


class Trusting(NpyFormat):
    """Does not read files again to verify them."""

    name = "trusting"

    def read(self, *arguments: Any) -> Any:
        class Tokens(MappedTokens):
            def verify(self, *, progress: Any = None) -> None:
                pass

        found = super().read(*arguments)
        return Tokens(found.path, found.ids, found.description, found.borders)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (WithoutBorders, "`n_documents`: it is None; expected 0"),
        (Replacing, "writing to an existing file: there is no error; expected OutputError"),
        (Trusting, "verifying a file with other ids: there is no error; expected TokenFileError"),
    ],
)
def test_wrong_token_formats(form: type[Any], message: str) -> None:
    with pytest.raises(ConformanceError, match=message):
        check_token_format(form)
    assert form.name not in format_names()


class Answers(LineFormat):
    """The text after a tab of each line; the format is registered while it is checked."""

    suffixes: ClassVar[tuple[str, ...]] = (".answers",)

    def parse(
        self, data: bytes, options: InputOptions, path: str, line_number: Callable[[int], int]
    ) -> tuple[bytes, Any, Skipped, None]:
        return *join_documents([line.partition(b"\t")[2] for line in data.splitlines()]), NOTHING_SKIPPED, None


class Dividing(Answers):
    """Leaves out what follows the first range."""

    def ranges(self, source: Source, unit_bytes: int) -> Iterator[tuple[int, int, int]]:
        yield next(super().ranges(source, unit_bytes))


class Stripping(JsonLines):
    """Strips white space of the texts in memory, but not of those in files."""

    suffixes = (".stripped",)

    def stream_chunks(self, stream: Any, source: Any, chunk_bytes: int) -> Any:
        for chunk in super().stream_chunks(stream, source, chunk_bytes):
            yield chunk._replace(data=chunk.data.replace(b" ", b""))


def test_input_format_of_another_package() -> None:
    content = "".join(f"question\t{text}\n" for text in TEXTS).encode()
    check_input_format(Answers, content, TEXTS, name="a.answers")
    with pytest.raises(ConformanceError, match=r"texts in chunks of 1 bytes: it is .*; expected"):
        check_input_format(Answers, content, TEXTS[:-1], name="a.answers")
    with pytest.raises(ConformanceError, match="the format that recognizes a file: it is 'text'; expected 'checked'"):
        check_input_format(Answers, content, TEXTS, name="a.txt")
    with pytest.raises(ConformanceError, match="texts in ranges of 1 bytes"):
        check_input_format(Dividing, content, TEXTS, name="a.answers")
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()
    with pytest.raises(ConformanceError, match="texts of a stream in chunks of 1 bytes"):
        check_input_format(Stripping, lines, TEXTS, name="a.stripped")
    assert "checked" not in registry.input_format_names()


class Counting(RecordFormat):
    """Writes the number of examples of each block."""

    def writer(self, file: Any, names: Any) -> RecordWriter:
        class Writer(RecordWriter):
            def write(self, data: np.ndarray, starts: np.ndarray) -> None:
                file.write(b"%d\n" % len(next(iter(read_examples(data, starts, names=names).values()))[1][1:]))

        return Writer()


def test_wrong_record_format() -> None:
    with pytest.raises(ConformanceError, match="different files of 101 examples in other blocks: it is 3; expected 1"):
        check_record_format(Counting)
    with pytest.raises(ConformanceError, match="1 examples that are read back"):
        check_record_format("tfrecord", lambda data: [])
