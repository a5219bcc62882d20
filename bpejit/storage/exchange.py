"""Replace several files as one transaction: after a kill or a power cut, the next run finds all old files or all new ones.

The last file describes the others. The protocol:

1. The new files are written completely under hidden names, and flushed to disk.
2. A journal beside the description lists, for each file, its name, the hidden name of the new content, and the hidden name that
   the old content will get. It is flushed, and the process holds a lock on it while the exchange runs.
3. The old description is moved aside, then the files to be removed. From now on readers find no description.
4. Each old file gets its second name (a hard link, or a rename if the file system has no links), and the new content is renamed
   over it.
5. The folders are flushed, and the new description is renamed to its final name. This is the commit: before it the exchange has
   not happened, after it the exchange has happened.
6. The folders are flushed, the old files are removed, then the journal.

Recovery reads the journal of a process that has ended. If the hidden new description still exists, step 5 was not reached: new
contents are renamed back to their hidden names and old ones to their final names, the old description last, and the journal is
removed. Otherwise step 5 was completed, and only step 6 is repeated. Each step of the recovery can itself be interrupted and
repeated. An exchange that fails in a running process is rolled back in the same way.

The process of a journal has ended if the lock is free and the journal was written since this machine was started. A journal of
another boot, of this machine before a power cut or of another machine that shares the storage, must also be one minute old,
since locks do not reach every machine. An exchange takes milliseconds. Files that are not in the journal are never touched.

A journal can also be planted, by another user of a shared folder or in a downloaded folder. It is read only if it belongs to
this user or to the owner of its folder, and only files with the hidden names above are removed. A file in another folder than
the journal is touched only by a command that writes this very file. Every other run, and each reader, completes or rolls back
the files beside the journal alone, which is possible if all files elsewhere are new or all are old, and leaves the journal.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from bpejit.errors import BpejitError, OutputError
from bpejit.storage.temporary import (
    boot_name,
    hidden,
    is_this_boot,
    lock,
    name_new,
    remove,
    remove_leftovers,
    sync_file,
    sync_folders,
    taken,
)

FORMAT = "bpejit journal"

FORMAT_VERSION = 1

FOREIGN_SECONDS = 60.0
"""Minimum age of a journal of another boot before it is recovered."""

_JOURNAL = re.compile(r"\..{1,40}\.bpejit-[0-9a-f]{12}\.journal", re.DOTALL)

_HIDDEN_END = re.compile(r"\.bpejit-[0-9a-f]{12}-[0-9a-f]{12}\.(?:tmp|new|old)")


class Entry(NamedTuple):
    """One file of an exchange.

    Parameters
    ----------
    target : Path
    staged : Path, optional
        Path of the new content; None for a file that is removed.
    aside : Path
        Path of the old content during the exchange.
    """

    target: Path
    staged: Path | None
    aside: Path


def journal_path(description: Path) -> Path:
    """Return the journal of exchanges whose last file is `description`."""
    name = hashlib.sha256(os.fsencode(description.name)).hexdigest()[:12]
    return description.with_name(f".{description.name[:40]}.bpejit-{name}.journal")


def exchange_files(files: list[tuple[Path, Path]], removed: list[Path]) -> None:
    """Rename complete files to their final names, all or none. A single file is renamed at once, without a journal.

    Parameters
    ----------
    files : list of (Path, Path)
        Hidden and final path of each new file, without symbolic links. The last is the description.
    removed : list of Path
        Files to remove in the same exchange.

    Raises
    ------
    OSError
        If a step fails; `filename` is the file. All files are then unchanged.
    """
    if len(files) == 1 and not removed:
        staged, target = files[0]
        staged.replace(target)
        sync_folders([target.parent])
        return
    entries = [Entry(path, None, hidden(path, "old")) for path in removed]
    entries += [Entry(target, staged, hidden(target, "old")) for staged, target in files]
    journal = journal_path(entries[-1].target)
    written = hidden(entries[-1].target, "tmp")
    file: BinaryIO | None = None
    with ExitStack() as stack:
        try:
            sync_folders([entry.target.parent for entry in entries])
            file = stack.enter_context(written.open("xb"))  # locked until the end
            _write_journal(entries, file, written, journal)
            _apply(entries)
            _finish(entries, [], journal)
        except BaseException:
            with suppress(OSError, OutputError):
                if file is not None and os.path.samestat(os.fstat(file.fileno()), journal.stat()):  # this process wrote it
                    _settle(entries, [], journal)
            remove(written)
            raise


def _write_journal(entries: list[Entry], file: BinaryIO, written: Path, journal: Path) -> None:
    """Write a journal into an empty file, and give it its name."""
    home = journal.parent
    # Relative to the folder of the journal if they are in it.
    paths = [[path and str(path).removeprefix(f"{home}{os.sep}") for path in entry] for entry in entries]
    fields = {"format": FORMAT, "format_version": FORMAT_VERSION, "boot": boot_name(), "entries": paths}
    lock(file.fileno())
    file.write(json.dumps(fields).encode("ascii"))
    file.flush()
    sync_file(file.fileno())
    if not name_new(written, journal):
        raise OutputError(_busy(journal))
    remove(written)
    sync_folders([home])


def _apply(entries: list[Entry]) -> None:
    *others, description = entries
    with suppress(FileNotFoundError):
        description.target.rename(description.aside)
    for entry in others:
        _replace(entry)
    folders = [entry.target.parent for entry in entries]
    sync_folders(folders)
    assert description.staged is not None
    description.staged.replace(description.target)
    sync_folders(folders)


def _state(entry: Entry) -> str:
    """Return whether a file has its `old` or its `new` content, or is `missing` in between."""
    if entry.staged is None:
        return "old" if os.path.lexists(entry.target) else "new"
    if not os.path.lexists(entry.staged):
        return "new"
    return "missing" if os.path.lexists(entry.aside) and not os.path.lexists(entry.target) else "old"


def _replace(entry: Entry) -> None:
    """Give a file of an exchange its new content, unless it has it; or remove it."""
    if entry.staged is None:
        with suppress(FileNotFoundError):
            entry.target.rename(entry.aside)
    elif os.path.lexists(entry.staged):
        if entry.target.exists() and not os.path.lexists(entry.aside):
            try:  # a second name, so that the target exists throughout
                entry.aside.hardlink_to(entry.target)
            except (OSError, NotImplementedError):  # a file system without hard links
                entry.target.rename(entry.aside)
        entry.staged.replace(entry.target)


def _settle(entries: list[Entry], others: list[Entry], journal: Path) -> None:
    """Roll back an exchange that was not committed, or finish one that was.

    `others` are files that this run does not change. They keep their hidden files, and the journal lists them until their
    command runs again; the exchange is finished beside the journal alone if all of them are new.
    """
    if not os.path.lexists(journal):
        return
    target = entries[-1].target
    staged = entries[-1].staged
    saved = [entry.aside for entry in entries if os.path.lexists(entry.aside)]
    states = {_state(entry) for entry in others}
    if staged is None or not os.path.lexists(staged):  # it was committed
        if saved and not others and not os.path.lexists(target):
            raise OutputError(
                f"an earlier run was interrupted while it replaced `{target}`, and that file was removed since; the "
                f"content before that run is {', '.join(f'`{path}`' for path in saved)}: rename the files to keep, remove the "
                f"others and `{journal}`, and run again"
            )
        _finish(entries, others, journal)
    elif states <= {"old"}:
        _roll_back(entries)
        sync_folders([entry.target.parent for entry in entries])
        if not others:
            journal.unlink()
            sync_folders([journal.parent])
            for path in (entry.staged for entry in entries if entry.staged is not None):
                remove(path)
    elif states == {"new"}:
        _apply(entries)
        _finish(entries, others, journal)
    else:
        raise OutputError(
            f"an earlier run was interrupted while it replaced `{target}` and files in other folders, such as "
            f"`{others[0].target}`; expected to read complete files: run that command again"
        )


def _roll_back(entries: list[Entry]) -> None:
    for entry in entries:
        if entry.staged is not None and not os.path.lexists(entry.staged) and os.path.lexists(entry.target):
            entry.target.rename(entry.staged)
        if not os.path.lexists(entry.aside):
            continue
        if not os.path.lexists(entry.target):
            entry.aside.rename(entry.target)
        elif entry.aside.samefile(entry.target):
            entry.aside.unlink()
        else:
            raise OutputError(
                f"an earlier run was interrupted while it replaced `{entry.target}`, and another file was created there "
                f"since; the content before that run is `{entry.aside}`: keep the file that you want under the first name, "
                "remove the other, and run again"
            )


def _finish(entries: list[Entry], others: list[Entry], journal: Path) -> None:
    """Remove the old files of an exchange, and the journal once none is left."""
    for entry in entries:
        remove(entry.aside)
    if not any(os.path.lexists(entry.aside) for entry in (*others, *entries)):
        remove(journal)


def recover(paths: Iterable[Path], *, tree: Path | None = None) -> None:
    """Complete or roll back exchanges of ended processes in the folders of `paths`, and remove their temporary files.

    Parameters
    ----------
    paths : paths
        Files that are about to be written. Of files in other folders than a journal, only these are touched.
    tree : Path, optional
        A folder of outputs, all files of which may be written.

    Raises
    ------
    OutputError
        If one of `paths` is being replaced by another process, or cannot be recovered.
    """
    wanted = {Path(os.path.realpath(path)) for path in paths}
    top = None if tree is None else Path(os.path.realpath(tree))
    for folder in {path.parent for path in wanted}:
        remove_leftovers(folder, _recover_folder(folder, wanted, OutputError, top))


def recover_description(description: Path, *, error: type[BpejitError]) -> None:
    """Recover a description that does not exist. Nothing happens unless a journal lists it (see `recover`)."""
    if description.exists():
        return
    description = Path(os.path.realpath(description))
    if journal_path(description).exists():
        _recover_folder(description.parent, {description}, error)


def recover_folder(folder: Path, *, error: type[BpejitError]) -> None:
    """Recover a folder before a reader searches it (see `recover`). Exchanges in progress are not an error."""
    _recover_folder(Path(os.path.realpath(folder)), set(), error)


def _recover_folder(folder: Path, wanted: set[Path], error: type[BpejitError], tree: Path | None = None) -> set[Path]:
    """Settle the journals of a folder; return the files that unsettled journals still need."""
    needed: set[Path] = set()
    try:
        with os.scandir(folder) as found:
            journals = [folder / entry.name for entry in found if _JOURNAL.fullmatch(entry.name)]
    except OSError:
        return needed
    for journal in journals:
        with taken(journal) as free:
            if not journal.exists():
                continue
            trusted = _is_trusted(journal)
            try:
                entries, boot, age = _read_journal(journal)
            except OutputError:
                if trusted:
                    raise
                continue
            mine = not wanted.isdisjoint(entry.target for entry in entries)
            needed.update(path for entry in entries for path in (entry.staged, entry.aside) if path is not None)
            problem = ""
            if not trusted:
                problem = (
                    f"`{journal}` belongs to another user, whose run was interrupted while it replaced files there, or is "
                    "still running; expected your own journal: ask that user to run the command again, or choose another folder"
                )
            elif free is False or (not (is_this_boot(boot) and free) and age < FOREIGN_SECONDS):
                problem = _busy(journal)
            else:
                here = [entry for entry in entries if _may_change(entry, folder, wanted, tree)]
                try:
                    _settle(here, [entry for entry in entries if entry not in here], journal)
                except OutputError as cause:
                    problem = str(cause)
                except OSError as cause:
                    problem = (
                        f"an earlier run was interrupted while it replaced `{entries[-1].target}`, and its files cannot be "
                        f"recovered: {cause.strerror or cause}; expected a writable folder: change its "
                        "permissions, or run as the user who wrote it"
                    )
            if problem and mine:
                raise error(problem)
    return needed


def _read_journal(journal: Path) -> tuple[list[Entry], str, float]:
    """Return the entries of a journal, the boot in which it was written, and its age in seconds."""
    try:
        fields = json.loads(journal.read_bytes())
        if fields["format"] != FORMAT or fields["format_version"] != FORMAT_VERSION:
            raise ValueError
        paths = [[None if name is None else journal.parent / str(name) for name in entry] for entry in fields["entries"]]
        entries = [Entry(target, staged, aside) for target, staged, aside in paths if target is not None and aside is not None]
        boot = str(fields["boot"])
        if not entries or len(entries) != len(paths) or not all(_is_plausible(entry, journal, boot) for entry in entries):
            raise ValueError
        if journal_path(entries[-1].target) != journal:
            raise ValueError
        return entries, boot, time.time() - journal.stat().st_mtime
    except (OSError, ValueError, TypeError, KeyError) as cause:
        raise OutputError(
            f"`{journal}`, the journal of an interrupted run, cannot be read; expected a journal of this version: "
            "check the files beside it whose names end in `.old`, keep those that you want, and remove the journal"
        ) from cause


def _is_trusted(journal: Path) -> bool:
    """Return True if a journal belongs to this user or to the owner of its folder."""
    try:
        owner = journal.lstat().st_uid
        return owner in (_user(), journal.parent.stat().st_uid)
    except OSError:
        return False


def _is_plausible(entry: Entry, journal: Path, boot: str) -> bool:
    """Return True if the hidden names of an entry belong to its target, and this journal may change the target."""
    names = [entry.aside] if entry.staged is None else [entry.aside, entry.staged]
    os.fsencode(entry.target)
    if entry.target.name == ".." or "\0" in str(entry.target):
        return False
    for path in names:
        start = f".{entry.target.name[:40]}"
        if path.parent != entry.target.parent or not path.name.startswith(start):
            return False
        if not _HIDDEN_END.fullmatch(path.name[len(start) :]):
            return False
    if entry.target.parent == journal.parent:
        return True
    found = is_this_boot(boot) or any(os.path.lexists(path) for path in names)
    return found and journal.lstat().st_uid == _user()


def _may_change(entry: Entry, folder: Path, wanted: set[Path], tree: Path | None) -> bool:
    """Return True if a file is in the folder of its journal, or is one that this command writes."""
    parent = entry.target.parent
    if parent == folder or entry.target in wanted:
        return True
    return tree is not None and parent.is_relative_to(tree) and os.path.realpath(parent) == str(parent)


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0  # Windows: `st_uid` is 0


def _busy(journal: Path) -> str:
    return (
        f"the files of `{journal.parent}` are being replaced by another process (`{journal.name}`), perhaps on another "
        "machine; expected this to take less than a second: try again in a minute"
    )
