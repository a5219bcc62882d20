"""Tests of processes killed at any step of writing: the next run, or a reader, recovers."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import FLUSH
from helpers.cli import invoke, snapshot
from helpers.killing import needs_fork, run_killed

from bpejit.errors import BpejitError, OutputError, TokenFileError, TokenizerFormatError
from bpejit.formats.any_format import load_model, save_model
from bpejit.formats.folder import load_folder
from bpejit.model import Model
from bpejit.storage import exchange, temporary
from bpejit.storage.exchange import journal_path, recover
from bpejit.storage.files import replacing, replacing_all
from bpejit.storage.temporary import boot_name, hidden
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder
from bpejit.tokenfiles.array_files import BinFormat
from bpejit.tokenfiles.opening import open_tokens

pytestmark = [needs_fork, pytest.mark.slow]

BYTES = {byte: bytes([byte]) for byte in range(256)}

NEW = Model(tokens=BYTES | {256: b"th"}, merges=[(b"t", b"h")], unicode="16.0")
OLD = Model(tokens=BYTES | {256: b"he"}, merges=[(b"h", b"e")], unicode="16.0")
PRIVATE = Model(tokens=BYTES, merges=[], pattern=r"(?<=a)b|\w+|\W", unicode="16.0")


def save(form: str) -> Callable[..., None]:
    def write(folder: Path, model: Model = NEW, *, overwrite: bool = False) -> None:
        path = folder / "made" / "mine.tiktoken" if form == "tiktoken" else folder / "made"
        path.parent.mkdir(exist_ok=True)
        save_model(model, path, format=form, overwrite=overwrite)

    return write


def read(folder: Path) -> Model:
    return NEW if load_model(folder / "made").tokens[256] == b"th" else OLD


def tokens(folder: Path, model: Model = NEW, *, overwrite: bool = False) -> None:
    with BinFormat().writer(folder / "t.bin", vocab_size=300, tokenizer_sha256=model.sha256, overwrite=overwrite) as writer:
        writer.write(np.array([1, 2, 256] if model == NEW else [7, 8], dtype=np.uint32), n_bytes=3)


def read_tokens(folder: Path) -> Model:
    found = open_tokens(folder / "t.bin")
    found.verify()
    model = NEW if found.tokenizer_sha256 == NEW.sha256 else OLD
    assert found.ids.tolist() == ([1, 2, 256] if model == NEW else [7, 8])
    return model


def vocabulary(folder: Path, model: Model = NEW, *, overwrite: bool = False) -> None:
    encoder = SubwordTextEncoder()
    encoder._init_subtokens_from_list(["<pad>", "<EOS>", "a", "b_" if model == NEW else "c_"])
    encoder.store_to_file(folder / "vocab", overwrite=overwrite)


def read_vocabulary(folder: Path) -> Model:
    if not (folder / "vocab").exists():
        raise TokenizerFormatError("no such file")
    return NEW if SubwordTextEncoder(folder / "vocab").all_subtoken_strings[3] == "b_" else OLD


CASES = {
    "folder": (save("bpejit"), read),
    "hf": (save("hf"), read),
    "tiktoken": (save("tiktoken"), read),
    "gpt2": (save("gpt2"), read),
    "tokens": (tokens, read_tokens),
    "vocabulary": (vocabulary, read_vocabulary),
}


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def mine(folder: Path) -> None:
    """Put files of the user into the output folder."""
    (folder / "made").mkdir(parents=True)
    for name in (".hidden", "notes.txt", ".tokenizer.json.tmp", ".bpejit.json.old", "model.json.bak"):
        (folder / name).write_bytes(b"mine")
        (folder / "made" / name).write_bytes(b"mine")


@pytest.mark.parametrize("existing", [False, True], ids=["new", "existing"])
@pytest.mark.parametrize(
    ("case", "links"), [*((case, True) for case in CASES), ("folder", False), ("tokens", False), ("tiktoken", False)]
)
def test_killed_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, existing: bool, links: bool) -> None:
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", no_links)
    write, load = CASES[case]
    whole = tmp_path / "whole"
    mine(whole)
    write(whole)
    expected = names(whole)
    before = tmp_path / "before"
    mine(before)
    if existing:
        write(before, OLD)
    outcomes = []
    for step in range(1, 200):
        folder = tmp_path / str(step)
        shutil.copytree(before, folder)
        killed = run_killed(lambda folder=folder: write(folder, overwrite=existing), step, folder)
        after_kill = reader_sees(load, folder)
        assert after_kill in ((OLD, NEW) if existing else (None, NEW))
        outcomes.append(after_kill)
        if not existing:
            # The same command completes, or reports that the whole output exists.
            if after_kill is None:
                write(folder)
            else:
                with pytest.raises(OutputError, match="already exists"):
                    write(folder)
            assert load(folder) == NEW
        else:
            with pytest.raises(OutputError, match="already exists"):
                write(folder)
            assert load(folder) == after_kill, "a refused run replaces nothing"
            write(folder, overwrite=True)
            assert load(folder) == NEW
        assert names(folder) == expected, "no file is left over or lost"
        assert {path.read_bytes() for path in (folder / "made" / "notes.txt", folder / ".bpejit.json.old")} == {b"mine"}
        if not killed:
            break
    else:
        pytest.fail("there are more steps than thought")
    assert OLD in outcomes if existing else None in outcomes
    assert NEW in outcomes
    assert step > (4 if case == "vocabulary" else 15)


def no_links(path: Path, target: Path) -> None:
    raise PermissionError(1, "no links here")


def reader_sees(load: Callable[[Path], Model], folder: Path) -> Model | None:
    try:
        return load(folder)
    except BpejitError:
        return None


@pytest.mark.parametrize("existing", [False, True], ids=["to public", "to private"])
def test_killed_between_public_and_private_files(tmp_path: Path, existing: bool) -> None:
    """The two kinds of folders have different files; those of the other kind are removed in the same exchange."""
    first, second = (NEW, PRIVATE) if existing else (PRIVATE, NEW)
    for step in range(1, 200):
        folder = tmp_path / str(step)
        folder.mkdir()
        save("bpejit")(folder, first)
        killed = run_killed(lambda folder=folder: save("bpejit")(folder, second, overwrite=True), step, folder)
        found = load_folder(folder / "made")
        assert found in (first, second)
        save("bpejit")(folder, second, overwrite=True)
        assert load_folder(folder / "made") == second
        private = {"made/model.json", "made/bpejit.json", "made/token_bytes.npy"}
        assert names(folder) == (private if second is PRIVATE else private - {"made/model.json"} | PUBLIC)
        if not killed:
            return
    pytest.fail("there are more steps than thought")


PUBLIC = {"made/tokenizer.json", "made/tokenizer_config.json", "made/token_bytes.npy"}


@pytest.mark.parametrize("first", [9, 12, 15, 18])
def test_killed_while_recovering(tmp_path: Path, first: int) -> None:
    """Recovery itself may be killed at any step, and is repeated."""
    for step in range(1, 100):
        folder = tmp_path / str(step)
        folder.mkdir()
        save("bpejit")(folder, OLD)
        assert run_killed(lambda folder=folder: save("bpejit")(folder, overwrite=True), first, folder)
        target = folder / "made" / "bpejit.json"
        killed = run_killed(lambda target=target: recover([target]), step, folder)
        assert load_folder(folder / "made") in (OLD, NEW)
        recover([target])
        assert names(folder) == {"made/bpejit.json"} | PUBLIC
        if not killed:
            return
    pytest.fail("there are more steps than thought")


# ---- leftovers of other processes


def test_temporary_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    def write() -> None:
        with replacing(tmp_path / "out") as file:
            file.write(bytes(1000))
            os._exit(9)

    assert run_killed(write, 0, tmp_path)
    (left,) = names(tmp_path)
    assert boot_name() in left
    with replacing(tmp_path / "another") as file:
        file.write(b"x")
    assert names(tmp_path) == {"another"}


def test_temporary_files_of_live_processes_are_preserved(tmp_path: Path) -> None:
    alive = (tmp_path / "alive").open("wb")
    alive.close()
    theirs = {
        hidden(tmp_path / "a", "tmp").name.replace(boot_name(), "0123456789ab"),  # another machine
        hidden(tmp_path / "a", "new").name,
        hidden(tmp_path / "a", "old").name,
        ".a.tmp",
        ".a.bpejit.tmp",
        "a.bpejit-0123456789ab-0123456789ab.tmp",
    }
    for name in theirs:
        (tmp_path / name).write_bytes(b"theirs")
    with replacing(tmp_path / "slow") as slow:
        slow.write(b"slow")
        with replacing(tmp_path / "quick") as quick:  # does not remove the file of `slow`, which is in use
            quick.write(b"quick")
    assert names(tmp_path) == {"alive", "slow", "quick", *theirs}


def test_nothing_is_removed_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_arguments: object) -> None:
        raise OSError(95, "not supported")

    left = hidden(tmp_path / "a", "tmp")
    left.write_bytes(b"?")
    with monkeypatch.context() as patch:
        patch.setattr(temporary.fcntl, "flock", unsupported)
        with replacing(tmp_path / "out") as file:
            file.write(b"x")
        assert left.exists()
    with replacing(tmp_path / "out") as file:
        file.write(b"x")
    assert not left.exists()


def half_done(folder: Path) -> Path:
    """Leave an exchange without its description; return the journal."""
    folder.mkdir()
    save("bpejit")(folder, OLD)
    for step in range(5, 100):
        run_killed(lambda: save("bpejit")(folder, overwrite=True), step, folder)
        journal = journal_path((folder / "made" / "bpejit.json").resolve())
        if journal.exists() and not (folder / "made" / "bpejit.json").exists():
            return journal
    raise AssertionError("no such step")


def test_exchange_of_another_machine_is_preserved_for_a_minute(tmp_path: Path) -> None:
    journal = half_done(tmp_path / "work")
    fields = json.loads(journal.read_bytes())
    journal.write_text(json.dumps({**fields, "boot": "0123456789ab"}))
    for attempt in (lambda: save("bpejit")(tmp_path / "work", overwrite=True), lambda: load_folder(tmp_path / "work" / "made")):
        with pytest.raises((OutputError, TokenizerFormatError), match=r"are being replaced by another process.*try again"):
            attempt()
    assert load_folder_after(journal, seconds=61) == OLD


def load_folder_after(journal: Path, seconds: float) -> Model:
    then = time.time() - seconds
    os.utime(journal, (then, then))
    return load_folder(journal.parent)


def test_running_exchange_is_not_disturbed(tmp_path: Path) -> None:
    journal = half_done(tmp_path / "work")
    with temporary.taken(journal) as taken:  # as if held by the process that replaces the files
        assert taken
        with pytest.raises(TokenizerFormatError, match="are being replaced by another process"):
            load_folder(tmp_path / "work" / "made")
        with pytest.raises(OutputError, match="are being replaced by another process"):
            save("bpejit")(tmp_path / "work", overwrite=True)
    assert load_folder(tmp_path / "work" / "made") == OLD


def test_changes_by_the_user_are_not_undone(tmp_path: Path) -> None:
    journal = half_done(tmp_path / "work")
    (journal.parent / "bpejit.json").write_bytes(b"mine")
    with pytest.raises(OutputError, match=r"another file was created there since; the content before that run is"):
        save("bpejit")(tmp_path / "work", overwrite=True)
    assert (journal.parent / "bpejit.json").read_bytes() == b"mine"
    (journal.parent / "bpejit.json").unlink()
    assert load_folder(journal.parent) == OLD
    journal = half_done(tmp_path / "again")
    for path in journal.parent.glob("*.tmp"):
        path.unlink()
    for path in journal.parent.glob(".*.tmp"):
        path.unlink()
    with pytest.raises(TokenizerFormatError, match="that file was removed since"):
        load_folder(journal.parent)


def test_damaged_journal(tmp_path: Path) -> None:
    journal = half_done(tmp_path / "work")
    for data in (b"", b"{", b"[]", b'{"format": "bpejit journal", "format_version": 2, "entries": []}', b"\xff"):
        journal.write_bytes(data)
        with pytest.raises(BpejitError, match=r"cannot be read; expected a journal of this version"):
            save("bpejit")(tmp_path / "work", overwrite=True)


def hidden_name(target: str, kind: str) -> str:
    return f"{Path(target).parent / ('.' + Path(target).name)}.bpejit-{'0' * 12}-{'1' * 12}.{kind}"


@pytest.mark.parametrize("way", ["remove any file", "remove by a hidden name", "replace", "replace through a parent folder"])
def test_planted_journal_changes_no_other_file(tmp_path: Path, way: str) -> None:
    precious, made = tmp_path / "precious", tmp_path / "work" / "made"
    precious.write_bytes(b"mine")
    save("bpejit")(tmp_path / "work", OLD)
    description = ["bpejit.json", hidden_name("bpejit.json", "tmp"), hidden_name("bpejit.json", "old")]
    (made / "bpejit.json").rename(made / description[2])
    (made / description[1]).write_bytes(b"{}")
    outside = "../../precious" if "parent" in way else str(precious)
    entries = {
        "remove any file": [["nothing", None, outside]],
        "remove by a hidden name": [["nothing", None, f"{outside}/{hidden_name('x', 'old')}"]],
    }.get(way, [[outside, hidden_name(outside, "tmp"), hidden_name(outside, "old")]])
    fields = {"format": "bpejit journal", "format_version": 1, "boot": "0123456789ab", "entries": [*entries, description]}
    journal = journal_path(made / "bpejit.json")
    journal.write_text(json.dumps(fields))
    with pytest.raises(BpejitError, match=r"cannot be read; expected a journal of this version"):
        load_folder_after(journal, seconds=61)
    assert precious.read_bytes() == b"mine"


def test_journal_of_another_user_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = half_done(tmp_path / "work")
    before = names(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(exchange, "_is_trusted", lambda _journal: False)
        with pytest.raises(TokenizerFormatError, match="belongs to another user"):
            load_folder(journal.parent)
        with replacing(journal.parent / "unrelated") as file:  # its files are not removed as leftovers
            file.write(b"x")
    assert names(tmp_path) == before | {"work/made/unrelated"}
    assert load_folder(journal.parent) == OLD


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files to another user")
def test_owner_of_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_bytes(b"")
    assert exchange._is_trusted(journal)
    os.chown(journal, 12345, -1)
    assert not exchange._is_trusted(journal)
    os.chown(tmp_path, 12345, -1)
    assert exchange._is_trusted(journal)


def test_exchange_of_other_files_is_ignored(tmp_path: Path) -> None:
    journal = half_done(tmp_path / "work")
    fields = json.loads(journal.read_bytes())
    journal.write_text(json.dumps({**fields, "boot": "0123456789ab"}))
    needed = names(tmp_path)
    with replacing_all([journal.parent / "x", journal.parent / "x.json"]) as files:
        for file in files:
            file.write(b"x")
    assert names(tmp_path) == needed | {"work/made/x", "work/made/x.json"}


def test_outputs_on_two_disks(tmp_path: Path) -> None:
    """A link puts the ids into another folder than the description."""
    for step in range(1, 100):
        folder, disk = tmp_path / str(step), tmp_path / str(step) / "disk"
        disk.mkdir(parents=True)
        tokens(folder, OLD)
        (folder / "t.bin").rename(disk / "t.bin")
        (folder / "t.bin").symlink_to(disk / "t.bin")
        killed = run_killed(lambda folder=folder: tokens(folder, overwrite=True), step, folder)
        with replacing(disk / "unrelated") as file:  # its files are not removed as leftovers
            file.write(b"x")
        assert read_tokens(folder) in (OLD, NEW)
        tokens(folder, overwrite=True)
        assert read_tokens(folder) == NEW
        assert (folder / "t.bin").is_symlink()
        if not killed:
            return
    pytest.fail("there are more steps than thought")


def test_moved_folder_is_recovered(tmp_path: Path) -> None:
    half_done(tmp_path / "work")
    (tmp_path / "work").rename(tmp_path / "elsewhere")
    assert load_folder(tmp_path / "elsewhere" / "made") == OLD


def test_reader_without_permission_explains_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = half_done(tmp_path / "work")

    def refused(*_arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(exchange, "_settle", refused)
    with pytest.raises(TokenizerFormatError, match=r"an earlier run was interrupted.*Permission denied.*run as the user"):
        load_folder(journal.parent)
    (journal.parent / "t.bin").touch()
    with pytest.raises(TokenFileError, match=r"the dtype of .* is not known"):
        open_tokens(journal.parent / "t.bin")


# ---- flushing


def test_files_are_flushed_before_success_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    save("bpejit")(tmp_path)
    for path in (*(tmp_path / "made").iterdir(), tmp_path / "made", tmp_path):
        assert path.stat().st_ino in flushed
    flushed.clear()
    with replacing(tmp_path / "one") as file:
        file.write(b"x")
    assert flushed == [(tmp_path / "one").stat().st_ino, tmp_path.stat().st_ino]


def test_files_and_folders_can_be_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This test waits for the disk; the others do not."""
    monkeypatch.setattr(os, "fsync", FLUSH)
    save("bpejit")(tmp_path, OLD)
    save("bpejit")(tmp_path, NEW, overwrite=True)
    assert read(tmp_path) == NEW


def test_file_systems_without_flush_are_supported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(number: int) -> Callable[[int], None]:
        def fsync(_descriptor: int) -> None:
            raise OSError(number, os.strerror(number))

        return fsync

    monkeypatch.setattr(os, "fsync", fails(22))
    save("bpejit")(tmp_path)
    assert read(tmp_path) == NEW
    monkeypatch.setattr(os, "fsync", fails(5))
    with pytest.raises(OutputError, match="Input/output error"):
        save("bpejit")(tmp_path, OLD, overwrite=True)
    assert read(tmp_path) == NEW


# ---- whole commands


@pytest.mark.parametrize("command", ["train", "encode", "decode", "subword train", "export"])
def test_killed_command_completes_on_second_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes(b"low lower lowest new newer\n" * 20)
    train = ["train", corpus, "--vocab-size", 260, "--engine", "serial", "--out"]
    encode = ["encode", corpus, "--tokenizer", tmp_path / "tokenizer", "--engine", "serial", "--out"]
    words = {
        "train": train,
        "encode": encode,
        "decode": ["decode", tmp_path / "tokens.bin", "--tokenizer", tmp_path / "tokenizer", "--out"],
        "subword train": ["subword", "train", corpus, "--vocab-size", 60, "--out"],
        "export": ["export", tmp_path / "tokenizer", "--to", "gpt2", "--out"],
    }[command]
    for preparing in ([*train, tmp_path / "tokenizer"], [*encode, tmp_path / "tokens.bin"]):
        assert invoke(*preparing).exit_code == 0
    whole = tmp_path / "whole"
    whole.mkdir()
    assert invoke(*words, whole / "out").exit_code == 0
    for step in (3, 12):
        folder = tmp_path / str(step)
        folder.mkdir()
        run_killed(lambda folder=folder: invoke(*words, folder / "out"), step, folder)
        again = invoke(*words, folder / "out")
        assert again.exit_code == 0 or "already exists" in again.stderr
        assert snapshot(folder) == snapshot(whole)
        assert invoke(*words, folder / "out", "--overwrite").exit_code == 0
        assert snapshot(folder) == snapshot(whole)
