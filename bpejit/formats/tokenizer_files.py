"""Read tokenizer files with checks, and write them together: compression, gaps between ids, `token_bytes.npy`.

`token_bytes.npy` is written beside every saved tokenizer, for bits per byte.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.errors import SpecialTokenError, TokenizerFormatError, shorten
from bpejit.model import Model
from bpejit.packed_tokens import id_range, pack_tokens
from bpejit.storage.files import StrPath, parse_json, read_file, replacing_all
from bpejit.utf8 import has_surrogates

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

MERGES_FILE = "merges.txt"

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


def read_json(path: StrPath, *, what: str = "file", hook: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return the value in a JSON file; `hook` makes objects of their fields."""
    data = read_file(path, error=TokenizerFormatError, what=what)
    return parse_json(data, path, error=TokenizerFormatError, hook=hook)


def distinct_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict. Duplicate keys are an error, since tools differ in which of the values they use.

    In a vocabulary, whose values are all numbers, the last value counts, as in `tokenizers`.
    """
    fields = dict(pairs)
    if len(fields) < len(pairs) and {*map(type, fields.values())} != {int}:
        keys = [key for key, _ in pairs]
        repeated = next(key for key in fields if keys.count(key) > 1)
        raise TokenizerFormatError(
            f"the key {shorten(repeated)} occurs twice in one object; expected it once: remove one of them"
        )
    return fields


@contextmanager
def naming(*paths: StrPath) -> Iterator[None]:
    """Put the files that are read at the beginning of errors about their content."""
    try:
        yield
    except (TokenizerFormatError, SpecialTokenError) as error:
        raise TokenizerFormatError(f"{' and '.join(f'`{path}`' for path in paths)}: {error}") from error


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


def read_merge_texts(path: StrPath) -> dict[tuple[str, str], int]:
    """Return the pairs in order as they are written, with the line number of each."""
    data = read_file(path, error=TokenizerFormatError, what="merges file")
    lines = data.split(b"\n")
    while lines and not lines[-1].rstrip(b"\r"):
        lines.pop()
    numbers: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith(b"#version"):
            continue
        left, _, right = line.removesuffix(b"\r").decode("utf-8", "surrogateescape").partition(" ")
        if not (left and right) or " " in right or has_surrogates(left + right):
            raise broken_line(path, number, line, "two tokens with one space between them")
        if (left, right) in numbers:
            raise broken_line(path, number, line, f"each pair only once (this one is in line {numbers[left, right]})")
        numbers[left, right] = number
    return numbers


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


def refuse_obstacle(obstacle: str | None, target: str) -> None:
    """Raise TokenizerFormatError if there is a reason why the tools that read a format would give other ids."""
    if obstacle:
        raise TokenizerFormatError(
            f"the tokenizer cannot be written {target}: {obstacle}; expected a tokenizer to which other tools give equal ids: "
            "save it in another format"
        )


def plain_obstacle(model: Model) -> str | None:
    """Return why a vocabulary without a description of symbols and steps cannot represent a model, or None if it can."""
    if model.symbols_obstacle is not None or model.pipeline is None:
        return model.symbols_obstacle
    return "it normalizes text, or splits it in several steps (see `Model.pipeline`)"


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
