"""Run the encoding kernels to completion: enlarge outputs and scratch space when a kernel asks for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bpejit.arrays import Array
from bpejit.encoding.workspace import Workspace
from bpejit.errors import CorpusError
from bpejit.jit.dispatch import BoundCall, bind
from bpejit.kernels.common.array_addresses import addresses_of
from bpejit.kernels.constants import DONE, NEED_SCRATCH, POSITION_MASK
from bpejit.kernels.encoding import pretoken_cache, span_encoding as kernels
from bpejit.kernels.encoding.encoder_arrays import EncoderTables
from bpejit.kernels.encoding.text_encoding import encode_text
from bpejit.kernels.splitting.automaton_arrays import SplitAutomaton
from bpejit.kernels.splitting.spans import NEED_CALL
from bpejit.model import Model
from bpejit.splitting import Splitter

if TYPE_CHECKING:
    from bpejit.normalization import TextPipeline

AnySplitter: TypeAlias = "Splitter | TextPipeline"
"""Splits text into spans; a TextPipeline may change the text as well."""

_NO_PATTERN = np.zeros(2 * len(SplitAutomaton._fields), dtype=np.int64)
"""Addresses of an empty pattern, for text that is already split."""


class KernelRunner:
    """Run the kernels with the tables of one model.

    All `run_*` methods append ids to `out` at `progress[N_OUT]`, and return `out`, or a larger array that replaces it.

    Parameters
    ----------
    model : Model
    tables : EncoderTables
    """

    def __init__(self, model: Model, tables: EncoderTables) -> None:
        self._missing_bytes = model.missing_bytes
        self._tables = tables
        self._addresses = addresses_of(tables)

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
    ) -> Array:
        """Split and encode a text; the parameters are the same as for the kernel `encode_text`."""
        tables = self._addresses
        while True:
            status = encode_text(text, limit, stop, final, fresh, automaton, tables, workspace.addresses, out)
            if status == DONE:
                return out
            fresh = False
            out = self._enlarge(workspace, status, out, limit)

    def bind_text(self, workspace: Workspace, automaton: Array, text: Array, out: Array) -> BoundCall:
        """Return a prepared call of `encode_text` for all of a text, whose length is its second and its third argument."""
        return bind(encode_text, text, 0, 0, True, True, automaton, self._addresses, workspace.addresses, out)

    def run_documents(self, workspace: Workspace, automaton: Array, text: Array, n_documents: int, out: Array) -> Array:
        """Split and encode the documents in `text`, which end at `WorkspaceArrays.document_stops`.

        The end of the ids of each is stored in `WorkspaceArrays.id_stops`.
        """
        arrays, progress = workspace.arrays, workspace.progress
        stop = int(arrays.document_stops[n_documents - 1])
        progress[pretoken_cache.N_DOCUMENTS] = n_documents
        fresh = True
        try:
            while True:
                status = encode_text(text, 0, 0, True, fresh, automaton, self._addresses, workspace.addresses, out)
                if status == DONE:
                    return out
                fresh = False
                out = self._enlarge(workspace, status, out, stop)
        finally:
            progress[pretoken_cache.N_DOCUMENTS] = 0

    def run_separated(
        self, workspace: Workspace, automaton: Array, text: Array, n_bytes: int, separator: int, out: Array
    ) -> Array:
        """Split and encode several texts in `text[:n_bytes]`, with a separator after each.

        The end of the ids of each is stored in `WorkspaceArrays.id_stops`.

        Parameters
        ----------
        automaton : int64 [26]
            The addresses of a `SeparatedAutomaton`.
        separator : int
            The id of a separator, which no other pre-token contains.
        """
        progress = workspace.progress
        progress[pretoken_cache.SEPARATOR_ID] = separator + 1
        try:
            return self.run_text(workspace, automaton, text, n_bytes, n_bytes, True, True, out)
        finally:
            progress[pretoken_cache.SEPARATOR_ID] = 0

    def run_pipeline(
        self, workspace: Workspace, pipeline: TextPipeline, text: Array, cut: int, stop: int, final: bool, out: Array
    ) -> Array:
        """Prepare, split and encode a text up to `cut`, or up to `stop` if it is `final`."""
        data = text[:stop].tobytes()
        if pipeline.is_noop(data):
            return self.run_text(workspace, pipeline.addresses, text, cut, stop, final, True, out)
        prepared, ends = pipeline.run(data, None if final else cut)
        return self.run_spans(workspace, prepared, ends, out)

    def run_spans(self, workspace: Workspace, text: Array, ends: Array, out: Array) -> Array:
        """Encode spans, the first of which starts at byte 0.

        They are passed to `encode_text` as if it had just split them, with nothing left to split. A separate kernel for spans
        would take a sixth of the compilation time of a first run.
        """
        if not ends.size:
            return out
        ends = np.ascontiguousarray(ends, dtype=np.uint32)  # a kernel cannot check the type of an array passed by address
        progress = workspace.progress
        progress[pretoken_cache.NEXT_START] = 0
        progress[pretoken_cache.NEXT_SPAN] = 0
        progress[pretoken_cache.N_SPANS] = ends.size
        workspace.split_state[NEED_CALL] = 0
        while True:
            arrays = addresses_of(workspace.arrays._replace(ends=ends))
            status = encode_text(text, 0, 0, False, False, _NO_PATTERN, self._addresses, arrays, out)
            if status == DONE:
                break
            out = self._enlarge(workspace, status, out, int(ends[-1]) & POSITION_MASK)
        progress[pretoken_cache.NEXT_SPAN] = 0
        progress[pretoken_cache.N_SPANS] = 0
        return out

    def check_ids(self, ids: Array) -> Array:
        """Return `ids`; raise CorpusError if the text contained a byte that is not in the vocabulary."""
        if self._missing_bytes and (ids == kernels.NO_ID).any():
            shown = ", ".join(f"0x{byte:02x}" for byte in self._missing_bytes)
            raise CorpusError(
                f"the text has a byte that this vocabulary has no token for, one of {shown}; expected valid UTF-8, which has "
                "none of them: clean the text, or decode and encode it with errors='replace'"
            )
        return ids

    @staticmethod
    def _enlarge(workspace: Workspace, status: int, out: Array, stop: int) -> Array:
        """Enlarge what the kernel ran out of; return `out`, or a larger array that replaces it."""
        if status == NEED_SCRATCH:
            workspace.grow_scratch()
            return out
        done = int(workspace.progress[pretoken_cache.N_OUT])
        left = stop - int(workspace.progress[pretoken_cache.NEXT_START])
        # At least half as large again, and more if much text is left. A pre-token that needs still more takes several rounds.
        larger = np.empty(out.size + out.size // 2 + left // 4 + kernels.OUT_SLACK, dtype=np.uint32)
        larger[:done] = out[:done]
        return larger
