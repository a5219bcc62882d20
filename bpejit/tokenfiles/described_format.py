"""The template of formats whose files have a description: what is the same when they are written and opened."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from bpejit import arguments
from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath
from bpejit.tokenfiles.base import TokenFileFormat, TokenReader, choose_dtype
from bpejit.tokenfiles.description import (
    DTYPES,
    Description,
    check_description,
    described_format,
    description_path,
    read_description,
)
from bpejit.tokenfiles.file_writer import TokenFileWriter
from bpejit.tokenfiles.mapping import regular_size


class DescribedFormat(TokenFileFormat):
    """A format whose files have a description.

    Attributes
    ----------
    writer_type : type
    magic : bytes
        The first bytes of the files, by which they are recognized. Without, it is their suffix.
    states_dtype : bool
        Whether a dtype that is given is compared with that in the file alone. Otherwise it is compared with that of the
        description first.
    streams : bool
        Whether ids can be written to a stream, without a description.
    """

    writer_type: ClassVar[type[TokenFileWriter]]
    magic: ClassVar[bytes] = b""
    states_dtype: ClassVar[bool] = False
    streams: ClassVar[bool] = False

    def main_file(self, path: StrPath) -> StrPath:
        """Return the file with the ids."""
        return path

    def border_files(self, path: StrPath) -> list[Path]:  # noqa: ARG002
        """Return further files, with the borders of documents."""
        return []

    def files(self, path: StrPath) -> list[StrPath]:
        """Return the file with the ids, those with the borders of documents, and the description."""
        main = self.main_file(path)
        return [main, *self.border_files(main), description_path(main)]

    def choose_dtype(self, dtype: str, vocab_size: int) -> np.dtype[Any]:
        """Return the dtype of a new file (see `bpejit.tokenfiles.base.choose_dtype`)."""
        return choose_dtype(self.dtypes, dtype, vocab_size)

    def recognizes(self, path: StrPath) -> bool:
        """Return True if a file is described as one of this format, or is like one and has no description."""
        found = described_format(self.main_file(path))
        return self.is_like(path) if found is None else found == self.name

    def is_like(self, path: StrPath) -> bool:
        """Return True if a file without a description may be one of this format."""
        if not self.magic:
            return Path(path).suffix == self.suffix
        try:
            with Path(path).open("rb") as file:
                return file.read(len(self.magic)) == self.magic
        except OSError:
            return False

    def writer(self, path: StrPath | BinaryIO, *, dtype: str = "auto", vocab_size: int, **options: Any) -> TokenFileWriter:
        """Return a writer (see `TokenFileFormat.writer`), to which some formats give more options (see `token_writer`)."""
        return self.writer_type(self, path, dtype=self.choose_dtype(dtype, vocab_size), vocab_size=vocab_size, **options)

    def open(
        self, path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
    ) -> TokenReader:
        """Open a token file, checked against its description if there is one."""
        path = Path(self.main_file(arguments.path("path", path, error=TokenFileError)))
        if dtype is not None and not self.states_dtype:
            dtype = arguments.choice("dtype", dtype, DTYPES, error=TokenFileError)
        fields = read_description(path)  # first, because it may complete or undo an interrupted run
        size = regular_size(path)
        if fields is not None:
            asked = None if self.states_dtype else dtype
            check_description(
                path, fields, file_format=self.name, dtype=asked, tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size
            )
        return self.read(path, size, fields, dtype)

    @abstractmethod
    def read(self, path: Path, size: int, fields: Description | None, dtype: str | None) -> TokenReader:
        """Return an open token file, or raise TokenFileError.

        Parameters
        ----------
        path : Path
            The file with the ids.
        size : int
            Of this file, in bytes.
        fields : Description, optional
            Its description.
        dtype : str, optional
            The dtype that is expected.
        """
