"""Tokenizers at URLs such as `s3://bucket/tokenizer`: read and written through copies in a temporary folder.

A tokenizer consists of several files, which an object store cannot replace together. Its main file is stored last, and removed
first if it is replaced, so that nobody reads files that do not belong together.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from bpejit.errors import BpejitError, OutputError, TokenizerFormatError
from bpejit.formats.sidecar import sidecar_path
from bpejit.formats.token_bytes import TOKEN_BYTES_FILE
from bpejit.storage.remote import check_container, remote_errors, remote_file_system
from bpejit.storage.scratch import scratch_folder

_MAIN_FILES = ("tokenizer.json", "model.json", "vocab.json")


@contextmanager
def fetched_tokenizer(url: str, patterns: Iterable[str]) -> Iterator[Path]:
    """Yield a copy of a tokenizer at a URL, a file or a folder.

    Parameters
    ----------
    url : str
    patterns : iterable of str
        Names and glob patterns of the files to copy from a folder: those that tokenizers are read from.

    Raises
    ------
    TokenizerFormatError
        If it cannot be read; errors in the context name the URL.
    """
    with _copied(url, patterns, error=TokenizerFormatError) as (local, before):
        if not before:
            raise TokenizerFormatError(
                f"cannot read `{url}`: there is no tokenizer; expected an existing one: check the address"
            )
        yield local


@contextmanager
def stored_tokenizer(url: str, patterns: Iterable[str]) -> Iterator[Path]:
    """Yield a path for a tokenizer, with the files that exist at the URL, and store what is changed there.

    Raises
    ------
    OutputError
        If it cannot be stored; errors in the context name the URL.
    """
    with _copied(url, patterns, error=OutputError) as (local, before):
        yield local
        base = local.parent
        after = {path.relative_to(base).as_posix(): path.read_bytes() for path in base.rglob("*") if path.is_file()}
        changed = sorted(
            (name for name in after if before.get(name) != after[name]), key=lambda name: (_is_main(name, local), name)
        )
        file_system, home = remote_file_system(url.rstrip("/"), error=OutputError, what="the output")
        home = home.rpartition("/")[0]
        with remote_errors(url, error=OutputError, what="write"):
            for name in before:
                if name not in after or (name in changed and _is_main(name, local)):
                    file_system.rm_file(f"{home}/{name}")
            for name in changed:
                file_system.put_file(str(base / name), f"{home}/{name}")


def _is_main(name: str, local: Path) -> bool:
    return name == local.name or name.rpartition("/")[2] in _MAIN_FILES


@contextmanager
def _copied(url: str, patterns: Iterable[str], *, error: type[BpejitError]) -> Iterator[tuple[Path, dict[str, bytes]]]:
    """Yield the path of a copy, and the content of its files by their names beside it."""
    url = url.rstrip("/")
    parent, _, stem = url.rpartition("/")
    file_system, name = remote_file_system(url, error=error, what="the tokenizer")
    with scratch_folder(Path(tempfile.gettempdir()), "tokenizer") as scratch:
        base = scratch / "files"
        base.mkdir()
        with remote_errors(url, error=error, what="read" if error is TokenizerFormatError else "write"):
            file_system.invalidate_cache()
            check_container(url, file_system, name)
            before = {}
            for found in _files(file_system, name, (*patterns, TOKEN_BYTES_FILE)):
                before[found] = file_system.cat_file(f"{name.rpartition('/')[0]}/{found}")
                (base / found).parent.mkdir(exist_ok=True)
                (base / found).write_bytes(before[found])
        try:
            yield base / stem, before
        except BpejitError as cause:
            raise type(cause)(cause.args[0].replace(str(base), parent)) from cause


def _files(file_system: Any, name: str, patterns: tuple[str, ...]) -> list[str]:
    """Return the names of the files of a tokenizer, beside which it is."""
    stem = name.rpartition("/")[2]
    beside = {stem, sidecar_path(stem).name, f"{stem.rpartition('.')[0]}.py"}
    home = name.rpartition("/")[0]
    found = [one for one in beside if "." in one.strip(".") and file_system.isfile(f"{home}/{one}")]
    if stem not in found and file_system.isdir(name):
        names = [str(entry).rpartition("/")[2] for entry in file_system.ls(name, detail=False)]
        inside = [one for one in names if any(fnmatch(one, pattern) for pattern in patterns)]
        found += [f"{stem}/{one}" for one in inside if file_system.isfile(f"{name}/{one}")]
    return sorted(found)
