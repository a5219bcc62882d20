"""Space that is reserved for files being written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bpejit.storage import files, reserved_space
from bpejit.storage.files import SYNC_BYTES, replacing
from bpejit.storage.reserved_space import reserve_space

BLOCK = bytes(range(256)) * (SYNC_BYTES // 512)
"""Half as many bytes as a file has when space is reserved."""


def disk_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_reserve_space(tmp_path):
    path = tmp_path / "out"
    with path.open("w+b") as file:
        if not reserve_space(file.fileno(), 0, 1 << 20):
            pytest.skip("the file system is not ext4")
        assert path.stat().st_size == 0
        assert disk_bytes(path) >= 1 << 20
        file.write(b"some bytes")
        file.flush()
        os.ftruncate(file.fileno(), 10)
        assert disk_bytes(path) <= 1 << 16
    assert path.read_bytes() == b"some bytes"


def test_reserve_space__not_on_other_file_systems(tmp_path, monkeypatch):
    monkeypatch.setattr(reserved_space, "_EXT4", 1)
    with (tmp_path / "out").open("w+b") as file:
        assert not reserve_space(file.fileno(), 0, 1 << 20)
    assert disk_bytes(tmp_path / "out") == 0
    reader, writer = os.pipe()
    assert not reserve_space(writer, 0, 1 << 20)
    os.close(reader)
    os.close(writer)


def test_reserve_space__without_the_functions(tmp_path, monkeypatch):
    monkeypatch.setattr(reserved_space, "_library", lambda: None)
    with (tmp_path / "out").open("w+b") as file:
        assert not reserve_space(file.fileno(), 0, 1 << 20)


@pytest.mark.parametrize("works", [True, False])
@pytest.mark.parametrize("n_blocks", [1, 2, 3, 20])
def test_replacing__reserves_space_for_large_files(tmp_path, monkeypatch, n_blocks, works):
    calls = []

    def reserve(descriptor: int, start: int, size: int) -> bool:
        calls.append((start, size))
        return works and (reserve_space(descriptor, start, size) or True)

    reserved_bytes = 8 * len(BLOCK)
    monkeypatch.setattr(files, "_RESERVED_BYTES", reserved_bytes)
    monkeypatch.setattr(files, "reserve_space", reserve)
    with replacing(tmp_path / "out") as file:
        for _ in range(n_blocks):
            file.write(BLOCK)
        file.write_at_start(b"header")
    assert (tmp_path / "out").read_bytes() == b"header" + (BLOCK * n_blocks)[6:]
    assert disk_bytes(tmp_path / "out") <= n_blocks * len(BLOCK) + (1 << 16)
    starts = range(SYNC_BYTES, n_blocks * len(BLOCK), reserved_bytes)
    assert calls == [(start, reserved_bytes) for start in (starts if works else starts[:1])]


def test_replacing__reserves_as_much_as_is_written(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(files, "_RESERVED_BYTES", 10)
    monkeypatch.setattr(files, "reserve_space", lambda _, start, size: calls.append((start, size)) or True)
    with replacing(tmp_path / "out") as file:
        file.write(BLOCK * 2)
        file.write(BLOCK)
        file.write(b"end")
    assert calls == [(2 * len(BLOCK), len(BLOCK)), (3 * len(BLOCK), 10)]
    assert (tmp_path / "out").read_bytes() == BLOCK * 3 + b"end"
