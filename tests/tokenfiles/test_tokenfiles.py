"""Tests of token files without a header, the format of nanoGPT, and of their descriptions and document indexes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import bpejit.tokenfiles
from bpejit.errors import OutputError, TokenFileError
from bpejit.storage.files import OutputFile
from bpejit.tokenfiles import format_names, load_format
from bpejit.tokenfiles.array_files import BinFormat
from bpejit.tokenfiles.base import choose_dtype
from bpejit.tokenfiles.description import DTYPES, description_path
from bpejit.tokenfiles.opening import open_tokens

HASH = "a" * 64


def write(path: Path, ids: list[int], *, vocab_size: int = 1000, dtype: str = "auto", sha256: str = HASH) -> None:
    writing = BinFormat().writer(path, dtype=dtype, vocab_size=vocab_size, tokenizer_sha256=sha256, overwrite=True)
    with writing as writer:
        writer.write(np.array(ids, dtype=np.uint32), n_bytes=3 * len(ids))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ---- round trips


@given(
    blocks=st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=20), max_size=8),
    dtype=st.sampled_from(["auto", "uint16", "uint32"]),
    reading=st.integers(1, 30),
)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, blocks: list[list[int]], dtype: str, reading: int) -> None:
    if dtype == "uint16":
        blocks = [[token_id % 65536 for token_id in block] for block in blocks]
    flat = [token_id for block in blocks for token_id in block]
    path = tmp_path_factory.mktemp("tokens") / "tokens.bin"
    vocab_size = max(flat, default=0) + 1
    with BinFormat().writer(path, dtype=dtype, vocab_size=vocab_size, tokenizer_sha256=HASH) as writer:
        for block in blocks:
            writer.write(np.array(block, dtype=np.uint32), n_bytes=len(block) + 1)
    found = open_tokens(path, tokenizer_sha256=HASH)
    assert found.ids.tolist() == flat
    assert [token_id for block in found.blocks(reading) for token_id in block.tolist()] == flat
    assert all(block.dtype == np.uint32 and block.flags.writeable for block in found.blocks(reading))
    assert (found.n_tokens, len(found), writer.n_tokens) == (len(flat),) * 3
    assert found.bytes_read == writer.n_bytes == len(flat) + len(blocks)
    assert (found.vocab_size, found.tokenizer_sha256) == (vocab_size, HASH)
    smallest = "uint16" if vocab_size <= 65536 else "uint32"
    assert found.dtype == writer.dtype.name == (smallest if dtype == "auto" else dtype)
    assert not found.ids.flags.writeable
    assert {path.name for path in path.parent.iterdir()} == {"tokens.bin", "tokens.bin.json"}


@pytest.mark.parametrize(("vocab_size", "numpy_dtype"), [(65536, np.uint16), (65537, np.uint32)])
def test_file_has_nanogpt_format(tmp_path: Path, vocab_size: int, numpy_dtype: type) -> None:
    ids = [0, 1, 255, 256, 65535, vocab_size - 1]
    write(tmp_path / "train.bin", ids, vocab_size=vocab_size)
    assert np.memmap(tmp_path / "train.bin", dtype=np.dtype(numpy_dtype).newbyteorder("<"), mode="r").tolist() == ids
    assert (tmp_path / "train.bin").read_bytes()[:6] == (b"\0\0\1\0\xff\0" if vocab_size == 65536 else b"\0\0\0\0\1\0")


def test_ids_of_any_unsigned_dtype_are_accepted(tmp_path: Path) -> None:
    with BinFormat().writer(tmp_path / "t", vocab_size=300, tokenizer_sha256=HASH) as writer:
        for dtype in (np.uint8, np.uint16, np.uint32, np.uint64, np.int64, ">u2"):
            writer.write(np.array([1, 2, 200], dtype=dtype)[::-1])
    assert open_tokens(tmp_path / "t").ids.tolist() == [200, 2, 1] * 6


def test_description(tmp_path: Path) -> None:
    write(tmp_path / "tokens.bin", [5, 6, 7])
    assert description_path(tmp_path / "tokens.bin") == tmp_path / "tokens.bin.json"
    assert json.loads((tmp_path / "tokens.bin.json").read_text()) == {
        "format": "bpejit token file",
        "format_version": 1,
        "dtype": "uint16",
        "byte_order": "little",
        "tokens": 3,
        "ids_sha256": hashlib.sha256(bytes([5, 0, 6, 0, 7, 0])).hexdigest(),
        "bytes_read": 9,
        "vocab_size": 1000,
        "tokenizer_sha256": HASH,
    }


def test_empty_file(tmp_path: Path) -> None:
    write(tmp_path / "tokens.bin", [])
    found = open_tokens(tmp_path / "tokens.bin", tokenizer_sha256=HASH)
    assert found.ids.size == found.n_tokens == 0
    assert not found.ids.flags.writeable
    assert list(found.blocks()) == []
    (tmp_path / "bare.bin").touch()
    assert open_tokens(tmp_path / "bare.bin", dtype="uint32").dtype == "uint32"


def test_close_is_idempotent(tmp_path: Path) -> None:
    writer = BinFormat().writer(tmp_path / "t", vocab_size=10, tokenizer_sha256=HASH, overwrite=True)
    writer.write(np.array([1], dtype=np.uint32))
    writer.close()
    writer.close()
    assert open_tokens(tmp_path / "t").ids.tolist() == [1]
    with pytest.raises(ValueError, match="closed"):
        writer.write(np.array([1], dtype=np.uint32))


def test_one_block_is_in_memory_while_reading(tmp_path: Path) -> None:
    ids = np.arange(3_000_000, dtype=np.uint32)
    with BinFormat().writer(tmp_path / "t", vocab_size=ids.size, tokenizer_sha256=HASH) as writer:
        writer.write(ids)
    found = open_tokens(tmp_path / "t")
    tracemalloc.start()
    try:
        total = sum(int(block.sum()) for block in found.blocks(10_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == int(ids.sum(dtype=np.int64))
    assert peak < 1_000_000


# ---- errors of writing


@pytest.mark.parametrize("dtype", ["uint8", "int16", "", "float32", "u2"])
def test_unknown_dtype(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(TokenFileError, match="expected one of 'uint16', 'uint32'"):
        BinFormat().writer(tmp_path / "t", dtype=dtype, vocab_size=10, tokenizer_sha256=HASH)
    assert content(tmp_path) == {}


def test_too_small_dtype(tmp_path: Path) -> None:
    write(tmp_path / "t", [1, 2])
    before = content(tmp_path)
    with pytest.raises(TokenFileError, match=re.escape("ids up to 65536, but uint16 holds ids up to 65535")):
        BinFormat().writer(tmp_path / "t", dtype="uint16", vocab_size=65537, tokenizer_sha256=HASH)
    assert content(tmp_path) == before
    assert choose_dtype(DTYPES, "uint16", 65536).itemsize == 2
    with pytest.raises(TokenFileError, match="uint32 holds ids up to"):
        choose_dtype(DTYPES, "auto", 2**32 + 1)


@pytest.mark.parametrize("bad", [[1, 10, 2], [70000], [-1]])
def test_id_outside_vocabulary(tmp_path: Path, bad: list[int]) -> None:
    write(tmp_path / "t", [1, 2])
    before = content(tmp_path)
    with (
        pytest.raises(TokenFileError, match=r"cannot write the id (10|70000|-1) to .*; expected ids from 0 to 9"),
        BinFormat().writer(tmp_path / "t", vocab_size=10, tokenizer_sha256=HASH, overwrite=True) as writer,
    ):
        writer.write(np.array(bad, dtype=np.int64))
    assert content(tmp_path) == before


@pytest.mark.parametrize("exception", [RuntimeError, KeyboardInterrupt])
def test_interrupted_run_preserves_old_files(tmp_path: Path, exception: type[BaseException]) -> None:
    write(tmp_path / "t", [1, 2])
    before = content(tmp_path)

    def interrupted() -> None:
        with BinFormat().writer(tmp_path / "t", vocab_size=10, tokenizer_sha256=HASH, overwrite=True) as writer:
            writer.write(np.array([3, 4], dtype=np.uint32))
            raise exception

    with pytest.raises(exception):
        interrupted()
    assert content(tmp_path) == before


def test_failure_to_write_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "t", [1, 2])
    before = content(tmp_path)
    original = OutputFile.write

    def full_at_the_end(file: OutputFile, data: Any) -> int:
        if file.path.endswith(".json"):
            raise OutputError("the disk is full")
        return original(file, data)

    monkeypatch.setattr(OutputFile, "write", full_at_the_end)
    with pytest.raises(OutputError, match="the disk is full"):
        write(tmp_path / "t", [3, 4])
    assert content(tmp_path) == before


def test_unwritable_location(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist"):
        BinFormat().writer(tmp_path / "missing" / "t", vocab_size=10, tokenizer_sha256=HASH)
    (tmp_path / "t.json").mkdir()
    with pytest.raises(OutputError, match=re.escape("t.json`: it is a folder")):
        BinFormat().writer(tmp_path / "t", vocab_size=10, tokenizer_sha256=HASH, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


LIMITED = """
import resource, sys
import numpy as np
from bpejit.errors import OutputError
from bpejit.storage.files import OutputFile
from bpejit.tokenfiles import load_format
options = {"vocab_size": 1000, "tokenizer_sha256": "b" * 64, "overwrite": True}
written = 0
numbers = np.random.default_rng(0)
try:
    with load_format(sys.argv[2]).writer(sys.argv[1], **options) as writer:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        for _ in range(1000):
            writer.write(numbers.integers(0, 1000, 1000), ends=np.array([500, 1000]))
            written += 1
except OutputError as error:
    print(written, error)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs resource limits")
@pytest.mark.parametrize(
    "name", ["bin", *(pytest.param(name, marks=pytest.mark.slow) for name in format_names() if name != "bin")]
)
def test_full_disk(tmp_path: Path, name: str) -> None:
    with load_format(name).writer(tmp_path / "t", vocab_size=1000, tokenizer_sha256=HASH) as writer:
        writer.write(np.array([1, 2]))
    before = content(tmp_path)
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "t"), name],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(bpejit.tokenfiles.__file__).parents[2])},
    )
    assert re.match(r"\d+ cannot write `.*`: a limit on the size of files", run.stdout), run.stderr
    assert content(tmp_path) == before


# ---- errors of reading


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match="no such file"):
        open_tokens(tmp_path / "t")
    with pytest.raises(TokenFileError, match="it is a folder"):
        open_tokens(tmp_path)


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="needs /dev/null")
def test_device_is_not_a_token_file() -> None:
    with pytest.raises(TokenFileError, match="a device or a pipe"):
        open_tokens("/dev/null", dtype="uint16")


def test_file_without_description_needs_dtype(tmp_path: Path) -> None:
    np.array([1, 2, 3], dtype="<u2").tofile(tmp_path / "t")
    with pytest.raises(TokenFileError, match=r"t.json`; .*: pass `dtype=\"uint16\"` or `dtype=\"uint32\"`"):
        open_tokens(tmp_path / "t")
    found = open_tokens(tmp_path / "t", dtype="uint16", tokenizer_sha256=HASH)
    assert (found.bytes_read, found.vocab_size, found.tokenizer_sha256) == (None, None, None)
    assert found.ids.tolist() == [1, 2, 3]
    with pytest.raises(TokenFileError, match="6 bytes, which is not a multiple of 4, the size of uint32"):
        open_tokens(tmp_path / "t", dtype="uint32")
    with pytest.raises(TokenFileError, match="dtype is 'uint8'; expected one of"):
        open_tokens(tmp_path / "t", dtype="uint8")


def test_dtype_contradicts_description(tmp_path: Path) -> None:
    write(tmp_path / "t", [1, 2])
    with pytest.raises(TokenFileError, match=r"dtype is uint16; expected uint32 for"):
        open_tokens(tmp_path / "t", dtype="uint32")
    assert open_tokens(tmp_path / "t", dtype="uint16").n_tokens == 2


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (5, "5 bytes, which is not a multiple of 2, the size of uint16"),
        (4, "n_tokens is 2; expected 3"),
        (8, "n_tokens is 4; expected 3"),
    ],
)
def test_truncated_or_extended_file(tmp_path: Path, size: int, message: str) -> None:
    write(tmp_path / "t", [1, 2, 3])
    os.truncate(tmp_path / "t", size)
    with pytest.raises(TokenFileError, match=message):
        open_tokens(tmp_path / "t")


def test_file_truncated_after_opening(tmp_path: Path) -> None:
    write(tmp_path / "t", [1, 2, 3])
    found = open_tokens(tmp_path / "t")
    os.truncate(tmp_path / "t", 3)
    blocks = found.blocks(1)
    assert next(blocks).tolist() == [1]
    with pytest.raises(TokenFileError, match="ends after 3 bytes; expected 6"):
        next(blocks)
    (tmp_path / "t").unlink()
    with pytest.raises(TokenFileError, match="no such file"):
        list(found.blocks())


def test_file_of_another_tokenizer(tmp_path: Path) -> None:
    write(tmp_path / "t", [1, 2])
    with pytest.raises(TokenFileError, match=f"is {HASH}; expected {'b' * 64} for .*: another tokenizer wrote"):
        open_tokens(tmp_path / "t", tokenizer_sha256="b" * 64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "something else"}, "not the description of a token file"),
        ({"format_version": 3}, "format version 3, and this bpejit reads versions up to 2.*install a later bpejit"),
        ({"format_version": 0}, "format_version is 0"),
        ({"format_version": True}, "format_version is True"),
        ({"dtype": "uint8"}, "dtype is 'uint8'"),
        ({"dtype": ["uint16"]}, "dtype is"),
        ({"tokens": -1}, "tokens is -1"),
        ({"tokens": "2"}, "tokens is '2'"),
        ({"tokens": 2.0}, "tokens is 2.0"),
        ({"bytes_read": None}, "bytes_read is None"),
        ({"vocab_size": None}, "vocab_size is None"),
        ({"tokenizer_sha256": 5}, "tokenizer_sha256 is 5"),
    ],
)
def test_invalid_description(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    write(tmp_path / "t", [1, 2])
    sidecar = tmp_path / "t.json"
    sidecar.write_text(json.dumps({**json.loads(sidecar.read_text()), **change}))
    with pytest.raises(TokenFileError, match=message) as caught:
        open_tokens(tmp_path / "t")
    assert str(sidecar) in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"format": "bpejit token file", "format_version": 1}'])
def test_truncated_description(tmp_path: Path, data: bytes) -> None:
    write(tmp_path / "t", [1, 2])
    (tmp_path / "t.json").write_bytes(data)
    with pytest.raises(TokenFileError, match=re.escape("t.json`")):
        open_tokens(tmp_path / "t")
