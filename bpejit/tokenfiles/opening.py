"""Open token files for reading, in any registered format, which is named, or known from a file or its suffix."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.options import AUTO
from bpejit.progress_bar import Progress
from bpejit.storage.exchange import recover_description
from bpejit.storage.files import StrPath, parse_json, read_file
from bpejit.storage.outputs import MANIFEST, job_folder
from bpejit.tokenfiles import DEFAULT_FORMAT, format_names, load_format
from bpejit.tokenfiles.base import TokenFileFormat
from bpejit.tokenfiles.readers import JoinedTokens, TokenPaths, TokenReader, TokenSource

STANDARD_INPUT = "-"

_SEARCHED = 1 << 16
"""Number of ids that are searched for the end of a document at a time."""


def open_tokens(
    path: TokenPaths,
    *,
    dtype: str | None = None,
    tokenizer_sha256: str | None = None,
    vocab_size: int | None = None,
    format: str = AUTO,  # noqa: A002 - the usual word
) -> TokenReader:
    """Open a token file, or several as one, as a read-only sequence of ids, and check it against its description.

    The result has a length, and is indexed like an array: `tokens[i]` is an id, and `tokens[a:b]` an array of ids. If the
    borders of documents are stored, there are `n_documents` of them, and `document(k)` returns the ids of one. Formats whose
    ids are one array on disk are mapped into memory. The ids themselves are not read; `verify` compares them with the hash in
    the description.

    Several files have to agree in format, dtype and tokenizer. `n_documents` is None if one of them does not store the borders
    of documents, and a slice that begins in one file and ends in another is a copy.

    Parameters
    ----------
    path : path, or list of paths
        A token file, a glob, or the manifest of an encoding job, for its outputs without a validation set. The matches of a
        glob are sorted by name, with numbers as numbers; files that belong to another one, such as its description, are left
        out.
    dtype : str, optional
        `uint16` or `uint32`; required for a file of ids alone without a description.
    tokenizer_sha256 : str, optional
        `Model.sha256` of the tokenizer that is expected to have written the file. A file without a description passes.
    vocab_size : int, optional
        The vocabulary size of the same tokenizer.
    format : str
        Name of a registered format, or `auto` for the one that recognizes the file, and `bin` if none does.

    Raises
    ------
    TokenFileError
        If a file is missing or broken, was written by another tokenizer, or its dtype is not known; if a file is named twice,
        or differs from the others or the manifest; if no file matches a glob, or the job of a manifest is not finished.
    """
    expected: dict[str, Any] = {
        "dtype": dtype,
        "tokenizer_sha256": arguments.optional_string("tokenizer_sha256", tokenizer_sha256),
        "vocab_size": arguments.optional_whole_number("vocab_size", vocab_size, least=0),
    }
    files = find_token_files(path, format)
    if len(files) == 1:
        return files[0].open(**expected)
    named = path if isinstance(path, (str, os.PathLike)) else files[0].path
    return JoinedTokens(Path(named), len(files), lambda number: files[number].open(**expected))


class TokenFile(NamedTuple):
    """A token file that is to be opened, and attributes of its reader that a manifest states."""

    path: str
    form: TokenFileFormat
    manifest: Path | None = None
    stated: Mapping[str, Any] = {}

    def open(self, **expected: Any) -> TokenReader:
        """Open the file, and compare it with the manifest."""
        tokens = self.form.open(self.path, **expected)
        tokens.format = self.form.name
        if self.manifest is not None:
            tokens.check(self.stated, f"`{self.manifest}`")
        return tokens


def find_token_files(paths: TokenPaths, format: str = AUTO) -> list[TokenFile]:  # noqa: A002
    """Return the token files that `paths` name; parameters and errors are those of `open_tokens`."""
    found: list[TokenFile] = []
    for value in paths if isinstance(paths, (list, tuple)) else [paths]:
        name = arguments.path("path", value, error=TokenFileError)
        names = [name]
        if glob.has_magic(name) and not os.path.exists(name) and recognized_format(name) is None:  # noqa: PTH110 - as for inputs
            matches = filter(os.path.isfile, glob.glob(name, recursive=True))  # noqa: PTH207
            names = sorted(
                matches, key=lambda one: [part.zfill(20) if part.isdecimal() else part for part in re.split(r"(\d+)", one)]
            )
            if not names:
                raise TokenFileError(f"no file matches `{name}`; expected at least one token file: check the pattern")
        for one in names:
            listed = Path(one).name == MANIFEST or one.endswith(f".{MANIFEST}")
            found += _listed_files(Path(one), format) if listed else [TokenFile(one, format_of(one, format))]
    chosen: dict[str, TokenFile] = {}
    others: set[str] = set()
    for file in found:
        if os.path.realpath(file.path) in others:
            continue
        main, *more = map(os.path.realpath, file.form.files(file.path))
        if main in chosen:
            raise TokenFileError(f"`{file.path}` is named twice; expected each file once: leave it out where it is repeated")
        chosen[main] = file
        others.update(more)
    if not chosen:
        raise TokenFileError(f"{paths!r} names no token file; expected at least one: name one")
    return list(chosen.values())


def _listed_files(manifest: Path, format: str) -> Iterator[TokenFile]:  # noqa: A002
    """Yield the files that the manifest of an encoding job lists, without a validation set."""
    recover_description(manifest, error=TokenFileError)
    per_input = manifest.name == MANIFEST
    out = manifest.parent if per_input else manifest.with_name(manifest.name.removesuffix(f".{MANIFEST}"))
    if not manifest.exists() and job_folder(out, per_input=per_input).exists():
        raise TokenFileError(
            f"there is no `{manifest}`, since the job of `{out}` has not finished; expected a finished job: resume it, or join "
            "its parts with `bpejit combine`"
        )
    fields = parse_json(read_file(manifest, error=TokenFileError, what="manifest of a job"), manifest, error=TokenFileError)
    try:
        job = fields["job"]
        same = {name: job[name] for name in ("dtype", "tokenizer_sha256", "vocab_size")}
        files = [
            (
                manifest.parent / one["path"],
                {**same, "n_tokens": one["tokens"], "n_documents": one.get("rows", one["documents"])},
            )
            for one in fields["outputs"]
            if not one.get("validation")
        ]
        form = load_format(job["format"] if format == AUTO else format)
    except (KeyError, TypeError, AttributeError) as cause:
        raise TokenFileError(
            f"`{manifest}` does not list token files: {cause} is missing or wrong; expected the manifest of a finished "
            "encoding job: resume the job, or name the token files"
        ) from cause
    for path, stated in files:
        if not Path(form.files(path)[0]).exists():
            raise TokenFileError(
                f"there is no `{path}`, which `{manifest}` lists; expected all {len(files)} files of the job: copy it again, "
                "or encode the text again"
            )
        yield TokenFile(str(path), form, manifest, stated)


def read_tokens(
    path: TokenPaths,
    *,
    dtype: str | None = None,
    format: str = AUTO,  # noqa: A002
    **expected: Any,
) -> TokenSource:
    """Open token files to read them once, in blocks; `-` is standard input.

    Parameters and errors are the same as for `open_tokens`.
    """
    if str(path) == STANDARD_INPUT:
        return format_of(STANDARD_INPUT, format).open_stream(sys.stdin.buffer, dtype=dtype)
    return open_tokens(path, dtype=dtype, format=format, **expected)


def token_inputs(path: TokenPaths, *, format: str = AUTO) -> list[StrPath]:  # noqa: A002
    """Return the files that are read with token files."""
    if str(path) == STANDARD_INPUT:
        return [STANDARD_INPUT]
    files = find_token_files(path, format)
    manifests = {file.manifest for file in files if file.manifest is not None}
    return [*manifests, *(one for file in files for one in file.form.files(file.path))]


def format_of(path: StrPath, name: str = AUTO) -> TokenFileFormat:
    """Return the format with a name; for `auto`, the one that recognizes a file, or the default format.

    Raises
    ------
    TokenFileError
        If there is no format with this name.
    """
    if not isinstance(name, str) or name != AUTO:
        return load_format(name)
    return recognized_format(path) or load_format(DEFAULT_FORMAT)


def recognized_format(path: StrPath) -> TokenFileFormat | None:
    """Return the format that recognizes a file, or None if none does."""
    if os.fspath(path) == STANDARD_INPUT:
        return None
    candidates = map(load_format, format_names())
    return next((candidate for candidate in candidates if candidate.recognizes(Path(path))), None)


def describe_tokens(
    path: TokenPaths,
    *,
    dtype: str | None = None,
    format: str = AUTO,  # noqa: A002
    verify: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return what is known about token files, and their first ids; what is not known is None.

    With `verify`, all ids are read, and there is an exception if they do not match the description.
    """
    files = find_token_files(path, format)
    known = dtype is not None or format != AUTO or len(files) > 1 or recognized_format(files[0].path) is not None
    # A file of an unknown format may have either dtype. If it is complete, it opens as uint16.
    tokens = open_tokens(path, dtype=dtype or (None if known else "uint16"), format=format)
    if verify:
        tokens.verify(progress=progress)
    fields = {
        "kind": "tokens",
        "path": path,
        "files": len(files),
        "file_bytes": sum(Path(file.form.files(file.path)[0]).stat().st_size for file in files),
        "format": files[0].form.name,
        "dtype": tokens.dtype,
        "tokens": len(tokens),
        "documents": tokens.n_documents,
        **{name: getattr(tokens, name) for name in ("bytes_read", "vocab_size", "tokenizer_sha256", "ids_sha256")},
        "verified": verify,
        "first_ids": tokens[:10].tolist(),
    }
    return fields if known else fields | dict.fromkeys(("format", "dtype", "tokens", "documents", "first_ids"))


def divided_documents(tokens: TokenReader, separator: int | None) -> Iterator[Array]:
    """Yield the documents of a token file, divided after an id if their borders are not stored."""
    if tokens.n_documents is not None or separator is None:
        yield from (tokens.document(number) for number in range(tokens.n_documents or 1))
        return
    start = end = 0
    while end < len(tokens):
        found = (tokens[end : end + _SEARCHED] == separator).nonzero()[0]
        end = end + int(found[0]) + 1 if found.size else min(end + _SEARCHED, len(tokens))
        if found.size or end == len(tokens):
            yield tokens[start:end]
            start = end
