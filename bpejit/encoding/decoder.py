"""Decode token ids to bytes, in memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.encoding.encoder_tables import make_decoder
from bpejit.errors import TokenIdError, shorten
from bpejit.kernels.encoding import decoding
from bpejit.model import Model


class Decoder:
    """Decode with one model; immutable, and shared by all threads.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._pool, self._starts, self._lengths = make_decoder(model)

    def token_lengths(self, ids: Array) -> Array:
        """Return the number of bytes of each id, as int64; the ids must be in the vocabulary."""
        lengths: Array = self._lengths[ids]
        return lengths

    def without_special(self, ids: Iterable[int] | Array) -> Array:
        """Return the ids of ordinary tokens, as int64."""
        array = self._as_ids(ids, 0)
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
        n_bytes = decoding.measure_ids(array, self._lengths)
        if n_bytes < 0:
            position = -1 - n_bytes
            self._refuse(int(array[position]), position + offset)
        out = np.empty(n_bytes + decoding.OUT_SLACK, dtype=np.uint8)
        decoding.decode_ids(array, self._pool, self._starts, self._lengths, out)
        return out[:n_bytes].tobytes()

    def _as_ids(self, ids: Iterable[int] | Array, offset: int) -> Array:
        """Return ids of any integer type as int64 [n]."""
        numbers = ids if isinstance(ids, np.ndarray) else list(ids)
        try:
            array = np.asarray(numbers)
        except (OverflowError, ValueError):
            array = np.empty(0)
        if array.ndim == 1 and array.dtype.kind in "iu" and array.dtype != np.uint64:
            return np.ascontiguousarray(array, dtype=np.int64)
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
