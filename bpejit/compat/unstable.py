"""Which ids of a text would stay if it went on, and what the rest might become: tiktoken's `encode_with_unstable`.

The last pre-token of a text may change with more text: "hello fan" may go on as "hello fantastic". Its tokens are unstable;
a completion is a list of ids whose bytes begin with its bytes, or have them within their last token.
tiktoken looks for completions by force, and so does this: the same ones, by the same steps, the encodings in batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from bpejit.arrays import Array, padded_text
from bpejit.encoding.encoder import AnySplitter, Encoder
from bpejit.encoding.workspace import Workspace
from bpejit.errors import UnsupportedError
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.normalization import Preparer
from bpejit.splitting import Splitter

_SPACES = b" \n\t"

_NOT_RUST = "\x1c\x1d\x1e\x1f"
"""White space of Python that is none for tiktoken."""


def encode_with_unstable(
    encoder: Encoder, data: bytes, splitter: AnySplitter, tokens: list[bytes], workspace: Workspace
) -> tuple[list[int], set[tuple[int, ...]]]:
    """Return the stable ids of a text, and the completions of the rest.

    Parameters
    ----------
    encoder : Encoder
    data : bytes
        The text.
    splitter : Splitter or Preparer
        Finds the special tokens that are allowed.
    tokens : list of bytes
        The ordinary tokens, sorted.
    workspace : Workspace
    """
    if isinstance(splitter, Preparer):
        raise UnsupportedError(
            "this tokenizer changes text before it splits it, which none of tiktoken's does, so no rule says what stays "
            "where a text goes on; expected a tokenizer that encodes text as it is: use `encode`"
        )
    ids = encoder.encode(data, workspace, splitter).tolist()
    count = _count_unstable(encoder, ids, _last_length(data, splitter))
    if not count:
        return ids, set()
    vocab = encoder.model.tokens
    unstable = b"".join(vocab[number] for number in ids[-count:])
    known = encoder.model.ids
    completions: set[tuple[int, ...]] = {(known[token],) for token in _beginning_with(tokens, unstable)}
    texts: list[bytes] = []
    pieces: list[bytes] = []
    for i in range(1, len(unstable)):
        for token in _beginning_with(tokens, unstable[i:]):
            # Bytes that are no text are not split; nor are they by tiktoken, which splits text only.
            possible = unstable[:i] + token
            (texts if _is_text(possible) else pieces).append(possible)
    ordinary = encoder.splitter_for(frozenset())
    encoded = [encoder.encode(text, workspace, ordinary) for text in texts]
    encoded += encoder.encode_pretokens(pieces, workspace)
    completions.update(_up_to(encoder, row, len(unstable)) for row in encoded)
    last = unstable.decode("utf-8", "replace")[-1]
    if last.isspace() and last not in _NOT_RUST and last.encode() != unstable:
        # A space at the end may be split from what stands before it once more text follows.
        parts = encoder.encode_pretokens([unstable[: -len(last.encode())], last.encode()], workspace)
        completions.add(tuple(np.concatenate(parts).tolist()))
    return ids[:-count], completions


def _last_length(data: bytes, splitter: Splitter) -> int:
    """Return how many bytes the last pre-token has: 0 if there is none behind the last special token."""
    ends = splitter.split(*padded_text(data)) if data else np.zeros(0, dtype=np.uint32)
    if not ends.size or int(ends[-1]) & SPECIAL_FLAG:
        return 0
    return int(ends[-1]) - (int(ends[-2]) & POSITION_MASK if ends.size > 1 else 0)


def _count_unstable(encoder: Encoder, ids: list[int], n_bytes: int) -> int:
    """Return how many ids at the end have these bytes, with spaces before them if they begin with spaces."""
    vocab = encoder.model.tokens
    count = 0
    while n_bytes > 0:
        count += 1
        n_bytes -= len(vocab[ids[-count]])

    def is_spaces(number: int) -> bool:
        return not vocab.get(number, b"x").strip(_SPACES)

    if count and is_spaces(ids[-count]):
        while count < len(ids) and is_spaces(ids[-count - 1]):
            count += 1
    return count


def _beginning_with(tokens: list[bytes], start: bytes) -> Iterator[bytes]:
    place = bisect_left(tokens, start)
    while place < len(tokens) and tokens[place].startswith(start):
        yield tokens[place]
        place += 1


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _up_to(encoder: Encoder, ids: Array, n_bytes: int) -> tuple[int, ...]:
    """Return the first ids that together have at least so many bytes, or all."""
    ends = np.cumsum(encoder.token_lengths(ids))
    return tuple(ids[: int(np.searchsorted(ends, n_bytes)) + 1].tolist())
