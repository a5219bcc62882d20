"""Encode and decode with one model, from any number of threads.

`bpejit.Tokenizer` and the interfaces in `bpejit.compat` are written against this class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, EncodedBatch
from bpejit.encoding.batch_encoding import as_texts, divide, join_batches, long_texts, threads_for
from bpejit.encoding.decoder import Decoder
from bpejit.encoding.encoder import Encoder, prepared
from bpejit.encoding.kernel_runner import AnySplitter, CarriageReturns, ShortTextCall
from bpejit.encoding.restarts import encode_parts, parts_of
from bpejit.encoding.special_token_policy import SpecialChoice, allowed_tokens
from bpejit.encoding.workspace import SHORT_TEXT_BYTES, TEXT_BYTES, Workspace
from bpejit.kernels.common.integer_lists import list_of
from bpejit.kernels.constants import WARMING_TEXT
from bpejit.kernels.encoding.span_encoding import MAX_ID
from bpejit.model import Model
from bpejit.packed_tokens import id_range
from bpejit.process_memory import Pool, process_budget
from bpejit.splitting import Splitter
from bpejit.utf8 import STRING_SLICE, encode_slices, encode_utf8

if TYPE_CHECKING:
    from bpejit.encoding.offsets import TokenOffsets
    from bpejit.normalization.alignment import PreTokenizedText

_LONG_STRING = TEXT_BYTES
"""Characters from which on a string is converted to UTF-8 in slices while it is encoded. All bytes at once are fresh memory,
whose page faults take up to half of the time.
"""


_Ids = TypeVar("_Ids", Array, "list[int]")
_Result = TypeVar("_Result", Array, EncodedBatch)

ShortEncoding: TypeAlias = Callable[[object], "list[int] | None"]
"""A function that encodes short strings, and returns None for other objects."""


def _are_chosen(special: Iterable[SpecialChoice | None]) -> bool:
    """Return True if one of the options for special tokens is given; otherwise all tokens are found."""
    return any(one is not None for one in special)


def _never(_: object) -> None:
    """Leave all texts to be encoded in another way."""


def _checked(call: ShortEncoding, carriage_returns: CarriageReturns, text: object) -> list[int] | None:
    ids = call(text)
    if ids is not None:
        carriage_returns.check(ids)
    return ids


class Codec:
    """An encoder with a pool of workspaces: each call in progress uses one of its own.

    It is immutable, can be pickled, and may be used from several threads. Methods for texts take the two options of
    `bpejit.Tokenizer.encode`, as `special`; without them, all special tokens are found.

    Parameters
    ----------
    model : Model
    lazy : bool
        If True, the encoder and the first workspace are created on first use. Otherwise they are created here, so that
        encoding allocates nothing but its result.
    """

    def __init__(self, model: Model, *, lazy: bool = False) -> None:
        self.model = model
        self.carriage_returns = CarriageReturns.of(model)
        self._short_calls: list[Any] = []
        if not lazy:
            self.encode_short  # noqa: B018 - creates the encoder and a workspace as well

    def __reduce__(self) -> tuple[Any, ...]:
        return Codec, (self.model,)

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder, shared by all threads."""
        return Encoder(self.model)

    @property
    def decoder(self) -> Decoder:
        """The encoder if there is one already, and else an object that only decodes, which takes less time to make."""
        return self.encoder if "encoder" in vars(self) else Decoder(self.model)

    @cached_property
    def _workspaces(self) -> Pool:
        # A list is a thread-safe stack.
        workspaces = Pool([self.encoder.new_workspace()])
        process_budget.add_pool(workspaces)
        return workspaces

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """Return a context manager that yields a workspace of the pool, and puts it back on exit."""
        try:
            workspace = self._workspaces.pop()
        except IndexError:
            workspace = self.encoder.new_workspace()
        try:
            yield workspace
        finally:
            self._workspaces.append(workspace)

    @cached_property
    def encode_short(self) -> ShortEncoding:
        """Encode a short string as `encode_list` does, in a fraction of the time, and return the list.

        It takes one argument of any type, and returns None if that has to be encoded in another way.
        """
        return self._short_encoding(self.encoder.splitter)

    @cached_property
    def encode_short_ordinary(self) -> ShortEncoding:
        """The same without special tokens."""
        return self._short_encoding(self.encoder.splitter_for(frozenset()))

    @cached_property
    def encode_short_array(self) -> Callable[[object], Array | None]:
        """Encode a short string as `encode` does, and return the array, or None as `encode_short` does."""
        if self.carriage_returns is not None:
            return _never
        return self._short_encoding(self.encoder.splitter, as_array=True)

    @cached_property
    def encode_short_checked(self) -> ShortEncoding:
        """The same, but return None if the text has special tokens.

        Special tokens are recognized by their ids, so this is possible if these are larger than those of all other tokens.
        """
        specials = self.model.special_vocab
        if not specials:
            return self.encode_short_ordinary
        least = min(specials)
        splitter = self.encoder.splitter
        if not isinstance(splitter, Splitter) or id_range(self.model.tokens)[1] >= least:
            return _never
        return self._short_encoding(splitter, least)

    def _short_encoding(self, splitter: AnySplitter, limit: int = MAX_ID + 1, *, as_array: bool = False) -> Callable[..., Any]:
        encoder, pool = self.encoder, self._workspaces
        if splitter.automaton is None:
            return _never
        ascii_only = not isinstance(splitter, Splitter)  # which no pipeline with an automaton changes
        with self.workspace() as workspace:
            if workspace.short_text_bytes < SHORT_TEXT_BYTES:
                return _never
            call = ShortTextCall(encoder.runner, splitter, workspace)
        self._short_calls.append((encoder, pool, workspace, call))  # the function refers to all of them
        found = call.on_strings(workspace, pool, limit, ascii_only, as_array=as_array)
        if found is None or self.carriage_returns is None:
            return found or _never
        return partial(_checked, found, self.carriage_returns)

    def splitter_for(
        self, texts: Iterable[str | bytes], allowed: SpecialChoice | None = None, disallowed: SpecialChoice | None = None
    ) -> AnySplitter:
        """Return a splitter that finds the allowed special tokens, after a search of texts for the disallowed ones.

        Raises
        ------
        SpecialTokenError
            If a text has a disallowed special token.
        """
        return self.encoder.splitter_for(allowed_tokens(self.encoder.special_tokens, allowed, disallowed, texts))

    def chosen_splitter(self, texts: Iterable[str | bytes], special: Iterable[SpecialChoice | None]) -> AnySplitter:
        """Do the same for the two options as they were given: without them, all special tokens are found."""
        return self.splitter_for(texts, *special) if _are_chosen(special) else self.encoder.splitter

    def encode(self, text: str | bytes, *special: SpecialChoice | None) -> Array:
        """Return the ids of a text as uint32 [tokens]; the options are the same as for `bpejit.Tokenizer.encode`."""
        return self._encoded(self.encoder.encode, text, special)

    def encode_list(self, text: str | bytes, *special: SpecialChoice | None) -> list[int]:
        """Return the ids of a text as a list, in less time than `encode` if the text is short."""
        return self._encoded(self.encoder.encode_list, text, special)

    def _encoded(self, call: Callable[..., _Ids], text: str | bytes, special: tuple[SpecialChoice | None, ...]) -> _Ids:
        data: Any = text
        if not isinstance(text, str):
            data = arguments.as_bytes("text", text)
        elif len(text) < _LONG_STRING:
            data = encode_utf8(text)
        splitter = self.chosen_splitter([text if isinstance(text, str) else data], special)
        # `workspace()` written out: for a short text a context manager takes as long as the encoding.
        try:
            workspace = self._workspaces.pop()
        except IndexError:
            workspace = self.encoder.new_workspace()
        try:
            ids = call(data, workspace, splitter)
        finally:
            self._workspaces.append(workspace)
        if self.carriage_returns is not None:
            self.carriage_returns.check(ids)
        return ids

    def encode_long(self, text: str | bytes, num_threads: int, *special: SpecialChoice | None) -> Array:
        """Return the ids of a text as `encode` does, with several threads if the text is long and can be divided."""
        data = arguments.as_bytes("text", text)
        n_threads = threads_for(len(data), num_threads)
        if n_threads == 1:
            return self.encode(text, *special)
        data, splitter = prepared(data, self.chosen_splitter([data], special))
        if not isinstance(splitter, Splitter) or splitter.automaton is None:
            return self.encode(text, *special)
        plain = splitter

        def run(part: range, workspace: Workspace) -> Array:
            return self.encoder.encode_part(data, part, workspace, plain)

        return self.watched(encode_parts(run, self.workspace, parts_of(plain, data, n_threads), data, n_threads))

    def count(self, text: str | bytes, *special: SpecialChoice | None) -> int:
        """Return the number of ids of a text; the options are the same as for `encode`."""
        data: Any = text if isinstance(text, str) else arguments.as_bytes("text", text)
        return self.count_by(data, self.chosen_splitter([data], special))

    def count_by(self, text: str | bytes, splitter: AnySplitter) -> int:
        """Return the number of ids of a text with a splitter."""
        with self.workspace() as workspace:
            if len(text) <= TEXT_BYTES:
                data = encode_utf8(text) if isinstance(text, str) else text
                return self.watched(self.encoder.encode(data, workspace, splitter)).size
            return sum(self.watched(ids).size for ids in self.encoder.blocks(text, workspace, splitter))

    def watched(self, ids: Array) -> Array:
        """Return ids after a check for carriage returns."""
        if self.carriage_returns is not None:
            self.carriage_returns.check(ids)
        return ids

    def count_batch(self, texts: Iterable[str | bytes], num_threads: int = 1, *special: SpecialChoice | None) -> Array:
        """Return the number of ids of each of several texts, as int64 [texts]; the parameters are those of `encode_batch`."""
        given, splitter = self._batch(texts, special)

        def run(workspace: Workspace, part: range) -> Array:
            return self.encoder.count_batch(given, workspace, splitter, part, use_ids=self.watched)

        parts, n_threads = divide(given, num_threads, [])
        return np.concatenate(self._run_parts(run, parts, n_threads))

    def encode_batch(self, texts: Iterable[str | bytes], num_threads: int = 1, *special: SpecialChoice | None) -> EncodedBatch:
        """Return the ids of several texts in one array, with the start of each text.

        The parameters are those of `bpejit.Tokenizer.encode_batch`.
        """
        given, splitter = self._batch(texts, special)

        def run(workspace: Workspace, part: range) -> EncodedBatch:
            batch = self.encoder.encode_batch(given, workspace, splitter, part)
            self.watched(batch.ids)
            return batch

        long = long_texts(given, num_threads)
        parts, n_threads = divide(given, num_threads, long)
        found = self._run_parts(run, parts, n_threads)
        if len(parts) == 1 and not long:
            return found[0]
        batches = dict(zip((part.start for part in parts), found, strict=True))
        for index in long:
            ids = self.encode_long(given[index], num_threads, *special)
            batches[index] = EncodedBatch(ids, np.array([0, ids.size]))
        return join_batches([batch for _, batch in sorted(batches.items())])

    def _batch(self, texts: Iterable[str | bytes], special: Iterable[SpecialChoice | None]) -> tuple[Any, AnySplitter | None]:
        """Return texts as a list or tuple, and the splitter for them, None for the default one."""
        # Copying a list visits each of its strings, which takes a twentieth of the time of short texts.
        given: Any = texts if type(texts) in (list, tuple) else list(arguments.texts("texts", texts))
        if not _are_chosen(special):
            return given, None
        given = as_texts(given, 0)
        return given, self.splitter_for(given, *special)

    def _run_parts(self, run: Callable[[Workspace, range], _Result], parts: list[range], n_threads: int) -> list[_Result]:
        """Return what `run` returns for each part of a batch."""

        def run_part(part: range) -> _Result:
            with self.workspace() as workspace:
                return run(workspace, part)

        if len(parts) == 1:
            return [run_part(parts[0])]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(run_part, parts))

    def locate(self, text: str | bytes, *special: SpecialChoice | None) -> tuple[TokenOffsets, PreTokenizedText | None]:
        """Return the ids of a text with their offsets, and the prepared text, which is None if it is the text itself."""
        from bpejit.encoding.offsets import token_offsets  # not at the top: loading does not need it

        encoder = self.encoder
        text = arguments.as_bytes("text", text)
        if not isinstance(encoder.splitter, Splitter):
            pipeline: AnySplitter = encoder.splitter
            if _are_chosen(special):
                pipeline = self.splitter_for([text], *special)
            data = encode_utf8(text) if isinstance(text, str) else text
            symbols = self.model.symbols
            # Then an id does not tell how many bytes it covers.
            aligns = self.model.decoder != "" or (symbols is not None and (symbols.unknown is not None or bool(symbols.shared)))
            if not isinstance(pipeline, Splitter) and (aligns or not pipeline.is_noop(data)):
                with self.workspace() as workspace:
                    ids, prepared = encoder.encode_aligned(data, workspace, pipeline)
                return token_offsets(ids, encoder.lengths_in(ids, prepared), [text], prepared), prepared
        ids = self.encode(text, *special)
        return token_offsets(ids, encoder.token_lengths(ids), [text]), None

    def locate_batch(
        self, texts: Sequence[str], *special: SpecialChoice | None
    ) -> tuple[TokenOffsets, Array, dict[int, PreTokenizedText]]:
        """Return the ids of several texts, one text after the other, with their offsets.

        Returns
        -------
        offsets : TokenOffsets
            Each token's offsets are those in its text.
        starts : int64 [texts + 1]
            Index of the first token of each text, and the number of tokens.
        changed : dict of int to PreTokenizedText
            The prepared texts of those texts that a pipeline changed.
        """
        from bpejit.encoding.offsets import batch_offsets, joined_offsets

        if isinstance(self.encoder.splitter, Splitter):
            try:
                data = "".join(texts).encode()
            except UnicodeEncodeError:  # half of a surrogate pair
                pass
            else:
                batch = self.encode_batch(texts, 1, *special)
                lengths = self.encoder.token_lengths(batch.ids)
                return batch_offsets(batch.ids, batch.starts, lengths, texts, data), batch.starts, {}
        located = [self.locate(text, *special) for text in texts]
        found, prepared = zip(*located, strict=True) if texts else ((), ())
        starts = np.cumsum([0, *(one.ids.size for one in found)], dtype=np.int64)
        return joined_offsets(found), starts, {row: one for row, one in enumerate(prepared) if one is not None}

    def decode_bytes(self, ids: Iterable[int] | Array) -> bytes:
        """Return the bytes of ids.

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary.
        """
        given = ids if isinstance(ids, (np.ndarray, list)) else list(arguments.ids("ids", ids))
        encoder = self.encoder
        return encoder.decode(given) if encoder.rule is None else encoder.rule.bytes_of(given)

    def decode(self, ids: Iterable[int] | Array, *, errors: str = "replace", skip_special_tokens: bool = False) -> str:
        """Return the text of ids, with or without special tokens; `errors` is the one of `bytes.decode`."""
        if type(errors) is not str or errors != "replace":
            errors = arguments.error_handler("errors", errors)
        if skip_special_tokens:
            ids = self.encoder.without_special(arguments.ids("ids", ids))
        encoder = self.encoder
        if encoder.rule is not None:
            return encoder.rule.text_of(list(arguments.ids("ids", ids)), errors)
        return self.decode_bytes(ids).decode("utf-8", errors=errors)


def warm_encoding() -> None:
    """Call each kernel of encoding and decoding once, so that it is compiled; counting has that of `find_cut`."""
    tokens = [*(bytes([byte]) for byte in range(256)), b"lo", b"low"]
    codec = Codec(
        Model(
            dict(enumerate(tokens)),
            [(b"l", b"o"), (b"lo", b"w")],
            {"<|endoftext|>": len(tokens)},
        )
    )
    encoder = codec.encoder
    encoder.decode(codec.encode_list(WARMING_TEXT))
    codec.encode_batch([WARMING_TEXT]).tolist()
    sum(map(len, encode_slices("é" * STRING_SLICE)))
    stream = encoder.stream()
    list_of(stream.feed(WARMING_TEXT[:100]))
    stream.finish()
