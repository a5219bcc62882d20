"""Token files of datatrove: `<file>.ds` has the ids, `<file>.ds.index` the ends of documents, `<file>.ds.metadata` three lines.

The ids are uint16, or uint32 for vocabularies of more than 65,536 tokens; the ends are uint64 positions in the ids, without a 0
at the start. The metadata are `tokenizer|bytes per id`, the number of ids, and the same number for people. All numbers are
little-endian, and there are no headers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath, read_file
from bpejit.tokenfiles.description import DTYPES, Description, Dtypes
from bpejit.tokenfiles.mapping import Borders, Output, map_ids, regular_size
from bpejit.tokenfiles.templates import Ends, FileLayout, MappedFormat

_END = np.dtype("<u8")


def _index_path(path: StrPath) -> Path:
    return Path(f"{os.fspath(path)}.index")


def _metadata_path(path: StrPath) -> Path:
    return Path(f"{os.fspath(path)}.metadata")


class DatatroveFormat(MappedFormat):
    """The format of datatrove."""

    name = "datatrove"
    suffix = ".ds"
    dtypes: ClassVar[Dtypes] = DTYPES
    stores_documents = True
    states_dtype = False

    def layout(self, path: Path, size: int, dtype: str | None) -> FileLayout:  # noqa: ARG002
        """Read the metadata; without them, the dtype has to be known."""
        metadata = _metadata_path(path)
        stored, n_tokens = _read_metadata(path)
        if stored is None and dtype is None:
            raise TokenFileError(
                f"the dtype of `{path}` is not known: there is no `{metadata}`; expected that file or the dtype: pass "
                '`dtype="uint16"` or `dtype="uint32"`'
            )
        return FileLayout(DTYPES[stored or dtype or ""], 0, n_tokens, f"`{metadata}`")

    def border_files(self, path: StrPath) -> list[Path]:
        """Return the index and the metadata."""
        return [_index_path(path), _metadata_path(path)]

    def write_borders(self, files: Sequence[Output], fields: Description, ends: Ends) -> None:
        """Write both."""
        index, metadata = files
        for some in ends():
            index.write(some.data)
        name = f"bpejit:{fields.tokenizer_sha256 or 'unknown'}|{DTYPES[fields.dtype].itemsize}"
        metadata.write(f"{name}\n{fields.tokens}\n{_readable(fields.tokens)}".encode())

    def find_borders(self, path: Path, fields: Description | None, n_tokens: int) -> Borders | None:
        """Return the borders of documents; None if there is no index."""
        index = _index_path(path)
        return _read_index(index, n_tokens) if fields is not None or index.exists() else None

    def is_like(self, path: StrPath) -> bool:
        """Return True if a file has the suffix of the format, and an index."""
        return Path(path).suffix == self.suffix and _index_path(path).exists()


def _read_index(path: Path, n_tokens: int) -> Borders:
    """Return the borders of documents of an `.index` file.

    Raises
    ------
    TokenFileError
        If the file cannot be read, or its last number is not the number of ids.
    """
    ends = np.asarray(map_ids(path, regular_size(path), _END))
    borders = Borders(path, n_tokens, ends)
    last = int(ends[-1]) if ends.size else 0
    if last != n_tokens:
        raise borders.broken(f"the last document ends at {last}", f"{n_tokens}, the number of ids")
    return borders


def _read_metadata(path: Path) -> tuple[str | None, int | None]:
    """Return the dtype and the number of ids according to the metadata of a file; None for what they do not have."""
    metadata = _metadata_path(path)
    if not metadata.exists():
        return None, None
    lines = [*read_file(metadata, error=TokenFileError, what="metadata of a token file").split(b"\n"), b""]
    size = lines[0].rpartition(b"|")[2].strip()
    if size not in (b"2", b"4"):
        raise TokenFileError(
            f"`{metadata}` begins with {lines[0][-40:]!r}; expected the name of a tokenizer, `|`, and 2 or 4, the bytes of an "
            "id: move the file away and pass `dtype=`"
        )
    count = lines[1].strip()
    return "uint16" if size == b"2" else "uint32", int(count) if count.isdigit() and len(count) < 20 else None


def _readable(n_tokens: int) -> str:
    """Return a number of tokens with three digits and a prefix, such as `1.23 MT`."""
    for exponent, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if n_tokens >= 10**exponent:
            value = n_tokens / 10**exponent
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {prefix}T"
    return f"{n_tokens} T"
