"""Read and write a tokenizer in any registered format: a file, a folder, a URL, or a repository of the Hub.

The format of a file is recognized by its name and content. Nothing is guessed: what a format does not contain has to be passed,
and the error names the option.

A tokenizer at a URL such as `s3://bucket/tokenizer` is read and written through a copy in a temporary folder. It consists of
several files, which an object store cannot replace together. Its main file is stored last, and removed first if it is replaced,
so that nobody reads files that do not belong together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from bpejit.errors import BpejitError, OutputError, TokenizerFormatError, shorten
from bpejit.extras import import_extra
from bpejit.formats.base import Given, TokenizerFormat, all_formats, load_format, load_writable, name_by_suffix
from bpejit.formats.missing_parts import SUFFIX as SIDECAR_SUFFIX, explain_name, sidecar_path
from bpejit.formats.tokenizer_files import TOKEN_BYTES_FILE, check_gaps, check_words, read_head, read_tokenizer_file
from bpejit.model import Model
from bpejit.options import AUTO
from bpejit.splitting.text_limits import REGEX_TIMEOUT
from bpejit.storage.exchange import recover_folder
from bpejit.storage.files import StrPath, is_remote, parse_json
from bpejit.storage.remote import check_container, remote_access

if TYPE_CHECKING:
    from typing_extensions import Unpack

SCHEME = "hf:"

_NAME = re.compile(r"hf:(?P<repository>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[\w./-]+))?")

_MAIN_FILES = ("tokenizer.json", "model.json", "vocab.json")

# ---- reading


def download(name: str, patterns: Iterable[str]) -> Path:
    """Return the folder with the tokenizer files of a repository, downloaded unless the cache has them.

    Parameters
    ----------
    name : str
        `hf:ORGANIZATION/NAME`, or `hf:ORGANIZATION/NAME@REVISION` for a branch, tag or commit.
    patterns : iterable of str
        Names and glob patterns of the files to download: those that tokenizers are read from, and no weights.

    Raises
    ------
    TokenizerFormatError
        If the name is invalid, `huggingface_hub` is not installed, or the download fails.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise TokenizerFormatError(
            f"`{name}` is not the name of a repository of the Hugging Face Hub; expected `hf:ORGANIZATION/NAME` or "
            "`hf:ORGANIZATION/NAME@REVISION`: correct it"
        )
    hub = import_extra("huggingface_hub", f"the Hugging Face Hub, for `{name}`,", extra="hf", error=TokenizerFormatError)
    try:
        folder = hub.snapshot_download(found["repository"], revision=found["revision"], allow_patterns=list(patterns))
    except Exception as cause:
        reason = " ".join(str(cause).split()) or type(cause).__name__
        raise TokenizerFormatError(
            f"cannot download `{name}`: {reason}; expected a readable repository: check its name and the network, and log "
            "in if it is not public"
        ) from cause
    return Path(folder)


def load_model(path: StrPath, *, regex_timeout: float | None = REGEX_TIMEOUT, **given: Unpack[Given]) -> Model:
    """Read a tokenizer in any registered format.

    Parameters
    ----------
    path : path
        A file or a folder, or `hf:ORGANIZATION/NAME` or `hf:ORGANIZATION/NAME@REVISION` for a repository on the Hugging
        Face Hub (see `bpejit.formats.any_format`), or a URL such as `s3://bucket/tokenizer`.
    regex_timeout : float, optional
        Stored as `Model.regex_timeout`.
    **given
        What the files do not contain, or another version of Unicode, as for `bpejit.load`.

    Raises
    ------
    TokenizerFormatError
        If the file is missing, broken or in no known format, if an option is required, or if one is passed though the file
        contains it.
    PatternError
        If `unicode` is not an available version.
    """
    unicode = given.get("unicode")
    if unicode is not None:
        from bpejit.splitting.unicode_versions import check_unicode

        check_unicode(unicode)
    if is_remote(path):
        with _copied(str(path), error=TokenizerFormatError) as (local, before):
            if not before:
                raise TokenizerFormatError(
                    f"cannot read `{path}`: there is no tokenizer; expected an existing one: check the address"
                )
            return load_model(local, regex_timeout=regex_timeout, **given)
    path = download(path, file_patterns()) if isinstance(path, str) and path.startswith(SCHEME) else Path(path)
    name, location = recognize(path)
    found = load_format(name)
    for option in ("pattern", "special_tokens"):
        if found.complete and given.get(option) is not None:
            raise TokenizerFormatError(
                f"`{location}` contains its pattern and special tokens; expected no `{option}=`: omit it"
            )
    model = (found.read_folder if path.is_dir() else found.read)(location, **given)
    check_gaps(model, location, given=given.get("special_tokens") is not None)
    if not found.complete:
        check_words(model, location)
    return model if regex_timeout == model.regex_timeout else replace(model, regex_timeout=regex_timeout)


def tokenizer_files(path: StrPath) -> list[Path]:
    """Return the files that may be read to load a tokenizer from `path`, a file or a folder."""
    location = Path(path)
    if location.is_dir():
        files = [file for pattern in file_patterns() for file in location.glob(pattern)]
    elif name_by_suffix(location.suffix) is None and location.name in file_patterns():
        names = [pattern for pattern in file_patterns() if not pattern.startswith("*")]
        files = [file for name in names for file in location.parent.glob(name)]
    else:
        files = [location, sidecar_path(location)]
    return [file for file in files if file.is_file()]


def file_patterns() -> list[str]:
    """Return the names and glob patterns of all files that tokenizers are read from."""
    patterns: list[str] = []
    for found in all_formats():
        own = [*found.file_names, *(f"*{suffix}" for suffix in found.suffixes)]
        patterns += own if found.complete else [name for one in own for name in (one, one + SIDECAR_SUFFIX)]
    return list(dict.fromkeys(patterns))


def recognize(path: StrPath) -> tuple[str, Path]:
    """Return the name of the format of a file or folder, and the path that its reader takes.

    Raises
    ------
    TokenizerFormatError
        If the file does not exist or is in no known format, or if a folder contains several tokenizers.
    """
    location = Path(path)
    if location.is_dir():
        recover_folder(location, error=TokenizerFormatError)
        return _recognize_folder(location)
    name = name_by_suffix(location.suffix)
    if name is not None and location.exists():
        return name, location
    candidates = [*all_formats()]
    if not location.exists():
        for found in candidates:
            if found.exclusive:  # its files may appear when an interrupted run is completed
                found.locate(location)
    if not location.exists():
        advice = explain_name(os.fspath(path))
        if advice is not None:
            raise TokenizerFormatError(advice)
        return candidates[0].name, location  # its reader explains what is missing
    for found in candidates:
        located = found.locate(location)
        if located is not None:
            return found.name, located
    head = read_head(location)
    for content in _contents(location, head):
        for found in candidates:
            if found.recognizes(head, content):
                return found.name, location
    kind = other_kind(location, head)
    raise TokenizerFormatError(
        f"`{location}` is {kind or 'in no known format'}; expected {_expected(candidates)}: pass the path of one of these"
    )


def _contents(location: Path, head: bytes) -> Iterator[Any]:
    """Yield None, for those that know a file by its first bytes, and then the content of a JSON object."""
    yield None
    if head.lstrip()[:1] == b"{":
        yield parse_json(read_tokenizer_file(location), location, error=TokenizerFormatError)


def other_kind(path: Path, head: bytes) -> str | None:
    """Return what a file in no known format is, by its first bytes; None if that is unknown."""
    if path.name.startswith("vocab") and any(line.strip() in (b"[UNK]", b"[PAD]") for line in head.split(b"\n")):
        return "a WordPiece vocabulary, as of BERT, which bpejit does not read"
    return None


def _expected(formats: list[TokenizerFormat]) -> str:
    *first, last = [found.expected for found in formats]
    return f"{', '.join(first)}, or {last}"


def _recognize_folder(folder: Path) -> tuple[str, Path]:
    found: list[tuple[str, Path]] = []
    for candidate in all_formats():
        paths = [(candidate.name, path) for path in candidate.find(folder)]
        if paths and candidate.exclusive:
            return paths[0]
        found += paths
    if len(found) > 1:
        names = ", ".join(f"`{location.name}`" for _, location in found)
        raise TokenizerFormatError(
            f"`{folder}` contains several tokenizers ({names}); expected one: pass the path of the one to read"
        )
    if not found:
        others = [file for file in folder.glob("vocab.txt") if file.is_file()]
        kinds = [f"`{file.name}` is {kind}" for file in others if (kind := other_kind(file, read_head(file)))]
        raise TokenizerFormatError(
            f"`{folder}` contains no tokenizer{''.join(f', and {one}' for one in kinds)}; expected "
            f"{_expected([*all_formats()])}: check the path"
        )
    return found[0]


# ---- writing


def check_save(path: StrPath, *, format: str, inputs: Iterable[StrPath], overwrite: bool) -> None:  # noqa: A002
    """Raise the errors of `save_model` that can be known before the tokenizer is read from `inputs`."""
    _check_suffix(path, format)
    with output_path(path) as local:
        load_format(format).check_write(local, inputs=inputs, overwrite=overwrite)


def _check_suffix(path: StrPath, format: str) -> None:  # noqa: A002
    owner = name_by_suffix(PurePath(path).suffix)
    if owner not in (None, format):
        raise TokenizerFormatError(
            f"`{path}` has a suffix of the format {owner}, and the format is {format}; expected another suffix: change "
            "the format, or the name"
        )


def chosen_format(path: StrPath, format: str) -> str:  # noqa: A002
    """Return the format, and for `auto` that of the suffix, or `bpejit`."""
    is_automatic = isinstance(format, str) and format == AUTO
    return (name_by_suffix(PurePath(path).suffix) or "bpejit") if is_automatic else format


def save_model(
    model: Model,
    path: StrPath,
    *,
    format: str = "bpejit",  # noqa: A002 - the usual word
    legacy_merges: bool = False,
    overwrite: bool = False,
) -> str | None:
    """Write a model; parameters, result and errors are the same as for `Tokenizer.save`."""
    found = load_writable(format)
    _check_suffix(path, format)
    if legacy_merges and not found.has_tokenizer_json:
        raise TokenizerFormatError(
            f"the format {shorten(format)} has no `tokenizer.json`; expected no `legacy_merges`: omit it"
        )
    with output_path(path) as local:
        return found.write(model, local, legacy_merges=legacy_merges, overwrite=overwrite)


# ---- URLs


@contextmanager
def output_path(path: StrPath) -> Iterator[StrPath]:
    """Yield a path at which a tokenizer is written: for a URL that of a copy, which is stored at the end.

    Raises
    ------
    OutputError
        If it cannot be stored; errors in the context name the URL.
    """
    if not is_remote(path):
        yield path
        return
    url = str(path)
    with _copied(url, error=OutputError) as (local, before):
        yield local
        base = local.parent
        after = {path.relative_to(base).as_posix(): path.read_bytes() for path in base.rglob("*") if path.is_file()}
        changed = sorted(
            (name for name in after if before.get(name) != after[name]), key=lambda name: (_is_main(name, local), name)
        )
        with remote_access(url.rstrip("/")) as (file_system, found):
            home = found.rpartition("/")[0]
            for name in before:
                if name not in after or (name in changed and _is_main(name, local)):
                    file_system.rm_file(f"{home}/{name}")
            for name in changed:
                file_system.put_file(str(base / name), f"{home}/{name}")


def _is_main(name: str, local: Path) -> bool:
    return name == local.name or name.rpartition("/")[2] in _MAIN_FILES


@contextmanager
def _copied(url: str, *, error: type[BpejitError]) -> Iterator[tuple[Path, dict[str, bytes]]]:
    """Yield the path of a copy, and the content of its files by their names beside it."""
    from bpejit.storage.files import scratch_folder

    url = url.rstrip("/")
    parent, _, stem = url.rpartition("/")
    what = "read" if error is TokenizerFormatError else "write"
    with scratch_folder(None, "tokenizer") as scratch:
        base = scratch / "files"
        base.mkdir()
        with remote_access(url, what, error=error, noun="the tokenizer") as (file_system, name):
            file_system.invalidate_cache()
            check_container(url, file_system, name)
            before = {}
            for found in _remote_files(file_system, name, (*file_patterns(), TOKEN_BYTES_FILE)):
                before[found] = file_system.cat_file(f"{name.rpartition('/')[0]}/{found}")
                (base / found).parent.mkdir(exist_ok=True)
                (base / found).write_bytes(before[found])
        try:
            yield base / stem, before
        except BpejitError as cause:
            raise type(cause)(cause.args[0].replace(str(base), parent)) from cause


def _remote_files(file_system: Any, name: str, patterns: tuple[str, ...]) -> list[str]:
    """Return the names of the files of a tokenizer, beside which it is."""
    home, _, stem = name.rpartition("/")
    beside = {stem, sidecar_path(stem).name, f"{stem.rpartition('.')[0]}.py"}
    found = [one for one in beside if "." in one.strip(".") and file_system.isfile(f"{home}/{one}")]
    if stem not in found and file_system.isdir(name):
        names = [str(entry).rpartition("/")[2] for entry in file_system.ls(name, detail=False)]
        inside = [one for one in names if any(fnmatch(one, pattern) for pattern in patterns)]
        found += [f"{stem}/{one}" for one in inside if file_system.isfile(f"{name}/{one}")]
    return sorted(found)
