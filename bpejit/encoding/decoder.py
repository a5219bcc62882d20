"""Decode token ids to bytes; several sequences of ids with one call of the kernel, and a stream of ids in whole characters."""

from __future__ import annotations

import codecs
import io
import itertools
from array import array as packed
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, EncodedBatch, lengths_of, starts_of
from bpejit.encoding.encoder_tables import check_ids, make_decoder
from bpejit.errors import TokenIdError, shorten
from bpejit.kernels.constants import DONE, NEED_SPACE
from bpejit.kernels.decoding import decoding
from bpejit.model import Model

if TYPE_CHECKING:
    from bpejit.encoding.decoding_rules import DecodingRule

BLOCK_IDS = 1 << 16
"""Ids that are converted at a time, so that their buffer, which is reused, fits into the CPU cache."""

SHORT_IDS = 1 << 10
"""Ids that are decoded without a buffer of the usual size."""

BLOCK_BYTES = 1 << 18
"""Bytes that are yielded at a time. Writing them takes a third less time than blocks whose size is no power of two, since
Linux then has fewer, larger pages in its cache.
"""

_FEW_NUMBERS = 80
"""Numbers of a list that NumPy converts as fast as `array.array`."""

_NARROW = (np.dtype(np.uint16), np.dtype(np.uint32))
"""The types of ids that the kernel reads without a conversion, besides int64."""


class Decoder:
    """Decode with one model; immutable, and shared by all threads.

    Parameters
    ----------
    model : Model

    Raises
    ------
    TokenizerFormatError
        If an id is too large for the tables.
    """

    def __init__(self, model: Model) -> None:
        check_ids(model)  # first, before arrays of that size are allocated
        self.model = model
        self._pool, slots, self._lengths, self.longest = make_decoder(model)
        self._slots = slots.view(np.uint8)

    @cached_property
    def rule(self) -> DecodingRule | None:
        """How ids are decoded to text, if that is not the bytes of their tokens."""
        if not self.model.decoder:
            return None
        from bpejit.encoding.decoding_rules import DecodingRule  # not at the top: few models have a rule

        rule = DecodingRule(self.model, self.decode, self.token_lengths)
        return None if rule.is_plain else rule

    def token_lengths(self, ids: Array) -> Array:
        """Return the number of bytes of each id, as int64; the ids must be in the vocabulary."""
        lengths: Array = self._lengths[ids]
        return lengths

    @cached_property
    def token_texts(self) -> tuple[dict[int, str], dict[int, bytes]]:
        """The texts of ids that are the same after all others (see `StreamDecoder.is_direct`), and the bytes of the other ids.

        The others are parts of characters, and ids of byte fallback. If all ids depend on those before, there are neither.
        """
        texts: dict[int, str] = {}
        parts: dict[int, bytes] = {}
        byte_ids = () if self.rule is None else self.rule.byte_ids
        ids = np.flatnonzero(self._lengths if self.rule is None or self.rule.adds_up else ())
        data = self.decode(ids)
        for number, (start, end) in zip(ids.tolist(), pairwise(starts_of(self.token_lengths(ids)).tolist()), strict=True):
            token = data[start:end]
            try:
                texts[number] = token.decode()
            except UnicodeDecodeError:
                parts[number] = token
            if number in byte_ids:
                parts[number] = token
                texts.pop(number, None)
        return texts, parts

    def without_special(self, ids: Iterable[int] | Array) -> Array:
        """Return the ids of ordinary tokens, as int64."""
        array = self.as_ids(ids).astype(np.int64)
        return array[~self.is_special(array)]

    def is_special(self, ids: Array) -> Array:
        """Return a mask of the ids of special tokens that decoding may skip."""
        found: Array = np.isin(ids, self.skipped_ids)
        return found

    @cached_property
    def skipped_ids(self) -> list[int]:
        """The ids of special tokens that decoding may skip."""
        flags = self.model.token_flags
        return [number for text, number in self.model.special_tokens.items() if text not in flags or flags[text].special]

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
        array = self.as_ids(ids, offset)
        if array.size <= SHORT_IDS:
            # Without the generator and its buffers, a short text takes two thirds of the time.
            out = np.empty(array.size * decoding.SLOT_BYTES + self.longest + decoding.SLOT_BYTES, np.uint8)
            state = np.zeros(2, np.int64)
            ids = array if array.dtype == np.int64 and array.flags.carray else array.astype(np.int64)
            if decoding.decode_ids(ids.view(np.uint8), ids.size, 8, self._slots, self._pool, out, state) == DONE:
                return out[: state[decoding.N_BYTES]].tobytes()
        data = io.BytesIO()  # returns its buffer without a copy
        for piece in self.decode_blocks([array], block_ids=array.size, offset=offset):
            data.write(piece.data)
        return data.getvalue()

    def decode_blocks(
        self,
        blocks: Iterable[Array],
        *,
        block_ids: int = BLOCK_IDS,
        offset: int = 0,
        piece_bytes: int = BLOCK_BYTES,
        n_buffers: int = 1,
    ) -> Iterator[Array]:
        """Yield the bytes of consecutive arrays of ids, in pieces that are valid until as many more as there are buffers.

        Parameters
        ----------
        blocks : arrays of integers
        block_ids : int
            Number of ids of the largest block, for the size of the buffers.
        offset : int
            Position of the first id in the whole sequence, for the error message.
        piece_bytes : int
            Size of the pieces if the blocks are large.
        n_buffers : int
            Number of buffers, which contain the pieces in turn.

        Yields
        ------
        uint8 [n]
            All pieces but the last have the same size.

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary. The bytes before it have been yielded then.
        """
        block_ids = min(block_ids, BLOCK_IDS)
        piece_bytes = min(block_ids * decoding.SLOT_BYTES, piece_bytes)
        # An output is full when it has at least `piece_bytes` and no room for any token.
        size = piece_bytes + self.longest + decoding.SLOT_BYTES
        outputs = itertools.cycle([np.empty(size, np.uint8) for _ in range(n_buffers)])
        out = next(outputs)
        buffer = np.empty(block_ids, np.int64)
        state = np.zeros(2, np.int64)
        for block in blocks:
            array = self.as_ids(block, offset)
            start = 0
            for memory, n_ids, width in _as_memory(array, buffer):
                state[decoding.N_IDS] = 0
                while True:
                    status = decoding.decode_ids(memory, n_ids, width, self._slots, self._pool, out, state)
                    if status != NEED_SPACE:
                        break
                    yield out[:piece_bytes]
                    rest = out[piece_bytes : state[decoding.N_BYTES]]
                    out = next(outputs)
                    out[: rest.size] = rest
                    state[decoding.N_BYTES] = rest.size
                if status != DONE:
                    yield out[: state[decoding.N_BYTES]]
                    position = start + int(state[decoding.N_IDS])
                    self._refuse(int(array[position]), position + offset)
                start += n_ids
            offset += array.size
        yield out[: state[decoding.N_BYTES]]

    def as_ids(self, ids: Iterable[int] | Array, offset: int = 0) -> Array:
        """Return ids as an array [n] of any type of integers but uint64."""
        numbers = ids if isinstance(ids, np.ndarray) else list(ids)
        try:
            array = as_integers(numbers)
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
        return np.array(numbers, np.int64)

    def _refuse(self, number: int, position: int) -> None:
        """Raise TokenIdError for an id that is not in the vocabulary."""
        size = self._lengths.size
        gap = f", and {number} is not in use" if 0 <= number < size else ""
        raise TokenIdError(
            f"there is no token with id {shorten(number)} (at position {position}); expected ids from 0 to {size - 1}{gap}: "
            "decode with the tokenizer that made these ids"
        )


def as_integers(numbers: list[Any] | Array) -> Array:
    """Return numbers as an array; they may be of any kind.

    `array.array` takes 9 ns for an integer of a list, and `np.asarray` 29 to 40. For short lists it is slower.
    """
    # In NumPy 1.26, `array.array` takes NumPy's booleans for numbers, so that a mask would be ids.
    if isinstance(numbers, list) and len(numbers) > _FEW_NUMBERS and not isinstance(numbers[0], np.bool_):
        with suppress(OverflowError, TypeError):  # negative or large numbers, and other objects
            return np.frombuffer(packed("I", numbers), np.uintc)
    return np.asarray(numbers)


def _as_memory(ids: Array, buffer: Array) -> Iterator[tuple[Array, int, int]]:
    """Yield ids as the kernel `decode_ids` reads them: memory, the number of ids, and the bytes of an id.

    The memory is that of the array itself or of `buffer`, int64 [1 or more], filled from its first byte. The kernel reads 8
    bytes for each id, so the last ids of an array are read from the buffer.
    """
    dtype = ids.dtype if ids.dtype in _NARROW else buffer.dtype
    direct = 0
    if ids.dtype == dtype and ids.flags.carray:
        direct = max(0, ids.size - buffer.itemsize // dtype.itemsize + 1)
        if direct:
            yield ids.view(np.uint8), direct, dtype.itemsize
    for start in range(direct, ids.size, buffer.size):
        rest = ids[start : start + buffer.size]
        buffer.view(dtype)[: rest.size] = rest
        yield buffer.view(np.uint8), rest.size, dtype.itemsize


class StreamDecoder:
    """Decode ids incrementally; the concatenated results are the text of all ids, however they are divided.

    A token may end inside a character; the bytes of that character are held until the next token.

    Parameters
    ----------
    decoder : Decoder
    errors : str
        Error handler for bytes that are not UTF-8, as in `bytes.decode`.
    skip_special_tokens : bool
        Whether to omit special tokens.
    """

    def __init__(self, decoder: Decoder, *, errors: str = "replace", skip_special_tokens: bool = False) -> None:
        self._decoder = decoder
        self._skips = skip_special_tokens
        self._errors = errors
        self._before: list[int] = []
        self._held: list[int] = []
        self._text = codecs.getincrementaldecoder("utf-8")(errors)

    def feed(self, ids: int | Iterable[int] | Array) -> str:
        """Add one id or several; return the text that is complete.

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary.
        """
        some: Iterable[int] | Array = [int(ids)] if isinstance(ids, (int, np.integer)) else arguments.ids("ids", ids)
        if self._decoder.rule is not None:
            return self._feed_rule(self._decoder.rule, list(some))
        return self._text.decode(self._decoder.decode(self._decoder.without_special(some) if self._skips else some))

    @property
    def is_direct(self) -> bool:
        """True if the text of the next id is that of its bytes, provided that these are whole characters."""
        rule = self._decoder.rule
        return rule is not None and rule.adds_up and bool(self._before) and not self._held

    def feed_one(self, number: int) -> str:
        """Do the same as `feed` with one id of a model with a rule, in less time for most."""
        decoder = self._decoder
        texts, parts = decoder.token_texts
        text, part = texts.get(number), parts.get(number)
        is_known = text is not None or part is not None
        if not (is_known and self._before) or (self._skips and number in decoder.skipped_ids):
            return self.feed(number)
        if part is not None:  # its text depends on the bytes after it
            self._held.append(number)
            return ""
        try:
            run = b"".join([parts[held] for held in self._held]).decode()
        except UnicodeDecodeError:
            return self.feed(number)
        self.follow(number)
        self._held = []
        return run + (text or "")

    def follow(self, number: int) -> None:
        """Continue after an id that was decoded elsewhere, since the decoder `is_direct`."""
        self._before = [number]

    def _feed_rule(self, rule: DecodingRule, some: list[int], *, final: bool = False) -> str:
        """Decode as a rule says: the text of the ids that are new, after the last one before them."""
        if self._skips:
            some = self._decoder.without_special(some).tolist()
        self._decoder.decode(some)  # raises if one is not in the vocabulary
        self._held += some
        if not self._held or (rule.holds(self._held) and not final):
            return ""
        before = rule.text_of(self._before, self._errors) if self._before else ""
        together = [*self._before, *self._held]
        text = rule.text_of(together, self._errors)
        self._before, self._held = rule.context(together), []
        return text[len(before) :]

    def finish(self) -> str:
        """Decode what is left of an incomplete character, and reset the decoder for reuse."""
        if self._decoder.rule is not None:
            text = self._feed_rule(self._decoder.rule, [], final=True)
            self._before = []
            return text
        text = self._text.decode(b"", final=True)
        self._text.reset()
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


def decode_batch(decoder: Decoder, batch: Any, *, errors: str, skip_special_tokens: bool) -> list[str]:
    """Return the text of each sequence of ids (see `bpejit.Tokenizer.decode_batch`)."""
    if decoder.rule is not None:
        rows = _rows(decoder, batch, skip_special_tokens)
        return [decoder.rule.text_of(row, errors) for row in rows]
    return [str(row, "utf-8", errors) for row in _decoded(decoder, batch, skip_special_tokens)]


def decode_bytes_batch(decoder: Decoder, batch: Any) -> list[bytes]:
    """Return the bytes of each sequence of ids."""
    if decoder.rule is not None:
        return [decoder.rule.bytes_of(row) for row in _rows(decoder, batch, False)]
    return [bytes(row) for row in _decoded(decoder, batch, False)]


def _decoded(decoder: Decoder, batch: Any, skip_special_tokens: bool) -> Iterator[memoryview]:
    """Yield the bytes of the tokens of each row."""
    shown, starts = _shown(decoder, batch, skip_special_tokens)
    try:
        data = memoryview(decoder.decode(shown))
    except TokenIdError:
        for index, (start, end) in enumerate(pairwise(starts.tolist())):
            _checked(decoder, index, shown[start:end])
        raise
    offsets = starts_of(decoder.token_lengths(shown))[starts].tolist()
    return (data[start:end] for start, end in pairwise(offsets))


def _rows(decoder: Decoder, batch: Any, skip_special_tokens: bool) -> list[Array]:
    """Return the ids of each row."""
    shown, starts = _shown(decoder, batch, skip_special_tokens)
    return [_checked(decoder, index, shown[start:end]) for index, (start, end) in enumerate(pairwise(starts.tolist()))]


def _shown(decoder: Decoder, batch: Any, skip_special_tokens: bool) -> tuple[Array, Array]:
    """Return the ids that are decoded, of all rows, and the start of each row."""
    if isinstance(batch, EncodedBatch):
        ids, starts = batch.ids, batch.starts
    else:
        if not arguments.is_iterable(batch):
            raise arguments.wrong_type("batch", batch, "a list of lists of token ids, or an EncodedBatch", "give a list")
        rows = list(batch)
        parts = rows
        if all(type(row) is list for row in rows):
            parts = [list(chain.from_iterable(rows))]  # converted at once: ten times as fast for short rows
        else:
            rows = [arguments.ids(f"batch[{index}]", row) for index, row in enumerate(rows)]
            parts = rows = [row if isinstance(row, (list, np.ndarray)) else list(row) for row in rows]
        starts = starts_of(lengths_of(rows))
        try:
            ids = np.concatenate([np.empty(0, np.int64), *(decoder.as_ids(part) for part in parts)], dtype=np.int64)
        except TokenIdError:
            for index, row in enumerate(rows):
                _checked(decoder, index, row)
            raise
    shown = ids
    if skip_special_tokens:
        ordinary = ~decoder.is_special(ids)
        shown, starts = ids[ordinary], starts_of(ordinary)[starts]
    return shown, starts


def _checked(decoder: Decoder, index: int, row: Any) -> Array:
    """Return a row as int64. An error names the row."""
    try:
        decoder.decode(row)
    except TokenIdError as error:
        raise TokenIdError(f"batch[{index}]: {error}") from None
    return np.array(row, np.int64)


def decoded_text(decoder: Decoder, blocks: Iterable[Array]) -> Iterator[Array]:
    """Yield the bytes of the text of consecutive arrays of ids, as uint8 [n], for a model with a rule for decoding."""
    stream = StreamDecoder(decoder, errors="surrogateescape")
    for text in chain(map(stream.feed, blocks), iter(stream.finish, "")):
        yield np.frombuffer(text.encode("utf-8", "surrogateescape"), np.uint8)
