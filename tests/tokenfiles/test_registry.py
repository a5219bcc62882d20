"""Test of the recipe for a new token file format in CONTRIBUTING.md: a class and one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cli import invoke

import bpejit
from bpejit import Tokenizer, tokenfiles
from bpejit.errors import ArgumentTypeError, OutputError, TokenFileError
from bpejit.options import AUTO
from bpejit.storage.files import replacing
from bpejit.storage.outputs import check_outputs
from bpejit.tokenfiles import format_descriptions, format_names, load_format, register, unregister
from bpejit.tokenfiles.array_files import BinFormat
from bpejit.tokenfiles.base import TokenFileFormat, choose_dtype
from bpejit.tokenfiles.description import DTYPES
from bpejit.tokenfiles.opening import format_of, recognized_format
from bpejit.tokenfiles.readers import BLOCK_TOKENS

TEXT = "low lower lowest <|endoftext|> é\n" * 20


class JsonLinesWriter:
    """A writer of one JSON array of ids per block."""

    def __init__(self, path: Any, dtype: np.dtype[Any], overwrite: bool) -> None:
        self.path, self.dtype, self.n_tokens = Path(path), dtype, 0
        self._stack, self._overwrite = ExitStack(), overwrite

    def write(self, ids: np.ndarray, *, n_bytes: int = 0, ends: np.ndarray | None = None) -> None:
        self._file.write(json.dumps(ids.tolist()).encode() + b"\n")
        self.n_tokens += ids.size

    def __enter__(self) -> JsonLinesWriter:  # noqa: PYI034
        check_outputs([self.path], overwrite=self._overwrite)
        self._file = self._stack.enter_context(replacing(self.path))
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.__exit__(*exception)


@dataclass
class JsonLines:
    """Ids read from JSON lines."""

    path: Path
    dtype: str = "uint32"
    bytes_read = vocab_size = tokenizer_sha256 = ids_sha256 = n_documents = None
    has_hashes = False

    @property
    def ids(self) -> np.ndarray:
        return np.concatenate([np.zeros(0, np.uint32), *self.blocks()])

    @property
    def n_tokens(self) -> int:
        return len(self.ids)

    def __len__(self) -> int:
        return self.n_tokens

    def __getitem__(self, index: Any) -> Any:
        return self.ids[index]

    def blocks(self, size: int = BLOCK_TOKENS) -> Iterator[np.ndarray]:
        with self.path.open("rb") as file:
            for line in file:
                yield np.array(json.loads(line), dtype=np.uint32)

    def verify(self) -> None:
        raise TokenFileError(f"`{self.path}` has no hash")


class JsonLinesFormat(TokenFileFormat):
    """A third-party format."""

    name = "json-lines"
    suffix = ".jsonl"
    dtypes = {"int64": np.dtype("<i8")}  # noqa: RUF012

    def writer(
        self,
        path: Any,
        *,
        dtype: str = "auto",
        vocab_size: int,
        tokenizer_sha256: str,
        overwrite: bool = False,
        document_index: bool = False,
    ) -> JsonLinesWriter:
        return JsonLinesWriter(path, choose_dtype(self.dtypes, dtype, vocab_size), overwrite)

    def open(self, path: Any, **checks: Any) -> JsonLines:
        return JsonLines(Path(path))


@pytest.fixture
def json_lines() -> Iterator[None]:
    register("json-lines", JsonLinesFormat, description="an array of ids on each line")
    yield
    unregister("json-lines")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    tokens = [*(bytes([byte]) for byte in range(256)), b"lo", b"low"]
    return Tokenizer(dict(enumerate(tokens)), [(b"l", b"o"), (b"lo", b"w")], ["<|endoftext|>"])


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "text.txt"


@pytest.mark.usefixtures("json_lines")
def test_registered_format_is_written_and_read(tokenizer: Tokenizer, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "tokens.jsonl"
    report = tokenizer.encode_files(text, out, format="json-lines")
    assert (report.path, report.dtype) == (out, "int64")
    ids = tokenizer.encode(TEXT)
    assert [token_id for line in out.read_text().splitlines() for token_id in json.loads(line)] == ids
    found = bpejit.open_tokens(out)
    assert isinstance(found, JsonLines)
    assert found.ids.tolist() == ids
    assert report.tokens == found.n_tokens == len(ids)
    assert tokenizer.decode_file(out, tmp_path / "back.txt") == text.stat().st_size
    assert (tmp_path / "back.txt").read_bytes() == text.read_bytes()
    with pytest.raises(OutputError, match=r"tokens.jsonl`: it already exists"):
        tokenizer.encode_files(text, out, format="json-lines")
    with pytest.raises(OutputError, match="one of the inputs"):
        tokenizer.decode_file(out, out, overwrite=True)


@pytest.mark.usefixtures("json_lines")
def test_commands_accept_registered_format(tokenizer: Tokenizer, text: Path, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer")
    out = tmp_path / "tokens.jsonl"
    options = ["--tokenizer", str(tmp_path / "tokenizer")]
    assert invoke("encode", str(text), "--out", str(out), "--format", "json-lines", "--dtype", "int64", *options).exit_code == 0
    assert bpejit.open_tokens(out).ids.tolist() == tokenizer.encode(TEXT)
    shown = invoke("info", str(out)).stdout
    assert f"tokens          {len(tokenizer.encode(TEXT)):,}\n" in shown
    assert "vocab size" not in shown
    back = tmp_path / "back.txt"
    assert invoke("decode", str(out), "--out", str(back), *options).exit_code == 0
    assert back.read_bytes() == text.read_bytes()
    refused = invoke("decode", str(out), "--format", "bin", *options)
    assert refused.exit_code == 1
    assert "dtype" in refused.stderr


@pytest.mark.usefixtures("json_lines")
def test_subword_commands_accept_registered_format(tmp_path: Path) -> None:
    text, vocab, ids, back = (str(tmp_path / name) for name in ("text.txt", "vocab.subwords", "ids.jsonl", "back.txt"))
    Path(text).write_text("low lower lowest\n\né\n", encoding="utf-8")
    assert invoke("subword", "train", text, "--vocab-size", "40", "--out", vocab).exit_code == 0
    options = ["--vocab", vocab, "--format", "json-lines"]
    shown = invoke("subword", "encode", text, "--out", ids, "--append-eos", "--json", *options)
    assert shown.exit_code == 0, shown.stderr
    assert json.loads(shown.stdout)["format"] == "json-lines"
    assert bpejit.open_tokens(ids).ids.tolist().count(1) == 3
    assert invoke("subword", "decode", ids, "--out", back, *options).exit_code == 0
    assert Path(back).read_bytes() == Path(text).read_bytes()


def test_names_that_are_not_registered(tokenizer: Tokenizer, text: Path, tmp_path: Path) -> None:
    for call in (
        lambda: tokenizer.encode_files(text, tmp_path / "t", format="json-lines"),
        lambda: tokenizer.decode_file(text, tmp_path / "t", format="json-lines"),
        lambda: bpejit.open_tokens(text, format="json-lines"),
        lambda: unregister("json-lines"),
    ):
        with pytest.raises(TokenFileError, match=r"'json-lines' is not known; expected one of bin, npy, .*: choose one"):
            call()
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt"}
    refused = invoke("encode", str(text), "--out", str(tmp_path / "t"), "--format", "json-lines")
    assert refused.exit_code == 2
    assert "'json-lines'" in refused.stderr
    assert "bin" in refused.stderr


@pytest.mark.parametrize("name", ["", "a b", AUTO, "bin", 3, "a.b"])
def test_names_that_cannot_be_registered(name: Any) -> None:
    with pytest.raises(TokenFileError, match="expected"):
        register(name, JsonLinesFormat)
    assert "other" not in format_names()


@pytest.mark.parametrize("location", [None, "no location", 3])
def test_formats_that_cannot_be_registered(location: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="expected a class"):
        register("other", location)
    assert "other" not in format_names()


def test_location_is_imported_on_first_use() -> None:
    register("other", "bpejit.tokenfiles.array_files:BinFormat")
    try:
        assert type(load_format("other")) is BinFormat
        assert format_descriptions()["other"] == ""
    finally:
        unregister("other")


def test_built_in_formats_have_their_registered_names() -> None:
    assert [load_format(name).name for name in format_names()] == list(format_names())
    assert tokenfiles.DEFAULT_FORMAT in format_names()
    assert all(format_descriptions().values())
    for name in format_names():
        dtypes = load_format(name).dtypes
        assert [dtype.name for dtype in dtypes.values()] == list(dtypes)
        assert [dtype.itemsize for dtype in dtypes.values()] == sorted(dtype.itemsize for dtype in dtypes.values())


@pytest.mark.usefixtures("json_lines")
def test_format_of_a_file(tmp_path: Path) -> None:
    described, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    with BinFormat().writer(described, vocab_size=10, tokenizer_sha256="a" * 64) as writer:
        writer.write(np.array([1], dtype=np.uint32))
    assert isinstance(recognized_format(described), BinFormat)
    assert isinstance(recognized_format(other), JsonLinesFormat)
    assert recognized_format(tmp_path / "c.bin") is recognized_format("-") is None
    assert isinstance(format_of(tmp_path / "c.bin"), BinFormat)
    assert isinstance(format_of(described, "json-lines"), JsonLinesFormat)


@pytest.mark.usefixtures("json_lines")
def test_format_without_support_for_streams(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match="json-lines cannot be read from standard input"):
        tokenizer.decode_file("-", tmp_path / "t", format="json-lines")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("size", "name"), [(1, "uint16"), (1 << 16, "uint16"), ((1 << 16) + 1, "uint32"), (1 << 32, "uint32")])
def test_auto_chooses_the_smallest_dtype(size: int, name: str) -> None:
    assert choose_dtype(DTYPES, "auto", size).name == name
    assert choose_dtype({"int32": np.dtype("<i4")}, "auto", min(size, 1 << 31)).name == "int32"
    with pytest.raises(TokenFileError, match="int16 holds ids up to 32767"):
        choose_dtype({"int16": np.dtype("<i2")}, "auto", (1 << 15) + size)
