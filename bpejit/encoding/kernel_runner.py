"""Run the encoding kernels to completion: enlarge outputs and scratch space when a kernel asks for more.

For a sentence, the kernel takes a third of a microsecond, and checking and packing its arguments three times as long. So a call
for short texts is prepared once for each workspace. The text is copied to the same buffer each time, and only its length is
replaced.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bpejit.arrays import Array
from bpejit.encoding.workspace import SHORT_TEXT_BYTES, Workspace
from bpejit.errors import CorpusError, shorten, warn_user
from bpejit.jit.dispatch import addresses_of, bind
from bpejit.kernels.constants import DONE, NEED_SCRATCH, POSITION_MASK
from bpejit.kernels.encoding import pretoken_cache, span_encoding as kernels
from bpejit.kernels.encoding.encoder_arrays import EncoderTables, WorkspaceArrays
from bpejit.kernels.encoding.interleaved_merging import GAP, MAX_DEFERRED
from bpejit.kernels.encoding.string_encoding import LIMIT, STOP, make_string_encoder
from bpejit.kernels.encoding.text_encoding import encode_text
from bpejit.kernels.splitting.automaton_arrays import SplitAutomaton
from bpejit.kernels.splitting.spans import NEED_CALL
from bpejit.model import Model
from bpejit.splitting import Splitter

if TYPE_CHECKING:
    from bpejit.normalization.pipeline import TextPipeline

BytesLike: TypeAlias = "bytes | bytearray | memoryview | Array"

AnySplitter: TypeAlias = "Splitter | TextPipeline"
"""Splits text into spans; a TextPipeline may change the text as well."""

_NO_PATTERN = np.zeros(2 * len(SplitAutomaton._fields), np.int64)
"""Addresses of an empty pattern, for text that is already split."""

_ENDS = 2 * WorkspaceArrays._fields.index("ends")
"""Where the address of the ends of spans is among those of a workspace."""

_BLOCK_PADDING = 128
"""Bytes after the text buffer: local rules read blocks of 64 bytes and the characters next to them."""

_ROOM = 4 * SHORT_TEXT_BYTES
"""Bytes that the characters of a short text take at most: whether they take fewer is known when they are written."""

_OUT_WORDS = SHORT_TEXT_BYTES + kernels.OUT_SLACK + GAP * MAX_DEFERRED
"""With room for gaps, so that several new pre-tokens of a text are merged together: 0.6 to 1 of 4.5 microseconds for 490 bytes
that have 2.4 of them.
"""


class KernelRunner:
    """Run the kernels with the tables of one model.

    All `run_*` methods append ids to `out` at `progress[N_OUT]`, and return `out`, or a larger array that replaces it.
    """

    def __init__(self, model: Model, tables: EncoderTables) -> None:
        self._missing_bytes = model.missing_bytes
        self._unknown_token = "" if model.symbols is None else model.symbols.unknown_token
        self._tables = tables
        self.addresses = addresses_of(tables)

    def run_text(
        self,
        workspace: Workspace,
        automaton: Array,
        text: Array,
        limit: int,
        stop: int,
        final: bool,
        fresh: bool,
        out: Array,
        *,
        ends: Array | None = None,
    ) -> Array:
        """Split and encode a text: call the kernel `encode_text`, whose parameters are the same, until it is done.

        `ends` are those of spans that are split already.
        """
        progress = workspace.progress
        while True:
            arrays = workspace.addresses
            if ends is not None:
                arrays = arrays.copy()
                arrays[_ENDS : _ENDS + 2] = addresses_of((ends,))
            status = encode_text(text, limit, stop, final, fresh, automaton, self.addresses, arrays, out)
            if status == DONE:
                return out
            fresh = False
            if status == NEED_SCRATCH:
                workspace.grow_scratch()
                continue
            done, left = int(progress[pretoken_cache.N_OUT]), limit - int(progress[pretoken_cache.NEXT_START])
            # At least half as large again, more if much text is left. A pre-token that needs still more takes several rounds.
            larger = np.empty(out.size + out.size // 2 + left // 4 + kernels.OUT_SLACK, np.uint32)
            larger[:done] = out[:done]
            out = larger

    def run_texts(
        self, workspace: Workspace, automaton: Array, text: Array, n_bytes: int, out: Array, *, n: int = 0, separator: int = -1
    ) -> Array:
        """Split and encode several texts in `text[:n_bytes]`, each by itself.

        These are `n` texts, which end at `WorkspaceArrays.document_stops`; or there is a separator after each, whose id no
        other pre-token has, and `automaton` has addresses of a `SeparatedAutomaton`. The end of the ids of each is stored in
        `WorkspaceArrays.id_stops`.
        """
        progress = workspace.progress
        progress[pretoken_cache.N_DOCUMENTS], progress[pretoken_cache.SEPARATOR_ID] = n, separator + 1
        try:
            return self.run_text(workspace, automaton, text, n_bytes, n_bytes, True, True, out)
        finally:
            progress[pretoken_cache.N_DOCUMENTS] = progress[pretoken_cache.SEPARATOR_ID] = 0

    def run_chunk(
        self, workspace: Workspace, splitter: AnySplitter, text: Array, cut: int, stop: int, final: bool, out: Array
    ) -> Array:
        """Prepare, split and encode a text up to `cut`, or up to `stop` if it is `final`, with a splitter of any kind."""
        if isinstance(splitter, Splitter):
            if splitter.automaton is None:
                return self.run_spans(workspace, text, splitter.split(text, cut), out)
        else:
            data = text[:stop].tobytes()
            if not splitter.is_noop(data):
                prepared, ends = splitter.run(data, None if final else cut)
                return self.run_spans(workspace, prepared, ends, out)
        return self.run_text(workspace, splitter.addresses, text, cut, stop, final, True, out)

    def run_spans(self, workspace: Workspace, text: Array, ends: Array, out: Array) -> Array:
        """Encode spans, the first of which starts at byte 0.

        They are passed to `encode_text` as if it had just split them, with nothing left to split. A separate kernel for spans
        would take a sixth of the compilation time of a first run.
        """
        if not ends.size:
            return out
        ends = np.ascontiguousarray(ends, np.uint32)  # a kernel cannot check the type of an array passed by address
        progress = workspace.progress
        progress[pretoken_cache.NEXT_START] = 0
        progress[pretoken_cache.NEXT_SPAN] = 0
        progress[pretoken_cache.N_SPANS] = ends.size
        workspace.split_state[NEED_CALL] = 0
        n_bytes = int(ends[-1]) & POSITION_MASK
        out = self.run_text(workspace, _NO_PATTERN, text, n_bytes, n_bytes, False, False, out, ends=ends)
        progress[pretoken_cache.NEXT_SPAN] = 0
        progress[pretoken_cache.N_SPANS] = 0
        return out

    def finished(self, workspace: Workspace, out: Array) -> Array:
        """Return the ids that were appended to `out`, after `check_ids`."""
        return self.check_ids(out[: workspace.progress[pretoken_cache.N_OUT]])

    def check_ids(self, ids: Array) -> Array:
        """Return `ids`; raise CorpusError if the text contained a byte that is not in the vocabulary."""
        if self._missing_bytes and (ids == kernels.NO_ID).any():
            if self._unknown_token:
                raise CorpusError(
                    f"the text has a character that is not in this vocabulary, and neither is the `unk_token` "
                    f"{shorten(self._unknown_token)}; expected characters of the vocabulary: clean the text, or add the "
                    "token to the vocabulary"
                )
            shown = ", ".join(f"0x{byte:02x}" for byte in self._missing_bytes)
            raise CorpusError(
                f"the text has a byte that this vocabulary has no token for, one of {shown}; expected valid UTF-8, which has "
                "none of them: clean the text, or decode and encode it with errors='replace'"
            )
        return ids


class CarriageReturns:
    r"""Give one warning when ids have a carriage return.

    Training with `normalize_newlines` replaces `\r\n` and `\r` by `\n`, so no token but the byte itself has a carriage return.
    The ids of other texts are right, but there are more of them than the vocabulary would need.
    """

    def __init__(self, model: Model) -> None:
        self._id: int | None = model.ids[b"\r"]

    @classmethod
    def of(cls, model: Model) -> CarriageReturns | None:
        """Return an object for a model that was trained so, and None for others."""
        return cls(model) if model.training.get("normalize_newlines") is True else None

    def check(self, ids: Array | Sequence[int]) -> None:
        """Warn if the byte is among ids, the first time that it is."""
        if self._id is not None and self._id in ids:
            self._id = None
            warn_user(
                "the text has carriage returns, and the tokenizer was trained with `normalize_newlines`, so each of them is a "
                "token of its own; convert the line ends to newlines first, or train without this option"
            )

    def checked(self, blocks: Iterable[Array]) -> Iterator[Array]:
        """Yield arrays of ids after checking them."""
        for ids in blocks:
            self.check(ids)
            yield ids


class ShortTextCall:
    """A prepared call of the kernel for texts of up to SHORT_TEXT_BYTES.

    It is valid for the current arrays of its workspace, and for one splitter, which has an automaton. It is used with the
    workspace, by one thread at a time.

    Attributes
    ----------
    splitter : Splitter
    ids : array of uint32
        The ids of the last text, and after them undefined values. `array.array` converts them to a list in half the time of
        NumPy.
    out : uint32 array
        The same memory.
    """

    __slots__ = ("_call", "_progress", "_run", "_text", "_view", "_words", "ids", "out", "splitter")

    def __init__(self, runner: KernelRunner, splitter: AnySplitter, workspace: Workspace) -> None:
        self.splitter = splitter
        self.ids = array.array("I", bytes(4 * _OUT_WORDS))
        self.out = np.frombuffer(self.ids, np.uint32)
        text = np.zeros(_ROOM + _BLOCK_PADDING, np.uint8)
        self._view = memoryview(text)  # type: ignore[arg-type]
        self._progress = memoryview(workspace.progress)  # type: ignore[arg-type]
        self._text = text
        tables, arrays = runner.addresses, workspace.addresses
        self._call = bind(encode_text, text, 0, 0, True, True, splitter.addresses, tables, arrays, self.out)
        self._run = self._call.run
        self._words = self._call.words

    def run(self, data: BytesLike, cut: int = -1) -> int:
        """Encode a text; return the number of ids written to `out`, or -1 if it has to be encoded in another way.

        That is also the case once after the cache of the workspace was cleared, so that it can grow.

        After `cut`, if it is given, the text only completes the last pre-token before it.
        """
        n_bytes = len(data)
        self._view[:n_bytes] = data  # type: ignore[assignment]
        words = self._words
        words[LIMIT] = n_bytes if cut < 0 else cut
        words[STOP] = n_bytes
        progress = self._progress
        clears = progress[pretoken_cache.CLEARS] + progress[pretoken_cache.LONG_CLEARS]
        if clears > progress[pretoken_cache.CLEARS_SEEN]:
            return -1
        progress[pretoken_cache.N_OUT] = 0
        if self._run() != DONE:
            return -1
        n_ids: int = progress[pretoken_cache.N_OUT]
        return n_ids

    def on_strings(
        self, workspace: Workspace, pool: list[Any], limit: int, ascii_only: bool, *, as_array: bool
    ) -> Callable[[object], Any] | None:
        """Return a builtin function that does the same for strings, and returns a list of ids, or an array.

        It takes any object, and returns None if that has to be encoded in another way: if the text has an id from `limit` on,
        if it is not ASCII and `ascii_only` is True, or while the workspace, whose only user is this call, is not in the pool.
        The arguments and this object must outlive it. The result is None if such functions are not possible (see
        `bpejit.jit.methods`).
        """
        text = self._text[:_ROOM]
        return make_string_encoder(self._call, text, self.out, workspace.progress, pool, workspace, limit, ascii_only, as_array)
