r"""Token files whose ids are one array: those of nanoGPT, NumPy, llm.c and modded-nanogpt, Megatron and datatrove.

`bin` has little-endian uint16 or uint32 ids and nothing else, as nanoGPT reads them, and `npy` what `numpy.load` reads.
`llmc` begins with a header of 256 little-endian int32 numbers: the first three are 20240520, 1 and the number of ids for uint16
(GPT-2), or 20240801, 7 and the number of ids for uint32 (Llama 3), and the others 0. The number of ids is below 2^31.
Everything else is in `<file>.json` beside the file (see `bpejit.tokenfiles.description`), and with `document_index` the borders
of documents are in `<file>.docs.npy` (see `bpejit.tokenfiles.mapping`). The others have an index of the documents:

Megatron: `<prefix>.bin` has the ids, `<prefix>.idx` the documents. The index begins with `MMIDIDX\0\0`, the version 1 (uint64),
a code for the dtype of the ids (uint8), the number of sequences S (uint64), and one more than the number of documents, D
(uint64). Then follow the number of ids of each sequence (int32 [S]), its position in the `.bin` file in bytes (int64 [S]), and
the number of the first sequence of each document, and S (int64 [D]). Here each document is written as one sequence; files with
several per document are read as well. A token file is named by its prefix, or by its `.bin` file.

datatrove: `<file>.ds` has the ids, `<file>.ds.index` the ends of documents, `<file>.ds.metadata` three lines. The ids are
uint16, or uint32 for vocabularies of more than 65,536 tokens; the ends are uint64 positions in the ids, without a 0 at the
start. The metadata are `tokenizer|bytes per id`, the number of ids, and the same number for people. There are no headers.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath, read_file
from bpejit.tokenfiles.base import Ends, MappedFormat, choose_dtype
from bpejit.tokenfiles.description import ALL_DTYPES, BIN_FORMAT, DTYPES, Description, Dtypes, description_path
from bpejit.tokenfiles.mapping import HEADER_BYTES, NPY_MAGIC, Borders, MappedTokens, Output, map_ids, map_npy, npy_header
from bpejit.tokenfiles.readers import TokenStream


class NpyFormat(MappedFormat):
    """The format of NumPy files."""

    name = "npy"
    suffix = ".npy"
    magic = NPY_MAGIC
    dtypes: ClassVar[Dtypes] = {name: ALL_DTYPES[name] for name in ("uint16", "uint32", "int32", "int64")}
    ids_position = HEADER_BYTES

    def header(self, fields: Description) -> bytes:
        """Return NumPy's header."""
        return npy_header(ALL_DTYPES[fields.dtype], fields.tokens)

    def map(self, path: Path, dtype: str | None) -> Array:  # noqa: ARG002
        """Return the array."""
        array = map_npy(path)
        found = array.dtype
        if found not in ALL_DTYPES.values():
            raise TokenFileError(
                f"`{path}` contains {found.str} ({found.name}); expected integers of one of {', '.join(ALL_DTYPES)}, "
                "little-endian: convert the array"
            )
        return array


class BinFormat(MappedFormat):
    """The format of headerless token files; a stream, a device or a pipe receives the ids alone, without a description."""

    name = BIN_FORMAT
    suffix = ".bin"
    dtypes: ClassVar[Dtypes] = DTYPES
    states_dtype = False
    streams = True

    def map(self, path: Path, dtype: str | None) -> Array:
        """Return the ids as numbers of the dtype of the description, or of the one that was given."""
        return map_ids(path, DTYPES[_known(dtype, f"`{path}`", f"there is no `{description_path(path)}`")])

    def open_stream(self, stream: BinaryIO, *, dtype: str | None = None) -> TokenStream:
        """Return the ids of a stream, which needs a `dtype`."""
        dtype = arguments.choice(
            "dtype", _known(dtype, "the ids on standard input", "a stream does not tell it"), DTYPES, error=TokenFileError
        )
        return TokenStream(dtype, partial(_stream_ids, stream, dtype))

    def is_like(self, path: StrPath) -> bool:  # noqa: ARG002
        """Return False: ids alone may be anything."""
        return False


def _known(dtype: str | None, what: str, reason: str) -> str:
    """Return a dtype, or raise TokenFileError if there is none, for a reason."""
    if dtype is None:
        raise TokenFileError(
            f'the dtype of {what} is not known: {reason}; expected uint16 or uint32: pass `dtype="uint16"` or `dtype="uint32"`'
        )
    return dtype


def _stream_ids(stream: BinaryIO, dtype: str, size: int) -> Iterator[Array]:
    """Yield the ids of a stream, [up to `size`], or raise TokenFileError if it ends within an id."""
    little = DTYPES[dtype]
    done = 0
    while data := stream.read(size * little.itemsize):  # so many, unless the stream ends
        done += len(data)
        if done % little.itemsize:
            raise TokenFileError(
                f"standard input has {done} bytes, which is not a multiple of {little.itemsize}, the size of {dtype}; "
                "expected whole ids: check the dtype, and that the input is complete"
            )
        yield np.frombuffer(data, little)


_HEADER = np.dtype("<i4")

_HEADER_BYTES = 1024

_VERSIONS = {"uint16": (20240520, 1), "uint32": (20240801, 7)}

_LIMIT = 1 << 31


class LlmcFormat(MappedFormat):
    """The format of llm.c."""

    name = "llmc"
    suffix = ".bin"
    magic = tuple(np.array(version, _HEADER).tobytes() for version in _VERSIONS.values())
    dtypes: ClassVar[Dtypes] = DTYPES
    ids_position = _HEADER_BYTES

    def header(self, fields: Description) -> bytes:
        """Return the header with the number of ids."""
        if fields.tokens >= _LIMIT:
            raise TokenFileError(
                f"cannot write more than {_LIMIT - 1} ids to a file, since the format llmc counts them with 31 bits; expected "
                "fewer: divide the output into several files with `shard_tokens=`"
            )

        header = np.zeros(_HEADER_BYTES // 4, _HEADER)
        header[:3] = (*_VERSIONS[fields.dtype], fields.tokens)
        return header.tobytes()

    def map(self, path: Path, dtype: str | None) -> Array:  # noqa: ARG002
        """Return the ids after the header."""
        data = read_file(path, error=TokenFileError, what="token file", most=_HEADER_BYTES)
        header = np.frombuffer(data[: len(data) // 4 * 4], _HEADER).tolist()
        found = next((name for name, version in _VERSIONS.items() if tuple(header[:2]) == version), None)
        if found is None or len(data) < _HEADER_BYTES:
            known = " or ".join(f"{magic}, {version} ({name})" for name, (magic, version) in _VERSIONS.items())
            begin = ", ".join(map(str, header[:2])) or "none"
            raise TokenFileError(
                f"`{path}` is not a token file of llm.c: it begins with the numbers {begin}; expected {known} in a header of "
                f"{_HEADER_BYTES} bytes: check the path and the format"
            )
        ids = map_ids(path, DTYPES[found], offset=_HEADER_BYTES)
        MappedTokens(path, ids).check({"n_tokens": header[2]}, "its header")
        return ids


_MAGIC = b"MMIDIDX\x00\x00"

_INDEX_HEADER = struct.Struct("<9sQBQQ")

_CODES = {"uint8": 1, "int32": 4, "int64": 5, "uint16": 8}

_UINT16_SIZE = 65_500
"""The vocabulary size from which Megatron uses int32."""

_LENGTH = np.dtype("<i4")
_NUMBER = np.dtype("<i8")

_LONGEST = 2**31 - 1

_BLOCK = 1 << 16
"""Number of documents that are processed at a time."""


class MegatronFormat(MappedFormat):
    """The format of Megatron's indexed datasets."""

    name = "megatron"
    magic = _MAGIC
    suffix = ".bin"
    other_suffixes = (".idx",)
    dtypes: ClassVar[Dtypes] = {name: ALL_DTYPES[name] for name in ("uint16", "int32", "int64")}
    stores_documents = True

    def choose_dtype(self, dtype: str, vocab_size: int) -> np.dtype[Any]:
        """Return the dtype of a new file. As in Megatron, `auto` is uint16 below 65,500 tokens."""
        if dtype == "auto" and vocab_size >= _UINT16_SIZE:
            return choose_dtype({name: self.dtypes[name] for name in ("int32", "int64")}, "auto", vocab_size)
        return super().choose_dtype(dtype, vocab_size)

    def read(self, path: Path, fields: Description | None, dtype: str | None) -> MappedTokens:  # noqa: ARG002
        """Return an open token file."""
        index = SequenceIndex(path.with_suffix(".idx"), path.stat().st_size)
        return MappedTokens(path, map_ids(path, index.dtype), fields, index)

    def main_file(self, path: StrPath) -> Path:
        """Return the file with the ids: `<prefix>.bin` for a prefix or one of the two files."""
        path = Path(path)
        return path.with_suffix(".bin") if path.suffix in (".bin", ".idx") else Path(f"{path}.bin")

    def border_files(self, path: StrPath) -> list[Path]:
        """Return the index."""
        return [self.main_file(path).with_suffix(".idx")]

    def write_borders(self, files: Sequence[Output], fields: Description, ends: Ends) -> None:
        """Write the index, with each document as one sequence; raise TokenFileError if a document is too long."""
        (index,) = files
        n_documents = fields.documents or 0
        index.write(_INDEX_HEADER.pack(_MAGIC, 1, _CODES[fields.dtype], n_documents, n_documents + 1))
        begin = 0
        for some in ends():
            lengths = np.diff(some, prepend=begin)
            begin = int(some[-1])
            if int(lengths.max()) > _LONGEST:
                raise TokenFileError(
                    f"a document has {int(lengths.max())} ids, and the format megatron counts them with 31 bits; "
                    f"expected at most {_LONGEST}: divide the document, or choose another format"
                )
            index.write(lengths.astype(_LENGTH).data)
        begin = 0
        for some in ends():
            starts = np.concatenate([[begin], some[:-1]]) * ALL_DTYPES[fields.dtype].itemsize
            index.write(starts.astype(_NUMBER).data)
            begin = int(some[-1])
        for start in range(0, n_documents + 1, _BLOCK):
            index.write(np.arange(start, min(start + _BLOCK, n_documents + 1), dtype=_NUMBER).data)

    def is_like(self, path: StrPath) -> bool:
        """Return True if a file has an index."""
        return super().is_like(*self.border_files(path))


class SequenceIndex(Borders):
    """The borders of documents in an `.idx` file, mapped into memory.

    Parameters
    ----------
    path : Path
        The `.idx` file.
    n_bytes : int
        The size of the `.bin` file.

    Raises
    ------
    TokenFileError
        If the file cannot be read, is not an index, or does not fit the ids.
    """

    def __init__(self, path: Path, n_bytes: int) -> None:
        self.path = path
        header = read_file(path, error=TokenFileError, what="index of a token file", most=_INDEX_HEADER.size)
        if len(header) < _INDEX_HEADER.size or not header.startswith(_MAGIC):
            raise self._no_index(f"begins with {header[:9]!r}", repr(_MAGIC))
        _, version, code, n_sequences, n_documents = _INDEX_HEADER.unpack(header)
        names = {number: name for name, number in _CODES.items()}
        if version != 1 or code not in names:
            raise self._no_index(f"has version {version} and the dtype code {code}", f"version 1 and one of {names}")
        size = path.stat().st_size
        lengths = _INDEX_HEADER.size + 12 * n_sequences + 8 * n_documents
        if n_documents < 1 or size not in (lengths, lengths + n_sequences):  # modes of images follow in some files
            raise self._no_index(f"has {size} bytes", f"{lengths} for {n_sequences} sequences")
        self.dtype = ALL_DTYPES[names[code]]
        super().__init__(path, n_bytes // self.dtype.itemsize)
        self._n_bytes = n_bytes
        data = np.asarray(map_ids(path, np.dtype(np.uint8)))  # no memmap, whose slices take longer
        parts = np.split(data[_INDEX_HEADER.size : lengths], [4 * n_sequences, 12 * n_sequences])
        self._lengths = parts[0].view(_LENGTH)
        self._positions = parts[1].view(_NUMBER)
        self._documents = parts[2].view(_NUMBER)
        last = 0 if n_sequences == 0 else int(self._positions[-1]) + int(self._lengths[-1]) * self.dtype.itemsize
        if last != n_bytes:
            raise self._no_index(f"ends at the byte {last}", f"{n_bytes}, the size of `{path.with_suffix('.bin')}`")
        if int(self._documents[0]) != 0 or int(self._documents[-1]) != n_sequences:
            raise self._no_index(
                f"has documents from the sequence {self._documents[0]} to {self._documents[-1]}", f"0 to {n_sequences}"
            )

    def _no_index(self, found: str, expected: str) -> TokenFileError:
        return TokenFileError(
            f"`{self.path}` {found}; expected {expected}: check that it is the index of an indexed dataset, copy both files "
            "again, or encode the text again"
        )

    def __len__(self) -> int:
        return int(self._documents.size) - 1

    def _stored(self, start: int, stop: int) -> Array:
        n_sequences = self._positions.size
        firsts = self._documents[start : stop + 1]  # the last is the sequence after these documents
        if firsts[0] < 0 or firsts[-1] > n_sequences or (firsts[1:] < firsts[:-1]).any():
            raise self.broken(
                f"the documents {start} to {stop - 1} begin with sequences from {firsts.min()} to {firsts.max()}",
                f"ascending numbers up to {n_sequences}, the number of sequences",
            )
        begin, end = max(int(firsts[0]) - 1, 0), int(firsts[-1])
        lengths = self._lengths[begin:end]
        places = np.append(self._positions[begin : end + 1], self._n_bytes)[: lengths.size + 1]  # the last is the end
        wrong = (lengths < 0) | (np.diff(places) != lengths * np.int64(self.dtype.itemsize))
        wrong[:1] |= begin == 0 and places[0] != 0
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise self.broken(
                f"sequence {begin + at} has {lengths[at]} ids from the byte {places[at]} to {places[at + 1]}",
                f"sequences of {self.dtype.name} that follow each other from the byte 0 to {self._n_bytes}",
            )
        return places[firsts[1:] - begin] // self.dtype.itemsize


_END = np.dtype("<u8")


class DatatroveFormat(MappedFormat):
    """The format of datatrove."""

    name = "datatrove"
    suffix = ".ds"
    dtypes: ClassVar[Dtypes] = DTYPES
    stores_documents = True
    states_dtype = False

    def map(self, path: Path, dtype: str | None) -> Array:
        """Return the ids, after a look at the metadata; without them, the dtype has to be known."""
        _, metadata = self.border_files(path)
        stored, n_tokens = _read_metadata(metadata)
        known = _known(dtype or stored, f"`{path}`", f"there is no `{metadata}`")
        if stored not in (None, known):
            raise TokenFileError(
                f"`{path}` contains ids of {stored} according to `{metadata}`; expected {known}: omit the dtype"
            )
        ids = map_ids(path, DTYPES[known])
        if n_tokens is not None:
            MappedTokens(path, ids).check({"n_tokens": n_tokens}, f"`{metadata}`")
        return ids

    def border_files(self, path: StrPath) -> list[Path]:
        """Return the index and the metadata."""
        return [Path(f"{os.fspath(path)}.index"), Path(f"{os.fspath(path)}.metadata")]

    def write_borders(self, files: Sequence[Output], fields: Description, ends: Ends) -> None:
        """Write both."""
        index, metadata = files
        for some in ends():
            index.write(some.data)
        name = f"bpejit:{fields.tokenizer_sha256 or 'unknown'}|{DTYPES[fields.dtype].itemsize}"
        metadata.write(f"{name}\n{fields.tokens}\n{_readable(fields.tokens)}".encode())

    def find_borders(self, path: Path, fields: Description | None, n_tokens: int) -> Borders | None:
        """Return the borders of documents; None if there is no index."""
        index, _ = self.border_files(path)
        if fields is None and not index.exists():
            return None
        ends = np.asarray(map_ids(index, _END))
        borders = Borders(index, n_tokens, ends)
        last = int(ends[-1]) if ends.size else 0
        if last != n_tokens:
            raise borders.broken(f"the last document ends at {last}", f"{n_tokens}, the number of ids")
        return borders

    def is_like(self, path: StrPath) -> bool:
        """Return True if a file has the suffix of the format, and an index."""
        return super().is_like(path) and self.border_files(path)[0].exists()


def _read_metadata(metadata: Path) -> tuple[str | None, int | None]:
    """Return the dtype and the number of ids according to a file of metadata; None for what it does not have."""
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
