"""Reports on token files, for `bpejit tokens` and `bpejit info`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bpejit.registry import AUTO

from .progress import format_bytes

FIRST_IDS = 10
"""Number of ids that a report shows."""


def describe_token_file(path: str, dtype: str | None, token_format: str, *, verify: bool = False) -> dict[str, Any]:
    """Return the fields of the report on a token file.

    Parameters
    ----------
    path : str
    dtype : str, optional
        Type of the ids, for files without a description.
    token_format : str
        Name of a format, or `auto`.
    verify : bool
        Read all ids, and raise an exception if they do not match the description.

    Returns
    -------
    dict
        `kind`, `path`, `file_bytes`, `format`, `dtype`, `tokens`, `documents`, `bytes_read`, `vocab_size`, `tokenizer_sha256`,
        `ids_sha256`, `verified` and `first_ids`. What is not known is None.
    """
    from bpejit.tokenfiles.opening import format_of, open_tokens, recognized_format

    known = dtype is not None or token_format != AUTO or recognized_format(path) is not None
    # A file of an unknown format may have either dtype. If it is complete, it opens as uint16.
    tokens = open_tokens(path, dtype=dtype or (None if known else "uint16"), format=token_format)
    if verify:
        tokens.verify()
    return {
        "kind": "tokens",
        "path": path,
        "file_bytes": tokens.path.stat().st_size,
        "format": format_of(path, token_format).name if known else None,
        "dtype": tokens.dtype if known else None,
        "tokens": len(tokens) if known else None,
        "documents": tokens.n_documents if known else None,
        "bytes_read": tokens.bytes_read,
        "vocab_size": tokens.vocab_size,
        "tokenizer_sha256": tokens.tokenizer_sha256,
        "ids_sha256": tokens.ids_sha256,
        "verified": verify,
        "first_ids": tokens[:FIRST_IDS].tolist() if known else None,
    }


def token_file_lines(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the report of `describe_token_file` as names and values."""
    path, size, n_tokens = fields["path"], fields["file_bytes"], fields["tokens"]
    yield ("file" if n_tokens is None else "token file"), path
    yield "file size", f"{size:,} bytes"
    if n_tokens is None:
        yield (
            "kind",
            f"not known: it is not a tokenizer, and there is no `{path}.json`; give `--dtype` for a token file",
        )
        yield "tokens", f"{size // 2:,} if they are uint16, {size // 4:,} if they are uint32"
        return
    yield "format", fields["format"]
    yield "dtype", fields["dtype"]
    yield "tokens", f"{n_tokens:,}"
    if fields["documents"] is not None:
        mean = f", {n_tokens / fields['documents']:,.1f} tokens on average" if fields["documents"] else ""
        yield "documents", f"{fields['documents']:,}{mean}"
    if fields["bytes_read"] is not None:
        ratio = f", {fields['bytes_read'] / n_tokens:.2f} per token" if n_tokens else ""
        yield "text", f"{fields['bytes_read']:,} bytes{ratio}"
    if fields["vocab_size"] is not None:
        yield "vocab size", f"{fields['vocab_size']:,}"
    if fields["tokenizer_sha256"] is not None:
        yield "tokenizer", fields["tokenizer_sha256"]
        yield "ids sha256", (fields["ids_sha256"] or "not in the description") + (", verified" if fields["verified"] else "")
    yield "first ids", " ".join(map(str, fields["first_ids"]))


def wrote_token_file(out: object, token_format: str, dtype: str) -> str:
    """Return the end of a summary: the files of a token file without its description, their format, size and dtype."""
    from bpejit.storage.outputs import is_device, is_standard_output
    from bpejit.tokenfiles import load_format
    from bpejit.tokenfiles.description import description_path

    path = str(out)
    if is_standard_output(path):
        return f"wrote to standard output ({token_format}, {dtype})"
    files = [] if is_device(path) else list(map(Path, load_format(token_format).files(path)))
    found = [file for file in files if file != description_path(files[0]) and file.is_file()]
    names = ", ".join(f"`{file}`" for file in found) or f"`{path}`"  # a URL or a device
    size = f", {format_bytes(sum(file.stat().st_size for file in found))}" if found else ""
    return f"wrote {names} ({token_format}{size}, {dtype})"
