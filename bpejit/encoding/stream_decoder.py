"""Decode ids incrementally, without emitting incomplete characters."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.encoding.encoder import Encoder


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
