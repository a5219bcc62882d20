"""The two stores of jobs do the same: a folder, and a URL in the memory of this process."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bpejit.errors import OutputError
from bpejit.jobs.file_encoding import EncodingOutputs
from bpejit.jobs.folder_store import FolderStore
from bpejit.jobs.job_folder import CHECKPOINT, Totals, part_folder, write_record
from bpejit.jobs.job_plan import find_store, open_store
from bpejit.jobs.job_records import begun_manifest, identify_part
from bpejit.jobs.url_store import Store, UrlStore
from bpejit.storage.outputs import InputFiles
from bpejit.tokenfiles import load_format

JOB = {"format": "npy", "inputs": []}
TOTALS = Totals(units=3, tokens=20, documents=2, bytes=70, read=80)


@pytest.fixture(params=["folder", "url"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "folder":
        yield open_store(str(tmp_path / "x.npy"), per_input=False)
        return
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    yield open_store("memory://test-stores/x.npy", per_input=False)
    with suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm("/test-stores", recursive=True)


def manifest(parts: int) -> dict[str, Any]:
    return begun_manifest(JOB, parts) | {"units": 3 * parts, "command": "again"}


def complete_part(store: Store, part: int, parts: int, scratch: Path) -> None:
    """Put a finished part into a store."""
    names = EncodingOutputs(scratch / "outputs" / "x.npy", None, False, load_format("npy"))
    names = replace(names, out=store.out) if isinstance(store, FolderStore) else names
    folder = part_folder(names.folder, part, parts)
    folder.mkdir(parents=True)
    (folder / "000000.ids").write_bytes(bytes(40))
    of = identify_part(JOB, part, parts)
    write_record(folder / CHECKPOINT, {"of": of, "totals": TOTALS.as_json(), "complete": True})
    if isinstance(store, UrlStore):
        store.store_part(names, part, parts)
        assert [path.name for path in folder.iterdir()] == [CHECKPOINT], "the space is needed once"


def test_job_is_claimed_once(store: Store) -> None:
    assert store.begun() is None
    assert store.find_left() is None
    assert store.claim(manifest(2))
    assert not store.claim(manifest(3))
    begun = store.begun()
    assert begun is not None
    assert begun["parts"] == 2
    if isinstance(store, FolderStore):
        assert [path.name for path in store.folder.iterdir()] == ["manifest.json"], "and no other file stays"
    assert store.kept() is None
    left = store.find_left()
    assert left is not None
    assert left.kept == 0


def test_parts_are_kept_until_they_are_removed(store: Store, tmp_path: Path) -> None:
    store.claim(manifest(3))
    complete_part(store, 1, 3, tmp_path)
    assert store.missing_parts(3) == [0, 2]
    assert store.kept_parts(3) == [Totals(), TOTALS, Totals()]
    kept = store.kept()
    assert kept is not None
    begun = store.begun()
    assert begun is not None
    assert (kept.units, begun["units"], kept.read, begun["command"]) == (3, 9, 80, "again")
    with pytest.raises(OutputError, match=r"2 of the 3 parts of `.*x\.npy` are not complete: 0, 2; expected all of them"):
        store.check_parts(3)
    with pytest.raises(KeyboardInterrupt), store.giving_up():
        raise KeyboardInterrupt
    assert store.begun() is not None, "it keeps a finished part"
    assert store.remove_part(0, 3, overwrite=False) is None
    assert "part-1-of-3" in str(store.remove_part(1, 3, overwrite=False))
    assert store.remove_part(1, 3, overwrite=True) is None
    assert store.missing_parts(3) == [0, 1, 2]
    with pytest.raises(KeyboardInterrupt), store.giving_up():
        raise KeyboardInterrupt
    assert store.begun() is None, "it keeps nothing"


@pytest.mark.parametrize("name", ["../outside", "folder/inside"])
def test_parts_are_unpacked_into_their_folder(tmp_path: Path, name: str) -> None:
    """A part at a URL may be anything that others have stored there."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    store = UrlStore("memory://test-unpacking/x.npy", False)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for member in (CHECKPOINT, name):
            found = tarfile.TarInfo(member)
            found.size = 4
            tar.addfile(found, io.BytesIO(b"data"))
    with fsspec.open(store.part_url(0, 2), "wb") as file:
        file.write(packed.getvalue())
    with pytest.raises(OutputError, match="is broken; expected a finished part"):
        store.fetch_part(tmp_path / "job", 0, 2)
    assert not (tmp_path / "job" / "outside").exists()
    fsspec.filesystem("memory").rm("/test-unpacking", recursive=True)


def test_rest_is_cleared(store: Store, tmp_path: Path) -> None:
    store.claim(manifest(2))
    complete_part(store, 0, 2, tmp_path)
    left = store.find_left()
    assert left is not None
    assert left.kept > 0
    assert store.clear(left)
    assert store.find_left() is None


def test_inputs_are_not_overwritten(store: Store) -> None:
    names = EncodingOutputs(store.out, None, False, load_format("npy"))
    store.check(names, InputFiles([]), overwrite=False)
    if isinstance(store, FolderStore):
        store.out.write_bytes(b"input")
    with pytest.raises(OutputError, match="it is one of the inputs"):
        store.check(names, InputFiles([store.name]), overwrite=True)


def test_store_with_a_job_is_found(store: Store) -> None:
    assert find_store(store.name) == store
    folder = open_store(store.name, per_input=True)
    folder.claim(manifest(1))
    assert find_store(store.name) == folder
