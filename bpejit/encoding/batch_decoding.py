"""Decode several sequences of ids with one call of the kernel, and a stream of ids in whole characters."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from typing import Any

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, EncodedBatch, starts_of
from bpejit.encoding.decoder import as_integers
from bpejit.encoding.encoder import Encoder
from bpejit.errors import TokenIdError


class StreamDecoder:
    """Decode ids incrementally; the concatenated results are the text of all ids, however they are divided.

    A token may end inside a character; the bytes of that character are held until the next token.

    Parameters
    ----------
    encoder : Encoder
    errors : str
        Error handler for bytes that are not UTF-8, as in `bytes.decode`.
    skip_special_tokens : bool
        Whether to omit special tokens.
    """

    def __init__(self, encoder: Encoder, *, errors: str = "replace", skip_special_tokens: bool = False) -> None:
        self._encoder = encoder
        self._skips = skip_special_tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors)

    def feed(self, ids: int | Iterable[int] | Array) -> str:
        """Add one id or several; return the text that is complete.

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary.
        """
        some: Iterable[int] | Array = [int(ids)] if isinstance(ids, (int, np.integer)) else arguments.ids("ids", ids)
        return self._decoder.decode(self._encoder.decode(self._encoder.without_special(some) if self._skips else some))

    def finish(self) -> str:
        """Decode what is left of an incomplete character, and reset the decoder for reuse."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text


def decode_stream(decoder: StreamDecoder, ids: Iterable[int]) -> Iterator[str]:
    """Yield text as soon as its characters are complete; an id that completes none yields nothing."""
    for number in ids:
        text = decoder.feed([number])
        if text:
            yield text
    text = decoder.finish()
    if text:
        yield text


def decode_batch(encoder: Encoder, batch: Any, *, errors: str, skip_special_tokens: bool) -> list[str]:
    """Return the text of each sequence of ids (see `bpejit.Tokenizer.decode_batch`)."""
    return [str(row, "utf-8", errors) for row in _decoded(encoder, batch, skip_special_tokens)]


def decode_bytes_batch(encoder: Encoder, batch: Any) -> list[bytes]:
    """Return the bytes of each sequence of ids."""
    return [bytes(row) for row in _decoded(encoder, batch, False)]


def _decoded(encoder: Encoder, batch: Any, skip_special_tokens: bool) -> Iterator[memoryview]:
    if isinstance(batch, EncodedBatch):
        ids, starts = batch.ids, batch.starts
    else:
        if not arguments.is_iterable(batch):
            raise arguments.wrong_type("batch", batch, "a list of lists of token ids, or an EncodedBatch", "give a list")
        rows = list(batch)
        if not all(type(row) is list for row in rows):
            rows = [arguments.ids(f"batch[{index}]", row) for index, row in enumerate(rows)]
            rows = [row if isinstance(row, (list, np.ndarray)) else list(row) for row in rows]
        try:
            ids, starts = _joined(rows)
        except TokenIdError:
            ids, starts = _joined([_checked(encoder, index, row) for index, row in enumerate(rows)])
    shown = ids
    if skip_special_tokens:
        ordinary = ~encoder.is_special(ids)
        shown, starts = ids[ordinary], starts_of(ordinary)[starts]
    try:
        data = memoryview(encoder.decode(shown))
    except TokenIdError:
        for index, (start, end) in enumerate(pairwise(starts.tolist())):
            _checked(encoder, index, shown[start:end])
        raise
    offsets = starts_of(encoder.token_lengths(shown))[starts].tolist()
    return (data[start:end] for start, end in pairwise(offsets))


def _joined(rows: list[Any]) -> tuple[Array, Array]:
    """Return the ids of all rows as int64, and the start of each row.

    Raises
    ------
    TokenIdError
        If not all of them are integers of 64 bits.
    """
    starts = starts_of(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)))
    if rows and all(isinstance(row, list) for row in rows):
        rows = [list(chain.from_iterable(rows))]  # converted at once: ten times as fast for short rows
    try:
        arrays = [as_integers(row) for row in rows if len(row)]
        if all(array.ndim == 1 and array.dtype.kind in "iu" and array.dtype != np.uint64 for array in arrays):
            return np.concatenate([np.empty(0, dtype=np.int64), *arrays], dtype=np.int64), starts
    except (OverflowError, ValueError):
        pass
    raise TokenIdError("not all ids are integers of 64 bits")


def _checked(encoder: Encoder, index: int, row: Any) -> Array:
    """Return a row as int64. An error names the row."""
    try:
        encoder.decode(row)
    except TokenIdError as error:
        raise TokenIdError(f"batch[{index}]: {error}") from None
    return np.array(row, dtype=np.int64)
