"""Decode ids as they come from a model, without ever showing half a character."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.encoding.encoder import Encoder


class StreamDecoder:
    """Turns ids into text piece by piece: the pieces joined are the text of all ids, wherever these are divided.

    A token may end within a character; its last bytes wait for the next token.

    Parameters
    ----------
    encoder : Encoder
    errors : str
        What becomes of bytes that are not UTF-8, as in `bytes.decode`.
    skip_special_tokens : bool
        Whether special tokens are left out.
    """

    def __init__(self, encoder: Encoder, *, errors: str = "replace", skip_special_tokens: bool = False) -> None:
        self._encoder = encoder
        self._skips = skip_special_tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors)

    def feed(self, ids: int | Iterable[int] | Array) -> str:
        """Add some ids, or one; return the text that is certain now.

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary.
        """
        some: Iterable[int] | Array = [int(ids)] if isinstance(ids, (int, np.integer)) else arguments.ids("ids", ids)
        return self._decoder.decode(self._encoder.decode(self._encoder.without_special(some) if self._skips else some))

    def finish(self) -> str:
        """Say that no id follows; return what becomes of a character that is not complete. The decoder may be used again."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text


def decode_stream(decoder: StreamDecoder, ids: Iterable[int]) -> Iterator[str]:
    """Yield the text of ids as soon as it is certain; a step that completes no character yields nothing."""
    for number in ids:
        text = decoder.feed([number])
        if text:
            yield text
    text = decoder.finish()
    if text:
        yield text
