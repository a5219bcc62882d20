"""The description of a token file, in `<file>.json` beside it.

format, format_version
    What the file is. Version 1 describes files of the format `bin`, and version 2 those of other formats.
file_format
    The name of the format of the token file; absent in version 1.
dtype, byte_order
    The dtype of the ids, such as `uint16`, and `little`.
tokens
    The number of ids.
documents
    The number of documents; absent if their borders are not stored.
ids_sha256
    SHA-256 of the ids as little-endian numbers, which `sha256sum` prints for a file of the format `bin`. Descriptions of
    version 1 may lack it.
documents_sha256
    SHA-256 of the ends of documents as little-endian int64 positions in the ids; in packed rows, the ends of the documents and
    parts of documents in `document_lengths`. It is absent without `documents`, and may be in earlier files.
bytes_read
    The number of bytes of text that the ids encode.
tokenizer_sha256, vocab_size
    The hash of the tokenizer (`Model.sha256`), and one more than its largest id.

For ids of unknown origin, `bytes_read` and `tokenizer_sha256` are null, in version 2.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.errors import TokenFileError, shorten
from bpejit.storage.exchange import recover_description
from bpejit.storage.files import StrPath, parse_json, read_file

FORMAT = "bpejit token file"

FORMAT_VERSION = 2

BIN_FORMAT = "bin"
"""The format that descriptions of version 1 describe."""

BYTE_ORDER = "little"

Dtypes = Mapping[str, np.dtype[Any]]
"""Little-endian dtypes by their names."""

DTYPES: Dtypes = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
"""The dtypes of files without a dtype of their own."""

ALL_DTYPES: Dtypes = {name: np.dtype(name).newbyteorder("<") for name in ("uint8", "uint16", "int32", "uint32", "int64")}
"""The dtypes that a description can name."""

END_DTYPE = np.dtype("<i8")
"""The dtype of the ends of documents that are hashed."""

_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Description:
    """The fields of a description; those that are not known are None."""

    dtype: str
    tokens: int
    bytes_read: int | None
    vocab_size: int
    tokenizer_sha256: str | None
    ids_sha256: str | None
    documents: int | None = None
    file_format: str = BIN_FORMAT
    documents_sha256: str | None = None


def description_path(path: StrPath) -> Path:
    """Return the path of the description of the token file `path`."""
    return Path(f"{os.fspath(path)}.json")


def document_index_path(path: StrPath) -> Path:
    """Return the path of the document index of the token file `path`."""
    return Path(f"{os.fspath(path)}.docs.npy")


def write_description(fields: Description) -> bytes:
    """Return the content of a description."""
    other = fields.file_format != BIN_FORMAT or fields.tokenizer_sha256 is None
    content = {
        "format": FORMAT,
        "format_version": 2 if other else 1,
        **({"file_format": fields.file_format} if other else {}),
        "dtype": fields.dtype,
        "byte_order": BYTE_ORDER,
        "tokens": fields.tokens,
        **({} if fields.documents is None else {"documents": fields.documents}),
        "ids_sha256": fields.ids_sha256,
        **({} if fields.documents_sha256 is None else {"documents_sha256": fields.documents_sha256}),
        "bytes_read": fields.bytes_read,
        "vocab_size": fields.vocab_size,
        "tokenizer_sha256": fields.tokenizer_sha256,
    }
    return (json.dumps(content, indent=2) + "\n").encode()


def read_description(path: StrPath) -> Description | None:
    """Return the description of the token file `path`, or None if there is none. The files of an interrupted run are recovered.

    Raises
    ------
    TokenFileError
        If it is broken, or of a later version.
    """
    described = description_path(path)
    recover_description(described, error=TokenFileError)
    if not described.exists():
        return None
    data = read_file(described, error=TokenFileError, what="description of a token file")
    fields = parse_json(data, described, error=TokenFileError)
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        found = shorten(fields.get("format") if isinstance(fields, dict) else fields)
        raise TokenFileError(
            f"`{described}` is not the description of a token file: `format` is {found}; expected {FORMAT!r}: "
            "move the file away and pass `dtype=`"
        )
    get = fields.get
    version = get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        raise TokenFileError(
            f"`{described}` has format version {version}, and this bpejit reads versions up to {FORMAT_VERSION}; "
            "expected an older one: install a later bpejit (`pip install --upgrade bpejit`)"
        )
    unknown = version == 2 and "tokenizer_sha256" in fields and fields["tokenizer_sha256"] is None
    for key, valid, expected in (
        ("format_version", type(version) is int and version in (1, 2), "1 or 2"),
        ("file_format", isinstance(get("file_format"), str) == (version == 2), "the name of a format in version 2 only"),
        ("dtype", get("dtype") in tuple(ALL_DTYPES if version == 2 else DTYPES), "'uint16' or 'uint32'"),
        ("byte_order", get("byte_order") == BYTE_ORDER, repr(BYTE_ORDER)),
        ("tokens", _is_size(get("tokens")), "a number of tokens"),
        ("documents", "documents" not in fields or _is_size(fields["documents"]), "a number of documents"),
        ("ids_sha256", _is_hash(get("ids_sha256")), "a SHA-256 of 64 hexadecimal digits"),
        (
            "documents_sha256",
            _is_hash(get("documents_sha256")) and ("documents" in fields or "documents_sha256" not in fields),
            "a SHA-256 of 64 hexadecimal digits, beside `documents`",
        ),
        ("bytes_read", _is_size(get("bytes_read")) or (unknown and get("bytes_read") is None), "a number of bytes"),
        ("vocab_size", _is_size(get("vocab_size")), "a number of tokens"),
        ("tokenizer_sha256", unknown or isinstance(get("tokenizer_sha256"), str), "a SHA-256"),
    ):
        if not valid:
            raise TokenFileError(
                f"`{described}`: {key} is {shorten(get(key))}; expected {expected}: encode the text again, "
                "or move the description away and pass `dtype=`"
            )
    stored: dict[str, Any] = {one.name: get(one.name) for one in dataclasses.fields(Description)}
    return Description(**(stored | {"file_format": get("file_format", BIN_FORMAT)}))


_ACTIONS = {
    "file_format": "omit the format, or remove that file if it is wrong",
    "dtype": "omit the dtype, or remove that file if it is wrong",
    "tokenizer_sha256": "another tokenizer wrote the file: use that one, or encode the text again",
    "vocab_size": "use the tokenizer that wrote the file, encode the text again, or restore the description",
}
"""What to do if a field of a description is not what the caller expects."""


def check_description(path: Path, fields: Description, **stated: Any) -> None:
    """Compare the description of a token file with what the caller expects, which may be None.

    Raises
    ------
    TokenFileError
        If the format, the dtype, the tokenizer or the size of the vocabulary differs.
    """
    described = description_path(path)
    for name, expected in stated.items():
        found = getattr(fields, name)
        if expected not in (None, found) and found is not None:
            raise TokenFileError(f"`{described}`: {name} is {found}; expected {expected} for `{path}`: {_ACTIONS[name]}")
    most = int(np.iinfo(ALL_DTYPES[fields.dtype]).max) + 1
    if fields.vocab_size > most or fields.vocab_size == 0 < fields.tokens:
        expected = f"at most {most} for {fields.dtype}" if fields.vocab_size else f"at least 1 for {fields.tokens} tokens"
        raise TokenFileError(
            f"`{described}`: vocab_size is {fields.vocab_size}; expected {expected}: encode the text again, or restore the "
            "description"
        )


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_hash(value: Any) -> bool:
    return value is None or (isinstance(value, str) and _SHA256.fullmatch(value) is not None)
