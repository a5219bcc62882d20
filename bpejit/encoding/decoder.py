"""Decode token ids to bytes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.encoding.encoder_tables import make_decoder
from bpejit.errors import TokenIdError, shorten
from bpejit.kernels.constants import DONE, NEED_SPACE
from bpejit.kernels.encoding import decoding
from bpejit.model import Model

BLOCK_IDS = 1 << 16
"""Ids that are decoded at a time, so that the buffers of ids and bytes, which are reused, fit into the CPU cache."""

SHORT_IDS = 1 << 10
"""Ids that are decoded without a buffer of the usual size."""

BLOCK_BYTES = 1 << 19
"""Size of the buffer of bytes; most blocks of ids need half of it."""


class Decoder:
    """Decode with one model; immutable, and shared by all threads.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._pool, self._slots, self._lengths, self._longest = make_decoder(model)

    def token_lengths(self, ids: Array) -> Array:
        """Return the number of bytes of each id, as int64; the ids must be in the vocabulary."""
        lengths: Array = self._lengths[ids]
        return lengths

    def without_special(self, ids: Iterable[int] | Array) -> Array:
        """Return the ids of ordinary tokens, as int64."""
        array = self._as_ids(ids, 0).astype(np.int64)
        return array[~self.is_special(array)]

    def is_special(self, ids: Array) -> Array:
        """Return a mask of the ids of special tokens that decoding may skip."""
        flags = self.model.token_flags
        special = [number for text, number in self.model.special_tokens.items() if text not in flags or flags[text].special]
        found: Array = np.isin(ids, special)
        return found

    def decode(self, ids: Iterable[int] | Array, *, offset: int = 0) -> bytes:
        """Return the bytes of ids.

        Parameters
        ----------
        ids : list of int, or any array of integers
        offset : int
            Position of the first id in the whole sequence, for the error message.

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary.
        """
        array = self._as_ids(ids, offset)
        if array.size <= SHORT_IDS:
            # Without the generator and its buffers, a short text takes two thirds of the time.
            out = np.empty(array.size * decoding.SLOT_BYTES + self._longest + decoding.SLOT_BYTES, dtype=np.uint8)
            state = np.zeros(2, dtype=np.int64)
            ids = array if array.dtype == np.int64 and array.flags.carray else array.astype(np.int64)
            if decoding.decode_ids(ids, self._slots, self._pool, out, state) == DONE:
                return out[: state[decoding.N_BYTES]].tobytes()
        data = io.BytesIO()  # returns its buffer without a copy
        for piece in self.decode_blocks([array], block_ids=array.size, offset=offset):
            data.write(piece.data)
        return data.getvalue()

    def decode_blocks(self, blocks: Iterable[Array], *, block_ids: int = BLOCK_IDS, offset: int = 0) -> Iterator[Array]:
        """Yield the bytes of consecutive arrays of ids, in pieces that are valid until the next one.

        Parameters
        ----------
        blocks : arrays of integers
            The next one is requested when all pieces of the previous ones have been used.
        block_ids : int
            Number of ids of the largest block, for the size of the buffers.
        offset : int
            Position of the first id in the whole sequence, for the error message.

        Yields
        ------
        uint8 [n]

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary. The bytes before it have been yielded then.
        """
        block_ids = min(block_ids, BLOCK_IDS)
        out = np.empty(min(block_ids * decoding.SLOT_BYTES, BLOCK_BYTES) + self._longest + decoding.SLOT_BYTES, dtype=np.uint8)
        buffer = np.empty(block_ids, dtype=np.int64)
        state = np.zeros(2, dtype=np.int64)
        for block in blocks:
            array = self._as_ids(block, offset)
            for start in range(0, array.size, BLOCK_IDS):
                ids = _widened(array[start : start + BLOCK_IDS], buffer)
                state[decoding.N_IDS] = 0
                status = NEED_SPACE
                while status == NEED_SPACE:
                    status = decoding.decode_ids(ids, self._slots, self._pool, out, state)
                    yield out[: state[decoding.N_BYTES]]
                if status != DONE:
                    position = start + int(state[decoding.N_IDS])
                    self._refuse(int(array[position]), position + offset)
            offset += array.size

    def _as_ids(self, ids: Iterable[int] | Array, offset: int) -> Array:
        """Return ids as an array [n] of any type of integers but uint64."""
        numbers = ids if isinstance(ids, np.ndarray) else list(ids)
        try:
            array = np.asarray(numbers)
        except (OverflowError, ValueError):
            array = np.empty(0)
        if array.ndim == 1 and array.dtype.kind in "iu" and array.dtype != np.uint64:
            return array
        # The remaining cases are rare or errors: find out which.
        arguments.ids("ids", numbers)
        for position, number in enumerate(numbers):
            if not isinstance(number, (int, np.integer)):
                raise TokenIdError(
                    f"{shorten(number)} (at position {position + offset}) is not a token id; expected whole numbers: "
                    "pass a list of int or an array of integers with one dimension"
                )
            if not 0 <= number < self._lengths.size:
                self._refuse(int(number), position + offset)
        return np.array(numbers, dtype=np.int64)

    def _refuse(self, number: int, position: int) -> None:
        """Raise TokenIdError for an id that is not in the vocabulary."""
        size = self._lengths.size
        gap = f", and {number} is not in use" if 0 <= number < size else ""
        raise TokenIdError(
            f"there is no token with id {shorten(number)} (at position {position}); expected ids from 0 to {size - 1}{gap}: "
            "decode with the tokenizer that made these ids"
        )


def _widened(ids: Array, buffer: Array) -> Array:
    """Return ids as a contiguous, writable array of int64, which is the start of `buffer` or the array itself."""
    if ids.dtype == np.int64 and ids.flags.carray:
        return ids
    buffer[: ids.size] = ids
    return buffer[: ids.size]
