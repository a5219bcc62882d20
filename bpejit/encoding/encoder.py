"""Encode text to token ids, and decode them, in memory.

An `Encoder` holds the tables of one model; it is immutable and shared by threads. A `Workspace` holds what one thread
writes to: the cache of pre-tokens, buffers and scratch space. All of it is allocated, and all kernels are loaded, when it
is made, so that encoding needs no fresh memory but for its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, ByteStrings, EncodedBatch
from bpejit.encoding.cache_budget import Budget, Share, process_budget
from bpejit.encoding.encoder_tables import make_decoder, make_tables, make_whole, padded
from bpejit.encoding.workspace import CACHE_BYTES, TEXT_BYTES, Workspace
from bpejit.errors import CorpusError, TokenIdError, shorten
from bpejit.kernels.constants import DONE, NEED_SCRATCH, SHORT_KEY_BYTES, SPECIAL_FLAG
from bpejit.kernels.encoding import decoding, pretoken_cache
from bpejit.kernels.encoding import span_encoding as kernels
from bpejit.kernels.encoding.records import EncoderMemory, SplitAutomaton, addresses_of
from bpejit.kernels.encoding.text_encoding import encode_text
from bpejit.kernels.splitting.spans import NEED_CALL, STATE_SIZE, shift_state
from bpejit.model import Model, in_order, special_bytes
from bpejit.normalization import PreparedText, Preparer, TokenFlags
from bpejit.splitting import Splitter, check_chunk

AnySplitter: TypeAlias = "Splitter | Preparer"
"""What divides text into spans; a Preparer changes it as well."""

BytesLike: TypeAlias = "bytes | bytearray | memoryview | Array"

LONG_TEXT_BYTES = 1 << 20
"""Text that is taken at a time from a text of many megabytes: 15% faster than TEXT_BYTES, since each part costs a call and
begins with one cursor.
"""

_ROOM_AT_ONCE = 1 << 24
"""If a text has no more bytes there is room for as many ids from the start: what is not used takes no memory, only addresses.
Five megabytes of Chinese took some 15% longer when their ids had to move to a larger array.
"""

_TOKEN_BYTES_AT_ONCE = 1 << 24
"""Bytes of tokens that are encoded in one call when a tokenizer is loaded."""

STRING_SLICE = 1 << 14
"""Characters of a string that are turned into bytes at a time: a long string needs no second copy."""

_NO_PATTERN = np.zeros(2 * len(SplitAutomaton._fields), dtype=np.int64)
"""Addresses of a pattern that nothing is split by."""

MOST_SPLITTERS = 16
"""Sets of special tokens for which an encoder keeps a splitter, besides the one for all."""


def text_to_bytes(text: str) -> bytes:
    """Return the UTF-8 bytes of a text; a lone surrogate becomes U+FFFD, as tiktoken has it."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # By way of UTF-16, so that two halves of a pair that stand side by side become the character that they mean.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


class Encoder:
    """Encodes with one model.

    Parameters
    ----------
    model : Model
    splitter : Splitter, optional
        One that was made for this model's pattern and special tokens; otherwise it is made here.

    Raises
    ------
    TokenizerFormatError
        If an id is too large for the tables.
    PatternError
        If the model's split pattern does not compile.
    """

    def __init__(self, model: Model, splitter: Splitter | None = None) -> None:
        self.model = model
        specials = {special_bytes(text): number for text, number in model.special_tokens.items()}
        self.splitter: AnySplitter = splitter or self._make_splitter(frozenset(model.special_tokens))
        self.tables = make_tables(model, specials)
        self._addresses = addresses_of(self.tables)
        self._pool, self._starts, self._lengths = make_decoder(model)
        if model.ranked or model.ignore_merges:
            unreachable = self._find_unreachable()
            if unreachable:
                whole, pool = make_whole(model, unreachable)
                self.tables = self.tables._replace(whole=whole, whole_pool=pool)
                self._addresses = addresses_of(self.tables)
        self.special_tokens = frozenset(model.special_tokens)
        self._splitters = {self.special_tokens: self.splitter}
        self._seeded: dict[tuple[int, int], EncoderMemory] = {}
        self._seeded_share: Share | None = None
        self._seeds = [token for token in in_order(model.tokens) if 0 < len(token) <= SHORT_KEY_BYTES]
        self.decode([min(model.tokens)])  # loads the kernels
        pretoken_cache.move_slots(
            np.zeros(pretoken_cache.SLOT_WORDS, np.uint64), np.zeros(2 * pretoken_cache.SLOT_WORDS, np.uint64)
        )

    def new_workspace(
        self,
        *,
        cache_bytes: int = CACHE_BYTES,
        cache_limit: int | None = None,
        text_bytes: int = TEXT_BYTES,
        budget: Budget = process_budget,
    ) -> Workspace:
        """Make the memory for one thread, and load all kernels.

        Parameters
        ----------
        cache_bytes : int
            For the cache of pre-tokens, if the budget has as much. The vocabulary goes into it, as far as it fits into half of
            the slots.
        cache_limit : int, optional
            How far the cache may grow, by default as far as the budget goes; `EncodeStream` lets it grow only when asked to.
        text_bytes : int
            For the text buffer. A buffer for ids, of four times the size, comes with it.
        budget : Budget
            Grants the memory of the cache.
        """
        workspace = Workspace(cache_bytes=cache_bytes, cache_limit=cache_limit, text_bytes=text_bytes, budget=budget)
        sizes = workspace.memory.slots.size, workspace.memory.arena.size
        if sizes in self._seeded:
            workspace.copy_cache(self._seeded[sizes])
            return workspace
        # What is stored is what the merges make of a token's bytes, and for some tokens of some vocabularies that is not
        # the token.
        seeds = ByteStrings.from_list(self._seeds[: workspace.memory.slots.size // pretoken_cache.SLOT_WORDS // 2])
        out = np.empty(seeds.pool.size + kernels.OUT_SLACK, dtype=np.uint32)
        self._encode_spans(workspace, padded(seeds.pool), seeds.starts[1:].astype(np.uint32), out)
        self.encode(b" ", workspace)
        shift_state(workspace.split_state, 0)
        # Kept for the workspaces to come: copying it takes a tenth of the time.
        memory = workspace.memory
        self._seeded, self._seeded_share = {}, None
        if budget.room >= workspace.share.n_bytes:
            self._seeded_share = budget.open_share(workspace.share.n_bytes, workspace.share.n_bytes)
            slots, arena, progress = memory.slots.copy(), memory.arena.copy(), memory.progress.copy()
            self._seeded[sizes] = memory._replace(slots=slots, arena=arena, progress=progress)
        return workspace

    def _find_unreachable(self) -> list[bytes]:
        """Return the tokens that the merges do not make of their own bytes."""
        tokens = list(self.model.tokens.values())
        strings = ByteStrings.from_list(tokens)
        workspace = Workspace(cache_bytes=1 << 16, cache_limit=0, text_bytes=1 << 10)
        unreachable: list[bytes] = []
        first = 0
        while first < len(tokens):
            # As many as fit into so many bytes, but at least one.
            limit = np.searchsorted(strings.starts, strings.starts[first] + _TOKEN_BYTES_AT_ONCE, side="right")
            stop = max(int(limit) - 1, first + 1)
            _, ends = self._encode_strings(ByteStrings.from_list(tokens[first:stop]), workspace)
            # A single id is that of the token: no other has these bytes.
            several = np.flatnonzero(np.diff(ends, prepend=0) > 1)
            unreachable += [tokens[first + number] for number in several.tolist()]
            first = stop
        return unreachable

    def _make_splitter(self, special_tokens: frozenset[str]) -> AnySplitter:
        model = self.model
        known = [text for text in model.special_tokens if text in special_tokens]
        if model.preparation is not None:
            flags = {text: model.token_flags.get(text, TokenFlags()) for text in known}
            return Preparer(model.preparation, flags, unicode=model.unicode)
        return Splitter(model.pattern, map(special_bytes, known), unicode=model.unicode)

    def splitter_for(self, special_tokens: frozenset[str]) -> AnySplitter:
        """Return a splitter that finds only these of the model's special tokens; the text of the others is ordinary."""
        found = self._splitters.get(special_tokens)
        if found is None:
            found = self._make_splitter(special_tokens)
            if len(self._splitters) > MOST_SPLITTERS:
                self._splitters = {self.special_tokens: self.splitter}
            self._splitters[special_tokens] = found
        return found

    # ---- encoding ----------------------------------------------------------------------------------------------------

    def leaves(self, data: BytesLike) -> bool:
        """Whether the tokens of a text certainly stand for its own bytes: nothing is done to it but splitting and merging."""
        return not isinstance(self.splitter, Preparer) or self.splitter.leaves(bytes(data))

    def encode(self, data: BytesLike, workspace: Workspace | None = None, splitter: AnySplitter | None = None) -> Array:
        """Return the ids of a text as uint32 [tokens].

        Parameters
        ----------
        data : bytes-like
        workspace : Workspace, optional
            If it is missing, one is made for this call, which takes longer than to encode a megabyte.
        splitter : Splitter, optional
            One of `splitter_for`, where not all special tokens are to be found.
        """
        workspace = workspace or self.new_workspace()
        splitter = splitter or self.splitter
        n_bytes = len(data)
        if (
            n_bytes <= workspace.text_bytes
            and splitter.automaton is not None
            and (self.model.preparation is None or self.leaves(data))
        ):
            workspace.view[:n_bytes] = data  # type: ignore[assignment]
            workspace.progress[pretoken_cache.N_OUT] = 0
            places = splitter.addresses
            out = self._encode_text(workspace, places, workspace.text, n_bytes, n_bytes, True, True, workspace.out)
            return self._checked(out[: workspace.progress[pretoken_cache.N_OUT]]).copy()
        if n_bytes >= 8 * LONG_TEXT_BYTES and workspace.text_room < LONG_TEXT_BYTES:
            workspace.set_text_room(LONG_TEXT_BYTES)
        return EncodeStream(self, workspace, grows=True, splitter=splitter).encode_rest(data)

    def encode_batch(
        self, texts: Sequence[BytesLike], workspace: Workspace | None = None, splitter: AnySplitter | None = None
    ) -> EncodedBatch:
        """Return the ids of many texts, flat, with their starts."""
        workspace = workspace or self.new_workspace()
        encoded = [self.encode(text, workspace, splitter) for text in texts]
        starts = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([ids.size for ids in encoded], out=starts[1:])
        return EncodedBatch(_join(encoded), starts)

    def encode_aligned(
        self, data: bytes, workspace: Workspace, preparer: Preparer, areas: Array | None = None
    ) -> tuple[Array, PreparedText]:
        """Return the ids of a text as uint32 [tokens], and the prepared text that they are made of, which knows its sources.

        Parameters
        ----------
        data : bytes
        workspace : Workspace
        preparer : Preparer
            One of `splitter_for`.
        areas : int64 [areas, 2], optional
            The only stretches in which special tokens are found (see `Preparer.align`).
        """
        prepared = preparer.align(data, areas)
        workspace.progress[pretoken_cache.N_OUT] = 0
        out = np.empty(prepared.byte_starts.size + kernels.OUT_SLACK, dtype=np.uint32)
        out = self._encode_spans(workspace, prepared.text, prepared.ends, out)
        return self._checked(out[: workspace.progress[pretoken_cache.N_OUT]]).copy(), prepared

    def encode_pretokens(self, pieces: Sequence[bytes], workspace: Workspace) -> list[Array]:
        """Return the ids of each of some pre-tokens: what the merges make of these bytes, whatever they are."""
        if not pieces:
            return []
        ids, ends = self._encode_strings(ByteStrings.from_list(list(pieces)), workspace)
        return np.split(self._checked(ids).copy(), ends[:-1])

    def _encode_strings(self, strings: ByteStrings, workspace: Workspace) -> tuple[Array, Array]:
        """Return the ids of some pre-tokens, and where those of each end, as int64 [strings]."""
        workspace.progress[pretoken_cache.N_OUT] = 0
        out = np.empty(strings.pool.size + kernels.OUT_SLACK, dtype=np.uint32)
        out = self._encode_spans(workspace, padded(strings.pool), strings.starts[1:].astype(np.uint32), out)
        ids = out[: workspace.progress[pretoken_cache.N_OUT]]
        # What stands for a byte without a token has one byte.
        lengths = np.where(ids == kernels.NO_ID, 1, self._lengths[np.minimum(ids, self._lengths.size - 1)])
        return ids, np.searchsorted(np.cumsum(lengths), strings.starts[1:], side="right")

    def encode_chunk(self, text: Array, cut: int, stop: int, final: bool, workspace: Workspace) -> Array:
        """Return the ids of a chunk of a text (see `bpejit.corpus.chunks`) as uint32 [tokens].

        They are a view into the workspace, and valid until its next use: a fresh array for each chunk would cost more in
        page faults than a tenth of the encoding.

        Parameters
        ----------
        text : uint8 [at least stop + 16]
        cut : int
            Where the chunk ends: at a safe cut, or at the end of the text.
        stop : int
            Where the bytes end that are there to finish the last pre-token.
        final : bool
            Whether the text ends with the chunk.
        workspace : Workspace
        """
        check_chunk(stop)
        workspace.grow_cache()
        workspace.progress[pretoken_cache.N_OUT] = 0
        out = workspace.chunk_out
        if isinstance(self.splitter, Preparer):
            out = self._encode_prepared(workspace, self.splitter, text, cut, stop, final, out)
        elif self.splitter.automaton is None:
            out = self._encode_spans(workspace, text, self.splitter.split(text, cut), out)
        else:
            out = self._encode_text(workspace, self.splitter.addresses, text, cut, stop, final, True, out)
        workspace.chunk_out = out
        return self._checked(out[: workspace.progress[pretoken_cache.N_OUT]])

    def stream(self, workspace: Workspace | None = None, *, grows: bool = False) -> EncodeStream:
        """Begin to encode a text that comes in pieces. The workspace serves nothing else until the stream is finished."""
        return EncodeStream(self, workspace or self.new_workspace(), grows=grows)

    def _encode_text(
        self,
        workspace: Workspace,
        automaton: Array,
        text: Array,
        limit: int,
        stop: int,
        final: bool,
        fresh: bool,
        out: Array,
    ) -> Array:
        """Run `encode_text` until it is done; return `out`, or a larger array that took its place."""
        tables = self._addresses
        while True:
            status = encode_text(text, limit, stop, final, fresh, automaton, tables, workspace.addresses, out)
            if status == DONE:
                return out
            fresh = False
            out = self._make_room(workspace, status, out, limit)

    def _encode_prepared(
        self, workspace: Workspace, preparer: Preparer, text: Array, cut: int, stop: int, final: bool, out: Array
    ) -> Array:
        """Encode a text up to a cut, or whole; return `out`, or a larger array that took its place."""
        data = text[:stop].tobytes()
        if preparer.leaves(data):
            return self._encode_text(workspace, preparer.addresses, text, cut, stop, final, True, out)
        prepared, ends = preparer.prepare(data, None if final else cut)
        return self._encode_spans(workspace, prepared, ends, out)

    def _encode_spans(self, workspace: Workspace, text: Array, ends: Array, out: Array) -> Array:
        """Encode spans, the first from byte 0 on; return `out`, or what took its place.

        To `encode_text` they are what it has just split, so that nothing is left to split: a kernel for spans alone would take
        a sixth of the time of a first run to compile.
        """
        if not ends.size:
            return out
        ends = np.ascontiguousarray(ends, dtype=np.uint32)  # at an address no kernel can tell its type
        progress = workspace.progress
        progress[pretoken_cache.FIRST] = 0
        progress[pretoken_cache.SPAN] = 0
        progress[pretoken_cache.N_SPANS] = ends.size
        workspace.split_state[NEED_CALL] = 0
        while True:
            memory = addresses_of(workspace.memory._replace(ends=ends))
            status = encode_text(text, 0, 0, False, False, _NO_PATTERN, self._addresses, memory, out)
            if status == DONE:
                break
            out = self._make_room(workspace, status, out, int(ends[-1]) & (SPECIAL_FLAG - 1))
        progress[pretoken_cache.SPAN] = 0
        progress[pretoken_cache.N_SPANS] = 0
        return out

    def _checked(self, ids: Array) -> Array:
        """Return `ids`, unless the text had a byte that the vocabulary lacks."""
        if self.model.missing_bytes and (ids == kernels.NO_ID).any():
            shown = ", ".join(f"0x{byte:02x}" for byte in self.model.missing_bytes)
            raise CorpusError(
                f"the text has a byte that this vocabulary has no token for, one of {shown}; expected valid UTF-8, which has "
                "none of them: clean the text, or decode and encode it with errors='replace'"
            )
        return ids

    @staticmethod
    def _make_room(workspace: Workspace, status: int, out: Array, stop: int) -> Array:
        if status == NEED_SCRATCH:
            workspace.grow_scratch()
            return out
        done = int(workspace.progress[pretoken_cache.N_OUT])
        left = stop - int(workspace.progress[pretoken_cache.FIRST])
        # Enough for what is left if it is like the rest, but at least half as much again; a pre-token that alone needs
        # more gets it in some further rounds.
        larger = np.empty(out.size + out.size // 2 + left // 4 + kernels.OUT_SLACK, dtype=np.uint32)
        larger[:done] = out[:done]
        return larger

    # ---- decoding ----------------------------------------------------------------------------------------------------

    def token_lengths(self, ids: Array) -> Array:
        """Return how many bytes each of some ids stands for, as int64; the ids must be in the vocabulary."""
        lengths: Array = self._lengths[ids]
        return lengths

    def without_special(self, ids: Iterable[int] | Array) -> Array:
        """Return ids without those of special tokens, as int64."""
        array = self._as_ids(ids, 0)
        flags = self.model.token_flags
        special = [number for text, number in self.model.special_tokens.items() if text not in flags or flags[text].special]
        return array[~np.isin(array, special)]

    def decode(self, ids: Iterable[int] | Array, *, offset: int = 0) -> bytes:
        """Return the bytes of ids.

        Parameters
        ----------
        ids : list of int, or any array of integers
        offset : int
            Position of the first id in the whole, for the error message.

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
        """Return ids of any kind as int64 [n]."""
        numbers = ids if isinstance(ids, np.ndarray) else list(ids)
        try:
            array = np.asarray(numbers)
        except (OverflowError, ValueError):
            array = np.empty(0)
        if array.ndim == 1 and array.dtype.kind in "iu" and array.dtype != np.uint64:
            return np.ascontiguousarray(array, dtype=np.int64)
        # What is left is rare, or wrong in some way: say in which.
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
        size = self._lengths.size
        gap = f", and {number} is not in use" if 0 <= number < size else ""
        raise TokenIdError(
            f"there is no token with id {shorten(number)} (at position {position}); expected ids from 0 to {size - 1}{gap}: "
            "decode with the tokenizer that made these ids"
        )


class EncodeStream:
    """Encodes a text that comes in pieces; the ids are those of the whole, wherever it is divided.

    The text that is not yet encoded stays in the workspace's buffer, with the state of the splitter, so that nothing is
    read twice. The buffer grows only for a pre-token that is longer than it. A pattern that runs through the `regex`
    package is the exception: its text is held until the next special token or the end.

    Parameters
    ----------
    encoder : Encoder
    workspace : Workspace
        Not to be used for anything else until `finish`.
    grows : bool
        Whether the workspace's cache may grow to its limit; otherwise no memory is needed beyond the workspace.
    splitter : Splitter, optional
        One of `Encoder.splitter_for`, where not all special tokens are to be found.
    """

    def __init__(
        self, encoder: Encoder, workspace: Workspace, *, grows: bool = False, splitter: AnySplitter | None = None
    ) -> None:
        self._grows = grows
        self._encoder = encoder
        self._workspace = workspace
        self._splitter = splitter or encoder.splitter
        # For patterns that run through the `regex` package: how far special tokens have been looked for.
        self._search = np.zeros(STATE_SIZE, dtype=np.int64)
        self._restart()

    def _restart(self) -> None:
        self._fresh = True
        self._filled = 0
        self._surrogate = ""
        self._search[:] = 0
        self._workspace.progress[pretoken_cache.FIRST] = 0

    def feed(self, data: BytesLike | str) -> Array:
        """Add a piece of text; return the ids that are certain now, as a new array."""
        return _join([ids.copy() for ids in self.blocks(data)])

    def finish(self) -> Array:
        """Say that the text is complete; return the last ids, as a new array. The stream then stands at a new text."""
        return _join([ids.copy() for ids in self.blocks(b"", final=True)])

    def blocks(self, data: BytesLike | str, *, final: bool = False) -> Iterator[Array]:
        """Add a piece of text, and yield the ids that become certain, in parts: for pieces of any size in little memory.

        Parameters
        ----------
        data : bytes-like or str
        final : bool
            Whether the text ends with this piece.

        Yields
        ------
        uint32 [tokens]
            A view into the workspace: use or copy it before the next step.
        """
        workspace = self._workspace
        for last in self._fill(data, final):
            workspace.progress[pretoken_cache.N_OUT] = 0
            out = self._encode(last, workspace.out)
            yield self._encoder._checked(out[: workspace.progress[pretoken_cache.N_OUT]])

    def encode_rest(self, data: BytesLike) -> Array:
        """Add the last piece; return all ids that were not returned before, as one array."""
        workspace = self._workspace
        out: Array = np.empty(max(len(data) // 3, min(len(data), _ROOM_AT_ONCE)) + 64, dtype=np.uint32)
        done = 0
        for last in self._fill(data, True):
            workspace.progress[pretoken_cache.N_OUT] = done
            out = self._encode(last, out)
            done = int(workspace.progress[pretoken_cache.N_OUT])
        return self._encoder._checked(_trimmed(out, done))

    def _fill(self, data: BytesLike | str, final: bool) -> Iterator[bool]:
        """Copy a piece into the text buffer; yield each time that the buffer is to be encoded, and whether for the last."""
        workspace = self._workspace
        for part in self._as_bytes(data, final):
            view = memoryview(part).cast("B")  # type: ignore[arg-type]
            while len(view):
                if self._filled == workspace.text_room:
                    yield False
                    self._make_room()
                count = min(workspace.text_room - self._filled, len(view))
                workspace.view[self._filled : self._filled + count] = view[:count]
                self._filled += count
                view = view[count:]
        yield final
        if final:
            if workspace.text_room > workspace.text_bytes:
                workspace.set_text_room(workspace.text_bytes)
            self._restart()

    def _as_bytes(self, data: BytesLike | str, final: bool) -> Iterator[BytesLike]:
        # The first half of a surrogate pair waits for the second, which may be in the next piece.
        text = self._surrogate
        self._surrogate = ""
        if isinstance(data, str):
            text += data
            if text and _is_first_half(text[-1]) and not final:
                self._surrogate = text[-1]
        end = len(text) - len(self._surrogate)
        start = 0
        while start < end:
            stop = min(start + STRING_SLICE, end)
            if stop < end and _is_first_half(text[stop - 1]):
                stop -= 1
            yield text_to_bytes(text[start:stop])
            start = stop
        if not isinstance(data, str):
            yield data

    def _make_room(self) -> None:
        """Make room in a full buffer: move what is not yet encoded to its start, or grow if that is most of it."""
        workspace = self._workspace
        first = int(workspace.progress[pretoken_cache.FIRST])
        text = workspace.text
        if first < workspace.text_room // 2:
            workspace.set_text_room(2 * workspace.text_room)
        self._filled -= first
        # Half of the buffer at most, once for each half of a buffer that was encoded: linear in all.
        workspace.text[: self._filled] = text[first : first + self._filled]
        workspace.progress[pretoken_cache.FIRST] = 0
        shift_state(self._search, first)
        shift_state(workspace.split_state, first)

    def _encode(self, last: bool, out: Array) -> Array:
        """Encode what the buffer holds, as far as it is certain; return `out`, or a larger array that took its place."""
        workspace, encoder = self._workspace, self._encoder
        if self._grows:
            workspace.grow_cache()
        filled = self._filled
        if isinstance(self._splitter, Preparer):
            first = int(workspace.progress[pretoken_cache.FIRST])
            cut = filled if last else self._splitter.find_last_cut(workspace.text, first, filled)
            if cut > first:
                stop = self._splitter.margin_behind(cut, filled) - first
                out = encoder._encode_prepared(workspace, self._splitter, workspace.text[first:], cut - first, stop, last, out)
            workspace.progress[pretoken_cache.FIRST] = cut
            return out
        if self._splitter.automaton is not None:
            out = encoder._encode_text(
                workspace, self._splitter.addresses, workspace.text, filled, filled, last, self._fresh, out
            )
            self._fresh = False
            return out
        first = int(workspace.progress[pretoken_cache.FIRST])
        assert isinstance(self._splitter, Splitter)
        stop = first
        if last:
            stop = filled
        else:
            for _, end in self._splitter.finder.next_spans(workspace.text, filled, False, self._search):
                stop = end
        text = workspace.text[first:]
        out = encoder._encode_spans(workspace, text, self._splitter.split(text, stop - first), out)
        workspace.progress[pretoken_cache.FIRST] = stop
        return out


def _is_first_half(character: str) -> bool:
    return "\ud800" <= character <= "\udbff"


def _join(blocks: list[Array]) -> Array:
    return np.concatenate(blocks) if blocks else np.empty(0, dtype=np.uint32)


def _trimmed(out: Array, size: int) -> Array:
    """Give the unused end of an array back, without a copy."""
    out.resize(size, refcheck=False)
    return out
