"""Recognize the format of a tokenizer's file, folder or repository of the Hub by name and content, and read the model.

Nothing is guessed: what a format does not contain has to be passed, and the error names the option.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from bpejit.errors import TokenizerFormatError
from bpejit.formats.base import TokenizerFormat
from bpejit.formats.compressed import decompressed_head, read_tokenizer_file
from bpejit.formats.published import explain_name
from bpejit.formats.registry import all_formats, load_format, name_by_suffix
from bpejit.formats.sidecar import SUFFIX as SIDECAR_SUFFIX, sidecar_path
from bpejit.formats.untrusted import check_gaps, check_words
from bpejit.model import Model
from bpejit.splitting.presets import Pattern
from bpejit.splitting.text_limits import REGEX_TIMEOUT
from bpejit.storage.exchange import recover_folder
from bpejit.storage.files import StrPath, parse_json, read_error

SCHEME = "hf:"

_NAME = re.compile(r"hf:(?P<repository>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[\w./-]+))?")


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
    try:
        from huggingface_hub import snapshot_download
    except ImportError as cause:
        raise TokenizerFormatError(
            f"`{name}` is on the Hugging Face Hub, and the package `huggingface_hub` is not installed ({cause}); "
            "expected it for names that begin with `hf:`: run `pip install 'bpejit[hf]'`"
        ) from cause
    try:
        folder = snapshot_download(found["repository"], revision=found["revision"], allow_patterns=list(patterns))
    except Exception as cause:
        reason = " ".join(str(cause).split()) or type(cause).__name__
        raise TokenizerFormatError(
            f"cannot download `{name}`: {reason}; expected a readable repository: check its name and the network, and log "
            "in if it is not public"
        ) from cause
    return Path(folder)


HEAD_BYTES = 1 << 10
"""The number of bytes at the start of a file that formats are recognized by."""

_SENTENCEPIECE = re.compile(rb"\n[\x01-\xff]\x01?\n[\x01-\x7f][^\n]{1,127}\x15", re.DOTALL)
"""The first piece of a model: a message in protobuf with a text and a score."""


def load_model(
    path: StrPath,
    *,
    pattern: Pattern | None = None,
    special_tokens: Mapping[str, int] | Iterable[str] | None = None,
    unicode: str | None = None,
    regex_timeout: float | None = REGEX_TIMEOUT,
) -> Model:
    """Read a tokenizer in any registered format.

    Parameters
    ----------
    path : path
        A file or a folder, or `hf:ORGANIZATION/NAME` or `hf:ORGANIZATION/NAME@REVISION` for a repository on the Hugging
        Face Hub (see `bpejit.formats.recognize`), or a URL such as `s3://bucket/tokenizer`.
    pattern : str or tuple of str, optional
        The split pattern, a preset's name or a regular expression, for a format that does not contain it.
    special_tokens : dict of str to int, optional
        Text and id of each special token, for a format that does not contain them. For GPT-2's pair a list is enough.
    unicode : str, optional
        The version of Unicode that the pattern follows, such as "15.0". The default is the version that a folder of bpejit
        names, or that of the tools that the file is for.
    regex_timeout : float, optional
        Stored as `Model.regex_timeout`.

    Raises
    ------
    TokenizerFormatError
        If the file is missing, broken or in no known format, if an option is required, or if one is passed though the file
        contains it.
    PatternError
        If `unicode` is not an available version.
    """
    if unicode is not None:
        from bpejit.splitting.unicode_versions import check_unicode

        check_unicode(unicode)
    if isinstance(path, str) and "://" in path:
        from bpejit.formats.remote_tokenizers import fetched_tokenizer  # not at the top: it imports `tempfile`, 5 ms
        from bpejit.storage.remote import is_remote

        if is_remote(path):
            with fetched_tokenizer(path, file_patterns()) as local:
                return load_model(
                    local, pattern=pattern, special_tokens=special_tokens, unicode=unicode, regex_timeout=regex_timeout
                )
    path = download(path, file_patterns()) if isinstance(path, str) and path.startswith(SCHEME) else Path(path)
    name, location = recognize(path)
    found = load_format(name)
    for option, value in (("pattern", pattern), ("special_tokens", special_tokens)):
        if found.complete and value is not None:
            raise TokenizerFormatError(
                f"`{location}` contains its pattern and special tokens; expected no `{option}=`: omit it"
            )
    model = (found.read_folder if path.is_dir() else found.read)(
        location, pattern=pattern, special_tokens=special_tokens, unicode=unicode
    )
    check_gaps(model, location, given=special_tokens is not None)
    if not found.complete:
        check_words(model, location)
    return model if regex_timeout == model.regex_timeout else replace(model, regex_timeout=regex_timeout)


def tokenizer_files(path: StrPath) -> list[Path]:
    """Return the files that may be read to load a tokenizer from `path`, a file or a folder."""
    location = Path(path)
    folder = location if location.is_dir() else location.parent
    known = None if location.is_dir() else name_by_suffix(location.suffix)
    formats = [*all_formats()] if known is None else [load_format(known)]
    names = [name for found in formats for name in found.file_names]
    files = [folder / name for name in dict.fromkeys(names)]
    if location.is_dir():
        suffixes = [suffix for found in formats for suffix in found.suffixes]
        files += [file for suffix in (*suffixes, SIDECAR_SUFFIX) for file in folder.glob(f"*{suffix}")]
    elif location.name not in names:
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
    head = decompressed_head(_read_head(location), HEAD_BYTES)
    content = None
    if head.lstrip()[:1] == b"{":
        content = parse_json(read_tokenizer_file(location), location, error=TokenizerFormatError)
    for found in candidates:
        if found.recognizes(head, content):
            return found.name, location
    kind = other_kind(location, head)
    raise TokenizerFormatError(
        f"`{location}` is {kind or 'in no known format'}; expected {_expected(candidates)}: pass the path of one of these"
    )


def other_kind(path: Path, head: bytes) -> str | None:
    """Return what a file in no known format is, by its first bytes; None if that is unknown."""
    if _SENTENCEPIECE.match(head):
        return "a SentencePiece model, which bpejit does not read"
    if path.name.startswith("vocab") and any(line.strip() in (b"[UNK]", b"[PAD]") for line in head.split(b"\n")):
        return "a WordPiece vocabulary, as of BERT, which bpejit does not read"
    return None


def _expected(formats: list[TokenizerFormat]) -> str:
    *first, last = [found.expected for found in formats]
    return f"{', '.join(first)}, or {last}"


def _read_head(path: Path) -> bytes:
    """Read the first bytes only, since a file that is no tokenizer may be large."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as cause:
        raise read_error(path, cause, error=TokenizerFormatError, what="tokenizer file") from cause


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
        others = [file for pattern in ("*.model", "vocab.txt") for file in sorted(folder.glob(pattern)) if file.is_file()]
        kinds = [f"`{file.name}` is {kind}" for file in others if (kind := other_kind(file, _read_head(file)))]
        raise TokenizerFormatError(
            f"`{folder}` contains no tokenizer{''.join(f', and {one}' for one in kinds)}; expected "
            f"{_expected([*all_formats()])}: check the path"
        )
    return found[0]
