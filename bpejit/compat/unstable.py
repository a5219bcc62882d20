"""tiktoken's `encode_with_unstable` and `_encode_bytes`.

The last pre-token of a text may change when text is appended: "hello fan" may become "hello fantastic". Its tokens are
unstable. A completion is a list of ids whose bytes begin with the bytes of the unstable tokens, where the last id may have
bytes beyond them. As in tiktoken, completions are found by brute force; here the encodings run in batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from bpejit.arrays import Array, padded_text
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.kernel_runner import AnySplitter
from bpejit.encoding.workspace import Workspace
from bpejit.errors import UnsupportedError
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.normalization import TextPipeline
from bpejit.splitting import Splitter

_SPACES = b" \n\t"

_PYTHON_ONLY_SPACES = "\x1c\x1d\x1e\x1f"
"""Characters that are white space in Python, and not in tiktoken."""


def encode_with_unstable(
    encoder: Encoder, data: bytes, splitter: AnySplitter, tokens: list[bytes], workspace: Workspace
) -> tuple[list[int], set[tuple[int, ...]]]:
    """Return the stable ids of a text, and the completions of its unstable end.

    Parameters
    ----------
    encoder : Encoder
    data : bytes
        The text.
    splitter : Splitter or TextPipeline
        Finds the allowed special tokens.
    tokens : list of bytes
        The ordinary tokens, sorted.
    workspace : Workspace
    """
    if isinstance(splitter, TextPipeline):
        raise UnsupportedError(
            "this tokenizer normalizes text before it splits it, so completions are not defined; "
            "expected a tokenizer without a normalization pipeline: use `encode`"
        )
    ids = encoder.encode(data, workspace, splitter).tolist()
    count = _count_unstable(encoder, ids, _last_length(data, splitter))
    if not count:
        return ids, set()
    vocab = encoder.model.tokens
    unstable = b"".join(vocab[token_id] for token_id in ids[-count:])
    known = encoder.model.ids
    completions: set[tuple[int, ...]] = {(known[token],) for token in _tokens_with_prefix(tokens, unstable)}
    texts: list[bytes] = []
    pretokens: list[bytes] = []
    for i in range(1, len(unstable)):
        for token in _tokens_with_prefix(tokens, unstable[i:]):
            # tiktoken splits valid UTF-8 only; other bytes are one pre-token.
            possible = unstable[:i] + token
            (texts if _is_utf8(possible) else pretokens).append(possible)
    ordinary = encoder.splitter_for(frozenset())
    encoded = [encoder.encode(text, workspace, ordinary) for text in texts]
    encoded += encoder.encode_pretokens(pretokens, workspace)
    completions.update(_first_ids(encoder, row, len(unstable)) for row in encoded)
    last = unstable.decode("utf-8", "replace")[-1]
    if last.isspace() and last not in _PYTHON_ONLY_SPACES and last.encode() != unstable:
        # White space at the end may become a pre-token of its own when text is appended.
        parts = encoder.encode_pretokens([unstable[: -len(last.encode())], last.encode()], workspace)
        completions.add(tuple(np.concatenate(parts).tolist()))
    return ids[:-count], completions


def encode_bytes(encoder: Encoder, data: bytes, workspace: Workspace) -> list[int]:
    """Return the ids of bytes, without special tokens, as `tiktoken.Encoding._encode_bytes` does.

    Where the bytes are not UTF-8, the valid prefix is split and encoded. The bytes of its last pre-token and all bytes after
    the prefix then are one pre-token, even if some of these bytes are valid text.
    """
    splitter = encoder.splitter_for(frozenset())
    if isinstance(splitter, TextPipeline):
        raise UnsupportedError(
            "this tokenizer normalizes text before it splits it, so bytes cannot be encoded as they are; "
            "expected a tokenizer without a normalization pipeline: use `encode_ordinary`"
        )
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        prefix, rest = data[: error.start], data[error.start :]
    else:
        prefix, rest = data, b""
    ids: list[int] = encoder.encode(prefix, workspace, splitter).tolist()
    if not rest:
        return ids
    count = _count_unstable(encoder, ids, _last_length(prefix, splitter))
    kept = ids[: len(ids) - count]
    unstable = b"".join(encoder.model.tokens[token_id] for token_id in ids[len(kept) :]) + rest
    last: list[int] = encoder.encode_pretokens([unstable], workspace)[0].tolist()
    return kept + last


def _last_length(data: bytes, splitter: Splitter) -> int:
    """Return the number of bytes of the last pre-token: 0 if the text ends with a special token."""
    ends = splitter.split(*padded_text(data)) if data else np.zeros(0, dtype=np.uint32)
    if not ends.size or int(ends[-1]) & SPECIAL_FLAG:
        return 0
    return int(ends[-1]) - (int(ends[-2]) & POSITION_MASK if ends.size > 1 else 0)


def _count_unstable(encoder: Encoder, ids: list[int], n_bytes: int) -> int:
    """Return the number of ids at the end that have `n_bytes` bytes; tokens of spaces before them count if the first is one."""
    vocab = encoder.model.tokens
    count = 0
    while n_bytes > 0:
        count += 1
        n_bytes -= len(vocab[ids[-count]])

    def is_spaces(token_id: int) -> bool:
        return not vocab.get(token_id, b"x").strip(_SPACES)

    if count and is_spaces(ids[-count]):
        while count < len(ids) and is_spaces(ids[-count - 1]):
            count += 1
    return count


def _tokens_with_prefix(tokens: list[bytes], prefix: bytes) -> Iterator[bytes]:
    index = bisect_left(tokens, prefix)
    while index < len(tokens) and tokens[index].startswith(prefix):
        yield tokens[index]
        index += 1


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _first_ids(encoder: Encoder, ids: Array, n_bytes: int) -> tuple[int, ...]:
    """Return the shortest prefix of `ids` that has at least `n_bytes` bytes, or all ids."""
    ends = np.cumsum(encoder.token_lengths(ids))
    return tuple(ids[: int(np.searchsorted(ends, n_bytes)) + 1].tolist())
