"""tiktoken's rank files: one line per token with its bytes in base64 and its rank, in order of rank.

The rank is the id. The file does not contain the split pattern or the special tokens. These are known for the published
files, are read from the sidecar of a file that bpejit wrote (see `bpejit.formats.missing_parts`), or must be passed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpejit.arrays import ByteStrings, distinct, padded_text
from bpejit.errors import PatternError, TokenizerFormatError, shorten
from bpejit.formats.base import Given, TokenizerFormat, without_gz
from bpejit.formats.missing_parts import (
    Known,
    find_rank_file,
    names_of_content,
    read_sidecar,
    sidecar_json,
    sidecar_path,
)
from bpejit.formats.tokenizer_files import (
    TOKEN_BYTES_FILE,
    broken_line,
    naming,
    plain_obstacle,
    read_tokenizer_file,
    refuse_obstacle,
    write_files,
)
from bpejit.jit import dispatch
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.model import Model, pattern_source
from bpejit.packed_tokens import PackedTokens, ReadOnlyDict
from bpejit.splitting.presets import stages_of
from bpejit.storage.exchange import recover_description
from bpejit.storage.files import StrPath
from bpejit.storage.outputs import check_not_stream
from bpejit.utf8 import has_surrogates

if TYPE_CHECKING:
    from typing_extensions import Unpack

SUFFIX = ".tiktoken"

MAX_RANK = (1 << 24) - 1

MAX_TOKEN_BYTES = 1 << 16
"""Maximum length of a token, since the time for finding its merges is quadratic in its length."""

_LINE = re.compile(rb"([A-Za-z0-9+/]+={0,2}|=) ([0-9]{1,8})")

_EMPTY = b"="
"""The empty token, as in Whisper's file: base64 has no characters for it, and readers of the lines need one."""

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class TiktokenFormat(TokenizerFormat):
    """tiktoken's rank files, written with a sidecar and a Python module."""

    name = "tiktoken"
    expected = f"a rank file (`NAME{SUFFIX}`)"
    suffixes = (SUFFIX,)
    complete = False
    writable = True

    def recognizes(self, head: bytes, content: Any) -> bool:  # noqa: ARG002
        """Return True if the first line is a token and its rank."""
        return _LINE.fullmatch(head.split(b"\n")[0].removesuffix(b"\r")) is not None

    def read(self, path: Path, **given: Unpack[Given]) -> Model:
        """Return the model in a file; pattern and tokens are needed unless it is published or has a sidecar."""
        pattern, special_tokens = given.get("pattern"), given.get("special_tokens")
        if special_tokens is not None and not isinstance(special_tokens, Mapping):
            raise TokenizerFormatError(
                f"`{path}` does not contain the ids of special tokens; expected `special_tokens=` with their ids: pass a dict"
            )
        recover_description(sidecar_path(path), error=TokenizerFormatError)
        data = read_tokenizer_file(path, what="rank file")
        tokens = parse_ranks(data, path)
        known: Known | None = None
        if pattern is None or special_tokens is None:
            known = read_sidecar(without_gz(path), data) or (find_rank_file(path, data) if pattern is None else None)
        found = known or Known("", {})
        with naming(path):
            return Model(
                tokens=tokens,
                merges=[],
                special_tokens=dict(found.special_tokens if special_tokens is None else special_tokens),
                pattern=found.pattern if pattern is None else pattern,
                ranked=True,
                unicode=given.get("unicode") or found.unicode,
            )

    def outputs(self, path: StrPath) -> list[Path]:
        """Return the paths of ranks, module, sidecar and bytes of tokens."""
        return [Path(path), module_path(path), sidecar_path(path), Path(path).with_suffix(f".{TOKEN_BYTES_FILE}")]

    def check_write(self, path: StrPath, *, inputs: Iterable[StrPath] = (), overwrite: bool = False) -> None:
        """Raise OutputError if the files cannot be written."""
        check_not_stream(path, [file.name for file in self.outputs(f"NAME{SUFFIX}")])
        super().check_write(path, inputs=inputs, overwrite=overwrite)

    def write(self, model: Model, path: StrPath, *, legacy_merges: bool = False, overwrite: bool = False) -> None:  # noqa: ARG002
        """Write `NAME.tiktoken`, a Python module that creates a `tiktoken.Encoding`, a sidecar, and `NAME.token_bytes.npy`."""
        self.check_write(path, overwrite=overwrite)
        ranks_path, module, sidecar, lengths_path = self.outputs(path)
        if ranks_path.suffix != SUFFIX:
            raise TokenizerFormatError(
                f"`{path}` is not the name of a rank file; expected a name that ends in {SUFFIX}: add it"
            )
        pattern = tiktoken_pattern(model)
        refuse_obstacle(_obstacle(model), "for tiktoken")
        ranks = b"".join(b"%s %d\n" % (base64.b64encode(token) or _EMPTY, rank) for rank, token in sorted(model.tokens.items()))
        contents = {ranks_path: ranks, module: _script(model, ranks_path, pattern)}
        write_files(model, contents, lengths_path, (sidecar, sidecar_json(model, ranks)))


def parse_ranks(data: bytes, path: StrPath) -> Mapping[int, bytes]:
    """Return the tokens of a rank file by rank.

    Raises
    ------
    TokenizerFormatError
        If a line is broken, or a rank or token occurs twice. The message names the line.
    """
    tokens = _parse_all(data)
    return ReadOnlyDict(_parse_each(data, path)) if tokens is None else tokens


def _parse_all(data: bytes) -> PackedTokens | None:
    """Return the tokens of a rank file in canonical form, or None if the file may be broken."""
    if not dispatch.JIT_ENABLED:
        return None  # plain Python takes a second for a megabyte, and `_parse_each` a tenth
    from bpejit.kernels.encoding.span_encoding import hash_strings
    from bpejit.kernels.formats.rank_parsing import NO_DIGIT, parse_rank_lines  # not at the top: they load kernels

    digits = np.full(256, NO_DIGIT, np.uint8)
    digits[np.frombuffer(_BASE64, np.uint8)] = np.arange(64)
    lines, n_bytes = padded_text(data)
    n_lines = data.count(b"\n")
    pool = np.empty(n_bytes - n_bytes // 4 + TEXT_PADDING, np.uint8)
    starts = np.empty(n_lines + 1, np.int64)
    numbers = np.empty(n_lines, np.int64)
    if parse_rank_lines(lines, n_bytes, digits, MAX_TOKEN_BYTES, pool, starts, numbers) != n_lines:
        return None
    if n_lines and numbers[-1] > MAX_RANK:
        return None
    digest = hashlib.sha256(data)
    if not names_of_content(digest.hexdigest()):
        hashes = np.empty(n_lines, np.uint64)
        hash_strings(pool, starts, hashes)
        if distinct(hashes).size < n_lines:
            return None  # most likely a repeated token
    return PackedTokens(ByteStrings(pool[: starts[-1]], starts), numbers, digest.digest())


def _parse_each(data: bytes, path: StrPath) -> dict[int, bytes]:
    """Return the tokens of a rank file, read line by line. Empty lines and Windows line ends are accepted."""
    tokens: dict[int, bytes] = {}
    lines: dict[bytes, int] = {}
    last = -1
    for number, line in enumerate(data.split(b"\n"), start=1):
        line = line.removesuffix(b"\r")
        if not line:
            continue
        found = _LINE.fullmatch(line)
        try:
            token = binascii.a2b_base64(found[1]) if found else b""
        except binascii.Error:
            token = b""
        if not found or not (token or found[1] == _EMPTY):
            raise broken_line(path, number, line, "a token in base64, a space, and its rank")
        rank = int(found[2])
        if rank <= last:
            raise broken_line(path, number, line, f"a rank above {last}, the rank before it")
        if rank > MAX_RANK:
            raise broken_line(path, number, line, f"a rank of at most {MAX_RANK}")
        if len(token) > MAX_TOKEN_BYTES:
            raise broken_line(path, number, line, f"a token of at most {MAX_TOKEN_BYTES} bytes, not {len(token)}")
        if token in lines:
            raise broken_line(path, number, line, f"each token only once (this one is in line {lines[token]})")
        tokens[rank] = token
        lines[token] = number
        last = rank
    return tokens


def module_path(path: StrPath) -> Path:
    """Return the path of the Python module for a rank file. Its name is a valid identifier.

    Examples
    --------
    >>> module_path("my.v1.tiktoken").name
    'my_v1_encoding.py'
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", Path(path).stem)
    return Path(path).with_name(f"{'_' if name[:1].isdigit() else ''}{name}_encoding.py")


def _obstacle(model: Model) -> str | None:
    """Return why tiktoken would give other ids, or None if it would not. The split pattern is not considered."""
    from bpejit.formats.ranked_merges import rank_obstacle  # not at the top: it loads kernels

    obstacle = plain_obstacle(model)
    if obstacle is not None:
        return obstacle
    texts = sorted(model.special_tokens)
    for text in texts:
        if has_surrogates(text):
            return f"the special token {shorten(text)} is not valid UTF-8"
    for first, second in pairwise(texts):
        # In sorted order, a text comes directly before the texts that begin with it.
        if second.startswith(first):
            return f"the special token {shorten(second)} begins with {shorten(first)}, and tiktoken may find either"
    return rank_obstacle(model)


def tiktoken_pattern(model: Model) -> str:
    """Return a model's split pattern in tiktoken's dialect.

    Raises
    ------
    TokenizerFormatError
        If tiktoken cannot split text in this way.
    """
    from bpejit.splitting.dialect_writer import to_fancy_regex

    first, *others = stages_of(pattern_source(model.pattern))
    refuse_obstacle(
        f"it splits by {1 + len(others)} patterns in sequence, and tiktoken has only one" if others else None, "for tiktoken"
    )
    try:
        translated = to_fancy_regex(first, unicode=model.unicode)
        translated.encode("utf-8")
    except (PatternError, UnicodeEncodeError) as cause:
        raise TokenizerFormatError(f"the tokenizer cannot be written for tiktoken: {cause}") from cause
    return translated


def _script(model: Model, path: Path, pattern: str) -> bytes:
    specials = "".join(f"        {text!a}: {number},\n" for text, number in model.special_tokens.items())
    return f'''"""A `tiktoken.Encoding` of the ranks beside this file. Written by bpejit."""

import base64
from pathlib import Path

import tiktoken

lines = Path(__file__).with_name({path.name!a}).read_bytes().splitlines()
encoding = tiktoken.Encoding(
    name={path.stem!a},
    pat_str={pattern!a},
    mergeable_ranks={{base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}},
    special_tokens={{
{specials}    }},
)
'''.encode("ascii")
