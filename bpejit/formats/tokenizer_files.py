"""Read tokenizer files with checks, and write them together: compression, gaps between ids, `token_bytes.npy`.

`token_bytes.npy` is written beside every saved tokenizer, for bits per byte.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bpejit.errors import TokenizerFormatError, shorten
from bpejit.model import Model
from bpejit.packed_tokens import id_range, pack_tokens
from bpejit.storage.files import StrPath, read_file, replacing_all

GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of a gzip file. No text begins with them."""

HEAD_BYTES = 1 << 10
"""The number of bytes at the start of a file that formats are recognized by."""

MOST_BYTES = 1 << 30
"""Maximum size of a decompressed file, since a small file can decompress to more than fits into memory."""

_GZIP = 16 + zlib.MAX_WBITS

IDS_PER_TOKEN = 64
"""The number of ids that there may be for each token: tables for encoding and decoding have a row for each id."""

END_OF_WORD = b"</w>"

TOKEN_BYTES_FILE = "token_bytes.npy"
"""int32 [ids]: the number of bytes of each token; 0 for special tokens and ids that are not used."""

# ---- reading


def read_tokenizer_file(path: StrPath, *, what: str = "tokenizer file") -> bytes:
    """Return the content of a file, decompressed if necessary; `what` is a noun for the message.

    Raises
    ------
    TokenizerFormatError
        If the file cannot be read, or its compressed data is broken.
    """
    data = read_file(path, error=TokenizerFormatError, what=what)
    if not data.startswith(GZIP_MAGIC):
        return data
    try:
        found = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MOST_BYTES + 1)
    except (EOFError, OSError, zlib.error) as cause:
        reason = "it is truncated" if isinstance(cause, EOFError) else str(cause)
        raise TokenizerFormatError(
            f"`{path}` is compressed with gzip and broken: {reason}; expected a complete file: download it again"
        ) from cause
    if len(found) > MOST_BYTES:
        raise TokenizerFormatError(
            f"`{path}` decompresses to more than {MOST_BYTES:,} bytes; expected a tokenizer file: check the file"
        )
    return found


def check_unchanged(path: StrPath, data: bytes, expected: str, *, action: str) -> None:
    """Raise TokenizerFormatError if the content of a file does not have the SHA-256 that is stored beside it."""
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise TokenizerFormatError(
            f"`{path}` was changed after bpejit wrote it: its SHA-256 is {found}, expected {shorten(expected)}; {action}"
        )


def read_head(path: StrPath) -> bytes:
    """Return the first bytes of a file, decompressed if necessary, since a file that is no tokenizer may be large."""
    head = read_file(path, error=TokenizerFormatError, what="tokenizer file", most=HEAD_BYTES)
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(_GZIP).decompress(head, HEAD_BYTES)
    except zlib.error:
        return head


def broken_line(path: StrPath, number: int, line: bytes, expected: str) -> TokenizerFormatError:
    """Return the error for a line of a text file."""
    shown = shorten(line.decode("utf-8", "backslashreplace"))
    return TokenizerFormatError(
        f"`{path}`, line {number} is broken: {shown}; expected {expected}: correct the line or get the file again"
    )


def check_gaps(model: Model, path: StrPath, *, given: bool) -> None:
    """Raise TokenizerFormatError if the ids of a file leave large gaps; special tokens count unless they were given."""
    specials = {} if given else model.special_tokens
    largest = max(id_range(model.tokens)[1], *specials.values(), 0)
    n = len(model.tokens) + len(specials)
    if largest > IDS_PER_TOKEN * n:
        text = next((text for text, number in specials.items() if number == largest), None)
        token = shorten(model.tokens[largest] if text is None else text)
        raise TokenizerFormatError(
            f"`{path}` has the id {largest} for the token {token}, with {n} tokens; expected ids up to {IDS_PER_TOKEN * n}, "
            f"{IDS_PER_TOKEN} times their number: renumber it"
        )


def check_words(model: Model, path: StrPath) -> None:
    """Raise TokenizerFormatError if the tokens of a file are those of CLIP, in which `</w>` means the end of a word."""
    if model.symbols is None and all(model.find(bytes([letter]) + END_OF_WORD) is not None for letter in b"etaoinshr"):
        raise TokenizerFormatError(
            f"`{path}` marks the ends of words with `</w>`, as CLIP's vocabulary does, which the file does not say; expected a "
            "pair of files or a `tokenizer.json`: convert it"
        )


# ---- writing


def write_files(
    model: Model, contents: dict[Path, bytes], lengths_path: Path, last: tuple[Path, bytes], *, stale: Iterable[Path] = ()
) -> None:
    """Replace the files of a tokenizer together, and remove those that are stale.

    The number of bytes of each token is at `lengths_path`, and `last` is the file that describes the others.
    """
    lengths = token_lengths(model)
    every = dict(contents)
    if lengths is None:
        stale = [*stale, lengths_path]
    else:
        array = io.BytesIO()
        np.lib.format.write_array(array, np.array(lengths, "<i4"), version=(1, 0))
        every[lengths_path] = array.getvalue()
    every[last[0]] = last[1]
    with replacing_all(list(every), remove=list(stale)) as files:
        for file, data in zip(files, every.values(), strict=True):
            file.write(data)


def token_lengths(model: Model) -> list[int] | None:
    """Return the number of bytes of each id, or None if few of the ids are used."""
    size = model.vocab_size
    if size > 2 * model.n_tokens + 65536:
        return None
    strings, numbers = pack_tokens(model.tokens)
    lengths = np.zeros(size, np.int64)
    lengths[numbers] = np.diff(strings.starts)
    if model.symbols is not None:
        for number, token in model.unused_tokens.items():
            lengths[number] = len(token)
        if suffix := model.symbols.word_end.encode():
            ends = [number for number, token in model.tokens.items() if token.endswith(suffix) and token != suffix]
            lengths[ends] -= len(suffix)
    lengths[list(model.special_tokens.values())] = 0
    return lengths.tolist()  # type: ignore[no-any-return]
