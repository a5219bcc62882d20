"""Token files of datatrove: `<file>.ds` has the ids, `<file>.ds.index` the ends of documents, `<file>.ds.metadata` three lines.

The ids are uint16, or uint32 for vocabularies of more than 65,536 tokens; the ends are uint64 positions in the ids, without a 0
at the start. The metadata are `tokenizer|bytes per id`, the number of ids, and the same number for people. All numbers are
little-endian, and there are no headers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath, read_file, replacing
from bpejit.tokenfiles.base import TokenFileFormat, choose_dtype
from bpejit.tokenfiles.borders import Borders
from bpejit.tokenfiles.description import DTYPES, Description, described_format, description_path, read_description
from bpejit.tokenfiles.file_writer import TokenFileWriter
from bpejit.tokenfiles.mapped_tokens import MappedTokens, check_description, checked_tokens
from bpejit.tokenfiles.mapping import map_ids, regular_size

_NAME = "datatrove"

_END = np.dtype("<u8")


def _index_path(path: StrPath) -> Path:
    return Path(f"{os.fspath(path)}.index")


def _metadata_path(path: StrPath) -> Path:
    return Path(f"{os.fspath(path)}.metadata")


class DatatroveFormat(TokenFileFormat):
    """The format of datatrove."""

    name = _NAME
    suffix = ".ds"
    dtypes: ClassVar[Mapping[str, np.dtype[Any]]] = DTYPES
    stores_documents = True
    ids_position = 0

    def writer(
        self,
        path: StrPath | BinaryIO,
        *,
        dtype: str = "auto",
        vocab_size: int,
        tokenizer_sha256: str | None,
        overwrite: bool = False,
        document_index: bool = False,  # noqa: ARG002 - the index is always written
    ) -> DatatroveWriter:
        """Return a writer; streams are refused, because there are several files."""
        files: list[StrPath] = []
        if isinstance(path, (str, os.PathLike)):
            files = [path, _index_path(path), _metadata_path(path)]
        return DatatroveWriter(
            path,
            files=files,
            file_format=_NAME,
            dtype=choose_dtype(self.dtypes, dtype, vocab_size),
            vocab_size=vocab_size,
            tokenizer_sha256=tokenizer_sha256,
            overwrite=overwrite,
        )

    def _write_borders(self, path: Path, fields: Description, ends: Iterator[Array]) -> None:
        with replacing(_index_path(path)) as index:
            for some in ends:
                index.write(some.astype(_END).data)
        with replacing(_metadata_path(path)) as metadata:
            metadata.write(_metadata(fields.tokenizer_sha256, DTYPES[fields.dtype], fields.tokens))

    def open(
        self, path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
    ) -> MappedTokens:
        """Open a token file, checked against its description if there is one. Without metadata it needs a `dtype`."""
        path = Path(arguments.path("path", path, error=TokenFileError))
        dtype = None if dtype is None else arguments.choice("dtype", dtype, DTYPES, error=TokenFileError)
        fields = read_description(path)
        size = regular_size(path)
        stored, n_tokens = _read_metadata(path)
        found = stored or dtype
        if fields is not None:
            check_description(
                path, fields, file_format=_NAME, dtype=dtype, tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size
            )
            dtype = found = fields.dtype
        if found is None:
            raise TokenFileError(
                f"the dtype of `{path}` is not known: there is no `{_metadata_path(path)}`; expected that file or the "
                'dtype: pass `dtype="uint16"` or `dtype="uint32"`'
            )
        if stored is not None and dtype not in (None, stored):
            raise TokenFileError(
                f"`{path}` contains ids of {stored} according to `{_metadata_path(path)}`; expected {dtype}: omit the dtype"
            )
        ids = map_ids(path, size, DTYPES[found])
        if n_tokens not in (None, ids.size):
            raise TokenFileError(
                f"`{path}` has {ids.size} ids; expected {n_tokens}, the number in `{_metadata_path(path)}`: copy all files of "
                "the token file again, or encode the text again"
            )
        index = _index_path(path)
        borders = EndIndex(index, int(ids.size)) if fields is not None or index.exists() else None
        return checked_tokens(MappedTokens(path, ids, fields, borders))

    def files(self, path: StrPath) -> list[StrPath]:
        """Return the token file, its index, its metadata and its description."""
        return [path, _index_path(path), _metadata_path(path), description_path(path)]

    def recognizes(self, path: StrPath) -> bool:
        """Return True if a file is described as one of this format, or has the name of one and an index."""
        found = described_format(path)
        return found == _NAME if found is not None else Path(path).suffix == ".ds" and _index_path(path).exists()


class DatatroveWriter(TokenFileWriter):
    """Write a token file of datatrove, with its index and its metadata."""

    document_count = True

    def _append(self, ids: Array, ends: Array | None) -> None:
        super()._append(ids, ends)
        if ends is not None:
            self._others[0].write(ends.astype(_END).data)

    def _finish(self) -> None:
        self._others[1].write(_metadata(self._tokenizer_sha256, self.dtype, self.n_tokens))


def _metadata(tokenizer_sha256: str | None, dtype: np.dtype[Any], n_tokens: int) -> bytes:
    return f"bpejit:{tokenizer_sha256 or 'unknown'}|{dtype.itemsize}\n{n_tokens}\n{_readable(n_tokens)}".encode()


class EndIndex(Borders):
    """The ends of documents in an `.index` file.

    Parameters
    ----------
    path : Path
    n_tokens : int
        The number of ids, which is the last end.

    Raises
    ------
    TokenFileError
        If the file cannot be read, or does not fit the ids.
    """

    def __init__(self, path: Path, n_tokens: int) -> None:
        super().__init__(path, n_tokens)
        self._ends = np.asarray(map_ids(path, regular_size(path), _END))
        last = int(self._ends[-1]) if self._ends.size else 0
        if last != n_tokens:
            raise self.broken(f"the last document ends at {last}", f"{n_tokens}, the number of ids")

    def __len__(self) -> int:
        return int(self._ends.size)

    def _stored(self, start: int, stop: int) -> Array:
        return self._ends[start:stop].astype(np.int64)


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
