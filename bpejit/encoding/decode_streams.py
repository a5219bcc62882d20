"""Decode many streams of ids at once, as a server does that samples an id for each of several texts in a step.

Most tokens are whole characters, and nothing is held back before them: their text is read from a dictionary. The others are
joined to the bytes that are held back, or go through a `StreamDecoder` if a rule decodes them. Stop strings are searched for in
the new text of all streams at once.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Iterable, Sequence

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.encoding.decoder import Decoder, StreamDecoder
from bpejit.errors import OptionError


class DecodeStreams:
    """Decode several streams; the strings of each, concatenated, are the text of its ids, up to a stop string.

    Parameters
    ----------
    decoder : Decoder
    n : int
        Number of streams, at least 1.
    stop : sequence of str
        Strings that end a stream, not empty. Its text ends before the first position where, after an id, one of them begins.
    errors : str
        Error handler for bytes that are not UTF-8, as in `bytes.decode`.
    skip_special_tokens : bool
        Whether to omit special tokens.

    Attributes
    ----------
    ended : bool [n]
        The streams that a stop string or `finish` has ended. They ignore ids until `reset`.
    """

    def __init__(
        self,
        decoder: Decoder,
        n: int,
        *,
        stop: Sequence[str] = (),
        errors: str = "replace",
        skip_special_tokens: bool = False,
    ) -> None:
        self.ended: Array = np.zeros(n, np.bool_)
        self._decoder = decoder
        self._n = n
        self._errors = errors
        self._bytes: dict[int, bytes] = {}  # of incomplete characters; without a rule, these are all that is held back
        kept = range(n if decoder.rule is not None else 0)
        self._streams = [StreamDecoder(decoder, errors=errors, skip_special_tokens=skip_special_tokens) for _ in kept]
        self._texts, self._parts = decoder.token_texts
        if skip_special_tokens:
            self._texts = self._texts | dict.fromkeys(decoder.skipped_ids, "")
        self._indirect = {index for index, stream in enumerate(self._streams) if not stream.is_direct}
        self._numbers = [0] * n  # of the last step
        self._gone: set[int] = set()
        self._held: dict[int, str] = {}  # text that may be the beginning of a stop string
        parts = {text[:size] for text in stop for size in range(1, len(text))}
        self._has_stops = len(stop) > 0
        self._first = _any_of({text[0] for text in stop})
        self._stop = _any_of(stop)
        self._part = _any_of(parts, end=r"\Z")

    def push(self, ids: Iterable[int] | Array) -> list[str]:
        """Add one id to each stream; return the text of each that is complete.

        Text that may be the beginning of a stop string, and bytes that may be those of an incomplete character, are held back.

        Parameters
        ----------
        ids : list of int, or integers [n]
            Those of streams that have ended are ignored, and may be any numbers.

        Raises
        ------
        OptionError
            If there is not one for each stream.
        TokenIdError
            If an id is not in the vocabulary. No stream is changed then.
        """
        numbers: list[int] = self._decoder.as_ids(arguments.ids("ids", ids)).tolist()
        if len(numbers) != self._n:
            raise OptionError(
                f"ids has {len(numbers)} ids; expected {self._n}, one for each stream: give any number for a stream "
                "that has ended"
            )
        found = [*map(self._texts.get, numbers)]
        for index in self._gone:
            found[index] = ""
        apart = (self._indirect | self._bytes.keys()) - self._gone
        if None in found:
            apart |= {index for index, text in enumerate(found) if text is None}
        for index in apart:
            if found[index] is None and numbers[index] not in self._parts:
                self._decoder.decode([numbers[index]], offset=index)  # raises if it is not in the vocabulary
        for index in apart:
            found[index] = self._feed(index, numbers[index])
        self._numbers = numbers
        texts: list[str] = found  # type: ignore[assignment]
        for index in self._candidates(texts):
            texts[index] = self._until_stop(index, texts[index])
        return texts

    def _candidates(self, texts: list[str]) -> Iterable[int]:
        """Return the streams whose new text may have a part of a stop string: all are searched at once."""
        if not self._has_stops:
            return ()
        joined = "\0".join(texts)
        if joined.count("\0") >= len(texts):  # a text has one
            return range(len(texts))
        return {*self._held, *(joined.count("\0", 0, found.start()) for found in self._first.finditer(joined))}

    def _feed(self, index: int, number: int) -> str:
        """Decode an id that depends on those before, or that is not whole characters."""
        if not self._streams:
            part = self._parts.get(number)
            part = self._texts.get(number, "").encode() if part is None else part
            return self._text_of(index, part, final=False)
        stream = self._streams[index]
        if index not in self._indirect:
            stream.follow(self._numbers[index])
        text = stream.feed_one(number)
        (self._indirect.discard if stream.is_direct else self._indirect.add)(index)
        return text

    def _text_of(self, index: int, part: bytes, *, final: bool) -> str:
        """Return the text of the bytes that are held back and further ones; hold back those of an incomplete character."""
        data = self._bytes.pop(index, b"") + part
        text, used = utf_8_decode(data, self._errors, final)
        if used < len(data):
            self._bytes[index] = data[used:]
        return text

    def _rest(self, index: int) -> str:
        """Return the text of what is left of a text, and begin a new one."""
        if not self._streams:
            return self._text_of(index, b"", final=True)
        text = self._streams[index].finish()
        (self._indirect.discard if self._streams[index].is_direct else self._indirect.add)(index)
        return text

    def _until_stop(self, index: int, text: str, *, final: bool = False) -> str:
        """Return what may be shown of the text held back and new text, up to a stop string, which ends the stream."""
        text = self._held.pop(index, "") + text
        found = self._stop.search(text)
        if found is not None:
            self._end(index)
            return text[: found.start()]
        part = None if final else self._part.search(text)
        if part is None:
            return text
        self._held[index] = part[0]
        return text[: part.start()]

    def _end(self, index: int) -> None:
        self.ended[index] = True
        self._gone.add(index)

    def finish(self, index: int) -> str:
        """End a stream; return the text that was held back. It is empty if the stream has ended before."""
        index = self._checked(index)
        if self.ended[index]:
            return ""
        text = self._until_stop(index, self._rest(index), final=True)
        self._end(index)
        return text

    def reset(self, index: int) -> None:
        """Begin a new text in a stream, whether or not the old one has ended."""
        index = self._checked(index)
        self._rest(index)
        self._held.pop(index, None)
        self._gone.discard(index)
        self.ended[index] = False

    def _checked(self, index: int) -> int:
        return arguments.whole_number("index", index, least=0, most=self._n - 1)


def _any_of(texts: Iterable[str], end: str = "") -> re.Pattern[str]:
    """Return a pattern for the first of some texts in another, and of those at one position for the longest."""
    listed = sorted(map(re.escape, texts), key=len, reverse=True)
    return re.compile(f"(?:{'|'.join(listed)}){end}" if listed else "(?!)")
