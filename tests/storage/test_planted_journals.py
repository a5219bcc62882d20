"""Tests of journals that name files in other folders: nothing outside the folder of the journal changes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import bpejit
from bpejit.errors import BpejitError
from bpejit.formats.any_format import save_model
from bpejit.jobs.job_folder import LINKS, remove_links, write_record
from bpejit.model import Model
from bpejit.storage.exchange import journal_path, recover
from bpejit.storage.temporary import boot_name
from bpejit.tokenfiles.array_files import BinFormat

MODEL = Model(tokens={byte: bytes([byte]) for byte in range(256)}, merges=[], unicode="16.0")
NUMBER = "0123456789ab"


def hidden_name(target: str, kind: str) -> str:
    folder, slash, name = target.rpartition("/")
    return f"{folder}{slash}.{name}.bpejit-{NUMBER}-{NUMBER}.{kind}"


def entry(target: str, staged: str | None = "new") -> list[str | None]:
    return [target, staged and hidden_name(target, staged), hidden_name(target, "old")]


def plant(description: Path, *outside: list[str | None]) -> None:
    fields = {
        "format": "bpejit journal",
        "format_version": 1,
        "boot": boot_name(),
        "entries": [*outside, entry(description.name)],
    }
    journal_path(description).write_text(json.dumps(fields))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def save_tokens(folder: Path, *, overwrite: bool = False) -> None:
    with BinFormat().writer(folder / "t.bin", vocab_size=300, tokenizer_sha256=MODEL.sha256, overwrite=overwrite) as writer:
        writer.write(np.array([1, 2], dtype=np.uint32), n_bytes=2)


ACTIONS: dict[str, Callable[[Path], object]] = {
    "load": bpejit.load,
    "load a file": lambda folder: bpejit.load(folder / "bpejit.json"),
    "open": lambda folder: bpejit.open_tokens(folder / "t.bin"),
    "verify": lambda folder: bpejit.open_tokens(folder / "t.bin").verify(),
    "save": lambda folder: save_model(MODEL, folder, format="bpejit", overwrite=True),
    "write": lambda folder: save_tokens(folder, overwrite=True),
    "combine": lambda folder: bpejit.combine(folder / "t.bin"),
}


@pytest.mark.parametrize(
    ("action", "way"),
    [*((action, "absolute") for action in ACTIONS), ("load", "parent"), ("load", "link"), ("save", "folder by a link")],
)
@pytest.mark.parametrize("state", ["begun", "replaced", "committed", "removal", "removed"])
def test_files_in_other_folders_stay(tmp_path: Path, action: str, state: str, way: str) -> None:
    home, folder = tmp_path / "home", tmp_path / "downloaded"
    home.mkdir()
    for name in ("thesis.tex", ".thesis.tex.mine.new"):
        (home / name).write_bytes(b"years of work")
    save_model(MODEL, folder, format="bpejit", overwrite=False)
    save_tokens(folder)
    (folder / "link").symlink_to(home)
    target = {"absolute": str(home / "thesis.tex"), "link": "link/thesis.tex"}.get(way, "../home/thesis.tex")
    (home / hidden_name("thesis.tex", "old")).write_bytes(b"old")
    if state == "begun":
        (home / hidden_name("thesis.tex", "new")).write_bytes(b"new")
    for description in ("bpejit.json", "t.bin.json"):
        path = folder / description
        plant(path, entry(target, None if "remov" in state else "new"))
        if state != "committed":
            shutil.copy(path, folder / hidden_name(description, "new"))
    if state == "removed":
        (home / "thesis.tex").rename(tmp_path / "elsewhere")
    before = tree(home)
    used = folder
    if way == "folder by a link":
        used = tmp_path / "by a link"
        used.symlink_to(folder)
    with suppress(BpejitError):
        ACTIONS[action](used)
    assert tree(home) == before
    if action in ("load", "load a file"):  # whatever the journal said, the folder is complete
        assert bpejit.load(folder).vocab_size == 256


@pytest.mark.parametrize("name", ["..", "a\0b", "\ud800"])
def test_names_that_no_file_has(tmp_path: Path, name: str) -> None:
    save_model(MODEL, tmp_path / "made", format="bpejit", overwrite=False)
    plant(tmp_path / "made" / "bpejit.json", entry(name))
    with pytest.raises(BpejitError, match=r"cannot be read; expected a journal of this version"):
        bpejit.load(tmp_path / "made")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def interrupted(tmp_path: Path, *states: str) -> tuple[Path, list[Path]]:
    """Leave an exchange of files in other folders, in the given states, and a description that was set aside."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / hidden_name("d", "old")).write_bytes(b"old")
    (folder / hidden_name("d", "new")).write_bytes(b"new")
    targets = []
    for number, state in enumerate(states):
        target = tmp_path / str(number) / "x"
        target.parent.mkdir()
        if state != "missing":
            target.write_bytes(state.encode())
        Path(hidden_name(str(target), "old")).write_bytes(b"old")
        if state != "new":
            Path(hidden_name(str(target), "new")).write_bytes(b"new")
        if state == "old":
            target.unlink()
            target.hardlink_to(hidden_name(str(target), "old"))
        targets.append(target)
    plant(folder / "d", *(entry(str(target)) for target in targets))
    return folder / "d", targets


@pytest.mark.parametrize(("states", "found"), [(("old", "old"), b"old"), (("new", "new"), b"new")])
def test_another_command_restores_what_is_in_its_folder(tmp_path: Path, states: tuple[str, ...], found: bytes) -> None:
    description, targets = interrupted(tmp_path, *states)
    before = [tree(target.parent) for target in targets]
    for _ in range(2):
        recover([description])
        assert description.read_bytes() == found
        assert [tree(target.parent) for target in targets] == before
    recover([description, *targets])  # the command that wrote these files
    assert [tree(target.parent) for target in targets] == [{"x": found}] * 2
    assert tree(description.parent) == {"d": found}


@pytest.mark.parametrize("states", [("old", "new"), ("missing", "old"), ("missing", "new")])
def test_half_replaced_files_need_their_command(tmp_path: Path, states: tuple[str, ...]) -> None:
    description, targets = interrupted(tmp_path, *states)
    before = tree(tmp_path)
    with pytest.raises(BpejitError, match=r"files in other folders, such as .*: run that command again"):
        recover([description])
    assert tree(tmp_path) == before
    recover([description, *targets])
    assert [tree(target.parent) for target in targets] == [{"x": b"old"}] * 2
    assert tree(description.parent) == {"d": b"old"}


def test_files_below_a_folder_of_outputs_are_recovered(tmp_path: Path) -> None:
    description, targets = interrupted(tmp_path, "new", "old")
    (tmp_path / "folder" / "out").symlink_to(tmp_path / "0")
    recover([description], tree=tmp_path)
    assert [tree(target.parent) for target in targets] == [{"x": b"old"}] * 2


def test_links_of_a_job_are_its_own(tmp_path: Path) -> None:
    job = tmp_path / ".t.bin.bpejit-job"
    (job / "final").mkdir(parents=True)
    (job / "final" / "t.bin").write_bytes(b"ids")
    ours, theirs = tmp_path / hidden_name("t.bin", "new"), tmp_path / hidden_name("u.bin", "new")
    ours.hardlink_to(job / "final" / "t.bin")
    theirs.write_bytes(b"mine")
    (tmp_path / "second").hardlink_to(theirs)
    (tmp_path / "x.new").hardlink_to(job / "final" / "t.bin")
    write_record(job / LINKS, {"links": [str(ours), str(theirs), str(tmp_path / "x.new"), "a\0b", 5]})
    remove_links(job)
    assert {path.name for path in tmp_path.iterdir()} == {job.name, theirs.name, "second", "x.new"}
    write_record(job / LINKS, {"links": 5})
    remove_links(job)
