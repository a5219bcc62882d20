"""Open token files whose ids are one array on disk, which is mapped into memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import read_error
from bpejit.tokenfiles.base import BLOCK_TOKENS, TokenReader, document_number
from bpejit.tokenfiles.borders import Borders, EndReader
from bpejit.tokenfiles.description import Description
from bpejit.tokenfiles.document_index import document_index_path


class MappedTokens(TokenReader):
    """An open token file whose ids are one array.

    Parameters
    ----------
    path : Path
        The file that contains the ids.
    ids : integers [n_tokens]
        Mapped into memory, read-only.
    description : Description, optional
        The content of the description; None if there is none.
    borders : Borders, optional
        The borders of documents; None if they are not stored.
    offset : int
        The position of the first id in the file, in bytes.

    Raises
    ------
    TokenFileError
        If the dtype, the number of ids or the number of documents differs from the description.
    """

    def __init__(
        self,
        path: Path,
        ids: npt.NDArray[Any],
        description: Description | None = None,
        borders: Borders | None = None,
        offset: int = 0,
    ) -> None:
        self.path = path
        self.description = description
        self.dtype = str(ids.dtype.name)
        self.borders = borders
        self._ids = ids
        self._offset = offset
        self._check_counts(self.dtype, self.n_tokens, self.n_documents)

    @property
    def ids(self) -> npt.NDArray[Any]:
        """All ids, mapped into memory."""
        return self._ids

    @property
    def n_tokens(self) -> int:
        """The number of ids."""
        return int(self._ids.size)

    @property
    def n_documents(self) -> int | None:
        """The number of documents."""
        return None if self.borders is None else len(self.borders)

    def _id(self, number: int) -> int:
        return int(self._ids[number])

    def _slice(self, index: slice) -> Array:
        part: Array = self._ids[index]
        return part

    def document(self, number: int) -> Array:
        """Return the ids of a document."""
        if self.borders is None:
            raise TokenFileError(
                f"`{self.path}` does not contain the borders of documents: there is no `{document_index_path(self.path)}`; "
                "expected that file: encode the text again with `document_index=True`"
            )
        start, end = self.borders.span(document_number(number, len(self.borders)))
        part: Array = self.ids[start:end]
        return part

    def stored_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[Array]:
        """Yield all ids, in arrays that are valid until the next one."""
        # Read, not mapped: pages of a mapping would count as this process's memory until the system needs them.
        item = self._ids.dtype.itemsize
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                buffer = np.empty(min(size, self.n_tokens) * item, dtype=np.uint8).data
                for start in range(0, self.n_tokens, size):
                    data = buffer[: min(size, self.n_tokens - start) * item]
                    n_bytes = file.readinto(data)
                    if n_bytes != data.nbytes:
                        raise TokenFileError(
                            f"`{self.path}` ends after {self._offset + start * item + n_bytes} bytes; expected "
                            f"{self._offset + self.n_tokens * item}, its size when it was opened: do not change the file while "
                            "it is read"
                        )
                    yield np.frombuffer(data, dtype=self._ids.dtype)
        except OSError as cause:
            raise read_error(self.path, cause, error=TokenFileError, what="token file") from cause

    def document_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[tuple[Array, Array | None]]:
        """Yield blocks of `size` ids, each with the ends of documents."""
        done = 0
        for ids, ends in self._blocks_with_ends(size):
            yield ids.copy(), None if ends is None else ends - done
            done += ids.size

    def _blocks_with_ends(self, size: int = BLOCK_TOKENS) -> Iterator[tuple[Array, Array | None]]:
        """Yield blocks that are valid until the next one, with the ends of documents as positions in the file."""
        done = 0
        ends = None if self.borders is None else EndReader(self.borders.blocks())
        for ids in self.stored_blocks(size):
            done += ids.size
            # A document that ends where a block ends belongs to that block.
            yield ids, None if ends is None else ends.up_to(done)
        if ends is not None and done == 0:  # an empty file with empty documents
            yield np.empty(0, dtype=self._ids.dtype), ends.up_to(0)
