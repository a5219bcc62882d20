"""Open token files: what all have in common, and several as one."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from bpejit import arguments
from bpejit.arguments import showing_progress
from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.progress_bar import Progress
from bpejit.storage.files import StrPath, read_error
from bpejit.tokenfiles.description import ALL_DTYPES, END_DTYPE, Description, description_path

BLOCK_TOKENS = 1 << 20
"""Default number of tokens per block."""


@dataclass(frozen=True)
class TokenStream:
    """Ids that are read once, in order, from a stream such as standard input.

    Parameters
    ----------
    dtype : str
    read : callable
        `read(size)` yields the ids as arrays, from about `size` ids read at a time.
    n_tokens : None
        The number of ids is known only at the end.
    """

    dtype: str
    read: Callable[[int], Iterator[Array]]
    n_tokens: int | None = field(default=None, init=False)

    def blocks(self, size: int = BLOCK_TOKENS) -> Iterator[npt.NDArray[np.uint32]]:
        """Yield all ids in order as new arrays, uint32 [up to `size`].

        Raises
        ------
        TokenFileError
            If the stream cannot be read, or contains anything but whole ids.
        """
        try:
            for ids in self.read(size):
                yield from (ids[start : start + size].astype(np.uint32) for start in range(0, ids.size, size))
        except OSError as cause:
            raise read_error("-", cause, error=TokenFileError, what="stream of token ids") from cause


class TokenReader:
    """One or several open token files: a read-only sequence of ids, and of documents if their borders are stored.

    Properties that the files do not store are None. The ids are in parts, one after the other, which are readers as well; those
    of `MappedTokens` are one array instead.

    Attributes
    ----------
    path : Path
        The main file, or what names several files.
    description : Description or None
    dtype : str
        The name of the dtype of the ids.
    format : str
        The name of the format.
    other_columns : sequence of str
        The names of columns beside that of the ids.
    """

    path: Path
    description: Description | None
    dtype: str
    format: str
    other_columns: Sequence[str] = ()
    _files: Sequence[tuple[Path, Description | None]] = ()
    _n_parts: int
    _rows: Array | None
    """The number of documents before each part, and of all, int64 [parts + 1]; None if a part does not store their borders."""

    def _part(self, number: int) -> TokenReader:
        """Return a part."""
        raise NotImplementedError

    def _part_sizes(self) -> list[int]:
        """Return the number of ids of each part."""
        raise NotImplementedError

    @cached_property
    def _starts(self) -> Array:
        """The number of ids before each part, and of all, int64 [parts + 1]."""
        return np.cumsum([0, *self._part_sizes()], dtype=np.int64)

    def _parts(self) -> Iterator[TokenReader]:
        return map(self._part, range(self._n_parts))

    @property
    def files(self) -> Sequence[tuple[Path, Description | None]]:
        """The main files, in order, each with its description."""
        return self._files or [(self.path, self.description)]

    def _described(self, name: str, combine: Callable[[list[Any]], Any]) -> Any:
        """Return what `combine` makes of a field of all descriptions, or None if it is not known for a file."""
        values = [getattr(description, name, None) for _, description in self.files]
        return None if None in values else combine(values)

    @property
    def ids(self) -> npt.NDArray[Any]:
        """All ids as a read-only array, mapped into memory if they are one array on disk, and otherwise read."""
        return self[:]

    @property
    def n_tokens(self) -> int:
        """The number of ids."""
        return int(self._starts[-1])

    @property
    def n_documents(self) -> int | None:
        """The number of documents; None if the borders of documents are not stored."""
        return None if self._rows is None else int(self._rows[-1])

    @property
    def bytes_read(self) -> int | None:
        """The number of bytes of text that the ids encode."""
        return self._described("bytes_read", sum)  # type: ignore[no-any-return]

    @property
    def vocab_size(self) -> int | None:
        """One more than the largest id of the tokenizer."""
        return self._described("vocab_size", max)  # type: ignore[no-any-return]

    @property
    def tokenizer_sha256(self) -> str | None:
        """The hash of the tokenizer (`Model.sha256`)."""
        return self._described("tokenizer_sha256", max)  # type: ignore[no-any-return]

    @property
    def ids_sha256(self) -> str | None:
        """The hash of the ids, as little-endian integers of `dtype`; None for several files, which have one each."""
        return self._described("ids_sha256", lambda hashes: hashes[0] if len(hashes) == 1 else None)  # type: ignore[no-any-return]

    @property
    def has_hashes(self) -> bool:
        """Whether the ids of all files can be verified."""
        return self._described("ids_sha256", len) is not None

    def __len__(self) -> int:
        """Return the number of ids."""
        return self.n_tokens

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Array: ...

    def __getitem__(self, index: int | slice) -> int | Array:
        """Return one id, or a read-only array of consecutive ids."""
        if isinstance(index, slice):
            return self._slice(index)
        number = from_zero(index, self.n_tokens, "id at", "n_tokens")
        return int(self._slice(slice(number, number + 1))[0])

    def _slice(self, index: slice) -> Array:
        """Return some ids as a read-only array."""
        wanted = range(*index.indices(self.n_tokens))
        ascending = wanted if wanted.step > 0 else wanted[::-1]
        step = ascending.step
        parts: list[Array] = []
        at = ascending.start
        while at < ascending.stop:
            number = int(np.searchsorted(self._starts, at, side="right")) - 1
            begin, end = map(int, self._starts[number : number + 2])
            part = self._part(number)
            part.check({"n_tokens": end - begin}, f"`{self.path}`", "do not change files that are open")
            parts.append(part[at - begin : ascending.stop - begin : step])
            at += parts[-1].size * step
        found = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, ALL_DTYPES[self.dtype]), *parts])
        found.flags.writeable = False
        return found if ascending is wanted else found[::-1]

    def document(self, number: int) -> Array:
        """Return the ids of a document as a read-only array.

        Raises
        ------
        IndexError
            If there is no document with this number; negative numbers count from the end.
        TokenFileError
            If the borders of documents are not stored, or are wrong.
        """
        if self._rows is None:  # which is the error of a part
            without = next(part for part in self._parts() if part.n_documents is None)
            return without.document(number)
        number = from_zero(number, int(self._rows[-1]), "document", "n_documents")
        part = int(np.searchsorted(self._rows, number, side="right")) - 1
        return self._part(part).document(number - int(self._rows[part]))

    def document_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[tuple[Array, Array | None]]:
        """Yield all ids in order, in blocks of about `size`, each with the ends of the documents that end in it.

        Yields
        ------
        ids : array of `dtype`
        ends : int64 [documents], optional
            Positions in `ids`; None if the borders of documents are not stored.

        Raises
        ------
        TokenFileError
            If the file cannot be read, became shorter after it was opened, or the borders of documents are wrong.
        """
        for part in self._parts():
            for ids, ends in part.document_blocks(size):
                yield ids, None if self._rows is None else ends

    def _hashed_blocks(self) -> Iterator[tuple[Array, Array | None]]:
        """Yield all ids like `document_blocks`, with the ends of which the description has a hash."""
        return self.document_blocks()

    def stored_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[Array]:
        """Yield all ids like `blocks`, but without a conversion."""
        for part in self._parts():
            yield from part.stored_blocks(size)

    def blocks(self, size: int = BLOCK_TOKENS) -> Iterator[npt.NDArray[np.uint32]]:
        """Yield all ids in order as new arrays, uint32 [up to `size`], holding one block in memory at a time.

        Raises
        ------
        TokenFileError
            If the file cannot be read, became shorter after it was opened, or contains numbers that are no ids.
        """
        for ids in self.stored_blocks(size):
            if ids.dtype.kind == "i" and ids.size and (int(ids.min()) < 0 or int(ids.max()) >> 32):
                wrong = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
                raise TokenFileError(
                    f"`{self.path}` contains the id {wrong}; expected ids from 0 to {2**32 - 1}: check that it is a token file"
                )
            yield ids.astype(np.uint32)

    @showing_progress
    def verify(self, *, progress: Progress | bool | None = None) -> None:
        """Read the whole file and compare it with its description. `progress` is as for `bpejit.train`.

        Raises
        ------
        TokenFileError
            If the SHA-256 of the ids or of the borders of documents, or the range of the ids differs from the description, the
            description has no hash of the ids, or the borders are wrong.
        """
        report = arguments.progress(progress)
        description = self.description
        described = description_path(self.path)
        if description is None or description.ids_sha256 is None:
            found = "does not exist" if description is None else "has no hash of the ids"
            raise TokenFileError(
                f"`{self.path}` cannot be verified: `{described}` {found}; expected `ids_sha256` in it: encode the text again"
            )
        of_ids = hashlib.sha256()
        of_ends = hashlib.sha256()
        largest = -1
        smallest = done = 0
        report("verify", done, self.n_tokens, "tokens")
        for ids, ends in self._hashed_blocks():
            of_ids.update(ids.data)
            if ends is not None:
                of_ends.update((ends + done).astype(END_DTYPE, copy=False).data)
            largest = max(largest, int(ids.max(initial=-1 if ids.dtype.kind == "i" else 0)))
            smallest = min(smallest, int(ids.min(initial=0)))
            done += ids.size
            report("verify", done, self.n_tokens, "tokens")
        for what, found_hash, expected in (
            ("ids", of_ids.hexdigest(), description.ids_sha256),
            ("borders of documents", of_ends.hexdigest(), description.documents_sha256),
        ):
            if expected not in (None, found_hash):
                raise TokenFileError(
                    f"`{self.path}` does not match `{described}`: the SHA-256 of its {what} is {found_hash}; expected "
                    f"{expected}: copy all files of the token file again, or encode the text again"
                )
        if largest >= description.vocab_size or smallest < 0:
            raise TokenFileError(
                f"`{self.path}` contains the id {largest if smallest == 0 else smallest}, but the vocabulary size in "
                f"`{described}` is {description.vocab_size}; expected smaller ids: encode the text again"
            )

    def check(self, expected: Mapping[str, Any], source: str, action: str = "copy it again, or encode the text again") -> None:
        """Raise TokenFileError if attributes differ from what `source` states, unless a number of documents is not known."""
        for name, wanted in expected.items():
            found = getattr(self, name)
            if found != wanted and (name != "n_documents" or None not in (found, wanted)):
                raise TokenFileError(f"`{self.path}`: {name} is {found}; expected {wanted}, as in {source}: {action}")


TokenSource = TokenReader | TokenStream
"""Token ids that are read in order, by `blocks`."""


TokenPaths = StrPath | Sequence[StrPath]
"""A token file, a glob, the manifest of a job, or a list of these."""


def from_zero(number: int, n: int, what: str, name: str) -> int:
    """Return the number of one of `n` items from 0 up; negative numbers count from the end."""
    number = operator.index(number)
    if not -n <= number < n:
        raise IndexError(f"there is no {what} {number}; expected -{n} to {n - 1}: check `{name}`")
    return number % n


_MOST_OPEN = 64
"""Files that are open at a time: each has up to three mappings, with a file descriptor for each."""


class JoinedTokens(TokenReader):
    """Several token files as one sequence. Only `_MOST_OPEN` of them are open at a time.

    Parameters
    ----------
    path : Path
        What names the files, for messages.
    n_files : int
    open_file : callable
        Opens a file by its number.

    Raises
    ------
    TokenFileError
        If a file cannot be opened, or its format, dtype or tokenizer is not that of the first one.
    """

    description = None

    def __init__(self, path: Path, n_files: int, open_file: Callable[[int], TokenReader]) -> None:
        self.path = path
        self._open = lru_cache(_MOST_OPEN)(open_file)
        first = self._part(0)
        self.dtype, self.format = first.dtype, first.format
        names = ["format", "dtype", "tokenizer_sha256"]
        if first.tokenizer_sha256 is not None:
            names.append("vocab_size")
        same = {name: getattr(first, name) for name in names}
        files: list[tuple[Path, Description | None]] = []
        counts: list[int | None] = []
        for part in map(self._part, range(n_files)):
            part.check(
                same, f"`{first.path}`", "convert it with `bpejit tokens convert`, encode the text again, or leave it out"
            )
            self.other_columns = list(dict.fromkeys([*self.other_columns, *part.other_columns]))
            files += part.files
            counts.append(part.n_documents)
        self._files, self._n_parts = files, n_files
        self._rows = None if None in counts else np.cumsum([0, *(count or 0 for count in counts)], dtype=np.int64)

    def _part(self, number: int) -> TokenReader:
        return self._open(number)

    def _part_sizes(self) -> list[int]:
        return [
            self._part(number).n_tokens if description is None else description.tokens
            for number, (_, description) in enumerate(self._files)
        ]

    @showing_progress
    def verify(self, *, progress: Progress | bool | None = None) -> None:
        """Verify all files."""
        report = arguments.progress(progress)
        done = 0
        for part in self._parts():

            def part_report(stage: str, n: int, _: int | None, unit: str, before: int = done) -> None:
                report(stage, before + n, self.n_tokens, unit)

            part.verify(progress=part_report)
            done += part.n_tokens
