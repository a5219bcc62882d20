"""Encode text to token ids, in memory.

An `Encoder` holds the tables of one model; it is immutable, and shared by threads. A `Workspace` holds the arrays that one
thread writes to: the pre-token cache, buffers and scratch space. Both allocate everything, and load all kernels, when they are
created, so that encoding allocates nothing but its result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bpejit.arrays import Array, ByteStrings, EncodedBatch, lengths_of, padded_text, too_long
from bpejit.encoding.batch_encoding import DocumentBuffer, as_utf8, estimate_length
from bpejit.encoding.decoder import Decoder
from bpejit.encoding.encode_stream import EncodeStream, is_in_place, writable_view
from bpejit.encoding.encoder_cache import load_encoder, store_encoder, stored_name
from bpejit.encoding.encoder_tables import make_tables, make_whole_tokens, padded
from bpejit.encoding.kernel_runner import AnySplitter, BytesLike, KernelRunner, ShortTextCall
from bpejit.encoding.restarts import ahead_of
from bpejit.encoding.symbol_tables import FindSymbols, find_lengths, find_symbols, marked_tokens
from bpejit.encoding.workspace import CACHE_BYTES, MAX_DOCUMENTS, TEXT_BYTES, Workspace
from bpejit.errors import CorpusError
from bpejit.kernels.common.integer_lists import list_of
from bpejit.kernels.constants import MAX_TEXT_BYTES, SHORT_KEY_BYTES, TEXT_PADDING
from bpejit.kernels.encoding import long_pretokens, pretoken_cache, span_encoding as kernels
from bpejit.kernels.splitting.spans import shift_state
from bpejit.model import Model, special_bytes
from bpejit.normalization.pipeline_config import TokenFlags
from bpejit.packed_tokens import id_range, pack_tokens
from bpejit.process_memory import Budget, Share, process_budget, set_encoding_cache_budget
from bpejit.splitting import Splitter
from bpejit.splitting.automaton import SEPARATOR
from bpejit.utf8 import ROOM_OF_CHARACTER, encode_range, encode_utf8

if TYPE_CHECKING:
    from bpejit.normalization.alignment import PreTokenizedText
    from bpejit.normalization.pipeline import TextPipeline

MAX_SPLITTERS = 16
"""Largest number of sets of special tokens whose splitters an encoder stores, besides the default one."""


class Encoder(Decoder):
    """Encode and decode with one model.

    Parameters
    ----------
    model : Model

    Raises
    ------
    TokenizerFormatError
        If an id is too large for the tables.
    PatternError
        If the model's split pattern does not compile.
    """

    def __init__(self, model: Model) -> None:
        specials = {special_bytes(text): number for text, number in model.special_tokens.items()}
        super().__init__(model)
        self._stored_name = stored_name(model, CACHE_BYTES)
        stored = None if self._stored_name is None else load_encoder(self._stored_name)
        self.tables = make_tables(model, specials) if stored is None else stored[0]
        self._stored = None if stored is None else stored[1:]
        self.splitter: AnySplitter = self._make_splitter(frozenset(model.special_tokens))
        self.runner = KernelRunner(model, self.tables)
        if stored is None and model.keeps_whole:
            unreachable = self._find_unreachable()
            if unreachable:
                whole, pool = make_whole_tokens(model, unreachable)
                self.tables = self.tables._replace(whole_tokens=whole, whole_token_pool=pool)
                self.runner = KernelRunner(model, self.tables)
        self.special_tokens = frozenset(model.special_tokens)
        # Short texts are encoded by a prepared call (see `ShortTextCall`) if text and ids need no other step.
        self._prepares_calls = self.splitter.automaton is not None and not model.missing_bytes
        self._splitters = {self.special_tokens: self.splitter}
        self._seeded: dict[tuple[int, int], tuple[Array, Array, Array]] = {}
        self._seeded_share: Share | None = None
        self.decode([id_range(model.tokens)[0]])  # loads the kernels
        pretoken_cache.move_slots(
            np.zeros(pretoken_cache.SLOT_WORDS, np.uint64), np.zeros(2 * pretoken_cache.SLOT_WORDS, np.uint64)
        )
        long_pretokens.move_entries(
            np.zeros(long_pretokens.ENTRY_WORDS, np.uint64), np.zeros(2 * long_pretokens.ENTRY_WORDS, np.uint64)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Arrive in another process as the model, from which the encoder is made again, and the cache budget of this one."""
        return _restored, (self.model, process_budget.limit)

    def new_workspace(
        self,
        *,
        cache_bytes: int = CACHE_BYTES,
        cache_limit: int | None = None,
        text_bytes: int = TEXT_BYTES,
        budget: Budget = process_budget,
    ) -> Workspace:
        """Create a workspace for one thread, and load all kernels.

        Parameters
        ----------
        cache_bytes : int
            Initial size of the pre-token cache, if the budget allows it. The cache is seeded with the vocabulary, up to half of
            its slots.
        cache_limit : int, optional
            Largest size of the cache, by default as the budget allows. In an `EncodeStream` it grows only with `grows`.
        text_bytes : int
            Size of the text buffer. A buffer for ids of four times this size is allocated as well.
        budget : Budget
            Grants the memory of the cache.
        """
        workspace = Workspace(cache_bytes=cache_bytes, cache_limit=cache_limit, text_bytes=text_bytes, budget=budget)
        sizes = workspace.arrays.slots.size, workspace.arrays.arena.size
        if sizes in self._seeded:
            workspace.copy_cache(*self._seeded[sizes])
            return workspace
        (seeds, n_arena), self._stored = self._stored or (None, 0), None  # needed only once
        if seeds is not None and sizes == (seeds[0].size, n_arena):
            workspace.copy_cache(*seeds)
        else:
            seeds = None
            self._seed(workspace)
        with suppress(CorpusError):  # a vocabulary may have no symbol for the space
            self.encode(b" ", workspace)
        shift_state(workspace.split_state, 0)
        # Stored for later workspaces: copying it takes a tenth of the time.
        arrays = workspace.arrays
        self._seeded, self._seeded_share = {}, None
        if budget.available >= workspace.share.n_bytes:
            self._seeded_share = budget.reserve(workspace.share.n_bytes)
            # Stored seeds are in memory as long as the tables, which are in the same block.
            copies = seeds or (arrays.slots.copy(), arrays.arena.copy(), arrays.progress.copy())
            self._seeded[arrays.slots.size, arrays.arena.size] = copies
        if seeds is None and cache_bytes == CACHE_BYTES == workspace.cache_bytes and self._stored_name is not None:
            store_encoder(self._stored_name, self.tables, arrays.slots, arrays.arena, arrays.progress)
            self._stored_name = None
        return workspace

    def _seed(self, workspace: Workspace) -> None:
        """Fill the cache of a workspace with the vocabulary, up to half of its slots.

        The cached ids are those that the merges produce, which for some tokens of some vocabularies is not the token.
        """
        most = workspace.arrays.slots.size // pretoken_cache.SLOT_WORDS // 2
        strings, numbers = pack_tokens(self.model.tokens)
        lengths = np.diff(strings.starts)
        places = np.argsort(numbers)
        places = places[((lengths > 0) & (lengths <= SHORT_KEY_BYTES))[places]]
        seeds = marked_tokens(strings.take(places[:most]), self.model.symbols)
        out = np.empty(seeds.pool.size + kernels.OUT_SLACK, np.uint32)
        self.runner.run_spans(workspace, padded(seeds.pool), seeds.starts[1:].astype(np.uint32), out)

    def _find_unreachable(self) -> list[bytes]:
        """Return the tokens that the merges do not produce from their own bytes."""
        tokens = list(self.model.tokens.values())
        numbers = np.fromiter(self.model.tokens, np.int64, len(tokens))
        strings = ByteStrings.from_list(tokens)
        workspace = Workspace(cache_bytes=1 << 16, cache_limit=0, text_bytes=1 << 10)
        ids, ends = self.encode_strings(strings, workspace, any_bytes=True)
        # A single id is the id of the token or the unknown one, since no other token has these bytes.
        several = np.diff(ends, prepend=0) != 1
        several[~several] = ids[ends[~several] - 1] != numbers[~several]
        return [tokens[index] for index in np.flatnonzero(several).tolist()]

    @cached_property
    def _find_symbols(self) -> FindSymbols:
        return find_symbols(self.model)

    def known_symbols(self, data: bytes, ends: Array | None) -> Array:
        """Return which bytes of a text belong to symbols of the vocabulary (see `find_symbols`)."""
        return self._find_symbols(data, ends)

    def _make_splitter(self, special_tokens: frozenset[str]) -> AnySplitter:
        model = self.model
        known = [text for text in model.special_tokens if text in special_tokens]
        if model.pipeline is not None:
            flags = {text: model.token_flags.get(text, TokenFlags()) for text in known}
            from bpejit.normalization.pipeline import TextPipeline  # not at the top: few models have a pipeline

            return TextPipeline(
                model.pipeline,
                flags,
                symbols=model.symbols,
                known=self.known_symbols if model.symbols is not None and model.symbols.removes_unknown else None,
                pattern=model.pattern,
                unicode=model.unicode,
                regex_timeout=model.regex_timeout,
            )
        tokens = map(special_bytes, known)
        return Splitter(model.pattern, tokens, unicode=model.unicode, regex_timeout=model.regex_timeout)

    def splitter_for(self, special_tokens: frozenset[str]) -> AnySplitter:
        """Return a splitter that finds only the given special tokens of the model; others are ordinary text."""
        found = self._splitters.get(special_tokens)
        if found is None:
            found = self._make_splitter(special_tokens)
            if len(self._splitters) > MAX_SPLITTERS:
                self._splitters = {self.special_tokens: self.splitter}
            self._splitters[special_tokens] = found
        return found

    # ---- encoding ----------------------------------------------------------------------------------------------------

    def encode(self, data: Any, workspace: Workspace | None = None, splitter: AnySplitter | None = None) -> Array:
        """Return the ids of a text as uint32 [tokens].

        Parameters
        ----------
        data : bytes-like or str
            A str is converted to UTF-8 in slices, which suits long ones.
        workspace : Workspace, optional
            Created by default, which takes longer than encoding a megabyte.
        splitter : Splitter, optional
            From `splitter_for`; finds all special tokens by default.
        """
        workspace = workspace or self.new_workspace()
        splitter = splitter or self.splitter
        data, splitter = prepared(data, splitter)
        n_bytes = sys.maxsize if isinstance(data, str) else len(data)
        if self._prepares_calls and n_bytes <= workspace.short_text_bytes and isinstance(splitter, Splitter):
            call = self.short_call(workspace, splitter)
            n_ids = call.run(data)
            if n_ids >= 0:
                return call.out[:n_ids].copy()
        if n_bytes <= workspace.text_bytes and isinstance(splitter, Splitter) and splitter.automaton is not None:
            workspace.grow_cleared_cache()
            workspace.view[:n_bytes] = data  # type: ignore[assignment]
            workspace.progress[pretoken_cache.N_OUT] = 0
            addresses = splitter.addresses
            out = self.runner.run_text(workspace, addresses, workspace.text, n_bytes, n_bytes, True, True, workspace.out)
            return self.runner.finished(workspace, out).copy()
        return EncodeStream(self.runner, splitter, workspace, grows=True).encode_rest(data)

    def blocks(self, data: Any, workspace: Workspace, splitter: AnySplitter) -> Iterator[Array]:
        """Yield the ids of a text block by block, in bounded memory: views that are valid until the next one."""
        data, splitter = prepared(data, splitter)
        return EncodeStream(self.runner, splitter, workspace, grows=True).blocks(data, final=True)

    def short_call(self, workspace: Workspace, splitter: AnySplitter) -> ShortTextCall:
        """Return a prepared call for texts of up to `Workspace.short_text_bytes`, and store it in the workspace."""
        call: ShortTextCall | None = workspace.short_call
        if call is None or call.splitter is not splitter:
            call = workspace.short_call = ShortTextCall(self.runner, splitter, workspace)
        return call

    def encode_list(self, data: BytesLike, workspace: Workspace, splitter: AnySplitter) -> list[int]:
        """Return the ids of a text as a list. The parameters are those of `encode`."""
        if self._prepares_calls and len(data) <= workspace.short_text_bytes and isinstance(splitter, Splitter):
            call = self.short_call(workspace, splitter)
            n_ids = call.run(data)
            if n_ids >= 0:
                return call.ids[:n_ids].tolist()
        return list_of(self.encode(data, workspace, splitter))

    def encode_batch(
        self,
        texts: Sequence[Any],
        workspace: Workspace | None = None,
        splitter: AnySplitter | None = None,
        part: range | None = None,
    ) -> EncodedBatch:
        """Return the ids of several texts, or those of a part of them, in one array, with the start of each text.

        Raises
        ------
        ArgumentTypeError
            If a text has another type.
        OptionError
            If the list becomes shorter during the call.
        """
        return self._encode_documents(texts, workspace, splitter, part).finish()

    def count_batch(
        self,
        texts: Sequence[Any],
        workspace: Workspace,
        splitter: AnySplitter | None,
        part: range,
        *,
        use_ids: Callable[[Array], object],
    ) -> Array:
        """Return the number of ids of several texts, as int64 [texts], in memory that does not depend on this number.

        `use_ids` gets the ids in order, in views that are valid until it returns; the rest is as for `encode_batch`.
        """
        return np.diff(self._encode_documents(texts, workspace, splitter, part, use_ids).finish_starts())

    def _encode_documents(
        self,
        texts: Sequence[Any],
        workspace: Workspace | None,
        splitter: AnySplitter | None,
        part: range | None,
        use_ids: Callable[[Array], object] | None = None,
    ) -> DocumentBuffer:
        workspace = workspace or self.new_workspace()
        splitter = splitter or self.splitter
        texts = texts if type(texts) is list else list(texts)
        part = range(len(texts)) if part is None else part
        pipeline = None if isinstance(splitter, Splitter) else splitter
        if pipeline is not None:
            splitter = pipeline.direct or pipeline
        estimate = estimate_length(texts, part)
        # Not from `Model.ids`, a dictionary that would be made for this.
        symbols = self.model.symbols
        separated = isinstance(splitter, Splitter) and not (symbols and not symbols.byte_ids)
        separator = int(self.encode(SEPARATOR, workspace, splitter)[0]) if separated else -1

        def encode_alone(text: BytesLike, splitter: AnySplitter) -> Iterable[Array]:
            return [self.encode(text, workspace, splitter)] if use_ids is None else self.blocks(text, workspace, splitter)

        buffer = DocumentBuffer(self.runner, splitter, workspace, len(part), estimate, separator, encode_alone, use_ids)
        if pipeline is None:
            buffer.append(texts, part.start, part.stop)
            return buffer
        for start in part[::MAX_DOCUMENTS]:
            given = as_utf8(texts[start : min(start + MAX_DOCUMENTS, part.stop)], start)
            rewritten = [pipeline.rewrite(text) for text in given]
            for runs, indices in groupby(range(len(given)), key=lambda index: rewritten[index] is None):
                if runs:
                    for index in indices:
                        buffer.append_alone(given[index], pipeline)
                else:
                    found = list(indices)
                    buffer.append(rewritten, found[0], found[-1] + 1)
        return buffer

    def encode_aligned(
        self, data: bytes, workspace: Workspace, pipeline: TextPipeline, areas: Array | None = None
    ) -> tuple[Array, PreTokenizedText]:
        """Return the ids of a text as uint32 [tokens], and the prepared text with its alignment to the original.

        Special tokens are found only in `areas`, int64 [areas, 2] (see `TextPipeline.align`); by default everywhere.
        """
        prepared = pipeline.align(data, areas)
        workspace.progress[pretoken_cache.N_OUT] = 0
        out = np.empty(prepared.byte_starts.size + kernels.OUT_SLACK, np.uint32)
        out = self.runner.run_spans(workspace, prepared.text, prepared.ends, out)
        return self.runner.finished(workspace, out).copy(), prepared

    def lengths_in(self, ids: Array, prepared: PreTokenizedText | None) -> Array:
        """Return the number of bytes of a text that each of its ids covers, as int64; of the prepared text, if there is one."""
        lengths = self.token_lengths(ids)
        return lengths if prepared is None else find_lengths(self.model, ids, lengths, prepared, self.known_symbols)

    def encode_pretokens(self, pieces: Sequence[bytes], workspace: Workspace) -> list[Array]:
        """Return the ids of each byte string, merged as a single pre-token."""
        if not pieces:
            return []
        ids, ends = self.encode_strings(ByteStrings.from_list(list(pieces)), workspace)
        return np.split(ids.copy(), ends[:-1])

    def encode_strings(self, strings: ByteStrings, workspace: Workspace, *, any_bytes: bool = False) -> tuple[Array, Array]:
        """Return the ids of pre-tokens as uint32 [tokens], and the end of the ids of each as int64 [strings].

        A byte without a token is an error, unless `any_bytes` is True.
        """
        if self.model.symbols is not None and len(strings) > 1:  # an id does not tell how many bytes it stands for
            parts = [
                self.encode_strings(ByteStrings.from_list([one]), workspace, any_bytes=any_bytes)[0].copy() for one in strings
            ]
            return np.concatenate(parts), np.cumsum(lengths_of(parts))
        workspace.progress[pretoken_cache.N_OUT] = 0
        out = np.empty(strings.pool.size + kernels.OUT_SLACK, np.uint32)
        out = self.runner.run_spans(workspace, padded(strings.pool), strings.starts[1:].astype(np.uint32), out)
        if self.model.symbols is not None:
            ids = out[: workspace.progress[pretoken_cache.N_OUT]]
            return ids if any_bytes else self.runner.check_ids(ids), np.array([ids.size])
        ids = out[: workspace.progress[pretoken_cache.N_OUT]]
        # NO_ID replaces a single byte.
        lengths = np.where(ids == kernels.NO_ID, 1, self._lengths[np.minimum(ids, self._lengths.size - 1)])
        ids = ids if any_bytes else self.runner.check_ids(ids)
        return ids, np.searchsorted(np.cumsum(lengths), strings.starts[1:], side="right")

    def encode_chunk(
        self,
        text: Array,
        cut: int,
        stop: int,
        final: bool,
        workspace: Workspace,
        splitter: AnySplitter | None = None,
    ) -> Array:
        """Return the ids of a chunk of a text (see `bpejit.corpus.chunks`) as uint32 [tokens].

        The result is a view into the workspace, valid until its next use: the page faults of a new array per chunk would cost
        more than a tenth of the encoding.

        Parameters
        ----------
        text : uint8 [at least stop + 16]
        cut : int
            End of the chunk: a safe cut, or the end of the text.
        stop : int
            End of the available bytes; those after `cut` complete the last pre-token.
        final : bool
            Whether the text ends with the chunk.
        workspace : Workspace
        splitter : Splitter or TextPipeline, optional
            From `splitter_for`; finds all special tokens by default.
        """
        if stop > MAX_TEXT_BYTES:
            raise too_long(stop)
        workspace.grow_cache()
        workspace.progress[pretoken_cache.N_OUT] = 0
        out = self.runner.run_chunk(workspace, splitter or self.splitter, text, cut, stop, final, workspace.chunk_out)
        workspace.chunk_out = out
        return self.runner.finished(workspace, out)

    def encode_part(self, text: str | bytes, part: range, workspace: Workspace, splitter: Splitter) -> Array:
        """Return the ids of a part of a text between two restarts (see `bpejit.encoding.restarts`).

        They may be a view into the workspace, valid until its next use.
        """
        if part.stop == len(text):
            return self.encode(text[part.start :], workspace, splitter)
        after = part.stop + ahead_of(splitter)
        if is_in_place(text):
            view = writable_view(text)[part.start :]
            return self.encode_chunk(view, len(part), after - part.start, False, workspace, splitter)
        assert isinstance(text, str)
        most = ROOM_OF_CHARACTER * (after - part.start) + 2 * TEXT_PADDING
        if workspace.chunk_text.size < most:
            workspace.chunk_text = np.empty(most, np.uint8)
        cut = encode_range(text, part.start, part.stop, workspace.chunk_text)
        stop = cut + encode_range(text, part.stop, after, workspace.chunk_text[cut:])
        return self.encode_chunk(workspace.chunk_text, cut, stop, False, workspace, splitter)

    def encode_before(self, data: bytes, cut: int, workspace: Workspace, splitter: AnySplitter) -> Array:
        """Return the ids of `data[:cut]`, up to a restart; the bytes after it complete the last pre-token."""
        if not isinstance(splitter, Splitter):
            data = data if splitter.cuts_within else data[:cut]
            rewritten = splitter.rewrite(data)
            if rewritten is not None and splitter.direct is not None:
                cut += len(rewritten) - len(data)
                data, splitter = rewritten, splitter.direct
        if self._prepares_calls and len(data) <= workspace.short_text_bytes and isinstance(splitter, Splitter):
            call = self.short_call(workspace, splitter)
            n_ids = call.run(data, cut)
            if n_ids >= 0:
                return call.out[:n_ids].copy()
        text, n_bytes = padded_text(data)
        return self.encode_chunk(text, cut, n_bytes, False, workspace, splitter).copy()

    def encode_block(self, text: Array, stops: Array, workspace: Workspace, *, specials: bool = True) -> tuple[Array, Array]:
        """Return the ids of adjacent documents, each encoded by itself, and the end of the ids of each.

        Parameters
        ----------
        text : uint8 [at least the last stop + 16]
        stops : int64 [documents]
            The end of each document. The first one starts at byte 0.
        workspace : Workspace
        specials : bool
            Whether special tokens are found, or their texts are ordinary text.

        Returns
        -------
        ids : uint32 [tokens]
            May be a view into the workspace, valid until its next use.
        id_stops : int64 [documents]
        """
        if not stops.size:
            return np.empty(0, np.uint32), np.empty(0, np.int64)
        if stops[-1] > MAX_TEXT_BYTES:
            raise too_long(int(stops[-1]))
        splitter = self.splitter if specials else self.splitter_for(frozenset())
        if not isinstance(splitter, Splitter) or splitter.automaton is None:
            texts = [text[start:stop].tobytes() for start, stop in pairwise([0, *stops.tolist()])]
            batch = self.encode_batch(texts, workspace, splitter)
            return batch.ids, batch.starts[1:]
        out = workspace.chunk_out
        id_stops = np.empty(stops.size, np.int64)
        workspace.progress[pretoken_cache.N_OUT] = 0
        start = 0
        for first in range(0, stops.size, MAX_DOCUMENTS):
            workspace.grow_cache()
            some = stops[first : first + MAX_DOCUMENTS]
            np.subtract(some, start, out=workspace.arrays.document_stops[: some.size])
            n_bytes = int(some[-1]) - start
            out = self.runner.run_texts(workspace, splitter.addresses, text[start:], n_bytes, out, n=some.size)
            id_stops[first : first + some.size] = workspace.arrays.id_stops[: some.size]
            start = int(some[-1])
        workspace.chunk_out = out
        return self.runner.finished(workspace, out), id_stops

    def stream(self, workspace: Workspace | None = None, *, grows: bool = False) -> EncodeStream:
        """Return a stream for a text that arrives in pieces. It uses the workspace exclusively until it is finished."""
        return EncodeStream(self.runner, self.splitter, workspace or self.new_workspace(), grows=grows)


def prepared(data: Any, splitter: AnySplitter) -> tuple[Any, AnySplitter]:
    """Return a text and the splitter for it, without a pipeline where that only rewrites the text."""
    if isinstance(splitter, Splitter):
        return data, splitter
    given = encode_utf8(data) if isinstance(data, str) else bytes(data)
    rewritten = splitter.rewrite(given)
    if rewritten is None or splitter.direct is None:
        return given, splitter
    return rewritten, splitter.direct


def _restored(model: Model, cache_bytes: int) -> Encoder:
    set_encoding_cache_budget(cache_bytes)
    return Encoder(model)
